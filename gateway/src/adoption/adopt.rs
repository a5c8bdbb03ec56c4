//! Adopts the objects of a tier: each becomes an object of the gateway whose body stays where it is.

use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{GetOptions, ObjectMeta, ObjectStore};
use plimsoll::clock::wall_now;
use plimsoll::s3::checksum::md5;

use super::{AdoptionError, headers, parse_etag};
use crate::body::blob::new_name;
use crate::body::location::{BlobHead, Location, ObjectName, State};
use crate::catalog::{Catalog, CatalogError, Transaction, Value};
use crate::object::row::{Body, Head, Properties};
use crate::object::{Bucket, Store, keys};

/// Number of requests in flight.
const IN_FLIGHT: usize = 64;
/// Number of objects in a transaction.
const BATCH: usize = 256;

/// Objects to adopt.
#[derive(Debug, Clone)]
pub struct Adoption {
    /// Number of the tier.
    pub tier: u16,
    /// Start of the keys.
    pub prefix: String,
    /// True to count the objects only.
    pub dry_run: bool,
}

/// Result of an adoption.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Adopted {
    /// Number of objects that were adopted.
    pub objects: u64,
    /// Size of these objects in bytes.
    pub bytes: u64,
    /// Number of objects whose keys exist in the bucket already.
    pub existing: u64,
}

/// Returns true if the path is that of a blob with a name of its own.
fn is_own(path: &Path) -> bool {
    let Some((directory, name)) = path.as_ref().split_once('/') else { return false };
    name.len() == 32
        && name.ends_with(directory)
        && directory.len() == 2
        && name.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Returns the keys of a tier that were adopted and are not deleted yet. They may belong to objects of any bucket.
fn known<C: Catalog>(store: &Store<C>, tier: u16) -> Result<HashSet<Arc<str>>, CatalogError> {
    let mut found = HashSet::new();
    let mut scan = store.catalog.scan();
    scan.seek(Bound::Included(keys::BLOBS))?;
    while let Some((key, row)) = scan.next()?
        && key.starts_with(keys::BLOBS)
    {
        let head = BlobHead::decode(&row.head);
        for place in head.map(|head| head.locations).unwrap_or_default() {
            if let (true, ObjectName::Adopted(name)) = (place.tier == tier, place.name) {
                found.insert(name);
            }
        }
    }
    Ok(found)
}

/// Returns the row of an object in the backend.
async fn row(
    store: &dyn ObjectStore,
    meta: &ObjectMeta,
    name: keys::BlobName,
) -> Result<Value, AdoptionError> {
    let options = GetOptions { head: true, ..GetOptions::default() };
    let attributes = store.get_opts(&meta.location, options).await?.attributes;
    let etag = meta.e_tag.as_deref().unwrap_or_default();
    // A tag of another form is only compared, so a hash of it serves as well.
    let (md5, parts) = parse_etag(etag).unwrap_or_else(|| (md5(etag.as_bytes()), 0));
    let head = Head {
        marker: false,
        null: true,
        body: if meta.size == 0 { Body::Inline } else { Body::Blob(name) },
        generation: wall_now().as_nanosecond() as u64,
        size: meta.size,
        modified_ms: meta.last_modified.timestamp_millis(),
        md5,
        parts,
        checksum: None,
    };
    let properties = Properties { headers: headers(&attributes), ..Properties::default() };
    Ok(Value { head: head.encode(), properties: properties.encode(), body: Bytes::new() })
}

/// An object with its row.
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
        if t.get(&catalog_key)?.is_some() {
            adopted.existing += 1;
            continue;
        }
        if size > 0 {
            let head = BlobHead { state: State::Complete, ..BlobHead::pending(vec![location]) };
            t.put(keys::blob(&blob), Value { head: head.encode(), ..Value::default() });
        }
        t.put(catalog_key, value);
        adopted.objects += 1;
        adopted.bytes += size;
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
    let backend = match store.blobs.tiers().get(adoption.tier) {
        Some(tier) => Arc::clone(&tier.store),
        None => return Err(crate::body::blob::BlobError::NoTier(adoption.tier).into()),
    };
    let mut adopted = Adopted::default();
    let mut seen = known(store, adoption.tier)?;
    // A prefix of a backend ends with a segment of the path, so the rest is compared here.
    let directory = adoption.prefix.rsplit_once('/').map(|(directory, _)| Path::from(directory));
    let listed = backend.list(directory.as_ref());
    let wanted = listed.filter(|meta| {
        let is_wanted = meta.as_ref().map_or(true, |meta| {
            meta.location.as_ref().starts_with(&adoption.prefix) && !is_own(&meta.location)
        });
        std::future::ready(is_wanted)
    });
    if adoption.dry_run {
        let mut wanted = std::pin::pin!(wanted);
        while let Some(meta) = wanted.next().await {
            let meta = meta?;
            let key = keys::current(bucket.number, meta.location.as_ref());
            match store.catalog.get(&key)? {
                _ if seen.contains(meta.location.as_ref()) => adopted.existing += 1,
                Some(_) => adopted.existing += 1,
                None => (adopted.objects, adopted.bytes) = (adopted.objects + 1, adopted.bytes + meta.size),
            }
        }
        return Ok(adopted);
    }
    let described = wanted.map(|meta| {
        let backend = &*backend;
        async move {
            let (meta, blob) = (meta?, new_name());
            let key = meta.location.as_ref().to_string();
            let location = Location { tier: adoption.tier, name: ObjectName::Adopted(key.as_str().into()) };
            let value = row(backend, &meta, blob).await?;
            Ok::<Found, AdoptionError>(Found { key, blob, location, size: meta.size, value })
        }
    });
    let mut batches = std::pin::pin!(described.buffer_unordered(IN_FLIGHT).chunks(BATCH));
    while let Some(batch) = batches.next().await {
        let mut found = batch.into_iter().collect::<Result<Vec<_>, _>>()?;
        let all = found.len();
        found.retain(|one| seen.insert(one.key.as_str().into()));
        adopted.existing += (all - found.len()) as u64;
        let bucket = Arc::clone(bucket);
        let written = store.transact(BATCH * 300, move |t| Ok(Ok(write(t, &bucket, found)?)));
        let written = written.await.map_err(AdoptionError::Catalog)?;
        adopted.objects += written.objects;
        adopted.bytes += written.bytes;
        adopted.existing += written.existing;
    }
    Ok(adopted)
}
