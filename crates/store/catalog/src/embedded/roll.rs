//! Creates the segments of the log.

use std::sync::Arc;

use super::Engine;
use super::segment::{DIRECTORY, HEADER, MAX_ID, Segment, SegmentHeader, file_name};
use super::segment_list::{ListedSegment, Position, SegmentEnd};
use crate::CatalogError;

/// Creates the segment behind a position, without groups, durably. Its number is greater than `newest`.
///
/// # Errors
/// If the disk fails, or the log has no further number.
pub fn create_segment(engine: &Engine, end: &Position, newest: u32) -> Result<Arc<Segment>, CatalogError> {
    let listed = engine.lock_manifest().list.segments.last().map_or(0, |listed| listed.id);
    // Also greater than the numbers of files that no list names: the creation would empty them.
    let last = listed.max(end.segment).max(newest);
    if last >= MAX_ID {
        return Err(CatalogError::Io(format!("the log has no number after segment {last}")));
    }
    create_segment_at(engine, end, last + 1)
}

/// Creates the segment with a number behind a position, without groups, durably.
///
/// # Errors
/// If the disk fails.
pub fn create_segment_at(engine: &Engine, end: &Position, id: u32) -> Result<Arc<Segment>, CatalogError> {
    // The creation of a file empties an existing one of the same name.
    let open = engine.segments().last().map(|segment| segment.id);
    assert!(open < Some(id), "log segment {id} would follow or replace segment {open:?}");
    let file = engine.disk.create(DIRECTORY, &file_name(id))?;
    file.write_at(0, &SegmentHeader { salt: engine.salt, id, first_group: end.group }.encode())?;
    file.sync()?;
    // Before the first group: the sync of a group does not make the name of its file durable.
    engine.disk.sync_directory(DIRECTORY)?;
    // Also before the first group: a segment that is not listed may be missing without a trace.
    engine.change_list(|list| {
        if let Some(last) = list.segments.last_mut().filter(|last| last.end.is_none()) {
            let bytes = if last.id == end.segment { end.offset } else { HEADER };
            last.end = Some(SegmentEnd { bytes, group: end.group });
        }
        list.segments.push(ListedSegment { id, first_group: end.group, end: None });
    })?;
    let segment = Arc::new(Segment::new(id, engine.salt, file, HEADER, 0));
    let mut segments = engine.segments.write().unwrap_or_else(std::sync::PoisonError::into_inner);
    segments.insert(id, Arc::clone(&segment));
    Ok(segment)
}
