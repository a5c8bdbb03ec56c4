//! `plimsoll-gateway rebuild-index`: builds the index again from the log.

use clap::Args;

use super::Exit;
use super::out::say;
use super::place::StoreArguments;
use crate::catalog::embedded::catalog::EmbeddedCatalog;
use crate::config::CatalogPlace;

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
    catalog.close().map_err(|e| place.fail(&e))?;
    let bytes = rebuilt.read_bytes;
    let is_kept = !rebuilt.damage.is_empty();
    let damage: Vec<_> = recovery.damage.iter().chain(&rebuilt.damage).collect();
    if arguments.json {
        let value =
            serde_json::json!({ "entries": entries, "bytes": bytes, "kept": is_kept, "damage": damage });
        say(&format!("{value}\n"))?;
    } else {
        for damage in &damage {
            say(&format!("damaged: {} at offset {}: {}\n", damage.file, damage.offset, damage.problem))?;
        }
        let result = if is_kept {
            "the old index stays, because it may know objects that the log has lost"
        } else {
            "the index is new"
        };
        say(&format!("read {bytes} bytes of the log; {result}; it has {entries} entries\n"))?;
    }
    match damage.len() {
        0 => Ok(()),
        count => Err(Exit::check(format!("damaged places in the log: {count}"))),
    }
}
