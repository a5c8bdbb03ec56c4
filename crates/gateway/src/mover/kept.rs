//! Counts the versions that have left their buckets and are kept.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::survey::Where;
use crate::body::location::BlobHead;
use crate::catalog::{Catalog, CatalogError, unless_in_doubt};
use crate::object::placement::blob_of;
use crate::object::retained::Retained;
use crate::object::row::{Body, Properties};
use crate::object::{Store, keys};
use crate::pricing::Stock;

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
        let Some(Retained { head, .. }) = Retained::decode(&row.head) else { continue };
        let pieces = match &head.body {
            Body::Pieces => {
                let properties = unless_in_doubt(store.catalog.properties(&key, &row).map(Some))?;
                properties.and_then(|properties| Properties::decode(&properties)).unwrap_or_default().pieces
            }
            _ => Vec::new(),
        };
        let place = match blob_of(&head.body, &pieces) {
            None => None,
            Some(blob) => {
                let row = unless_in_doubt(store.catalog.get(&keys::blob(&blob)))?;
                let head = row.and_then(|row| BlobHead::decode(&row.head));
                let Some(place) = head.and_then(|head| head.locations.first().map(|place| place.tier)) else {
                    continue;
                };
                Some(place)
            }
        };
        found.entry(place).or_default().add(1, head.size);
    }
    Ok(found)
}
