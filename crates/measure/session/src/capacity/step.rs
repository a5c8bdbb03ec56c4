//! Judgement of one step of a search for the capacity by its windows.

use plimsoll_judge::summary::objective::Objective;
use plimsoll_judge::summary::result::{CapacityStep, Window};
use plimsoll_workload::schedule::Load;

/// Share of a step above which pauses of the client's cores disturb it.
pub const DISTURBED_SHARE: f64 = 0.05;
/// Share of failed operations above which the store refuses part of the load.
const REFUSED_SHARE: f64 = 0.01;
/// Share of the offered rate that a store must achieve.
const ACHIEVED_SHARE: f64 = 0.985;

/// Returns the share of operations that failed or were not answered, from 0 to 1.
fn failed_share(windows: &[&Window]) -> f64 {
    let failed: u64 = windows.iter().map(|w| w.errors.values().sum::<u64>() + w.censored).sum();
    let all: u64 = windows.iter().map(|w| w.operations).sum();
    failed as f64 / all.max(1) as f64
}

/// Returns the share of operations that the store refused with an HTTP status, from 0 to 1.
fn refused_share(windows: &[&Window]) -> f64 {
    let status = |class: &str| class.starts_with(|c: char| c.is_ascii_digit());
    let refused = windows.iter().flat_map(|w| &w.errors).filter(|(class, _)| status(class)).map(|(_, n)| n);
    let all: u64 = windows.iter().map(|w| w.operations).sum();
    refused.sum::<u64>() as f64 / all.max(1) as f64
}

/// Returns the object bytes of a successful operation; `None` if there is none.
pub fn bytes_per_operation(windows: &[&Window]) -> Option<f64> {
    let per_s: f64 = windows.iter().map(|w| w.achieved_per_s).sum();
    let bytes: f64 = windows.iter().map(|w| w.throughput_bytes_per_s).sum();
    (per_s > 0.0).then(|| bytes / per_s)
}

/// Returns the reason why a step misses the objectives; `None` if it meets them.
fn broken(windows: &[&Window], objectives: &[Objective]) -> Option<String> {
    let about = |o: &&Objective, w: &Window| {
        o.target.operation.as_ref().is_none_or(|name| *name == w.operation.name())
    };
    windows.iter().find_map(|w| objectives.iter().filter(|o| about(o, w)).find_map(|o| o.broken_by(w)))
}

/// Returns the reason why an open loop misses its objectives; `None` if it meets them. The rate itself is an objective:
/// the store must achieve it, and without other objectives it must not refuse operations.
fn missed(windows: &[&Window], offered_per_s: f64, objectives: &[Objective]) -> Option<String> {
    let broken = broken(windows, objectives);
    let achieved: f64 = windows.iter().map(|w| w.achieved_per_s).sum();
    let failed = failed_share(windows);
    let refused = (objectives.is_empty() && failed >= REFUSED_SHARE)
        .then(|| format!("{:.2}% of operations failed", 100.0 * failed));
    let behind = windows.iter().any(|w| w.saturated)
        || (failed < REFUSED_SHARE && achieved < ACHIEVED_SHARE * offered_per_s);
    broken.or(refused).or_else(|| behind.then(|| "the rate was not achieved".to_string()))
}

/// Judges a step with `load` by its windows, one per operation.
pub fn judge(windows: &[&Window], step: u32, load: Load, objectives: &[Objective]) -> CapacityStep {
    let offered = windows.iter().filter_map(|w| w.offered_per_s).reduce(|a, b| a + b);
    let missed = match offered {
        Some(offered) => missed(windows, offered, objectives),
        None => broken(windows, objectives),
    };
    // A store that refuses operations is the limit. A closed loop spins on it, which makes the client busy.
    let refused = refused_share(windows) >= REFUSED_SHARE;
    // Start lag matters only to latencies, and therefore only to objectives.
    let matters = |w: &&&Window| w.client_exhausted || (load.is_open() && !objectives.is_empty());
    let limited = windows.iter().filter(matters).find_map(|w| w.client_limited.clone());
    let client_limited = limited.filter(|_| !refused);
    let paused = |w: &&Window| w.disturbances.pauses_s / w.window_s.max(1e-9);
    CapacityStep {
        step,
        offered_per_s: offered,
        in_flight: match load {
            Load::Closed { concurrency } => Some(concurrency as u64),
            Load::Open { .. } => None,
        },
        achieved_per_s: windows.iter().map(|w| w.achieved_per_s).sum(),
        met: missed.is_none(),
        missed,
        client_limited,
        paused_share: windows.iter().map(paused).fold(0.0, f64::max),
        recovery: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_workload::schedule::arrival::Arrival;

    fn window(offered: Option<f64>, achieved: f64, failed: u64) -> Window {
        Window {
            offered_per_s: offered,
            achieved_per_s: achieved,
            operations: 1000,
            window_s: 10.0,
            errors: [("503 SlowDown".to_string(), failed)].into(),
            client_limited: Some("cpu: 99%".into()),
            client_exhausted: true,
            ..Window::default()
        }
    }

    #[test]
    fn a_rate_that_is_refused_or_not_achieved_is_missed() {
        let open = Load::Open { rate_per_s: 100.0, arrival: Arrival::Constant, in_flight: 16 };
        let missed = |achieved, failed| {
            judge(&[&window(Some(100.0), achieved, failed)], 0, open, &[]).missed.unwrap_or_default()
        };
        assert_eq!(missed(99.5, 0), "");
        assert_eq!(missed(98.0, 0), "the rate was not achieved");
        assert_eq!(missed(98.0, 20), "2.00% of operations failed");
    }

    #[test]
    fn a_client_that_spins_on_refusals_is_not_the_limit() {
        let closed = Load::Closed { concurrency: 4 };
        let limited = |failed| judge(&[&window(None, 100.0, failed)], 0, closed, &[]).client_limited;
        assert_eq!((limited(0).is_some(), limited(500)), (true, None));
    }
}
