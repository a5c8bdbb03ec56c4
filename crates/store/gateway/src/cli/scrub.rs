//! `plimsoll-gateway scrub`: verifies every stored byte.

use std::sync::Arc;

use clap::Args;
use plimsoll_base::units::parse_size;

use super::Exit;
use super::out::Output;
use super::place::StoreArguments;
use super::target::Target;
use plimsoll_catalog::Catalog;
use plimsoll_catalog::embedded::Engine;
use plimsoll_catalog::embedded::segment_list::{AffectedKeys, Damage};
use plimsoll_maintenance::scrub::pace::Pace;
use plimsoll_maintenance::scrub::{self, FaultyObject, Scrub};

/// Maximum rate while a gateway serves the store, in bytes per second.
const SERVED_RATE: u64 = 64 << 20;

/// Arguments of `plimsoll-gateway scrub`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub place: StoreArguments,
    /// Serve objects again that damage to the log has put in doubt; they may be outdated, and others may be missing
    #[arg(long)]
    accept: bool,
    /// Maximum rate of reads per second [default: 64 MiB while a gateway runs, else none]
    #[arg(long, value_name = "SIZE")]
    rate: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Verifies every stored byte.
///
/// # Errors
/// Exit code 1 if something is damaged, 2 for invalid settings, 3 if the catalog cannot be used.
pub fn scrub(arguments: &Arguments, target: &Target, out: &dyn Output) -> Result<(), Exit> {
    let Target { store, recovery, is_served, .. } = target;
    if arguments.accept && store.catalog.is_shared() {
        return Err(Exit::input("--accept: only a catalog in a directory can have such damage"));
    }
    if arguments.accept && *is_served {
        return Err(Exit::input("--accept: stop the gateway first, because this changes the catalog"));
    }
    let rate = arguments.rate.as_ref().map(|text| parse_size(text)).transpose();
    let rate = rate.map_err(|e| Exit::input(format!("--rate: {e}")))?;
    if rate == Some(0) {
        return Err(Exit::input("--rate 0: use a size per second, such as 64 MiB"));
    }
    let rate = rate.or((*is_served || store.catalog.is_shared()).then_some(SERVED_RATE));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Exit::store)?;
    // An administrator who has gone away ends the command.
    let goes_on = || out.say("").is_ok();
    let mut result = runtime.block_on(scrub::scrub(store, *is_served, &mut Pace::new(rate), &goes_on));
    out.say("")?;
    if let Some(reason) = &recovery.rebuilt {
        result.damage.push(format!("the index was built again from the log: {reason}"));
    }
    result.damage.extend(recovery.repaired.iter().cloned());
    if let Some(engine) = store.catalog.engine().filter(|_| arguments.accept) {
        engine.accept_unknown_damage().map_err(Exit::store)?;
    }
    print(arguments, &result, out)?;
    let (count, unverified) = (result.objects_damaged.len(), result.objects_unverified.len());
    let (kept, copies) = (result.kept_damaged.len(), result.copies_damaged.len());
    match (count, result.damage.len()) {
        // Damage that was found before is the answer.
        (0, 0) if result.interrupted.is_some() && kept + copies == 0 => Err(target.fail(&format!(
            "not everything was verified: {}; repeat the command later",
            result.interrupted.unwrap_or_default()
        ))),
        (0, 0) if unverified > 0 => Err(Exit::check(format!(
            "{unverified} objects were not verified, because their tiers do not answer; repeat the command later"
        ))),
        (0, _) if kept > 0 => Err(Exit::check(format!(
            "damaged: {kept} deleted or replaced objects that are kept; no other object is affected as far as known"
        ))),
        (0, 0) if copies > 0 => Err(Exit::check(format!(
            "{copies} objects are readable, but have a damaged or missing copy in another tier"
        ))),
        (0, 0) => Ok(()),
        (0, places) => {
            Err(Exit::check(format!("damaged places: {places}; no object is affected as far as known")))
        }
        (count, _) => Err(Exit::check(format!(
            "damaged objects: {count}; restore them from a copy, or delete them{}",
            others(store.catalog.engine())
        ))),
    }
}

/// Says that damage of the log leaves other keys in doubt, which no list of objects has.
fn others(engine: Option<&Arc<Engine>>) -> &'static str {
    let is_unknown = |damage: &Damage| damage.keys == AffectedKeys::Unknown;
    match engine.is_some_and(|engine| engine.damage().iter().any(is_unknown)) {
        true => {
            "; the log has lost records of unknown keys: keys that are not listed answer with an error, too, until \
             `scrub --accept` lets the gateway take them for what the rest of the log says"
        }
        false => "",
    }
}

fn print(arguments: &Arguments, result: &Scrub, out: &dyn Output) -> Result<(), Exit> {
    if arguments.json {
        let text = serde_json::to_string_pretty(result).map_err(Exit::store)?;
        out.say(&format!("{text}\n"))?;
    } else {
        for place in &result.damage {
            out.say(&format!("damaged: {place}\n"))?;
        }
        if let Some(reason) = &result.interrupted {
            out.say(&format!("not verified: all objects behind the last one, because {reason}\n"))?;
        }
        let lists = [
            ("damaged object", &result.objects_damaged),
            ("damaged, but deleted or replaced", &result.kept_damaged),
            ("readable, but a copy is damaged", &result.copies_damaged),
            ("not verified", &result.objects_unverified),
        ];
        for (label, objects) in lists {
            for FaultyObject { bucket, key, version, problem } in objects {
                out.say(&format!("{label}: {bucket}/{key} (version {version}): {problem}\n"))?;
            }
        }
        out.say(&format!("{} objects and versions with {} bytes verified\n", result.objects, result.bytes))?;
    }
    Ok(())
}
