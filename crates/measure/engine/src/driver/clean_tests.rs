use super::*;
use crate::store::memory::MemoryStore;
use crate::store::ownership::RunId;
use crate::store::{Body, Collect, Ignore};

fn owned(shard: Shard) -> CleanupScope {
    let rule = |name, prepared| {
        let dataset = Box::new(Dataset::new(name, 42, 10_000, Size::Fixed(1)));
        Rule::Dataset { dataset, prepared }
    };
    CleanupScope::new(vec![rule("objects", true), rule("d", false)], shard)
}

fn space(prefix: &str) -> KeySpace {
    KeySpace::of_run(prefix, &RunId::parse("20261121T000000-0001").unwrap())
}

#[test]
fn a_run_owns_only_the_objects_that_it_writes() {
    let space = space("mine/");
    let root = space.root();
    let all = owned(Shard::default());
    let at = |name: &str| format!("{root}{name}");
    assert!(all.owns(root, &at("objects/00000012")));
    assert!(all.owns(root, &at("objects/123456789")));
    for foreign in [
        at("notes.txt"),
        "mine/plimsoll/20261121T000000-00010/objects/00000001".into(),
        "mine/data".into(),
        at("a/b/00000001"),
        at("others/00000001"),
        at("/00000001"),
    ] {
        assert!(!all.owns(root, &foreign), "{foreign}");
    }
    let third = owned(Shard { index: 2, of: 8 });
    assert!(third.owns(root, &at("objects/00000010")));
    assert!(!third.owns(root, &at("objects/00000011")), "another shard may read it");
    assert!(third.owns(root, &at("d/00000011")), "no shard reads it, so any shard may delete it");
}

/// Regression test: a record that claimed everything deleted foreign objects below the root of the run.
#[test]
fn a_check_owns_only_the_objects_in_its_folders() {
    let space = space("mine/");
    let checks = CleanupScope::checks();
    for (name, is_owned) in
        [("probe/object", true), ("consistency/000-000001", true), ("notes.txt", false), ("probe", false)]
    {
        assert_eq!(checks.owns(space.root(), &format!("{}{name}", space.root())), is_owned, "{name}");
    }
    assert!(!checks.owns(space.root(), "mine/probe/object"));
}

#[test]
fn clean_keeps_foreign_objects() {
    let store = MemoryStore::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let space = space("");
    runtime.block_on(async {
        let mut connection = store.connection(0);
        let foreign = [
            "precious".to_string(),
            format!("{}README", space.root()),
            "plimsoll/run-2/d/00000001".into(),
            "zebra".into(),
        ];
        let ours: Vec<String> = (0..2500).map(|i| format!("{}d/{i:08}", space.root())).collect();
        for key in foreign.iter().chain(&ours) {
            connection
                .execute(Request::Put { key, body: Body::Whole("x".into()) }, &mut Ignore)
                .await
                .unwrap();
        }
        let mut background = Background::new(&store);
        let owned = owned(Shard::default());
        let cleaned = clean(&store, &mut background, &space, &owned, |_| {}).await.unwrap();
        assert_eq!(cleaned, CleanupCounts { deleted: 2500, foreign: 1, ..CleanupCounts::default() });
        for key in &foreign {
            connection.execute(Request::Get { key, range: None }, &mut Collect::default()).await.unwrap();
        }
        let again = clean(&store, &mut background, &space, &owned, |_| {}).await.unwrap();
        assert_eq!(again.deleted, 0);
    });
}

/// Regression test: `clean` did not delete the records of a killed `ycsb load`. A later version took the
/// records of later loads for the inserts of a run.
#[test]
fn clean_deletes_only_the_records_of_the_run() {
    let store = MemoryStore::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let space = KeySpace::recorded("plimsoll/records-t/").unwrap();
    let key = |n: u64| format!("{}user{}", space.root(), RecordOrder::Hashed.number(n));
    let records = |range: Option<std::ops::Range<u64>>| {
        let rule = Rule::Records {
            prefix: "user".into(),
            digits: 1,
            order: RecordOrder::Hashed,
            range,
            existing: HashSet::new(),
            multipart: false,
        };
        CleanupScope::new(vec![rule], Shard::default())
    };
    let odd = ["user", "userx1", "thesis.txt", "user+12"].map(|name| format!("{}{name}", space.root()));
    runtime.block_on(async {
        let mut connection = store.connection(0);
        for key in (0..300).map(key).chain(odd) {
            connection
                .execute(Request::Put { key: &key, body: Body::Whole("x".into()) }, &mut Ignore)
                .await
                .unwrap();
        }
        let mut background = Background::new(&store);
        // The run created the second hundred records. The range may include records that do not exist.
        let cleaned = clean(&store, &mut background, &space, &records(Some(100..200)), |_| {}).await.unwrap();
        assert_eq!((cleaned.deleted, cleaned.foreign), (100, 204));
        let cleaned =
            clean(&store, &mut background, &space, &records(Some(250..1_000_000)), |_| {}).await.unwrap();
        assert_eq!((cleaned.deleted, cleaned.foreign), (50, 154));
        for (n, there) in
            [(0, true), (99, true), (100, false), (199, false), (200, true), (249, true), (250, false)]
        {
            let read = connection.execute(Request::Head { key: &key(n) }, &mut Ignore).await;
            assert_eq!(read.is_ok(), there, "{n}");
        }
        let cleaned = clean(&store, &mut background, &space, &records(None), |_| {}).await.unwrap();
        assert_eq!(
            (cleaned.deleted, cleaned.foreign),
            (150, 4),
            "all records and no other objects are deleted"
        );
    });
}
