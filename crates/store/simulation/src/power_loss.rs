//! Power loss, failing syncs and full disks at random moments.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::disk::{Faults, SimulatedDisk};
use super::{Model, Random, content, key, small_limits, value};
use plimsoll_catalog::embedded::Engine;
use plimsoll_catalog::embedded::compaction::Step;
use plimsoll_catalog::embedded::recovery::open;
use plimsoll_catalog::embedded::writer::Writer;
use plimsoll_catalog::{CatalogError, Value, Work};

/// Changes of one transaction.
type Changes = Vec<(Vec<u8>, Option<Value>)>;

fn work(changes: Changes) -> Work {
    Box::new(move |transaction| {
        for (key, value) in changes.clone() {
            match value {
                Some(value) => transaction.put(key, value),
                None => transaction.delete(key),
            }
        }
        Ok(true)
    })
}

fn apply(model: &mut Model, changes: &Changes) {
    for (key, value) in changes {
        match value {
            Some(value) => model.insert(key.clone(), value.body.to_vec()),
            None => model.remove(key),
        };
    }
}

fn changes(random: &mut Random) -> Changes {
    let count = if random.chance(20) { 1 + random.below(4) } else { 1 };
    (0..count).map(|_| (key(random), random.chance(70).then(|| value(random)))).collect()
}

/// Contents that the catalog may have after a power loss.
struct Expected {
    /// True if a commit returns only when it is durable.
    sync: bool,
    /// Contents since the last sync, oldest first; never empty.
    states: Vec<Model>,
    /// Content with a group whose commit has failed.
    unknown: Option<Model>,
}

impl Expected {
    fn new(model: Model, sync: bool) -> Expected {
        Expected { sync, states: vec![model], unknown: None }
    }

    fn current(&self) -> Model {
        self.states.last().cloned().unwrap_or_default()
    }

    fn committed(&mut self, model: Model) {
        self.states.push(model);
        if self.sync {
            self.synced();
        }
    }

    fn synced(&mut self) {
        self.states.drain(..self.states.len() - 1);
    }

    /// Returns true if this content is allowed after a power loss or, with `killed`, after the end of the process.
    fn allows(&self, found: &Model, killed: bool) -> bool {
        let last = self.states.last() == Some(found) || self.unknown.as_ref() == Some(found);
        last || (!killed && self.states.contains(found))
    }
}

/// Commits a group of transactions. Returns false if the disk fails.
fn commit(random: &mut Random, writer: &mut Writer, expected: &mut Expected) -> bool {
    let group: Vec<Changes> = (0..1 + random.below(4)).map(|_| changes(random)).collect();
    let mut after = expected.current();
    group.iter().for_each(|changes| apply(&mut after, changes));
    let works = group.into_iter().map(work).collect();
    let results = writer.commit(works, expected.sync);
    match results.iter().find_map(|result| result.as_ref().err()) {
        None => {
            expected.committed(after);
            true
        }
        Some(CatalogError::DiskFull) => true,
        Some(_) => {
            expected.unknown = Some(after);
            false
        }
    }
}

/// Makes everything durable. Returns false if the disk fails.
fn sync(writer: &mut Writer, expected: &mut Expected) -> bool {
    let is_synced = writer.sync().is_ok();
    if is_synced {
        expected.synced();
    }
    is_synced
}

/// Compacts one segment completely. Returns false if the disk fails.
pub fn compact(engine: &Arc<Engine>, writer: &mut Writer, sync: bool) -> bool {
    let Some(mut compaction) = engine.choose_compaction(true) else { return true };
    loop {
        match compaction.step(engine) {
            Ok(Step::Copied) => return engine.end_compaction(compaction).is_ok(),
            Ok(Step::Copy(batch, keys)) => {
                let commit = |work| writer.commit(vec![work], sync).pop().unwrap_or(Ok(()));
                if compaction.copy(engine, batch, &keys, commit).is_err() {
                    return false;
                }
            }
            Err(_) => {
                compaction.give_up(engine);
                return false;
            }
        }
    }
}

/// Does one random thing. Returns false if the disk fails.
fn act(random: &mut Random, engine: &Arc<Engine>, writer: &mut Writer, expected: &mut Expected) -> bool {
    match random.below(10) {
        0 => engine.flush_step().is_ok(),
        1 => engine.merge_step(random.chance(50)).is_ok(),
        2 => compact(engine, writer, expected.sync),
        3 => {
            writer.freeze();
            true
        }
        4 if !expected.sync => sync(writer, expected),
        _ => commit(random, writer, expected),
    }
}

/// Simulates one seed. Returns the violation, if there is one.
fn simulate(seed: u64, faults: Faults, sync: bool) -> Result<(), String> {
    let mut random = Random(seed << 20);
    let mut disk = SimulatedDisk::new(random.draw(), faults);
    let mut expected = Expected::new(Model::new(), sync);
    let mut killed = false;
    for life in 0..2 + random.below(5) {
        let limits = small_limits(&mut random);
        let opened = open(Arc::new(disk.clone()), limits).map_err(|e| format!("life {life}: {e}"))?;
        let (engine, mut writer, recovery) = opened;
        if !recovery.damage.is_empty() {
            return Err(format!("life {life}: reports damage: {:?}", recovery.damage));
        }
        // A start that counts records twice leaves garbage that is never compacted.
        for segment in engine.segments() {
            let (live, bytes) = (segment.live.load(Relaxed), segment.bytes.load(Relaxed));
            if live > bytes as i64 {
                return Err(format!("life {life}: segment {} uses {live} of {bytes} bytes", segment.id));
            }
        }
        let found = content(&engine).map_err(|e| format!("life {life}: {e}"))?;
        if !expected.allows(&found, killed) {
            let current = expected.current();
            let keys = current.keys().chain(found.keys()).filter(|key| current.get(*key) != found.get(*key));
            let keys: Vec<_> = keys.map(|key| String::from_utf8_lossy(key)).collect();
            let text = "an acknowledged transaction is lost or a removed key is back";
            return Err(format!("life {life}: {text}: {keys:?}"));
        }
        expected = Expected::new(found, sync);
        match random.below(4) {
            0 => disk.fail_next_sync(),
            1 => disk.fill_up(),
            _ => disk.fail_power_after(random.below(120)),
        }
        for _ in 0..random.below(60) {
            if !act(&mut random, &engine, &mut writer, &mut expected) {
                break;
            }
        }
        if random.chance(20) && engine.stop_reason().is_none() {
            writer.freeze();
            if engine.flush().is_ok() {
                let _ = engine.checkpoint(Some(writer.end()));
            }
        }
        killed = random.chance(25);
        disk = if killed { disk.killed() } else { disk.restarted() };
    }
    Ok(())
}

fn check(sync: bool) {
    for seed in 0..super::seeds(400) {
        if let Err(violation) = simulate(seed, Faults::default(), sync) {
            panic!("seed {seed}: {violation}");
        }
    }
}

#[test]
fn no_acknowledged_transaction_is_lost() {
    check(true);
}

/// With syncs at intervals, a power loss leaves the content of one moment since the last sync, and no damage.
#[test]
fn a_power_loss_between_syncs_leaves_the_content_of_one_moment() {
    check(false);
}

/// Proof of the simulation: on a disk whose syncs do nothing, it must find losses.
#[test]
fn a_disk_that_ignores_syncs_is_found() {
    for faults in [
        Faults { ignores_sync: true, ..Faults::default() },
        Faults { ignores_directory_sync: true, ..Faults::default() },
    ] {
        for sync in [true, false] {
            let found = (0..200).any(|seed| simulate(seed, faults, sync).is_err());
            assert!(found, "no seed of 200 shows a loss; sync: {sync}");
        }
    }
}

/// Returns the first of `seeds` seeds in which a power loss does damage, if syncs with this text do nothing.
fn first_damage_without(ignored: &'static str, seeds: u64) -> Option<u64> {
    let faults = Faults { ignored: Some(ignored), ..Faults::default() };
    (0..seeds).find(|seed| simulate(*seed, faults, true).is_err())
}

/// Proof that the log needs its syncs, and both directories need theirs.
#[test]
fn syncs_of_the_log_and_of_the_directories_are_needed() {
    for ignored in [".log", "log", "index"] {
        assert!(
            first_damage_without(ignored, 500).is_some(),
            "500 seeds without syncs of {ignored}: no damage"
        );
    }
}

/// The other files are verified at the start, and follow from the log if they are damaged.
#[test]
fn files_that_follow_from_the_log_lose_nothing_without_syncs() {
    for ignored in ["SEGMENTS", "MANIFEST", ".table"] {
        assert_eq!(first_damage_without(ignored, 100), None, "without syncs of {ignored}");
    }
}
