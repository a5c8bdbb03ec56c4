//! Confidence intervals in words.

use plimsoll_judge::summary::result::ConfidenceInterval;
use plimsoll_judge::summary::unit::Unit;

/// Returns the unit of a figure. Results of other versions may contain units that are shown as shares.
fn unit(judged: &ConfidenceInterval) -> Unit {
    Unit::of(&judged.unit).unwrap_or(Unit::Share)
}

/// Formats a figure with its interval: `p50 5.1 ms [4.9..5.3]`. Returns `None` if it has no value or no interval.
pub fn figure(judged: &ConfidenceInterval) -> Option<String> {
    let unit = unit(judged);
    let (shown, low, high) = (unit.text(judged.value?), unit.number(judged.low?), unit.number(judged.high?));
    Some(format!("{} {shown} [{low}..{high}]", judged.metric))
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
