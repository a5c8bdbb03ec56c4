//! The switch of a move: the destination becomes the first place of the blob, and its sources are kept until the end of
//! the rollback window.

use bytes::Bytes;

use super::planned_move::{Move, MoveError, Outcome};
use plimsoll_bodies::blob::text;
use plimsoll_bodies::location::{BlobHead, Garbage, Location, Reason, State};
use plimsoll_bodies::name::BlobName;
use plimsoll_catalog::ambient::shared_now_ms;
use plimsoll_catalog::embedded::head_only;
use plimsoll_catalog::guard::{self, Guard};
use plimsoll_catalog::{Catalog, CatalogError, Transaction, Value, unless_in_doubt};
use plimsoll_objects::Store;
use plimsoll_objects::keys;

/// Returns the head of a blob if it is still as planned.
///
/// # Errors
/// Returns the error of the catalog.
pub fn unchanged(t: &mut dyn Transaction, plan: &Move) -> Result<Option<(BlobHead, Value)>, CatalogError> {
    // A row in doubt is left alone: written again, it would look certain (decision 0035).
    let Some(row) = unless_in_doubt(t.get(&keys::blob(&plan.blob)))? else { return Ok(None) };
    let head = BlobHead::decode(&row.head);
    // Every change of the places increments the version, and the bytes of a discarded blob are garbage.
    let head = head.filter(|head| head.state == State::Complete && head.version == plan.version);
    head.map(|head| Ok((head, t.value(&row)?))).transpose()
}

/// Puts bytes that no row refers to on the list of garbage, which they are from `at_ms` on, in Unix milliseconds.
pub fn give_up(t: &mut dyn Transaction, blob: &BlobName, destination: &Location, at_ms: u64) {
    // The entry replaces the intent in one transaction, so the bytes are always in one of both lists.
    t.delete(keys::intent(destination));
    // No row has this place, so the deletion has no switch to compare (`is_current`), and no window to wait for.
    let garbage = Garbage { blob: *blob, reason: Reason::Unfinished, switched: 0, window_ms: 0 };
    t.put(keys::garbage(at_ms, destination), head_only(garbage.encode()));
}

/// Makes a location the first location of the blob. `with_intent` is true if the move has created the location.
///
/// # Errors
/// Returns the error of the catalog.
pub async fn switch<C: Catalog>(
    store: &Store<C>,
    plan: &Move,
    epoch: u64,
    target: Location,
    with_intent: bool,
    crcs: &[u32],
) -> Result<Outcome, MoveError> {
    let plan = plan.clone();
    let crcs: Bytes = crcs.iter().flat_map(|crc| crc.to_le_bytes()).collect::<Vec<u8>>().into();
    let retain_ms = store.retain_ms;
    let switched = store.transact_in(epoch, 256, move |t| {
        // Without its intent, the destination was given up, and its bytes are on the list of garbage (`Intent`).
        let has_intent = t.get(&keys::intent(&target))?.is_some() || !guard::is_made(Guard::Intent);
        let is_ours = !with_intent || has_intent;
        let Some((head, mut value)) = unchanged(t, &plan)?.filter(|_| is_ours) else {
            // A destination without its intent is on the list already. A second entry would be due at once, and would
            // delete bytes that the first one keeps for `retain.deleted`.
            if is_ours && with_intent {
                give_up(t, &plan.blob, &target, shared_now_ms().saturating_sub(retain_ms));
            }
            return Ok(Ok(Outcome::Changed));
        };
        // The window begins with the switch: until then, reads use the source, however long the copy has taken.
        let window_ms = if guard::is_made(Guard::RollbackWindow) { plan.keep_source_ms } else { 0 };
        // By the shared clock: a gateway with a wrong clock must not shorten the window.
        let now_ms = shared_now_ms();
        // The deletion adds `retain_ms`, so the source stays for the longer of both times. A full disk does not wait
        // for `retain_ms`; then the end of the window in the entry still protects the source.
        let at_ms = now_ms + window_ms.saturating_sub(retain_ms);
        // The earlier places stay behind the destination: reads use them if the copy fails, and rollbacks return there.
        let sources = head.locations.iter().filter(|place| **place != target).cloned();
        let head = head.with_locations(std::iter::once(target.clone()).chain(sources).collect());
        let (name, next) = (text(&plan.blob), plan.version + 1);
        assert_eq!(head.version, next, "blob {name} has changed since its move was planned");
        assert_eq!(head.locations[0], target, "a move of blob {name} would leave its destination unused");
        for source in &head.locations[1..] {
            assert!(*source != target, "a move of blob {name} would delete its destination");
            // The number makes the entries of earlier moves obsolete. Else one of them would delete a source before the
            // window of this move ends (decision 0026).
            let (blob, reason, switched) = (plan.blob, Reason::Moved, head.switched);
            let garbage = Garbage { blob, reason, switched, window_ms: now_ms + window_ms };
            t.put(keys::garbage(at_ms, source), head_only(garbage.encode()));
        }
        value.head = head.encode();
        // Until its first copy, an adopted object has no checksums. For other blobs, these are the same as before.
        value.properties = crcs.clone();
        t.put(keys::blob(&plan.blob), value);
        // In the same transaction: `give_up_unfinished` would list the place in use as garbage.
        t.delete(keys::intent(&target));
        Ok(Ok(Outcome::Moved))
    });
    switched.await.map_err(MoveError::Catalog)
}
