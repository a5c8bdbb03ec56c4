//! Simulations of the catalog on a disk that loses power, fails, fills up and decays, and of gateways that move
//! objects. Every run follows from its seed. Uses all rooms of the store below the gateway; it has only tests.
//!
//! `PLIMSOLL_SEEDS` sets the number of seeds of each simulation, and `PLIMSOLL_FIRST_SEED` the first seed of those of
//! gateways; `make bench-simulation` uses 20,000, and a million of those of gateways.

#![cfg(test)]

mod backend;
mod catalog;
mod damage;
mod disk;
mod failing_disk;
mod faulty_store;
mod history;
mod leader;
mod leading;
mod losses;
mod moves;
mod paused_disk;
mod power_loss;
mod process;
mod restores;
mod shipping;
mod world;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use plimsoll_base::rng::mix;
use plimsoll_catalog::simulated::{self as time, Random};

use plimsoll_catalog::embedded::CatalogLimits;
use plimsoll_catalog::embedded::Engine;
use plimsoll_catalog::{CatalogError, Scan, Value};

/// Returns the number of seeds to simulate.
fn seeds(default: u64) -> u64 {
    std::env::var("PLIMSOLL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Returns the first seed to simulate.
fn first_seed() -> u64 {
    std::env::var("PLIMSOLL_FIRST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Content that the catalog must have: the body of each key.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Limits so small that every mechanism is used.
fn small_limits(random: &mut Random) -> CatalogLimits {
    CatalogLimits {
        segment_bytes: 2000 + random.below(8000),
        memtable_entries: 2 + random.below(20) as usize,
        log_bytes_per_table: 4000 + random.below(20_000),
        fan_in: 2 + random.below(3) as usize,
        reserve_bytes: 0,
        space_check_ns: 0,
        garbage_share: 0.2,
        idle_garbage_share: 0.05,
    }
}

fn key(random: &mut Random) -> Vec<u8> {
    format!("key-{}", random.below(40)).into_bytes()
}

fn value(random: &mut Random) -> Value {
    let size = if random.chance(10) { 1500 } else { random.below(200) } as usize;
    let seed = random.draw();
    let body: Vec<u8> = (0..size).map(|i| mix(seed + i as u64) as u8).collect();
    let head = body.iter().take(8).copied().collect::<Vec<u8>>();
    Value { head: head.into(), properties: vec![7; 20].into(), body: body.into() }
}

/// Reads everything. Each key has its body, or the error of its read.
fn read_all(engine: &Arc<Engine>, keys: &Model) -> BTreeMap<Vec<u8>, Result<Vec<u8>, CatalogError>> {
    let mut found = BTreeMap::new();
    let mut names: Vec<Vec<u8>> = (0..40).map(|i| format!("key-{i}").into_bytes()).collect();
    names.extend(keys.keys().cloned());
    for name in names {
        match engine.get(&name) {
            Ok(None) => {}
            Ok(Some(row)) => {
                let body = engine.read(&name, &row, true).map(|value| value.body.to_vec());
                found.insert(name, body);
            }
            Err(error) => {
                found.insert(name, Err(error));
            }
        }
    }
    found
}

/// Reads everything.
///
/// # Errors
/// The first error of a read.
fn content(engine: &Arc<Engine>) -> Result<Model, CatalogError> {
    let found = read_all(engine, &Model::new());
    let found: Result<Model, CatalogError> = found.into_iter().map(|(key, body)| Ok((key, body?))).collect();
    let found = found?;
    let mut scan = engine.scan();
    scan.seek(Bound::Unbounded).unwrap();
    let listed: Vec<Vec<u8>> = std::iter::from_fn(|| scan.next().unwrap()).map(|(key, _)| key).collect();
    assert_eq!(listed, found.keys().cloned().collect::<Vec<_>>(), "a scan and single reads must agree");
    Ok(found)
}
