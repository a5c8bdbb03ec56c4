//! Visits the blobs of all objects, and finds those that the rules would move.

use std::collections::BTreeMap;
use std::ops::Bound;

use plimsoll::clock::wall_now;

use super::Move;
use super::policy::{Condition, Facts};
use crate::body::location::{BlobHead, State};
use crate::catalog::{Catalog, CatalogError};
use crate::object::Store;
use crate::object::keys::{self, BlobName};
use crate::object::row::{Head, Piece, Properties};

/// A rule with the numbers of its tiers.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Number of the tier that blobs leave.
    pub from: u16,
    /// Number of the tier that receives them.
    pub to: u16,
    /// Condition on the object.
    pub when: Condition,
    /// Milliseconds for which the source stays.
    pub keep_source_ms: u64,
}

/// A complete blob of an object.
pub struct Stored<'a> {
    /// Properties of the object.
    pub facts: Facts<'a>,
    /// Name of the blob.
    pub blob: BlobName,
    /// Size of the blob in bytes.
    pub size: u64,
    /// Head of the blob's row.
    pub head: BlobHead,
}

/// Calls `visit` with the blobs of all objects and versions, until it returns false. Damaged rows are skipped.
///
/// # Errors
/// If the catalog cannot be read.
pub fn visit_blobs<C: Catalog>(
    store: &Store<C>,
    visit: &mut dyn FnMut(Stored<'_>) -> bool,
) -> Result<(), CatalogError> {
    let names: BTreeMap<u32, String> =
        store.all_buckets().into_iter().map(|(name, bucket)| (bucket.number, name)).collect();
    let now_ms = wall_now().as_millisecond();
    let mut scan = store.catalog.scan();
    scan.seek(Bound::Included(keys::OBJECTS))?;
    while let Some((catalog_key, row)) = scan.next()?
        && catalog_key.starts_with(keys::OBJECTS)
    {
        let Some(head) = Head::decode(&row.head).filter(|head| head.has_blobs) else { continue };
        let Some((key, _)) = keys::parse_object(&catalog_key) else { continue };
        let number = catalog_key.get(1..5).and_then(|b| b.try_into().ok()).map_or(0, u32::from_be_bytes);
        let Some(bucket) = names.get(&number) else { continue };
        let properties = match store.catalog.properties(&catalog_key, &row) {
            Err(CatalogError::Damaged { .. }) => continue,
            properties => Properties::decode(&properties?),
        };
        let Some(properties) = properties else { continue };
        let age_ms = now_ms.saturating_sub(head.modified_ms).max(0) as u64;
        let facts = Facts { bucket, key: &key, size: head.size, age_ms, tags: &properties.tags.0 };
        for piece in &properties.pieces {
            let Piece::Blob(blob, size) = *piece else { continue };
            let Some(row) = store.catalog.get(&keys::blob(&blob))? else { continue };
            let head = BlobHead::decode(&row.head).filter(|head| head.state == State::Complete);
            if let Some(head) = head
                && !visit(Stored { facts, blob, size, head })
            {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Calls `visit` with the moves that the rules currently require, until it returns false. If several rules apply to a
/// blob, the first one is used.
///
/// # Errors
/// If the catalog cannot be read.
pub fn candidates<C: Catalog>(
    store: &Store<C>,
    rules: &[Rule],
    visit: &mut dyn FnMut(Move) -> bool,
) -> Result<(), CatalogError> {
    visit_blobs(store, &mut |Stored { facts, blob, size, head }| {
        let tier = head.locations.first().map(|place| place.tier);
        let rule = rules.iter().find(|rule| Some(rule.from) == tier && rule.when.is_true(&facts));
        let (version, Some(rule)) = (head.version, rule) else { return true };
        visit(Move { blob, size, version, to: rule.to, keep_source_ms: rule.keep_source_ms })
    })
}
