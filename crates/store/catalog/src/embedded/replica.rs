//! A copy of a log that another process writes: takes its bytes as they are, and adds their changes to the index.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::follow::groups;
use super::reader::ReadGroup;
use super::record::hash;
use super::recovery::{OpenLog, Recovery};
use super::roll::create_segment_at;
use super::segment::{HEADER, Segment};
use super::segment_list::Position;
use super::writer::Writer;
use super::{Engine, record_len};
use crate::{CatalogError, Row};

/// Reason why a copy cannot take bytes.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// The copy has other bytes in their place.
    #[error("the copy of the log has other bytes than the log, from offset {offset} of segment {segment}")]
    Differs {
        /// Number of the segment.
        segment: u32,
        /// Offset in bytes.
        offset: u64,
    },
    /// The copy does not have what is before them.
    #[error("the copy of the log ends before group {0}")]
    Gap(u64),
    /// The bytes are damaged.
    #[error("group {0} of the log is damaged")]
    Damaged(u64),
    /// The disk has failed.
    #[error("{0}")]
    Catalog(#[from] CatalogError),
}

/// Consecutive bytes of a segment of the log.
#[derive(Debug, Clone)]
pub struct Part {
    /// Number of the segment.
    pub segment: u32,
    /// Number of the first group of the segment.
    pub first_group: u64,
    /// Number of the group behind the last one.
    pub next_group: u64,
    /// Offset of the first byte.
    pub offset: u64,
    /// Bytes: the header of the segment, if they begin with it, and whole groups.
    pub bytes: Bytes,
}

/// A copy of a log.
pub struct Replica {
    log: OpenLog,
    /// Last segment; `None` if the log has none.
    segment: Option<Arc<Segment>>,
    log_bytes_since_table: u64,
    /// True if the last group that the copy had when a comparison began was compared with the log.
    is_compared: bool,
}

impl Replica {
    /// Continues an open log.
    pub fn new(log: OpenLog) -> Replica {
        let segment = log.engine.segment(log.end.segment);
        let log_bytes_since_table = log.recovery.replayed_bytes;
        Replica { log, segment, log_bytes_since_table, is_compared: false }
    }

    /// Returns the log and its index.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.log.engine
    }

    /// Returns the end of the log.
    pub fn end(&self) -> Position {
        self.log.end
    }

    /// Adds bytes of the log. Bytes that the copy has already must be the same.
    ///
    /// # Errors
    /// If they differ or do not follow, are damaged, or the disk fails.
    pub fn append(&mut self, part: &Part) -> Result<(), ReplicaError> {
        let end = self.log.end;
        if part.segment < end.segment {
            return self.compare_earlier(part);
        }
        if part.segment > end.segment || self.segment.is_none() {
            self.begin_segment(part)?;
        }
        let Some(segment) = self.segment.clone() else { return Err(ReplicaError::Gap(part.first_group)) };
        let at = self.log.end.offset;
        if part.offset > at {
            return Err(ReplicaError::Gap(self.log.end.group));
        }
        let known = ((at - part.offset) as usize).min(part.bytes.len());
        self.compare(&segment, part, known)?;
        self.is_compared |= part.offset.max(HEADER) < at;
        let new = part.bytes.slice(known..);
        if new.is_empty() {
            return Ok(());
        }
        let found: Vec<ReadGroup> = groups(self.log.engine.salt, segment.id, at, new.clone()).collect();
        let is_whole = found.last().is_some_and(|last| last.end() == at + new.len() as u64);
        let first = found.first().map_or(end.group, |group| group.group.number);
        let mut next = first..;
        let is_next = found.iter().all(|group| next.next() == Some(group.group.number) && group.is_intact());
        // Checked before the write: damaged groups of the place must not get into the copy.
        if !is_whole || !is_next {
            return Err(ReplicaError::Damaged(end.group));
        }
        if first != end.group {
            // The copy has other groups, and ends at the same offset.
            return Err(ReplicaError::Differs { segment: part.segment, offset: part.offset });
        }
        // Not synced here: until `sync`, the place has these bytes.
        segment.file.write_at(at, &new).map_err(CatalogError::from)?;
        let length = at + new.len() as u64;
        segment.bytes.store(length, Ordering::Relaxed);
        found.iter().try_for_each(|group| self.apply(&segment, group))?;
        // After the index: a table must not claim to have groups that are only in the log.
        self.log.end =
            Position { segment: segment.id, offset: length, group: end.group + found.len() as u64 };
        self.log_bytes_since_table += new.len() as u64;
        self.log.recovery.replayed_bytes += new.len() as u64;
        // A copy has no thread that writes tables.
        if self.log.engine.is_memtable_full(self.log_bytes_since_table) {
            self.log_bytes_since_table = 0;
            self.log.engine.freeze(self.log.end);
            self.log.engine.flush()?;
        }
        Ok(())
    }

    /// Begins to compare: the copy may have other groups than the log, until its last group was compared with it.
    pub fn begin_comparison(&mut self) {
        self.is_compared = false;
    }

    /// Returns true if the last group that the copy had when the comparison began was compared with the log.
    pub fn is_compared(&self) -> bool {
        self.is_compared
    }

    /// Compares a part that is before the last segment of the copy. Only the last group matters, which is there if the
    /// last segment has no group yet.
    fn compare_earlier(&mut self, part: &Part) -> Result<(), ReplicaError> {
        let end = self.log.end;
        if part.next_group > end.group {
            // Another segment of the copy is in place of this one.
            return Err(ReplicaError::Gap(end.group));
        }
        if part.next_group < end.group || self.is_compared {
            return Ok(());
        }
        let segment = self.log.engine.segment(part.segment).ok_or(ReplicaError::Gap(end.group))?;
        if segment.bytes.load(Ordering::Relaxed) < part.offset + part.bytes.len() as u64 {
            return Err(ReplicaError::Differs { segment: part.segment, offset: part.offset });
        }
        self.compare(&segment, part, part.bytes.len())?;
        self.is_compared = true;
        Ok(())
    }

    /// Compares the bytes that the copy has already.
    fn compare(&self, segment: &Segment, part: &Part, length: usize) -> Result<(), ReplicaError> {
        let mut own = vec![0; length];
        segment.file.read_at(part.offset, &mut own).map_err(CatalogError::from)?;
        // Groups say up to which offset their writer had synced, in the same way in all copies.
        if own[..] == part.bytes[..length] {
            Ok(())
        } else {
            Err(ReplicaError::Differs { segment: part.segment, offset: part.offset })
        }
    }

    /// Creates the segment to which bytes belong.
    fn begin_segment(&mut self, part: &Part) -> Result<(), ReplicaError> {
        let end = self.log.end;
        // The first bytes are the header of the segment, which is written with the file.
        if part.offset > 0 || part.first_group != end.group || (part.bytes.len() as u64) < HEADER {
            return Err(ReplicaError::Gap(end.group));
        }
        if let Some(before) = &self.segment {
            // A replay drops an incomplete group only from the last segment: see `Writer::roll`.
            before.sync().map_err(CatalogError::Stopped)?;
        }
        // The number is that of the log, because the checksums of groups contain it.
        let segment = create_segment_at(&self.log.engine, &end, part.segment)?;
        self.log.end = Position { segment: segment.id, offset: HEADER, group: end.group };
        self.segment = Some(segment);
        Ok(())
    }

    /// Adds the changes of a group to the index.
    fn apply(&self, segment: &Segment, group: &ReadGroup) -> Result<(), CatalogError> {
        let engine = &self.log.engine;
        let mut last = BTreeMap::new();
        for (record, ..) in group.records() {
            // `append` has verified all records.
            let Some(record) = record else { continue };
            let row = record.head.map(|head| Row { head, place: record.place, loaded: None });
            last.insert(record.key, row);
        }
        engine.forget_damage(last.iter().map(|(key, row)| (hash(key), row.is_some())));
        for (key, row) in &last {
            let old = engine.read_index(|view| view.get(key, hash(key)))?;
            if let Some(old) = old
                && let Some(before) = engine.segment(old.place.segment)
            {
                before.live.fetch_sub(record_len(&old.place), Ordering::Relaxed);
            }
            if let Some(row) = row {
                segment.live.fetch_add(record_len(&row.place), Ordering::Relaxed);
            }
        }
        engine.view().active.insert(last.into_iter().map(|(key, row)| (key.to_vec(), row)));
        Ok(())
    }

    /// Removes the segments that the writer of the log has removed: those that are not in `live`, the segments in use
    /// when the log ended where the copy ends, or before.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn remove_unused(&self, live: &[u32]) -> Result<(), CatalogError> {
        let engine = &self.log.engine;
        // A start needs the segments from `applied` on, and `live` may be older than the newest segments of the copy.
        let (applied, newest) = (engine.applied().segment, live.last().copied().unwrap_or(0));
        // The oldest first: a removed key must not come back.
        for segment in engine.segments().iter().filter(|segment| segment.id < applied.min(newest)) {
            if !live.contains(&segment.id) {
                engine.remove_segment(segment.id)?;
            }
        }
        Ok(())
    }

    /// Merges tables of the index until there are few.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn merge(&self) -> Result<(), CatalogError> {
        while self.log.engine.merge_step(false)? {}
        Ok(())
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn sync(&self) -> Result<(), CatalogError> {
        self.segment.as_ref().map_or(Ok(()), |segment| segment.sync()).map_err(CatalogError::Stopped)?;
        // After the sync: `Tail::is_in` counts only synced groups.
        self.log.engine.set_synced(self.log.end);
        Ok(())
    }

    /// Ends the copy, and keeps its log open.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn into_log(self) -> Result<OpenLog, CatalogError> {
        self.sync()?;
        Ok(self.log)
    }

    /// Ends the copy with a table that has all of it, so that the next reading of the log is short.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn close(self) -> Result<(), CatalogError> {
        self.sync()?;
        self.log.engine.freeze(self.log.end);
        self.log.engine.flush()
    }

    /// Ends the copy: the process writes the log from now on.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn into_writer(self) -> Result<(Arc<Engine>, Writer, Recovery), CatalogError> {
        // The next segment may exist only after this: see `Writer::roll`.
        self.sync()?;
        self.log.into_writer()
    }
}
