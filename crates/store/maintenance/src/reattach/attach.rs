//! Attaches the versions of an inventory that the catalog does not know.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use plimsoll_server::conditions::WriteConditions;
use plimsoll_server::error::ApiError;

use super::ReattachError;
use super::attached::Attached;
use super::inventory::{FoundBlob, FoundPackFile, FoundVersion, Inventory};
use plimsoll_bodies::location::{BlobHead, Garbage, Location, ObjectName, Reason, State};
use plimsoll_bodies::name::BlobName;
use plimsoll_catalog::ambient::shared_now_ms;
use plimsoll_catalog::embedded::head_only;
use plimsoll_catalog::{Catalog, CatalogError, Transaction, Value, unless_in_doubt};
use plimsoll_objects::lease::is_alive;
use plimsoll_objects::live::{self, Live};
use plimsoll_objects::row::{Body, Head};
use plimsoll_objects::version::{ObjectAddress, head_of};
use plimsoll_objects::write::write_object;
use plimsoll_objects::{Bucket, Document, Store, keys};

/// Number of keys whose versions are attached in one transaction.
const KEYS: usize = 128;

/// The list of garbage.
#[derive(Default)]
struct GarbageList {
    /// All places on it.
    places: HashSet<Location>,
    /// Keys of the entries of unfinished writes that are kept, because a later state of the catalog may have them as
    /// complete.
    unfinished: HashMap<Location, Vec<u8>>,
}

/// Versions of one key, from the oldest to the newest.
struct Batch {
    target: ObjectAddress,
    versions: Vec<FoundVersion>,
}

/// Content of a transaction.
struct Work {
    batches: Vec<Batch>,
    blobs: BTreeMap<BlobName, FoundBlob>,
    pack_files: BTreeMap<BlobName, FoundPackFile>,
    garbage: Arc<GarbageList>,
}

fn read_garbage<C: Catalog>(store: &Store<C>) -> Result<GarbageList, CatalogError> {
    let now_ms = shared_now_ms();
    let mut found = GarbageList::default();
    let mut scan = store.catalog.scan();
    scan.seek(Bound::Included(keys::GARBAGE))?;
    while let Some((key, row)) = scan.next()?
        && key.starts_with(keys::GARBAGE)
    {
        let Some((at_ms, place)) = keys::parse_garbage(&key) else { continue };
        let is_unfinished = Garbage::decode(&row.head).is_some_and(|g| g.reason == Reason::Unfinished);
        found.places.insert(place.clone());
        // The bytes of an entry that is due may be deleted at any moment, so no object can rely on them.
        if is_unfinished && at_ms.saturating_add(store.retain_ms) > now_ms {
            found.unfinished.insert(place, key);
        }
    }
    Ok(found)
}

/// Attaches everything in an inventory that the catalog does not know. New buckets get their documents.
///
/// # Errors
/// If the catalog fails. What was attached stays, and another call attaches the rest.
pub async fn attach<C: Catalog>(
    store: &Store<C>,
    mut inventory: Inventory,
    documents: &BTreeMap<String, Document>,
) -> Result<Attached, ReattachError> {
    let mut attached = Attached { unidentified: inventory.unidentified, ..Attached::default() };
    let versions = std::mem::take(&mut inventory.versions);
    let mut names: BTreeSet<&String> = versions.keys().map(|(bucket, _)| bucket).collect();
    // Empty buckets, and those whose objects are all in the catalog, are known only from the documents.
    names.extend(documents.keys());
    let mut buckets: BTreeMap<String, Arc<Bucket>> = BTreeMap::new();
    for name in names {
        let (bucket, is_new) =
            store.ensure_bucket(name, documents.get(name)).await.map_err(ReattachError::Catalog)?;
        attached.buckets += u64::from(is_new);
        buckets.insert(name.clone(), bucket);
    }
    let garbage = Arc::new(read_garbage(store)?);
    attached.moved = attach_places(store, &inventory, &garbage).await?;
    let mut batches = Vec::new();
    for ((bucket, key), versions) in versions {
        let (complete, incomplete): (Vec<_>, Vec<_>) =
            versions.into_iter().partition(|version| inventory.is_complete(version));
        if !incomplete.is_empty() {
            attached.incomplete.push(format!("{bucket}/{key}"));
        }
        let Some(bucket) = buckets.get(&bucket).filter(|_| !complete.is_empty()) else { continue };
        let target = ObjectAddress { bucket: Arc::clone(bucket), key };
        batches.push(Batch { target, versions: complete });
        if batches.len() == KEYS {
            attach_batches(store, &inventory, std::mem::take(&mut batches), &garbage, &mut attached).await?;
        }
    }
    attach_batches(store, &inventory, batches, &garbage, &mut attached).await?;
    // After all versions: a closed pack file is discarded when the objects attached so far are deleted.
    close(store, &inventory).await?;
    Ok(attached)
}

async fn attach_batches<C: Catalog>(
    store: &Store<C>,
    inventory: &Inventory,
    batches: Vec<Batch>,
    garbage: &Arc<GarbageList>,
    attached: &mut Attached,
) -> Result<(), ReattachError> {
    let names: BTreeSet<BlobName> =
        batches.iter().flat_map(|batch| &batch.versions).flat_map(|v| v.blobs.iter().copied()).collect();
    let pick = |name: &BlobName| Some((*name, inventory.blobs.get(name)?.clone()));
    let pick_pack_file = |name: &BlobName| Some((*name, *inventory.pack_files.get(name)?));
    let work = Work {
        blobs: names.iter().filter_map(pick).collect(),
        pack_files: names.iter().filter_map(pick_pack_file).collect(),
        garbage: Arc::clone(garbage),
        batches,
    };
    let bytes = work.batches.len() * 1024;
    // All versions of a key in one transaction, so that no client of a database sees an older one as the current one.
    let done = store.transact(bytes, move |t| {
        let mut done = Attached::default();
        for batch in &work.batches {
            for version in &batch.versions {
                if let Err(error) = attach_version(t, &work, &batch.target, version, &mut done)? {
                    return Ok(Err(error));
                }
            }
        }
        Ok(Ok(done))
    });
    let done = done.await.map_err(ReattachError::Catalog)?;
    attached.objects += done.objects;
    attached.bytes += done.bytes;
    attached.older += done.older;
    Ok(())
}

/// Returns true if the catalog has, or has had, the bytes of a version.
fn is_known(t: &mut dyn Transaction, work: &Work, version: &FoundVersion) -> Result<bool, CatalogError> {
    for name in &version.blobs {
        let Some(row) = unless_in_doubt(t.get(&keys::blob(name)))? else { continue };
        let is_open = live::load(t, name)?.is_some_and(|live| live.open);
        let head = BlobHead::decode(&row.head);
        let is_kept =
            |head: &BlobHead| head.locations.iter().any(|place| work.garbage.unfinished.contains_key(place));
        let is_fresh = match head {
            // A malformed row says nothing about the bytes. The blob counts as known, and the row stays.
            None => false,
            Some(head) => match head.state {
                // A gateway that runs may be about to complete it.
                State::Pending => !t.is_shared() || !is_alive(t, head.version, shared_now_ms())?,
                // The end of an earlier call is missing.
                State::Complete => is_open,
                // The write was given up in this state of the catalog, but a later state may have acknowledged it.
                State::Discarded => is_kept(&head),
            },
        };
        if !is_fresh {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if the bucket has the version already, perhaps with its body in another place.
fn has_version(
    t: &mut dyn Transaction,
    target: &ObjectAddress,
    version: &FoundVersion,
) -> Result<bool, CatalogError> {
    // The row may have a higher generation than the trailer (`next_generation`), so the body counts, too.
    let is_same = |head: &Head| {
        head.generation == version.head.generation
            || (head.modified_ms, head.md5, head.size) == version.identity()
    };
    if target.current(t)?.is_some_and(|(_, head)| is_same(&head)) {
        return Ok(true);
    }
    let prefix = keys::noncurrent(target.bucket.number, &target.key);
    let mut from = prefix.clone();
    while let Some((key, row)) = t.first(&prefix, &from)? {
        if is_same(&head_of(&row)?) {
            return Ok(true);
        }
        from = [key.as_slice(), &[0]].concat();
    }
    Ok(false)
}

fn attach_version(
    t: &mut dyn Transaction,
    work: &Work,
    target: &ObjectAddress,
    version: &FoundVersion,
    done: &mut Attached,
) -> Result<Result<(), ApiError>, CatalogError> {
    if is_known(t, work, version)? || has_version(t, target, version)? {
        return Ok(Ok(()));
    }
    let current = target.current(t)?;
    let is_newest = current.is_none_or(|(_, head)| head.generation < version.head.generation);
    // Without versions, a key has no place for an older object. Its bytes stay in the tiers until a sweep.
    if !is_newest && !target.bucket.is_versioned() {
        done.older += 1;
        return Ok(Ok(()));
    }
    // In the transaction of the row: a complete blob that no row refers to would never be deleted.
    attach_blobs(t, work, version)?;
    let (head, value) = (version.head.clone(), version.value.clone());
    done.objects += 1;
    done.bytes += head.size;
    if is_newest {
        let written = write_object(t, target, head, value, &WriteConditions::default())?;
        return Ok(written.map(|_| ()));
    }
    let head = Head { null: false, ..head };
    t.put(target.version_key(head.generation), Value { head: head.encode(), ..value });
    Ok(Ok(()))
}

/// Records the blobs of a version as complete.
fn attach_blobs(t: &mut dyn Transaction, work: &Work, version: &FoundVersion) -> Result<(), CatalogError> {
    for name in &version.blobs {
        let Some(blob) = work.blobs.get(name) else { continue };
        if let Body::Slice(slice) = &version.head.body {
            let found = work.pack_files.get(name).copied().unwrap_or(FoundPackFile { records: 0, bytes: 0 });
            let (size, records, bytes) = (blob.size, found.records, found.bytes);
            // Open until `close`: a client may delete the first objects before the last ones are attached.
            let used_until_ms = Some(0);
            let new = Live { open: true, size, records, bytes, used_until_ms, ..Live::default() };
            let mut counts = live::load(t, name)?.unwrap_or(new);
            counts.live += 1;
            counts.live_bytes += slice.size;
            t.put(keys::pack_file(name), head_only(counts.encode()));
        }
        let properties: Vec<u8> = blob.crcs.iter().flat_map(|crc| crc.to_le_bytes()).collect();
        let head = BlobHead::complete(blob.places.clone());
        let value = Value { head: head.encode(), properties: properties.into(), body: Bytes::new() };
        t.put(keys::blob(name), value);
        // Otherwise, the entries would delete the copies behind the first place.
        for place in &blob.places {
            if let Some(entry) = work.garbage.unfinished.get(place) {
                t.delete(entry.clone());
            }
        }
    }
    Ok(())
}

/// Adds the places of known blobs that the catalog does not know, and removes those whose bytes are gone. Returns the
/// number of blobs.
async fn attach_places<C: Catalog>(
    store: &Store<C>,
    inventory: &Inventory,
    garbage: &GarbageList,
) -> Result<u64, ReattachError> {
    let mut changes = Vec::new();
    for (name, blob) in &inventory.blobs {
        let Some(row) = store.catalog.get(&keys::blob(name))? else { continue };
        let Some(head) = BlobHead::decode(&row.head).filter(|head| head.state == State::Complete) else {
            continue;
        };
        let exists = |place: &Location| {
            let objects = inventory.objects.get(&place.tier);
            let found = |name| objects.is_some_and(|objects| objects.contains(name));
            match &place.name {
                ObjectName::Own(name) => found(name),
                // The inventory has only own names, so it does not say whether an adopted object exists.
                ObjectName::Adopted(_) => true,
            }
        };
        let mut places: Vec<Location> =
            head.locations.iter().filter(|place| exists(place)).cloned().collect();
        let is_unknown =
            // A place on the list of garbage is known, and its bytes are about to be deleted.
            |place: &&Location| !head.locations.contains(place) && !garbage.places.contains(place);
        let unknown = blob.places.iter().filter(is_unknown);
        places.extend(unknown.cloned());
        // A head without places could not be decoded. A blob whose bytes are all gone stays, and its reads report this.
        if places != head.locations && !places.is_empty() {
            changes.push((*name, head, places));
        }
    }
    let count = changes.len() as u64;
    for (name, known, places) in changes {
        let changed = store.transact(256, move |t| {
            let Some(row) = unless_in_doubt(t.get(&keys::blob(&name)))? else { return Ok(Ok(())) };
            // With a database, a gateway may have moved the blob since its row was read.
            if BlobHead::decode(&row.head).is_some_and(|head| head == known) {
                // A move that had begun in this state of the catalog has ended in a later one.
                places.iter().for_each(|place| t.delete(keys::intent(place)));
                let value =
                    Value { head: known.clone().with_locations(places.clone()).encode(), ..t.value(&row)? };
                t.put(keys::blob(&name), value);
            }
            Ok(Ok(()))
        });
        changed.await.map_err(ReattachError::Catalog)?;
    }
    Ok(count)
}

/// Closes the pack files that were attached.
async fn close<C: Catalog>(store: &Store<C>, inventory: &Inventory) -> Result<(), ReattachError> {
    for name in inventory.pack_files.keys() {
        let name = *name;
        let closed = store.transact(64, move |t| {
            // A pack file of which nothing was attached has no row, and is left to `sweep`.
            if let Some(counts) = live::load(t, &name)?.filter(|counts| counts.open) {
                live::store(t, &name, Live { open: false, ..counts }, shared_now_ms())?;
            }
            Ok(Ok(()))
        });
        closed.await.map_err(ReattachError::Catalog)?;
    }
    Ok(())
}
