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
        let mut lane = store.lane(0);
        let foreign = [
            "precious".to_string(),
            format!("{}README", space.root()),
            "plimsoll/run-2/d/00000001".into(),
            "zebra".into(),
        ];
        let ours: Vec<String> = (0..2500).map(|i| format!("{}d/{i:08}", space.root())).collect();
        for key in foreign.iter().chain(&ours) {
            lane.execute(Request::Put { key, body: Body::Whole("x".into()) }, &mut Ignore).await.unwrap();
        }
        let mut background = Background::new(&store);
        let owned = owned(Shard::default());
        let cleaned = clean(&store, &mut background, &space, &owned, |_| {}).await.unwrap();
        assert_eq!(cleaned, Cleaned { deleted: 2500, foreign: 1, ..Cleaned::default() });
        for key in &foreign {
            lane.execute(Request::Get { key, range: None }, &mut Collect::default()).await.unwrap();
        }
        let again = clean(&store, &mut background, &space, &owned, |_| {}).await.unwrap();
        assert_eq!(again.deleted, 0);
    });
}

/// `clean` could not clean a killed `ycsb load`, whose records lay outside the run's prefix.
#[test]
fn records_are_told_apart_from_those_of_others() {
    let numbers = |range: std::ops::Range<u64>| range.map(|n| RecordOrder::Hashed.number(n)).collect();
    let rule = |numbers, inside| Rule::Records {
        prefix: "user".into(),
        digits: 1,
        numbers,
        inside,
        in_parts: false,
    };
    let key = |n: u64| format!("t/user{}", RecordOrder::Hashed.number(n));
    let loaded = Owned::new(vec![rule(numbers(100..200), true)], Shard::default());
    assert!(loaded.holds("t/", &key(100)) && loaded.holds("t/", &key(199)));
    assert!(!loaded.holds("t/", &key(99)) && !loaded.holds("t/", &key(200)), "another host loaded them");
    let inserted = Owned::new(vec![rule(numbers(0..1000), false)], Shard::default());
    assert!(inserted.holds("t/", &key(1000)) && !inserted.holds("t/", &key(999)));
    for foreign in ["t/user", "t/userx1", "t/thesis.txt", "user123", "t/user+12"] {
        assert!(!loaded.holds("t/", foreign) && !inserted.holds("t/", foreign), "{foreign}");
    }
}
