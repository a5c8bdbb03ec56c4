//! Stores that lose their catalog, or get an older one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::attach::{Attached, attach};
use super::inventory::Inventory;
use crate::catalog::memory::MemoryCatalog;
use crate::testing::World;

const DAY_MS: u64 = 86_400_000;

async fn reattach(world: &World) -> Attached {
    let inventory = Inventory::take(&world.store.blobs, None, &|_, _| {}).await.unwrap();
    attach(&world.store, inventory, &BTreeMap::new()).await.unwrap()
}

/// Returns the world with an empty catalog.
fn without_catalog(world: &World) -> World {
    World::with_catalog(world, Arc::new(MemoryCatalog::default()))
}

#[tokio::test]
async fn a_lost_catalog_is_built_again_from_the_tiers() {
    let world = World::retaining(2, 100, DAY_MS).await;
    for (key, fill) in [("a", 1), ("b/c", 2), ("replaced", 3)] {
        world.put(key, &vec![fill; 5000]).await;
    }
    world.put("replaced", &[4; 6000]).await;
    world.put("inline", &[5; 10]).await;
    let lost = without_catalog(&world);
    let attached = reattach(&lost).await;
    assert_eq!((attached.buckets, attached.objects, attached.incomplete.len()), (1, 4, 0), "{attached:?}");
    for (key, body) in [("a", vec![1; 5000]), ("b/c", vec![2; 5000]), ("replaced", vec![4; 6000])] {
        let (before, after) = (world.get(key).await.unwrap(), lost.get(key).await.unwrap());
        assert_eq!((after.1 == body, &after), (true, &before), "{key}");
    }
    assert!(lost.get("inline").await.is_err());
    // A second call finds nothing new.
    let again = reattach(&lost).await;
    assert_eq!((again.objects, again.buckets, again.moved), (0, 0, 0));
}
