//! Times in the arguments of commands.

use jiff::Timestamp;

use super::Exit;
use plimsoll_catalog::ambient::now_ms;
use plimsoll_maintenance::mover::condition::parse_time_ms;

/// Returns a time in Unix milliseconds from text.
///
/// # Errors
/// A message that names the argument.
pub fn parse_at(flag: &str, text: &str, now_ms: u64) -> Result<u64, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        let ms = u64::try_from(time.as_millisecond()).map_err(|_| format!("{flag} {text}: before 1970"))?;
        return if ms <= now_ms { Ok(ms) } else { Err(format!("{flag} {text}: this is in the future")) };
    }
    let age_ms = parse_time_ms(text).map_err(|_| {
        format!(
            "{flag} {text}: write a time such as 2026-01-02T03:04:05Z, or the time since then, such as 2h"
        )
    })?;
    Ok(now_ms.saturating_sub(age_ms))
}

/// Returns a time in Unix milliseconds from the value of a flag.
///
/// # Errors
/// Exit code 2 if it is invalid.
pub fn time(flag: &str, text: Option<&String>) -> Result<Option<u64>, Exit> {
    text.map(|text| parse_at(flag, text, now_ms()).map_err(Exit::input)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_absolute_or_an_age() {
        let now_ms = 1_790_000_000_000;
        assert_eq!(parse_at("--at", "2h", now_ms), Ok(now_ms - 7_200_000));
        assert_eq!(parse_at("--at", "1970-01-01T00:00:05Z", now_ms), Ok(5000));
        for (text, problem) in [("2099-01-01T00:00:00Z", "in the future"), ("soon", "such as 2h")] {
            assert!(parse_at("--at", text, now_ms).unwrap_err().contains(problem), "{text}");
        }
    }
}
