//! The trailer of a blob that moves: it describes the object as its row is now.

use std::sync::Arc;

use bytes::Bytes;

use super::planned_move::{DescribedObject, Move};
use super::scan::Visited;
use plimsoll_bodies::name::BlobName;
use plimsoll_bodies::name::CatalogId;
use plimsoll_bodies::trailer::{Description, Kind, length};
use plimsoll_catalog::{CatalogError, Transaction, unless_in_doubt};
use plimsoll_objects::row::{Body, Head, Piece, Properties};

/// Returns what a blob of this size is to its object.
fn kind(body: &Body, size: u64) -> Kind {
    match body {
        Body::Blob(_) => Kind::Object,
        // An empty part stays in the catalog (`Store::store_body`), so an empty blob is the list of the pieces.
        _ if size == 0 => Kind::Manifest,
        _ => Kind::Piece,
    }
}

impl Visited<'_> {
    /// Returns the length in bytes of the trailer of a blob of this size.
    pub fn trailer(&self, size: u64) -> u64 {
        let place = &self.row.place;
        let [head, properties, inline] = match kind(&self.head.body, size) {
            Kind::Object => [self.row.head.len(), place.properties as usize, 0],
            Kind::Manifest => [self.row.head.len(), place.properties as usize, place.body as usize],
            Kind::Piece | Kind::PackFile => [0; 3],
        };
        let lengths = [self.bucket.len(), self.key.len(), head, properties, inline];
        length(lengths, size)
    }

    /// Returns the object of a blob of this size that is to move.
    pub fn described(&self, size: u64) -> DescribedObject {
        DescribedObject {
            catalog_key: self.catalog_key.to_vec(),
            bucket: Arc::clone(self.bucket),
            key: self.key.into(),
            trailer: self.trailer(size),
            modified_ms: u64::try_from(self.head.modified_ms).unwrap_or(0),
        }
    }
}

/// Returns true if a body has a blob.
fn has(body: &Body, properties: &Properties, blob: &BlobName) -> bool {
    match body {
        Body::Blob(name) => name == blob,
        Body::Pieces => {
            properties.pieces.iter().any(|piece| matches!(piece, Piece::Blob(name, _) if name == blob))
        }
        Body::Inline | Body::Slice(_) => false,
    }
}

/// Describes a blob that moves; `None` if its object no longer has it.
///
/// # Errors
/// If the catalog cannot be read.
pub fn describe(
    t: &mut dyn Transaction,
    catalog: CatalogId,
    planned: &Move,
) -> Result<Option<Description>, CatalogError> {
    let Some(object) = &planned.object else {
        return Ok(Some(Description::of_pack_file(catalog, planned.blob)));
    };
    // `recover` trusts trailers, so a row that is in doubt or damaged must not get into one.
    let Some(row) = unless_in_doubt(t.get(&object.catalog_key))? else { return Ok(None) };
    let Some(value) = unless_in_doubt(t.value(&row).map(Some))? else { return Ok(None) };
    let (Some(head), Some(properties)) = (Head::decode(&value.head), Properties::decode(&value.properties))
    else {
        return Ok(None);
    };
    // Another version may have taken the key since the visit. Its description does not belong to this blob.
    if !has(&head.body, &properties, &planned.blob) {
        return Ok(None);
    }
    let kind = kind(&head.body, planned.size);
    let (head, properties, inline) = match kind {
        Kind::Object => (value.head, value.properties, Bytes::new()),
        Kind::Manifest => (value.head, value.properties, value.body),
        Kind::Piece | Kind::PackFile => Default::default(),
    };
    let (bucket, key) = (object.bucket.to_string(), object.key.to_string());
    Ok(Some(Description { catalog, blob: planned.blob, kind, bucket, key, head, properties, inline }))
}
