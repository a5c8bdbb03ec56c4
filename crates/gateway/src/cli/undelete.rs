//! `plimsoll-gateway undelete`: brings objects back that were deleted or replaced.

use clap::Args;
use jiff::Timestamp;

use super::Exit;
use super::command::Target;
use super::out::Output;
use super::place::StoreArguments;
use crate::ambient::now_ms;
use crate::mover::condition::{parse_time_ms, show_time_ms};
use crate::object::retained::Removal;
use crate::object::undelete::{bring_back, returning};

/// Arguments of `plimsoll-gateway undelete`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub place: StoreArguments,
    /// Bucket of the objects
    #[arg(long)]
    bucket: String,
    /// Only objects whose keys start with this text
    #[arg(long, default_value = "")]
    prefix: String,
    /// Time whose objects come back: such as 2026-01-02T03:04:05Z, or the time since then, such as 2h
    #[arg(long, value_name = "TIME")]
    at: String,
    /// Also bring back what lifecycle rules have deleted
    #[arg(long)]
    force: bool,
    /// Only count the objects
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

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

/// Brings back the objects that a bucket had at a time.
///
/// # Errors
/// Exit code 2 for invalid settings, 3 if the store cannot be used.
pub fn undelete(arguments: &Arguments, target: &Target, out: &dyn Output) -> Result<(), Exit> {
    let now_ms = now_ms();
    let at_ms = parse_at("--at", &arguments.at, now_ms).map_err(Exit::input)?;
    let store = &*target.store;
    let retain_ms = store.retain_ms;
    let bucket = target.bucket("--bucket", &arguments.bucket)?;
    // A data directory may have been served with another time.
    if (target.file.is_some() || target.is_served)
        && retain_ms > 0
        && at_ms < now_ms.saturating_sub(retain_ms)
    {
        let kept = show_time_ms(retain_ms);
        return Err(Exit::input(format!(
            "--at {}: objects are kept for {kept} after they were deleted or replaced",
            arguments.at
        )));
    }
    let found = returning(store, &bucket, &arguments.prefix, at_ms).map_err(|e| target.fail(&e))?;
    let (expired, wanted): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|one| one.removal == Removal::Expired && !arguments.force);
    let (mut count, mut bytes) = (0u64, 0u64);
    for one in wanted {
        let size = one.size;
        let is_done = arguments.dry_run
            || crate::blocking::block_on(bring_back(store, &bucket, one)).map_err(|e| target.fail(&e))?;
        if is_done {
            count += 1;
            bytes += size;
        }
    }
    if arguments.json {
        let value = serde_json::json!({
            "objects": count, "bytes": bytes, "expired": expired.len(), "dry_run": arguments.dry_run
        });
        return out.say(&format!("{value}\n"));
    }
    let verb = if arguments.dry_run { "can be brought back" } else { "brought back" };
    out.say(&format!("{count} objects with {bytes} bytes {verb}\n"))?;
    match expired.len() {
        0 => Ok(()),
        expired => out.say(&format!(
            "{expired} objects were deleted by lifecycle rules; --force brings them back, too\n"
        )),
    }
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
