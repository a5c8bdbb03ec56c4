//! Places of new bodies: the tiers of the settings, or the tier of the storage class that a request names; and the
//! storage classes that clients see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_server::error::{ApiError, ErrorCode};
use plimsoll_server::service::{ListPage, UploadInfo};

use super::error::for_client;
use super::row::{Body, Piece, Properties};
use super::{Store, keys};
use plimsoll_bodies::location::{BlobHead, Location};
use plimsoll_bodies::name::BlobName;
use plimsoll_bodies::tier::Tiers;
use plimsoll_catalog::{Catalog, CatalogError, Row, unless_in_doubt};

/// Default storage class of S3.
const STANDARD: &str = "STANDARD";

/// Places of new bodies, as the settings select them.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    /// Numbers of the tiers that a new blob is written to before it is acknowledged.
    pub tiers: Vec<u16>,
    /// Number of the tier that replaces one of these tiers while it does not answer.
    pub fallback: Option<u16>,
    /// Largest body in bytes that is stored in the catalog; a larger one becomes a blob.
    pub inline: u64,
}

impl Placement {
    /// Selects one tier.
    pub fn one(tier: u16, inline: u64) -> Placement {
        Placement { tiers: vec![tier], fallback: None, inline }
    }

    /// Returns the tiers to write to now: those that answer, and the fallback in place of the others.
    pub fn usable(&self, tiers: &Tiers) -> Vec<u16> {
        // Without a fallback, a tier that does not answer fails the write: fewer copies must not be acknowledged.
        let Some(fallback) = self.fallback else { return self.tiers.clone() };
        let rests = |number: &u16| tiers.get(*number).is_some_and(|tier| tier.writes.rests());
        self.without(&self.tiers.iter().copied().filter(rests).collect(), fallback)
    }

    /// Returns the tiers without some of them, and the fallback in their place.
    fn without(&self, failed: &BTreeSet<u16>, fallback: u16) -> Vec<u16> {
        let mut used: Vec<u16> = self.tiers.iter().copied().filter(|tier| !failed.contains(tier)).collect();
        if used.len() < self.tiers.len() && !used.contains(&fallback) {
            used.push(fallback);
        }
        used
    }

    /// Returns the tiers to write to after one of them has not taken a blob; `None` if no other one replaces it.
    pub fn after_failure(&self, failed: u16) -> Option<Vec<u16>> {
        let used = self.without(&BTreeSet::from([failed]), self.fallback?);
        // If the fallback itself has failed, nothing replaces it.
        (used != self.tiers).then_some(used)
    }
}

/// Storage classes that clients see, by the numbers of their tiers.
pub type ClassNames = BTreeMap<u16, Arc<str>>;

impl<C: Catalog> Store<C> {
    /// Returns true if writes need one of these tiers, because no fallback replaces it.
    pub fn writes_need(&self, tiers: &BTreeSet<u16>) -> bool {
        let is_needed = self.write.tiers.iter().any(|tier| tiers.contains(tier));
        is_needed && self.write.fallback.is_none_or(|fallback| tiers.contains(&fallback))
    }

    /// Returns the places of a new body. A storage class selects its tier; if the settings write to this tier, the body
    /// is written to the others, too. A body with a class is not stored in the catalog, which has none.
    pub(super) fn placement(&self, class: Option<&str>) -> Result<Placement, ApiError> {
        let Some(class) = class else { return Ok(self.write.clone()) };
        let named = self.class_names.iter().find(|(_, name)| ***name == *class);
        match named {
            Some((tier, _)) if self.write.tiers.contains(tier) => {
                // A class selects a place, and does not lower the durability that the settings choose
                // (docs/decisions/0043).
                let others = self.write.tiers.iter().filter(|other| *other != tier);
                let tiers = std::iter::once(tier).chain(others).copied().collect();
                Ok(Placement { tiers, inline: 0, ..self.write })
            }
            Some((tier, _)) => Ok(Placement { tiers: vec![*tier], inline: 0, fallback: None }),
            // Clients may name the default class of S3 although no tier has it (docs/decisions/0043).
            None if class == STANDARD => Ok(self.write.clone()),
            None => {
                let known: Vec<&str> = self.class_names.values().map(|name| &**name).collect();
                let text =
                    format!("No tier has the storage class {class}; the classes are {}", known.join(", "));
                Err(ApiError::with(ErrorCode::InvalidStorageClass, text))
            }
        }
    }

    /// Returns the places of the parts of an upload. If the settings have no tier with the class of the upload any
    /// more, these are the places of other objects.
    pub(super) fn placement_of_upload(&self, upload: &UploadInfo) -> Placement {
        self.placement(upload.object.storage_class.as_deref()).unwrap_or_else(|_| self.write.clone())
    }

    /// Returns the storage class of a body: the name of the tier from which it is read.
    pub fn class_of(&self, body: &Body, pieces: &[Piece]) -> Result<Option<Arc<str>>, CatalogError> {
        if self.class_names.is_empty() {
            return Ok(None);
        }
        let Some(blob) = blob_of(body, pieces) else { return Ok(None) };
        let place = self.first_location(&blob)?;
        Ok(place.and_then(|place| self.class_names.get(&place.tier).cloned()))
    }

    /// Returns the place from which a blob is read; `None` if its row is missing or damaged. Then a read has the error.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    pub(super) fn first_location(&self, blob: &BlobName) -> Result<Option<Location>, CatalogError> {
        let row = unless_in_doubt(self.catalog.get(&keys::blob(blob)))?;
        let head = row.and_then(|row| BlobHead::decode(&row.head));
        Ok(head.and_then(|head| head.locations.into_iter().next()))
    }

    /// Returns the place from which the first bytes of the body in a row are read.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    pub fn read_place(&self, catalog_key: &[u8], row: &Row, body: &Body) -> Result<ReadPlace, CatalogError> {
        let Some(pieces) = self.pieces_of(catalog_key, row, body)? else { return Ok(ReadPlace::Unknown) };
        let Some(blob) = blob_of(body, &pieces) else { return Ok(ReadPlace::Catalog) };
        Ok(self.first_location(&blob)?.map_or(ReadPlace::Unknown, ReadPlace::Tier))
    }

    /// Adds the storage classes of the objects of a page.
    pub(super) fn add_classes(&self, page: &mut ListPage, bodies: &ListedBodies) -> Result<(), ApiError> {
        let mut found = Vec::new();
        for (index, object) in page.objects.iter().enumerate() {
            let Some(body) = bodies.get(&(object.key.clone(), object.version.clone())) else { continue };
            let pieces = self.pieces_of(&body.catalog_key, &body.row, &body.body).map_err(for_client)?;
            let pieces = pieces.unwrap_or_default();
            found.extend(blob_of(&body.body, &pieces).map(|blob| (index, blob)));
        }
        let names: BTreeSet<BlobName> = found.iter().map(|(_, blob)| *blob).collect();
        let rows: Vec<Vec<u8>> = names.iter().map(|name| keys::blob(name).to_vec()).collect();
        // One query for all blobs of the page: a database would be slow with one for each (docs/decisions/0043).
        let rows = self.catalog.get_all(&rows).map_err(for_client)?;
        let class = |row: &Option<Row>| {
            let head = row.as_ref().and_then(|row| BlobHead::decode(&row.head))?;
            self.class_names.get(&head.locations.first()?.tier).cloned()
        };
        let classes: BTreeMap<BlobName, Option<Arc<str>>> =
            names.into_iter().zip(rows.iter().map(class)).collect();
        for (index, blob) in found {
            page.objects[index].storage_class = classes.get(&blob).cloned().flatten();
        }
        Ok(())
    }

    /// Returns the pieces of the body in a row, if it has several; `None` if their record is damaged.
    fn pieces_of(
        &self,
        catalog_key: &[u8],
        row: &Row,
        body: &Body,
    ) -> Result<Option<Vec<Piece>>, CatalogError> {
        if !matches!(body, Body::Pieces) {
            return Ok(Some(Vec::new()));
        }
        let properties = unless_in_doubt(self.catalog.properties(catalog_key, row).map(Some))?;
        Ok(properties.and_then(|properties| Properties::decode(&properties)).map(|found| found.pieces))
    }
}

/// Place from which the first bytes of a body are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadPlace {
    /// The catalog has the body.
    Catalog,
    /// Place in a tier.
    Tier(Location),
    /// A row that names the place is missing or damaged.
    Unknown,
}

/// Body of an object in a listing.
pub struct ListedBody {
    /// Key of the row.
    pub catalog_key: Vec<u8>,
    /// Row of the object.
    pub row: Row,
    /// Place of the body.
    pub body: Body,
}

/// Bodies of the objects in a listing, by key and version id.
pub type ListedBodies = BTreeMap<(String, String), ListedBody>;

/// Returns the blob from which the first bytes of a body in a tier are read; `None` if the body is in the catalog.
pub fn blob_of(body: &Body, pieces: &[Piece]) -> Option<BlobName> {
    match body {
        Body::Inline => None,
        Body::Blob(name) => Some(*name),
        Body::Slice(slice) => Some(slice.pack_file),
        Body::Pieces => pieces.iter().find_map(|piece| match piece {
            Piece::Blob(name, _) => Some(*name),
            Piece::Inline(_) => None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fallback_replaces_the_tiers_that_do_not_answer() {
        let placement = |tiers: &[u16]| Placement { tiers: tiers.to_vec(), fallback: Some(9), inline: 0 };
        let without =
            |tiers: &[u16], failed: &[u16]| placement(tiers).without(&failed.iter().copied().collect(), 9);
        assert_eq!(without(&[1], &[]), [1]);
        assert_eq!(without(&[1], &[1]), [9]);
        assert_eq!(without(&[1, 2], &[1]), [2, 9]);
        assert_eq!(without(&[1, 9], &[1]), [9], "the fallback is one of them");
    }
}
