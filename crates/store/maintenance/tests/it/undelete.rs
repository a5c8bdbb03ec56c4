//! Versions that were deleted or replaced come back.

use plimsoll_catalog::ambient::now_ms;
use plimsoll_maintenance::background::deletion::delete_due_at;
use plimsoll_maintenance::background::retention::let_go_until;
use plimsoll_objects::keys;
use plimsoll_objects::undelete::{bring_back, returning};
use plimsoll_store_testing::World;

const DAY_MS: u64 = 86_400_000;

async fn bring_all_back(world: &World, at_ms: u64) -> usize {
    let bucket = world.store.all_buckets().unwrap().remove(0).1;
    let found = returning(&world.store, &bucket, "", at_ms).unwrap();
    let count = found.len();
    for one in found {
        assert!(bring_back(&world.store, &bucket, one).await.unwrap());
    }
    count
}

/// Waits for the next millisecond.
fn next_ms() -> u64 {
    let now = now_ms();
    while now_ms() == now {}
    now
}

#[tokio::test]
async fn what_was_deleted_or_replaced_comes_back_as_it_was() {
    let world = World::retaining(1, 100, DAY_MS).await;
    let (small, large) = (vec![1; 50], vec![2; 5000]);
    world.put("deleted", &large).await;
    world.put("replaced", &large).await;
    world.put("inline", &small).await;
    world.put("stays", &small).await;
    let at_ms = next_ms();
    world.put("later", &small).await;
    world.put("replaced", &small).await;
    world.put("replaced", &[3; 7000]).await;
    for key in ["deleted", "inline"] {
        world.delete(key).await;
    }
    delete_due_at(&world.store, now_ms() + DAY_MS / 2).await.unwrap();
    assert_eq!(bring_all_back(&world, at_ms).await, 3);
    for (key, body) in [("deleted", &large), ("replaced", &large), ("inline", &small), ("later", &small)] {
        assert_eq!(world.get(key).await.unwrap().1, *body, "{key}");
    }
    // The object that was replaced by this is kept, too.
    assert_eq!(bring_all_back(&world, next_ms()).await, 0);
    assert_eq!(world.count(0).await, 3);
}

#[tokio::test]
async fn nothing_is_kept_after_its_time() {
    let world = World::retaining(1, 100, DAY_MS).await;
    for key in ["a", "b"] {
        world.put(key, &[1; 5000]).await;
    }
    let at_ms = next_ms();
    world.delete("a").await;
    let now = now_ms();
    let_go_until(&world.store, at_ms, 0).await.unwrap();
    delete_due_at(&world.store, now + DAY_MS).await.unwrap();
    assert_eq!(world.count(0).await, 2);
    let_go_until(&world.store, now, 0).await.unwrap();
    delete_due_at(&world.store, now + DAY_MS).await.unwrap();
    assert_eq!((world.count(0).await, world.rows(keys::RETAINED).len()), (1, 0));
    assert_eq!(bring_all_back(&world, at_ms).await, 0);
}
