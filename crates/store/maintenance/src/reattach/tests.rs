//! Stores that lose their catalog, or get an older one.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt;
use object_store::{ObjectStore, ObjectStoreExt};
use plimsoll_base::rng::Stream;
use plimsoll_server::conditions::DeleteConditions;
use plimsoll_server::config::acl::CannedAcl;
use plimsoll_server::service::{BucketChange, NewBucket, ObjectService};

use super::attach::attach;
use super::attached::Attached;
use super::inventory::Inventory;
use crate::background::deletion::delete_due_at;
use crate::mover::condition::Condition;
use crate::mover::pack::pack;
use crate::mover::pass::Pass;
use crate::mover::rules::{Packing, Rule, Rules};
use crate::mover::{Outcome, execute, reversible, roll_back};
use plimsoll_catalog::ambient::now_ms;
use plimsoll_catalog::memory::MemoryCatalog;
use plimsoll_objects::owner::buckets::BucketDocuments;
use plimsoll_store_testing::{BUCKET, World, get_from, put_in};

const DAY_MS: u64 = 86_400_000;

async fn reattach(world: &World) -> Attached {
    reattach_with(world, &BucketDocuments::default()).await
}

async fn reattach_with(world: &World, documents: &BucketDocuments) -> Attached {
    let inventory = Inventory::take(&world.store.blobs, None, &|_, _| {}).await.unwrap();
    attach(&world.store, inventory, &documents.buckets).await.unwrap()
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

/// Name of the bucket with versions.
const VERSIONED: &str = "versioned";

/// Bodies of the current objects by bucket and key.
type Model = BTreeMap<(&'static str, String), Vec<u8>>;

/// A store with a random history.
struct RandomStore {
    world: World,
    model: Model,
    random: Stream,
    /// Number of random numbers so far.
    drawn: u64,
}

impl RandomStore {
    async fn new(seed: u64) -> RandomStore {
        let world = World::retaining(2, 0, DAY_MS).await;
        let new = NewBucket { region: "us-east-1", owner: "o", acl: CannedAcl::Private };
        world.store.create_bucket(VERSIONED, new).await.unwrap();
        world.store.configure_bucket(VERSIONED, BucketChange::Versioning(true)).await.unwrap();
        RandomStore { world, model: Model::new(), random: Stream::new(seed, "reattach"), drawn: 0 }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.drawn += 1;
        self.random.below(self.drawn, n)
    }

    async fn act(&mut self) {
        let bucket = if self.below(3) == 0 { VERSIONED } else { BUCKET };
        let key = format!("{}/{}", ["logs", "photos"][self.below(2) as usize], self.below(12));
        match self.below(20) {
            0..10 => {
                let size = 1 + self.below(3000) as usize;
                let body: Vec<u8> = (0..size).map(|_| self.below(256) as u8).collect();
                put_in(&self.world.store, bucket, &key, &body).await.unwrap();
                self.model.insert((bucket, key), body);
            }
            10..13 => {
                let found = self.world.store.bucket(bucket).await.unwrap();
                self.world.store.delete(&found, &key, None, DeleteConditions::default()).await.unwrap();
                self.model.remove(&(bucket, key));
            }
            13..15 => self.move_bodies(true, false).await,
            15..17 => self.move_bodies(false, true).await,
            17 => self.roll_back().await,
            _ => delete_due_at(&self.world.store, now_ms() + DAY_MS / 2).await.unwrap(),
        }
    }

    /// Returns some moved blobs to their sources.
    async fn roll_back(&mut self) {
        for one in reversible(&self.world.store, &|_, _| true).unwrap() {
            if self.below(2) == 0 {
                roll_back(&self.world.store, one).await.unwrap();
            }
        }
    }

    /// Moves the logs, or packs small bodies and merges pack files.
    async fn move_bodies(&mut self, moves: bool, packs: bool) {
        let rule = Rule {
            from: 0,
            to: 1,
            when: Condition::parse("prefix = 'logs/'").unwrap(),
            keep_source_ms: 0,
            min_stay_ms: 0,
            gate: None,
        };
        let tier = packs.then_some(0);
        let packing = Packing { tier, max_body: 1500, file_size: 20_000, ..Packing::default() };
        let moves = if moves { vec![rule] } else { Vec::new() };
        let (rules, mut pass) = (Rules { moves, packing, ..Rules::default() }, Pass::default());
        loop {
            let batch = pass.next(&self.world.store, &rules).unwrap();
            for planned in &batch.moves {
                execute(&self.world.store, planned).await.unwrap();
            }
            for job in &batch.packs {
                pack(&self.world.store, job).await.unwrap();
            }
            if batch.ended {
                return;
            }
        }
    }

    fn documents(&self) -> BucketDocuments {
        BucketDocuments::of_catalog(&*self.world.store.catalog, String::new()).unwrap()
    }
}

/// Returns the objects of a model that a store has not, or with other bytes.
async fn missing(world: &World, model: &Model) -> Vec<String> {
    let mut missing = Vec::new();
    for ((bucket, key), body) in model {
        match get_from(&world.store, bucket, key, None).await {
            Ok((_, found)) if found == *body => {}
            Ok(_) => missing.push(format!("{bucket}/{key}: other bytes")),
            Err(error) => missing.push(format!("{bucket}/{key}: {error:?}")),
        }
    }
    missing
}

#[tokio::test]
async fn a_hundred_random_stores_are_recovered() {
    for seed in 0..100 {
        let mut store = RandomStore::new(seed).await;
        for _ in 0..60 {
            store.act().await;
        }
        let lost = without_catalog(&store.world);
        let attached = reattach_with(&lost, &store.documents()).await;
        assert_eq!((attached.incomplete.len(), attached.unidentified), (0, 0), "seed {seed}");
        assert_eq!(missing(&lost, &store.model).await, Vec::<String>::new(), "seed {seed}");
        let again = reattach_with(&lost, &store.documents()).await;
        assert_eq!((again.objects, again.buckets, again.moved), (0, 0, 0), "seed {seed}");
    }
}

#[tokio::test]
async fn two_hundred_restored_catalogs_lose_nothing_and_find_what_is_newer() {
    for seed in 1000..1200 {
        let mut store = RandomStore::new(seed).await;
        for _ in 0..30 {
            store.act().await;
        }
        let (backup, old) = (store.world.store.catalog.back_up(), store.model.clone());
        for _ in 0..1 + seed % 40 {
            store.act().await;
        }
        let catalog = MemoryCatalog::default();
        catalog.restore(backup);
        let restored = World::with_catalog(&store.world, Arc::new(catalog));
        assert_eq!(missing(&restored, &old).await, Vec::<String>::new(), "seed {seed}: lost");
        reattach_with(&restored, &store.documents()).await;
        assert_eq!(missing(&restored, &store.model).await, Vec::<String>::new(), "seed {seed}: not found");
        // Garbage of the restored state is deleted in time, and nothing that is needed with it.
        delete_due_at(&restored.store, now_ms() + 2 * DAY_MS).await.unwrap();
        assert_eq!(missing(&restored, &store.model).await, Vec::<String>::new(), "seed {seed}: deleted");
        let again = reattach_with(&restored, &store.documents()).await;
        assert_eq!((again.objects, again.moved), (0, 0), "seed {seed}");
    }
}

/// Regression test: in a restored catalog, a rollback led reads to a source that a later state had deleted.
#[tokio::test]
async fn a_rollback_needs_its_source() {
    let mut store = RandomStore::new(1).await;
    let body = vec![7; 2000];
    put_in(&store.world.store, BUCKET, "logs/1", &body).await.unwrap();
    store.move_bodies(true, false).await;
    let found = reversible(&store.world.store, &|_, _| true).unwrap();
    assert_eq!(found.len(), 1);
    let sources: Vec<_> = store.world.tiers[0].list(None).collect().await;
    for source in sources {
        store.world.tiers[0].delete(&source.unwrap().location).await.unwrap();
    }
    for one in found {
        assert_eq!(roll_back(&store.world.store, one).await.unwrap(), Outcome::SourceMissing);
    }
    assert_eq!(get_from(&store.world.store, BUCKET, "logs/1", None).await.unwrap().1, body);
}
