//! Objects and buckets whose rows are damaged, in a catalog in a directory.

use std::path::Path;
use std::sync::Arc;

use plimsoll_server::conditions::DeleteConditions;
use plimsoll_server::config::acl::CannedAcl;
use plimsoll_server::config::tags::Tags;
use plimsoll_server::error::ErrorCode;
use plimsoll_server::service::{BucketChange, NewBucket, ObjectService};

use super::Store;
use crate::blocking::block_on;
use crate::catalog::any::AnyCatalog;
use crate::scrub::scrub;
use crate::simulation::time::Replaced;
use crate::testing::{BUCKET, TempDir, World, delete, get, get_from, open_directory, put, put_in};

fn open(root: &Path) -> Store<AnyCatalog> {
    open_directory(root, Default::default(), &Arc::default(), 1 << 20)
}

async fn create(store: &Store<AnyCatalog>, bucket: &str) {
    let new = NewBucket { region: "r", owner: "o", acl: CannedAcl::Private };
    store.create_bucket(bucket, new).await.unwrap();
}

/// Changes the first byte of the last place of a text in the log.
fn damage(root: &Path, text: &str) {
    for entry in std::fs::read_dir(root.join("log")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let found = bytes.windows(text.len()).rposition(|window| window == text.as_bytes());
        if let Some(at) = found {
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            return;
        }
    }
    panic!("the log does not contain {text}");
}

/// Regression test: one flipped bit in the document of a bucket stopped the whole store, and no command named it.
#[test]
fn a_damaged_bucket_fails_alone_and_is_named() {
    let dir = TempDir::new("damaged-bucket");
    let store = open(dir.path());
    block_on(async {
        create(&store, "first").await;
        create(&store, "second").await;
        store
            .configure_bucket(
                "first",
                BucketChange::Tags(Some(Tags(vec![("tag".into(), "of-first".into())]))),
            )
            .await
            .unwrap();
        put_in(&store, "first", "key", b"first").await.unwrap();
        put_in(&store, "second", "key", b"second").await.unwrap();
    });
    store.catalog.close().unwrap();
    drop(store);
    damage(dir.path(), "of-first");
    let store = open(dir.path());
    block_on(async {
        let error = get_from(&store, "first", "key", None).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::InternalError);
        assert_eq!(get_from(&store, "second", "key", None).await.unwrap().1, b"second");
        put_in(&store, "second", "other", b"new").await.unwrap();
        let result = scrub(&store.catalog, &store.blobs).await;
        let named = |damage: &String| damage.contains("bucket first");
        assert!(result.damage.iter().any(named), "{:?}", result.damage);
        assert_eq!((result.objects, result.objects_damaged.len()), (3, 0));
    });
}

/// Regression test: a damaged current version in a versioned bucket could be neither replaced nor deleted.
#[test]
fn a_damaged_current_version_can_be_replaced_and_deleted() {
    let dir = TempDir::new("damaged-version");
    let store = open(dir.path());
    block_on(async {
        create(&store, BUCKET).await;
        store.configure_bucket(BUCKET, BucketChange::Versioning(true)).await.unwrap();
    });
    let versions = block_on(async {
        let replaced = put_in(&store, BUCKET, "replaced", b"a body to damage").await.unwrap().unwrap();
        let deleted = put_in(&store, BUCKET, "deleted", b"another to damage").await.unwrap().unwrap();
        [replaced, deleted]
    });
    store.catalog.close().unwrap();
    drop(store);
    damage(dir.path(), "a body to damage");
    damage(dir.path(), "another to damage");
    let store = open(dir.path());
    block_on(async {
        assert_eq!(get(&store, "replaced").await.unwrap_err().code, ErrorCode::InternalError);
        put(&store, "replaced", b"new").await.unwrap();
        assert_eq!(get(&store, "replaced").await.unwrap().1, b"new");
        delete(&store, "deleted").await.unwrap();
        assert_eq!(get(&store, "deleted").await.unwrap_err().code, ErrorCode::NoSuchKey);
        for (key, version) in ["replaced", "deleted"].into_iter().zip(&versions) {
            // The damage does not disappear with the version that hides it, but with the version itself.
            let error = get_from(&store, BUCKET, key, Some(version)).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::InternalError, "{key}");
            let bucket = store.bucket(BUCKET).await.unwrap();
            store.delete(&bucket, key, Some(version), DeleteConditions::default()).await.unwrap();
            let error = get_from(&store, BUCKET, key, Some(version)).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::NoSuchVersion, "{key}");
        }
    });
}

/// Regression test: after the clock was set back, a new version could have the id of a deleted one.
#[test]
fn a_version_id_is_not_used_again_after_the_clock_was_set_back() {
    block_on(async {
        let world = World::new(1, 1 << 20).await;
        world.store.configure_bucket(BUCKET, BucketChange::Versioning(true)).await.unwrap();
        let mut ids = std::collections::BTreeSet::new();
        for round in 0..5 {
            // Each round has the same times.
            let _time = Replaced::start(1, 1_000_000, None);
            let id = put_in(&world.store, BUCKET, "key", b"body").await.unwrap().unwrap();
            let bucket = world.store.bucket(BUCKET).await.unwrap();
            world.store.delete(&bucket, "key", Some(&id), DeleteConditions::default()).await.unwrap();
            assert!(ids.insert(id), "round {round}");
        }
    });
}
