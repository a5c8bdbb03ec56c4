//! Deletes garbage that is not kept any longer, such as the sources of moves, and gives up the blobs of processes that
//! have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use futures_util::stream::{self, StreamExt};
use plimsoll_server::error::ApiError;

use plimsoll_bodies::blob::text;
use plimsoll_bodies::location::{BlobHead, Garbage, Location, Reason, State};
use plimsoll_bodies::name::BlobName;
use plimsoll_catalog::ambient::shared_now_ms;
use plimsoll_catalog::embedded::head_only;
use plimsoll_catalog::guard::{self, Guard};
use plimsoll_catalog::{Catalog, CatalogError, Transaction, Value, unless_in_doubt};
use plimsoll_objects::Store;
use plimsoll_objects::error::unavailable;
use plimsoll_objects::garbage::discard_blob;
use plimsoll_objects::keys;
use plimsoll_objects::lease::is_alive;
use plimsoll_objects::write::writer_of;

/// Milliseconds after which bytes are deleted for the second time.
const REPEAT_MS: u64 = 15 * 60 * 1000;

/// Milliseconds for which a source stays longer if its copy does not exist.
const POSTPONE_MS: u64 = 60 * 60 * 1000;

/// An entry of the list of bytes to delete.
#[derive(Clone)]
struct Entry {
    key: Vec<u8>,
    location: Location,
    garbage: Garbage,
    /// Time in milliseconds for which the bytes are kept.
    kept_ms: u64,
}

/// Number of entries that are read at a time.
const PAGE: usize = 1000;

/// Returns the time in milliseconds for which garbage is kept.
pub fn retention_ms<C: Catalog>(store: &Store<C>) -> u64 {
    if guard::is_made(Guard::Retention) { store.retain_ms } else { 0 }
}

/// Returns the time in milliseconds for which garbage at a place is kept. On a full disk, garbage in directories is not
/// kept, so that deletes free space.
fn kept_ms<C: Catalog>(store: &Store<C>, location: &Location, is_full: bool) -> u64 {
    let is_local = store.blobs.tiers().get(location.tier).is_some_and(|tier| tier.directory.is_some());
    if is_full && is_local { 0 } else { retention_ms(store) }
}

/// Reads the next entries whose bytes are not kept any longer.
fn due<C: Catalog>(store: &Store<C>, from: Bound<&[u8]>, now_ms: u64) -> Result<Vec<Entry>, CatalogError> {
    let is_full = store.catalog.is_full();
    // On a full disk, only directories lose their garbage at once. So the scan goes on behind entries that are kept.
    let least_ms = if is_full { 0 } else { retention_ms(store) };
    let mut scan = store.catalog.scan();
    scan.seek(from)?;
    let mut found = Vec::new();
    while let Some((key, row)) = scan.next()?
        && key.starts_with(keys::GARBAGE)
        && found.len() < PAGE
    {
        match (keys::parse_garbage(&key), Garbage::decode(&row.head)) {
            // Keys begin with the time, so all later entries are kept, too.
            (Some((at_ms, _)), _) if at_ms.saturating_add(least_ms) > now_ms => break,
            // The window of a rollback also counts on a full disk, and after `retain.deleted` was made shorter.
            (Some((at_ms, location)), Some(garbage)) if garbage.window_ms <= now_ms => {
                let kept_ms = kept_ms(store, &location, is_full);
                if at_ms.saturating_add(kept_ms) <= now_ms {
                    found.push(Entry { key, location, garbage, kept_ms });
                }
            }
            // A malformed entry stays, because the place or the blob is unknown. So does a source within its window.
            _ => {}
        }
    }
    Ok(found)
}

/// Removes a location from the row of its blob. Returns false if the blob is read from there, or its row is malformed,
/// so that the bytes stay.
pub fn forget(t: &mut dyn Transaction, location: &Location, blob: &BlobName) -> Result<bool, CatalogError> {
    let key = keys::blob(blob);
    // A row in doubt is an error here, and not a missing row: an object may use the blob.
    let Some(row) = t.get(&key)? else { return Ok(true) };
    // A malformed row may have the place as its first one.
    let Some(head) = BlobHead::decode(&row.head) else { return Ok(false) };
    // Reads use the first place. A move that came back has made this place the first one again.
    if head.state == State::Complete && head.locations.first() == Some(location) {
        return Ok(false);
    }
    let left: Vec<_> = head.locations.iter().filter(|other| *other != location).cloned().collect();
    let (name, is_read) = (text(blob), head.state == State::Complete);
    let keeps_first = left.first() == head.locations.first();
    // A failed assertion ends the process (catalog/threads.rs), so that the transaction is not written.
    assert!(!is_read || keeps_first, "the deletion would remove the bytes from which blob {name} is read");
    // A head without places could not be decoded.
    if left.is_empty() {
        t.delete(key);
    } else if left != head.locations {
        let properties = t.value(&row)?.properties;
        let left = head.with_locations(left);
        // Else the entries of the other places would be outdated, and their bytes would stay.
        assert!(!is_read || left.switched == head.switched, "the deletion switches the place of blob {name}");
        t.put(key, Value { head: left.encode(), properties, ..Value::default() });
    }
    Ok(true)
}

/// Returns false if the entry is for a place of a blob that was moved since the entry was made.
fn is_current(t: &mut dyn Transaction, location: &Location, garbage: &Garbage) -> Result<bool, CatalogError> {
    let head = t.get(&keys::blob(&garbage.blob))?.and_then(|row| BlobHead::decode(&row.head));
    let head = head.filter(|head| head.state == State::Complete && head.locations.contains(location));
    Ok(head.is_none_or(|head| head.switched == garbage.switched))
}

/// Returns true if the bytes of a blob at a place may be deleted, and removes the place from the row of the blob.
fn is_free(t: &mut dyn Transaction, location: &Location, garbage: &Garbage) -> Result<bool, CatalogError> {
    // In this order, because an outdated entry must not remove its place from the row.
    Ok(is_current(t, location, garbage)? && forget(t, location, &garbage.blob)?)
}

/// Deletes the bytes whose time has come. No row refers to them before they are deleted, and the entry is removed
/// afterwards, so a crash repeats the deletion. Entries of a tier that does not answer stay.
///
/// # Errors
/// Returns the error of the catalog.
pub async fn delete_due<C: Catalog>(store: &Store<C>) -> Result<(), ApiError> {
    delete_due_at(store, shared_now_ms()).await
}

/// Deletes the bytes whose time has come at a time in Unix milliseconds.
///
/// # Errors
/// Returns the error of the catalog.
pub async fn delete_due_at<C: Catalog>(store: &Store<C>, now_ms: u64) -> Result<(), ApiError> {
    let mut failed_tiers = BTreeSet::new();
    let mut from = Bound::Included(keys::GARBAGE.to_vec());
    let mut count = 0;
    loop {
        let page = due(store, from.as_ref().map(Vec::as_slice), now_ms).map_err(|e| unavailable(&e))?;
        let Some(last) = page.last() else {
            if count > 0 {
                plimsoll_catalog::log::event(&format!("deleted {count} blobs from the tiers"));
            }
            return Ok(());
        };
        // Entries that stay, such as those of a tier that fails, are not read again: the round would not end.
        from = Bound::Excluded(last.key.clone());
        // Tiers are asked outside the transaction, which cannot wait. It checks that the blob has not moved meanwhile.
        let page = with_copies(store, page, now_ms, &mut failed_tiers).await?;
        let free = take_free(store, page, now_ms).await?;
        count += delete(store, free, now_ms, &mut failed_tiers).await?;
    }
}

/// Returns the copy from which a blob is read; `None` if the blob is not in use, or is read from this place.
///
/// # Errors
/// If the catalog cannot be read.
fn copy_in_use<C: Catalog>(
    store: &Store<C>,
    location: &Location,
    garbage: &Garbage,
) -> Result<Option<Location>, CatalogError> {
    // A row in doubt needs no copy, because `take_free` leaves its entry as it is.
    let row = unless_in_doubt(store.catalog.get(&keys::blob(&garbage.blob)))?;
    let head = row.and_then(|row| BlobHead::decode(&row.head)).filter(|head| head.state == State::Complete);
    Ok(head.and_then(|head| head.locations.into_iter().next()).filter(|copy| copy != location))
}

/// Keeps the bytes of an entry for longer.
///
/// # Errors
/// Returns the error of the catalog.
async fn postpone<C: Catalog>(store: &Store<C>, entry: Entry, now_ms: u64) -> Result<(), ApiError> {
    let Entry { key, location, garbage, kept_ms } = entry;
    // `due` adds the time for which the place is kept, so the key has the new time without it.
    let later = keys::garbage((now_ms + POSTPONE_MS).saturating_sub(kept_ms), &location);
    store
        .transact_in(store.epoch(), 0, move |t| {
            t.use_reserve();
            // A rollback may have removed the entry meanwhile. The source is in use then, and must not get a new one.
            if unless_in_doubt(t.get(&key))?.is_some() {
                t.delete(key.clone());
                t.put(later.clone(), head_only(garbage.encode()));
            }
            Ok(Ok(()))
        })
        .await
}

/// Returns the entries of a page whose bytes are not needed: no blob uses them, or the copy in use exists. Tiers that
/// do not answer are added to `failed_tiers`, and the entries that need them are left out.
async fn with_copies<C: Catalog>(
    store: &Store<C>,
    page: Vec<Entry>,
    now_ms: u64,
    failed_tiers: &mut BTreeSet<u16>,
) -> Result<Vec<Entry>, ApiError> {
    /// Number of copies that are looked for at a time.
    const IN_FLIGHT: usize = 256;
    let name = |tier: u16| store.blobs.tiers().get(tier).map_or("?", |tier| &tier.name);
    let (mut found, mut copies) = (Vec::new(), Vec::new());
    for entry in page {
        // Requests to a tier that does not answer last until a timeout, so a round leaves it out after an error.
        if failed_tiers.contains(&entry.location.tier) {
            continue;
        }
        match copy_in_use(store, &entry.location, &entry.garbage).map_err(|e| unavailable(&e))? {
            None => found.push(entry),
            Some(_) if !guard::is_made(Guard::Copy) => found.push(entry),
            Some(copy) if failed_tiers.contains(&copy.tier) => {}
            Some(copy) => copies.push((entry, copy)),
        }
    }
    let looked = stream::iter(copies).map(|(entry, copy)| async move {
        let exists = store.blobs.exists(&copy).await;
        (entry, copy, exists)
    });
    let mut looked = std::pin::pin!(looked.buffered(IN_FLIGHT));
    while let Some((entry, copy, exists)) = looked.next().await {
        match exists {
            Ok(true) => found.push(entry),
            Ok(false) => {
                let (blob, place) = (text(&entry.garbage.blob), name(entry.location.tier));
                let missing = name(copy.tier);
                plimsoll_catalog::log::warn(&format!(
                    "blob {blob} does not exist in tier {missing}; its source in tier {place} stays"
                ));
                // Otherwise, the copy would be looked for, and the warning repeated, every second.
                postpone(store, entry, now_ms).await?;
            }
            Err(error) => {
                let tier = name(copy.tier);
                plimsoll_catalog::log::warn(&format!(
                    "tier {tier}: sources of moves were not deleted: {error}"
                ));
                failed_tiers.insert(copy.tier);
            }
        }
    }
    Ok(found)
}

/// Removes the places of these entries from the rows of their blobs, in one transaction. Returns the entries whose
/// bytes no row refers to any more. Before the deletion: a row that still named the bytes would send readers to bytes
/// that are gone.
async fn take_free<C: Catalog>(
    store: &Store<C>,
    entries: Vec<Entry>,
    now_ms: u64,
) -> Result<Vec<Entry>, ApiError> {
    for Entry { key, location, kept_ms, .. } in &entries {
        let listed = keys::parse_garbage(key).filter(|(_, listed)| listed == location);
        let is_due = listed.as_ref().is_some_and(|(at_ms, _)| at_ms.saturating_add(*kept_ms) <= now_ms);
        assert!(is_due, "the bytes at {location} are deleted without an entry whose time has come");
    }
    if entries.is_empty() {
        return Ok(entries);
    }
    let taken = store.transact_in(store.epoch(), 0, move |t| {
        t.use_reserve();
        let mut free = Vec::new();
        // A catalog may execute a transaction several times, so it keeps its input.
        for entry in entries.clone() {
            // The entry is gone if a rollback has cancelled it.
            let is_entry_free = match t.get(&entry.key) {
                Ok(None) => Ok(false),
                Ok(Some(_)) => is_free(t, &entry.location, &entry.garbage),
                Err(error) => Err(error),
            };
            match is_entry_free {
                // A lost record may have made the bytes those of an object. The entry stays.
                Err(CatalogError::Damaged { .. }) => {}
                // The bytes stay without this entry. The switch that gives their place up makes another one.
                Ok(false) => t.delete(entry.key),
                Ok(true) => free.push(entry),
                Err(error) => return Err(error),
            }
        }
        Ok(Ok(free))
    });
    taken.await
}

/// Deletes the bytes of these entries, and then the entries, in one transaction. Entries of a tier that fails stay, and
/// the tier is added to `failed_tiers`. Returns the number of deleted blobs.
async fn delete<C: Catalog>(
    store: &Store<C>,
    entries: Vec<Entry>,
    now_ms: u64,
    failed_tiers: &mut BTreeSet<u16>,
) -> Result<usize, ApiError> {
    let mut count = 0;
    let mut by_tier: BTreeMap<u16, Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        by_tier.entry(entry.location.tier).or_default().push(entry);
    }
    for (number, entries) in by_tier {
        let places: Vec<Location> = entries.iter().map(|entry| entry.location.clone()).collect();
        let (deleted, error) = store.blobs.delete_all(number, &places).await;
        count += deleted.len();
        if let Some(error) = error {
            let tier = store.blobs.tiers().get(number).map_or("?", |tier| &tier.name);
            plimsoll_catalog::log::warn(&format!("tier {tier}: blobs were not deleted: {error}"));
            failed_tiers.insert(number);
        }
        // After an error, too: other places of the tier may have lost their bytes.
        let done = store.transact_in(store.epoch(), 0, move |t| {
            t.use_reserve();
            for Entry { key, location, garbage, kept_ms } in entries.clone() {
                // The entry is the only record of bytes that may still exist.
                if !deleted.contains(&location) {
                    continue;
                }
                t.delete(key);
                // A write with an unknown outcome may arrive after the first deletion.
                if garbage.reason == Reason::Unfinished && guard::is_made(Guard::SecondDelete) {
                    // With the reason `Unfinished`, the second deletion would be followed by a third.
                    let again = Garbage { reason: Reason::Discarded, ..garbage };
                    let again_ms = (now_ms + REPEAT_MS).saturating_sub(kept_ms);
                    t.put(keys::garbage(again_ms, &location), head_only(again.encode()));
                }
            }
            Ok(Ok(()))
        });
        done.await?;
    }
    Ok(count)
}

/// Gives up the blobs that processes began and did not finish, if their sessions have ended.
///
/// # Errors
/// Returns the error of the catalog.
pub async fn discard_unfinished<C: Catalog>(store: &Store<C>) -> Result<(), ApiError> {
    let mut unfinished = Vec::new();
    {
        // The scan ends before the transactions, because it keeps old files of the index.
        let mut scan = store.catalog.scan();
        scan.seek(Bound::Included(keys::BLOBS)).map_err(|e| unavailable(&e))?;
        while let Some((key, row)) = scan.next().map_err(|e| unavailable(&e))? {
            let Some(name) = key.strip_prefix(keys::BLOBS) else { break };
            let is_pending = BlobHead::decode(&row.head).is_some_and(|head| head.state == State::Pending);
            unfinished.extend(BlobName::try_from(name).ok().filter(|_| is_pending));
        }
    }
    for name in unfinished {
        // Without an epoch: the session of the writer is compared, so a former leader does no harm.
        let discarded = store.transact(0, move |t| {
            t.use_reserve();
            // The writer may have completed or given up the blob since the scan.
            if let Some(session) = writer_of(t, &name)?
                && !is_alive(t, session, shared_now_ms())?
            {
                // Another state of the catalog may have the blob as complete, so it is kept.
                discard_blob(t, &name, shared_now_ms())?;
            }
            Ok(Ok(()))
        });
        discarded.await?;
    }
    Ok(())
}
