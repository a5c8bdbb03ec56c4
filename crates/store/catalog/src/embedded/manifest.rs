//! The manifest: the state of the index, replaced as a whole.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::document;
use super::segment_list::{Position, SegmentList};
use super::table::DIRECTORY;
use crate::CatalogError;
use crate::disk::Disk;

/// File name of the manifest.
const NAME: &str = "MANIFEST";

/// Bytes of a segment that are still in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentUse {
    /// Number of the segment.
    pub id: u32,
    /// Length in bytes.
    pub bytes: u64,
    /// Bytes of records that are still in use. After a crash, an estimate.
    pub live: u64,
}

/// State of the index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the format.
    pub format: u32,
    /// Random number of this index; the footer of each table contains it, so that a table of an earlier index is not
    /// taken for one of this index.
    pub index: u64,
    /// Copy of the list of segments.
    pub list: SegmentList,
    /// Numbers of the tables, from the newest to the oldest.
    pub tables: Vec<u64>,
    /// Number of the next table.
    pub next_table: u64,
    /// Position in the log up to which the tables contain all changes.
    pub applied: Position,
    /// Use of the segments.
    pub segments: Vec<SegmentUse>,
    /// End of the log after a clean stop; `None` while the catalog is open.
    pub clean_end: Option<Position>,
}

/// Version of the format that this code writes.
pub const FORMAT: u32 = 2;

impl Manifest {
    /// Returns the file of the manifest of a catalog.
    pub fn path(catalog: &Path) -> PathBuf {
        catalog.join(DIRECTORY).join(NAME)
    }

    /// Reads the manifest; `None` if there is none.
    ///
    /// # Errors
    /// If it is damaged or of another version, or the disk fails.
    pub fn load(disk: &dyn Disk) -> Result<Option<Manifest>, CatalogError> {
        // The version is read first, because other versions may have other fields.
        let Some(manifest) = document::load::<serde_json::Value>(disk, DIRECTORY, NAME)? else {
            return Ok(None);
        };
        let format = manifest.get("format").and_then(serde_json::Value::as_u64).unwrap_or(0);
        if format != u64::from(FORMAT) {
            let text = format!(
                "the data directory has format {format}, and this version reads format {FORMAT}; use another version"
            );
            // Not damage: a start would replace the index of another version by a new one.
            return Err(CatalogError::Io(text));
        }
        serde_json::from_value(manifest).map(Some).map_err(|e| CatalogError::Damaged {
            file: format!("{DIRECTORY}/{NAME}"),
            offset: 0,
            problem: e.to_string(),
        })
    }

    /// Replaces the manifest durably.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn store(&self, disk: &dyn Disk) -> Result<(), CatalogError> {
        document::store(disk, DIRECTORY, NAME, self)
    }
}
