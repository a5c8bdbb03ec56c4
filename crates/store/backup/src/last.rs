//! The time of the last backup of the catalog. While it is older than the time for which garbage is kept, nothing is
//! deleted, because the catalog could be restored from it.

use plimsoll_catalog::codec::{Reader, put_number};
use plimsoll_catalog::embedded::head_only;
use plimsoll_catalog::{Catalog, CatalogError, Transaction, intact};
use plimsoll_objects::{Store, keys};
use plimsoll_server::error::ApiError;

/// Returns the Unix time in milliseconds of the last backup; `None` if none was recorded.
///
/// # Errors
/// If the catalog cannot be read, or the record is in doubt.
pub fn time_ms(catalog: &impl Catalog) -> Result<Option<u64>, CatalogError> {
    let row = catalog.get(keys::BACKUP)?;
    row.map(|row| intact(Reader(&row.head).number())).transpose()
}

/// Records a backup of the catalog as it was at a Unix time in milliseconds.
///
/// # Errors
/// The error of the catalog.
pub async fn record<C: Catalog>(store: &Store<C>, at_ms: u64) -> Result<(), ApiError> {
    let stored = store.transact(64, move |t| {
        put(t, at_ms);
        Ok(Ok(()))
    });
    stored.await
}

/// Records a backup in a transaction.
pub fn put(t: &mut dyn Transaction, at_ms: u64) {
    let mut head = Vec::new();
    put_number(&mut head, at_ms);
    t.put(keys::BACKUP.to_vec(), head_only(head));
}

/// Forgets the last backup, so that its age has no effect.
///
/// # Errors
/// The error of the catalog.
pub async fn forget<C: Catalog>(store: &Store<C>) -> Result<(), ApiError> {
    let stored = store.transact(64, move |t| {
        // A command that lets deletions continue must work on a full disk.
        t.use_reserve();
        t.delete(keys::BACKUP.to_vec());
        Ok(Ok(()))
    });
    stored.await
}

/// Returns true if the last backup may need bytes that would be deleted now: it is older than the time for which
/// garbage is kept, or its time is not known.
pub fn is_outdated(last_ms: &Result<Option<u64>, CatalogError>, now_ms: u64, retain_ms: u64) -> bool {
    let is_old = match last_ms {
        Ok(last_ms) => last_ms.is_some_and(|at_ms| now_ms > at_ms.saturating_add(retain_ms)),
        // A backup of unknown age may need the bytes, which cannot be brought back.
        Err(_) => true,
    };
    // With 0, bytes are deleted at once in any case, so no backup can count on them.
    retain_ms > 0 && is_old
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_that_is_older_than_the_garbage_stops_deletions() {
        let is_outdated = |at_ms: Option<u64>, retain_ms| is_outdated(&Ok(at_ms), 5000, retain_ms);
        assert!(!is_outdated(None, 100), "no backup was recorded");
        assert!(!is_outdated(Some(4900), 100) && is_outdated(Some(4899), 100));
        assert!(!is_outdated(Some(1), 0), "nothing is kept, so no backup can be restored");
        let unknown = Err(CatalogError::Unavailable("it does not answer".into()));
        assert!(super::is_outdated(&unknown, 5000, 100), "an unknown time may be old");
    }
}
