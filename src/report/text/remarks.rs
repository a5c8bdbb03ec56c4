//! Problems of a measured window in words.

use crate::summary::result::Window;
use crate::units::format_count;

/// Returns the problems of a window, one per line.
pub fn remarks(window: &Window) -> Vec<String> {
    let place = format!("{} {}", window.label(), window.operation);
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
    if let Some(why) = &window.client_limited {
        out.push(format!("{place}: limited by the client, not by the store ({why})"));
    }
    if let Some(why) = &window.instrument_error {
        out.push(format!("{place}: INSTRUMENT ERROR: {why}"));
    }
    out
}
