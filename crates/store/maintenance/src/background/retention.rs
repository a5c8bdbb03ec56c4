//! Ends the time for which versions are kept after they have left their buckets.

use std::ops::Bound;

use plimsoll_server::error::ApiError;

use super::deletion::retention_ms;
use plimsoll_catalog::{Catalog, CatalogError, unless_in_doubt};
use plimsoll_objects::Store;
use plimsoll_objects::error::unavailable;
use plimsoll_objects::garbage::after_reads;
use plimsoll_objects::keys;
use plimsoll_objects::retained::{Retained, let_go};

/// Versions and their parts from which on a transaction takes no further version. Each part changes several rows, and
/// the catalog refuses transactions with more than a million changes.
const BATCH: u64 = 4096;

/// Reads the next versions that are not kept any longer.
fn due<C: Catalog>(
    store: &Store<C>,
    from: Bound<&[u8]>,
    until_ms: u64,
) -> Result<Vec<Vec<u8>>, CatalogError> {
    let mut scan = store.catalog.scan();
    scan.seek(from)?;
    let (mut found, mut weight) = (Vec::new(), 0);
    // Keys begin with the time, so the first version that is kept ends the scan. A malformed key does not end it.
    while let Some((key, row)) = scan.next()?
        && key.starts_with(keys::RETAINED)
        && weight < BATCH
        && keys::retained_since(&key).is_none_or(|at_ms| at_ms <= until_ms)
    {
        weight += 1 + Retained::decode(&row.head).map_or(0, |retained| u64::from(retained.head.parts));
        found.push(key);
    }
    Ok(found)
}

/// Removes the versions whose time is over at a time in Unix milliseconds. On a full disk it is over for all of them,
/// so that deletes free space.
///
/// # Errors
/// Returns the error of the catalog.
pub async fn let_go_due_at<C: Catalog>(store: &Store<C>, now_ms: u64) -> Result<(), ApiError> {
    let since_ms = now_ms.saturating_sub(retention_ms(store));
    if !store.catalog.is_full() {
        // The bytes are garbage from then on, too, so that they are not kept for `retain.deleted` a second time.
        return let_go_until(store, since_ms, since_ms).await.map(|_| ());
    }
    // A version may have left its bucket a moment ago, so its bytes wait for reads that are open.
    let count = let_go_until(store, u64::MAX, after_reads()).await?;
    if count > 0 {
        plimsoll_catalog::log::warn(&format!(
            "the disk is full: {count} deleted versions are not kept any longer"
        ));
    }
    Ok(())
}

/// Removes the versions that have left their buckets until a time in Unix milliseconds. Their bytes are garbage from
/// `at_ms` on. Returns the number of versions.
///
/// # Errors
/// Returns the error of the catalog.
pub async fn let_go_until<C: Catalog>(
    store: &Store<C>,
    until_ms: u64,
    at_ms: u64,
) -> Result<usize, ApiError> {
    let mut from = Bound::Included(keys::RETAINED.to_vec());
    let mut count = 0;
    loop {
        let page = due(store, from.as_ref().map(Vec::as_slice), until_ms).map_err(|e| unavailable(&e))?;
        let Some(last) = page.last() else { break };
        // Versions that are in doubt stay. They must not be read again, because the loop would not end.
        from = Bound::Excluded(last.clone());
        count += page.len();
        store
            .transact_in(store.epoch(), 0, move |t| {
                t.use_reserve();
                for key in &page {
                    // A version that is in doubt stays.
                    // A version that `undelete` has brought back since the scan has no row, and `let_go` does nothing.
                    unless_in_doubt(let_go(t, key, at_ms).map(Some))?;
                }
                Ok(Ok(()))
            })
            .await?;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_catalog::embedded::head_only;
    use plimsoll_objects::removal::Removal;
    use plimsoll_objects::row::{Body, Head};
    use plimsoll_store_testing::World;

    /// Regression test: the catalog refused a transaction with all parts of 256 large objects, so that these and all
    /// later ones were kept for ever.
    #[tokio::test]
    async fn a_transaction_has_few_objects_of_many_parts() {
        let world = World::retaining(1, 100, 1000).await;
        let head = Head {
            marker: false,
            null: true,
            body: Body::Pieces,
            generation: 0,
            size: 1,
            modified_ms: 0,
            md5: [0; 16],
            parts: 2000,
            checksum: None,
        };
        let retained = Retained { removal: Removal::Deleted, was_current: true, head };
        let rows = move |t: &mut dyn plimsoll_catalog::Transaction| {
            for at_ms in 0..10 {
                t.put(keys::retained(at_ms, 1, "key", at_ms), head_only(retained.encode()));
            }
            Ok(Ok(()))
        };
        world.store.transact(0, rows).await.unwrap();
        assert_eq!(due(&world.store, Bound::Included(keys::RETAINED), 100).unwrap().len(), 3);
    }
}
