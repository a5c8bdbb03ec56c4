//! Requests while the disk has less than the reserved free space.

use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use plimsoll_base::clock::wall_now;
use plimsoll_server::conditions::DeleteConditions;
use plimsoll_server::config::acl::CannedAcl;
use plimsoll_server::error::ErrorCode;
use plimsoll_server::service::{BucketChange, NewBucket, ObjectService, UploadInfo, UploadName};

use plimsoll_catalog::ambient::now_ms;
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::blocking::block_on;
use plimsoll_catalog::embedded::CatalogLimits;
use plimsoll_catalog::embedded::catalog::CatalogSettings;
use plimsoll_maintenance::background::deletion::delete_due_at;
use plimsoll_maintenance::background::retention::let_go_due_at;
use plimsoll_objects::Store;
use plimsoll_store_testing::{BUCKET, get, new_object, open_directory, open_retaining, put, put_in};
use plimsoll_testing::directory::TempDir;

/// Opens a store on a disk that has enough free space, or not.
fn open(root: &Path, tier: &Arc<InMemory>, is_full: bool) -> Store<AnyCatalog> {
    let reserve_bytes = if is_full { u64::MAX } else { 0 };
    let limits = CatalogLimits { reserve_bytes, ..CatalogLimits::default() };
    open_directory(root, CatalogSettings { limits, ..CatalogSettings::default() }, tier, 1000)
}

async fn fill(store: &Store<AnyCatalog>) -> (String, String) {
    let new = NewBucket { region: "r", owner: "o", acl: CannedAcl::Private };
    store.create_bucket(BUCKET, new).await.unwrap();
    put(store, "inline", b"small").await.unwrap();
    put(store, "blob", &[7; 5000]).await.unwrap();
    let bucket = store.bucket(BUCKET).await.unwrap();
    let upload = UploadInfo { object: new_object(), checksum: None, initiated: wall_now() };
    let upload = store.create_upload(&bucket, "upload", upload).await.unwrap();
    store.configure_bucket(BUCKET, BucketChange::Versioning(true)).await.unwrap();
    let version = put_in(store, BUCKET, "versioned", &[8; 5000]).await.unwrap().unwrap();
    put(store, "hidden", b"small").await.unwrap();
    (upload, version)
}

/// Regression test: on a full disk, deletes of blobs, of versions and of uploads failed, because they write records.
#[test]
fn a_full_disk_can_be_emptied() {
    let (dir, tier) = (TempDir::new("full-disk"), Arc::new(InMemory::new()));
    let store = open(dir.path(), &tier, false);
    let (upload, version) = block_on(fill(&store));
    store.catalog.close().unwrap();
    drop(store);
    let store = open(dir.path(), &tier, true);
    assert!(store.catalog.check().unwrap_err().to_string().contains("free space"));
    block_on(async {
        assert_eq!(put(&store, "new", b"new").await.unwrap_err().code, ErrorCode::InsufficientStorage);
        let bucket = store.bucket(BUCKET).await.unwrap();
        let delete = async |key: &str, version: Option<&str>| {
            store.delete(&bucket, key, version, DeleteConditions::default()).await.unwrap()
        };
        delete("versioned", Some(&version)).await;
        delete("blob", Some("null")).await;
        delete("inline", Some("null")).await;
        assert!(delete("hidden", None).await.marker);
        store.abort_upload(&bucket, UploadName { key: "upload", id: &upload }).await.unwrap();
        for key in ["versioned", "blob", "inline", "hidden"] {
            assert_eq!(get(&store, key).await.unwrap_err().code, ErrorCode::NoSuchKey, "{key}");
        }
        delete_due_at(&store, now_ms() + 86_400_000).await.unwrap();
    });
    store.catalog.close().unwrap();
    drop(store);
    let store = open(dir.path(), &tier, false);
    block_on(async {
        assert_eq!(get(&store, "blob").await.unwrap_err().code, ErrorCode::NoSuchKey);
        put(&store, "new", b"new").await.unwrap();
    });
}

/// Regression test: on a full disk, the blobs of deleted objects and uploads were kept, so deletes freed no space.
#[test]
fn a_full_disk_keeps_nothing_that_was_deleted() {
    const DAY_MS: u64 = 86_400_000;
    let (dir, tier) = (TempDir::new("full-retention"), Arc::new(InMemory::new()));
    let open = |reserve_bytes| {
        let limits = CatalogLimits { reserve_bytes, ..CatalogLimits::default() };
        let settings = CatalogSettings { limits, ..CatalogSettings::default() };
        open_retaining(dir.path(), settings, &tier, 1000, DAY_MS)
    };
    let store = open(0);
    let (upload, version) = block_on(fill(&store));
    let work = async |store: &Store<AnyCatalog>| {
        let soon = now_ms() + 60_000;
        let_go_due_at(store, soon).await.unwrap();
        delete_due_at(store, soon).await.unwrap();
        tier.list(None).count().await
    };
    let delete = async |store: &Store<AnyCatalog>, key: &str, version: &str| {
        let bucket = store.bucket(BUCKET).await.unwrap();
        store.delete(&bucket, key, Some(version), DeleteConditions::default()).await.unwrap();
    };
    block_on(async {
        delete(&store, "versioned", &version).await;
        assert_eq!(work(&store).await, 2, "there is space, so the blob of the version is kept");
    });
    store.catalog.close().unwrap();
    drop(store);
    let store = open(u64::MAX);
    block_on(async {
        assert_eq!(put(&store, "new", b"new").await.unwrap_err().code, ErrorCode::InsufficientStorage);
        assert_eq!(work(&store).await, 1);
        delete(&store, "blob", "null").await;
        assert_eq!(work(&store).await, 0);
        let bucket = store.bucket(BUCKET).await.unwrap();
        store.abort_upload(&bucket, UploadName { key: "upload", id: &upload }).await.unwrap();
    });
    store.catalog.close().unwrap();
}

/// Regression test: a write that the full disk refuses made the deletes of its group fail.
#[test]
fn a_refused_write_does_not_affect_the_deletes_of_its_group() {
    use plimsoll_catalog::disk::real::RealDisk;
    use plimsoll_catalog::embedded::head_only;
    use plimsoll_catalog::embedded::recovery::open;
    use plimsoll_catalog::{CatalogError, Work};
    let dir = TempDir::new("full-group");
    let put: fn() -> Work = || {
        Box::new(|t| {
            t.put(b"key".to_vec(), head_only("head"));
            Ok(true)
        })
    };
    let limits = CatalogLimits { reserve_bytes: 0, ..CatalogLimits::default() };
    let (engine, mut writer, _) = open(Arc::new(RealDisk::new(dir.path()).unwrap()), limits).unwrap();
    assert!(writer.commit(vec![put()], true)[0].is_ok());
    drop((engine, writer));
    let limits = CatalogLimits { reserve_bytes: u64::MAX, ..limits };
    let (engine, mut writer, _) = open(Arc::new(RealDisk::new(dir.path()).unwrap()), limits).unwrap();
    let delete: Work = Box::new(|t| {
        t.delete(b"key".to_vec());
        Ok(true)
    });
    let results = writer.commit(vec![put(), delete, put()], true);
    assert!(matches!(results[..], [Err(CatalogError::DiskFull), Ok(()), Err(CatalogError::DiskFull)]));
    assert_eq!(engine.get(b"key").unwrap(), None);
}
