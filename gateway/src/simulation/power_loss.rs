//! Power loss, failing syncs and full disks at random moments.

use std::sync::Arc;

use super::disk::{Faults, SimulatedDisk};
use super::{Model, Random, content, key, small_limits, value};
use crate::catalog::embedded::Engine;
use crate::catalog::embedded::compaction::Step;
use crate::catalog::embedded::recovery::open;
use crate::catalog::embedded::writer::Writer;
use crate::catalog::{CatalogError, Value, Work};

/// Changes of one transaction.
type Changes = Vec<(Vec<u8>, Option<Value>)>;

fn work(changes: Changes) -> Work {
    Box::new(move |transaction| {
        for (key, value) in changes {
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

/// Commits a group of transactions. After an error, `model` has the content without the group and `other` that with it.
fn commit(random: &mut Random, writer: &mut Writer, model: &mut Model, other: &mut Model) -> bool {
    let group: Vec<Changes> = (0..1 + random.below(4)).map(|_| changes(random)).collect();
    let mut after = model.clone();
    group.iter().for_each(|changes| apply(&mut after, changes));
    let works = group.into_iter().map(work).collect();
    let results = writer.commit(works, true);
    *other = after.clone();
    match results.iter().find_map(|result| result.as_ref().err()) {
        None => {
            *model = after;
            true
        }
        Some(CatalogError::DiskFull) => {
            other.clone_from(model);
            true
        }
        Some(_) => false,
    }
}

/// Compacts one segment completely. Returns false if the disk fails.
fn compact(engine: &Arc<Engine>, writer: &mut Writer) -> bool {
    let Some(mut compaction) = engine.choose_compaction(true) else { return true };
    loop {
        match compaction.step(engine) {
            Ok(Step::Copied) => return compaction.reap(engine).is_ok(),
            Ok(Step::Copy(batch, keys)) => {
                let committed = writer.commit(vec![batch.work(compaction.keep_removals())], true);
                if committed.iter().any(Result::is_err) || compaction.verify(engine, &keys).is_err() {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
}

/// Does one random thing. Returns false if the disk fails.
fn act(
    random: &mut Random,
    engine: &Arc<Engine>,
    writer: &mut Writer,
    model: &mut Model,
    other: &mut Model,
) -> bool {
    match random.below(10) {
        0 => engine.flush_step().is_ok(),
        1 => engine.merge_step(random.chance(50)).is_ok(),
        2 => compact(engine, writer),
        3 => {
            writer.freeze();
            true
        }
        _ => commit(random, writer, model, other),
    }
}

/// Simulates one seed. Returns the violation, if there is one.
fn simulate(seed: u64, faults: Faults) -> Result<(), String> {
    let mut random = Random(seed << 20);
    let mut disk = SimulatedDisk::new(random.next(), faults);
    let (mut model, mut other) = (Model::new(), Model::new());
    for life in 0..2 + random.below(5) {
        let limits = small_limits(&mut random);
        let opened = open(Arc::new(disk.clone()), limits).map_err(|e| format!("life {life}: {e}"))?;
        let (engine, mut writer, recovery) = opened;
        if !recovery.damage.is_empty() {
            return Err(format!("life {life}: reports damage: {:?}", recovery.damage));
        }
        let found = content(&engine);
        if found != model && found != other {
            let differs = |expected: &Model| {
                let keys = expected.keys().chain(found.keys()).filter(|k| expected.get(*k) != found.get(*k));
                keys.map(|key| String::from_utf8_lossy(key).into_owned()).collect::<Vec<_>>()
            };
            return Err(format!(
                "life {life}: an acknowledged transaction is lost or a removed key is back: {:?} or {:?}",
                differs(&model),
                differs(&other)
            ));
        }
        model = found;
        other.clone_from(&model);
        match random.below(4) {
            0 => disk.fail_next_sync(),
            1 => disk.fill_up(),
            _ => disk.fail_power_after(random.below(120)),
        }
        for _ in 0..random.below(60) {
            if !act(&mut random, &engine, &mut writer, &mut model, &mut other) {
                break;
            }
        }
        if random.chance(20) && engine.stop_reason().is_none() {
            writer.freeze();
            let mut flushed = engine.flush_step();
            while matches!(flushed, Ok(true)) {
                flushed = engine.flush_step();
            }
            if flushed.is_ok() {
                let _ = engine.checkpoint(Some(writer.end()));
            }
        }
        disk = if random.chance(25) { disk.killed() } else { disk.restarted() };
    }
    Ok(())
}

#[test]
fn no_acknowledged_transaction_is_lost() {
    for seed in 0..super::seeds(400) {
        if let Err(violation) = simulate(seed, Faults::default()) {
            panic!("seed {seed}: {violation}");
        }
    }
}

/// Proof of the simulation: on a disk whose syncs do nothing, it must find losses.
#[test]
fn a_disk_that_ignores_syncs_is_found() {
    for faults in [
        Faults { ignores_sync: true, ..Faults::default() },
        Faults { ignores_directory_sync: true, ..Faults::default() },
    ] {
        let found = (0..200).any(|seed| simulate(seed, faults).is_err());
        assert!(found, "no seed of 200 shows a loss");
    }
}
