//! `plimsoll-gateway rollback`: returns moved blobs to the tiers that they came from.

use std::sync::Arc;

use clap::Args;
use plimsoll_server::reserve::Memory;

use super::Exit;
use super::adopt::find_bucket;
use super::out::say;
use super::ownership::{self, Older};
use super::place::{Opened, StoreArguments};
use crate::mover::{Outcome, reversible, roll_back};
use crate::object::Store;

/// Arguments of `plimsoll-gateway rollback`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    place: StoreArguments,
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

/// Rolls back all moves whose sources still exist. No gateway may run meanwhile.
///
/// # Errors
/// Exit code 2 for invalid settings, 3 if the store cannot be used.
pub fn rollback(arguments: &Arguments) -> Result<(), Exit> {
    let place = &arguments.place;
    place.must_exist()?;
    let opened = place.open(Default::default())?;
    ownership::check(place, &opened, Older::Refused)?;
    let Opened { catalog, bodies, .. } = opened;
    let store =
        Store::open(Arc::clone(&catalog), bodies, Memory::new(u64::MAX)).map_err(|e| place.fail(&e))?;
    if let Some(name) = &arguments.bucket
        && find_bucket(place, &store, name)?.is_none()
    {
        return Err(Exit::input(format!("--bucket {name}: there is no such bucket")));
    }
    let selects = |bucket: &str, key: &str| {
        arguments.bucket.as_ref().is_none_or(|only| only == bucket) && key.starts_with(&arguments.prefix)
    };
    let moves = reversible(&store, &selects).map_err(|e| place.fail(&e))?;
    let (mut count, mut bytes) = (0u64, 0u64);
    for one in moves {
        let size = one.size;
        let is_done = arguments.dry_run
            || crate::blocking::block_on(roll_back(&store, one)).map_err(|e| place.fail(&e))?
                == Outcome::Moved;
        if is_done {
            count += 1;
            bytes += size;
        }
    }
    drop(store);
    catalog.close().map_err(|e| place.fail(&e))?;
    if arguments.json {
        let value = serde_json::json!({ "moves": count, "bytes": bytes, "dry_run": arguments.dry_run });
        return say(&format!("{value}\n"));
    }
    let verb = if arguments.dry_run { "can be rolled back" } else { "rolled back" };
    say(&format!("{count} moves with {bytes} bytes {verb}\n"))
}
