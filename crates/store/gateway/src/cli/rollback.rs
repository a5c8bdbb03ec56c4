//! `plimsoll-gateway rollback`: returns moved blobs to the tiers that they came from.

use clap::Args;

use super::Exit;
use super::out::Output;
use super::place::StoreArguments;
use super::target::Target;
use plimsoll_maintenance::mover::{Outcome, reversible, roll_back};

/// Arguments of `plimsoll-gateway rollback`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub place: StoreArguments,
    /// Only objects in this bucket
    #[arg(long)]
    bucket: Option<String>,
    /// Only objects whose keys start with this text
    #[arg(long, default_value = "")]
    prefix: String,
    /// Only count the moves
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Rolls back all moves whose sources still exist.
///
/// # Errors
/// Exit code 2 for invalid settings, 3 if the store cannot be used.
pub fn rollback(arguments: &Arguments, target: &Target, out: &dyn Output) -> Result<(), Exit> {
    let store = &*target.store;
    if let Some(name) = &arguments.bucket {
        target.bucket("--bucket", name)?;
    }
    let selects = |bucket: &str, key: &str| {
        arguments.bucket.as_ref().is_none_or(|only| only == bucket) && key.starts_with(&arguments.prefix)
    };
    let moves = reversible(store, &selects).map_err(|e| target.fail(&e))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Exit::store)?;
    let (mut count, mut bytes, mut missing) = (0u64, 0u64, 0u64);
    for one in moves {
        let size = one.size;
        let outcome = runtime.block_on(async {
            match (arguments.dry_run, arguments.dry_run && one.has_source(store).await?) {
                (false, _) => roll_back(store, one).await,
                (true, true) => Ok(Outcome::Moved),
                (true, false) => Ok(Outcome::SourceMissing),
            }
        });
        let outcome = outcome.map_err(|e| target.fail(&e))?;
        count += u64::from(outcome == Outcome::Moved);
        bytes += if outcome == Outcome::Moved { size } else { 0 };
        missing += u64::from(outcome == Outcome::SourceMissing);
    }
    if arguments.json {
        let dry_run = arguments.dry_run;
        let value =
            serde_json::json!({ "moves": count, "bytes": bytes, "missing": missing, "dry_run": dry_run });
        return out.say(&format!("{value}\n"));
    }
    let verb = if arguments.dry_run { "can be rolled back" } else { "rolled back" };
    out.say(&format!("{count} moves with {bytes} bytes {verb}\n"))?;
    match missing {
        0 => Ok(()),
        missing => out.say(&format!("{missing} moves have no source any more\n")),
    }
}
