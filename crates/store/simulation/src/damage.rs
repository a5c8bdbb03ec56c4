//! Damage of stored bytes: flipped bits, zeroed, overwritten and misdirected ranges, truncated, missing, swapped and
//! copied files, and old copies of files.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::disk::{Faults, SimulatedDisk};
use super::power_loss::compact;
use super::{Model, Random, content, key, read_all, small_limits, value};
use plimsoll_catalog::embedded::compaction::Step;
use plimsoll_catalog::embedded::reader::GroupReader;
use plimsoll_catalog::embedded::recovery::{Recovery, open};
use plimsoll_catalog::embedded::segment::file_name;
use plimsoll_catalog::embedded::segment_list::AffectedKeys;
use plimsoll_catalog::embedded::writer::Writer;
use plimsoll_catalog::embedded::{CatalogLimits, Engine};
use plimsoll_catalog::{CatalogError, LogPosition, Value, Work};

/// Contents of files, by directory and name.
type Files = BTreeMap<(String, String), Vec<u8>>;
/// Results of reads, by key; a key without a row is missing.
type Found = BTreeMap<Vec<u8>, Result<Vec<u8>, plimsoll_catalog::CatalogError>>;

/// Changes keys, and flushes, merges and compacts in between. Returns the files at a random moment.
fn fill(
    random: &mut Random,
    disk: &SimulatedDisk,
    engine: &Arc<Engine>,
    writer: &mut Writer,
    model: &mut Model,
) -> Files {
    let moment = random.below(60);
    let mut old = Files::new();
    for step in 0..60 {
        let (key, new) = (key(random), random.chance(75).then(|| value(random)));
        match &new {
            Some(value) => model.insert(key.clone(), value.body.to_vec()),
            None => model.remove(&key),
        };
        let work: Work = Box::new(move |t| {
            match new.clone() {
                Some(value) => t.put(key.clone(), value),
                None => t.delete(key.clone()),
            }
            Ok(true)
        });
        assert!(writer.commit(vec![work], true)[0].is_ok());
        if random.chance(20) {
            engine.flush_step().unwrap();
            engine.merge_step(true).unwrap();
        }
        if random.chance(10) {
            assert!(compact(engine, writer, true));
        }
        if step == moment {
            old = disk.contents();
        }
    }
    old
}

/// A damaged disk.
struct Injury {
    /// Description for messages.
    text: String,
    /// Ranges of changed bytes, by log segment.
    log: BTreeMap<String, Range<usize>>,
}

/// Returns the range of the bytes that differ.
fn difference(before: &[u8], after: &[u8]) -> Option<Range<usize>> {
    let differs = |at: &usize| before.get(*at) != after.get(*at);
    let longest = before.len().max(after.len());
    let start = (0..longest).find(differs)?;
    let end = (0..longest).rev().find(differs)? + 1;
    Some(start..end)
}

/// Damages one file, or two that are swapped.
fn injure(random: &mut Random, disk: &SimulatedDisk, old: &Files) -> Injury {
    let before = disk.contents();
    let names: Vec<_> = before.keys().filter(|name| !before[*name].is_empty()).cloned().collect();
    let name = &names[random.below(names.len() as u64) as usize];
    let siblings: Vec<_> = names.iter().filter(|other| other.0 == name.0 && *other != name).collect();
    let other = match siblings.len() {
        0 => name,
        count => siblings[random.below(count as u64) as usize],
    };
    let mut bytes = before[name].clone();
    let start = random.below(bytes.len() as u64) as usize;
    let end = (start + 1 + random.below(300) as usize).min(bytes.len());
    let kind = random.below(9);
    match kind {
        0 => bytes[start] ^= 1 << random.below(8),
        1 => bytes[start..end].fill(0),
        2 => bytes[start..end].iter_mut().for_each(|byte| *byte = random.draw() as u8),
        3 => {
            let source = &before[other];
            let from = random.below(source.len() as u64) as usize;
            let count = (end - start).min(source.len() - from);
            bytes[start..start + count].copy_from_slice(&source[from..from + count]);
        }
        4 => bytes.truncate(start),
        6 | 7 => bytes.clone_from(&before[other]),
        8 => bytes = old.get(name).cloned().unwrap_or(bytes),
        _ => {}
    }
    disk.tamper(&name.0, &name.1, (kind != 5).then_some(bytes));
    if kind == 6 {
        disk.tamper(&other.0, &other.1, Some(before[name].clone()));
    }
    let what = ["flip", "zeroes", "noise", "misdirected", "cut", "removed", "swapped", "copy", "old copy"];
    let text = format!("{} {start}..{end} of {}/{} ({})", what[kind as usize], name.0, name.1, other.1);
    let after = disk.contents();
    let mut log = BTreeMap::new();
    for (name, before) in before.iter().filter(|(name, _)| name.1.ends_with(".log")) {
        let empty = Vec::new();
        if let Some(range) = difference(before, after.get(name).unwrap_or(&empty)) {
            log.insert(name.1.clone(), range);
        }
    }
    Injury { text, log }
}

/// Returns true if a changed range contains bytes of the properties or the body of a record.
fn is_hit(place: &LogPosition, injury: &Injury) -> bool {
    let start = (place.offset + place.skip) as usize;
    let end = start + (place.properties + place.body) as usize;
    injury.log.get(&file_name(place.segment)).is_some_and(|range| range.start < end && start < range.end)
}

/// Returns true if the opening, a complete verification of the log, or one of the index finds damage.
fn is_detected(engine: &Arc<Engine>, recovery: &Recovery) -> bool {
    if !recovery.damage.is_empty() || !recovery.repaired.is_empty() || recovery.rebuilt.is_some() {
        return true;
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

/// Checks that no read returns other bytes than those that were written, and that no removed key is back.
fn check_bytes(found: &Found, model: &Model, text: &str) {
    for (key, expected) in model {
        let name = String::from_utf8_lossy(key);
        match found.get(key) {
            Some(Ok(body)) => assert_eq!(body, expected, "{text}: wrong bytes of {name}"),
            Some(Err(_)) => {}
            None => panic!("{text}: {name} is missing without an error"),
        }
    }
    for (key, body) in found {
        let name = String::from_utf8_lossy(key);
        assert!(body.is_err() || model.contains_key(key), "{text}: the removed key {name} is back");
    }
}

/// Returns the keys whose reads fail.
fn failing(found: &Found) -> Vec<Vec<u8>> {
    found.iter().filter(|(_, body)| body.is_err()).map(|(key, _)| key.clone()).collect()
}

/// Returns a catalog on a disk, after a life of its process with compactions, and the files at a random moment.
fn live(
    random: &mut Random,
    limits: CatalogLimits,
    disk: &SimulatedDisk,
) -> (Model, Files, BTreeMap<Vec<u8>, LogPosition>, bool) {
    let mut model = Model::new();
    let (engine, mut writer, _) = open(Arc::new(disk.clone()), limits).unwrap();
    fill(random, disk, &engine, &mut writer, &mut model);
    drop((engine, writer));
    let (engine, mut writer, recovery) = open(Arc::new(disk.clone()), limits).unwrap();
    assert!(recovery.damage.is_empty(), "{:?}", recovery.damage);
    let old = fill(random, disk, &engine, &mut writer, &mut model);
    let is_clean = random.chance(60);
    if is_clean {
        writer.freeze();
        engine.flush().unwrap();
        engine.checkpoint(Some(writer.end())).unwrap();
    }
    assert_eq!(content(&engine).unwrap(), model);
    let places = model.keys().map(|key| (key.clone(), engine.get(key).unwrap().unwrap().place)).collect();
    (model, old, places, is_clean)
}

fn simulate(seed: u64) {
    let mut random = Random(seed << 20);
    let disk = SimulatedDisk::new(random.draw(), Faults::default());
    let limits = small_limits(&mut random);
    let (model, old, places, is_clean) = live(&mut random, limits, &disk);
    let disk = disk.killed();
    let injury = injure(&mut random, &disk, &old);
    let text = format!("seed {seed}, {}, clean stop: {is_clean}", injury.text);
    let (engine, mut writer, recovery) = open(Arc::new(disk.clone()), limits).unwrap();
    let found = read_all(&engine, &model);
    check_bytes(&found, &model, &text);
    let is_unknown = recovery.damage.iter().any(|damage| damage.keys == AffectedKeys::Unknown);
    let expected: Vec<_> =
        places.iter().filter(|(_, place)| is_hit(place, &injury)).map(|(key, _)| key.clone()).collect();
    if injury.log.is_empty() {
        assert!(recovery.damage.is_empty(), "{text}: invented {:?}", recovery.damage);
        assert_eq!(failing(&found), expected, "{text}: the log is intact");
    } else {
        assert!(is_detected(&engine, &recovery), "{text}: nothing is detected");
        if is_clean {
            assert_eq!(failing(&found), expected, "{text}: {:?}", recovery.damage);
        } else if !is_unknown {
            let all = failing(&found);
            assert!(expected.iter().all(|key| all.contains(key)), "{text}: a loss is not reported");
        }
    }
    // Neither compaction nor a rebuild of the index nor its loss makes damage disappear.
    writer.freeze();
    engine.flush().unwrap();
    for _ in 0..engine.segments().len() {
        compact(&engine, &mut writer, true);
    }
    let compacted = read_all(&engine, &model);
    check_bytes(&compacted, &model, &format!("{text}, compacted"));
    assert_eq!(failing(&compacted), failing(&found), "{text}: after compaction");
    engine.rebuild_index().unwrap();
    let rebuilt = read_all(&engine, &model);
    assert_eq!(failing(&rebuilt), failing(&found), "{text}: after a rebuild");
    drop((engine, writer));
    let disk = disk.killed();
    for (directory, name) in disk.contents().into_keys().filter(|(directory, _)| directory == "index") {
        disk.tamper(&directory, &name, None);
    }
    let (engine, _, _) = open(Arc::new(disk.clone()), limits).unwrap();
    let without_index = read_all(&engine, &model);
    check_bytes(&without_index, &model, &text);
    let all = failing(&without_index);
    assert!(
        failing(&found).iter().all(|key| all.contains(key)),
        "{text}: damage is forgotten with the index"
    );
    if injury.log.is_empty() {
        assert!(all.is_empty(), "{text}: without the index, {all:?} fail although the log is intact");
    }
    drop(engine);
    write_again(&mut random, limits, disk, &text);
}

/// Writes or removes every key, which ends all doubt about it, also after the next start.
fn write_again(random: &mut Random, limits: CatalogLimits, disk: SimulatedDisk, text: &str) {
    let (engine, mut writer, _) = open(Arc::new(disk.clone()), limits).unwrap();
    let mut model = Model::new();
    for number in 0..40 {
        let (key, new) = (format!("key-{number}").into_bytes(), random.chance(50).then(|| value(random)));
        if let Some(value) = &new {
            model.insert(key.clone(), value.body.to_vec());
        }
        let work: Work = Box::new(move |t| {
            t.last_known(&key)?;
            match new.clone() {
                Some(value) => t.put(key.clone(), value),
                None => t.delete(key.clone()),
            }
            Ok(true)
        });
        assert!(writer.commit(vec![work], true)[0].is_ok());
    }
    assert_eq!(content(&engine).unwrap(), model, "{text}: every key was written or removed");
    if random.chance(50) {
        writer.freeze();
        engine.flush().unwrap();
    }
    drop((engine, writer));
    let (engine, _, _) = open(Arc::new(disk.killed()), limits).unwrap();
    assert_eq!(content(&engine).unwrap(), model, "{text}: after the next start");
}

#[test]
fn damage_is_detected_named_exactly_and_never_returned_as_content() {
    for seed in 0..super::seeds(1000) {
        simulate(seed);
    }
}

/// Regression test: a start created an empty catalog in place of a log whose lists and headers were all lost.
/// Regression test: the index referred to the damaged copies, so the next compaction found nothing in use in the
/// segment, and removed the only intact records.
#[test]
fn copies_that_a_compaction_finds_damaged_are_written_again() {
    let mut random = Random(7);
    let disk = SimulatedDisk::new(1, Faults::default());
    let limits = CatalogLimits { segment_bytes: 4000, ..small_limits(&mut random) };
    let (engine, mut writer, _) = open(Arc::new(disk.clone()), limits).unwrap();
    let mut model = Model::new();
    // More than the segments have, so that the older ones have garbage.
    fill(&mut random, &disk, &engine, &mut writer, &mut model);
    fill(&mut random, &disk, &engine, &mut writer, &mut model);
    let mut damaged = 0;
    while let Some(mut compaction) = engine.choose_compaction(true) {
        while let Step::Copy(batch, keys) = compaction.step(&engine).unwrap() {
            let mut is_first = true;
            let commit = |work: Work| {
                let before = disk.contents();
                let result = writer.commit(vec![work], true).pop().unwrap();
                if std::mem::take(&mut is_first) {
                    damaged += damage_what_is_new(&disk, &before);
                }
                result
            };
            compaction.copy(&engine, batch, &keys, commit).unwrap();
        }
        engine.end_compaction(compaction).unwrap();
    }
    assert!(damaged > 0);
    assert_eq!(content(&engine).unwrap(), model);
}

/// Regression test: a row whose record was gone had its old head with the properties and the body of the newer row, and
/// a removed row was damaged.
#[test]
fn a_row_that_was_replaced_and_compacted_is_changed() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let mut random = Random(7);
    let limits = CatalogLimits { segment_bytes: 4000, ..small_limits(&mut random) };
    let (engine, mut writer, _) = open(Arc::new(disk), limits).unwrap();
    let mut put = |key: &'static str, value: Option<Value>| {
        let work: Work = Box::new(move |t| {
            match value.clone() {
                Some(value) => t.put(key.into(), value),
                None => t.delete(key.into()),
            }
            Ok(true)
        });
        assert!(writer.commit(vec![work], true)[0].is_ok());
    };
    let value = |head: &'static str, body: usize| Value {
        head: head.into(),
        body: vec![1; body].into(),
        ..Value::default()
    };
    for key in ["moved", "replaced", "removed"] {
        put(key, Some(value("first", 10)));
    }
    let rows = ["moved", "replaced", "removed"].map(|key| engine.get(key.as_bytes()).unwrap().unwrap());
    put("replaced", Some(value("second", 20)));
    put("removed", None);
    for _ in 0..20 {
        put("more", Some(value("more", 1000)));
    }
    for _ in 0..20 {
        writer.freeze();
        engine.flush_step().unwrap();
        assert!(compact(&engine, &mut writer, true));
    }
    assert!(
        engine.segments().iter().all(|segment| segment.id > rows[0].place.segment),
        "the first segment is gone"
    );
    let read = |key: &str, at: usize| engine.read(key.as_bytes(), &rows[at], true);
    assert_eq!(read("moved", 0).unwrap().body.len(), 10);
    assert!(matches!(read("replaced", 1), Err(CatalogError::Changed)));
    assert!(matches!(read("removed", 2), Err(CatalogError::Changed)));
}

/// Changes the bytes that log segments have more than before. Returns the number of segments.
fn damage_what_is_new(disk: &SimulatedDisk, before: &Files) -> usize {
    let mut count = 0;
    for ((directory, name), mut content) in disk.contents() {
        let old = before.get(&(directory.clone(), name.clone())).cloned().unwrap_or_default();
        if directory == "log" && content.len() > old.len() && !old.is_empty() {
            content[old.len()..].iter_mut().for_each(|byte| *byte ^= 0x55);
            disk.tamper(&directory, &name, Some(content));
            count += 1;
        }
    }
    count
}

#[test]
fn a_log_without_lists_is_read_if_a_header_is_intact_and_never_replaced() {
    let mut random = Random(5);
    let disk = SimulatedDisk::new(1, Faults::default());
    // Compaction leaves some segments, because they are larger than their garbage.
    let limits = CatalogLimits { garbage_share: 0.9, idle_garbage_share: 0.9, ..small_limits(&mut random) };
    let mut model = Model::new();
    for _ in 0..4 {
        let (engine, mut writer, _) = open(Arc::new(disk.clone()), limits).unwrap();
        fill(&mut random, &disk, &engine, &mut writer, &mut model);
    }
    let files = disk.contents();
    for (directory, name) in files.keys().filter(|(_, name)| !name.ends_with(".log")) {
        disk.tamper(directory, name, None);
    }
    let segments: Vec<_> = files.keys().filter(|(_, name)| name.ends_with(".log")).collect();
    assert!(segments.len() > 2, "{segments:?}");
    for (directory, name) in &segments[1..] {
        let mut bytes = files[&(directory.clone(), name.clone())].clone();
        bytes[5] ^= 1;
        disk.tamper(directory, name, Some(bytes));
    }
    let (engine, _, _) = open(Arc::new(disk.killed()), limits).unwrap();
    check_bytes(&read_all(&engine, &model), &model, "one intact header");
    assert_eq!(content(&engine).unwrap(), model);
    let (directory, name) = segments[0];
    let mut bytes = files[segments[0]].clone();
    bytes[5] ^= 1;
    disk.tamper(directory, name, Some(bytes));
    let before = disk.contents();
    let disk = disk.killed();
    let error = open(Arc::new(disk.clone()), limits).err().unwrap();
    assert!(error.to_string().contains("no header"), "{error}");
    assert_eq!(disk.contents(), before);
}
