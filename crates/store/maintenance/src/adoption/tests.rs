use object_store::{ObjectStore, ObjectStoreExt, PutOptions};
use plimsoll_server::service::{BucketChange, ObjectService};

use super::adopt::{Adopted, Adoption, adopt, count};
use super::release::{Release, Released, release};
use super::*;
use crate::background::deletion::delete_due_at;
use crate::mover::condition::Condition;
use crate::mover::pass::Pass;
use crate::mover::rules::{Rule, Rules};
use crate::mover::{Outcome, execute};
use plimsoll_store_testing::{BUCKET, World};

fn bucket(world: &World) -> std::sync::Arc<plimsoll_objects::Bucket> {
    world.store.all_buckets().unwrap().into_iter().find(|(name, _)| name == BUCKET).unwrap().1
}

fn body(number: usize) -> Vec<u8> {
    (0..number * 50_000).map(|at| (at * 7 % 253) as u8).collect()
}

/// A tier with ten objects that were written without the gateway.
async fn world() -> World {
    let world = World::new(2, 1000).await;
    for number in 0..10 {
        let attributes = Attributes::from_iter([
            (Attribute::ContentType, "text/x".to_string()),
            (Attribute::Metadata("owner".into()), number.to_string()),
        ]);
        let path = format!("logs/2026/k{number}").into();
        let options = PutOptions { attributes, ..PutOptions::default() };
        world.tiers[0].put_opts(&path, body(number).into(), options).await.unwrap();
    }
    world
}

async fn adopt_all(world: &World, prefix: &str, dry_run: bool) -> Adopted {
    let adoption = Adoption { tier: 0, prefix: prefix.into() };
    let bucket = bucket(world);
    match dry_run {
        true => count(&world.store, Some(&bucket), &adoption).await.unwrap(),
        false => adopt(&world.store, &bucket, &adoption).await.unwrap(),
    }
}

async fn release_all(world: &World, tier: u16, overwrite: bool) -> Released {
    let options = Release { tier, prefix: String::new(), overwrite, dry_run: false, without_tags: false };
    release(&world.store, &bucket(world), &options).await.unwrap()
}

#[tokio::test]
async fn adopted_objects_are_read_where_they_are() {
    let world = world().await;
    assert_eq!(
        adopt_all(&world, "logs/2026/k1", true).await,
        Adopted { objects: 1, bytes: 50_000, existing: 0, ..Adopted::default() }
    );
    assert_eq!(adopt_all(&world, "logs/2026/k1", false).await.objects, 1);
    assert_eq!(
        adopt_all(&world, "", false).await,
        Adopted { objects: 9, bytes: 2_200_000, existing: 1, ..Adopted::default() }
    );
    assert_eq!(adopt_all(&world, "", false).await.existing, 10);
    for number in 0..10 {
        assert_eq!(world.get(&format!("logs/2026/k{number}")).await.unwrap().1, body(number));
    }
    assert_eq!(world.count(0).await, 10, "nothing was copied");
    // An own blob is not adopted.
    world.put("new", &[7; 5000]).await;
    assert_eq!((world.count(0).await, adopt_all(&world, "", false).await.objects), (11, 0));
    // A deleted object is deleted in the tier.
    world.delete("logs/2026/k9").await;
    assert_eq!(adopt_all(&world, "", false).await.objects, 0, "a deleted object does not return");
    assert!(world.get("logs/2026/k9").await.is_err());
    // Regression test: an empty object had no blob, so its deletion did not reach the tier, and it returned.
    world.delete("logs/2026/k0").await;
    assert_eq!(adopt_all(&world, "", false).await.objects, 0, "a deleted empty object does not return");
    delete_due_at(&world.store, u64::MAX / 2).await.unwrap();
    assert_eq!(world.count(0).await, 9);
}

#[tokio::test]
async fn adopted_objects_move_and_then_have_checksums() {
    let world = world().await;
    adopt_all(&world, "", false).await;
    let when = Condition::parse("size > 0").unwrap();
    let rule = Rule { from: 0, to: 1, when, keep_source_ms: 0, min_stay_ms: 0, gate: None };
    let rules = Rules { moves: vec![rule], ..Rules::default() };
    let batch = Pass::default().next(&world.store, &rules).unwrap();
    for planned in &batch.moves {
        assert_eq!(execute(&world.store, planned).await.unwrap(), Outcome::Moved);
    }
    delete_due_at(&world.store, u64::MAX / 2).await.unwrap();
    // The empty object has no body to move.
    assert_eq!((world.count(0).await, world.count(1).await), (1, 9));
    for number in 0..10 {
        assert_eq!(world.get(&format!("logs/2026/k{number}")).await.unwrap().1, body(number));
    }
    let mut listed =
        futures_util::TryStreamExt::try_collect::<Vec<_>>(world.tiers[1].list(None)).await.unwrap();
    listed.sort_by_key(|meta| meta.size);
    let largest = listed.last().unwrap();
    let mut bytes = body(9);
    bytes[300_000] ^= 1;
    world.tiers[1].put(&largest.location, bytes.into()).await.unwrap();
    assert!(world.get("logs/2026/k9").await.is_err(), "damage is found after the move");
}

#[tokio::test]
async fn a_released_bucket_is_complete_without_the_gateway() {
    let world = world().await;
    adopt_all(&world, "", false).await;
    world.put("small", b"inline").await;
    world.put("logs/2026/k3", &[3; 20_000_000]).await;
    world.tiers[0].put(&"conflict".into(), b"other".to_vec().into()).await.unwrap();
    world.put("conflict", b"mine!").await;
    let first = release_all(&world, 0, false).await;
    assert_eq!((first.written, first.in_place), (2, 9));
    assert_eq!(first.conflicts, ["conflict"]);
    let second = release_all(&world, 0, true).await;
    assert_eq!((second.written, second.in_place, second.conflicts.len()), (1, 11, 0));
    assert_eq!(release_all(&world, 0, false).await.in_place, 12, "a repetition writes nothing");
    // The adopted object that was replaced is not deleted any more.
    delete_due_at(&world.store, u64::MAX / 2).await.unwrap();
    let read = |key: &str| {
        let (tier, path) = (world.tiers[0].clone(), object_store::path::Path::from(key));
        async move { tier.get(&path).await.unwrap() }
    };
    assert_eq!(read("small").await.bytes().await.unwrap(), "inline");
    assert_eq!(read("logs/2026/k3").await.bytes().await.unwrap(), vec![3; 20_000_000]);
    let kept = read("logs/2026/k4").await;
    assert_eq!(kept.attributes.get(&Attribute::Metadata("owner".into())).unwrap().as_ref(), "4");
}

#[tokio::test]
async fn a_release_never_replaces_an_object_that_an_old_version_needs() {
    let world = world().await;
    adopt_all(&world, "", false).await;
    world.store.configure_bucket(BUCKET, BucketChange::Versioning(true)).await.unwrap();
    world.put("logs/2026/k4", b"new").await;
    let released = release_all(&world, 0, true).await;
    assert_eq!(released.conflicts, ["logs/2026/k4"]);
    let path = object_store::path::Path::from("logs/2026/k4");
    assert_eq!(world.tiers[0].get(&path).await.unwrap().bytes().await.unwrap(), body(4));
}

/// Regression test: with `--overwrite`, an object with the name of the owner's record replaced it.
#[tokio::test]
async fn a_release_never_replaces_a_record_of_the_tier() {
    let world = world().await;
    let path = object_store::path::Path::from("plimsoll-owner.json");
    world.tiers[0].put(&path, "record".into()).await.unwrap();
    world.put("plimsoll-owner.json", b"of a client").await;
    assert_eq!(release_all(&world, 0, true).await.conflicts, ["plimsoll-owner.json"]);
    assert_eq!(world.tiers[0].get(&path).await.unwrap().bytes().await.unwrap(), "record");
}

#[tokio::test]
async fn a_released_object_outlives_the_rollback_window_of_its_move() {
    let world = world().await;
    adopt_all(&world, "logs/2026/k5", false).await;
    let when = Condition::parse("size > 0").unwrap();
    let rule = Rule { from: 0, to: 1, when, keep_source_ms: 3_600_000, min_stay_ms: 0, gate: None };
    let rules = Rules { moves: vec![rule], ..Rules::default() };
    let batch = Pass::default().next(&world.store, &rules).unwrap();
    assert_eq!(execute(&world.store, &batch.moves[0]).await.unwrap(), Outcome::Moved);
    assert_eq!(release_all(&world, 0, false).await.written, 1);
    delete_due_at(&world.store, u64::MAX / 2).await.unwrap();
    let path = object_store::path::Path::from("logs/2026/k5");
    assert_eq!(world.tiers[0].get(&path).await.unwrap().bytes().await.unwrap(), body(5));
    assert_eq!(world.get("logs/2026/k5").await.unwrap().1, body(5));
}

#[test]
fn entity_tags_of_s3_are_kept() {
    let md5 = "\"0123456789abcdef0123456789abcdef\"";
    assert_eq!(parse_etag(md5).unwrap().1, 0);
    assert_eq!(parse_etag("0123456789abcdef0123456789abcdef-12").unwrap().1, 12);
    for other in [
        "",
        "CJ7lxq2H",
        "\"0x8D4\"",
        "0123456789abcdef0123456789abcdef-x",
        "g123456789abcdef0123456789abcdef",
    ] {
        assert_eq!(parse_etag(other), None, "{other}");
    }
}
