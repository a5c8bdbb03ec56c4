//! Confidence intervals as lines of text.

use crate::text::confidence::{figure, needs, scope};
use plimsoll_judge::summary::result::{ConfidenceInterval, Window};

/// Metrics whose intervals are printed.
const METRICS: [&str; 4] = ["p50", "p99", "rate", "throughput"];

/// Renders the intervals of a window as a line, and the metrics without an interval as another.
pub fn render(window: &Window, judged: &[ConfidenceInterval]) -> String {
    let own: Vec<&ConfidenceInterval> = judged
        .iter()
        .filter(|j| {
            (&j.store, &j.phase, j.step, &j.operation)
                == (&window.store, &window.phase, window.step, &window.operation)
        })
        .filter(|j| METRICS.contains(&j.metric.as_str()))
        .collect();
    let place = window.place();
    let shown: Vec<String> = own.iter().filter_map(|j| figure(j)).collect();
    let mut out = String::new();
    if !shown.is_empty() {
        out.push_str(&format!("{place}, 95% intervals: {}\n", shown.join(", ")));
        if let Some(first) = own.first().filter(|j| j.measured_s > 0.0) {
            out.push_str(&format!("{place}: the intervals are {}\n", scope(first)));
        }
    }
    let short: Vec<&&ConfidenceInterval> = own.iter().filter(|j| j.duration_needed_s.is_some()).collect();
    if let Some(longest) = short.iter().filter_map(|j| j.duration_needed_s).reduce(f64::max) {
        let names: Vec<&str> = short.iter().map(|j| j.metric.as_str()).collect();
        let structured = short.iter().any(|j| j.slow_structure);
        let why =
            if structured { "the run shows changes that last longer than a third of it; it " } else { "" };
        out.push_str(&format!("{place}: no interval for {}: {why}{}\n", names.join(", "), needs(longest)));
    }
    out
}
