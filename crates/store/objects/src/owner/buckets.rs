//! The documents of all buckets beside the record of a tier's owner, so that buckets can be created again with their
//! settings if the catalog is lost.

use std::collections::BTreeMap;

use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutPayload};
use serde::{Deserialize, Serialize};

use super::record::{RecordError, in_time};
use crate::{Document, keys};
use plimsoll_catalog::{Catalog, CatalogError, unless_in_doubt};

/// Name of the object in its tier.
pub const NAME: &str = "plimsoll-buckets.json";
/// Maximum length of the object in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Documents of the buckets of a catalog.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct BucketDocuments {
    /// Id of the catalog, in hexadecimal digits.
    pub catalog: String,
    /// Documents by the name of the bucket.
    pub buckets: BTreeMap<String, Document>,
}

impl BucketDocuments {
    /// Reads the documents in a catalog, except damaged ones.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    pub fn of_catalog<C: Catalog>(catalog: &C, id: String) -> Result<BucketDocuments, CatalogError> {
        let mut buckets = BTreeMap::new();
        let mut scan = catalog.scan();
        scan.seek(std::ops::Bound::Included(keys::BUCKETS))?;
        while let Some((key, row)) = scan.next()? {
            let Some(name) = key.strip_prefix(keys::BUCKETS) else { break };
            // A damaged document must not keep the others out of the tiers.
            let value = unless_in_doubt(catalog.value(&key, &row).map(Some))?;
            let document = value.and_then(|value| serde_json::from_slice(&value.properties).ok());
            buckets.extend(document.map(|document| (String::from_utf8_lossy(name).into_owned(), document)));
        }
        Ok(BucketDocuments { catalog: id, buckets })
    }

    /// Returns the text of the object.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// Writes the documents to a tier.
///
/// # Errors
/// If the tier fails.
pub async fn write(store: &dyn ObjectStore, text: &str) -> Result<(), RecordError> {
    in_time(store.put(&Path::from(NAME), PutPayload::from(text.to_string()))).await.map(|_| ())
}

/// Reads the documents in a tier; `None` if it has none.
///
/// # Errors
/// If the tier fails, or the object has another form.
pub async fn read(store: &dyn ObjectStore) -> Result<Option<BucketDocuments>, RecordError> {
    let result = match in_time(store.get(&Path::from(NAME))).await {
        Err(RecordError::Tier(Error::NotFound { .. })) => return Ok(None),
        result => result?,
    };
    if result.meta.size > MAX_BYTES {
        return Err(RecordError::Unknown(NAME));
    }
    let bytes = in_time(result.bytes()).await?;
    serde_json::from_slice(&bytes).map(Some).map_err(|_| RecordError::Unknown(NAME))
}
