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
    // Read once: a move that began in one epoch must not end in the next, whose leader gives its destination up.
    let epoch = store.epoch();
    // A new name for each attempt: the bytes of a failed one are deleted twice, the second time 15 minutes later.
    let destination = Location::new(plan.to, new_name());
    let (planned, place) = (plan.clone(), destination.clone());
    let catalog = store.catalog_id;
    // Durable before the first byte: after a crash, `give_up_unfinished` finds the destination only by its intent.
    let intended = store
        .transact_in(epoch, 64, move |t| {
            // Since the visit that planned the move, the blob may have moved, lost a place, or become garbage.
            let Some((head, value)) = unchanged(t, &planned)? else { return Ok(Ok(None)) };
            let Some(object) = describe(t, catalog, &planned)? else { return Ok(Ok(None)) };
            // After a write to several tiers, or while an earlier source is kept, the destination has the bytes.
            // They are verified, and not sent again (decision 0023).
            let existing = head.locations.iter().find(|place| place.tier == planned.to).cloned();
            // An existing place needs no intent: nothing is written, so a crash leaves nothing to delete.
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
        // Only after the verification: the switch sends readers to the destination, and lists the source as garbage.
        Ok(crcs) => switch(store, plan, epoch, target, is_new, &crcs).await,
        Err(error) => {
            // An existing place stays: the row of the blob names it, so its bytes are not those of a failed write.
            if is_new {
                // No state of the catalog has referred to these bytes, so they need not be kept. The deletion adds
                // `retain_ms`, so the entry is due at once.
                let (blob, at_ms) = (plan.blob, shared_now_ms().saturating_sub(store.retain_ms));
                let given_up = store.transact_in(epoch, 64, move |t| {
                    give_up(t, &blob, &destination, at_ms);
                    Ok(Ok(()))
                });
                // If this fails, the intent stays until the next `give_up_unfinished`.
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

/// Copies the bytes to the destination, from the first place that can be opened, and describes their object there. An
/// error after that fails the move. Returns the checksums, which were not known if the source is an adopted object.
async fn copy<C: Catalog>(
    store: &Store<C>,
    plan: &Move,
    sources: &Sources<'_>,
    destination: &Location,
    object: &Description,
) -> Result<Arc<[u32]>, MoveError> {
    let (mut reader, mut error) = (None, None);
    let Sources { places, crcs } = *sources;
    // All places have the same bytes, so a blob can also leave a tier that does not answer.
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
        // A row has at least one place (`BlobHead::decode`), so there is always an error here.
        return Err(error.unwrap_or(BlobError::NoTier(destination.tier)).into());
    };
    // An adopted object has no checksums before its first move. Those of its copy are recorded at the switch.
    let is_known = !(crcs.is_empty() && places.iter().all(Location::is_adopted));
    let mut writer = store.blobs.create(std::slice::from_ref(destination))?;
    let result = async {
        while let Some(bytes) = reader.next().await? {
            writer.write(bytes).await?;
        }
        Ok::<(), BlobError>(())
    };
    if let Err(error) = result.await {
        // In an object store, the deletion of the place does not remove the parts of an upload that stays open.
        writer.abort().await;
        return Err(error.into());
    }
    let (size, written) = writer.finish(Some(object)).await?;
    // The reader has verified its pieces. This comparison finds bytes that were lost between reader and writer.
    if size != plan.size || is_known && written != **crcs {
        return Err(BlobError::Damaged { name: destination.to_string(), offset: size.min(plan.size) }.into());
    }
    Ok(written.into())
}

/// Gives up the moves that earlier processes, or earlier work of this one, did not finish, and closes the pack files
/// that were left open.
///
/// # Errors
/// Returns the error of the catalog.
pub async fn give_up_unfinished<C: Catalog>(store: &Store<C>) -> Result<(), MoveError> {
    let epoch = store.epoch();
    let mut unfinished = Vec::new();
    {
        // The scan ends with this block: it keeps an old state of the index in memory.
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
            // A switch that was queued when its move was dropped may have removed the intent since the scan.
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
