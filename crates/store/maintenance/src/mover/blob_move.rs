//! The steps of the move of one blob: intent, copy, verification and switch; and the end of unfinished moves.

use std::ops::Bound;
use std::sync::Arc;

use super::describe::describe;
use super::pack;
use super::planned_move::{Move, MoveError, Outcome};
use super::switch::{give_up, switch, unchanged};
use super::verify::verify_blob;
use plimsoll_bodies::error::BlobError;
use plimsoll_bodies::location::Location;
use plimsoll_bodies::name::BlobName;
use plimsoll_bodies::name::new_name;
use plimsoll_bodies::trailer::Description;
use plimsoll_catalog::Catalog;
use plimsoll_catalog::ambient::shared_now_ms;
use plimsoll_catalog::embedded::head_only;
use plimsoll_objects::Store;
use plimsoll_objects::keys;

/// Moves a blob.
///
/// # Errors
/// If the catalog or a tier fails, or bytes are damaged.
pub async fn execute<C: Catalog>(store: &Store<C>, plan: &Move) -> Result<Outcome, MoveError> {
    let epoch = store.epoch();
    let destination = Location::new(plan.to, new_name());
    let (planned, place) = (plan.clone(), destination.clone());
    let catalog = store.catalog_id;
    let intended = store
        .transact_in(epoch, 64, move |t| {
            let Some((head, value)) = unchanged(t, &planned)? else { return Ok(Ok(None)) };
            let Some(object) = describe(t, catalog, &planned)? else { return Ok(Ok(None)) };
            let existing = head.locations.iter().find(|place| place.tier == planned.to).cloned();
            if existing.is_none() {
                t.put(keys::intent(&place), head_only(planned.blob.to_vec()));
            }
            Ok(Ok(Some((head, value.properties, existing, object))))
        })
        .await
        .map_err(MoveError::Catalog)?;
    let Some((head, crcs, existing, object)) = intended else { return Ok(Outcome::Changed) };
    let crcs: Arc<[u32]> =
        crcs.chunks_exact(4).filter_map(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes).collect();
    let is_new = existing.is_none();
    let target = existing.unwrap_or_else(|| destination.clone());
    assert_eq!(target.tier, plan.to, "a move to tier {} would end in another tier", plan.to);
    let verified = async {
        let sources = Sources { places: &head.locations, crcs: &crcs };
        let crcs = if is_new { copy(store, plan, &sources, &target, &object).await? } else { crcs };
        verify_blob(store, &target, plan.size, &crcs).await?;
        Ok::<_, MoveError>(crcs)
    };
    match verified.await {
        Ok(crcs) => switch(store, plan, epoch, target, is_new, &crcs).await,
        Err(error) => {
            if is_new {
                let (blob, at_ms) = (plan.blob, shared_now_ms().saturating_sub(store.retain_ms));
                let given_up = store.transact_in(epoch, 64, move |t| {
                    give_up(t, &blob, &destination, at_ms);
                    Ok(Ok(()))
                });
                given_up.await.map_err(MoveError::Catalog)?;
            }
            Err(error)
        }
    }
}

/// Places of the bytes of a blob, and their checksums.
struct Sources<'a> {
    places: &'a [Location],
    crcs: &'a Arc<[u32]>,
}

/// Copies the bytes to the destination, from the first place that works, and describes their object there. Returns
/// their checksums, which were not known if the source is an adopted object.
async fn copy<C: Catalog>(
    store: &Store<C>,
    plan: &Move,
    sources: &Sources<'_>,
    destination: &Location,
    object: &Description,
) -> Result<Arc<[u32]>, MoveError> {
    let (mut reader, mut error) = (None, None);
    let Sources { places, crcs } = *sources;
    for source in places {
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
    let is_known = !(crcs.is_empty() && places.iter().all(Location::is_adopted));
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
    let (size, written) = writer.finish(Some(object)).await?;
    if size != plan.size || is_known && written != **crcs {
        return Err(BlobError::Damaged { name: destination.to_string(), offset: size.min(plan.size) }.into());
    }
    Ok(written.into())
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
                // Another state of the catalog may use these bytes, so they are kept.
                give_up(t, &blob, &place, shared_now_ms());
            }
            Ok(Ok(()))
        });
        given_up.await.map_err(MoveError::Catalog)?;
    }
    pack::close_unfinished(store).await
}
