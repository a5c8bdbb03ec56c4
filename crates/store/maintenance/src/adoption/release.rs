//! Releases the objects of a bucket: writes each to a tier under its own key, so that the tier is an ordinary bucket.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectStore, ObjectStoreExt, TagSet};
use tokio::sync::Semaphore;

use super::{AdoptionError, attributes, owners};
use crate::background::deletion::forget;
use plimsoll_bodies::blob::{Appearance, BlobWriter};
use plimsoll_bodies::error::BlobError;
use plimsoll_bodies::location::{BlobHead, Location, ObjectName, State};
use plimsoll_bodies::name::BlobName;
use plimsoll_bodies::tier::{Tier, check};
use plimsoll_catalog::{Catalog, CatalogError, Row};
use plimsoll_objects::body::BodySource;
use plimsoll_objects::owner::{buckets, record};
use plimsoll_objects::row::{Body, Head, Properties};
use plimsoll_objects::{Bucket, Store, keys};

/// Number of objects that are written at the same time.
const IN_FLIGHT: usize = 8;
/// Number of rows that are read at a time.
const PAGE: usize = 1000;
/// Number of bytes in a MiB.
const MIB: u64 = 1 << 20;
/// Memory in MiB of the parts that are being written.
const MEMORY_MIB: u32 = 1024;

/// Objects to release.
#[derive(Debug, Clone)]
pub struct Release {
    /// Number of the tier that receives them.
    pub tier: u16,
    /// Start of the keys of the objects.
    pub prefix: String,
    /// True to replace objects of the tier that have the same key and other bytes.
    pub overwrite: bool,
    /// True to count the objects only.
    pub dry_run: bool,
    /// True to leave the tags out, for a store without tags.
    pub without_tags: bool,
}

/// Result of a release.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Released {
    /// Number of objects that were written.
    pub written: u64,
    /// Size of these objects in bytes.
    pub bytes: u64,
    /// Number of objects that were under their own keys already.
    pub in_place: u64,
    /// Number of noncurrent versions and delete markers, which a plain bucket cannot have.
    pub versions: u64,
    /// Keys that were not written: the tier has other bytes there, which may belong to another version, or cannot store
    /// the key.
    pub conflicts: Vec<String>,
    /// Keys whose objects cannot be read or written, with the reason.
    pub failed: BTreeMap<String, String>,
}

/// Outcome for an object.
enum Outcome {
    Written(u64),
    InPlace,
    Conflict(String),
    /// Key, and the reason why its object was not written.
    Failed(String, String),
}

/// Relation of an object of the backend to the object with the same key.
enum Relation {
    /// The object's body is read from the backend's object.
    Body,
    /// The gateway keeps the backend's object for a rollback of this object's move, or is about to delete it.
    Leftover(BlobName),
    /// Another version or another object of the gateway uses the backend's object.
    Needed,
    /// The gateway does not know the backend's object.
    Foreign,
}

fn relation<C: Catalog>(
    store: &Store<C>,
    head: &Head,
    place: &Location,
    owner: Option<&BlobName>,
) -> Result<Relation, CatalogError> {
    let Some(owner) = owner else { return Ok(Relation::Foreign) };
    let row = store.catalog.get(&keys::blob(owner))?;
    let Some(blob) = row.and_then(|row| BlobHead::decode(&row.head)) else { return Ok(Relation::Foreign) };
    let is_its_body = head.body == Body::Blob(*owner);
    Ok(match blob.state {
        State::Complete if is_its_body && blob.locations.first() == Some(place) => Relation::Body,
        // A version that has left its bucket and is kept needs its bytes, too: its blob stays complete.
        State::Complete if !is_its_body => Relation::Needed,
        _ => Relation::Leftover(*owner),
    })
}

/// Entries of the list of bytes to delete, by place.
type Doomed = BTreeMap<Location, Vec<Vec<u8>>>;

/// Facts about the backend's objects that the catalog has before the release.
struct Known {
    /// Blobs of the adopted objects, by key.
    owners: BTreeMap<Arc<str>, BlobName>,
    doomed: Doomed,
}

/// Returns the adopted objects that are to be deleted.
fn doomed<C: Catalog>(store: &Store<C>) -> Result<Doomed, CatalogError> {
    let mut found = Doomed::new();
    let mut scan = store.catalog.scan();
    scan.seek(Bound::Included(keys::GARBAGE))?;
    while let Some((key, _)) = scan.next()?
        && key.starts_with(keys::GARBAGE)
    {
        // A release writes under the keys of objects, which only the places of adopted objects have.
        if let Some((_, place)) = keys::parse_garbage(&key).filter(|(_, place)| place.is_adopted()) {
            found.entry(place).or_default().push(key);
        }
    }
    Ok(found)
}

/// Makes the gateway forget an object of the backend, so that it does not delete the released one later.
async fn forget_leftover<C: Catalog>(
    store: &Store<C>,
    place: &Location,
    blob: BlobName,
    entries: Vec<Vec<u8>>,
) -> Result<(), AdoptionError> {
    let place = place.clone();
    let forgotten = store.transact(256, move |t| {
        // The result does not matter, because `relation` has found that the blob is not read from here.
        forget(t, &place, &blob)?;
        entries.iter().for_each(|entry| t.delete(entry.clone()));
        Ok(Ok(()))
    });
    forgotten.await.map_err(AdoptionError::Catalog)
}

/// Returns true if a backend's object has the bytes of a body.
async fn has_bytes<C: Catalog>(
    backend: &dyn ObjectStore,
    place: &Location,
    mut body: BodySource<C>,
) -> Result<bool, AdoptionError> {
    let found = backend.get(&place.path()).await?.into_stream();
    // Below, an empty piece would look like the end of the object.
    let mut found = found.try_filter(|bytes| std::future::ready(!bytes.is_empty()));
    let mut left = Bytes::new();
    while let Some(mut expected) = body.next().await? {
        while !expected.is_empty() {
            if left.is_empty() {
                left = found.try_next().await?.unwrap_or_default();
            }
            let length = left.len().min(expected.len());
            if length == 0 || left.split_to(length) != expected.split_to(length) {
                return Ok(false);
            }
        }
    }
    Ok(left.is_empty() && found.try_next().await?.is_none())
}

/// A release in progress.
struct Work<'a> {
    release: &'a Release,
    tier: &'a Tier,
    known: Known,
    /// Memory of parts, in MiB.
    memory: Semaphore,
}

/// Returns the sizes of the parts in which an object was uploaded, so that its entity tag stays the same. Empty if it
/// was not, or if two of them need too much memory.
fn part_sizes(properties: &Properties) -> Vec<usize> {
    let sizes: Vec<u64> = properties.parts.iter().map(|part| part.size).collect();
    // Two parts are in memory (`write_object`), and must fit into the semaphore.
    let is_large = sizes.iter().any(|size| *size == 0 || *size > u64::from(MEMORY_MIB) * MIB / 2);
    let sizes = sizes.into_iter().map(|size| size as usize);
    if is_large { Vec::new() } else { sizes.collect() }
}

impl Work<'_> {
    /// Returns the properties of the backend's object. Files have none.
    fn appearance(&self, properties: &Properties) -> Appearance {
        if self.tier.directory.is_some() {
            return Appearance::default();
        }
        let mut tags = TagSet::default();
        if !self.release.without_tags {
            properties.tags.0.iter().for_each(|(key, value)| tags.push(key, value));
        }
        Appearance { attributes: attributes(&properties.headers), tags, parts: part_sizes(properties) }
    }
}

/// Writes a body, and reads it back. Returns its size in bytes.
async fn write_object<C: Catalog>(
    store: &Store<C>,
    work: &Work<'_>,
    place: Location,
    properties: &Properties,
    mut body: BodySource<C>,
) -> Result<u64, AdoptionError> {
    let appearance = work.appearance(properties);
    let largest = appearance.parts.iter().max().map_or(0, |part| 2 * *part as u64).div_ceil(MIB);
    // The semaphore is never closed.
    let _memory = work.memory.acquire_many(MEMORY_MIB.min(largest as u32)).await;
    let places = [place];
    let mut writer = store.blobs.create_with(&places, &appearance)?;
    if let Err(error) = copy(&mut body, &mut writer).await {
        // Parts of an upload that nobody ends would stay in the tier without an object.
        writer.abort().await;
        return Err(error);
    }
    let (size, crcs) = writer.finish(None).await?;
    // After a release, the gateway and its checksums may be removed, so damage must be found now.
    let mut reader = store.blobs.open(&places[0], size, crcs.into(), 0..size).await?;
    while reader.next().await?.is_some() {}
    Ok(size)
}

async fn copy<C: Catalog>(body: &mut BodySource<C>, writer: &mut BlobWriter) -> Result<(), AdoptionError> {
    while let Some(bytes) = body.next().await? {
        writer.write(bytes).await?;
    }
    Ok(())
}

/// Releases an object.
async fn release_one<C: Catalog>(
    store: &Store<C>,
    work: &Work<'_>,
    catalog_key: Vec<u8>,
    row: Row,
) -> Result<Option<Outcome>, AdoptionError> {
    let Work { release, known, .. } = work;
    let backend = &*work.tier.store;
    let parsed = keys::parse_object(&catalog_key).zip(Head::decode(&row.head));
    let Some(((key, _), head)) = parsed else { return Ok(None) };
    let place = Location { tier: release.tier, name: ObjectName::Adopted(key.as_str().into()) };
    // The backend's client would change the key, or the object would replace a record of the tier.
    if place.path().as_ref() != key || [record::NAME, buckets::NAME].contains(&key.as_str()) {
        return Ok(Some(Outcome::Conflict(key)));
    }
    let leftover = match relation(store, &head, &place, known.owners.get(key.as_str()))? {
        Relation::Body => return Ok(Some(Outcome::InPlace)),
        Relation::Needed => return Ok(Some(Outcome::Conflict(key))),
        Relation::Leftover(blob) => Some(blob),
        Relation::Foreign => None,
    };
    let value = store.catalog.value(&catalog_key, &row)?;
    let Some(properties) = Properties::decode(&value.properties) else { return Ok(None) };
    let stream = || store.stream(&head, value.body.clone(), properties.pieces.clone());
    match backend.head(&place.path()).await {
        Err(object_store::Error::NotFound { .. }) => {}
        Err(error) => return Err(error.into()),
        // The gateway itself would delete these bytes, so they are replaced without `overwrite`.
        Ok(_) if leftover.is_some() => {}
        Ok(meta) => {
            // An equal entity tag saves a transfer. Stores whose tags are no digests need the comparison of all bytes.
            let is_same_tag = meta.e_tag.is_some_and(|tag| tag.trim_matches('"') == head.etag());
            let is_same =
                meta.size == head.size && (is_same_tag || has_bytes(backend, &place, stream()).await?);
            match (is_same, release.overwrite) {
                (true, _) => return Ok(Some(Outcome::InPlace)),
                (false, false) => return Ok(Some(Outcome::Conflict(key))),
                (false, true) => {}
            }
        }
    }
    // Behind all checks and before the first change, so that a dry run counts what a release would do.
    if release.dry_run {
        return Ok(Some(Outcome::Written(head.size)));
    }
    // Before the write: after a crash in between, an entry that still exists would delete the released object.
    if let Some(blob) = leftover {
        forget_leftover(store, &place, blob, known.doomed.get(&place).cloned().unwrap_or_default()).await?;
    }
    let size = write_object(store, work, place, &properties, stream()).await?;
    Ok(Some(Outcome::Written(size)))
}

/// Releases the current objects of a bucket. Objects that are in place are left alone, so an interrupted release can be
/// repeated. Every written object is read back.
///
/// # Errors
/// If the catalog or a backend fails.
pub async fn release<C: Catalog>(
    store: &Store<C>,
    bucket: &Arc<Bucket>,
    release: &Release,
) -> Result<Released, AdoptionError> {
    let tier = store.blobs.tiers().get(release.tier).ok_or(BlobError::NoTier(release.tier))?;
    let known = Known { owners: owners(store, release.tier)?, doomed: doomed(store)? };
    let work = Work { release, tier, known, memory: Semaphore::new(MEMORY_MIB as usize) };
    let mut released = Released::default();
    let prefix = keys::objects(bucket.number, &release.prefix);
    let mut from = Bound::Included(prefix.clone());
    loop {
        let mut page = Vec::new();
        {
            // The scan ends before the requests to the tiers, because it keeps old files of the index.
            let mut scan = store.catalog.scan();
            scan.seek(from.as_ref().map(Vec::as_slice))?;
            while let Some((key, row)) = scan.next()?
                && key.starts_with(&prefix)
                && page.len() < PAGE
            {
                page.push((key, row));
            }
        }
        let Some((last, _)) = page.last() else { return Ok(released) };
        from = Bound::Excluded(last.clone());
        let is_current = |(key, row): &(Vec<u8>, Row)| {
            keys::parse_object(key).is_some_and(|(_, current)| current)
                && Head::decode(&row.head).is_some_and(|head| !head.marker)
        };
        let total = page.len();
        page.retain(is_current);
        released.versions += (total - page.len()) as u64;
        let work = &work;
        let objects = page.into_iter().map(|(key, row)| {
            let name = keys::parse_object(&key).map_or_else(String::new, |(name, _)| name);
            async move {
                match release_one(store, work, key, row).await {
                    // One key that fails does not end the release. A tier that fails does: the rest would fail, too.
                    Err(error) if error.concerns_one_key() && check::problem(tier).await.is_none() => {
                        Ok(Some(Outcome::Failed(name, error.to_string())))
                    }
                    outcome => outcome,
                }
            }
        });
        let outcomes: Vec<_> = stream::iter(objects).buffer_unordered(IN_FLIGHT).try_collect().await?;
        for outcome in outcomes.into_iter().flatten() {
            match outcome {
                Outcome::Written(bytes) => {
                    released.written += 1;
                    released.bytes += bytes;
                }
                Outcome::InPlace => released.in_place += 1,
                Outcome::Conflict(key) => released.conflicts.push(key),
                Outcome::Failed(key, reason) => {
                    released.failed.insert(key, reason);
                }
            }
        }
    }
}
