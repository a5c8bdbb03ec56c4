//! Reads the log, or its end that the tables do not contain yet, into an index.
//!
//! The list of segments says which groups each segment must have. A group that is missing from a listed segment is
//! lost; one that no listed segment has was removed by compaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::builder::IndexBuilder;
use super::reader::{GroupReader, ReadGroup};
use super::record::{GROUP_HEADER, RECORD_HEADER, Record, TABLE_ENTRY, announced_record_len, hash};
use super::segment::{HEADER, Segment};
use super::segment_list::{AffectedKeys, Damage, ListedSegment, Position, SegmentList};
use super::table::Slot;
use super::{Engine, record_len};
use crate::{CatalogError, LogPosition, Row};

/// Findings of an opening of the catalog.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Damage of the log, including that of earlier starts.
    pub damage: Vec<Damage>,
    /// Damaged files that were written again from intact ones, with what was wrong with them.
    pub repaired: Vec<String>,
    /// Reason why the index was built from the log; `None` if it was loaded.
    pub rebuilt: Option<String>,
    /// Bytes of the log that were read because the index did not contain them.
    pub replayed_bytes: u64,
    /// Bytes of a group at the end of the log that was never acknowledged.
    pub dropped_bytes: u64,
}

/// Problem of a segment that does not exist.
pub const MISSING: &str = "the file is missing";

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

/// Purpose of a reading of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A start: the log ends where its last intact group ends, and it was synced up to this position at least.
    Start {
        /// Position up to which the log is known to have been synced.
        synced: Position,
        /// True if the log ends at this position, because the catalog was closed there.
        is_end: bool,
    },
    /// A new index of the part of the log before this position, while the catalog is in use.
    Repair {
        /// Position at which the reading ends.
        until: Position,
    },
}

/// A reading of the log.
pub struct Replay<'a> {
    engine: &'a Engine,
    builder: IndexBuilder<'a>,
    purpose: Purpose,
    /// Number of the next group; `None` if it is not known.
    expected: Option<u64>,
    /// Damage by the keys that it affects and, if they are unknown, its position.
    damaged: BTreeMap<(AffectedKeys, u32, u64), Damage>,
    /// Hashes of keys that were removed after damage whose keys are unknown.
    removed: BTreeSet<u64>,
    end: Position,
    /// Bytes of the log that were read.
    pub read_bytes: u64,
    /// Bytes of a group at the end of the log that was never acknowledged.
    pub dropped_bytes: u64,
}

/// Result of a reading of the log.
pub struct Replayed<'a> {
    /// Index that was built.
    pub builder: IndexBuilder<'a>,
    /// End of the log.
    pub end: Position,
    /// Damage that was found or known before and is not repaired by a later record.
    pub damage: Vec<Damage>,
    /// Hashes of keys that were removed after damage whose keys are unknown.
    pub removed: BTreeSet<u64>,
}

impl<'a> Replay<'a> {
    /// Creates the reading of what an index does not contain. `known` is the damage that is known already.
    pub fn new(
        engine: &'a Engine,
        builder: IndexBuilder<'a>,
        purpose: Purpose,
        known: &[Damage],
    ) -> Replay<'a> {
        let mut replay = Replay {
            engine,
            builder,
            purpose,
            expected: None,
            damaged: BTreeMap::new(),
            removed: BTreeSet::new(),
            end: Position::default(),
            read_bytes: 0,
            dropped_bytes: 0,
        };
        known.iter().for_each(|damage| replay.add_damage(damage.clone()));
        replay
    }

    fn add_damage(&mut self, damage: Damage) {
        let place = match damage.keys {
            AffectedKeys::Hash(_) => (0, 0),
            AffectedKeys::Indexed | AffectedKeys::Unknown => (damage.segment, damage.offset),
        };
        self.damaged.insert((damage.keys, place.0, place.1), damage);
    }

    fn lose(&mut self, segment: u32, offset: u64, problem: &str) {
        // A removal before the damage does not tell whether the key was written again.
        self.removed.clear();
        self.add_damage(Damage::of_segment(segment, offset, problem, AffectedKeys::Unknown));
    }

    /// Reads the listed segments from a position on.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn run(&mut self, list: &SegmentList, start: Position) -> Result<(), CatalogError> {
        self.end = start;
        let until = match self.purpose {
            Purpose::Start { .. } => u32::MAX,
            Purpose::Repair { until } => until.segment,
        };
        let listed: Vec<_> =
            list.segments.iter().filter(|l| (start.segment..=until).contains(&l.id)).collect();
        for listed in &listed {
            let continues = listed.id == start.segment;
            let from = if continues { start.offset.max(HEADER) } else { HEADER };
            self.expected =
                Some(if continues { start.group.max(listed.first_group) } else { listed.first_group });
            match self.engine.segment(listed.id) {
                Some(segment) => self.segment(&segment, listed, from)?,
                None => self.missing(listed, from),
            }
        }
        if let Purpose::Start { synced, .. } = self.purpose {
            if synced.segment > self.end.segment && synced.group > self.expected.unwrap_or(0) {
                self.lose(synced.segment, HEADER, MISSING);
            }
            // A group that was written but never synced is visible from now on, so it must be durable.
            for segment in listed.iter().filter_map(|listed| self.engine.segment(listed.id)) {
                segment.sync().map_err(CatalogError::Io)?;
            }
            self.end.segment = self.end.segment.max(synced.segment);
            // The numbers of lost groups are not used again.
            self.expected = Some(self.expected.unwrap_or(self.end.group).max(synced.group));
        }
        self.end.group = self.expected.unwrap_or(self.end.group);
        Ok(())
    }

    /// Returns the index, the end of the log and the damage.
    pub fn finish(self) -> Replayed<'a> {
        let damage = self.damaged.into_values().collect();
        Replayed { builder: self.builder, end: self.end, damage, removed: self.removed }
    }

    /// Records the loss of the groups of a segment whose file is missing.
    fn missing(&mut self, listed: &ListedSegment, from: u64) {
        let had_groups = match (listed.end, self.purpose) {
            // A segment without groups has lost nothing.
            (Some(end), _) => Some(end.group) != self.expected,
            // A clean stop knows its end exactly, so an empty last segment has lost nothing.
            (None, Purpose::Start { synced, is_end: true }) if synced.segment == listed.id => {
                synced.offset > from
            }
            // The segment was made durable when it was created, so it has not been lost with the power.
            (None, Purpose::Start { .. }) => true,
            (None, Purpose::Repair { until }) => self.expected.is_none_or(|expected| expected < until.group),
        };
        if had_groups {
            self.lose(listed.id, from, MISSING);
        }
        // The next segment continues behind the lost groups. They are not missing there a second time.
        self.expected = listed.end.map(|end| end.group).or(self.expected);
        self.end.segment = listed.id;
        self.end.offset = from;
    }

    /// Returns the offset at which a segment ends, and the offset up to which it was synced.
    fn limits(&self, listed: &ListedSegment, file: u64) -> (u64, u64) {
        let end = listed.end.map_or(file, |end| end.bytes.min(file));
        match self.purpose {
            // The tables contain only groups that were synced.
            Purpose::Repair { until } if until.segment == listed.id => (end.min(until.offset), u64::MAX),
            Purpose::Repair { .. } => (end, u64::MAX),
            // A segment is synced before the next one is listed.
            _ if listed.end.is_some() => (end, u64::MAX),
            Purpose::Start { synced, .. } if synced.segment == listed.id => (end, synced.offset),
            Purpose::Start { synced, .. } if synced.segment > listed.id => (end, u64::MAX),
            // Nothing else is known: the header was synced before the segment was listed.
            Purpose::Start { .. } => (end, HEADER),
        }
    }

    fn segment(
        &mut self,
        segment: &Arc<Segment>,
        listed: &ListedSegment,
        from: u64,
    ) -> Result<(), CatalogError> {
        let mut reader = GroupReader::new(segment, from)?;
        let (length, known_synced) = self.limits(listed, reader.length);
        reader.length = length;
        // Set by the first damaged group of the last segment.
        let mut synced = None;
        self.end.segment = listed.id;
        let torn_at = loop {
            let at = reader.offset;
            self.end.offset = at;
            if at >= reader.length {
                break at;
            }
            let group = reader.next_group()?;
            if !group.as_ref().is_some_and(ReadGroup::is_intact) {
                // Groups behind the last sync may be incomplete in any order after a power loss.
                let synced = match synced {
                    Some(synced) => synced,
                    None if known_synced == u64::MAX => known_synced,
                    // A later group may prove that this one was synced. Only damage makes this search necessary.
                    None => *synced.insert(known_synced.max(synced_by_groups(segment, at)?)),
                };
                // Nothing proves that the group was synced, so the log ends before it.
                if at >= synced {
                    break at;
                }
            }
            match group {
                Some(group) => self.apply(segment, &group)?,
                None if reader.skip_damage()? => self.unreadable(segment, at, reader.offset)?,
                None => break at,
            }
            self.read_bytes += reader.offset - at;
        };
        let synced = synced.unwrap_or(known_synced);
        let kept = from..=reader.length.max(from);
        assert!(kept.contains(&torn_at), "log segment {} is cut at {torn_at}, outside {kept:?}", segment.id);
        self.end_of(segment, listed, from, torn_at, synced, reader.length)
    }

    /// Handles the end of a segment, whose last readable group ends at `at`.
    fn end_of(
        &mut self,
        segment: &Arc<Segment>,
        listed: &ListedSegment,
        from: u64,
        at: u64,
        synced: u64,
        length: u64,
    ) -> Result<(), CatalogError> {
        match (listed.end, self.purpose) {
            (Some(end), Purpose::Start { .. }) => {
                if self.expected.is_some_and(|expected| expected != end.group) || at < length {
                    self.lose(segment.id, at, "the end of the segment is missing or damaged");
                }
                self.expected = Some(end.group);
            }
            (_, Purpose::Repair { until }) => {
                let end =
                    if until.segment == listed.id { Some(until.group) } else { listed.end.map(|e| e.group) };
                if at < length || end.is_some_and(|end| self.expected.is_some_and(|expected| expected != end))
                {
                    self.lose(segment.id, at, "the end of the segment is missing or damaged");
                }
            }
            (None, Purpose::Start { is_end, .. }) => {
                // The header was durable before the first group, so what has damaged it may have damaged all groups.
                let is_headless = segment.had_damaged_header && at == from && at < length;
                let is_cut = length < at || length < HEADER;
                let is_short = at < if synced == u64::MAX { length } else { synced };
                // After a clean stop, `synced` is the exact end, and `is_short` is enough.
                let is_lost = is_short || (is_headless || is_cut) && !is_end;
                if is_lost {
                    self.lose(segment.id, at, "the end of the log is missing or damaged");
                } else if at < length {
                    self.dropped_bytes += length - at;
                    // Compaction reads up to the end of the file, and would take the rest for damage.
                    segment.file.truncate(at)?;
                    segment.sync().map_err(CatalogError::Io)?;
                }
                segment.bytes.store(at, Ordering::Relaxed);
            }
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
            self.expected = self.expected.map(|expected| expected + 1);
        } else {
            self.lose(segment.id, from, "the header of a group is damaged");
            // Nobody knows how many groups were in these bytes.
            self.expected = None;
        }
        Ok(())
    }

    fn apply(&mut self, segment: &Arc<Segment>, group: &ReadGroup) -> Result<(), CatalogError> {
        let number = group.group.number;
        if self.expected.is_some_and(|expected| number != expected) {
            self.lose(segment.id, group.records_at, "groups before this offset are missing");
        }
        if self.expected.is_some_and(|expected| number < expected) {
            // Its changes are older than those that were applied.
            return Ok(());
        }
        self.expected = Some(number + 1);
        for (record, _, offset, hash) in group.records() {
            match record {
                Some(record) => self.apply_record(segment, &record)?,
                None => {
                    let keys = AffectedKeys::Hash(hash);
                    self.add_damage(Damage::of_segment(segment.id, offset, "a record is damaged", keys));
                }
            }
        }
        Ok(())
    }

    /// Returns true if there is damage whose keys are unknown, and all of it is before a record.
    fn is_behind_unknown_damage(&self, place: &LogPosition) -> bool {
        let mut unknown = self.damaged.keys().filter(|(keys, ..)| *keys == AffectedKeys::Unknown).peekable();
        let at = (place.segment, u64::from(place.offset));
        unknown.peek().is_some() && unknown.all(|(_, segment, offset)| (*segment, *offset) < at)
    }

    fn apply_record(&mut self, segment: &Arc<Segment>, record: &Record) -> Result<(), CatalogError> {
        let key_hash = hash(&record.key);
        // An intact record is newer than the lost one of the same key, and ends the doubt.
        if record.intact {
            self.damaged.remove(&(AffectedKeys::Hash(key_hash), 0, 0));
        }
        if record.head.is_none() && self.is_behind_unknown_damage(&record.place) {
            self.removed.insert(key_hash);
        }
        // The row of a damaged body is intact, so the object is known and its reads fail.
        let slot: Slot =
            record.head.as_ref().map(|head| Row { head: head.clone(), place: record.place, loaded: None });
        // A repair reads records that are counted already.
        if matches!(self.purpose, Purpose::Start { .. }) {
            // Without the old row, only the estimate of the bytes in use is wrong.
            let old = self.builder.get(&record.key, key_hash).ok().flatten();
            if let Some(old) = old
                && let Some(segment) = self.engine.segment(old.place.segment)
            {
                segment.live.fetch_sub(record_len(&old.place), Ordering::Relaxed);
            }
            if slot.is_some() {
                segment.live.fetch_add(record_len(&record.place), Ordering::Relaxed);
            }
        }
        self.builder.insert(record.key.clone(), slot)
    }
}
