use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use plimsoll_base::provider::calls::Calls;
use plimsoll_cost::book::Prices;

use super::bill::{PricedTier, bill};
use super::*;
use crate::background::deletion::delete_due_at;
use crate::mover::condition::Condition;
use crate::mover::pack::pack;
use crate::mover::rules::{Packing, Rule};
use crate::mover::{Outcome, execute};
use plimsoll_bodies::pricing::TierPrices;
use plimsoll_catalog::ambient::now_ms;
use plimsoll_store_testing::World;

const DAY_MS: u64 = DAY_S * 1000;

fn rules(moves: &[&str], packs: bool) -> Rules {
    let rule = |when: &&str| Rule {
        from: 0,
        to: 1,
        when: Condition::parse(when).unwrap(),
        keep_source_ms: 0,
        min_stay_ms: 0,
        gate: None,
    };
    let tier = packs.then_some(0);
    let packing = Packing { tier, max_body: 100_000, file_size: 300_000, ..Packing::default() };
    Rules { moves: moves.iter().map(rule).collect(), packing, ..Rules::default() }
}

/// Executes what the rules require, and deletes the sources.
async fn execute_all(world: &World, rules: &Rules) {
    let mut pass = Pass::default();
    loop {
        let batch = pass.next(&world.store, rules).unwrap();
        for planned in &batch.moves {
            assert_eq!(execute(&world.store, planned).await.unwrap(), Outcome::Moved);
        }
        for job in &batch.packs {
            pack(&world.store, job).await.unwrap();
        }
        if batch.ended && !pass.has_split() {
            break;
        }
    }
    delete_due_at(&world.store, now_ms() + 60_000).await.unwrap();
}

fn tariff(name: &str) -> Tariff {
    Prices::built_in().unwrap().tariff(name, None, "2026-11-21".parse().unwrap()).unwrap()
}

/// Returns the requests and bytes that the tiers have counted.
fn counted(world: &World) -> BTreeMap<u16, Work> {
    let work = |usage: &plimsoll_bodies::tier::counted::TierUsage| {
        let mut calls = Calls::default();
        Call::ALL.iter().for_each(|call| calls.add(*call, usage.of(*call).requests.load(Ordering::Relaxed)));
        let (uploaded, downloaded) =
            (usage.uploaded.load(Ordering::Relaxed), usage.downloaded.load(Ordering::Relaxed));
        Work { calls, uploaded, downloaded, ..Work::default() }
    };
    world.store.blobs.tiers().iter().map(|(number, tier)| (number, work(&tier.usage))).collect()
}

/// Plans and executes rules. The plan must have exactly the counted requests and bytes, and their cost.
async fn is_exact(world: &World, rules: &Rules) -> Plan {
    let fresh = World::reopen(world);
    let tariffs = BTreeMap::from([(0, tariff("aws-s3")), (1, tariff("cloudflare-r2"))]);
    let terms = Terms { tariffs: &tariffs, home: 0, now_ms: now_ms() };
    let planned = plan(&fresh.store, rules, &terms).unwrap();
    assert!(counted(&fresh).values().all(|work| work.calls.total() == 0), "a plan sends nothing");
    execute_all(&fresh, rules).await;
    for (number, found) in counted(&fresh) {
        let expected = planned.work.get(&number).cloned().unwrap_or_default();
        // What leaves the provider follows from the networks and is not counted.
        let found = Work { egress: expected.egress, ..found };
        assert_eq!(Work { early: BTreeMap::new(), ..expected.clone() }, found, "tier {number}");
        let tariff = &tariffs[&number];
        assert_eq!(expected.cost(tariff).unwrap(), found.cost(tariff).unwrap());
        let blobs = fresh.count(usize::from(number)).await as u64;
        assert_eq!(planned.after(number).blobs, blobs, "tier {number}");
    }
    planned
}

#[tokio::test]
async fn moves_of_blobs_cost_what_was_planned() {
    let world = World::new(2, 0).await;
    for (number, size) in [1, 1000, 8 << 20, (8 << 20) - 1, 20_000_000].into_iter().enumerate() {
        world.put(&format!("k{number}"), &vec![number as u8; size]).await;
    }
    let planned = is_exact(&world, &rules(&["size > 0"], false)).await;
    assert_eq!((planned.objects, planned.moves, planned.packed), (5, 5, 0));
    assert_eq!(planned.work[&1].calls.get(Call::UploadPart), 4);
    assert_eq!(planned.before[&0], planned.after(1));
}

#[tokio::test]
async fn pack_files_cost_what_was_planned() {
    let world = World::new(2, 4096).await;
    for number in 0..500 {
        world.put(&format!("dir/k{number:04}"), &vec![number as u8; 100 + number * 20]).await;
    }
    world.put("large", &vec![1; 200_000]).await;
    let planned = is_exact(&world, &rules(&[], true)).await;
    assert_eq!((planned.packed, planned.pack_files, planned.moves), (500, 9, 0));
    // Then objects leave pack files, and some pack files are left by all.
    for delete in [0, 3] {
        for number in (0..500).filter(|number| delete > 0 && number % delete > 0) {
            world.delete(&format!("dir/k{number:04}")).await;
        }
        let rules = rules(&["suffix = '7' or prefix = 'dir/k00'"], true);
        let planned = is_exact(&world, &rules).await;
        assert!(planned.work[&1].calls.get(Call::PutObject) >= 1);
    }
}

#[tokio::test]
async fn a_plan_in_dollars_adds_the_tiers_and_their_minimum_durations() {
    let world = World::new(2, 0).await;
    for number in 0..10 {
        world.put(&format!("k{number}"), &vec![7; 1 << 20]).await;
    }
    let tier = |name: &str, offer: &str| PricedTier {
        name: name.into(),
        prices: Some(TierPrices { tariff: tariff(offer), note: None }),
    };
    let tiers = BTreeMap::from([(0, tier("ia", "aws-s3-standard-ia")), (1, tier("r2", "cloudflare-r2"))]);
    let later = now_ms() + 10 * DAY_MS + 1000;
    let tariffs = BTreeMap::from([(0, tariff("aws-s3-standard-ia")), (1, tariff("cloudflare-r2"))]);
    let terms = Terms { tariffs: &tariffs, home: 0, now_ms: later };
    let planned = plan(&world.store, &rules(&["size > 0"], false), &terms).unwrap();
    let (days, early) = planned.work[&0].early.first_key_value().unwrap();
    let (trailers, early_gib) = (early - (10 << 20), *early as f64 / f64::from(1 << 30));
    assert!(*days == 20 && (1000..4000).contains(&trailers), "{days} days, {trailers} bytes of trailers");
    let bill = bill(&planned, &tiers).unwrap();
    let (ia, r2) = (&bill.tiers[0], &bill.tiers[1]);
    // 10 MiB of egress at 0.09 and retrieval at 0.01 per GiB, and 10 reads at 0.001 a thousand.
    let gib = 10.0 / 1024.0;
    let expected = gib * (0.09 + 0.01) + 10.0 * 0.001 / 1000.0;
    assert!((ia.moves_usd.dollars() - expected).abs() < 1e-9, "{}", ia.moves_usd);
    assert!((ia.early_deletion_usd.dollars() - early_gib * 0.0125 * 480.0 / 730.0).abs() < 1e-9);
    // A write of each blob, its verification, and a look at it before its source is deleted.
    assert!((r2.moves_usd.dollars() - (10.0 * 4.5 + 20.0 * 0.36) / 1e6).abs() < 1e-9, "{}", r2.moves_usd);
    assert_eq!(bill.now_usd, ia.moves_usd + ia.early_deletion_usd + r2.moves_usd);
    assert_eq!((ia.month_after_usd.pico(), r2.month_before_usd.pico()), (0, 0));
    assert_eq!(bill.payback_months.is_some(), bill.month_after_usd < bill.month_before_usd);
}
