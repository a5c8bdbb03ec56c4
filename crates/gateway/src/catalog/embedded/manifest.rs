//! The manifest: the state of the index, replaced as a whole.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::record::crc32c;
use super::segment;
use super::table::DIRECTORY;
use crate::catalog::CatalogError;
use crate::disk::{Disk, read, replace};

/// File name of the manifest.
const NAME: &str = "MANIFEST";

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
    /// Hash of the affected key; `None` if the affected keys are unknown.
    pub key_hash: Option<u64>,
}

impl Damage {
    /// Describes damage of a segment.
    pub fn of_segment(segment: u32, offset: u64, problem: &str, key_hash: Option<u64>) -> Damage {
        let file = format!("{}/{}", segment::DIRECTORY, segment::file_name(segment));
        Damage { file, segment, offset, problem: problem.into(), key_hash }
    }
}

/// Properties of a segment of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentInfo {
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
    /// Salt of the catalog.
    pub salt: u64,
    /// Numbers of the tables, from the newest to the oldest.
    pub tables: Vec<u64>,
    /// Number of the next table.
    pub next_table: u64,
    /// Position in the log up to which the tables contain all changes.
    pub applied: Position,
    /// Segments of the log.
    pub segments: Vec<SegmentInfo>,
    /// Damage that affects keys until they are written again.
    pub damage: Vec<Damage>,
    /// End of the log after a clean stop; `None` while the catalog is open.
    pub clean_end: Option<Position>,
}

/// Version of the format that this code writes.
pub const FORMAT: u32 = 1;

/// Returns the last line of the file: the CRC-32C of the document.
fn trailer(document: &[u8]) -> String {
    format!("\n{:08x}", crc32c(document))
}

impl Manifest {
    /// Returns the file of the manifest of a catalog.
    pub fn path(catalog: &Path) -> PathBuf {
        catalog.join(DIRECTORY).join(NAME)
    }

    /// Reads the manifest; `None` if there is none.
    ///
    /// # Errors
    /// If it is damaged or of another version.
    pub fn load(disk: &dyn Disk) -> Result<Option<Manifest>, CatalogError> {
        let bytes = match read(disk, DIRECTORY, NAME) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes?,
        };
        let damaged = |problem: &str| CatalogError::Damaged {
            file: format!("{DIRECTORY}/{NAME}"),
            offset: 0,
            problem: problem.into(),
        };
        let end = bytes.len().checked_sub(9).ok_or_else(|| damaged("the file is too short"))?;
        if bytes[end..] != *trailer(&bytes[..end]).as_bytes() {
            return Err(damaged("the checksum is wrong"));
        }
        let manifest: Manifest =
            serde_json::from_slice(&bytes[..end]).map_err(|e| damaged(&e.to_string()))?;
        if manifest.format != FORMAT {
            let text = format!(
                "the data directory has format {}, and this version reads format {FORMAT}; use another version",
                manifest.format
            );
            return Err(CatalogError::Io(text));
        }
        Ok(Some(manifest))
    }

    /// Replaces the manifest durably.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn store(&self, disk: &dyn Disk) -> Result<(), CatalogError> {
        let mut bytes = serde_json::to_vec(self).map_err(|e| CatalogError::Io(e.to_string()))?;
        let trailer = trailer(&bytes);
        bytes.extend_from_slice(trailer.as_bytes());
        Ok(replace(disk, DIRECTORY, NAME, &bytes)?)
    }

    /// Removes the manifest and all tables, so that the next start builds the index from the log.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn discard_index(disk: &dyn Disk) -> Result<(), CatalogError> {
        // The manifest first: the new tables have the numbers of old ones, and no old manifest may name them.
        disk.remove(DIRECTORY, NAME)?;
        for name in disk.list(DIRECTORY)? {
            disk.remove(DIRECTORY, &name)?;
        }
        Ok(())
    }
}
