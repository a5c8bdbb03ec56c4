//! Finds out whether a store has changed during a search: whether one load had two levels of throughput.

use std::collections::BTreeMap;

use plimsoll_judge::summary::result::{CapacityChange, CapacityStep};

use super::step::DISTURBED_SHARE;

/// Least ratio of two levels of throughput. The steps of a store that does not change differ by less.
pub const CHANGED: f64 = 1.25;

/// Returns true if every value of one side exceeds every value of the other by [`CHANGED`].
pub fn differ(before: &[f64], after: &[f64]) -> bool {
    let low = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    low(after) >= CHANGED * high(before) || low(before) >= CHANGED * high(after)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the largest change of the throughput of one concurrency, from its earlier to its later steps; `None` if
/// there is none. Steps that the client has disturbed do not count.
pub fn change<'a>(steps: impl Iterator<Item = &'a CapacityStep>) -> Option<CapacityChange> {
    let mut loads: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for step in steps.filter(|step| step.client_limited.is_none() && step.paused_share <= DISTURBED_SHARE) {
        if let Some(in_flight) = step.in_flight {
            loads.entry(in_flight).or_default().push(step.achieved_per_s);
        }
    }
    let splits = loads.iter().flat_map(|(in_flight, per_s)| {
        (1..per_s.len()).map(|at| per_s.split_at(at)).filter(|(a, b)| differ(a, b)).map(|(a, b)| {
            CapacityChange { in_flight: *in_flight, before_per_s: mean(a), after_per_s: mean(b) }
        })
    });
    let size =
        |change: &CapacityChange| (change.after_per_s.max(1e-9) / change.before_per_s.max(1e-9)).ln().abs();
    splits.max_by(|a, b| size(a).total_cmp(&size(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(in_flight: u64, achieved_per_s: f64) -> CapacityStep {
        CapacityStep { in_flight: Some(in_flight), achieved_per_s, ..CapacityStep::default() }
    }

    #[test]
    fn a_load_with_two_levels_shows_a_change_and_one_that_varies_does_not() {
        let steps = [(4, 1470.0), (8, 1400.0), (4, 160.0), (4, 140.0)].map(|(n, per_s)| step(n, per_s));
        let found = change(steps.iter()).unwrap();
        assert_eq!((found.in_flight, found.before_per_s, found.after_per_s), (4, 1470.0, 150.0));
        let steps = [100.0, 130.0, 95.0, 120.0].map(|per_s| step(4, per_s));
        assert_eq!(change(steps.iter()), None);
        let limited = CapacityStep { client_limited: Some("cpu".into()), ..step(4, 10.0) };
        assert_eq!(change([step(4, 100.0), limited].iter()), None);
    }
}
