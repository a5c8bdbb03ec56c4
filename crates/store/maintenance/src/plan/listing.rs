//! Plans for existing buckets: the objects of a listing as if the gateway had adopted them.

use jiff::Timestamp;
use plimsoll_server::config::acl::CannedAcl;

use plimsoll_bodies::location::{BlobHead, Location, ObjectName};
use plimsoll_bodies::name::named_at;
use plimsoll_catalog::blocking::block_on;
use plimsoll_catalog::{Catalog, CatalogError, Transaction, Value};
use plimsoll_inventory::{InventoryError, Listed};
use plimsoll_objects::row::{Body, Head, Properties};
use plimsoll_objects::{Document, keys};

/// Number of the bucket of all objects of a listing.
const BUCKET: u32 = 1;

/// An object of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Existing {
    /// Name of the bucket; empty if the listing does not have it.
    pub bucket: String,
    /// Key of the object.
    pub key: String,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last modification in Unix milliseconds.
    pub modified_ms: i64,
}

impl Existing {
    /// Takes an object of a listing; `None` for delete markers and rows without a size, which have no body.
    ///
    /// # Errors
    /// If the time of the last modification is missing or malformed.
    pub fn of(listed: &Listed<'_>) -> Result<Option<Existing>, InventoryError> {
        let Some(size) = listed.bytes else { return Ok(None) };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let modified_ms = listed.modified_ms()?;
        Ok(Some(Existing { bucket: text(listed.bucket), key: text(listed.key), size, modified_ms }))
    }
}

/// Writes the row of a bucket to an empty catalog.
///
/// # Errors
/// If the catalog fails.
pub fn create_bucket<C: Catalog>(catalog: &C, name: &str) -> Result<(), CatalogError> {
    let document = Document::new(BUCKET, String::new(), String::new(), CannedAcl::Private);
    let value =
        Value { properties: serde_json::to_vec(&document).unwrap_or_default().into(), ..Value::default() };
    let key = keys::bucket(name);
    let work = move |t: &mut dyn Transaction| {
        t.put(key.clone(), value.clone());
        Ok(true)
    };
    block_on(catalog.commit(Box::new(work), 0))
}

/// Writes the rows of objects whose bodies are in a tier. Objects with the same key, such as versions, have
/// a row each.
///
/// # Errors
/// If the catalog fails.
pub fn add<C: Catalog>(catalog: &C, tier: u16, objects: Vec<Existing>) -> Result<(), CatalogError> {
    let work = move |t: &mut dyn Transaction| {
        // A catalog may execute the work again (`Work`), so the objects must stay.
        for Existing { key, size, modified_ms, .. } in objects.clone() {
            let blob = named_at(u64::try_from(modified_ms).unwrap_or(0));
            let head = Head {
                marker: false,
                null: true,
                // Visits skip empty objects, so these need no blob.
                body: if size == 0 { Body::Inline } else { Body::Blob(blob) },
                generation: Timestamp::from_millisecond(modified_ms)
                    .map_or(0, |at| at.as_nanosecond() as u64),
                size,
                modified_ms,
                md5: [0; 16],
                parts: 0,
                checksum: None,
            };
            if size > 0 {
                let head = BlobHead::complete(vec![Location {
                    tier,
                    name: ObjectName::Adopted(key.as_str().into()),
                }])
                .encode();
                t.put(keys::blob(&blob), Value { head, ..Value::default() });
            }
            let current = keys::current(BUCKET, &key);
            // Plans do not depend on which version is the current one, so the first one of the listing gets this row.
            let place = match t.get(&current)? {
                None => current,
                Some(_) => {
                    // Random bytes of the name: with the generation, versions of one second would share a row.
                    keys::version(BUCKET, &key, u64::from_be_bytes(blob[8..].try_into().unwrap_or_default()))
                }
            };
            let properties = Properties::default().encode();
            t.put(place, Value { head: head.encode(), properties, ..Value::default() });
        }
        Ok(true)
    };
    block_on(catalog.commit(Box::new(work), 0))
}
