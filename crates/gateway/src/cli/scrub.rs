//! `plimsoll-gateway scrub`: verifies a store that no gateway uses.

use clap::Args;

use super::Exit;
use super::out::say;
use super::place::{Opened, StoreArguments};
use crate::config::CatalogPlace;
use crate::scrub;

/// Arguments of `plimsoll-gateway scrub`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    place: StoreArguments,
    /// Accept that objects older than damage whose keys are unknown may be outdated or missing, and serve them again
    #[arg(long)]
    accept: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Verifies every stored byte.
///
/// # Errors
/// Exit code 1 if something is damaged, 2 for invalid settings, 3 if the catalog cannot be used.
pub fn scrub(arguments: &Arguments) -> Result<(), Exit> {
    arguments.place.must_exist()?;
    let is_database = matches!(arguments.place.settings()?.0, CatalogPlace::Database(_));
    if arguments.accept && is_database {
        return Err(Exit::input("--accept: only a catalog in a directory can have such damage"));
    }
    let Opened { catalog, bodies, recovery, .. } = arguments.place.open(Default::default())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Exit::store)?;
    let mut result = runtime.block_on(scrub::scrub(&catalog, &bodies.blobs));
    if let Some(reason) = &recovery.rebuilt {
        result.damage.push(format!("the index was built again from the log: {reason}"));
    }
    result.damage.extend(recovery.repaired.iter().cloned());
    if let Some(engine) = catalog.engine().filter(|_| arguments.accept) {
        engine.accept_unknown_damage().map_err(Exit::store)?;
    }
    catalog.close().map_err(Exit::store)?;
    if arguments.json {
        let text = serde_json::to_string_pretty(&result).map_err(Exit::store)?;
        say(&format!("{text}\n"))?;
    } else {
        for place in &result.damage {
            say(&format!("damaged: {place}\n"))?;
        }
        for object in &result.objects_damaged {
            let (bucket, key) = (&object.bucket, &object.key);
            say(&format!(
                "damaged object: {bucket}/{key} (version {}): {}\n",
                object.version, object.problem
            ))?;
        }
        for object in &result.objects_unverified {
            let (bucket, key) = (&object.bucket, &object.key);
            say(&format!("not verified: {bucket}/{key} (version {}): {}\n", object.version, object.problem))?;
        }
        say(&format!("{} objects and versions with {} bytes verified\n", result.objects, result.bytes))?;
    }
    let (count, unverified) = (result.objects_damaged.len(), result.objects_unverified.len());
    match (count, result.damage.len()) {
        (0, 0) if unverified > 0 => Err(Exit::check(format!(
            "{unverified} objects were not verified, because their tiers do not answer; repeat the command later"
        ))),
        (0, 0) => Ok(()),
        (0, places) => {
            Err(Exit::check(format!("damaged places: {places}; no object is affected as far as known")))
        }
        (count, _) => {
            Err(Exit::check(format!("damaged objects: {count}; restore them from a copy, or delete them")))
        }
    }
}
