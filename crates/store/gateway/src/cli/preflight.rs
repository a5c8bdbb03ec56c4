//! Looks at everything that a start uses, and refuses it before anything is changed: a start that is refused has
//! neither created a catalog, nor taken a tier, nor ended the backup of another gateway.
//!
//! The look reads a snapshot of the catalog, the records of the tiers, and the headers of the backup. The start itself
//! checks again what can change meanwhile.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt;
use object_store::path::Path as ObjectPath;
use tokio::runtime::Runtime;

use super::Exit;
use super::backup_place::{backend, keys as keys_of, runtime};
use super::ownership::{Older, advice};
use super::place::{StoreArguments, quiet};
use super::restore::RESTORED;
use crate::config::{BackupRule, CatalogPlace, Config};
use plimsoll_backup::error::BackupError;
use plimsoll_backup::header::{Known, Tail};
use plimsoll_backup::history::History;
use plimsoll_backup::journal::end::JournalEnd;
use plimsoll_backup::journal::start::has_journal;
use plimsoll_backup::marker::is_backup;
use plimsoll_backup::place::Place;
use plimsoll_bodies::location::{BlobHead, parse_own};
use plimsoll_bodies::tier::{Tier, TierTable, open};
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::embedded::catalog::EmbeddedCatalog;
use plimsoll_catalog::embedded::snapshot::Snapshot;
use plimsoll_catalog::embedded::{Engine, INDEX_DIRECTORY, segment};
use plimsoll_catalog::postgres::{Access, PostgresCatalog, is_missing};
use plimsoll_catalog::{Catalog, CatalogError, format};
use plimsoll_objects::keys;
use plimsoll_objects::owner::claim::{Claim, ClaimError, inspect, refused};
use plimsoll_objects::owner::record::OwnerRecord;
use plimsoll_objects::owner::{self, Identity};

/// A catalog as it is before it is opened.
#[derive(Default)]
struct Found {
    /// `None` for a catalog that does not exist.
    catalog: Option<Arc<AnyCatalog>>,
    identity: Option<Identity>,
    /// Copy of the files, which is removed when this is dropped.
    _snapshot: Option<Snapshot>,
}

impl Drop for Found {
    fn drop(&mut self) {
        // The threads of the copy must not write when its directory is removed.
        if let Some(catalog) = &self.catalog {
            let _ = catalog.close();
        }
    }
}

/// Returns true if a directory has a catalog, or the rest of one.
pub fn has_catalog(root: &Path) -> bool {
    let is_there = |name: &&str| root.join(name).exists();
    [segment::DIRECTORY, INDEX_DIRECTORY, format::FILE, format::MOVED].iter().any(is_there)
        && std::fs::read_dir(root.join(segment::DIRECTORY)).map_or(true, |mut names| names.next().is_some())
}

/// Returns the names in a directory that a new catalog would not expect; empty if there is no directory.
fn foreign_names(directory: &Path, own: &[&str]) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()));
    let is_foreign = |name: &String| !name.starts_with('.') && !own.contains(&name.as_str());
    names.filter(is_foreign).collect()
}

/// Refuses a directory that is not empty and has no catalog: it is a wrong path, or a copy in a wrong place.
fn check_new(place: &StoreArguments, root: &Path) -> Result<(), Exit> {
    /// Names in the directory of a catalog that an unfinished start may have left.
    const OWN: [&str; 7] = [
        segment::DIRECTORY,
        INDEX_DIRECTORY,
        format::FILE,
        "WRITERS",
        "restoring",
        "admin.sock",
        "lost+found",
    ];
    let name = place.name();
    if let Some(data) = place.data() {
        if is_backup(data) {
            let from = std::path::absolute(data).unwrap_or_else(|_| data.to_path_buf());
            return Err(Exit::input(format!(
                "{name}: this directory is a backup: restore it with `plimsoll-gateway restore --data DIR --from \
                 file://{}`, DIR being a new directory",
                from.display()
            )));
        }
        if has_catalog(data) {
            return Err(Exit::input(format!(
                "{name}: this directory is a catalog without its store: put it at {}, or use `restore --from URL --data \
                 DIR` with a backup",
                data.join("catalog").display()
            )));
        }
        let names = foreign_names(data, &["catalog", plimsoll_bodies::tier::BLOBS, "lost+found"]);
        if let Some(first) = names.first() {
            return Err(Exit::input(format!(
                "{name}: this directory is not empty (it has {first}) and has no catalog in {}; use an empty or a new \
                 directory",
                data.join("catalog").display()
            )));
        }
    }
    let names = foreign_names(root, &OWN);
    match names.iter().find(|name| !name.starts_with("replaced-")) {
        None => Ok(()),
        Some(first) => Err(Exit::input(format!(
            "{name}: {} is not empty (it has {first}) and has no catalog; use an empty or a new directory",
            root.display()
        ))),
    }
}

/// Reads a catalog without changing it; `None` if it cannot be looked at, or its identity is not known.
fn look(place: &StoreArguments, catalog: &CatalogPlace) -> Result<Option<Found>, Exit> {
    let (catalog, snapshot) = match catalog {
        CatalogPlace::Directory(root) if !has_catalog(root) => {
            check_new(place, root)?;
            return Ok(Some(Found::default()));
        }
        CatalogPlace::Directory(root) => {
            format::of_directory(root).map_err(|e| place.fail(&e))?;
            // The start itself names what is wrong with a catalog of which no copy can be made, on a full disk for
            // example.
            let Ok(snapshot) = Snapshot::take(root) else { return Ok(None) };
            let Ok((copy, _)) = EmbeddedCatalog::open(snapshot.path(), quiet()) else { return Ok(None) };
            (AnyCatalog::Embedded(copy), Some(snapshot))
        }
        CatalogPlace::Database(database) => match PostgresCatalog::open(database, Access::ReadOnly) {
            Ok(catalog) => (AnyCatalog::Postgres(catalog), None),
            Err(error) if is_missing(&error) => return Ok(Some(Found::default())),
            Err(error) => return Err(place.fail(&error)),
        },
    };
    // A record of the identity that is lost or in doubt belongs to no other catalog.
    let identity = owner::read(&catalog).unwrap_or_default();
    let found = Found { catalog: Some(Arc::new(catalog)), identity, _snapshot: snapshot };
    Ok(found.identity.is_some().then_some(found))
}

/// Returns the tiers of which the catalog has blobs, by number.
fn used_tiers(catalog: &AnyCatalog) -> Result<BTreeSet<u16>, CatalogError> {
    let mut used = BTreeSet::new();
    let mut scan = catalog.scan();
    scan.seek(std::ops::Bound::Included(keys::BLOBS))?;
    while let Some((key, row)) = scan.next()?
        && key.starts_with(keys::BLOBS)
    {
        let head = BlobHead::decode(&row.head);
        used.extend(head.into_iter().flat_map(|head| head.locations).map(|location| location.tier));
    }
    Ok(used)
}

/// Returns the directory of a tier; `None` for other tiers.
fn directory(table: &TierTable) -> Option<&Path> {
    table.url.strip_prefix("file://").map(Path::new)
}

/// Checks that a tier has no owner, or belongs to the catalog under the same name, and has not lost its record.
fn check_tier(
    place: &StoreArguments,
    runtime: &Runtime,
    name: &str,
    table: &TierTable,
    found: &Found,
    older: Older,
) -> Result<(), Exit> {
    let is_missing = directory(table).is_some_and(|path| !path.is_dir());
    let claim = if is_missing {
        Claim::Free
    } else {
        let backend = open::open(table);
        let backend = backend.map_err(|e| Exit::input(format!("{}: tier {name}: {e}", place.name())))?;
        let tier = Tier::new(name, backend);
        let identity = found.identity.unwrap_or(Identity { id: [0; 16], position: 0, at_ms: 0 });
        let claim = match runtime.block_on(inspect(&tier, &identity)) {
            Ok(claim) => claim,
            // The start reports a tier that does not answer, and looks again before anything is moved.
            Err(_) => return Ok(()),
        };
        let is_refused = |claim: &Claim| matches!(claim, Claim::Foreign(_)) || older == Older::Refused;
        let is_outdated =
            |error: &ClaimError| found.catalog.as_ref().is_some_and(|catalog| error.is_outdated(&**catalog));
        let error = refused(&tier, &identity, &claim).filter(|error| !is_outdated(error));
        if let Some(error) = error.filter(|_| is_refused(&claim)) {
            let what = if found.identity.is_some() { "" } else { "the catalog is empty, and " };
            return Err(place.fail(&format!("{what}{error}. {}", advice(place, &error))));
        }
        match &claim {
            Claim::Free if found.catalog.is_none() => check_empty(place, runtime, &tier)?,
            Claim::Own(own) | Claim::Newer(own) => check_name(place, name, table, &own.record)?,
            _ => {}
        }
        claim
    };
    let Some(catalog) = found.catalog.as_ref().filter(|_| matches!(claim, Claim::Free)) else {
        return Ok(());
    };
    let number = catalog.get(&keys::tier(name)).ok().flatten();
    let number = number.and_then(|row| row.head.first_chunk().map(|bytes| u16::from_be_bytes(*bytes)));
    let Some(number) = number else { return Ok(()) };
    if used_tiers(catalog).map_err(|e| place.fail(&e))?.contains(&number) {
        return Err(place.fail(&format!(
            "tier {name}: the catalog has blobs there, and {} has no record of its owner (plimsoll-owner.json): is the \
             URL wrong, or a disk not mounted? If the bytes are lost, and this is a new place for it, run \
             `plimsoll-gateway replace-tier {} --tier {name}`",
            table.url,
            place.name()
        )));
    }
    Ok(())
}

/// Refuses a tier whose place has the record of another tier of the same catalog.
fn check_name(
    place: &StoreArguments,
    name: &str,
    table: &TierTable,
    record: &OwnerRecord,
) -> Result<(), Exit> {
    match &record.tier {
        Some(recorded) if recorded != name => Err(place.fail(&format!(
            "tier {name}: the place {} is that of tier {recorded} of this catalog; are the URLs of two tiers swapped? If \
             tier {recorded} was renamed and has no blobs, delete plimsoll-owner.json there",
            table.url
        ))),
        _ => Ok(()),
    }
}

/// Refuses a tier without a record that has blobs, for a catalog without objects.
fn check_empty(place: &StoreArguments, runtime: &Runtime, tier: &Tier) -> Result<(), Exit> {
    /// Number of objects that are looked at.
    const MOST: usize = 1000;
    let store = tier.uncounted();
    let is_own = |path: &ObjectPath| parse_own(path.as_ref()).is_some();
    let listed = runtime.block_on(store.list(None).take(MOST).collect::<Vec<_>>());
    if !listed.iter().flatten().any(|object| is_own(&object.location)) {
        return Ok(());
    }
    let (name, store) = (&tier.name, place.name());
    Err(place.fail(&format!(
        "the catalog is empty, and tier {name} has blobs of another one. If the catalog was lost, restore its backup, or \
         run `plimsoll-gateway recover {store} --from-tiers`; else use another bucket or prefix"
    )))
}

/// Returns true if a log certainly does not have what a backup has: it is older, or has something else there.
fn lacks(engine: &Engine, tail: &Tail) -> bool {
    let is_known = !tail.sha256.is_empty();
    let is_behind = tail.position.group > engine.synced_end().group;
    is_known && !tail.is_in(engine) && (is_behind || engine.segment(tail.position.segment).is_some())
}

/// Checks that the place of the backup has nothing that this catalog does not have. Returns the id of the catalog that
/// an empty directory continues.
fn check_backup(
    place: &StoreArguments,
    runtime: &Runtime,
    root: &Path,
    rule: &BackupRule,
    found: &Found,
    older: Older,
) -> Result<Option<String>, Exit> {
    let keys = keys_of("backup.key_file", rule.key_file.as_deref())?;
    let backup = &Place::new(backend(rule)?).encrypted(keys);
    let (name, url) = (place.name(), &rule.place.url);
    let failed = |error: BackupError| place.fail(&format!("{url}: {error}"));
    let place_state = runtime.block_on(async {
        let owner = backup.catalog().await?;
        Ok((owner, JournalEnd::find(backup).await?, History::load(backup).await?))
    });
    let (owner, journal, history) = match place_state {
        Ok((None, ..)) => return Ok(None),
        Ok((Some(owner), journal, history)) => (owner, journal, history),
        // With a lease, the start fails before it changes anything; else the gateway serves, and reports the problem.
        Err(_) if found.catalog.is_some() => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let is_other = found.identity.filter(|own| own.text() != owner);
    if rule.lease_ms.is_some() && journal.last.is_some() {
        // The journal decides who leads, and has what the directory does not have.
        return match is_other {
            Some(own) => Err(failed(BackupError::Foreign { found: owner, own: own.text() })),
            None => Ok(Some(owner)),
        };
    }
    if found.identity.is_none() {
        return Err(place.fail(&format!(
            "the catalog is empty, and {url} has the backup of catalog {owner}. To bring it back, run `plimsoll-gateway \
             restore {name}`; to follow a gateway with a lease, use --follow {url}; for a new store, use another \
             backup.to"
        )));
    }
    if let Some(own) = is_other {
        // Without a lease, the gateway serves, and reports that its backup does not continue.
        let foreign = BackupError::Foreign { found: owner, own: own.text() };
        return if rule.lease_ms.is_some() { Err(failed(foreign)) } else { Ok(None) };
    }
    let last = history.pieces.iter().rev().find(|known| known.header.fence.is_none());
    let Some((last, engine)) = last.zip(found.catalog.as_ref().and_then(|catalog| catalog.engine())) else {
        return Ok(None);
    };
    let is_accepted = older == Older::Accepted || has_journal(root) || is_restored_from(root, last);
    if is_accepted || !lacks(engine, &last.header.tail) {
        return Ok(None);
    }
    let until = plimsoll_catalog::ambient::utc_text(last.header.until_ms);
    Err(place.fail(&format!(
        "{url} has writes until {until} that this directory does not have: another gateway has continued this store, or \
         the directory is older. Stop the other gateway; to continue its state, move the directory away and run \
         `plimsoll-gateway restore {name}`; to keep the state of this directory, use another backup.to"
    )))
}

/// Returns true if a directory was restored from a backup whose last piece is still this one.
fn is_restored_from(root: &Path, last: &Known) -> bool {
    let text = std::fs::read_to_string(root.join(RESTORED)).unwrap_or_default();
    text.trim() == last.header.name()
}

/// Checks a store before it is opened. `older` is the treatment of a catalog that is older than its tiers. If
/// `uses_backup` is false, the backup is neither read nor written.
///
/// # Errors
/// Exit code 2 for invalid settings or a wrong directory, 3 if the store belongs to something else, is older, or cannot
/// be read.
pub fn check(place: &StoreArguments, older: Older, uses_backup: bool) -> Result<(), Exit> {
    let config: Config = place.config()?;
    let Some(mut found) = look(place, &config.catalog)? else { return Ok(()) };
    let runtime = runtime()?;
    let rule = config.backup.as_ref().filter(|_| uses_backup);
    if let (CatalogPlace::Directory(root), Some(rule)) = (&config.catalog, rule)
        && directory(&rule.place).is_none_or(Path::is_dir)
    {
        let continued = check_backup(place, &runtime, root, rule, &found, older)?;
        if found.catalog.is_none() {
            found.identity = continued.and_then(|id| Identity::of_text(&id));
        }
    }
    // With a journal, the state of the directory is not the one that will be served.
    let has_lease = rule.is_some_and(|rule| rule.lease_ms.is_some());
    let older = if has_lease { Older::Accepted } else { older };
    for (name, table) in &config.tiers {
        check_tier(place, &runtime, name, table, &found, older)?;
    }
    Ok(())
}
