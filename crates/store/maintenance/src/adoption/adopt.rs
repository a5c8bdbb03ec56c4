//! Adopts the objects of a tier: each becomes an object of the gateway whose body stays where it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use object_store::path::Path;
use object_store::{GetOptions, ObjectMeta, ObjectStore};
use plimsoll_s3::checksum::md5;

use super::{AdoptionError, headers, owners, parse_etag};
use plimsoll_bodies::error::BlobError;
use plimsoll_bodies::location::{BlobHead, Location, ObjectName, parse_own};
use plimsoll_bodies::name::new_name;
use plimsoll_bodies::tier::details::Details;
use plimsoll_bodies::tier::odd_keys::odd_key;
use plimsoll_bodies::tier::{Tier, check};
use plimsoll_catalog::ambient::wall_now;
use plimsoll_catalog::{Catalog, CatalogError, Transaction, Value};
use plimsoll_objects::owner::{buckets, record};
use plimsoll_objects::row::{Body, Head, Properties, checksum_bytes};
use plimsoll_objects::{Bucket, Store, keys};

/// Number of requests in flight.
const IN_FLIGHT: usize = 64;
/// Number of objects in a transaction.
const BATCH: usize = 256;
/// Reason why an object with an odd key is not adopted.
const ODD: &str = "the gateway cannot address this key in the tier; rename the object";

/// Objects to adopt.
#[derive(Debug, Clone)]
pub struct Adoption {
    /// Number of the tier.
    pub tier: u16,
    /// Start of the keys.
    pub prefix: String,
}

/// Result of an adoption.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Adopted {
    /// Number of objects that were adopted.
    pub objects: u64,
    /// Size of these objects in bytes.
    pub bytes: u64,
    /// Number of objects that were adopted before, into this or another bucket, or whose keys exist in the bucket.
    pub existing: u64,
    /// Keys of objects that were not adopted, with the reason; of those that the backend's client cannot address, such
    /// as `a//b`, the key `a` stands for `a/`.
    pub skipped: BTreeMap<String, String>,
}

/// Returns what the backend knows about an object that was uploaded in this many parts.
async fn details(tier: &Tier, meta: &ObjectMeta, parts: u32) -> object_store::Result<Details> {
    if let Some(bucket) = &tier.details {
        return bucket.details(meta.location.as_ref(), meta.size, parts).await;
    }
    // `ObjectStore::head` returns no attributes.
    let options = GetOptions { head: true, ..GetOptions::default() };
    let attributes = tier.store.get_opts(&meta.location, options).await?.attributes;
    Ok(Details { headers: headers(&attributes), ..Details::default() })
}

/// Returns the row of an object in the backend.
async fn row(tier: &Tier, meta: &ObjectMeta, name: keys::BlobName) -> Result<Value, AdoptionError> {
    let etag = meta.e_tag.as_deref().unwrap_or_default();
    // A tag of another form is only compared, so a hash of it serves as well.
    let (md5, parts) = parse_etag(etag).unwrap_or_else(|| (md5(etag.as_bytes()), 0));
    let details = details(tier, meta, parts).await?;
    let head = Head {
        marker: false,
        null: true,
        // An empty object has a blob, too: its deletion must reach the tier, or it would be adopted again.
        body: Body::Blob(name),
        generation: wall_now().as_nanosecond() as u64,
        size: meta.size,
        modified_ms: meta.last_modified.timestamp_millis(),
        md5,
        parts,
        checksum: details.checksum.as_ref().map(checksum_bytes),
    };
    let Details { headers, tags, parts, .. } = details;
    let properties = Properties { headers, tags, parts, ..Properties::default() };
    Ok(Value { head: head.encode(), properties: properties.encode(), body: Bytes::new() })
}

/// An object with its row.
#[derive(Clone)]
struct Found {
    key: String,
    blob: keys::BlobName,
    location: Location,
    size: u64,
    value: Value,
}

/// Writes the rows of objects whose keys do not exist yet. Returns what was written.
fn write(t: &mut dyn Transaction, bucket: &Bucket, found: Vec<Found>) -> Result<Adopted, CatalogError> {
    let mut adopted = Adopted::default();
    for Found { key, blob, location, size, value } in found {
        let catalog_key = keys::current(bucket.number, &key);
        // With a database, a client may have written the key since the listing.
        if t.get(&catalog_key)?.is_some() {
            adopted.existing += 1;
            continue;
        }
        let head = BlobHead::complete(vec![location]);
        // Without checksums, because nobody has read the body. Its first move records them.
        t.put(keys::blob(&blob), Value { head: head.encode(), ..Value::default() });
        t.put(catalog_key, value);
        adopted.objects += 1;
        adopted.bytes += size;
    }
    Ok(adopted)
}

/// Returns the objects of a tier that are to be adopted.
fn wanted<'a>(
    backend: &'a dyn ObjectStore,
    prefix: &'a str,
) -> impl Stream<Item = object_store::Result<ObjectMeta>> + 'a {
    // The backend's client compares whole parts of a path, so the rest of the prefix is compared here.
    let directory = prefix.rsplit_once('/').and_then(|(directory, _)| Path::parse(directory).ok());
    backend.list(directory.as_ref()).filter(move |meta| {
        // A tier may already have blobs and records of the gateway. Adopted, they would be deleted with their objects.
        let is_wanted = |meta: &ObjectMeta| {
            let path = meta.location.as_ref();
            path.starts_with(prefix)
                && parse_own(path).is_none()
                && path != record::NAME
                && path != buckets::NAME
        };
        // Errors stay in the listing: the caller distinguishes odd keys from a tier that fails.
        std::future::ready(meta.as_ref().map_or(true, is_wanted))
    })
}

/// Returns true if an error concerns one key only.
async fn is_of_key(tier: &Tier, error: &object_store::Error) -> bool {
    // An object may be deleted after the listing. Other errors count as those of the key if the tier itself works.
    matches!(error, object_store::Error::NotFound { .. }) || check::problem(tier).await.is_none()
}

fn find_tier<C: Catalog>(store: &Store<C>, tier: u16) -> Result<&Tier, AdoptionError> {
    store.blobs.tiers().get(tier).ok_or_else(|| BlobError::NoTier(tier).into())
}

/// Counts the objects of a tier that [`adopt`] would adopt. `bucket` is `None` if it does not exist yet.
///
/// # Errors
/// If the catalog or the backend fails.
pub async fn count<C: Catalog>(
    store: &Store<C>,
    bucket: Option<&Bucket>,
    adoption: &Adoption,
) -> Result<Adopted, AdoptionError> {
    let (tier, owners) = (find_tier(store, adoption.tier)?, owners(store, adoption.tier)?);
    let mut adopted = Adopted::default();
    let mut wanted = std::pin::pin!(wanted(&*tier.store, &adoption.prefix));
    while let Some(meta) = wanted.next().await {
        if let Some(key) = meta.as_ref().err().and_then(odd_key) {
            adopted.skipped.insert(key.to_string(), ODD.into());
            continue;
        }
        let meta = meta?;
        let key = meta.location.as_ref();
        let row = bucket.map(|bucket| store.catalog.get(&keys::current(bucket.number, key)));
        if owners.contains_key(key) || row.transpose()?.flatten().is_some() {
            adopted.existing += 1;
        } else {
            adopted.objects += 1;
            adopted.bytes += meta.size;
        }
    }
    Ok(adopted)
}

/// Adopts the objects of a tier into a bucket. Objects whose keys exist in the bucket are left alone, so an interrupted
/// adoption can be repeated.
///
/// # Errors
/// If the catalog or the backend fails.
pub async fn adopt<C: Catalog>(
    store: &Store<C>,
    bucket: &Arc<Bucket>,
    adoption: &Adoption,
) -> Result<Adopted, AdoptionError> {
    // The owners are read before the tier is listed, so an adopted object that is deleted meanwhile is among them.
    let (tier, owners) = (find_tier(store, adoption.tier)?, owners(store, adoption.tier)?);
    let mut adopted = Adopted::default();
    let described = wanted(&*tier.store, &adoption.prefix).map(|meta| {
        async move {
            if let Some(key) = meta.as_ref().err().and_then(odd_key) {
                return Ok(Err((key.to_string(), ODD.to_string())));
            }
            let (meta, blob) = (meta?, new_name());
            let key = meta.location.as_ref().to_string();
            let location = Location { tier: adoption.tier, name: ObjectName::Adopted(key.as_str().into()) };
            let value = match row(tier, &meta, blob).await {
                // An error of one key does not concern the others if the tier works.
                Err(AdoptionError::Store(error)) if is_of_key(tier, &error).await => {
                    return Ok(Err((key, error.to_string())));
                }
                value => value?,
            };
            Ok::<Result<Found, (String, String)>, AdoptionError>(Ok(Found {
                key,
                blob,
                location,
                size: meta.size,
                value,
            }))
        }
    });
    let mut batches = std::pin::pin!(described.buffer_unordered(IN_FLIGHT).chunks(BATCH));
    while let Some(batch) = batches.next().await {
        let mut found = Vec::new();
        for one in batch {
            match one? {
                Ok(one) => found.push(one),
                Err((key, reason)) => drop(adopted.skipped.insert(key, reason)),
            }
        }
        let all = found.len();
        // An object belongs to one blob. With two, the deletion of one would take the bytes of the other.
        found.retain(|one| !owners.contains_key(one.key.as_str()));
        adopted.existing += (all - found.len()) as u64;
        let bucket = Arc::clone(bucket);
        let written = store.transact(BATCH * 300, move |t| {
            // A client may have deleted the bucket since. Its objects would have rows that nobody finds.
            if let Err(error) = bucket.check(t)? {
                return Ok(Err(error));
            }
            Ok(Ok(write(t, &bucket, found.clone())?))
        });
        let written = written.await.map_err(AdoptionError::Catalog)?;
        adopted.objects += written.objects;
        adopted.bytes += written.bytes;
        adopted.existing += written.existing;
    }
    Ok(adopted)
}
