//! Consistency check of a run's files: the figures in `result.json` must match its histograms and the interval log.

use std::collections::BTreeMap;

use super::latencies::of_histogram;
use super::merge::by_phase;
use super::percentiles::percentiles;
use super::result::{RunResult, Window};
use super::series::Series;
use plimsoll_workload::schedule::Role;

/// Returns a description of the first inconsistency, `None` if there is none. The log of a partial run is not
/// compared, because a killed run has written its log further than its result.
pub fn problem(result: &RunResult, series: &[Series]) -> Option<String> {
    contradiction(result).or_else(|| if result.run.partial { None } else { count_mismatch(result, series) })
}

/// Returns a description of the first contradiction within a result, without reading its log; `None` if there is none.
pub fn contradiction(result: &RunResult) -> Option<String> {
    result.windows.iter().find_map(percentile_mismatch)
}

/// Describes the first percentile that does not match the histogram of its window.
fn percentile_mismatch(window: &Window) -> Option<String> {
    let stored = of_histogram(window, "service", Some(&window.service_ms));
    let anew = percentiles(&stored);
    let differs = |name: &&str| {
        let (a, b) = (anew.get(name), window.service_ms.get(name));
        a.zip(b).is_some_and(|(a, b)| (a - b).abs() > 1e-3 * b.abs() + 1e-3) || a.is_some() != b.is_some()
    };
    let name = ["p50", "p99"].into_iter().find(|name| differs(name))?;
    let value = |x: Option<f64>| x.map_or("missing".into(), |x| format!("{x} ms"));
    Some(format!(
        "result.json contradicts itself: {} of {} {} is {}, but {} in its histogram; the file was changed after the run",
        name,
        window.label(),
        window.operation,
        value(window.service_ms.get(name)),
        value(anew.get(name))
    ))
}

/// Describes the first number of operations that differs between the result and the log.
fn count_mismatch(result: &RunResult, series: &[Series]) -> Option<String> {
    let mut logged: BTreeMap<_, u64> = BTreeMap::new();
    for s in series {
        let operations: u64 = s.seconds.iter().map(|s| s.operations).sum();
        *logged.entry((&s.store, &s.phase, s.step, &s.operation)).or_default() += operations;
    }
    by_phase(&result.windows).iter().filter(|group| group[0].role == Role::Measure).find_map(|group| {
        let first = group[0];
        let stated: u64 = group.iter().map(|w| w.operations).sum();
        let found = logged.get(&(&first.store, &first.phase, first.step, &first.operation)).copied();
        let found = found.unwrap_or(0);
        (stated != found).then(|| {
            format!(
                "result.json contains {stated} operations of {} {}, but intervals.arrows contains {found}: \
                 the files are from different runs, or one of them was truncated or changed",
                first.label(),
                first.operation
            )
        })
    })
}
