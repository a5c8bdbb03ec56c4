//! The last version of an object that has left its bucket and is kept.

use std::ops::Bound;

use jiff::Timestamp;

use super::at;
use plimsoll_catalog::{Catalog, CatalogError};
use plimsoll_objects::removal::Removal;
use plimsoll_objects::retained::Retained;
use plimsoll_objects::{Bucket, Store, keys};

/// A version that can be brought back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// Reason why the version has left its bucket.
    pub removal: Removal,
    /// Last millisecond at which the version was in its bucket.
    pub last: Timestamp,
    /// Time after which it is not kept any longer.
    pub until: Timestamp,
}

/// Returns the version of an object that has left its bucket last; `None` if none is kept, or too many versions of all
/// objects are.
///
/// # Errors
/// If the catalog cannot be read.
pub fn last_removed<C: Catalog>(
    store: &Store<C>,
    bucket: &Bucket,
    key: &str,
) -> Result<Option<Removed>, CatalogError> {
    /// Maximum number of versions that are read.
    const MOST: usize = 200_000;
    let mut found = None;
    let mut scan = store.catalog.scan();
    scan.seek(Bound::Included(keys::RETAINED))?;
    // Keys begin with the time, and not with the bucket and the key, so the versions of all objects are read.
    for _ in 0..MOST {
        let Some((catalog_key, row)) = scan.next()?.filter(|(key, _)| key.starts_with(keys::RETAINED)) else {
            return Ok(found);
        };
        let Some((removed_ms, number, other)) = keys::parse_retained(&catalog_key) else { continue };
        if number != bucket.number || other != key {
            continue;
        }
        let Some(retained) = Retained::decode(&row.head).filter(|retained| retained.was_current) else {
            continue;
        };
        let until = at(removed_ms.saturating_add(store.retain_ms));
        // Keys have the order of time, so the last version replaces earlier ones. `undelete` finds versions that have
        // left after its time, so the latest time that works is a millisecond earlier.
        if let (Some(last), Some(until)) = (at(removed_ms.saturating_sub(1)), until) {
            found = Some(Removed { removal: retained.removal, last, until });
        }
    }
    Ok(None)
}
