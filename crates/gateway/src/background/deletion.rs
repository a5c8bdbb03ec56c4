//! Deletes garbage that is not kept any longer, such as the sources of moves, and gives up the blobs of processes that
//! have ended.

use std::collections::BTreeSet;
use std::ops::Bound;

use plimsoll_server::error::ApiError;

use crate::ambient::now_ms;
use crate::body::blob::text;
use crate::body::location::{BlobHead, Garbage, Location, Reason, State};
use crate::catalog::embedded::head_only;
use crate::catalog::{Catalog, CatalogError, Transaction, Value, unless_in_doubt};
use crate::guard::{self, Guard};
use crate::lease::is_alive;
use crate::object::Store;
use crate::object::error::unavailable;
use crate::object::garbage::discard_blob;
use crate::object::keys::{self, BlobName};
use crate::object::write::writer_of;

/// Milliseconds after which bytes are deleted for the second time.
const REPEAT_MS: u64 = 15 * 60 * 1000;

/// An entry of the list of bytes to delete.
struct Entry {
    key: Vec<u8>,
    location: Location,
    garbage: Garbage,
}

/// Number of entries that are read at a time.
const PAGE: usize = 1000;

/// Returns the time in milliseconds for which garbage is kept.
pub fn retention_ms<C: Catalog>(store: &Store<C>) -> u64 {
    if guard::is_made(Guard::Retention) { store.retain_ms } else { 0 }
}

/// Reads the next entries whose bytes are not kept any longer.
fn due<C: Catalog>(store: &Store<C>, from: Bound<&[u8]>, now_ms: u64) -> Result<Vec<Entry>, CatalogError> {
    let retain_ms = retention_ms(store);
    let mut scan = store.catalog.scan();
    scan.seek(from)?;
    let mut found = Vec::new();
    while let Some((key, row)) = scan.next()?
        && key.starts_with(keys::GARBAGE)
        && found.len() < PAGE
    {
        match (keys::parse_garbage(&key), Garbage::decode(&row.head)) {
            (Some((at_ms, _)), _) if at_ms.saturating_add(retain_ms) > now_ms => break,
            (_, Some(garbage)) if garbage.window_ms > now_ms => {}
            (Some((_, location)), Some(garbage)) => found.push(Entry { key, location, garbage }),
            _ => {}
        }
    }
    Ok(found)
}

/// Removes a location from the row of its blob. Returns false if the blob is read from there, so that the bytes stay.
pub fn forget(t: &mut dyn Transaction, location: &Location, blob: &BlobName) -> Result<bool, CatalogError> {
    let key = keys::blob(blob);
    let Some(row) = t.get(&key)? else { return Ok(true) };
    let Some(head) = BlobHead::decode(&row.head) else { return Ok(false) };
    if head.state == State::Complete && head.locations.first() == Some(location) {
        return Ok(false);
    }
    let left: Vec<_> = head.locations.iter().filter(|other| *other != location).cloned().collect();
    let (name, is_read) = (text(blob), head.state == State::Complete);
    let keeps_first = left.first() == head.locations.first();
    assert!(!is_read || keeps_first, "the deletion would remove the bytes from which blob {name} is read");
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

/// Returns true if the bytes of a blob at a place may be deleted, and removes that place from the row of the blob.
fn is_free(t: &mut dyn Transaction, location: &Location, garbage: &Garbage) -> Result<bool, CatalogError> {
    Ok(is_current(t, location, garbage)? && forget(t, location, &garbage.blob)?)
}

/// Deletes the bytes whose time has come. No row refers to them before they are deleted, and the entry is removed
/// afterwards, so a crash repeats the deletion. Entries of a tier that does not answer stay.
///
/// # Errors
/// Returns the error of the catalog.
pub async fn delete_due<C: Catalog>(store: &Store<C>) -> Result<(), ApiError> {
    delete_due_at(store, now_ms()).await
}

/// Deletes the bytes whose time has come at a time in Unix milliseconds.
///
/// # Errors
/// Returns the error of the catalog.
pub async fn delete_due_at<C: Catalog>(store: &Store<C>, now_ms: u64) -> Result<(), ApiError> {
    let mut failed_tiers = BTreeSet::new();
    let mut from = Bound::Included(keys::GARBAGE.to_vec());
    loop {
        let page = due(store, from.as_ref().map(Vec::as_slice), now_ms).map_err(|e| unavailable(&e))?;
        let Some(last) = page.last() else { return Ok(()) };
        from = Bound::Excluded(last.key.clone());
        for entry in page {
            let tier = entry.location.tier;
            if !failed_tiers.contains(&tier) && !delete(store, entry, now_ms).await? {
                failed_tiers.insert(tier);
            }
        }
    }
}

/// Returns false if the blob is in use, and the copy from which it is read does not exist. The bytes of an entry are
/// then the last ones.
///
/// # Errors
/// Returns the error of the catalog.
async fn has_other_copy<C: Catalog>(
    store: &Store<C>,
    location: &Location,
    garbage: &Garbage,
) -> Result<bool, ApiError> {
    let row = unless_in_doubt(store.catalog.get(&keys::blob(&garbage.blob))).map_err(|e| unavailable(&e))?;
    let head = row.and_then(|row| BlobHead::decode(&row.head)).filter(|head| head.state == State::Complete);
    let Some(other) = head.and_then(|head| head.locations.into_iter().find(|other| other != location)) else {
        return Ok(true);
    };
    let tier =
        |place: &Location| store.blobs.tiers().get(place.tier).map_or("?", |tier| &tier.name).to_string();
    match store.blobs.exists(&other).await {
        Ok(true) => Ok(true),
        found => {
            let problem = found.map_or_else(|error| error.to_string(), |_| "it does not exist".into());
            let (blob, other, place) = (text(&garbage.blob), tier(&other), tier(location));
            crate::log::warn(&format!(
                "blob {blob}: its copy in tier {place} stays, because the one in tier {other} was not found: {problem}"
            ));
            Ok(false)
        }
    }
}

/// Deletes the bytes of an entry. Returns false if their tier fails.
async fn delete<C: Catalog>(store: &Store<C>, entry: Entry, now_ms: u64) -> Result<bool, ApiError> {
    let Entry { key, location, garbage } = entry;
    let retain_ms = retention_ms(store);
    let at_ms = keys::parse_garbage(&key).filter(|(_, listed)| *listed == location).map(|(at_ms, _)| at_ms);
    let is_due = at_ms.is_some_and(|at_ms| at_ms.saturating_add(retain_ms) <= now_ms);
    assert!(is_due, "the bytes at {location} are deleted without an entry whose time has come: {at_ms:?}");
    if !has_other_copy(store, &location, &garbage).await? {
        return Ok(true);
    }
    let epoch = store.epoch();
    let (cancelled, place) = (key.clone(), location.clone());
    // Before the deletion: a row that still named the bytes would send readers to bytes that are gone.
    let is_free = store
        .transact_in(epoch, 0, move |t| {
            t.use_reserve();
            // The entry is gone if a rollback has cancelled it.
            let free = match t.get(&cancelled) {
                Ok(None) => Ok(false),
                Ok(Some(_)) => is_free(t, &place, &garbage),
                Err(error) => Err(error),
            };
            match free {
                // A lost record may have made the bytes those of an object. The entry stays.
                Err(CatalogError::Damaged { .. }) => return Ok(Ok(false)),
                Ok(false) => t.delete(cancelled),
                Ok(true) => {}
                Err(error) => return Err(error),
            }
            Ok(Ok(matches!(free, Ok(true))))
        })
        .await?;
    if !is_free {
        return Ok(true);
    }
    if let Err(error) = store.blobs.delete(&location).await {
        let tier = store.blobs.tiers().get(location.tier).map_or("?", |tier| &tier.name);
        crate::log::warn(&format!("tier {tier}: blobs were not deleted: {error}"));
        return Ok(false);
    }
    store
        .transact_in(epoch, 0, move |t| {
            t.use_reserve();
            t.delete(key);
            // A write with an unknown outcome may arrive after the first deletion.
            if garbage.reason == Reason::Unfinished && guard::is_made(Guard::SecondDelete) {
                let again = Garbage { reason: Reason::Discarded, ..garbage };
                let again_ms = (now_ms + REPEAT_MS).saturating_sub(retain_ms);
                t.put(keys::garbage(again_ms, &location), head_only(again.encode()));
            }
            Ok(Ok(()))
        })
        .await?;
    Ok(true)
}

/// Gives up the blobs that processes began and did not finish, if their sessions have ended.
///
/// # Errors
/// Returns the error of the catalog.
pub async fn discard_unfinished<C: Catalog>(store: &Store<C>) -> Result<(), ApiError> {
    let mut unfinished = Vec::new();
    {
        let mut scan = store.catalog.scan();
        scan.seek(Bound::Included(keys::BLOBS)).map_err(|e| unavailable(&e))?;
        while let Some((key, row)) = scan.next().map_err(|e| unavailable(&e))? {
            let Some(name) = key.strip_prefix(keys::BLOBS) else { break };
            let is_pending = BlobHead::decode(&row.head).is_some_and(|head| head.state == State::Pending);
            unfinished.extend(BlobName::try_from(name).ok().filter(|_| is_pending));
        }
    }
    for name in unfinished {
        let discarded = store.transact(0, move |t| {
            t.use_reserve();
            if let Some(session) = writer_of(t, &name)?
                && !is_alive(t, session, now_ms())?
            {
                // Another state of the catalog may have the blob as complete, so it is kept.
                discard_blob(t, &name, now_ms())?;
            }
            Ok(Ok(()))
        });
        discarded.await?;
    }
    Ok(())
}
