//! Changes of buckets by several clients at the same time.

use std::sync::Arc;

use object_store::memory::InMemory;
use plimsoll_catalog::Catalog;
use plimsoll_catalog::blocking::block_on;
use plimsoll_catalog::embedded::catalog::CatalogSettings;
use plimsoll_objects::{Document, keys};
use plimsoll_server::config::acl::CannedAcl;
use plimsoll_server::service::{BucketChange, ObjectService, Versioning};
use plimsoll_store_testing::{BUCKET, open_directory};
use plimsoll_testing::directory::TempDir;

/// Regression test: of two changes, memory had the document of the one that ended last, and not of the one that was
/// committed last. The versioning of a bucket was off until the next start, although a client had enabled it.
#[test]
fn memory_has_the_bucket_as_the_catalog_has_it() {
    let dir = TempDir::new("bucket-changes");
    let store = open_directory(dir.path(), CatalogSettings::default(), &Arc::new(InMemory::new()), 100);
    block_on(store.ensure_bucket(BUCKET, None)).unwrap();
    for round in 0..200 {
        let changes = [
            BucketChange::Versioning(round % 2 == 0),
            BucketChange::Tags(None),
            BucketChange::Cors(None),
            BucketChange::Acl(CannedAcl::Private),
        ];
        std::thread::scope(|scope| {
            for change in changes {
                scope.spawn(|| block_on(store.configure_bucket(BUCKET, change)).unwrap());
            }
        });
        let key = keys::bucket(BUCKET);
        let row = store.catalog.get(&key).unwrap().unwrap();
        let stored = store.catalog.value(&key, &row).unwrap().properties;
        let stored: Document = serde_json::from_slice(&stored).unwrap();
        let known = block_on(store.bucket(BUCKET)).unwrap();
        assert_eq!(known.0.info.versioning, stored.versioning, "round {round}");
        let expected = if round % 2 == 0 { Versioning::Enabled } else { Versioning::Suspended };
        assert_eq!(stored.versioning, expected);
    }
}
