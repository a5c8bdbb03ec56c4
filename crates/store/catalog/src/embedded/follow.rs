//! Follows the log for a backup: gives it the bytes up to the synced end, and keeps segments until it has their copies.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::Engine;
use super::compaction::Compaction;
use super::reader::ReadGroup;
use super::segment::{DIRECTORY, HEADER, file_name};
use super::segment_list::{ListedSegment, Position};
use crate::CatalogError;
use crate::guard::{self, Guard};

/// A time that no group has.
const UNKNOWN: u64 = u64::MAX;

/// State that the engine shares with the follower of its log.
#[derive(Default)]
pub struct Followed {
    /// Position up to which the log is synced.
    synced: Mutex<Position>,
    /// Number of the group after the last one in the log.
    written: AtomicU64,
    /// True if a follower exists: groups then have the time, and segments stay until it has their copies.
    is_followed: AtomicBool,
    /// True if somebody waits for the next step of the follower.
    is_wanted: AtomicBool,
    /// Number of the group after the last one that the follower has.
    shipped: AtomicU64,
    /// Number of the group after the last one of the newest state that can be restored from the follower.
    restorable: AtomicU64,
    /// Number of the group behind the copies of the last segment that did not wait for the follower.
    released: AtomicU64,
    /// Segments whose records are copied, with the number of the group behind the copies.
    copied: Mutex<Vec<(Compaction, u64)>>,
    /// Last time that was written to a group, in Unix milliseconds: 0 if groups have no time, [`UNKNOWN`] if the next
    /// one needs one.
    stamped_ms: AtomicU64,
}

/// Consecutive bytes of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Segment as the list has it.
    pub segment: ListedSegment,
    /// Offset of the first byte.
    pub offset: u64,
    /// Bytes of the header and of whole groups.
    pub bytes: Bytes,
}

impl Run {
    /// Returns the offset behind the last byte.
    pub fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// Returns the whole groups of a run; none behind the first one whose header is damaged.
    pub fn groups(&self, engine: &Engine) -> impl Iterator<Item = ReadGroup> {
        let first = self.offset.max(HEADER);
        groups(engine.salt, self.segment.id, first, self.bytes.slice((first - self.offset) as usize..))
    }
}

/// Returns the whole groups of consecutive bytes of a segment, which begin at an offset; none behind the first one
/// whose header is damaged.
pub fn groups(
    salt: super::record::Salt,
    segment: u32,
    offset: u64,
    bytes: Bytes,
) -> impl Iterator<Item = ReadGroup> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let group = ReadGroup::parse(salt, segment, offset + at as u64, &bytes.slice(at..))?;
        at = (group.end() - offset) as usize;
        Some(group)
    })
}

impl Engine {
    /// Records the end of the log after a write.
    pub(super) fn set_written(&self, end: &Position) {
        self.followed.written.store(end.group, Ordering::Release);
    }

    /// Records the position up to which the log is synced.
    pub(super) fn set_synced(&self, end: Position) {
        *self.followed.synced.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }

    /// Returns the number of the group after the last one in the log.
    pub fn written(&self) -> u64 {
        self.followed.written.load(Ordering::Acquire)
    }

    /// Asks the follower to take its next step now.
    pub fn want_shipped(&self) {
        self.followed.is_wanted.store(true, Ordering::Release);
    }

    /// Returns true if somebody waits for the next step of the follower, once.
    pub fn is_ship_wanted(&self) -> bool {
        self.followed.is_wanted.swap(false, Ordering::AcqRel)
    }

    /// Returns the position up to which the log is synced.
    pub fn synced_end(&self) -> Position {
        *self.followed.synced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins or continues to follow the log: groups before `shipped` are not needed any more. From now on, groups have
    /// the time, and a segment stays until the follower has the copies of its records.
    pub fn follow(&self, shipped: u64) {
        // The number first: with an older one, segments could go that this follower needs.
        self.followed.shipped.store(shipped, Ordering::Release);
        self.followed.is_followed.store(true, Ordering::Release);
    }

    /// Ends the following of the log: segments do not wait any more.
    pub fn stop_following(&self) {
        self.followed.is_followed.store(false, Ordering::Release);
    }

    /// Ends the following of the log of a copy, whose next group has the time of the original.
    pub fn stop_following_copy(&self) {
        self.stop_following();
        // The group contains the time of the original itself. A stamp behind it would replace that time.
        self.followed.stamped_ms.store(0, Ordering::Relaxed);
    }

    /// Returns the time that the next group gets, in Unix milliseconds; `None` if it has the time of the group before.
    /// Behind the last group that a follower has seen, the time is 0: no state can be restored there.
    pub(super) fn next_stamp(&self) -> Option<u64> {
        let is_followed = self.followed.is_followed.load(Ordering::Relaxed);
        let time_ms = if is_followed { crate::ambient::now_ms() } else { 0 };
        (self.followed.stamped_ms.swap(time_ms, Ordering::Relaxed) != time_ms).then_some(time_ms)
    }

    /// Returns the last time that was written to a group.
    pub(super) fn stamped_ms(&self) -> u64 {
        self.followed.stamped_ms.load(Ordering::Relaxed)
    }

    /// Sets the last time again after a group with the next one was not written.
    pub(super) fn set_stamped_ms(&self, stamped_ms: u64) {
        self.followed.stamped_ms.store(stamped_ms, Ordering::Relaxed);
    }

    /// Lets the next group have a time: an earlier process has written one.
    pub(super) fn expect_other_time(&self) {
        self.set_stamped_ms(UNKNOWN);
    }

    /// Returns true if a follower has everything before a group, or none needs it. A full disk does not wait.
    fn has_shipped(&self, group: u64) -> bool {
        !guard::is_made(Guard::Copies)
            || !self.followed.is_followed.load(Ordering::Acquire)
            || self.followed.shipped.load(Ordering::Acquire) >= group
            || self.release(group)
    }

    /// Lets a segment go whose copies are before a group, if the disk is full.
    fn release(&self, group: u64) -> bool {
        let is_full = self.is_full();
        if is_full {
            self.followed.released.fetch_max(group, Ordering::AcqRel);
        }
        is_full
    }

    /// Returns the number of the group behind the copies of the last segment that did not wait; states before it may
    /// need that segment.
    pub fn released(&self) -> u64 {
        self.followed.released.load(Ordering::Acquire)
    }

    /// Removes the segment of a compaction that has copied all records, or keeps it until the follower of the log has
    /// the copies: a backup needs one of the two.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn end_compaction(&self, compaction: Compaction) -> Result<(), CatalogError> {
        // Everything that is written, because the last copies may be in the last group.
        let written = self.followed.written.load(Ordering::Acquire);
        if self.has_shipped(written) {
            return compaction.remove_segment(self);
        }
        self.copied().push((compaction, written));
        Ok(())
    }

    /// Removes the segments that have waited for the follower of the log.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn remove_copied(&self) -> Result<(), CatalogError> {
        loop {
            let next = {
                let mut copied = self.copied();
                let found = copied.iter().position(|(_, group)| self.has_shipped(*group));
                found.map(|index| copied.remove(index).0)
            };
            let Some(compaction) = next else { return Ok(()) };
            // If this fails, a later compaction finds nothing in use, and tries again.
            compaction.remove_segment(self)?;
        }
    }

    /// Returns the segments that wait for the follower of the log.
    pub(super) fn waiting_segments(&self) -> Vec<u32> {
        self.copied().iter().map(|(compaction, _)| compaction.segment()).collect()
    }

    fn copied(&self) -> std::sync::MutexGuard<'_, Vec<(Compaction, u64)>> {
        self.followed.copied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the group after the last one that the follower has.
    pub fn shipped(&self) -> u64 {
        self.followed.shipped.load(Ordering::Acquire)
    }

    /// Records that the state before a group can be restored from the follower.
    pub fn set_restorable(&self, group: u64) {
        self.followed.restorable.fetch_max(group, Ordering::AcqRel);
    }

    /// Returns the number of the group after the last one of the newest state that can be restored from the follower.
    pub fn restorable(&self) -> u64 {
        self.followed.restorable.load(Ordering::Acquire)
    }

    /// Returns the segments of the log in the order of their numbers.
    pub fn listed(&self) -> Vec<ListedSegment> {
        self.lock_manifest().list.segments.clone()
    }

    /// Reads the log between two positions, at most about `most` bytes of it, up to the end of a group.
    ///
    /// # Errors
    /// If a segment does not exist, or the disk fails.
    pub fn read_log(&self, from: Position, until: Position, most: u64) -> Result<Vec<Run>, CatalogError> {
        let mut runs = Vec::new();
        let mut left = most;
        for listed in self.listed() {
            if listed.id < from.segment || listed.id > until.segment || left == 0 {
                continue;
            }
            let offset = if listed.id == from.segment { from.offset } else { 0 };
            let end = match listed.end {
                _ if listed.id == until.segment => until.offset,
                Some(end) => end.bytes,
                None => continue,
            };
            if offset >= end {
                continue;
            }
            let run = self.read_run(listed, offset, end, left)?;
            left = left.saturating_sub(run.bytes.len() as u64);
            let is_cut = run.end() < end;
            runs.push(run);
            if is_cut {
                break;
            }
        }
        Ok(runs)
    }

    /// Reads a part of a segment. If it is longer than `most` bytes, it ends behind a group; a group that is longer is
    /// read as a whole.
    fn read_run(
        &self,
        segment: ListedSegment,
        offset: u64,
        end: u64,
        most: u64,
    ) -> Result<Run, CatalogError> {
        let Some(open) = self.segment(segment.id) else {
            return Err(CatalogError::Io(format!("{DIRECTORY}/{} is missing", file_name(segment.id))));
        };
        // At least the header, which `Run::groups` skips.
        let mut length = (end - offset).min(most.max(HEADER));
        loop {
            let mut bytes = vec![0; length as usize];
            open.file.read_at(offset, &mut bytes)?;
            let run = Run { segment, offset, bytes: bytes.into() };
            if length == end - offset {
                return Ok(run);
            }
            let first = offset.max(HEADER);
            let last = run.groups(self).last().map_or(first, |group| group.end());
            if last > first {
                let bytes = run.bytes.slice(..(last - offset) as usize);
                return Ok(Run { bytes, ..run });
            }
            // No whole group: a longer one, or a damaged one, which ends nowhere.
            length = (2 * length).min(end - offset);
        }
    }

    /// Returns the last bytes of a segment before a position, at most `length`; `None` if the log does not have them.
    pub fn tail(&self, position: &Position, length: u64) -> Option<Bytes> {
        let segment: Arc<super::segment::Segment> = self.segment(position.segment)?;
        let length = length.min(position.offset);
        let mut bytes = vec![0; length as usize];
        segment.file.read_at(position.offset - length, &mut bytes).ok()?;
        Some(bytes.into())
    }
}
