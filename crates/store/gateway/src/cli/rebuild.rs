//! `plimsoll-gateway rebuild-index`: builds the index again from the log.

use std::sync::atomic::Ordering;

use clap::Args;

use super::Exit;
use super::out::say;
use super::place::StoreArguments;
use crate::config::CatalogPlace;
use plimsoll_catalog::embedded::catalog::EmbeddedCatalog;
use plimsoll_maintenance::scrub::log;

/// Arguments of `plimsoll-gateway rebuild-index`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    place: StoreArguments,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Reads the whole log, and replaces the index.
///
/// # Errors
/// Exit code 1 if the log is damaged, 3 if the directory cannot be used.
pub fn rebuild(arguments: &Arguments) -> Result<(), Exit> {
    let place = &arguments.place;
    place.must_exist()?;
    let CatalogPlace::Directory(root) = place.settings()?.0 else {
        let text = "the catalog is in a database; restore the database from its backup";
        return Err(Exit::input(format!("{}: {text}", place.name())));
    };
    let (catalog, recovery) = EmbeddedCatalog::open(&root, Default::default()).map_err(|e| place.fail(&e))?;
    let rebuilt = catalog.engine().rebuild_index().map_err(|e| place.fail(&e))?;
    let entries = catalog.engine().entries();
    // A damaged body leaves the index intact, but not the log.
    let mut damage = Vec::new();
    log::verify(catalog.engine(), &mut damage);
    let bytes: u64 =
        catalog.engine().segments().iter().map(|segment| segment.bytes.load(Ordering::Relaxed)).sum();
    catalog.close().map_err(|e| place.fail(&e))?;
    let is_kept = !rebuilt.damage.is_empty();
    let known = recovery.damage.iter().chain(&rebuilt.damage);
    damage.extend(
        known.map(|damage| format!("{} at offset {}: {}", damage.file, damage.offset, damage.problem)),
    );
    damage.sort();
    damage.dedup();
    if arguments.json {
        let value =
            serde_json::json!({ "entries": entries, "bytes": bytes, "kept": is_kept, "damage": damage });
        say(&format!("{value}\n"))?;
    } else {
        let result = if is_kept {
            "the old index stays, because it may know objects that the log has lost"
        } else {
            "the index is new"
        };
        let state = match damage.len() {
            0 => "intact".to_string(),
            1 => "damaged at one place".to_string(),
            count => format!("damaged at {count} places"),
        };
        say(&format!("the log of {bytes} bytes is {state}; {result}; it has {entries} entries\n"))?;
        for damage in &damage {
            say(&format!("damaged: {damage}\n"))?;
        }
    }
    match damage.len() {
        0 => Ok(()),
        count => Err(Exit::check(format!("damaged places in the log: {count}"))),
    }
}
