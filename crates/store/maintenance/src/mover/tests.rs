use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};
use plimsoll_server::reserve::Memory;

use super::planned_move::{Move, MoveError, Outcome};
use super::switch::switch;
use super::{execute, give_up_unfinished};
use crate::background::deletion::delete_due_at;
use plimsoll_bodies::blob::Blobs;
use plimsoll_bodies::cache::{Cache, CacheSettings};
use plimsoll_bodies::error::BlobError;
use plimsoll_bodies::location::BlobHead;
use plimsoll_bodies::location::Garbage;
use plimsoll_bodies::location::Location;
use plimsoll_bodies::location::Reason;
use plimsoll_bodies::name::BlobName;
use plimsoll_bodies::name::new_name;
use plimsoll_bodies::tier::{Backend, Tier, Tiers};
use plimsoll_catalog::ambient::now_ms;
use plimsoll_catalog::embedded::head_only;
use plimsoll_catalog::memory::MemoryCatalog;
use plimsoll_catalog::{Catalog, Value};
use plimsoll_objects::Store;
use plimsoll_objects::keys;
use plimsoll_store_testing::bodies;
use std::ops::Bound;

const SIZE: usize = 300_000;

struct World {
    store: Store<MemoryCatalog>,
    tiers: [Arc<InMemory>; 2],
    source: Location,
    blob: BlobName,
}

impl World {
    /// A store with one blob in the first of two tiers.
    async fn new() -> World {
        let tiers = [Arc::new(InMemory::new()), Arc::new(InMemory::new())];
        let tier = |number: usize| {
            Tier::new(&number.to_string(), Backend::new(Arc::clone(&tiers[number]) as Arc<dyn ObjectStore>))
        };
        let cache = Cache::open(&CacheSettings::default()).unwrap();
        let blobs = Blobs::new(Tiers::new(BTreeMap::from([(0, tier(0)), (1, tier(1))])), cache);
        let catalog = Arc::new(MemoryCatalog::default());
        let store = Store::open(catalog, bodies(blobs, 0), Memory::new(u64::MAX)).unwrap();
        let blob = new_name();
        let source = Location::new(0, blob);
        let mut writer = store.blobs.create(std::slice::from_ref(&source)).unwrap();
        writer.write(Bytes::from(vec![7; SIZE])).await.unwrap();
        let (_, crcs) = writer.finish(None).await.unwrap();
        let head = BlobHead::complete(vec![source.clone()]);
        let properties = crcs.iter().flat_map(|crc| crc.to_le_bytes()).collect::<Vec<u8>>().into();
        let value = Value { head: head.encode(), properties, body: Bytes::new() };
        let put = store.transact(0, move |t| {
            t.put(keys::blob(&blob), value.clone());
            Ok(Ok(()))
        });
        put.await.unwrap();
        World { store, tiers, source, blob }
    }

    fn plan(&self) -> Move {
        Move { blob: self.blob, size: SIZE as u64, version: 0, to: 1, keep_source_ms: 1000, object: None }
    }

    fn head(&self) -> BlobHead {
        let row = self.store.catalog.get(&keys::blob(&self.blob)).unwrap().unwrap();
        BlobHead::decode(&row.head).unwrap()
    }

    /// Returns the places on the list of bytes to delete, with their reasons, and the number of intents.
    fn lists(&self) -> (Vec<(Location, Reason)>, usize) {
        let mut scan = self.store.catalog.scan();
        scan.seek(Bound::Unbounded).unwrap();
        let (mut garbage, mut intents) = (Vec::new(), 0);
        while let Some((key, row)) = scan.next().unwrap() {
            if key.starts_with(keys::GARBAGE) {
                let reason = Garbage::decode(&row.head).unwrap().reason;
                garbage.push((keys::parse_garbage(&key).unwrap().1, reason));
            }
            intents += usize::from(key.starts_with(keys::INTENTS));
        }
        (garbage, intents)
    }
}

#[tokio::test]
async fn a_move_makes_the_copy_the_first_place_and_keeps_the_source() {
    let world = World::new().await;
    assert_eq!(execute(&world.store, &world.plan()).await.unwrap(), Outcome::Moved);
    let head = world.head();
    assert_eq!((head.version, head.locations[0].tier, &head.locations[1]), (1, 1, &world.source));
    assert_ne!(head.locations[0].name, world.source.name, "names are never used twice");
    assert_eq!(world.lists(), (vec![(world.source.clone(), Reason::Moved)], 0));
    // The same plan again: the row has changed, so nothing happens.
    assert_eq!(execute(&world.store, &world.plan()).await.unwrap(), Outcome::Changed);
    assert_eq!((world.head(), world.lists().0.len()), (head, 1));
}

#[tokio::test]
async fn a_blob_that_changes_during_its_move_stays_as_it_is() {
    let world = World::new().await;
    let target = Location::new(1, new_name());
    let intended = target.clone();
    let intend = world.store.transact(0, move |t| {
        t.put(keys::intent(&intended), head_only(vec![0; 16]));
        Ok(Ok(()))
    });
    intend.await.unwrap();
    let old = Move { version: 5, ..world.plan() };
    assert_eq!(switch(&world.store, &old, 0, target.clone(), true, &[]).await.unwrap(), Outcome::Changed);
    assert_eq!(world.head().locations, std::slice::from_ref(&world.source));
    assert_eq!(world.lists(), (vec![(target, Reason::Unfinished)], 0));
    // Without its intent, a move must not switch: somebody has given it up and deletes the destination.
    let other = Location::new(1, new_name());
    assert_eq!(switch(&world.store, &world.plan(), 0, other, true, &[]).await.unwrap(), Outcome::Changed);
    assert_eq!(world.head().locations, std::slice::from_ref(&world.source));
}

#[tokio::test]
async fn a_damaged_source_is_not_moved() {
    let world = World::new().await;
    let mut bytes = vec![7; SIZE];
    bytes[200_000] = 8;
    world.tiers[0].put(&world.source.path(), bytes.into()).await.unwrap();
    let error = execute(&world.store, &world.plan()).await.unwrap_err();
    assert!(matches!(error, MoveError::Blob(BlobError::Damaged { .. })), "{error}");
    assert_eq!(world.head().locations, std::slice::from_ref(&world.source));
    let (garbage, intents) = world.lists();
    assert_eq!((garbage.len(), garbage[0].1, intents), (1, Reason::Unfinished, 0));
}

#[tokio::test]
async fn a_damaged_copy_is_found_before_the_switch() {
    let world = World::new().await;
    let place = Location::new(1, new_name());
    let head = BlobHead { version: 0, ..world.head() };
    let both = BlobHead { locations: vec![world.source.clone(), place.clone()], ..head };
    let value = world.store.catalog.value(
        &keys::blob(&world.blob),
        &world.store.catalog.get(&keys::blob(&world.blob)).unwrap().unwrap(),
    );
    let value = Value { head: both.encode(), ..value.unwrap() };
    let blob = world.blob;
    let put = world.store.transact(0, move |t| {
        t.put(keys::blob(&blob), value.clone());
        Ok(Ok(()))
    });
    put.await.unwrap();
    // The write to the second tier has lost its last byte.
    world.tiers[1].put(&place.path(), vec![7; SIZE - 1].into()).await.unwrap();
    assert!(execute(&world.store, &world.plan()).await.is_err());
    assert_eq!(world.head().locations, [world.source.clone(), place.clone()]);
    world.tiers[1].put(&place.path(), vec![7; SIZE].into()).await.unwrap();
    assert_eq!(execute(&world.store, &world.plan()).await.unwrap(), Outcome::Moved);
    assert_eq!(world.head().locations, [place.clone(), world.source.clone()]);
}

#[tokio::test]
async fn a_start_gives_up_unfinished_moves() {
    let world = World::new().await;
    let place = Location::new(1, new_name());
    let blob = world.blob;
    let intended = place.clone();
    let intend = world.store.transact(0, move |t| {
        t.put(keys::intent(&intended), head_only(blob.to_vec()));
        Ok(Ok(()))
    });
    intend.await.unwrap();
    for _ in 0..2 {
        give_up_unfinished(&world.store).await.unwrap();
        assert_eq!(world.lists(), (vec![(place.clone(), Reason::Unfinished)], 0));
    }
}

/// Regression test: a restored catalog has deleted the last copies of objects.
#[tokio::test]
async fn a_source_stays_while_its_copy_does_not_exist() {
    let world = World::new().await;
    assert_eq!(execute(&world.store, &world.plan()).await.unwrap(), Outcome::Moved);
    let copy = world.head().locations[0].path();
    let bytes = world.tiers[1].get(&copy).await.unwrap().bytes().await.unwrap();
    world.tiers[1].delete(&copy).await.unwrap();
    let (later, postponed) = (now_ms() + 10_000, now_ms() + 4_000_000);
    delete_due_at(&world.store, later).await.unwrap();
    assert_eq!((world.head().locations.len(), world.lists().0.len()), (2, 1));
    assert!(world.tiers[0].head(&world.source.path()).await.is_ok());
    delete_due_at(&world.store, later).await.unwrap();
    world.tiers[1].put(&copy, bytes.into()).await.unwrap();
    delete_due_at(&world.store, postponed).await.unwrap();
    assert_eq!((world.head().locations.len(), world.lists().0.len()), (1, 0));
    assert!(world.tiers[0].head(&world.source.path()).await.is_err());
}
