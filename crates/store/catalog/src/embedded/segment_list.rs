//! The list of the log segments, which says what the log must contain without the index: a segment that is missing from
//! it was removed by compaction, and a listed one that is missing on the disk is lost.
//!
//! The file is in the directory of the log. The manifest has a copy, so that damage of either file loses nothing.

use serde::{Deserialize, Serialize};

use super::{document, segment};
use crate::CatalogError;
use crate::disk::Disk;

/// File name of the list.
pub const NAME: &str = "SEGMENTS";

/// Position in the log, behind a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// Number of the segment.
    pub segment: u32,
    /// Offset in the segment, in bytes.
    pub offset: u64,
    /// Number of the next group.
    pub group: u64,
}

/// Damage found in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// Name of the damaged file.
    pub file: String,
    /// Number of the damaged segment.
    pub segment: u32,
    /// Offset of the damage in bytes.
    pub offset: u64,
    /// Property that is wrong.
    pub problem: String,
    /// Keys that are affected.
    pub keys: AffectedKeys,
}

/// Keys that damage affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AffectedKeys {
    /// Only reads of the damaged bytes fail; the index knows all keys.
    Indexed,
    /// The key with this hash.
    Hash(u64),
    /// Any key whose row was written before the damage, or that has no row.
    Unknown,
}

impl Damage {
    /// Describes damage of a segment.
    pub fn of_segment(segment: u32, offset: u64, problem: &str, keys: AffectedKeys) -> Damage {
        let file = format!("{}/{}", segment::DIRECTORY, segment::file_name(segment));
        Damage { file, segment, offset, problem: problem.into(), keys }
    }

    /// Returns the error of a read of an affected key.
    pub fn error(&self) -> CatalogError {
        CatalogError::Damaged { file: self.file.clone(), offset: self.offset, problem: self.problem.clone() }
    }
}

/// End of a segment that receives no further groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentEnd {
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Number of the group after the last one.
    pub group: u64,
}

/// A segment of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedSegment {
    /// Number of the segment.
    pub id: u32,
    /// Number of its first group.
    pub first_group: u64,
    /// End of the segment; `None` for the segment that receives the writes.
    pub end: Option<SegmentEnd>,
}

/// The segments of the log, in the order of their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentList {
    /// Number of the change that wrote this list; of two copies, the one with the larger number is newer.
    pub version: u64,
    /// Salt of the catalog.
    pub salt: u64,
    /// Segments in the order of their numbers.
    pub segments: Vec<ListedSegment>,
    /// Damage that affects keys until they are written again.
    pub damage: Vec<Damage>,
    /// Hashes of the keys that were removed after the damage whose keys are unknown.
    pub removed: Vec<u64>,
}

impl SegmentList {
    /// Reads the list; `None` if there is none.
    ///
    /// # Errors
    /// [`CatalogError::Damaged`] if it is damaged, or the error of the disk.
    pub fn load(disk: &dyn Disk) -> Result<Option<SegmentList>, CatalogError> {
        document::load(disk, segment::DIRECTORY, NAME)
    }

    /// Replaces the list durably.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn store(&self, disk: &dyn Disk) -> Result<(), CatalogError> {
        document::store(disk, segment::DIRECTORY, NAME, self)
    }

    /// Returns the entry of a segment; `None` if the log has no such segment.
    pub fn get(&self, id: u32) -> Option<&ListedSegment> {
        self.segments.iter().find(|listed| listed.id == id)
    }
}
