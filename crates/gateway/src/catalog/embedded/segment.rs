//! Segments: the files of the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use bytes::Bytes;

use super::record::{Salt, crc32c};
use crate::catalog::{CatalogError, LogPosition};
use crate::disk::DiskFile;

/// Directory of the log.
pub const DIRECTORY: &str = "log";

/// Returns the file name of a segment.
pub fn file_name(id: u32) -> String {
    format!("{id:08}.log")
}

/// Returns the number of the segment with this file name; `None` for other files.
pub fn id_of(name: &str) -> Option<u32> {
    name.strip_suffix(".log")?.parse().ok()
}

/// Length of the header of a segment, in bytes. Groups follow.
pub const HEADER: u64 = 16;
/// First bytes of a segment.
const MAGIC: u32 = 0x3153_4c50;

/// Returns the header of a segment: magic u32, salt u64, and the CRC-32C of both, in little-endian order.
pub fn header(salt: Salt) -> Vec<u8> {
    let mut bytes = [&MAGIC.to_le_bytes()[..], &salt.0.to_le_bytes()].concat();
    let crc = crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Reads the salt from the header of a segment; `None` if the header is damaged or incomplete.
///
/// # Errors
/// If the file system fails.
pub fn read_header(file: &dyn DiskFile) -> std::io::Result<Option<Salt>> {
    let mut bytes = [0; HEADER as usize];
    if file.len()? < HEADER {
        return Ok(None);
    }
    file.read_at(0, &mut bytes)?;
    let [_, _, _, _, salt @ .., _, _, _, _] = bytes;
    let salt = Salt(u64::from_le_bytes(salt));
    Ok((bytes[..] == header(salt)).then_some(salt))
}

/// An open segment.
pub struct Segment {
    /// Number of the segment.
    pub id: u32,
    /// Salt of the catalog.
    pub salt: Salt,
    /// Open file of the segment.
    pub file: Arc<dyn DiskFile>,
    /// Length in bytes.
    pub bytes: AtomicU64,
    /// Bytes of records that are still in use.
    pub live: AtomicI64,
}

impl Segment {
    /// Returns the error for damage at an offset.
    pub fn damaged(&self, offset: u64, problem: &str) -> CatalogError {
        CatalogError::Damaged {
            file: format!("{DIRECTORY}/{}", file_name(self.id)),
            offset,
            problem: problem.into(),
        }
    }

    /// Returns the share of the segment that is no longer in use, from 0 to 1.
    pub fn garbage(&self) -> f64 {
        let bytes = self.bytes.load(Ordering::Relaxed);
        if bytes <= HEADER {
            return 1.0;
        }
        1.0 - self.live.load(Ordering::Relaxed).max(0) as f64 / bytes as f64
    }

    /// Reads and verifies the properties of a record and, if `with_body` is true, its body.
    ///
    /// # Errors
    /// If the bytes are damaged or cannot be read.
    pub fn read(&self, place: &LogPosition, with_body: bool) -> Result<(Bytes, Bytes), CatalogError> {
        let body = if with_body { place.body as usize } else { 0 };
        let properties = place.properties as usize;
        let mut bytes = vec![0; properties + body];
        let offset = u64::from(place.offset) + u64::from(place.skip);
        self.file.read_at(offset, &mut bytes).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => self.damaged(offset, "the file is too short"),
            _ => CatalogError::from(e),
        })?;
        let mut properties_bytes = Bytes::from(bytes);
        let body = properties_bytes.split_off(properties);
        if crc32c(&properties_bytes) != place.properties_crc {
            return Err(self.damaged(offset, "the properties of an object are wrong"));
        }
        if with_body && crc32c(&body) != place.body_crc {
            return Err(self.damaged(offset + properties as u64, "the body of an object is wrong"));
        }
        Ok((properties_bytes, body))
    }
}
