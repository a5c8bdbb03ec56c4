//! Confidence intervals as lines of text.

use crate::report::text::confidence::{figure, needs};
use crate::summary::result::{ConfidenceInterval, Window};

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
    let place = format!("{} {}", window.label(), window.operation);
    let shown: Vec<String> = own.iter().filter_map(|j| figure(j)).collect();
    let mut out = String::new();
    if !shown.is_empty() {
        out.push_str(&format!("{place}, 95% intervals: {}\n", shown.join(", ")));
    }
    let short: Vec<&&ConfidenceInterval> = own.iter().filter(|j| j.duration_needed_s.is_some()).collect();
    if let Some(longest) = short.iter().filter_map(|j| j.duration_needed_s).reduce(f64::max) {
        let names: Vec<&str> = short.iter().map(|j| j.metric.as_str()).collect();
        out.push_str(&format!("{place}: no interval for {}: {}\n", names.join(", "), needs(longest)));
    }
    out
}
