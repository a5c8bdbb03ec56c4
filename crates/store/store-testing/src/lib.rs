//! Stores for tests, and requests to them. The tests of `maintenance` use it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use plimsoll_server::body::BodyReader;
use plimsoll_server::conditions::{DeleteConditions, WriteConditions};
use plimsoll_server::config::acl::CannedAcl;
use plimsoll_server::config::tags::Tags;
use plimsoll_server::error::ApiError;
use plimsoll_server::reserve::Memory;
use plimsoll_server::response::ResponseBody;
use plimsoll_server::service::{NewBucket, NewObject, ObjectService};

use plimsoll_bodies::blob::Blobs;
use plimsoll_bodies::cache::{Cache, CacheSettings};
use plimsoll_bodies::tier::{Backend, Tier, Tiers};
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::embedded::catalog::{CatalogSettings, EmbeddedCatalog};
use plimsoll_catalog::memory::MemoryCatalog;
use plimsoll_catalog::{Catalog, Row};
use plimsoll_objects::placement::Placement;
use plimsoll_objects::{Bodies, Store};

/// A store over a catalog and tiers in memory, with one bucket.
pub struct World {
    /// The store under test.
    pub store: Store<MemoryCatalog>,
    /// Backends of the tiers, by number.
    pub tiers: Vec<Arc<InMemory>>,
}

/// Name of the bucket of a [`World`].
pub const BUCKET: &str = "bucket";

/// Returns settings of bodies that are written to the first tier, if they have more than `inline` bytes. Garbage is not
/// kept.
pub fn bodies(blobs: Blobs, inline: u64) -> Bodies {
    let write = Placement::one(0, inline);
    let (class_names, classes) = Default::default();
    Bodies { blobs, write, class_names, reads: None, classes, retain_ms: 0 }
}

/// Opens a store whose catalog is in a directory, with one tier that counts as a directory, too. Bodies above `inline`
/// bytes become blobs in the tier.
pub fn open_directory(
    root: &Path,
    settings: CatalogSettings,
    tier: &Arc<InMemory>,
    inline: u64,
) -> Store<AnyCatalog> {
    open_retaining(root, settings, tier, inline, 0)
}

/// Opens such a store, which keeps garbage for a time in milliseconds.
pub fn open_retaining(
    root: &Path,
    settings: CatalogSettings,
    tier: &Arc<InMemory>,
    inline: u64,
    retain_ms: u64,
) -> Store<AnyCatalog> {
    let (catalog, _) = EmbeddedCatalog::open(root, settings).unwrap();
    let backend = Backend::new(Arc::clone(tier) as Arc<dyn ObjectStore>);
    let tier = Tier::new("0", Backend { directory: Some(root.join("blobs")), ..backend });
    let cache = Cache::open(&CacheSettings::default()).unwrap();
    let blobs = Blobs::new(Tiers::new(BTreeMap::from([(0, tier)])), cache);
    let bodies = Bodies { retain_ms, ..bodies(blobs, inline) };
    Store::open(Arc::new(AnyCatalog::Embedded(catalog)), bodies, Memory::new(u64::MAX)).unwrap()
}

/// Returns the properties of a new object.
pub fn new_object() -> NewObject {
    NewObject {
        headers: Vec::new(),
        tags: Tags::default(),
        acl: CannedAcl::Private,
        checksum: None,
        conditions: WriteConditions::default(),
        storage_class: None,
    }
}

/// Writes an object.
///
/// # Errors
/// Returns the error for the client.
pub async fn put<C: Catalog>(store: &Store<C>, key: &str, body: &[u8]) -> Result<(), ApiError> {
    put_in(store, BUCKET, key, body).await.map(|_| ())
}

/// Writes an object in a bucket. Returns the id of its version.
///
/// # Errors
/// Returns the error for the client.
pub async fn put_in<C: Catalog>(
    store: &Store<C>,
    bucket: &str,
    key: &str,
    body: &[u8],
) -> Result<Option<String>, ApiError> {
    put_new(store, bucket, key, new_object(), body).await
}

/// Writes an object with these properties and conditions in a bucket. Returns the id of its version.
///
/// # Errors
/// Returns the error for the client.
pub async fn put_new<C: Catalog>(
    store: &Store<C>,
    bucket: &str,
    key: &str,
    new: NewObject,
    body: &[u8],
) -> Result<Option<String>, ApiError> {
    let bucket = store.bucket(bucket).await?;
    let mut reader = BodyReader::of_object(ResponseBody::new(vec![Bytes::copy_from_slice(body)]));
    reader.want(None);
    store.put(&bucket, key, new, &mut reader).await.map(|info| info.version)
}

/// Deletes an object.
///
/// # Errors
/// Returns the error for the client.
pub async fn delete<C: Catalog>(store: &Store<C>, key: &str) -> Result<(), ApiError> {
    let bucket = store.bucket(BUCKET).await?;
    store.delete(&bucket, key, None, DeleteConditions::default()).await.map(|_| ())
}

/// Reads an object: its entity tag and its body.
///
/// # Errors
/// Returns the error for the client.
pub async fn get<C: Catalog>(store: &Store<C>, key: &str) -> Result<(String, Vec<u8>), ApiError> {
    get_from(store, BUCKET, key, None).await
}

/// Reads a version of an object in a bucket: its entity tag and its body.
///
/// # Errors
/// Returns the error for the client.
pub async fn get_from<C: Catalog>(
    store: &Store<C>,
    bucket: &str,
    key: &str,
    version: Option<&str>,
) -> Result<(String, Vec<u8>), ApiError> {
    let bucket = store.bucket(bucket).await?;
    let object = store.open(&bucket, key, version).await?;
    let (size, etag) = (object.info.size, object.info.etag_header.to_str().unwrap().to_string());
    let mut reader = BodyReader::of_object(store.read(object, 0..size).await?);
    let body = reader.collect(&Memory::new(u64::MAX)).await?;
    Ok((etag, body.to_vec()))
}

impl World {
    /// Creates a store with `tiers` tiers. Bodies above `inline` bytes become blobs in the first one.
    pub async fn new(tiers: u16, inline: u64) -> World {
        World::retaining(tiers, inline, 0).await
    }

    /// Creates such a store, which keeps garbage for a time in milliseconds.
    pub async fn retaining(tiers: u16, inline: u64, retain_ms: u64) -> World {
        let tiers = (0..tiers).map(|_| Arc::new(InMemory::new())).collect();
        let world = World::open(Arc::default(), tiers, inline, retain_ms);
        let new = NewBucket { region: "r", owner: "o", acl: CannedAcl::Private };
        world.store.create_bucket(BUCKET, new).await.unwrap();
        world
    }

    /// Opens the store of another world again, with an empty cache and without counts.
    pub fn reopen(other: &World) -> World {
        World::open(Arc::clone(&other.store.catalog), other.tiers.clone(), 0, other.store.retain_ms)
    }

    /// Opens the tiers of another world with another catalog.
    pub fn with_catalog(other: &World, catalog: Arc<MemoryCatalog>) -> World {
        World::open(catalog, other.tiers.clone(), 100, other.store.retain_ms)
    }

    fn open(catalog: Arc<MemoryCatalog>, tiers: Vec<Arc<InMemory>>, inline: u64, retain_ms: u64) -> World {
        let tier = |(number, backend): (u16, &Arc<InMemory>)| {
            let backend = Backend::new(Arc::clone(backend) as Arc<dyn ObjectStore>);
            (number, Tier::new(&number.to_string(), backend))
        };
        let cache = Cache::open(&CacheSettings::default()).unwrap();
        let blobs = Blobs::new(Tiers::new((0..).zip(&tiers).map(tier).collect()), cache);
        let class = |tier: u16| (format!("CLASS{tier}"), tier);
        let classes = (0..u16::try_from(tiers.len()).unwrap()).map(class).collect();
        let reads = Some(Arc::default());
        let bodies = Bodies { reads, classes, retain_ms, ..bodies(blobs, inline) };
        World { store: Store::open(catalog, bodies, Memory::new(u64::MAX)).unwrap(), tiers }
    }

    /// Writes an object.
    pub async fn put(&self, key: &str, body: &[u8]) {
        put(&self.store, key, body).await.unwrap();
    }

    /// Deletes an object.
    pub async fn delete(&self, key: &str) {
        delete(&self.store, key).await.unwrap();
    }

    /// Reads an object.
    ///
    /// # Errors
    /// Returns the error for the client.
    pub async fn get(&self, key: &str) -> Result<(String, Vec<u8>), ApiError> {
        get(&self.store, key).await
    }

    /// Returns the number of objects in a tier.
    pub async fn count(&self, tier: usize) -> usize {
        self.tiers[tier].list(None).count().await
    }

    /// Returns the rows of the catalog whose keys start with `prefix`.
    pub fn rows(&self, prefix: &[u8]) -> Vec<(Vec<u8>, Row)> {
        let mut scan = self.store.catalog.scan();
        scan.seek(Bound::Included(prefix)).unwrap();
        std::iter::from_fn(|| scan.next().unwrap()).take_while(|(key, _)| key.starts_with(prefix)).collect()
    }
}
