//! Confidence intervals in words.

use crate::summary::result::ConfidenceInterval;
use plimsoll_base::units::{format_ms, format_per_s, format_throughput};

/// Formats a value of a figure, without the unit for latencies and rates.
fn value(judged: &ConfidenceInterval, value: f64) -> String {
    match judged.unit.as_str() {
        "ms" => format_ms(value),
        "per_s" => format_per_s(value),
        "bytes_per_s" => format_throughput(value),
        _ => format!("{:.2}%", 100.0 * value),
    }
}

/// Formats a figure with its interval: `p50 5.1 ms [4.9..5.3]`. Returns `None` if it has no value or no interval.
pub fn figure(judged: &ConfidenceInterval) -> Option<String> {
    let shown = value(judged, judged.value?);
    let (low, high) = (value(judged, judged.low?), value(judged, judged.high?));
    let unit = match judged.unit.as_str() {
        "ms" => " ms",
        "per_s" => "/s",
        _ => "",
    };
    Some(format!("{} {shown}{unit} [{low}..{high}]", judged.metric))
}

/// Describes the scope of intervals: the seconds that they are about, and the events that the run may have missed.
pub fn scope(judged: &ConfidenceInterval) -> String {
    format!(
        "about these {:.0} s of measurement; events rarer than one in {:.0} s would be missed",
        judged.measured_s, judged.rare_event_s
    )
}

/// Describes the measurement time that an interval would need.
pub fn needs(seconds: f64) -> String {
    if seconds > 6.0 * 3600.0 { "needs more than 6 h".into() } else { format!("needs about {seconds:.0} s") }
}
