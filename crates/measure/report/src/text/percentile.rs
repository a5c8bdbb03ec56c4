//! A percentile as a table cell.

use plimsoll_base::units::format_ms;
use plimsoll_judge::summary::result::Percentiles;

/// Returns a latency cell: the value, `> X` if censoring leaves only a lower bound, or `-` if there are too few
/// samples.
pub fn cell(percentiles: &Percentiles, name: &str) -> String {
    match (percentiles.get(name), percentiles.lower_bounds.get(name)) {
        (Some(ms), _) => format_ms(ms),
        (None, Some(ms)) => format!("> {}", format_ms(*ms)),
        (None, None) => "-".into(),
    }
}
