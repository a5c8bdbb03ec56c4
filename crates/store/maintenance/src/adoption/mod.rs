//! Adoption of the objects of an existing bucket, and their release: the way into the gateway and out of it.

pub mod adopt;
pub mod release;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use object_store::{Attribute, Attributes};

use plimsoll_server::error::ApiError;

use plimsoll_bodies::error::BlobError;
use plimsoll_bodies::location::{BlobHead, ObjectName};
use plimsoll_bodies::name::BlobName;
use plimsoll_catalog::{Catalog, CatalogError};
use plimsoll_objects::body::BodyError;
use plimsoll_objects::{Store, keys};

/// Reason why a bucket cannot be adopted or released.
#[derive(Debug, thiserror::Error)]
pub enum AdoptionError {
    /// The catalog has failed.
    #[error("{0}")]
    Catalog(ApiError),
    /// The backend has failed.
    #[error("{0}")]
    Store(#[from] object_store::Error),
    /// A body cannot be read or written.
    #[error("{0}")]
    Blob(#[from] BlobError),
    /// A body cannot be read.
    #[error("{0}")]
    Body(#[from] BodyError),
    /// The catalog cannot be read.
    #[error("{0}")]
    Read(#[from] CatalogError),
}

impl AdoptionError {
    /// Returns true if the error may concern one key only: the catalog works, no tier is known to be down or full.
    fn concerns_one_key(&self) -> bool {
        match self {
            // Most errors do not say what they concern, so the caller also looks whether the tier works.
            AdoptionError::Store(_) => true,
            // `check::problem` does not show that a tier is full: it lists objects, or writes an empty file.
            AdoptionError::Blob(error) => !error.is_full(),
            AdoptionError::Body(BodyError::Blob { error, .. }) => !error.is_unavailable(),
            AdoptionError::Body(BodyError::Unknown(_)) => true,
            AdoptionError::Body(BodyError::Catalog(_))
            | AdoptionError::Catalog(_)
            | AdoptionError::Read(_) => false,
        }
    }
}

/// Returns the adopted objects of a tier that belong to a blob, also to one that is to be deleted, with the blob.
fn owners<C: Catalog>(store: &Store<C>, tier: u16) -> Result<BTreeMap<Arc<str>, BlobName>, CatalogError> {
    let mut found = BTreeMap::new();
    let mut scan = store.catalog.scan();
    scan.seek(Bound::Included(keys::BLOBS))?;
    while let Some((key, row)) = scan.next()?
        && let Some(blob) = key.strip_prefix(keys::BLOBS)
    {
        let (Some(head), Ok(blob)) = (BlobHead::decode(&row.head), BlobName::try_from(blob)) else {
            continue;
        };
        // In every state: the object of a discarded blob exists until its deletion, and would be adopted again.
        for place in head.locations.into_iter().filter(|place| place.tier == tier) {
            if let ObjectName::Adopted(key) = place.name {
                found.insert(key, blob);
            }
        }
    }
    Ok(found)
}

/// Prefix of the headers of user metadata.
const METADATA: &str = "x-amz-meta-";

/// Returns the headers of an object from its attributes.
pub fn headers(attributes: &Attributes) -> Vec<(HeaderName, HeaderValue)> {
    let header = |(name, value): (&Attribute, &object_store::AttributeValue)| {
        let name = match name {
            Attribute::CacheControl => "cache-control".to_string(),
            Attribute::ContentDisposition => "content-disposition".to_string(),
            Attribute::ContentEncoding => "content-encoding".to_string(),
            Attribute::ContentLanguage => "content-language".to_string(),
            Attribute::ContentType => "content-type".to_string(),
            Attribute::Metadata(name) => format!("{METADATA}{name}"),
            _ => return None,
        };
        Some((name.parse().ok()?, HeaderValue::from_str(value.as_ref()).ok()?))
    };
    let mut headers: Vec<_> = attributes.iter().filter_map(header).collect();
    headers.sort_by(|a: &(HeaderName, HeaderValue), b| a.0.as_str().cmp(b.0.as_str()));
    headers
}

/// Returns the attributes of an object from its headers.
pub fn attributes(headers: &[(HeaderName, HeaderValue)]) -> Attributes {
    let attribute = |(name, value): &(HeaderName, HeaderValue)| {
        let attribute = match name.as_str() {
            "cache-control" => Attribute::CacheControl,
            "content-disposition" => Attribute::ContentDisposition,
            "content-encoding" => Attribute::ContentEncoding,
            "content-language" => Attribute::ContentLanguage,
            "content-type" => Attribute::ContentType,
            other => Attribute::Metadata(other.strip_prefix(METADATA)?.to_string().into()),
        };
        Some((attribute, value.to_str().ok()?.to_string()))
    };
    headers.iter().filter_map(attribute).collect()
}

/// Returns the bytes and the number of parts of an entity tag of S3; `None` if it has another form.
pub fn parse_etag(text: &str) -> Option<([u8; 16], u32)> {
    let text = text.trim_start_matches("W/").trim_matches('"');
    let (digits, parts) = match text.split_once('-') {
        // 0 would mean an object that was not uploaded in parts (`Head::parts`).
        Some((digits, parts)) => (digits, parts.parse().ok().filter(|parts| *parts > 0)?),
        None => (text, 0),
    };
    let mut bytes = [0; 16];
    // A slice of two bytes below must not end within a character.
    if digits.len() != 32 || !digits.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).ok()?;
    }
    Some((bytes, parts))
}
