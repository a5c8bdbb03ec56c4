//! Ends the time for which versions are kept after they have left their buckets.

use std::ops::Bound;

use plimsoll_server::error::ApiError;

use super::deletion::retention_ms;
use plimsoll_catalog::{Catalog, CatalogError, unless_in_doubt};
use plimsoll_objects::Store;
use plimsoll_objects::error::unavailable;
use plimsoll_objects::garbage::after_reads;
use plimsoll_objects::keys;
use plimsoll_objects::retained::let_go;

/// Number of versions in a transaction.
const BATCH: usize = 256;

/// Reads the next versions that are not kept any longer.
fn due<C: Catalog>(
    store: &Store<C>,
    from: Bound<&[u8]>,
    until_ms: u64,
) -> Result<Vec<Vec<u8>>, CatalogError> {
    let mut scan = store.catalog.scan();
    scan.seek(from)?;
    let mut found = Vec::new();
    // Keys begin with the time, so the first version that is kept ends the scan. A malformed key does not end it.
    while let Some((key, _)) = scan.next()?
        && key.starts_with(keys::RETAINED)
        && found.len() < BATCH
        && keys::retained_since(&key).is_none_or(|at_ms| at_ms <= until_ms)
    {
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
