//! `plimsoll-gateway sweep`: finds and deletes objects that no catalog row refers to.

use std::collections::BTreeMap;

use clap::Args;

use super::Exit;
use super::opened::Opened;
use super::out::say;
use super::ownership;
use super::place::StoreArguments;
use crate::config::Config;
use plimsoll_bodies::location::Location;
use plimsoll_catalog::ambient::now_ms;
use plimsoll_maintenance::mover::condition::{parse_time_ms, show_time_ms};
use plimsoll_maintenance::sweep::{Objects, begun_before, existing, list, remove_known};
use plimsoll_objects::owner;

/// Arguments of `plimsoll-gateway sweep`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    place: StoreArguments,
    /// Delete the orphans; without this option, they are only counted
    #[arg(long)]
    delete: bool,
    /// Ignore objects whose upload began less than this time ago; at least retain.deleted [default: the same, and at
    /// least 24h]
    #[arg(long, value_name = "TIME")]
    older_than: Option<String>,
    /// Delete nothing if more than this share of the gateway's objects in a tier are orphans, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    max_share: f64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Orphans of a tier.
#[derive(Debug, Default, serde::Serialize)]
struct Swept {
    /// Objects of the gateway in the tier.
    objects: u64,
    /// Number of objects that the catalog does not know.
    orphans: u64,
    /// Size of these objects in bytes.
    bytes: u64,
    /// Number of objects that were deleted.
    deleted: u64,
}

/// Lists the tiers, reads the catalog, and deletes the orphans. Gateways may be running.
///
/// # Errors
/// Exit code 1 if too many objects are orphans, 2 for invalid settings, 3 if the catalog or a tier fails.
pub fn sweep(arguments: &Arguments) -> Result<(), Exit> {
    let place = &arguments.place;
    place.must_exist()?;
    if !(0.0..=100.0).contains(&arguments.max_share) {
        return Err(Exit::input("--max-share: use a number from 0 to 100"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Exit::store)?;
    let config = place.config()?;
    let before_ms = now_ms().saturating_sub(least_age_ms(arguments, config.retain_ms)?);
    // The tiers are listed before the catalog is read.
    let listed = runtime.block_on(list_all(place, &config))?;
    let (_snapshot, opened) = place.open_copy(config)?;
    ownership::must_own(place, &opened, owner::read(&*opened.catalog).map_err(|e| place.fail(&e))?.as_ref())?;
    let Opened { catalog, bodies, recovery, .. } = opened;
    if !recovery.damage.is_empty() {
        return Err(place.fail(&"the catalog is damaged; run `plimsoll-gateway scrub` first"));
    }
    let tiers = bodies.blobs.tiers().clone();
    let counts: BTreeMap<String, u64> =
        listed.iter().map(|(name, found)| (name.clone(), found.len() as u64)).collect();
    let numbered = |(name, found): (String, Objects)| Some((tiers.number(&name)?, found));
    let mut objects: BTreeMap<u16, Objects> = listed.into_iter().filter_map(numbered).collect();
    remove_known(&*catalog, &mut objects).map_err(|e| place.fail(&e))?;
    let mut result = BTreeMap::new();
    let mut too_many = Vec::new();
    for (number, found) in objects {
        let Some(tier) = tiers.get(number) else { continue };
        let orphans = runtime.block_on(existing(&*tier.store, begun_before(found, before_ms)));
        let orphans = orphans.map_err(|e| place.fail(&format!("tier {}: {e}", tier.name)))?;
        let all = counts.get(&tier.name).copied().unwrap_or(0);
        let (count, bytes) = (orphans.len() as u64, orphans.values().sum());
        let mut swept = Swept { objects: all, orphans: count, bytes, deleted: 0 };
        if count as f64 > all as f64 * arguments.max_share / 100.0 {
            too_many.push(tier.name.clone());
        } else if arguments.delete {
            for name in orphans.keys() {
                let deleted = runtime.block_on(bodies.blobs.delete(&Location::new(number, *name)));
                deleted.map_err(|e| place.fail(&format!("tier {}: {e}", tier.name)))?;
                swept.deleted += 1;
            }
        }
        result.insert(tier.name.clone(), swept);
    }
    print(arguments, &result)?;
    match too_many.as_slice() {
        [] => Ok(()),
        names => Err(Exit::check(format!(
            "tier {}: more than {}% of the objects are orphans; is this the right catalog? Nothing was deleted there \
             (--max-share allows more)",
            names.join(", "),
            arguments.max_share
        ))),
    }
}

/// Returns the age from which an object can be an orphan, in milliseconds. Younger ones may belong to a catalog that is
/// restored, or that has lost its end.
fn least_age_ms(arguments: &Arguments, retain_ms: u64) -> Result<u64, Exit> {
    /// Milliseconds of a day.
    const DAY_MS: u64 = 86_400_000;
    let Some(text) = &arguments.older_than else { return Ok(retain_ms.max(DAY_MS)) };
    let age_ms = parse_time_ms(text).map_err(|e| Exit::input(format!("--older-than: {e}")))?;
    if age_ms < retain_ms {
        let kept = show_time_ms(retain_ms);
        return Err(Exit::input(format!(
            "--older-than {text}: use at least {kept}, the setting retain.deleted"
        )));
    }
    Ok(age_ms)
}

/// Lists the gateway's objects of all tiers by name.
async fn list_all(place: &StoreArguments, config: &Config) -> Result<BTreeMap<String, Objects>, Exit> {
    let mut found = BTreeMap::new();
    for (name, backend) in place.backends(config)? {
        let objects = list(&*backend.store).await;
        found.insert(name.clone(), objects.map_err(|e| place.fail(&format!("tier {name}: {e}")))?);
    }
    Ok(found)
}

fn print(arguments: &Arguments, result: &BTreeMap<String, Swept>) -> Result<(), Exit> {
    if arguments.json {
        return say(&format!("{}\n", serde_json::json!(result)));
    }
    for (name, swept) in result {
        let Swept { objects, orphans, bytes, deleted } = swept;
        say(&format!(
            "{name}: {orphans} orphans with {bytes} bytes of {objects} objects, {deleted} deleted\n"
        ))?;
    }
    Ok(())
}
