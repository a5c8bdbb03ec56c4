//! The result of a ramp in words.

use plimsoll_base::units::format_per_s;
use plimsoll_judge::summary::result::RampFigures;

/// Describes plateau and knee of a ramp in a line.
pub fn summary(ramp: &RampFigures) -> String {
    let rate = match ramp.plateau_bytes_per_s {
        Some(bytes) if bytes >= 1.25e8 => {
            format!("{:.2} Gbit/s, {}/s", bytes * 8.0 / 1e9, format_per_s(ramp.plateau_per_s))
        }
        Some(bytes) => format!("{:.2} Mbit/s, {}/s", bytes * 8.0 / 1e6, format_per_s(ramp.plateau_per_s)),
        None => format!("{}/s", format_per_s(ramp.plateau_per_s)),
    };
    let repeat = if ramp.repeat > 0 { format!(", repeat {}", ramp.repeat + 1) } else { String::new() };
    let found = match (ramp.reached, ramp.knee_in_flight) {
        (false, _) => format!("highest {rate}"),
        (true, Some(n)) => format!("plateau {rate}; knee at {n:.1} in flight"),
        (true, None) => format!("plateau {rate}; the knee is below the first step; start at a lower load"),
    };
    format!("{} {}{repeat}: {found} ({})", ramp.phase, ramp.operation, ramp.end_reason)
}
