//! `plimsoll-gateway recover` and `reconcile`: build a lost catalog again, and complete a restored one, from the tiers.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Args;
use plimsoll_base::net::encode::hex;
use plimsoll_server::reserve::Memory;

use super::Exit;
use super::opened::Opened;
use super::out::say;
use super::place::StoreArguments;
use super::{backup_place, restore};
use plimsoll_backup::place::Place;
use plimsoll_bodies::tier::Tiers;
use plimsoll_catalog::Transaction;
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::blocking::block_on;
use plimsoll_catalog::log::note;
use plimsoll_maintenance::reattach::attach::attach;
use plimsoll_maintenance::reattach::attached::Attached;
use plimsoll_maintenance::reattach::inventory::Inventory;
use plimsoll_objects::owner::claim::{Claim, inspect};
use plimsoll_objects::owner::record::{self, OwnerRecord};
use plimsoll_objects::owner::{self, Identity, buckets};
use plimsoll_objects::{Document, Store};

/// Arguments of `plimsoll-gateway recover`.
#[derive(Debug, Args)]
pub struct RecoverArguments {
    #[command(flatten)]
    place: StoreArguments,
    /// Build the catalog from the trailers of the blobs and the records of the pack files in the tiers
    #[arg(long, required = true)]
    from_tiers: bool,
    /// Only count the objects
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `plimsoll-gateway reconcile`.
#[derive(Debug, Args)]
pub struct ReconcileArguments {
    #[command(flatten)]
    place: StoreArguments,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Returns the records of the tiers that have one, by the name of the tier.
async fn records(place: &StoreArguments, tiers: &Tiers) -> Result<BTreeMap<String, OwnerRecord>, Exit> {
    let mut found = BTreeMap::new();
    for (_, tier) in tiers.iter() {
        let record = record::read(&*tier.uncounted()).await;
        let record = record.map_err(|e| place.fail(&format!("tier {}: {e}", tier.name)))?;
        found.extend(record.map(|record| (tier.name.clone(), record.record)));
    }
    Ok(found)
}

/// Returns the identity after the latest of these records.
fn next_identity(place: &StoreArguments, records: &BTreeMap<String, OwnerRecord>) -> Result<Identity, Exit> {
    let latest = records.iter().max_by_key(|(_, record)| record.position);
    let Some((tier, latest)) = latest else {
        return Err(place.fail(&"no tier has a record of its owner, so there is nothing to recover"));
    };
    if let Some((other, record)) = records.iter().find(|(_, record)| record.catalog != latest.catalog) {
        return Err(place.fail(&format!(
            "the tiers belong to different catalogs: {tier} to {}, and {other} to {}; use settings with tiers of one",
            latest.catalog, record.catalog
        )));
    }
    let mut id = [0; 16];
    let digits = latest
        .catalog
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).ok().and_then(|text| u8::from_str_radix(text, 16).ok()));
    let digits: Option<Vec<u8>> = digits.collect();
    match digits.filter(|digits| digits.len() == id.len()) {
        Some(digits) => id.copy_from_slice(&digits),
        None => return Err(place.fail(&format!("the record of tier {tier} has no id of a catalog"))),
    }
    Ok(Identity { id, position: latest.position + 1, at_ms: 0 })
}

/// Returns the documents of the buckets, of the tier that has the most.
async fn documents(
    place: &StoreArguments,
    tiers: &Tiers,
    identity: &Identity,
) -> Result<BTreeMap<String, Document>, Exit> {
    let mut best = BTreeMap::new();
    for (_, tier) in tiers.iter() {
        let found = buckets::read(&*tier.uncounted()).await;
        let found = found.map_err(|e| place.fail(&format!("tier {}: {e}", tier.name)))?;
        let found = found.filter(|found| found.catalog == identity.text()).unwrap_or_default().buckets;
        if found.len() > best.len() {
            best = found;
        }
    }
    Ok(best)
}

/// Writes the identity of the catalog.
fn set_identity(place: &StoreArguments, catalog: &AnyCatalog, identity: Identity) -> Result<(), Exit> {
    use plimsoll_catalog::Catalog;
    let work = Box::new(move |t: &mut dyn Transaction| {
        owner::put(t, identity);
        Ok(true)
    });
    block_on(catalog.commit(work, 64)).map_err(|e| place.fail(&e))
}

fn runtime() -> Result<tokio::runtime::Runtime, Exit> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Exit::store)
}

/// Reads the tiers, and attaches what the catalog does not know.
fn take_over(
    place: &StoreArguments,
    opened: Opened,
    identity: Identity,
    is_dry: bool,
) -> Result<Attached, Exit> {
    let Opened { catalog, bodies, .. } = opened;
    let runtime = runtime()?;
    let mut store =
        Store::open(Arc::clone(&catalog), bodies, Memory::new(u64::MAX)).map_err(|e| place.fail(&e))?;
    store.catalog_id = identity.id;
    let documents = runtime.block_on(documents(place, store.blobs.tiers(), &identity))?;
    let tell = |tier: &plimsoll_bodies::tier::Tier, count: usize| {
        note(&format!("tier {}: reading {count} objects", tier.name))
    };
    let inventory = runtime.block_on(Inventory::take(&store.blobs, Some(identity.id), &tell));
    let inventory = inventory.map_err(|e| place.fail(&e))?;
    if is_dry {
        return Ok(inventory.newest());
    }
    let attached = runtime.block_on(attach(&store, inventory, &documents)).map_err(|e| place.fail(&e))?;
    drop(store);
    set_identity(place, &catalog, identity)?;
    catalog.close().map_err(|e| place.fail(&e))?;
    Ok(attached)
}

/// Builds the catalog of a store from its tiers. The catalog must have no buckets.
///
/// # Errors
/// Exit code 2 for invalid settings or a catalog with buckets, 3 if the catalog or a tier fails.
pub fn recover(arguments: &RecoverArguments) -> Result<(), Exit> {
    let (place, name) = (&arguments.place, arguments.place.name());
    if place.data().is_some_and(|data| !data.is_dir()) {
        return Err(Exit::input(format!("{name}: there is no such directory")));
    }
    let opened = place.open(Default::default())?;
    let all =
        buckets::BucketDocuments::of_catalog(&*opened.catalog, String::new()).map_err(|e| place.fail(&e))?;
    if !all.buckets.is_empty() {
        let count = all.buckets.len();
        return Err(Exit::input(format!(
            "{name}: the catalog has {count} buckets; to complete it, use `plimsoll-gateway reconcile {name}`, and to \
             build a new one, move it away"
        )));
    }
    let records = runtime()?.block_on(records(place, opened.bodies.blobs.tiers()))?;
    let identity = next_identity(place, &records)?;
    let attached = take_over(place, opened, identity, arguments.dry_run)?;
    let lost = "objects that were in the catalog only, such as those of at most `inline` bytes, are lost";
    print(&attached, arguments.json, arguments.dry_run, lost)
}

/// Completes a catalog that is older than its tiers.
///
/// # Errors
/// Exit code 2 for invalid settings, 3 if the catalog or a tier fails.
pub fn reconcile(arguments: &ReconcileArguments) -> Result<(), Exit> {
    let place = &arguments.place;
    place.must_exist()?;
    let opened = place.open(Default::default())?;
    let known = block_on(owner::identify(&*opened.catalog)).map_err(|e| place.fail(&e))?;
    let runtime = runtime()?;
    for (_, tier) in opened.bodies.blobs.tiers().iter() {
        let claim = runtime.block_on(inspect(tier, &known));
        if let Claim::Foreign(record) = claim.map_err(|e| place.fail(&format!("tier {}: {e}", tier.name)))? {
            let (name, owner, id) = (&tier.name, record.catalog, hex(&known.id));
            return Err(
                place.fail(&format!("tier {name} belongs to another catalog, {owner}; this one is {id}"))
            );
        }
    }
    let records = runtime.block_on(records(place, opened.bodies.blobs.tiers()))?;
    let identity = match records.is_empty() {
        true => Identity { position: known.position + 1, ..known },
        false => {
            let next = next_identity(place, &records)?;
            Identity { position: next.position.max(known.position + 1), ..next }
        }
    };
    let attached = take_over(place, opened, identity, false)?;
    record_continued(place, &runtime)?;
    let was_older = attached.objects > 0 || attached.moved > 0;
    let lost = "changes since this state of the catalog that the tiers do not have, such as objects of at most \
                `inline` bytes, are lost";
    print(&attached, arguments.json, false, if was_older { lost } else { "" })
}

/// Records in the directory of the catalog that it continues the backup of the settings, if there is one.
fn record_continued(place: &StoreArguments, runtime: &tokio::runtime::Runtime) -> Result<(), Exit> {
    let Some(root) = place.directory()? else { return Ok(()) };
    let Some(rule) = place.config()?.backup else { return Ok(()) };
    let is_missing = |path: &str| !std::path::Path::new(path).is_dir();
    if rule.place.url.strip_prefix("file://").is_some_and(is_missing) {
        return Ok(());
    }
    let keys = backup_place::keys("backup.key_file", rule.key_file.as_deref())?;
    let backup = Place::new(backup_place::backend(&rule)?).encrypted(keys);
    runtime.block_on(restore::record_restored(&backup, &root)).map_err(|e| place.fail(&e))
}

/// Prints what was attached. `lost` is a sentence on what cannot be attached; it may be empty.
fn print(attached: &Attached, is_json: bool, is_dry: bool, lost: &str) -> Result<(), Exit> {
    if is_json {
        return say(&format!("{}\n", serde_json::json!(attached)));
    }
    let Attached { buckets, objects, bytes, older, moved, incomplete, unidentified } = attached;
    let verb = if is_dry { "can be attached" } else { "attached" };
    say(&format!("{objects} objects with {bytes} bytes {verb}, {buckets} buckets created\n"))?;
    if *moved > 0 {
        say(&format!("{moved} blobs have moved since\n"))?;
    }
    if *older > 0 {
        say(&format!(
            "{older} versions are older than the current ones, and stay in the tiers until a sweep\n"
        ))?;
    }
    if *unidentified > 0 {
        say(&format!(
            "{unidentified} objects in the tiers describe nothing: unfinished writes, or of older versions\n"
        ))?;
    }
    for key in incomplete {
        say(&format!("incomplete, a piece is missing: {key}\n"))?;
    }
    if lost.is_empty() { Ok(()) } else { say(&format!("{lost}\n")) }
}
