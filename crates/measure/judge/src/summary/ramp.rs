//! The plateau figure and the knee of a finished ramp. The rule that ends a ramp is in `schedule::plateau`.

use super::result::{RampFigures, Window};
use plimsoll_workload::schedule::Role;
use plimsoll_workload::schedule::plateau::{Plateau, plateau as rule};

/// Steps whose throughput is at least this share of the highest throughput make up the plateau.
const PLATEAU_SHARE: f64 = 0.95;

/// Reason why a ramp ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RampEnd {
    /// The rule found the plateau.
    Plateau(Plateau),
    /// All steps were executed, or the run was interrupted.
    NoPlateau,
    /// Another tool ended the ramp and wrote its log.
    Imported,
}

impl RampEnd {
    /// Returns a description of the reason, for reports.
    pub fn describe(self) -> String {
        match self {
            RampEnd::Plateau(plateau) => plateau.describe(),
            RampEnd::NoPlateau => "no plateau was reached".into(),
            RampEnd::Imported => "ended by the tool that wrote the log".into(),
        }
    }
}

/// Returns the throughput of a step: bytes per second, or operations per second if the operation transfers no content.
fn throughput(window: &Window) -> f64 {
    if window.throughput_bytes_per_s > 0.0 { window.throughput_bytes_per_s } else { window.achieved_per_s }
}

/// Returns the figures of all ramps among `windows`, one entry per store, phase, repeat and operation. `ended`
/// returns the reason why a ramp ended, given the window of its first step.
pub fn of_windows(windows: &[Window], ended: impl Fn(&Window) -> RampEnd) -> Vec<RampFigures> {
    let same = |a: &Window, b: &Window| {
        (&a.store, &a.phase, a.repeat, &a.operation) == (&b.store, &b.phase, b.repeat, &b.operation)
    };
    let mut ramps: Vec<Vec<&Window>> = Vec::new();
    for window in windows.iter().filter(|w| w.step.is_some() && w.role == Role::Measure) {
        match ramps.iter_mut().find(|steps| same(steps[0], window)) {
            Some(steps) => steps.push(window),
            None => ramps.push(vec![window]),
        }
    }
    ramps.iter().filter_map(|steps| figures(steps, ended(steps[0]))).collect()
}

/// Returns the figures of one ramp and operation from the windows of its steps. `ended` is the reason why the
/// ramp ended.
///
/// The plateau is the mean throughput X_max of the steps within 5% of the best one. The knee is the number of
/// operations in flight at which the store would reach the plateau if every operation were as fast as in the
/// fastest step: `N* = X_max * min(N / X)`, the intersection of the two asymptotes of a closed system (Denning
/// and Buzen, "The operational analysis of queueing network models", ACM Computing Surveys 10(3), 1978). N is
/// the mean number of operations in flight over time.
fn figures(steps: &[&Window], ended: RampEnd) -> Option<RampFigures> {
    let first = steps.first()?;
    let best = steps.iter().map(|w| throughput(w)).fold(0.0, f64::max);
    if best <= 0.0 {
        return None;
    }
    let flat: Vec<f64> = steps.iter().map(|w| throughput(w)).filter(|x| *x >= PLATEAU_SHARE * best).collect();
    let plateau = flat.iter().sum::<f64>() / flat.len() as f64;
    let quickest = steps
        .iter()
        .filter(|w| w.in_flight_mean > 0.0 && throughput(w) > 0.0)
        .map(|w| w.in_flight_mean / throughput(w))
        .fold(f64::INFINITY, f64::min);
    let all: Vec<f64> = steps.iter().map(|w| throughput(w)).collect();
    let reached =
        ended == RampEnd::Plateau(Plateau::Link) || (1..=all.len()).any(|n| rule(&all[..n], None).is_some());
    // If the first step is already on the plateau, no step shows the store below saturation, so the knee is unknown.
    let known = reached && quickest.is_finite() && all[0] < PLATEAU_SHARE * best;
    Some(RampFigures {
        store: first.store.clone(),
        phase: first.phase.clone(),
        repeat: first.repeat,
        operation: first.operation,
        steps: steps.len() as u32,
        end_reason: ended.describe(),
        plateau_bytes_per_s: (first.throughput_bytes_per_s > 0.0).then_some(plateau),
        plateau_per_s: steps
            .iter()
            .filter(|w| throughput(w) >= PLATEAU_SHARE * best)
            .map(|w| w.achieved_per_s)
            .sum::<f64>()
            / flat.len() as f64,
        reached,
        knee_in_flight: known.then_some(plateau * quickest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A closed system with 20 ms per operation and a limit of 2,000 operations of 1 MB per second has its knee
    /// at 40 in flight.
    #[test]
    fn a_known_knee_is_found_between_steps() {
        let step = |n: f64| {
            let per_s = (n / 0.020).min(2_000.0);
            Window {
                in_flight_mean: n,
                achieved_per_s: per_s,
                throughput_bytes_per_s: per_s * 1e6,
                ..Window::default()
            }
        };
        let steps: Vec<Window> = [8.0, 24.0, 56.0, 72.0, 88.0].map(step).to_vec();
        let found = figures(&steps.iter().collect::<Vec<_>>(), RampEnd::NoPlateau).unwrap();
        assert!((found.knee_in_flight.unwrap() - 40.0).abs() < 1e-6, "{found:?}");
        assert!((found.plateau_bytes_per_s.unwrap() - 2e9).abs() < 1.0);
        assert_eq!(figures(&[], RampEnd::NoPlateau), None);
        let below = figures(&steps[..2].iter().collect::<Vec<_>>(), RampEnd::NoPlateau).unwrap();
        assert_eq!((below.reached, below.knee_in_flight), (false, None), "two growing steps have no plateau");
        let above = figures(&[&steps[2], &steps[3], &steps[3]], RampEnd::NoPlateau).unwrap();
        assert_eq!((above.reached, above.knee_in_flight), (true, None), "every step is on the plateau");
    }
}
