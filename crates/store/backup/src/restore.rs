//! Restores the log of a time from a backup.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt, TryStreamExt};

use super::error::BackupError;
use super::history::History;
use super::place::Place;
use super::plan::{Segments, last_piece, salt_of, segments, time_of};
use plimsoll_bodies::location::{BlobHead, Location, State};
use plimsoll_bodies::name::BlobName;
use plimsoll_catalog::disk::{Disk, DiskFile};
use plimsoll_catalog::embedded::follow::groups;
use plimsoll_catalog::embedded::reader::ReadGroup;
use plimsoll_catalog::embedded::record::Salt;
use plimsoll_catalog::embedded::segment::{DIRECTORY, HEADER, file_name};
use plimsoll_catalog::embedded::segment_list::{ListedSegment, Position, SegmentEnd, SegmentList};
use plimsoll_catalog::{Catalog, CatalogError, Transaction, Value};
use plimsoll_objects::keys;

/// Number of pieces that are read at the same time.
const IN_FLIGHT: usize = 8;

/// The state of a time in a backup.
#[derive(Debug, Clone)]
pub struct Cut {
    /// Index of the piece in the history in which the state ends.
    pub piece: usize,
    /// End of the state in the log.
    pub end: Position,
    /// Time of the last group of the state in Unix milliseconds; 0 if it has none.
    pub at_ms: u64,
    /// Segments of the state.
    pub segments: Segments,
}

/// Returns the runs of a piece.
///
/// # Errors
/// If the place fails, or the piece is missing or damaged.
pub async fn read_piece(place: &Place, history: &History, index: usize) -> Result<Vec<Bytes>, BackupError> {
    let known = &history.pieces[index];
    let name = known.header.name();
    let object = place.read(&name).await?;
    known.payload(&object.ok_or_else(|| BackupError::damaged(name, "it is missing"))?)
}

/// Returns the runs of several pieces with their indexes, in the same order.
pub fn read_pieces<'a>(
    place: &'a Place,
    history: &'a History,
    indexes: impl IntoIterator<Item = usize> + 'a,
) -> impl Stream<Item = Result<(usize, Vec<Bytes>), BackupError>> + 'a {
    let read = move |index| async move { Ok((index, read_piece(place, history, index).await?)) };
    stream::iter(indexes.into_iter().map(read)).buffered(IN_FLIGHT)
}

/// Returns the salt of the log to which a piece belongs.
///
/// # Errors
/// If the piece with the start of the log's oldest segment cannot be read.
async fn salt(place: &Place, history: &History, segments: &Segments) -> Result<Salt, BackupError> {
    let first = segments.values().next().and_then(|segment| segment.runs.first());
    let (piece, run) = *first.ok_or(BackupError::Incomplete)?;
    let runs = read_piece(place, history, piece).await?;
    let damaged =
        || BackupError::damaged(history.pieces[piece].header.name(), "it has no start of a segment");
    salt_of(&runs[run]).ok_or_else(damaged)
}

/// Finds the newest state of a time in Unix milliseconds; the last state without a time.
///
/// # Errors
/// If the backup has no such state, or a piece that it needs is damaged.
pub async fn find(place: &Place, history: &History, at_ms: Option<u64>) -> Result<Cut, BackupError> {
    let piece = last_piece(history, at_ms)?;
    let mut found = segments(history, piece)?;
    let header = &history.pieces[piece].header;
    let mut cut = Cut { piece, end: header.tail.position, at_ms: header.until_ms, segments: Segments::new() };
    if let Some(at_ms) = at_ms {
        let salt = salt(place, history, &found).await?;
        let runs = read_piece(place, history, piece).await?;
        let (end, last_ms) =
            newest_group(&history.pieces[piece].header.runs, &runs, salt, header.since_ms, at_ms);
        cut.at_ms = last_ms;
        cut.end =
            end.ok_or_else(|| BackupError::damaged(header.name(), "no group has the time of its header"))?;
    }
    found.retain(|id, _| *id <= cut.end.segment);
    if let Some(last) = found.get_mut(&cut.end.segment) {
        (last.bytes, last.next_group) = (cut.end.offset, cut.end.group);
    }
    cut.segments = found;
    Ok(cut)
}

/// Returns the end and the time of the last group of a piece whose time is at most `at_ms`. `since_ms` is the time of
/// the last group before.
fn newest_group(
    headers: &[super::header::RunHeader],
    runs: &[Bytes],
    salt: Salt,
    since_ms: u64,
    at_ms: u64,
) -> (Option<Position>, u64) {
    let (mut time, mut end, mut last_ms) = (since_ms, None, 0);
    for (header, bytes) in headers.iter().zip(runs) {
        for group in groups_of(header.segment, header.offset, bytes, salt) {
            time = time_of(&group).unwrap_or(time);
            // The last such group, because the clock may have been set back. Groups with the time 0 were not followed,
            // and bodies of their states may be missing (decision 0072).
            if (1..=at_ms).contains(&time) {
                let (segment, offset, group) = (header.segment, group.end(), group.group.number + 1);
                (end, last_ms) = (Some(Position { segment, offset, group }), time);
            }
        }
    }
    (end, last_ms)
}

/// Returns the groups of a run.
pub fn groups_of(segment: u32, offset: u64, bytes: &Bytes, salt: Salt) -> impl Iterator<Item = ReadGroup> {
    let first = offset.max(HEADER);
    let skipped = ((first - offset) as usize).min(bytes.len());
    groups(salt, segment, first, bytes.slice(skipped..))
}

/// Writes the log of a state to an empty disk.
///
/// # Errors
/// If a piece is missing or damaged, or the disk fails.
pub async fn write_log(
    place: &Place,
    history: &History,
    cut: &Cut,
    disk: &dyn Disk,
) -> Result<(), BackupError> {
    let mut files: BTreeMap<u32, Arc<dyn DiskFile>> = BTreeMap::new();
    let mut pieces: BTreeMap<usize, Vec<(u32, usize)>> = BTreeMap::new();
    for (id, segment) in &cut.segments {
        files.insert(*id, disk.create(DIRECTORY, &file_name(*id))?);
        for (piece, run) in &segment.runs {
            pieces.entry(*piece).or_default().push((*id, *run));
        }
    }
    let mut salt = None;
    {
        let mut read = std::pin::pin!(read_pieces(place, history, pieces.keys().copied()));
        while let Some((index, runs)) = read.try_next().await? {
            for (id, run) in &pieces[&index] {
                let (offset, bytes) = (history.pieces[index].header.runs[*run].offset, &runs[*run]);
                let length = cut.segments[id].bytes.saturating_sub(offset).min(bytes.len() as u64);
                files[id].write_at(offset, &bytes[..length as usize])?;
                if offset == 0 {
                    salt = salt.or(salt_of(bytes));
                }
            }
        }
    }
    for file in files.values() {
        // Before the list: a start takes a listed segment without its bytes for damage.
        file.sync()?;
    }
    let Salt(salt) = salt.ok_or(BackupError::Incomplete)?;
    let last = cut.segments.keys().next_back().copied();
    let listed = cut.segments.iter().map(|(id, segment)| {
        let end = SegmentEnd { bytes: segment.bytes, group: segment.next_group };
        ListedSegment { id: *id, first_group: segment.first_group, end: (Some(*id) != last).then_some(end) }
    });
    let list = SegmentList { version: 1, salt, segments: listed.collect(), ..SegmentList::default() };
    list.store(disk)?;
    disk.sync_directory(DIRECTORY)?;
    Ok(())
}

/// Last rows of the blobs that changed after a state; `None` for a row that was removed.
pub type LaterBlobs = BTreeMap<BlobName, Option<Value>>;

/// Reads the rows of the blobs that changed after a state. A blob that was moved since is not where the state says.
///
/// # Errors
/// If a piece is missing or damaged.
pub async fn later_blobs(place: &Place, history: &History, cut: &Cut) -> Result<LaterBlobs, BackupError> {
    let mut later = LaterBlobs::new();
    let mut salt = salt(place, history, &cut.segments).await?;
    let mut read = std::pin::pin!(read_pieces(place, history, cut.piece..history.pieces.len()));
    while let Some((index, runs)) = read.try_next().await? {
        let header = &history.pieces[index].header;
        if header.is_first
            && let Some(found) = runs.first().and_then(|run| salt_of(run))
        {
            // The groups of another log cannot be read with the salt of the one before.
            salt = found;
        }
        for (run, bytes) in header.runs.iter().zip(&runs) {
            for group in groups_of(run.segment, run.offset, bytes, salt) {
                if index == cut.piece && group.group.number < cut.end.group {
                    continue;
                }
                for (record, data, ..) in group.records() {
                    // A damaged row must not replace the intact one of the state.
                    let Some(record) = record.filter(|record| record.intact) else { continue };
                    let name = record.key.strip_prefix(keys::BLOBS).and_then(|name| name.try_into().ok());
                    if let Some(name) = name {
                        later.insert(name, record.change(data).value);
                    }
                }
            }
        }
    }
    Ok(later)
}

/// Gives the blobs of a restored catalog the places that they have now.
///
/// # Errors
/// If the catalog fails.
pub async fn forward<C: Catalog>(catalog: &C, later: LaterBlobs) -> Result<u64, CatalogError> {
    /// Number of blobs in a transaction.
    const BATCH: usize = 1000;
    let counted = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let mut later = later.into_iter().filter_map(|(name, value)| Some((name, value?))).peekable();
    while later.peek().is_some() {
        let batch: Vec<_> = later.by_ref().take(BATCH).collect();
        let moved = Arc::clone(&counted);
        let work = Box::new(move |t: &mut dyn Transaction| {
            for (name, value) in &batch {
                let changed = forward_one(t, name, value.clone())?;
                moved.fetch_add(u64::from(changed), std::sync::atomic::Ordering::Relaxed);
            }
            Ok(true)
        });
        catalog.commit(work, 0).await?;
    }
    Ok(counted.load(std::sync::atomic::Ordering::Relaxed))
}

/// Gives a complete blob of the state its later places. Returns true if they differ.
fn forward_one(t: &mut dyn Transaction, name: &BlobName, value: Value) -> Result<bool, CatalogError> {
    let key = keys::blob(name);
    let is_complete = |head: &BlobHead| head.state == State::Complete;
    // No object of the state refers to a blob without a row.
    let Some(row) = t.get(&key)? else { return Ok(false) };
    let known = BlobHead::decode(&row.head).filter(is_complete);
    // Also a discarded row: until the bytes are deleted, they are at its places.
    let found = BlobHead::decode(&value.head).filter(|head| head.state != State::Pending);
    let (Some(known), Some(found)) = (known, found) else { return Ok(false) };
    if known.locations == found.locations {
        return Ok(false);
    }
    // A move that had begun at the time of the state has ended since: its destination is not to be given up.
    let new: Vec<Location> =
        found.locations.iter().filter(|place| !known.locations.contains(place)).cloned().collect();
    new.iter().for_each(|place| t.delete(keys::intent(place)));
    // A discarded blob is complete again, as it was in the state.
    let head = BlobHead { state: State::Complete, ..found };
    t.put(key, Value { head: head.encode(), ..value });
    Ok(true)
}
