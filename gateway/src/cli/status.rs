//! `plimsoll-gateway status`: the state of a store.

use clap::Args;

use super::Exit;
use super::out::say;
use super::place::Place;
use crate::catalog::embedded::manifest::Manifest;
use crate::catalog::embedded::segment::HEADER;
use crate::disk::real::RealDisk;

/// Arguments of `plimsoll-gateway status`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the state as of the last write of the index.
///
/// # Errors
/// Exit code 1 if the log is damaged, 3 if the directory cannot be read.
pub fn status(arguments: &Arguments) -> Result<(), Exit> {
    let place = &arguments.place;
    place.must_exist()?;
    let (catalog, _) = place.settings()?;
    let disk = RealDisk::new(&catalog).map_err(|e| place.fail(&e))?;
    let manifest = Manifest::load(&disk).map_err(|e| place.fail(&e))?.unwrap_or_default();
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
