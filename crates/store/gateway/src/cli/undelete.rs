//! `plimsoll-gateway undelete`: brings objects back that were deleted or replaced.

use clap::Args;

use super::Exit;
use super::at::parse_at;
use super::out::Output;
use super::place::StoreArguments;
use super::target::Target;
use plimsoll_catalog::ambient::now_ms;
use plimsoll_maintenance::mover::condition::show_time_ms;
use plimsoll_objects::removal::Removal;
use plimsoll_objects::undelete::{bring_back, returning};

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
            || plimsoll_catalog::blocking::block_on(bring_back(store, &bucket, one))
                .map_err(|e| target.fail(&e))?;
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
