//! `plimsoll-gateway release`: writes all objects back under their own keys.

use std::path::PathBuf;

use clap::Args;

use super::Exit;
use super::adopt::{Offline, find_bucket, offline};
use super::out::say;
use super::place::StoreArguments;
use plimsoll_maintenance::adoption::release::{Release, Released, release as execute};

/// Arguments of `plimsoll-gateway release`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Settings of a gateway over several tiers, a TOML file; no gateway may run
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Bucket of the gateway whose objects are written
    #[arg(long)]
    bucket: String,
    /// Tier that receives them, each under its own key
    #[arg(long, value_name = "NAME")]
    tier: String,
    /// Only objects whose keys start with this text
    #[arg(long, default_value = "")]
    prefix: String,
    /// Replace objects of the tier that have the same key and other bytes
    #[arg(long)]
    overwrite: bool,
    /// Write the objects without their tags, to a tier that has none
    #[arg(long)]
    without_tags: bool,
    /// Only count the objects
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Releases the objects.
///
/// # Errors
/// Exit code 1 if some objects were not written, 2 for invalid settings, 3 if the catalog or a tier fails.
pub fn release(arguments: &Arguments) -> Result<(), Exit> {
    let place = StoreArguments::of_file(&arguments.file);
    place.must_exist()?;
    let Offline { store, catalog, runtime, tier } = offline(&place, &arguments.tier)?;
    let bucket = find_bucket(&place, &store, &arguments.bucket)?
        .ok_or_else(|| Exit::input(format!("--bucket {}: there is no such bucket", arguments.bucket)))?;
    let (prefix, dry_run) = (arguments.prefix.clone(), arguments.dry_run);
    let (overwrite, without_tags) = (arguments.overwrite, arguments.without_tags);
    let release = Release { tier, prefix, overwrite, dry_run, without_tags };
    let released = runtime.block_on(execute(&store, &bucket, &release));
    drop(store);
    catalog.close().map_err(|e| place.fail(&e))?;
    let released = released.map_err(|e| place.fail(&e))?;
    if arguments.json {
        say(&format!("{}\n", serde_json::json!(released)))?;
    } else {
        let Released { written, bytes, in_place, versions, .. } = &released;
        let verb = if dry_run { "would be written" } else { "written and verified" };
        say(&format!(
            "{written} objects with {bytes} bytes {verb}, {in_place} are in place, {versions} other versions\n"
        ))?;
        for key in &released.conflicts {
            say(&format!("not written: {key}\n"))?;
        }
        for (key, reason) in &released.failed {
            say(&format!("not written: {key}: {reason}\n"))?;
        }
    }
    match released.conflicts.len() {
        0 if released.failed.is_empty() => Ok(()),
        0 => Err(Exit::check(format!("{} objects were not written", released.failed.len()))),
        count => Err(Exit::check(format!(
            "{count} objects were not written: the tier has other objects with their keys (--overwrite replaces \
             them), or other versions need these objects, or the tier cannot store the keys"
        ))),
    }
}
