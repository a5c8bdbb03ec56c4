//! Confidence intervals as lines of text.

use crate::summary::result::{Judged, Window};
use crate::units::{format_ms, format_per_s, format_throughput};

/// Formats a value of a figure, without the unit for latencies and rates.
fn value(judged: &Judged, value: f64) -> String {
    match judged.unit.as_str() {
        "ms" => format_ms(value),
        "per_s" => format_per_s(value),
        "bytes_per_s" => format_throughput(value),
        _ => format!("{:.2}%", 100.0 * value),
    }
}

/// Formats a figure with its interval: `p50 5.1 ms [4.9..5.3]`. Returns `None` if it has no value or no interval.
pub fn figure(judged: &Judged) -> Option<String> {
    let shown = value(judged, judged.value?);
    let (low, high) = (value(judged, judged.low?), value(judged, judged.high?));
    let unit = match judged.unit.as_str() {
        "ms" => " ms",
        "per_s" => "/s",
        _ => "",
    };
    Some(format!("{} {shown}{unit} [{low}..{high}]", judged.metric))
}

/// Describes the measurement time that an interval would need.
pub fn needs(seconds: f64) -> String {
    if seconds > 6.0 * 3600.0 { "needs more than 6 h".into() } else { format!("needs about {seconds:.0} s") }
}

/// Metrics whose intervals are printed.
const METRICS: [&str; 4] = ["p50", "p99", "rate", "throughput"];

/// Renders the intervals of a window as a line, and the metrics without an interval as another.
pub fn render(window: &Window, judged: &[Judged]) -> String {
    let own: Vec<&Judged> = judged
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
    let short: Vec<&&Judged> = own.iter().filter(|j| j.needs_s.is_some()).collect();
    if let Some(longest) = short.iter().filter_map(|j| j.needs_s).reduce(f64::max) {
        let names: Vec<&str> = short.iter().map(|j| j.metric.as_str()).collect();
        out.push_str(&format!("{place}: no interval for {}: {}\n", names.join(", "), needs(longest)));
    }
    out
}
