use super::*;
use crate::store::memory::MemoryStore;
use crate::store::ownership::RunId;
use crate::store::{Body, Collect, Ignore};

fn owned(shard: Shard) -> Owned {
    let rule = |name, prepared| {
        let dataset = Box::new(Dataset::new(name, 42, 10_000, Size::Fixed(1)));
        Rule::Dataset { dataset, prepared }
    };
    Owned::new(vec![rule("objects", true), rule("d", false)], shard)
}

fn space(prefix: &str) -> KeySpace {
    KeySpace::of_run(prefix, &RunId::parse("20261121T000000-0001").unwrap())
}

#[test]
fn only_what_a_run_writes_is_ours() {
    let space = space("mine/");
    let root = space.root();
    let all = owned(Shard::default());
    let at = |name: &str| format!("{root}{name}");
    assert!(all.holds(root, &at("objects/00000012")));
    assert!(all.holds(root, &at("objects/123456789")));
    for foreign in [
        at("notes.txt"),
        "mine/plimsoll/20261121T000000-00010/objects/00000001".into(),
        "mine/data".into(),
        at("a/b/00000001"),
        at("others/00000001"),
        at("/00000001"),
    ] {
        assert!(!all.holds(root, &foreign), "{foreign}");
    }
    let third = owned(Shard { index: 2, of: 8 });
    assert!(third.holds(root, &at("objects/00000010")));
    assert!(!third.holds(root, &at("objects/00000011")), "another shard reads it");
    assert!(third.holds(root, &at("d/00000011")), "whoever wrote it, nobody reads it");
}

#[test]
fn foreign_objects_survive() {
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
        assert_eq!(cleaned, Cleaned { deleted: 2500, foreign: 1, ..Cleaned::default() });
        for key in &foreign {
            connection.execute(Request::Get { key, range: None }, &mut Collect::default()).await.unwrap();
        }
        let again = clean(&store, &mut background, &space, &owned, |_| {}).await.unwrap();
        assert_eq!(again.deleted, 0);
    });
}

/// `clean` could not clean a killed `ycsb load`; then the inserts of a run named the records of later loads.
#[test]
fn records_are_told_apart_from_those_of_others() {
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
            there: HashSet::new(),
            in_parts: false,
        };
        Owned::new(vec![rule], Shard::default())
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
        // The second hundred is ours; the range may name records that are not there.
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
        assert_eq!((cleaned.deleted, cleaned.foreign), (150, 4), "all records, and nothing else");
    });
}
