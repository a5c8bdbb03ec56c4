//! Compaction of the log as a move: copies the records of a segment that are still in use to the end of the log, and
//! removes the segment.
//!
//! The states are those of every move. INTENT: a segment is chosen; nothing has to be recorded, because its copies are
//! ordinary records. COPIED: a transaction that finds the record still in use writes it again. VERIFIED: the copy is
//! read back. SWITCHED: the same transaction has changed the place of the key. REAPED: the segment is removed after the
//! manifest without it is durable. Repeating any of them changes nothing.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::Engine;
use super::reader::GroupReader;
use super::record::{Change, hash};
use super::segment::{HEADER, Segment};
use crate::{CatalogError, LogPosition, Work};

/// Number of bytes after which a transaction copies no further group. The transactions of clients wait meanwhile.
const BATCH_BYTES: usize = 1 << 20;

/// Records to copy in one transaction.
#[derive(Clone)]
pub struct Batch {
    /// Records with their places; the place is `None` for the removal of a key.
    records: Arc<[(Change, Option<LogPosition>)]>,
}

impl Batch {
    /// Returns the size of the records in bytes.
    pub fn bytes(&self) -> usize {
        self.records.iter().map(|(change, _)| change.record_len()).sum()
    }

    /// Returns the transaction that copies those records that are still in use. `keep_removals` is true if an older
    /// segment may contain a removed key.
    fn work(self, keep_removals: bool) -> Work {
        Box::new(move |transaction| {
            // Copies free space in the end, so a full disk must not refuse them.
            transaction.use_reserve();
            for (change, place) in self.records.iter() {
                let row = transaction.get(&change.key)?;
                match (&change.value, place) {
                    (Some(value), Some(place)) => {
                        // A client may have replaced or removed the record since `step` has read it.
                        if row.is_some_and(|row| row.place == *place) {
                            transaction.put(change.key.clone(), value.clone());
                        }
                    }
                    _ => {
                        // Without a copy, a rebuilt index would return the key from an older segment.
                        if row.is_none() && keep_removals {
                            transaction.delete(change.key.clone());
                        }
                    }
                }
            }
            Ok(true)
        })
    }

    /// Returns the transaction that writes those records again whose copies are damaged.
    fn again(self) -> Work {
        Box::new(move |transaction| {
            transaction.use_reserve();
            for (change, _) in self.records.iter() {
                let Some(row) = transaction.get(&change.key)? else { continue };
                // A newer record of a client is intact, and stays.
                let is_damaged = matches!(transaction.value(&row), Err(CatalogError::Damaged { .. }));
                if let (Some(value), true) = (&change.value, is_damaged) {
                    transaction.put(change.key.clone(), value.clone());
                }
            }
            Ok(true)
        })
    }

    /// Checks that no key is left in the segment and that all copies can be read.
    ///
    /// # Errors
    /// If a copy is damaged.
    fn verify(keys: &[Vec<u8>], segment: u32, engine: &Engine) -> Result<bool, CatalogError> {
        for key in keys {
            if let Some(row) = engine.get(key)? {
                if row.place.segment == segment {
                    return Ok(false);
                }
                engine.read(key, &row, true)?;
            }
        }
        Ok(true)
    }
}

/// The compaction of one segment.
pub struct Compaction {
    segment: Arc<Segment>,
    offset: u64,
    keep_removals: bool,
    /// True after a step has found nothing that is still in use.
    is_copied: bool,
    /// True between a batch and the verification of its copies.
    is_unverified: bool,
}

/// Result of one step of a compaction.
pub enum Step {
    /// A transaction to commit, and the keys to verify afterwards.
    Copy(Batch, Vec<Vec<u8>>),
    /// The segment contains nothing that is still in use.
    Copied,
}

impl Engine {
    /// Returns true if the disk has too little free space for writes.
    pub fn is_full(&self) -> bool {
        // Only writes that need space look at the disk. Without this look, a disk that has space again would seem full
        // until the next of them, and the background would let go of everything that was deleted.
        let has_space = || self.disk.free_bytes().is_ok_and(|free| free >= self.limits.reserve_bytes);
        if self.is_full.load(Ordering::Relaxed) && has_space() {
            self.is_full.store(false, Ordering::Relaxed);
        }
        self.is_full.load(Ordering::Relaxed)
    }

    /// Returns true if the disk is full and the last segment has garbage. Compaction cannot remove it while the segment
    /// is the last one.
    pub fn should_end_segment(&self) -> bool {
        let last = self.segments().pop();
        let has_garbage = |segment: Arc<Segment>| {
            segment.bytes.load(Ordering::Relaxed) > HEADER && segment.garbage() >= self.limits.garbage_share
        };
        self.is_full() && last.is_some_and(has_garbage)
    }

    /// Returns the compaction of the segment from which it gains most; `None` if no segment has enough garbage; with
    /// `idle`, less is enough. The benefit is (1 - u) x age / (1 + u), where u is the share in use (Rosenblum and
    /// Ousterhout, "The Design and Implementation of a Log-Structured File System", 1992).
    pub fn choose_compaction(&self, idle: bool) -> Option<Compaction> {
        let share = if idle { self.limits.idle_garbage_share } else { self.limits.garbage_share };
        let applied = self.applied().segment;
        let segments = self.segments();
        // A segment that the replay of the log would need, or that has unreadable records, stays. So does the last one,
        // which receives the copies.
        let mut unmovable = self.unmovable.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // A segment that waits for the backup has no row in use. Chosen again, it would be removed twice.
        unmovable.extend(self.waiting_segments());
        // A segment that lost its end has nothing to copy. Without its file, a rebuilt index would not know of the
        // loss.
        unmovable.extend(self.damage().iter().map(|damage| damage.segment));
        let candidates = segments.iter().filter(|segment| {
            segment.id < applied && segment.garbage() >= share && !unmovable.contains(&segment.id)
        });
        let benefit = |segment: &Arc<Segment>| {
            let used = 1.0 - segment.garbage();
            (1.0 - used) * f64::from(applied - segment.id) / (1.0 + used)
        };
        let best = candidates.max_by(|a, b| benefit(a).total_cmp(&benefit(b)))?;
        // Before the oldest segment, there is no record that a removal must hide.
        let keep_removals = segments.iter().any(|segment| segment.id < best.id);
        let segment = Arc::clone(best);
        Some(Compaction { segment, offset: 0, keep_removals, is_copied: false, is_unverified: false })
    }
}

impl Compaction {
    /// Excludes the segment from later compactions, because it has a damaged record.
    pub fn give_up(&self, engine: &Engine) {
        engine.unmovable.lock().unwrap_or_else(PoisonError::into_inner).insert(self.segment.id);
    }

    /// Returns the number of the segment.
    pub fn segment(&self) -> u32 {
        self.segment.id
    }

    /// Returns the next records to copy.
    ///
    /// # Errors
    /// If the segment is damaged or cannot be read; it then stays.
    pub fn step(&mut self, engine: &Engine) -> Result<Step, CatalogError> {
        let id = self.segment.id;
        assert!(!self.is_unverified, "the compaction of log segment {id} continues with unverified copies");
        let mut records = Vec::new();
        let mut bytes = 0;
        let mut reader = GroupReader::new(&self.segment, self.offset)?;
        while bytes < BATCH_BYTES {
            let Some(group) = reader.next_group()? else {
                // Records in use may follow the damage, so the segment must stay.
                if reader.offset < reader.length {
                    return Err(self.segment.damaged(reader.offset, "the header of a group is damaged"));
                }
                break;
            };
            for (record, data, offset, _) in group.records() {
                let record = record.filter(|record| record.intact);
                let Some(record) = record else {
                    return Err(self.segment.damaged(offset, "a record is damaged"));
                };
                let key_hash = hash(&record.key);
                let row = engine.read_index(|view| view.get(&record.key, key_hash))?;
                let is_used = match &record.head {
                    Some(_) => row.as_ref().is_some_and(|row| row.place == record.place),
                    None => row.is_none() && self.keep_removals,
                };
                if is_used {
                    // A copy would look newer than the lost record that may have replaced this one.
                    engine.check_damage(key_hash, row.as_ref())?;
                    bytes += data.len();
                    let place = record.head.is_some().then_some(record.place);
                    records.push((record.change(data), place));
                }
            }
            self.offset = reader.offset;
        }
        if records.is_empty() && reader.offset >= reader.length {
            self.is_copied = true;
            return Ok(Step::Copied);
        }
        self.is_unverified = true;
        let keys = records.iter().map(|(change, _)| change.key.clone()).collect();
        engine.counters.compacted_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(Step::Copy(Batch { records: records.into() }, keys))
    }

    /// Commits the copies of a batch with `commit`, and verifies them. Damaged copies are written again, once.
    ///
    /// # Errors
    /// The error of `commit`; [`CatalogError::Damaged`] if a copy is damaged again, or a record is still in the
    /// segment. The segment then stays.
    pub fn copy(
        &mut self,
        engine: &Engine,
        batch: Batch,
        keys: &[Vec<u8>],
        mut commit: impl FnMut(Work) -> Result<(), CatalogError>,
    ) -> Result<(), CatalogError> {
        commit(batch.clone().work(self.keep_removals))?;
        match self.verify(engine, keys) {
            // The index refers to the damaged copies, so a later compaction would find nothing in use in this segment,
            // and remove the only intact records.
            Err(CatalogError::Damaged { .. }) => {
                commit(batch.again())?;
                self.verify(engine, keys)
            }
            verified => verified,
        }
    }

    /// Verifies the copies of a committed batch.
    fn verify(&mut self, engine: &Engine, keys: &[Vec<u8>]) -> Result<(), CatalogError> {
        if Batch::verify(keys, self.segment.id, engine)? {
            self.is_unverified = false;
            return Ok(());
        }
        Err(self.segment.damaged(0, "a record was not moved"))
    }

    /// Removes the segment, whose records have all been moved.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn remove_segment(&self, engine: &Engine) -> Result<(), CatalogError> {
        let id = self.segment.id;
        assert!(self.is_copied, "log segment {id} is removed before all its records in use were copied");
        assert!(!self.is_unverified, "log segment {id} is removed before its copies were verified");
        engine.remove_segment(self.segment.id)?;
        engine.counters.compacted_segments.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
