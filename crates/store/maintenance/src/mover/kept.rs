//! Counts the versions that have left their buckets and are kept.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::survey::Where;
use plimsoll_bodies::pricing::Stock;
use plimsoll_catalog::{Catalog, CatalogError};
use plimsoll_objects::placement::ReadPlace;
use plimsoll_objects::retained::Retained;
use plimsoll_objects::{Store, keys};

/// Returns the kept versions by the place of their bodies.
///
/// # Errors
/// If the catalog cannot be read.
pub fn count_kept<C: Catalog>(store: &Store<C>) -> Result<BTreeMap<Where, Stock>, CatalogError> {
    let mut found: BTreeMap<Where, Stock> = BTreeMap::new();
    let mut scan = store.catalog.scan();
    scan.seek(Bound::Included(keys::RETAINED))?;
    while let Some((key, row)) = scan.next()?
        && key.starts_with(keys::RETAINED)
    {
        // An error would end the visit of all objects, so rows that are malformed or have no known place are left out.
        let Some(Retained { head, .. }) = Retained::decode(&row.head) else { continue };
        let place = match store.read_place(&key, &row, &head.body)? {
            ReadPlace::Catalog => None,
            ReadPlace::Tier(place) => Some(place.tier),
            ReadPlace::Unknown => continue,
        };
        found.entry(place).or_default().add(1, head.size);
    }
    Ok(found)
}
