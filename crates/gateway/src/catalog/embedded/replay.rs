//! Reads the end of the log, which the tables do not contain yet, into the index.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::manifest::{Damage, Manifest, Position};
use super::reader::{GroupReader, ReadGroup};
use super::record::{GROUP_HEADER, RECORD_HEADER, Record, TABLE_ENTRY, announced_record_len, hash};
use super::segment::Segment;
use super::table::Slot;
use super::{Engine, record_len};
use crate::catalog::{CatalogError, Row};

/// Findings of an opening of the catalog.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Damage of the log, including that of earlier starts.
    pub damage: Vec<Damage>,
    /// Reason why the index was built from the log; `None` if it was loaded.
    pub rebuilt: Option<String>,
    /// Bytes of the log that were read because the index did not contain them.
    pub replayed_bytes: u64,
    /// Bytes of a group at the end of the log that was never acknowledged.
    pub dropped_bytes: u64,
}

/// Returns the offset up to which the groups behind `from` prove that the segment was synced.
fn synced_by_groups(segment: &Segment, from: u64) -> Result<u64, CatalogError> {
    let mut reader = GroupReader::new(segment, from)?;
    let mut synced = 0;
    loop {
        match reader.next_group()? {
            Some(group) => synced = synced.max(group.group.durable),
            None if reader.skip_damage()? => {}
            None => return Ok(synced),
        }
    }
}

/// The reading of the end of the log.
pub(super) struct Replay<'a> {
    engine: &'a Arc<Engine>,
    /// Number of the next group.
    expected: u64,
    /// Damage by hash of the key, or by position if the keys are unknown.
    damaged: BTreeMap<(Option<u64>, u64), Damage>,
    end: Position,
    recovery: &'a mut Recovery,
    /// True if the whole log is read.
    is_rebuild: bool,
    /// True before the first group of a rebuild, whose number is unknown.
    is_first: bool,
}

impl<'a> Replay<'a> {
    /// Creates the replay of what the tables of a manifest do not contain.
    pub fn new(engine: &'a Arc<Engine>, manifest: &Manifest, recovery: &'a mut Recovery) -> Replay<'a> {
        let mut replay = Replay {
            engine,
            expected: manifest.applied.group,
            damaged: BTreeMap::new(),
            end: manifest.applied,
            recovery,
            is_rebuild: manifest.format == 0,
            is_first: manifest.format == 0,
        };
        for damage in &manifest.damage {
            replay.add_damage(damage.clone());
        }
        replay
    }

    fn add_damage(&mut self, damage: Damage) {
        self.damaged.insert((damage.key_hash, damage.key_hash.map_or(damage.offset, |_| 0)), damage);
    }

    /// Reads the log, and adds the damage to the report. Returns the end of the log.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn run(mut self, manifest: &Manifest) -> Result<Position, CatalogError> {
        let start = manifest.applied;
        let segments: Vec<_> = self.engine.segments().into_iter().filter(|s| s.id >= start.segment).collect();
        for (index, segment) in segments.iter().enumerate() {
            let from = if segment.id == start.segment { start.offset } else { 0 };
            self.segment(segment, from, index + 1 == segments.len(), manifest.clean_end)?;
        }
        if let Some(end) = manifest.clean_end
            && self.end < end
        {
            self.add_damage(Damage::of_segment(
                end.segment,
                self.end.offset,
                "the end of the log is missing",
                None,
            ));
        }
        if self.end.segment < start.segment {
            self.end = start;
        }
        // A group that was written but never synced is visible from now on, so it must be durable.
        for segment in &segments {
            segment.file.sync()?;
        }
        if let Some(last) = segments.last() {
            self.end.segment = self.end.segment.max(last.id);
        }
        self.end.group = self.expected;
        self.recovery.damage.extend(self.damaged.into_values());
        Ok(self.end)
    }

    fn segment(
        &mut self,
        segment: &Arc<Segment>,
        from: u64,
        is_last: bool,
        clean_end: Option<Position>,
    ) -> Result<(), CatalogError> {
        if self.is_rebuild {
            segment.live.store(0, Ordering::Relaxed);
        }
        let may_be_torn = is_last && clean_end.is_none();
        let mut reader = GroupReader::new(segment, from)?;
        let mut synced = None;
        let torn_at = loop {
            let at = reader.offset;
            if at >= reader.length {
                return Ok(());
            }
            let group = reader.next_group()?;
            if may_be_torn && !group.as_ref().is_some_and(ReadGroup::is_intact) {
                // Groups behind the last sync may be incomplete in any order after a power loss.
                let synced = match synced {
                    Some(synced) => synced,
                    None => *synced.insert(synced_by_groups(segment, at)?),
                };
                if at >= synced {
                    break at;
                }
            }
            match group {
                Some(group) => {
                    self.apply(segment, &group)?;
                    self.end = Position { segment: segment.id, offset: reader.offset, group: self.expected };
                    self.recovery.replayed_bytes += reader.offset - at;
                }
                None if reader.skip_damage()? => self.unreadable(segment, at, reader.offset)?,
                None => break at,
            }
        };
        // The tables refer to the bytes before `from`.
        let kept = from..=reader.length;
        assert!(kept.contains(&torn_at), "log segment {} is cut at {torn_at}, outside {kept:?}", segment.id);
        if may_be_torn {
            self.recovery.dropped_bytes += reader.length - torn_at;
            segment.file.truncate(torn_at)?;
            segment.file.sync()?;
            segment.bytes.store(torn_at, Ordering::Relaxed);
        } else if is_last {
            self.add_damage(Damage::of_segment(
                segment.id,
                torn_at,
                "the end of the segment is damaged",
                None,
            ));
        } else {
            // The next segment begins with a later group, which shows whether a group was lost here.
            self.recovery.dropped_bytes += reader.length - torn_at;
        }
        Ok(())
    }

    /// Handles bytes between two offsets whose group header is damaged: applies the records that are intact.
    fn unreadable(&mut self, segment: &Arc<Segment>, from: u64, to: u64) -> Result<(), CatalogError> {
        let mut bytes = vec![0; (to - from) as usize];
        segment.file.read_at(from, &mut bytes)?;
        let mut found = Vec::new();
        let mut at = 0;
        let (mut first, mut covered) = (None, 0);
        while at + RECORD_HEADER <= bytes.len() {
            let length = announced_record_len(segment.salt, &bytes[at..]);
            let record = length.and_then(|length| {
                Record::parse(segment.salt, bytes.get(at..at + length)?, segment.id, from + at as u64)
            });
            let Some(record) = record else {
                at += 1;
                continue;
            };
            first = first.or(Some(at));
            let length = length.unwrap_or(1);
            covered += length;
            at += length;
            found.push(record);
        }
        let count = found.len();
        for record in found {
            self.apply_record(segment, &record)?;
        }
        // The table of the group tells how many records there were, if all of them were found.
        let header = GROUP_HEADER + TABLE_ENTRY * count;
        let complete = first == Some(header) && header + covered == bytes.len();
        if complete {
            self.expected += 1;
        } else {
            self.add_damage(Damage::of_segment(segment.id, from, "the header of a group is damaged", None));
            self.is_first = true;
        }
        Ok(())
    }

    fn apply(&mut self, segment: &Arc<Segment>, group: &ReadGroup) -> Result<(), CatalogError> {
        if group.group.number != self.expected && !self.is_first {
            let problem = "groups before this offset are missing";
            self.add_damage(Damage::of_segment(segment.id, group.records_at, problem, None));
        }
        self.is_first = false;
        self.expected = group.group.number + 1;
        for (record, _, offset, hash) in group.records() {
            match record {
                Some(record) => self.apply_record(segment, &record)?,
                None => {
                    self.add_damage(Damage::of_segment(segment.id, offset, "a record is damaged", Some(hash)))
                }
            }
        }
        Ok(())
    }

    fn apply_record(&mut self, segment: &Arc<Segment>, record: &Record) -> Result<(), CatalogError> {
        let key_hash = hash(&record.key);
        if record.intact {
            self.damaged.remove(&(Some(key_hash), 0));
        }
        // The row of a damaged body is intact, so the object is known and its reads fail.
        let slot: Slot =
            record.head.as_ref().map(|head| Row { head: head.clone(), place: record.place, loaded: None });
        let engine = self.engine;
        let old = engine.view().get(&record.key, key_hash).ok().flatten();
        if let Some(old) = old
            && let Some(segment) = engine.segment(old.place.segment)
        {
            segment.live.fetch_sub(record_len(&old.place), Ordering::Relaxed);
        }
        if slot.is_some() {
            segment.live.fetch_add(record_len(&record.place), Ordering::Relaxed);
        }
        let active = Arc::clone(&engine.view().active);
        active.insert(std::iter::once((record.key.clone(), slot)));
        if active.len() >= engine.limits.memtable_entries {
            engine.flush_replayed(&active)?;
        }
        Ok(())
    }
}
