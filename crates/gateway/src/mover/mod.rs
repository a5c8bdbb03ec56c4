//! Moves of bodies: blobs between tiers, and small bodies into pack files.
//!
//! INTENT: a transaction records the destination before its first byte is written. COPIED: the bytes are at the
//! destination, and their checksums are those in the catalog. VERIFIED: the destination was read back. SWITCHED: one
//! transaction, which needs the intent and an unchanged row, makes the destination the first place of the blob, and
//! puts the source on the list of bytes to delete, at the end of the rollback window. REAPED: the source is deleted.
//! Repeating a step changes nothing. The objects' own rows never change, so neither do their entity tags and times.

pub mod budget;
pub mod candidate;
pub mod condition;
pub mod pack;
pub mod pack_reader;
#[cfg(test)]
mod pack_tests;
pub mod pass;
pub mod rewrite;
mod rollback;
pub mod rules;
pub mod scan;
pub mod survey;
#[cfg(test)]
mod tests;
mod transition;

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use plimsoll_server::error::ApiError;

pub use self::rollback::{reversible, roll_back};
use crate::ambient::now_ms;
use crate::body::blob::{new_name, text};
use crate::body::error::BlobError;
use crate::body::location::{BlobHead, Garbage, Location, Reason, State};
use crate::catalog::embedded::head_only;
use crate::catalog::{Catalog, CatalogError, Transaction, Value};
use crate::guard::{self, Guard};
use crate::object::Store;
use crate::object::error::unavailable;
use crate::object::keys::{self, BlobName};

/// A blob to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Name of the blob.
    pub blob: BlobName,
    /// Size in bytes.
    pub size: u64,
    /// Version of the blob's row when the move was planned.
    pub version: u64,
    /// Number of the tier that receives the blob.
    pub to: u16,
    /// Milliseconds for which the source stays.
    pub keep_source_ms: u64,
}

/// Result of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Reads use the destination.
    Moved,
    /// The blob has changed since the move was planned; the destination will be deleted.
    Changed,
}

/// Reason why a move has failed. The source stays as it is, and the destination will be deleted.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The catalog has failed.
    #[error("{0}")]
    Catalog(ApiError),
    /// A tier has failed, or its bytes are damaged.
    #[error("{0}")]
    Blob(#[from] BlobError),
}

impl From<CatalogError> for MoveError {
    fn from(error: CatalogError) -> MoveError {
        MoveError::Catalog(unavailable(&error))
    }
}

/// Returns the head of a blob if it is still as planned.
fn unchanged(t: &mut dyn Transaction, plan: &Move) -> Result<Option<(BlobHead, Value)>, CatalogError> {
    let Some(row) = t.get(&keys::blob(&plan.blob))? else { return Ok(None) };
    let head = BlobHead::decode(&row.head);
    let head = head.filter(|head| head.state == State::Complete && head.version == plan.version);
    head.map(|head| Ok((head, t.value(&row)?))).transpose()
}

/// Puts bytes that no row refers to on the list of bytes to delete.
fn give_up(t: &mut dyn Transaction, blob: &BlobName, destination: &Location) {
    t.delete(keys::intent(destination));
    let garbage = Garbage { blob: *blob, reason: Reason::Unfinished, switched: 0 };
    t.put(keys::garbage(now_ms(), destination), head_only(garbage.encode()));
}

/// Moves a blob.
///
/// # Errors
/// If the catalog or a tier fails, or bytes are damaged.
pub async fn execute<C: Catalog>(store: &Store<C>, plan: &Move) -> Result<Outcome, MoveError> {
    let epoch = store.epoch();
    let destination = Location::new(plan.to, new_name());
    let (planned, place) = (plan.clone(), destination.clone());
    let intended = store
        .transact_in(epoch, 64, move |t| {
            let Some((head, value)) = unchanged(t, &planned)? else { return Ok(Ok(None)) };
            let existing = head.locations.iter().find(|place| place.tier == planned.to).cloned();
            if existing.is_none() {
                t.put(keys::intent(&place), head_only(planned.blob.to_vec()));
            }
            Ok(Ok(Some((head, value.properties, existing))))
        })
        .await
        .map_err(MoveError::Catalog)?;
    let Some((head, crcs, existing)) = intended else { return Ok(Outcome::Changed) };
    let crcs: Arc<[u32]> =
        crcs.chunks_exact(4).filter_map(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes).collect();
    let is_new = existing.is_none();
    let target = existing.unwrap_or_else(|| destination.clone());
    assert_eq!(target.tier, plan.to, "a move to tier {} would end in another tier", plan.to);
    let verified = async {
        let crcs = if is_new { copy(store, plan, &head.locations, &target, &crcs).await? } else { crcs };
        verify_blob(store, &target, plan.size, &crcs).await?;
        Ok::<_, MoveError>(crcs)
    };
    match verified.await {
        Ok(crcs) => switch(store, plan, epoch, target, is_new, &crcs).await,
        Err(error) => {
            if is_new {
                let blob = plan.blob;
                let given_up = store.transact_in(epoch, 64, move |t| {
                    give_up(t, &blob, &destination);
                    Ok(Ok(()))
                });
                given_up.await.map_err(MoveError::Catalog)?;
            }
            Err(error)
        }
    }
}

/// Copies the bytes to the destination, from the first place that works. Returns their checksums, which were not known
/// if the source is an adopted object.
async fn copy<C: Catalog>(
    store: &Store<C>,
    plan: &Move,
    sources: &[Location],
    destination: &Location,
    crcs: &Arc<[u32]>,
) -> Result<Arc<[u32]>, MoveError> {
    let mut reader = None;
    let mut error = None;
    for source in sources {
        match store.blobs.open(source, plan.size, Arc::clone(crcs), 0..plan.size).await {
            Ok(opened) => {
                reader = Some(opened);
                break;
            }
            Err(problem) => error = Some(problem),
        }
    }
    let Some(mut reader) = reader else {
        return Err(error.unwrap_or(BlobError::NoTier(destination.tier)).into());
    };
    let is_known = !(crcs.is_empty() && sources.iter().all(Location::is_adopted));
    let mut writer = store.blobs.create(std::slice::from_ref(destination))?;
    let result = async {
        while let Some(bytes) = reader.next().await? {
            writer.write(bytes).await?;
        }
        Ok::<(), BlobError>(())
    };
    if let Err(error) = result.await {
        writer.abort().await;
        return Err(error.into());
    }
    let (size, written) = writer.finish().await?;
    if size != plan.size || is_known && written != **crcs {
        return Err(BlobError::Damaged { name: destination.to_string(), offset: size.min(plan.size) }.into());
    }
    Ok(written.into())
}

/// Reads the bytes at a place and compares them with the checksums.
async fn verify_blob<C: Catalog>(
    store: &Store<C>,
    place: &Location,
    size: u64,
    crcs: &Arc<[u32]>,
) -> Result<(), BlobError> {
    if !guard::is_made(Guard::Verification) {
        return Ok(());
    }
    let mut reader = store.blobs.open(place, size, Arc::clone(crcs), 0..size).await?;
    while reader.next().await?.is_some() {}
    Ok(())
}

/// Makes a place the first one of the blob. `with_intent` is true if the move has created it.
async fn switch<C: Catalog>(
    store: &Store<C>,
    plan: &Move,
    epoch: u64,
    target: Location,
    with_intent: bool,
    crcs: &[u32],
) -> Result<Outcome, MoveError> {
    let plan = plan.clone();
    let crcs: Bytes = crcs.iter().flat_map(|crc| crc.to_le_bytes()).collect::<Vec<u8>>().into();
    let switched = store.transact_in(epoch, 256, move |t| {
        let has_intent = t.get(&keys::intent(&target))?.is_some() || !guard::is_made(Guard::Intent);
        let is_ours = !with_intent || has_intent;
        let Some((head, mut value)) = unchanged(t, &plan)?.filter(|_| is_ours) else {
            if is_ours && with_intent {
                give_up(t, &plan.blob, &target);
            }
            return Ok(Ok(Outcome::Changed));
        };
        // The window begins with the switch: until then, reads use the source, however long the copy has taken.
        let window_ms = if guard::is_made(Guard::RollbackWindow) { plan.keep_source_ms } else { 0 };
        let at = now_ms() + window_ms;
        let sources = head.locations.iter().filter(|place| **place != target).cloned();
        let head = head.with_locations(std::iter::once(target.clone()).chain(sources).collect());
        let (name, next) = (text(&plan.blob), plan.version + 1);
        assert_eq!(head.version, next, "blob {name} has changed since its move was planned");
        assert_eq!(head.locations[0], target, "a move of blob {name} would leave its destination unused");
        for source in &head.locations[1..] {
            assert!(*source != target, "a move of blob {name} would delete its destination");
            let garbage = Garbage { blob: plan.blob, reason: Reason::Moved, switched: head.switched };
            t.put(keys::garbage(at, source), head_only(garbage.encode()));
        }
        value.head = head.encode();
        value.properties = crcs;
        t.put(keys::blob(&plan.blob), value);
        t.delete(keys::intent(&target));
        Ok(Ok(Outcome::Moved))
    });
    switched.await.map_err(MoveError::Catalog)
}

/// Gives up the moves that an earlier process did not finish, and closes its pack files.
///
/// # Errors
/// Returns the error of the catalog.
pub async fn give_up_unfinished<C: Catalog>(store: &Store<C>) -> Result<(), MoveError> {
    let epoch = store.epoch();
    let mut unfinished = Vec::new();
    {
        let mut scan = store.catalog.scan();
        scan.seek(Bound::Included(keys::INTENTS))?;
        while let Some((key, row)) = scan.next()? {
            let Some(place) = key.strip_prefix(keys::INTENTS) else { break };
            if let (Some(place), Ok(blob)) = (Location::decode(place), BlobName::try_from(&row.head[..])) {
                unfinished.push((place, blob));
            }
        }
    }
    for (place, blob) in unfinished {
        let given_up = store.transact_in(epoch, 64, move |t| {
            if t.get(&keys::intent(&place))?.is_some() {
                give_up(t, &blob, &place);
            }
            Ok(Ok(()))
        });
        given_up.await.map_err(MoveError::Catalog)?;
    }
    pack::close_unfinished(store).await
}
