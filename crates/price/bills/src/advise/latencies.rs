//! The measured latencies of a store as one distribution.

use std::collections::BTreeMap;

use plimsoll_cost::blend::Distribution;
use plimsoll_judge::summary::latencies::of_histogram;
use plimsoll_judge::summary::result::Window;

/// Merges the latencies of windows: response times of open loops, service times of closed ones. Operations
/// that failed or timed out count as slower than every value.
pub fn distribution(windows: &[&Window]) -> Distribution {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    let mut missed = 0;
    for window in windows {
        let name = if window.response_ms.is_some() { "response" } else { "service" };
        let all = of_histogram(window, name, None);
        missed += window.censored + window.errors.values().sum::<u64>();
        for value in all.histogram().into_iter().flat_map(|h| h.iter_recorded()) {
            *counts.entry(value.value_iterated_to()).or_default() += value.count_at_value();
        }
    }
    let mut values: Vec<(f64, u64)> = counts.into_iter().map(|(us, n)| (us as f64 / 1e3, n)).collect();
    if missed > 0 {
        values.push((f64::INFINITY, missed));
    }
    Distribution::Counted(values)
}
