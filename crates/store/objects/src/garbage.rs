//! Blobs that no object refers to any more: they stay on a list until open reads have ended, and for the time for which
//! garbage is kept.

use bytes::Bytes;

use super::keys;
use plimsoll_bodies::location::{BlobHead, Garbage, Reason, State};
use plimsoll_catalog::ambient::shared_now_ms;
use plimsoll_catalog::embedded::head_only;
use plimsoll_catalog::{CatalogError, Transaction, Value, intact, unless_in_doubt};

/// Time in milliseconds for which open reads may need bytes that are not used any more.
const GRACE_MS: u64 = 10_000;

/// Returns the time in Unix milliseconds at which reads that are open now have ended.
pub fn after_reads() -> u64 {
    shared_now_ms() + GRACE_MS
}

/// Marks a blob as discarded, and puts its bytes on the list of garbage. They are garbage from `at_ms` on, in Unix
/// milliseconds.
pub fn discard_blob(t: &mut dyn Transaction, name: &keys::BlobName, at_ms: u64) -> Result<(), CatalogError> {
    let key = keys::blob(name);
    // A blob that is in doubt stays, even if no object uses it.
    let Some(row) = unless_in_doubt(t.get(&key))? else { return Ok(()) };
    let head = intact(BlobHead::decode(&row.head))?;
    for location in &head.locations {
        // The request that wrote a pending blob may still arrive, so its bytes are deleted twice (`SecondDelete`).
        let is_unfinished = head.state == State::Pending;
        let reason = if is_unfinished { Reason::Unfinished } else { Reason::Discarded };
        let garbage = Garbage { blob: *name, reason, switched: head.switched, window_ms: 0 };
        t.put(keys::garbage(at_ms, location), head_only(garbage.encode()));
    }
    // They are not needed any more. A damaged value must not keep a client from replacing or deleting the object.
    let properties = match t.value(&row) {
        Err(CatalogError::Damaged { .. }) => Bytes::new(),
        value => value?.properties,
    };
    // The places stay in the row until the bytes are deleted. `forget` in deletion.rs removes one after the other.
    let head = BlobHead { state: State::Discarded, ..head };
    t.put(key, Value { head: head.encode(), properties, body: Bytes::new() });
    Ok(())
}
