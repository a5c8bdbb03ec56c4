//! Rolls back moves whose source still exists.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::planned_move::{Move, MoveError, Outcome};
use super::scan::{Stored, visit_blobs};
use super::switch::unchanged;
use plimsoll_bodies::blob::text;
use plimsoll_bodies::error::BlobError;
use plimsoll_bodies::location::{Garbage, Location, Reason};
use plimsoll_catalog::ambient::shared_now_ms;
use plimsoll_catalog::embedded::head_only;
use plimsoll_catalog::{Catalog, CatalogError};
use plimsoll_objects::{Store, keys};

/// A move that can be rolled back.
#[derive(Debug, Clone)]
pub struct Reversible {
    /// The blob; its destination is the tier of the source.
    planned: Move,
    source: Location,
    /// Entry of the source in the list of bytes to delete.
    entry: Vec<u8>,
    /// Size in bytes.
    pub size: u64,
}

impl Reversible {
    /// Returns true if the source exists. A catalog that was restored may list a source that a later state has deleted.
    ///
    /// # Errors
    /// If the tier of the source fails.
    pub async fn has_source<C: Catalog>(&self, store: &Store<C>) -> Result<bool, BlobError> {
        store.blobs.exists(&self.source).await
    }
}

/// Returns the moves of blobs that `selects` accepts, whose source is on the list of bytes to delete.
///
/// # Errors
/// If the catalog cannot be read.
pub fn reversible<C: Catalog>(
    store: &Store<C>,
    selects: &dyn Fn(&str, &str) -> bool,
) -> Result<Vec<Reversible>, CatalogError> {
    let mut entries = BTreeMap::new();
    let mut scan = store.catalog.scan();
    scan.seek(Bound::Included(keys::GARBAGE))?;
    while let Some((key, row)) = scan.next()?
        && key.starts_with(keys::GARBAGE)
    {
        // Only these places have the bytes of a blob that has moved; the others are discarded or incomplete.
        let is_source = Garbage::decode(&row.head).is_some_and(|garbage| garbage.reason == Reason::Moved);
        if let Some((_, location)) = keys::parse_garbage(&key).filter(|_| is_source) {
            entries.insert(location, key);
        }
    }
    let mut found = Vec::new();
    visit_blobs(store, &mut |Stored { bucket, key, blob, size, head }| {
        // The first place is the copy in use. The newest source follows, because a switch adds its place in front.
        let source = head
            .locations
            .iter()
            .skip(1)
            .find_map(|place| Some((place.clone(), entries.get(place)?.clone())));
        if let Some((source, entry)) = source
            && selects(bucket, key)
        {
            let (version, to) = (head.version, source.tier);
            let planned = Move { blob, size, version, to, keep_source_ms: 0, object: None };
            found.push(Reversible { planned, source, entry, size });
            return true;
        }
        false
    })?;
    Ok(found)
}

/// Makes the source the first place of the blob again, and puts its other places on the list of bytes to delete, if the
/// source exists.
///
/// # Errors
/// If the catalog or the tier of the source fails.
pub async fn roll_back<C: Catalog>(store: &Store<C>, one: Reversible) -> Result<Outcome, MoveError> {
    // A transaction cannot ask a tier. If the source is deleted after this answer, its place leaves the row first; the
    // version then differs, and the rollback changes nothing.
    let has_source = one.has_source(store).await?;
    let Reversible { planned, source, entry, .. } = one;
    let is_listed = keys::parse_garbage(&entry).is_some_and(|(_, location)| location == source);
    assert!(is_listed, "a rollback to {source} would cancel the deletion of other bytes");
    if !has_source {
        return Ok(Outcome::SourceMissing);
    }
    // Without an epoch, because commands also run in processes that do not lead. The version and the entry show whether
    // the leader has moved the blob or deleted its source meanwhile.
    let rolled_back = store.transact(256, move |t| {
        // The entry goes with the bytes of the source, or another one has taken its place.
        let is_kept = t.get(&entry)?.is_some();
        let Some((head, mut value)) = unchanged(t, &planned)?.filter(|_| is_kept) else {
            return Ok(Ok(Outcome::Changed));
        };
        let others = head.locations.iter().filter(|place| **place != source).cloned();
        let head = head.with_locations(std::iter::once(source.clone()).chain(others).collect());
        let (name, next) = (text(&planned.blob), planned.version + 1);
        assert_eq!(head.version, next, "blob {name} has changed since its rollback was planned");
        assert_eq!(head.locations[0], source, "a rollback of blob {name} would leave its source unused");
        for place in &head.locations[1..] {
            assert!(*place != source, "a rollback of blob {name} would delete its source");
            // Not `Moved`: the next rollback would return to the copy that this one leaves.
            let (blob, reason, switched) = (planned.blob, Reason::Discarded, head.switched);
            let garbage = Garbage { blob, reason, switched, window_ms: 0 };
            t.put(keys::garbage(shared_now_ms(), place), head_only(garbage.encode()));
        }
        value.head = head.encode();
        t.put(keys::blob(&planned.blob), value);
        t.delete(entry.clone());
        Ok(Ok(Outcome::Moved))
    });
    rolled_back.await.map_err(MoveError::Catalog)
}
