//! `plimsoll-gateway status`: the state of a data directory.

use std::path::PathBuf;

use clap::Args;

use super::out::say;
use super::{Exit, existing};
use crate::catalog::embedded::manifest::Manifest;
use crate::catalog::embedded::segment::HEADER;
use crate::disk::real::RealDisk;

/// Arguments of `plimsoll-gateway status`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Directory of the data; a gateway may use it meanwhile
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the state as of the last write of the index.
///
/// # Errors
/// Exit code 1 if the log is damaged, 3 if the directory cannot be read.
pub fn status(arguments: &Arguments) -> Result<(), Exit> {
    existing(&arguments.data)?;
    let fail = |e: &dyn std::fmt::Display| Exit::store(format!("--data {}: {e}", arguments.data.display()));
    let disk = RealDisk::new(&arguments.data.join("catalog")).map_err(|e| fail(&e))?;
    let manifest = Manifest::load(&disk).map_err(|e| fail(&e))?.unwrap_or_default();
    if arguments.json {
        // The salt is secret: with it, a client could write bytes that look like a part of the log.
        let manifest = Manifest { salt: 0, ..manifest.clone() };
        let text = serde_json::to_string_pretty(&manifest).map_err(Exit::store)?;
        say(&format!("{text}\n"))?;
    } else {
        let bytes: u64 = manifest.segments.iter().map(|s| s.bytes.saturating_sub(HEADER)).sum();
        let live: u64 = manifest.segments.iter().map(|s| s.live).sum();
        let state =
            if manifest.clean_end.is_some() { "stopped cleanly" } else { "in use, or not stopped cleanly" };
        let garbage = 100 * (bytes - live.min(bytes)) / bytes.max(1);
        say(&format!(
            "state      {state}\nsegments   {}, {bytes} bytes, {garbage}% garbage\ntables     {}\ndamage     {}\n",
            manifest.segments.len(),
            manifest.tables.len(),
            manifest.damage.len(),
        ))?;
        for damage in &manifest.damage {
            say(&format!("damaged: {} at offset {}: {}\n", damage.file, damage.offset, damage.problem))?;
        }
    }
    if manifest.damage.is_empty() {
        return Ok(());
    }
    Err(Exit::check("the log is damaged; run `plimsoll-gateway scrub` to list the affected objects"))
}
