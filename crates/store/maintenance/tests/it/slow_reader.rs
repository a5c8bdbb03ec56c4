//! Reads while the memory of reads is used up, and responses that a tier ends early.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use plimsoll_server::config::acl::CannedAcl;
use plimsoll_server::error::ErrorCode;
use plimsoll_server::reserve::Memory;
use plimsoll_server::service::{NewBucket, ObjectService};

use plimsoll_bodies::blob::Blobs;
use plimsoll_bodies::cache::{Cache, CacheSettings};
use plimsoll_bodies::read_memory::{ReadMemory, SMALL};
use plimsoll_bodies::tier::{Backend, Tier, Tiers};
use plimsoll_catalog::memory::MemoryCatalog;
use plimsoll_objects::Store;
use plimsoll_store_testing::{BUCKET, bodies, get, put};
use plimsoll_testing::directory::TempDir;

/// Opens a store with one tier. Bodies above `inline` bytes become blobs in it.
async fn open(backend: Backend, inline: u64, memory: ReadMemory) -> Store<MemoryCatalog> {
    let cache = Cache::open(&CacheSettings::default()).unwrap();
    let tiers = Tiers::new(BTreeMap::from([(0, Tier::new("0", backend))]));
    let blobs = Blobs::new(tiers, cache).with_memory(memory);
    let store = Store::open(Arc::default(), bodies(blobs, inline), Memory::new(u64::MAX)).unwrap();
    let new = NewBucket { region: "r", owner: "o", acl: CannedAcl::Private };
    store.create_bucket(BUCKET, new).await.unwrap();
    store
}

fn directory(dir: &TempDir) -> Backend {
    let files = LocalFileSystem::new_with_prefix(dir.path()).unwrap();
    Backend { directory: Some(dir.path().to_path_buf()), ..Backend::new(Arc::new(files)) }
}

fn body(length: u32) -> Vec<u8> {
    (0..length).map(|i| (i * 7 % 251) as u8).collect()
}

/// Reads a range of an object. Returns its pieces.
async fn pieces(store: &Store<MemoryCatalog>, key: &str, range: std::ops::Range<u64>) -> Vec<Bytes> {
    let bucket = store.bucket(BUCKET).await.unwrap();
    let object = store.open(&bucket, key, None).await.unwrap();
    let body = store.read(object, range).await.unwrap();
    body.into_stream().map(|piece| piece.unwrap()).collect().await
}

/// Regression test: each of thousands of slow readers kept a piece of 1 MiB, or a whole body in the catalog.
#[tokio::test]
async fn readers_hold_little_when_the_memory_of_reads_is_used_up() {
    let dir = TempDir::new("slow-readers");
    let store = open(directory(&dir), 1 << 20, ReadMemory::with(0, u64::MAX)).await;
    for (key, length) in [("inline", 700_000), ("blob", 3_000_000), ("small", 100)] {
        let body = body(length);
        put(&store, key, &body).await.unwrap();
        let all = u64::from(length);
        for range in [0..all, 1..all, all / 2..all - 1, all - 1..all] {
            let read = pieces(&store, key, range.clone()).await;
            assert!(read.iter().all(|piece| piece.len() <= SMALL), "{key} {range:?}");
            assert!(read.concat() == body[range.start as usize..range.end as usize], "{key} {range:?}");
        }
    }
}

#[tokio::test]
async fn pieces_are_large_while_there_is_memory() {
    let dir = TempDir::new("fast-readers");
    let store = open(directory(&dir), 1 << 20, ReadMemory::default()).await;
    put(&store, "inline", &body(700_000)).await.unwrap();
    put(&store, "blob", &body(3 << 20)).await.unwrap();
    assert_eq!(pieces(&store, "inline", 0..700_000).await.len(), 1);
    assert_eq!(pieces(&store, "blob", 0..3 << 20).await.len(), 3);
}

#[tokio::test]
async fn readers_of_a_remote_tier_are_limited() {
    let store = open(Backend::new(Arc::new(InMemory::new())), 10, ReadMemory::with(0, 1 << 20)).await;
    put(&store, "blob", &body(1000)).await.unwrap();
    let bucket = store.bucket(BUCKET).await.unwrap();
    let read = async || {
        let object = store.open(&bucket, "blob", None).await.unwrap();
        store.read(object, 0..1000).await
    };
    let first = read().await.unwrap();
    let refused = read().await.map(|_| ()).unwrap_err();
    assert_eq!(refused.code, ErrorCode::SlowDown);
    drop(first);
    assert!(read().await.is_ok());
}

/// A tier that ends each response after some bytes, as a timeout does.
#[derive(Debug)]
struct Impatient(InMemory);

impl Display for Impatient {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("impatient tier")
    }
}

#[async_trait]
impl ObjectStore for Impatient {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.0.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let found = self.0.get_opts(path, options).await?;
        let (meta, range, attributes) = (found.meta.clone(), found.range.clone(), found.attributes.clone());
        let extensions = found.extensions.clone();
        let mut bytes = found.bytes().await?;
        bytes.truncate(300_000);
        let timeout = Err(Error::Generic { store: "impatient", source: "timeout".into() });
        let payload = GetResultPayload::Stream(stream::iter([Ok(bytes), timeout]).boxed());
        Ok(GetResult { payload, meta, range, attributes, extensions })
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.0.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}

/// Regression test: a response that a tier ended early, because the client was slow, ended the response to the client
/// unless the blob had another place.
#[tokio::test]
async fn a_read_continues_at_the_only_place_that_has_delivered_bytes() {
    let store = open(Backend::new(Arc::new(Impatient(InMemory::new()))), 10, ReadMemory::default()).await;
    put(&store, "blob", &body(2_000_000)).await.unwrap();
    assert!(get(&store, "blob").await.unwrap().1 == body(2_000_000));
}
