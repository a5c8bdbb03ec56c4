//! The time of the last backup of the catalog. While it is older than the time for which garbage is kept, nothing is
//! deleted, because the catalog could be restored from it.

use crate::catalog::embedded::head_only;
use crate::catalog::{Catalog, CatalogError, unless_in_doubt};
use crate::object::codec::{Reader, put_number};
use crate::object::{Store, keys};
use plimsoll_server::error::ApiError;

/// Returns the Unix time in milliseconds of the last backup; `None` if none was recorded.
///
/// # Errors
/// If the catalog cannot be read.
pub fn last_ms(catalog: &impl Catalog) -> Result<Option<u64>, CatalogError> {
    let row = unless_in_doubt(catalog.get(keys::BACKUP))?;
    Ok(row.and_then(|row| Reader(&row.head).number()))
}

/// Records a backup of the catalog as it was at a Unix time in milliseconds.
///
/// # Errors
/// The error of the catalog.
pub async fn record<C: Catalog>(store: &Store<C>, at_ms: u64) -> Result<(), ApiError> {
    let mut head = Vec::new();
    put_number(&mut head, at_ms);
    let stored = store.transact(64, move |t| {
        t.put(keys::BACKUP.to_vec(), head_only(head));
        Ok(Ok(()))
    });
    stored.await
}

/// Forgets the last backup, so that its age has no effect.
///
/// # Errors
/// The error of the catalog.
pub async fn forget<C: Catalog>(store: &Store<C>) -> Result<(), ApiError> {
    let stored = store.transact(64, move |t| {
        t.use_reserve();
        t.delete(keys::BACKUP.to_vec());
        Ok(Ok(()))
    });
    stored.await
}

/// Returns true if the last backup may need bytes that would be deleted now: it is older than the time for which
/// garbage is kept.
pub fn is_outdated(last_ms: Option<u64>, now_ms: u64, retain_ms: u64) -> bool {
    retain_ms > 0 && last_ms.is_some_and(|at_ms| now_ms > at_ms.saturating_add(retain_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_that_is_older_than_the_garbage_stops_deletions() {
        assert!(!is_outdated(None, 5000, 100), "no backup was recorded");
        assert!(!is_outdated(Some(4900), 5000, 100) && is_outdated(Some(4899), 5000, 100));
        assert!(!is_outdated(Some(1), 5000, 0), "nothing is kept, so no backup can be restored");
    }
}
