//! Objects and buckets whose rows are damaged, in a catalog in a directory.

use std::path::Path;
use std::sync::Arc;

use plimsoll_server::conditions::{DeleteConditions, WriteConditions};
use plimsoll_server::config::acl::CannedAcl;
use plimsoll_server::config::tags::Tags;
use plimsoll_server::error::ErrorCode;
use plimsoll_server::service::{BucketChange, NewBucket, NewObject, ObjectChange, ObjectService};

use plimsoll_bodies::pack_file::Slice;
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::blocking::block_on;
use plimsoll_catalog::simulated::Replaced;
use plimsoll_catalog::{Catalog, Value};
use plimsoll_maintenance::scrub::pace::Pace;
use plimsoll_maintenance::scrub::scrub;
use plimsoll_objects::live::{self, Live};
use plimsoll_objects::row::{Body, Head};
use plimsoll_objects::{Store, keys};
use plimsoll_store_testing::{
    BUCKET, World, delete, get, get_from, new_object, open_directory, put, put_in, put_new,
};
use plimsoll_testing::directory::TempDir;

fn open(root: &Path) -> Store<AnyCatalog> {
    open_directory(root, Default::default(), &Arc::default(), 1 << 20)
}

async fn create(store: &Store<AnyCatalog>, bucket: &str) {
    let new = NewBucket { region: "r", owner: "o", acl: CannedAcl::Private };
    store.create_bucket(bucket, new).await.unwrap();
}

/// Changes the first byte of the last place of a text in the log.
fn damage(root: &Path, text: &str) {
    let entries = std::fs::read_dir(root.join("log")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths.into_iter().rev() {
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
        let result = scrub(&store, false, &mut Pace::new(None), &|| true).await;
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

/// Loses the last record that contains a text, as a crash of the process and a flipped bit would.
fn lose(store: Store<AnyCatalog>, root: &Path, text: &str) -> Store<AnyCatalog> {
    drop(store);
    damage(root, text);
    open(root)
}

/// Regression test: a conditional write, a change of tags and a delete of a version took the row before a lost record
/// for the current one.
#[test]
fn only_a_write_without_conditions_replaces_an_object_whose_record_is_lost() {
    let dir = TempDir::new("lost-record");
    let store = open(dir.path());
    let first = block_on(async {
        create(&store, BUCKET).await;
        store.configure_bucket(BUCKET, BucketChange::Versioning(true)).await.unwrap();
        put_in(&store, BUCKET, "victim", b"first").await.unwrap().unwrap()
    });
    store.catalog.close().unwrap();
    drop(store);
    let store = open(dir.path());
    block_on(put(&store, "victim", b"second")).unwrap();
    // The object and the version that it has replaced: the second is the last record.
    let store = lose(store, dir.path(), "victim");
    block_on(async {
        let bucket = store.bucket(BUCKET).await.unwrap();
        assert_eq!(get(&store, "victim").await.unwrap_err().code, ErrorCode::InternalError);
        let if_none_match = Some("*".to_string());
        let conditions = WriteConditions { if_none_match, ..WriteConditions::default() };
        let new = || NewObject { conditions: conditions.clone(), ..new_object() };
        let refused = put_new(&store, BUCKET, "victim", new(), b"third").await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::InternalError);
        put_new(&store, BUCKET, "another", new(), b"third").await.unwrap();
        let tags = ObjectChange::Tags(Tags(vec![("a".into(), "b".into())]));
        let changed = store.change_object(&bucket, "victim", None, tags).await.unwrap_err();
        assert_eq!(changed.code, ErrorCode::InternalError);
        put(&store, "victim", b"fourth").await.unwrap();
        assert_eq!(get(&store, "victim").await.unwrap().1, b"fourth");
        // The write has not made the older row look certain.
        let old = get_from(&store, BUCKET, "victim", Some(&first)).await;
        assert!(old.as_ref().is_ok_and(|(_, body)| body == b"first") || old.is_err(), "{old:?}");
    });
}

/// Regression test: the next write of an object whose record was lost released its slice of a pack file a second time,
/// and the pack file was deleted although another object used it.
#[test]
fn a_write_over_a_lost_record_does_not_count_a_slice_again() {
    let dir = TempDir::new("lost-slice");
    let store = open(dir.path());
    let pack_file = [7; 16];
    let slice = Slice { pack_file, offset: 0, size: 5, crc: 0 };
    block_on(async {
        create(&store, BUCKET).await;
        put(&store, "victim", b"first").await.unwrap();
        let number = store.bucket(BUCKET).await.unwrap().0.number;
        store
            .transact(0, move |t| {
                let key = keys::current(number, "victim");
                let row = t.get(&key)?.unwrap();
                let head = Head { body: Body::Slice(slice), ..Head::decode(&row.head).unwrap() };
                let value = Value { head: head.encode(), ..t.value(&row)? };
                t.put(key, value);
                let counts =
                    Live { size: 10, records: 2, live: 2, live_bytes: 10, bytes: 10, ..Live::default() };
                live::store(t, &pack_file, counts, 0)?;
                Ok(Ok(()))
            })
            .await
            .unwrap();
    });
    store.catalog.close().unwrap();
    drop(store);
    let store = open(dir.path());
    let count = |store: &Store<AnyCatalog>| {
        let row = store.catalog.get(&keys::pack_file(&pack_file)).unwrap();
        row.map(|row| Live::decode(&row.head).unwrap().live)
    };
    block_on(put(&store, "victim", b"second")).unwrap();
    assert_eq!(count(&store), Some(1));
    let store = lose(store, dir.path(), "victim");
    block_on(async {
        assert_eq!(get(&store, "victim").await.unwrap_err().code, ErrorCode::InternalError);
        put(&store, "victim", b"third").await.unwrap();
        assert_eq!(get(&store, "victim").await.unwrap().1, b"third");
    });
    assert_eq!(count(&store), Some(1), "the other object of the pack file");
}

/// Regression test: a lost counter gave the number of an existing bucket to a new one, which then had its objects.
#[test]
fn a_new_bucket_never_has_the_number_of_another() {
    let dir = TempDir::new("lost-counter");
    let store = open(dir.path());
    block_on(create(&store, "first"));
    store.catalog.close().unwrap();
    drop(store);
    let store = open(dir.path());
    block_on(async {
        create(&store, "second").await;
        put_in(&store, "second", "key", b"body").await.unwrap();
    });
    drop(store);
    // The counter is a key of one byte, and its record has the next number behind it.
    damage(dir.path(), "n\0\0\0\x03");
    let store = open(dir.path());
    block_on(async {
        assert!(store.catalog.get(keys::NEXT_BUCKET).is_err());
        create(&store, "third").await;
        let error = get_from(&store, "third", "key", None).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::NoSuchKey);
        assert_eq!(store.bucket("third").await.unwrap().0.number, 3);
        assert_eq!(get_from(&store, "second", "key", None).await.unwrap().1, b"body");
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
