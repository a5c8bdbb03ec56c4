//! Whether the files of a run belong together: what `result.json` says must follow from the histograms in it and from the interval log.

use std::collections::BTreeMap;

use super::latency::percentiles;
use super::merge::{by_phase, latencies};
use super::result::{RunResult, Window};
use super::series::Series;

/// What does not fit, for people. `None` when everything does, or cannot be held against anything: a run that was killed has
/// written its log further than its result.
pub fn problem(result: &RunResult, series: &[Series]) -> Option<String> {
    contradiction(result).or_else(|| if result.run.partial { None } else { counted(result, series) })
}

/// What a result says against itself, without its log.
pub fn contradiction(result: &RunResult) -> Option<String> {
    result.windows.iter().find_map(shown)
}

/// Percentiles that are not those of the histogram beside them.
fn shown(window: &Window) -> Option<String> {
    let stored = latencies(window, "service", Some(&window.service_ms));
    let anew = percentiles(&stored);
    let differs = |name: &&str| {
        let (a, b) = (anew.get(name), window.service_ms.get(name));
        a.zip(b).is_some_and(|(a, b)| (a - b).abs() > 1e-3 * b.abs() + 1e-3) || a.is_some() != b.is_some()
    };
    let name = ["p50", "p99"].into_iter().find(|name| differs(name))?;
    let value = |x: Option<f64>| x.map_or("nothing".into(), |x| format!("{x} ms"));
    Some(format!(
        "result.json contradicts itself: {} of {} {} is {} there, and {} by its histogram; it was changed after the run",
        name,
        window.label(),
        window.operation,
        value(window.service_ms.get(name)),
        value(anew.get(name))
    ))
}

/// Operations in the result that are not those in the log.
fn counted(result: &RunResult, series: &[Series]) -> Option<String> {
    let mut logged: BTreeMap<_, u64> = BTreeMap::new();
    for s in series {
        let operations: u64 = s.seconds.iter().map(|s| s.operations).sum();
        *logged.entry((&s.store, &s.phase, s.step, &s.operation)).or_default() += operations;
    }
    by_phase(&result.windows).iter().filter(|group| group[0].role == "measure").find_map(|group| {
        let first = group[0];
        let told: u64 = group.iter().map(|w| w.operations).sum();
        let found = logged.get(&(&first.store, &first.phase, first.step, &first.operation)).copied();
        let found = found.unwrap_or(0);
        (told != found).then(|| {
            format!(
                "result.json tells of {told} operations of {} {}, intervals.arrows of {found}: they are not of one run, or one \
                 of them was cut short or changed",
                first.label(),
                first.operation
            )
        })
    })
}
