//! Problems of a measured window in words.

use plimsoll_base::units::{counted, format_count, format_ms};
use plimsoll_judge::summary::addresses::findings;
use plimsoll_judge::summary::result::{Percentiles, Window};

/// Returns the percentiles p50, p99 and p99.9 in words; those that are not known are left out.
fn in_words(percentiles: &Percentiles) -> String {
    let known = ["p50", "p99", "p99.9"]
        .into_iter()
        .filter_map(|name| percentiles.get(name).map(|ms| format!("{name} {} ms", format_ms(ms))));
    known.collect::<Vec<_>>().join(", ")
}

/// Smallest relative change of a percentile for which pauses are worth a remark.
const REMARKABLE: f64 = 0.01;

/// Returns true if p50, p99 or p99.9 changes by at least 1% without the operations that overlap a pause.
fn pauses_matter(window: &Window) -> bool {
    let found = &window.disturbances;
    let service = found.service_without_pauses_ms.as_ref().map(|without| (&window.service_ms, without));
    let response = window.response_ms.as_ref().zip(found.response_without_pauses_ms.as_ref());
    service.into_iter().chain(response).any(|(all, without)| {
        ["p50", "p99", "p99.9"].into_iter().any(|name| {
            let values = all.get(name).zip(without.get(name));
            values.is_some_and(|(all, without)| (all - without).abs() >= REMARKABLE * all)
        })
    })
}

/// Describes the pauses of the client, if they change a percentile.
fn pauses(window: &Window) -> Option<String> {
    let found = &window.disturbances;
    (found.pauses > 0 && pauses_matter(window)).then(|| {
        let mut text = format!(
            "the client paused {} (longest {} ms, in all {:.1}% of the time)",
            counted(found.pauses, "time"),
            format_ms(found.longest_pause_ms),
            100.0 * found.pauses_s / window.window_s
        );
        if found.paused_operations > 0 {
            text += &format!("; {} overlap a pause", counted(found.paused_operations, "operation"));
            let response = found.response_without_pauses_ms.as_ref().map(|p| ("response", p));
            let service = found.service_without_pauses_ms.as_ref().map(|p| ("service", p));
            if let Some((name, percentiles)) = response.or(service) {
                text += &format!("; {name} time without them: {}", in_words(percentiles));
            }
        }
        text
    })
}

/// Returns the problems of a window, one per line.
pub fn remarks(window: &Window) -> Vec<String> {
    let place = window.place();
    let mut out = of_store(window);
    out.extend(pauses(window).map(|text| format!("{place}: {text}")));
    out.extend(client_limit(window).map(|why| format!("{place}: {}", limited(why))));
    out
}

/// Returns why the client was the limit; `None` also if no operation succeeded, because failures say nothing about the
/// limits of either.
fn client_limit(window: &Window) -> Option<&String> {
    window.client_limited.as_ref().filter(|_| window.achieved_per_s > 0.0 || window.errors.is_empty())
}

fn limited(why: &str) -> String {
    format!("limited by the client, not by the store ({why})")
}

/// Returns the problems of several windows. Pauses and limits of the client have one line each for all windows, with
/// the description of the window that has most of them.
pub fn together(windows: &[&Window]) -> Vec<String> {
    let mut out: Vec<String> = windows.iter().flat_map(|window| of_store(window)).collect();
    let mut add = |affected: Vec<(&Window, f64, String)>| {
        let Some((worst, _, text)) = affected.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else { return };
        out.push(match affected.len() {
            1 => format!("{}: {text}", worst.place()),
            n => {
                let (all, place) = (windows.len(), worst.place());
                format!("{n} of {all} rows, most of all {place}: {text}")
            }
        });
    };
    let paused = |window: &&Window| {
        let share = window.disturbances.pauses_s / window.window_s.max(1e-9);
        pauses(window).map(|text| (share, text))
    };
    add(windows.iter().filter_map(|w| paused(w).map(|(share, text)| (*w, share, text))).collect());
    let busy = |window: &&Window| client_limit(window).map(|why| limited(why));
    add(windows.iter().filter_map(|w| busy(w).map(|text| (*w, w.achieved_per_s, text))).collect());
    out
}

/// Returns the problems of a window, without pauses and limits of the client.
fn of_store(window: &Window) -> Vec<String> {
    let place = window.place();
    let mut out = Vec::new();
    if !window.errors.is_empty() {
        let failed: u64 = window.errors.values().sum();
        let classes: Vec<String> =
            window.errors.iter().map(|(c, n)| format!("{c} x {}", format_count(*n))).collect();
        let of = format_count(window.operations);
        out.push(format!(
            "{place}: {} of {of} operations failed: {}",
            format_count(failed),
            classes.join(", ")
        ));
    }
    out.extend(findings(window).into_iter().map(|finding| format!("{place}: {finding}")));
    if window.saturated {
        out.push(format!(
            "{place}: saturated; {:.0}/s offered, {:.0}/s achieved",
            window.offered_per_s.unwrap_or(0.0),
            window.achieved_per_s
        ));
    }
    if window.censored > 0 {
        let text = format!(
            "{place}: {} operations were not answered in time; '> X' means more than X",
            format_count(window.censored)
        );
        out.push(text);
    }
    if window.reconnects > 0 {
        out.push(format!(
            "{place}: {} requests were sent again on a new connection",
            format_count(window.reconnects)
        ));
    }
    for by_ms in &window.disturbances.clock_steps_ms {
        out.push(format!("{place}: somebody set the client's clock by {by_ms:+.1} ms during the window"));
    }
    if let Some(why) = &window.instrument_error {
        out.push(format!("{place}: INSTRUMENT ERROR: {why}"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_judge::summary::result::Disturbances;

    #[test]
    fn pauses_are_reported_only_if_they_change_a_percentile() {
        let percentiles = |p99| Percentiles { p99: Some(p99), ..Percentiles::default() };
        let window = |without| Window {
            window_s: 10.0,
            service_ms: percentiles(5.0),
            disturbances: Disturbances {
                pauses: 2,
                paused_operations: 7,
                service_without_pauses_ms: Some(percentiles(without)),
                ..Disturbances::default()
            },
            ..Window::default()
        };
        assert!(remarks(&window(4.99)).is_empty());
        let found = remarks(&window(4.0));
        assert!(found[0].contains("paused 2 times") && found[0].contains("p99 4.00 ms"), "{found:?}");
    }

    /// Regression test: the first run of a new user printed 14 lines of warnings with one cause.
    #[test]
    fn several_rows_share_one_line_for_a_busy_client() {
        let row = |phase: &str, achieved_per_s: f64, limited: Option<&str>| Window {
            phase: phase.into(),
            achieved_per_s,
            client_limited: limited.map(str::to_string),
            errors: if phase == "b" { [("503 SlowDown".to_string(), 3)].into() } else { Default::default() },
            ..Window::default()
        };
        let rows = [row("a", 10.0, Some("cpu: 81%")), row("b", 90.0, Some("cpu: 99%")), row("c", 5.0, None)];
        let found = together(&rows.iter().collect::<Vec<_>>());
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("503 SlowDown x 3"), "{found:?}");
        assert_eq!(
            found[1],
            "2 of 3 rows, most of all b get: limited by the client, not by the store (cpu: 99%)"
        );
        assert!(together(&[&rows[2]]).is_empty());
        // The CPU of a client whose operations all fail at once says nothing about the store.
        let failed = row("b", 0.0, Some("cpu: 87%"));
        assert_eq!(remarks(&failed).len(), 1, "{:?}", remarks(&failed));
        assert_eq!(together(&[&rows[0]]), ["a get: limited by the client, not by the store (cpu: 81%)"]);
    }
}
