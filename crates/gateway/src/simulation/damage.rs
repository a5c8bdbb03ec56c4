//! Damage of stored bytes: flipped bits, overwritten ranges, truncated and missing files.

use std::sync::Arc;

use super::disk::{Faults, SimulatedDisk};
use super::{Model, Random, content, key, read_all, small_limits, value};
use crate::catalog::embedded::Engine;
use crate::catalog::embedded::reader::GroupReader;
use crate::catalog::embedded::recovery::{Recovery, open};
use crate::catalog::embedded::writer::Writer;
use crate::catalog::{Scan, Work};

fn fill(random: &mut Random, engine: &Arc<Engine>, writer: &mut Writer) -> Model {
    let mut model = Model::new();
    for _ in 0..60 {
        let (key, new) = (key(random), random.chance(75).then(|| value(random)));
        match &new {
            Some(value) => model.insert(key.clone(), value.body.to_vec()),
            None => model.remove(&key),
        };
        let work: Work = Box::new(move |t| {
            match new {
                Some(value) => t.put(key, value),
                None => t.delete(key),
            }
            Ok(true)
        });
        assert!(writer.commit(vec![work], true)[0].is_ok());
        if random.chance(20) {
            engine.flush_step().unwrap();
            engine.merge_step(true).unwrap();
        }
    }
    model
}

/// Damages a random file. Returns what was done.
fn damage_random_file(random: &mut Random, disk: &SimulatedDisk, is_clean: bool) -> String {
    let all = disk.files();
    let last = all.iter().filter(|(d, ..)| d == "log").map(|(_, name, _)| name.clone()).max();
    // After a crash, the end of the last segments cannot be told from a write that was cut off.
    let candidates: Vec<_> = all
        .iter()
        .filter(|(_, name, length)| *length > 0 && (is_clean || Some(name) != last.as_ref()))
        .collect();
    let (directory, name, length) = candidates[random.below(candidates.len() as u64) as usize];
    let kinds = if is_clean { 4 } else { 2 };
    match random.below(kinds) {
        0 => {
            let bit = random.below(length * 8);
            disk.tamper(directory, name, |bytes| bytes[bit as usize / 8] ^= 1 << (bit % 8));
            format!("bit {bit} of {directory}/{name}")
        }
        1 => {
            let (start, count) = (random.below(*length), 1 + random.below(300));
            let end = (start + count).min(*length);
            let mut seed = random.clone();
            disk.tamper(directory, name, |bytes| {
                bytes[start as usize..end as usize].iter_mut().for_each(|byte| *byte = seed.next() as u8);
            });
            format!("bytes {start}..{end} of {directory}/{name}")
        }
        2 => {
            let left = random.below(*length);
            disk.tamper(directory, name, |bytes| bytes.truncate(left as usize));
            format!("{directory}/{name} cut to {left} bytes")
        }
        _ => {
            use crate::disk::Disk;
            disk.remove(directory, name).unwrap();
            disk.sync_directory(directory).unwrap();
            format!("{directory}/{name} removed")
        }
    }
}

/// Returns true if the opening, a complete verification of the log, or a scan of the index finds damage.
fn is_detected(engine: &Arc<Engine>, recovery: &Recovery) -> bool {
    if !recovery.damage.is_empty() || recovery.rebuilt.is_some() {
        return true;
    }
    let mut scan = engine.scan();
    loop {
        match scan.next() {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(_) => return true,
        }
    }
    engine.segments().iter().any(|segment| {
        let mut reader = GroupReader::new(segment, 0).unwrap();
        loop {
            let Ok(group) = reader.next_group() else { return true };
            let Some(group) = group else { return reader.offset < reader.length };
            if !group.is_intact() {
                return true;
            }
        }
    })
}

fn simulate(seed: u64) {
    let mut random = Random(seed << 20);
    let disk = SimulatedDisk::new(random.next(), Faults::default());
    let limits = small_limits(&mut random);
    let (engine, mut writer, _) = open(Arc::new(disk.clone()), limits).unwrap();
    let model = fill(&mut random, &engine, &mut writer);
    let is_clean = random.chance(70);
    if is_clean {
        writer.freeze();
        engine.flush().unwrap();
        engine.checkpoint(Some(writer.end())).unwrap();
    }
    assert_eq!(content(&engine), model, "seed {seed}");
    let disk = disk.killed();
    let injury = damage_random_file(&mut random, &disk, is_clean);
    let (engine, _, recovery) = open(Arc::new(disk), limits).unwrap();
    let found = read_all(&engine, &model);
    for (key, expected) in &model {
        let name = String::from_utf8_lossy(key);
        match found.get(key) {
            Some(Ok(body)) => assert_eq!(body, expected, "seed {seed}, {injury}: wrong bytes of {name}"),
            Some(Err(_)) => {}
            None => panic!("seed {seed}, {injury}: {name} is missing without an error"),
        }
    }
    for (key, body) in &found {
        let name = String::from_utf8_lossy(key);
        let is_back = body.is_ok() && !model.contains_key(key);
        assert!(!is_back, "seed {seed}, {injury}: the removed key {name} is back");
    }
    assert!(is_detected(&engine, &recovery), "seed {seed}, {injury}: nothing is detected");
}

#[test]
fn damage_is_detected_and_never_returned_as_content() {
    for seed in 0..super::seeds(400) {
        simulate(seed);
    }
}
