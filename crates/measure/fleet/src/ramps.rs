//! Ramps of a fleet: a ramp ends when the sum of all nodes reaches its plateau, which no node can see alone.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_workload::schedule::plan::{EndedRamp, RampId, RampStep};
use plimsoll_workload::schedule::plateau::plateau;

/// Throughput of a node in one step, and the share of its network link.
type OfNode = (f64, Option<f64>);

/// Steps that nodes have reported.
#[derive(Debug, Default)]
pub struct Ramps {
    steps: BTreeMap<RampId, BTreeMap<usize, BTreeMap<u64, OfNode>>>,
    ended: BTreeSet<RampId>,
}

impl Ramps {
    /// Adds a step of a node. Returns the end of the ramp if all nodes in `alive` have reported this step, and
    /// their sum has reached its plateau. A node that was lost counts in no step, so that its loss looks like no drop.
    pub fn report(&mut self, node: u64, step: &RampStep, alive: &BTreeSet<u64>) -> Option<EndedRamp> {
        let steps = self.steps.entry(step.ramp).or_default();
        steps.entry(step.step).or_default().insert(node, (step.throughput, step.link));
        if self.ended.contains(&step.ramp) {
            return None;
        }
        let mut sums = Vec::new();
        let mut link = None;
        for (at, nodes) in (0..).zip(steps.iter()) {
            let known: Vec<OfNode> = alive.iter().filter_map(|node| nodes.1.get(node).copied()).collect();
            if *nodes.0 != at || known.len() < alive.len() {
                break;
            }
            sums.push(known.iter().map(|(throughput, _)| throughput).sum::<f64>());
            let shares: Vec<f64> = known.iter().filter_map(|(_, share)| *share).collect();
            link = (shares.len() == known.len()).then(|| shares.iter().sum::<f64>() / shares.len() as f64);
        }
        let reason = plateau(&sums, link)?;
        self.ended.insert(step.ramp);
        Some(EndedRamp { steps: sums.len(), reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_workload::schedule::plateau::Plateau;

    const RAMP: RampId = RampId { store: 0, phase: 1, repeat: 0 };

    fn step(step: usize, throughput: f64) -> RampStep {
        RampStep { ramp: RAMP, step, throughput, link: None }
    }

    #[test]
    fn a_ramp_ends_at_the_plateau_of_the_sum() {
        let (mut ramps, both) = (Ramps::default(), BTreeSet::from([0, 1]));
        // Each node alone would end its ramp: one falls, the other gains nothing.
        for (number, (first, second)) in
            [(100.0, 100.0), (80.0, 160.0), (80.0, 220.0)].into_iter().enumerate()
        {
            assert_eq!(ramps.report(0, &step(number, first), &both), None);
            assert_eq!(ramps.report(1, &step(number, second), &both), None);
        }
        assert_eq!(ramps.report(0, &step(3, 85.0), &both), None);
        assert_eq!(ramps.report(1, &step(3, 220.0), &both), None, "one small gain is not enough");
        assert_eq!(ramps.report(1, &step(4, 220.0), &both), None, "the other node has not reported");
        let end = ramps.report(0, &step(4, 85.0), &both);
        assert_eq!(end, Some(EndedRamp { steps: 5, reason: Plateau::NoGain }));
        assert_eq!(ramps.report(0, &step(5, 1.0), &both), None, "a ramp ends once");
    }

    #[test]
    fn a_lost_node_is_no_drop() {
        let (mut ramps, both) = (Ramps::default(), BTreeSet::from([0, 1]));
        assert_eq!(ramps.report(0, &step(0, 100.0), &both), None);
        assert_eq!(ramps.report(1, &step(0, 100.0), &both), None);
        assert_eq!(ramps.report(1, &step(1, 150.0), &BTreeSet::from([1])), None);
    }
}
