//! Which pieces the state of a time needs.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::error::BackupError;
use super::header::{Known, RunHeader};
use super::history::History;
use plimsoll_catalog::ambient::utc_text;
use plimsoll_catalog::embedded::reader::ReadGroup;
use plimsoll_catalog::embedded::record::{Salt, hash};
use plimsoll_objects::keys;

/// A segment of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentPlan {
    /// Number of the first group of the segment.
    pub first_group: u64,
    /// Bytes of the segment.
    pub bytes: u64,
    /// Number of the group behind the last byte.
    pub next_group: u64,
    /// Runs of the segment: the index of the piece in the history, and of the run in the piece.
    pub runs: Vec<(usize, usize)>,
}

/// The segments of a state by their numbers.
pub type Segments = BTreeMap<u32, SegmentPlan>;

/// Returns the index of the piece in which the newest state of a time in Unix milliseconds ends. Without a time, it is
/// the piece of the last state.
///
/// # Errors
/// If the backup has no such state.
pub fn last_piece(history: &History, at_ms: Option<u64>) -> Result<usize, BackupError> {
    // Pieces before `first_number` may be deleted, also if their headers are still known.
    let is_state = |index: usize| {
        let header = &history.pieces[index].header;
        header.is_complete
            && header.number >= history.first_number
            && at_ms.is_none_or(|at_ms| (1..=at_ms).contains(&header.least_ms))
    };
    // From the end, and not up to the first later piece: the clock may have been set back.
    if let Some(found) = (0..history.pieces.len()).rev().find(|index| is_state(*index)) {
        return Ok(found);
    }
    let oldest = oldest(history);
    Err(match oldest {
        _ if history.pieces.is_empty() => BackupError::Missing,
        Some(known) => BackupError::TooOld(utc_text(known.header.least_ms)),
        None => BackupError::Incomplete,
    })
}

/// Returns the oldest piece with a state that can be restored; `None` if there is none.
pub fn oldest(history: &History) -> Option<&Known> {
    let is_state = |known: &&Known| {
        let header = &known.header;
        header.is_complete && header.least_ms > 0 && header.number >= history.first_number
    };
    history.pieces.iter().find(is_state)
}

/// Returns the segments that were in use at the end of a piece, or since it was begun.
///
/// # Errors
/// If bytes of a segment are not in the backup.
pub fn segments(history: &History, last: usize) -> Result<Segments, BackupError> {
    let first = history.first_of(last);
    let lost = history.lost_before(last);
    if let Some(name) = lost {
        return Err(BackupError::damaged(name, "it is missing"));
    }
    let header = &history.pieces[last].header;
    let live = history.live(last);
    let live = live.ok_or_else(|| BackupError::damaged(header.name(), "its segments are not known"))?;
    let wanted: BTreeSet<u32> = live.into_iter().collect();
    let mut found = Segments::new();
    for (piece, known) in history.pieces.iter().enumerate().take(last + 1).skip(first) {
        for (index, run) in known.header.runs.iter().enumerate() {
            if !wanted.contains(&run.segment) {
                continue;
            }
            let empty =
                SegmentPlan { first_group: run.first_group, bytes: 0, next_group: 0, runs: Vec::new() };
            let segment = found.entry(run.segment).or_insert(empty);
            // A restored file would have a hole here, filled with zeros.
            if run.offset != segment.bytes {
                let (number, missing) = (run.segment, segment.bytes);
                let problem = format!("log segment {number} has no bytes from {missing} to {}", run.offset);
                return Err(BackupError::damaged(known.header.name(), problem));
            }
            segment.bytes = segment.bytes.saturating_add(run.bytes);
            segment.next_group = run.next_group;
            segment.runs.push((piece, index));
        }
    }
    // Without one of its segments, the state would lack objects, or have deleted ones.
    if let Some(missing) = wanted.iter().find(|segment| !found.contains_key(segment)) {
        return Err(BackupError::damaged(header.name(), format!("log segment {missing} is missing")));
    }
    Ok(found)
}

/// Pieces that the states since a time need.
pub struct Needed {
    /// Index of the first piece with such a state.
    pub first: usize,
    /// Indexes of all pieces.
    pub pieces: BTreeSet<usize>,
}

/// Returns the pieces that the states since a time in Unix milliseconds need.
///
/// # Errors
/// If the backup has no state of that time, or bytes of it are missing.
pub fn needed(history: &History, since_ms: u64) -> Result<Needed, BackupError> {
    let last = last_piece(history, Some(since_ms))?;
    // If the clock was set back, earlier pieces have later times.
    let crossing = history.pieces.iter().position(|known| {
        let header = &known.header;
        header.is_complete && header.number >= history.first_number && header.until_ms >= since_ms
    });
    let first = crossing.map_or(last, |crossing| last.min(crossing));
    let runs = segments(history, first)?.into_values().flat_map(|segment| segment.runs);
    let pieces = runs.map(|(piece, _)| piece).chain(first..history.pieces.len()).collect();
    Ok(Needed { first, pieces })
}

/// Returns the time of a group in Unix milliseconds; `None` if the group has the time of the group before.
pub fn time_of(group: &ReadGroup) -> Option<u64> {
    // Only as the last record is it the time of the group: compaction copies this row like others.
    let is_time = group.group.table.last().is_some_and(|(_, key)| *key == hash(keys::TIME));
    let record = is_time.then(|| group.records().last())??.0?;
    let time = record.head.filter(|_| record.key == keys::TIME && record.intact)?;
    time[..].try_into().ok().map(u64::from_be_bytes)
}

/// Returns the salt of the log to which the runs of a piece belong; `None` if no run has the start of a segment.
pub fn salt_of_runs(headers: &[RunHeader], runs: &[Bytes]) -> Option<Salt> {
    let start = headers.iter().zip(runs).find(|(run, _)| run.offset == 0);
    start.and_then(|(_, bytes)| salt_of(bytes))
}

/// Returns the salt in the header of a segment, which is at the start of `bytes`.
pub fn salt_of(bytes: &[u8]) -> Option<Salt> {
    Some(Salt(u64::from_le_bytes(bytes.get(4..12)?.try_into().ok()?)))
}
