//! `plimsoll-gateway rebuild-catalog`: builds the index again from the log.

use std::path::PathBuf;

use clap::Args;

use super::out::say;
use super::{Exit, existing};
use crate::catalog::embedded::catalog::EmbeddedCatalog;

/// Arguments of `plimsoll-gateway rebuild-catalog`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Directory of the data; no gateway may use it meanwhile
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Removes the index, and reads the whole log.
///
/// # Errors
/// Exit code 1 if the log is damaged, 3 if the directory cannot be used.
pub fn rebuild(arguments: &Arguments) -> Result<(), Exit> {
    existing(&arguments.data)?;
    let root = arguments.data.join("catalog");
    let fail = |e: &dyn std::fmt::Display| Exit::store(format!("--data {}: {e}", arguments.data.display()));
    let (catalog, recovery) = EmbeddedCatalog::rebuild(&root, Default::default()).map_err(|e| fail(&e))?;
    let entries = catalog.engine().entries();
    catalog.close().map_err(|e| fail(&e))?;
    let bytes = recovery.replayed_bytes;
    if arguments.json {
        let value = serde_json::json!({ "entries": entries, "bytes": bytes, "damage": recovery.damage });
        say(&format!("{value}\n"))?;
    } else {
        for damage in &recovery.damage {
            say(&format!("damaged: {} at offset {}: {}\n", damage.file, damage.offset, damage.problem))?;
        }
        say(&format!("read {bytes} bytes of the log; the index has {entries} entries\n"))?;
    }
    match recovery.damage.len() {
        0 => Ok(()),
        count => Err(Exit::check(format!("{count} damaged places in the log"))),
    }
}
