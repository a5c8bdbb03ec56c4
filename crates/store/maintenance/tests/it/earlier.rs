//! Buckets return to an earlier state.

use plimsoll_catalog::ambient::now_ms;
use plimsoll_catalog::memory::MemoryCatalog;
use plimsoll_catalog::{Catalog, Transaction};
use plimsoll_maintenance::background::deletion::delete_due_at;
use plimsoll_maintenance::background::retention::let_go_until;
use plimsoll_objects::earlier::*;
use plimsoll_server::service::ObjectService;
use plimsoll_store_testing::{BUCKET, World};

const DAY_MS: u64 = 86_400_000;

/// Kind of a return to an earlier state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Usual,
    Exact,
    /// Counts what an exact one would do.
    Dry,
}

/// Returns a copy of a catalog as it is now.
async fn copy_of(world: &World) -> MemoryCatalog {
    let copy = MemoryCatalog::default();
    let mut rows = Vec::new();
    let mut scan = world.store.catalog.scan();
    while let Some((key, row)) = scan.next().unwrap() {
        let value = world.store.catalog.value(&key, &row).unwrap();
        rows.push((key, value));
    }
    let work = Box::new(move |t: &mut dyn Transaction| {
        rows.iter().for_each(|(key, value)| t.put(key.clone(), value.clone()));
        Ok(true)
    });
    copy.commit(work, 0).await.unwrap();
    copy
}

async fn go_back(world: &World, then: &MemoryCatalog, at_ms: u64, how: How) -> Returned {
    let (is_exact, is_dry) = (how == How::Exact || how == How::Dry, how == How::Dry);
    let earlier = Earlier { catalog: then, bucket: BUCKET, prefix: "", at_ms, is_exact, is_dry };
    let document = document(&earlier).unwrap().unwrap();
    return_to(&world.store, &earlier, &document).await.unwrap()
}

#[tokio::test]
async fn a_bucket_has_what_it_had_and_keeps_or_loses_what_is_newer() {
    let world = World::retaining(1, 100, DAY_MS).await;
    let (small, large) = (vec![1; 50], vec![2; 5000]);
    for (key, body) in [("deleted", &large), ("replaced", &large), ("inline", &small), ("same", &large)] {
        world.put(key, body).await;
    }
    let (then, at_ms) = (copy_of(&world).await, now_ms());
    world.put("replaced", &small).await;
    world.put("newer", &small).await;
    for key in ["deleted", "inline"] {
        world.delete(key).await;
    }
    let counted = go_back(&world, &then, at_ms, How::Dry).await;
    assert_eq!((counted.restored, counted.unchanged, counted.deleted, counted.newer), (3, 1, 1, 0));
    assert!(world.get("deleted").await.is_err(), "a dry run changes nothing");
    let done = go_back(&world, &then, at_ms, How::Usual).await;
    assert_eq!((done.restored, done.bytes, done.unchanged, done.newer), (3, 10_050, 1, 1));
    for (key, body) in [("deleted", &large), ("replaced", &large), ("inline", &small), ("newer", &small)] {
        assert_eq!(world.get(key).await.unwrap().1, *body, "{key}");
    }
    // Once more: everything is there, although its generation is another one.
    let again = go_back(&world, &then, at_ms, How::Exact).await;
    assert_eq!((again.restored, again.unchanged, again.deleted, again.lost), (0, 4, 1, 0));
    assert!(world.get("newer").await.is_err());
    delete_due_at(&world.store, now_ms() + DAY_MS / 2).await.unwrap();
    assert_eq!(world.get("deleted").await.unwrap().1, large);
}

#[tokio::test]
async fn what_is_not_kept_any_more_is_named_unless_the_catalog_has_it() {
    let world = World::retaining(1, 100, DAY_MS).await;
    world.put("large", &[2; 5000]).await;
    world.put("inline", &[1; 50]).await;
    let (then, at_ms) = (copy_of(&world).await, now_ms());
    for key in ["large", "inline"] {
        world.delete(key).await;
    }
    let_go_until(&world.store, now_ms(), 0).await.unwrap();
    delete_due_at(&world.store, now_ms() + DAY_MS).await.unwrap();
    let done = go_back(&world, &then, at_ms, How::Usual).await;
    assert_eq!((done.restored, done.lost, done.lost_keys), (1, 1, vec!["large".to_string()]));
    assert_eq!(world.get("inline").await.unwrap().1, [1; 50]);
}

#[tokio::test]
async fn a_deleted_bucket_is_created_again_with_its_objects() {
    let world = World::retaining(1, 100, DAY_MS).await;
    world.put("large", &[2; 5000]).await;
    world.put("inline", &[1; 50]).await;
    let (then, at_ms) = (copy_of(&world).await, now_ms());
    for key in ["large", "inline"] {
        world.delete(key).await;
    }
    world.store.delete_bucket(BUCKET).await.unwrap();
    let done = go_back(&world, &then, at_ms, How::Usual).await;
    assert_eq!((done.restored, done.lost, done.is_new_bucket), (2, 0, true));
    assert_eq!(world.get("large").await.unwrap().1, [2; 5000]);
    assert_eq!(world.get("inline").await.unwrap().1, [1; 50]);
    let again = go_back(&world, &then, at_ms, How::Exact).await;
    assert_eq!((again.restored, again.unchanged, again.deleted), (0, 2, 0));
    // What was brought back has other generations, and comes back once more.
    world.delete("large").await;
    let once_more = go_back(&world, &then, at_ms, How::Exact).await;
    assert_eq!((once_more.restored, once_more.unchanged, once_more.lost), (1, 1, 0));
    assert_eq!(world.get("large").await.unwrap().1, [2; 5000]);
}
