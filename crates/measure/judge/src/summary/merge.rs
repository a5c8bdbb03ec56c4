//! Merges several windows of one phase and operation into one: consecutive blocks and repeats, or parallel shards.
//! Histograms are added bucket by bucket. Percentiles are never averaged; means are weighted by their counts.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::addresses;
use super::arrangement::Arrangement;
use super::contention;
use super::disturbances;
use super::latencies::{self, of_histogram};
use super::percentiles::percentiles;
use super::result::{Disturbances, Percentiles, Window};
use super::saturation::falls_short;
use super::size_classes;
use super::window::hit_ratio;
use plimsoll_recorder::cache_status::CacheStatus;
use plimsoll_recorder::histogram::Latencies;

/// Returns the mean of `value`, weighted by the windows' lengths.
fn over_time(windows: &[&Window], value: impl Fn(&Window) -> f64) -> f64 {
    let total: f64 = windows.iter().map(|w| w.window_s).sum();
    if total > 0.0 { windows.iter().map(|w| value(w) * w.window_s).sum::<f64>() / total } else { 0.0 }
}

/// Returns the combined value of all windows: the mean over time of consecutive windows, or the sum of parallel ones.
fn rate(windows: &[&Window], how: Arrangement, value: impl Fn(&Window) -> f64) -> f64 {
    match how {
        Arrangement::Consecutive => over_time(windows, value),
        Arrangement::Parallel => windows.iter().map(|w| value(w)).sum(),
    }
}

/// Joins the texts of all windows; consecutive equal texts appear once.
fn joined(windows: &[&Window], value: impl Fn(&Window) -> Option<&String>) -> Option<String> {
    let mut texts: Vec<&str> = windows.iter().filter_map(|w| value(w)).map(String::as_str).collect();
    texts.dedup();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// Returns the first reason why the client was the bottleneck in any of `windows`, with the number of windows
/// that it limited if it did not limit all of them in the same way.
pub fn client_limited(windows: &[&Window]) -> Option<String> {
    let limited: Vec<&String> = windows.iter().filter_map(|w| w.client_limited.as_ref()).collect();
    let first = *limited.first()?;
    if windows.len() == 1 || limited.iter().all(|why| *why == first) && limited.len() == windows.len() {
        return Some(first.clone());
    }
    Some(format!("{first}, in {} of {} windows", limited.len(), windows.len()))
}

/// Returns the histogram and the percentiles of every cache status.
fn set_cache(out: &mut Window, windows: &[&Window]) {
    for status in CacheStatus::ALL {
        let name = format!("cache_{status}");
        let mut sum = Latencies::default();
        windows.iter().for_each(|window| sum.merge(&of_histogram(window, &name, None)));
        if !sum.is_empty() {
            out.histograms.insert(name, STANDARD.encode(sum.to_bytes()));
            out.cache_ms.insert(status.to_string(), percentiles(&sum));
        }
    }
    out.hit_ratio = hit_ratio(&out.cache_ms);
}

/// Returns true if all windows are saturated, or all operations together fell short of the offered ones.
fn saturated(windows: &[&Window], out: &Window) -> bool {
    let of = |per_s: f64| per_s * out.window_s;
    let failed: u64 = windows.iter().flat_map(|w| w.errors.values()).sum();
    let answered = of(out.achieved_per_s) + failed as f64;
    windows.iter().all(|w| w.saturated)
        || out.offered_per_s.is_some_and(|offered| falls_short(of(offered), answered, out.in_flight_mean))
}

/// Merges `windows`, which must be of one store, phase and operation, into one. Returns `None` if there are none.
pub fn merge(windows: &[&Window], how: Arrangement) -> Option<Window> {
    let first = *windows.first()?;
    if windows.len() == 1 {
        return Some(first.clone());
    }
    let open = first.response_ms.is_some();
    let mut out = counts(windows, how, first.clone());
    out.saturated = saturated(windows, &out);
    for (class, n) in windows.iter().flat_map(|w| &w.errors) {
        *out.errors.entry(class.clone()).or_default() += n;
    }
    let parts: Vec<&Disturbances> = windows.iter().map(|w| &w.disturbances).collect();
    out.disturbances = disturbances::merge(&parts);
    latencies::set(&mut out, &latencies::sums(windows), open);
    set_cache(&mut out, windows);
    size_classes::merge(&mut out, windows);
    addresses::merge(&mut out, windows);
    Some(out)
}

/// Returns the merged counts and rates. The fields that [`merge`] sets afterwards are empty. Every field is listed, so
/// that none can be taken from the first window by mistake.
fn counts(windows: &[&Window], how: Arrangement, first: Window) -> Window {
    let sum = |value: fn(&Window) -> u64| windows.iter().map(|w| value(w)).sum::<u64>();
    let longest = windows.iter().map(|w| w.window_s).fold(0.0, f64::max);
    Window {
        // Equal in all windows, or those of the first.
        store: first.store,
        provider: first.provider,
        phase: first.phase,
        role: first.role,
        repeat: first.repeat,
        block: first.block,
        step: first.step,
        sweep: first.sweep,
        upload: first.upload,
        key_group: first.key_group,
        operation: first.operation,
        loop_: first.loop_,
        // Sums, means and extremes.
        start_unix_s: windows.iter().map(|w| w.start_unix_s).fold(f64::INFINITY, f64::min),
        window_s: if how == Arrangement::Consecutive {
            windows.iter().map(|w| w.window_s).sum()
        } else {
            longest
        },
        concurrency: match how {
            Arrangement::Consecutive => first.concurrency,
            Arrangement::Parallel => windows.iter().map(|w| w.concurrency).sum(),
        },
        offered_per_s: first.offered_per_s.map(|_| rate(windows, how, |w| w.offered_per_s.unwrap_or(0.0))),
        achieved_per_s: rate(windows, how, |w| w.achieved_per_s),
        throughput_bytes_per_s: rate(windows, how, |w| w.throughput_bytes_per_s),
        in_flight_mean: rate(windows, how, |w| w.in_flight_mean),
        operations: sum(|w| w.operations),
        attempts: sum(|w| w.attempts),
        retries: sum(|w| w.retries),
        commits_by_writer: contention::merged(windows, how),
        bytes: sum(|w| w.bytes),
        censored: sum(|w| w.censored),
        connections: sum(|w| w.connections),
        reconnects: sum(|w| w.reconnects),
        client_limited: client_limited(windows),
        client_exhausted: windows.iter().any(|w| w.client_exhausted),
        client_steal: windows.iter().filter_map(|w| w.client_steal).reduce(f64::max),
        instrument_error: joined(windows, |w| w.instrument_error.as_ref()),
        // Set afterwards.
        saturated: false,
        errors: BTreeMap::new(),
        disturbances: Disturbances::default(),
        cache_ms: BTreeMap::new(),
        hit_ratio: None,
        size_classes: Vec::new(),
        addresses: Vec::new(),
        histograms: BTreeMap::new(),
        service_ms: Percentiles::default(),
        response_ms: None,
        first_byte_ms: Percentiles::default(),
        body_ms: Percentiles::default(),
        connect_ms: Percentiles::default(),
        tls_ms: Percentiles::default(),
        failed_ms: Percentiles::default(),
        attempt_ms: Percentiles::default(),
        start_lag_ms: Percentiles::default(),
    }
}

/// Groups windows by store, phase, step, key group and operation, in order of first appearance. A group
/// contains all blocks and repeats.
pub fn by_phase(windows: &[Window]) -> Vec<Vec<&Window>> {
    let mut out: Vec<Vec<&Window>> = Vec::new();
    let same = |a: &Window, b: &Window| {
        (&a.store, &a.phase, a.step, &a.key_group, &a.operation)
            == (&b.store, &b.phase, b.step, &b.key_group, &b.operation)
    };
    for window in windows {
        match out.iter_mut().find(|group| same(group[0], window)) {
            Some(group) => group.push(window),
            None => out.push(vec![window]),
        }
    }
    out
}

/// Returns the windows for display, with blocks and repeats merged.
pub fn overall(windows: &[Window]) -> Vec<Window> {
    by_phase(windows).iter().filter_map(|group| merge(group, Arrangement::Consecutive)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_base::rng::Stream;

    fn window(values_us: &[u64], window_s: f64) -> (Window, Latencies) {
        let mut latencies = Latencies::default();
        values_us.iter().for_each(|us| latencies.record(us * 1_000 + 123));
        let histograms = BTreeMap::from([("service".to_string(), STANDARD.encode(latencies.to_bytes()))]);
        let window = Window {
            operations: values_us.len() as u64,
            achieved_per_s: values_us.len() as f64 / window_s,
            window_s,
            service_ms: percentiles(&latencies),
            in_flight_mean: 4.0,
            concurrency: 4,
            histograms,
            ..Window::default()
        };
        (window, latencies)
    }

    #[test]
    fn percentiles_of_merged_windows_are_those_of_all_values() {
        let draws = Stream::new(5, "m");
        let list = |from: u64, n: u64| {
            (from..from + n).map(|i| (draws.exponential(i) * 5e3) as u64 + 1).collect::<Vec<_>>()
        };
        let (a, b) = (list(0, 3000), list(3000, 8000));
        let ((wa, mut whole), (wb, lb)) = (window(&a, 10.0), window(&b, 20.0));
        whole.merge(&lb);
        for how in [Arrangement::Consecutive, Arrangement::Parallel] {
            let merged = merge(&[&wa, &wb], how).unwrap();
            let exact = percentiles(&whole);
            assert_eq!((merged.service_ms.p50, merged.service_ms.p99_9), (exact.p50, exact.p99_9));
            assert_eq!((merged.service_ms.min, merged.service_ms.max), (exact.min, exact.max));
            assert!((merged.service_ms.mean.unwrap() - exact.mean.unwrap()).abs() < 1e-6);
        }
        let (consecutive, parallel) = (
            merge(&[&wa, &wb], Arrangement::Consecutive).unwrap(),
            merge(&[&wa, &wb], Arrangement::Parallel).unwrap(),
        );
        assert_eq!((consecutive.window_s, parallel.window_s), (30.0, 20.0));
        assert!((consecutive.achieved_per_s - 11_000.0 / 30.0).abs() < 1e-9);
        assert!((parallel.achieved_per_s - 700.0).abs() < 1e-9);
        assert_eq!(
            (consecutive.in_flight_mean, parallel.in_flight_mean, parallel.concurrency),
            (4.0, 8.0, 8)
        );
    }

    #[test]
    fn a_single_window_is_returned_unchanged() {
        let (window, _) = window(&[1, 2, 3], 1.0);
        assert_eq!(merge(&[&window], Arrangement::Parallel), Some(window));
        assert_eq!(merge(&[], Arrangement::Parallel), None);
    }

    #[test]
    fn merged_windows_with_failures_are_not_saturated() {
        let window = |failed: u64| Window {
            window_s: 10.0,
            offered_per_s: Some(1000.0),
            achieved_per_s: 900.0,
            errors: BTreeMap::from([("503 SlowDown".to_string(), failed)]),
            ..Window::default()
        };
        let saturated =
            |failed| merge(&[&window(failed), &window(failed)], Arrangement::Consecutive).unwrap().saturated;
        assert_eq!((saturated(0), saturated(1000)), (true, false));
    }

    #[test]
    fn a_client_limit_in_some_windows_marks_the_merged_window() {
        let window =
            |why: Option<&str>| Window { client_limited: why.map(str::to_string), ..Window::default() };
        let (limited, free) = (window(Some("cpu: 90%")), window(None));
        assert_eq!(client_limited(&[&free, &limited, &free]).as_deref(), Some("cpu: 90%, in 1 of 3 windows"));
        assert_eq!(client_limited(&[&limited, &limited]).as_deref(), Some("cpu: 90%"));
        assert_eq!(client_limited(&[&free]), None);
    }
}
