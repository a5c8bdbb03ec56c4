//! Starts and commits in which one operation of the disk fails.

use std::sync::Arc;

use super::disk::{Faults, SimulatedDisk};
use super::power_loss::compact;
use super::{Model, Random, content, key, small_limits, value};
use plimsoll_catalog::Work;
use plimsoll_catalog::embedded::CatalogLimits;
use plimsoll_catalog::embedded::recovery::open;

/// Regression test: one input/output error while a table was opened deleted the index, and the replay then took the
/// segments that compaction had removed for lost ones.
#[test]
fn a_start_with_one_failing_operation_damages_nothing() {
    for seed in 0..super::seeds(6) {
        let mut random = Random(seed << 20);
        let disk = SimulatedDisk::new(random.draw(), Faults::default());
        let limits = small_limits(&mut random);
        let mut model = Model::new();
        let (engine, mut writer, _) = open(Arc::new(disk.clone()), limits).unwrap();
        for _ in 0..200 {
            let (key, new) = (key(&mut random), value(&mut random));
            model.insert(key.clone(), new.body.to_vec());
            let work: Work = Box::new(move |t| {
                t.put(key.clone(), new.clone());
                Ok(true)
            });
            assert!(writer.commit(vec![work], true)[0].is_ok());
            engine.flush_step().unwrap();
            if random.chance(10) {
                assert!(compact(&engine, &mut writer, true));
            }
        }
        let mut failed = 0;
        for operation in 0.. {
            let disk = disk.killed();
            disk.fail_operation(operation);
            let opened = open(Arc::new(disk.clone()), limits);
            if !disk.has_failed() {
                break;
            }
            failed += u32::from(opened.is_err());
            drop(opened);
            let (engine, _, recovery) = open(Arc::new(disk.killed()), limits).unwrap();
            assert!(recovery.damage.is_empty(), "operation {operation}: {:?}", recovery.damage);
            assert_eq!(content(&engine).unwrap(), model, "seed {seed}, operation {operation}");
        }
        assert!(failed > 10, "only {failed} operations of a start matter");
    }
}

/// Regression test: a commit returned an error for a group that was applied, if the next segment could not be created.
#[test]
fn a_commit_that_returns_an_error_was_not_applied() {
    let limits = small_limits(&mut Random(1));
    let mut failed = 0;
    for operation in 0.. {
        let disk = SimulatedDisk::new(1, Faults::default());
        let (engine, mut writer, _) = open(Arc::new(disk.clone()), limits).unwrap();
        let work: Work = Box::new(|t| {
            t.put(b"key".to_vec(), value(&mut Random(2)));
            t.end_segment();
            Ok(true)
        });
        disk.fail_operation(operation);
        let is_committed = writer.commit(vec![work], true)[0].is_ok();
        if !disk.has_failed() {
            break;
        }
        failed += u32::from(!is_committed);
        assert_eq!(engine.get(b"key").unwrap().is_some(), is_committed, "operation {operation}");
        let work: Work = Box::new(|t| {
            t.put(b"later".to_vec(), value(&mut Random(3)));
            Ok(true)
        });
        let is_later = writer.commit(vec![work], true)[0].is_ok();
        drop((engine, writer));
        let (engine, _, recovery) = open(Arc::new(disk.killed()), limits).unwrap();
        assert!(recovery.damage.is_empty(), "operation {operation}: {:?}", recovery.damage);
        for (key, is_expected) in [(&b"key"[..], is_committed), (b"later", is_later)] {
            let found = engine.get(key).unwrap().is_some();
            assert_eq!(found, is_expected, "operation {operation}, next start, {}", key.escape_ascii());
        }
    }
    assert!(failed > 0, "no commit has failed");
}

/// Regression test: ext4 confirms a sync during which it becomes read-only after an error. The group was acknowledged,
/// and gone after the restart.
#[test]
fn a_sync_during_which_the_disk_becomes_read_only_acknowledges_nothing() {
    for seed in 0..super::seeds(20) {
        let mut random = Random(seed << 20);
        let disk = SimulatedDisk::new(random.draw(), Faults::default());
        let limits = small_limits(&mut random);
        let mut model = Model::new();
        let (engine, mut writer, _) = open(Arc::new(disk.clone()), limits).unwrap();
        let last = random.below(30);
        for number in 0..=last {
            if number == last {
                disk.become_read_only();
            }
            let (key, new) = (key(&mut random), value(&mut random));
            let body = new.body.to_vec();
            let (work_key, work_value) = (key.clone(), new);
            let work: Work = Box::new(move |t| {
                t.put(work_key.clone(), work_value.clone());
                Ok(true)
            });
            let is_acknowledged = writer.commit(vec![work], true)[0].is_ok();
            assert_eq!(is_acknowledged, number < last, "seed {seed}, group {number}");
            if is_acknowledged {
                model.insert(key, body);
            }
        }
        let work: Work = Box::new(|t| {
            t.put(b"later".to_vec(), value(&mut Random(3)));
            Ok(true)
        });
        assert!(writer.commit(vec![work], true)[0].is_err(), "writes go on");
        drop((engine, writer));
        let (engine, ..) = open(Arc::new(disk.restarted()), limits).unwrap();
        let found = content(&engine).unwrap();
        for (key, body) in &model {
            assert_eq!(found.get(key), Some(body), "seed {seed}");
        }
    }
}

/// Regression test: after a write that found no space, the disk counted as full until the next write that needed some.
/// While clients only deleted, the background let go of everything that was deleted at once.
#[test]
fn a_disk_that_has_space_again_is_not_full() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let limits = CatalogLimits { reserve_bytes: 1000, ..small_limits(&mut Random(1)) };
    let (engine, mut writer, _) = open(Arc::new(disk.clone()), limits).unwrap();
    let put: Work = Box::new(|t| {
        t.put(b"key".to_vec(), value(&mut Random(2)));
        Ok(true)
    });
    disk.set_free_bytes(999);
    assert!(writer.commit(vec![put], true)[0].is_err());
    assert!(engine.is_full());
    disk.set_free_bytes(1000);
    assert!(!engine.is_full());
}
