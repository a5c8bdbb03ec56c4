//! Segments: the files of the log.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::record::{Salt, crc32c};
use crate::disk::DiskFile;
use crate::{CatalogError, LogPosition};

/// Directory of the log.
pub const DIRECTORY: &str = "log";

/// Returns the file name of a segment.
pub fn file_name(id: u32) -> String {
    format!("{id:08}.log")
}

/// Returns the number of the segment with this file name; `None` for other files.
pub fn id_of(name: &str) -> Option<u32> {
    let id = name.strip_suffix(".log")?.parse().ok()?;
    // `1.log` must not be taken for `00000001.log`.
    (file_name(id) == name && id <= MAX_ID).then_some(id)
}

/// Largest number of a segment.
pub const MAX_ID: u32 = u32::MAX - 1;
/// Length of the header of a segment, in bytes. Groups follow.
pub const HEADER: u64 = 28;
/// First bytes of a segment.
const MAGIC: u32 = 0x3253_4c50;

/// Header of a segment. It binds the file to its number, so that the file of another segment is not taken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Salt of the catalog.
    pub salt: Salt,
    /// Number of the segment.
    pub id: u32,
    /// Number of its first group.
    pub first_group: u64,
}

impl SegmentHeader {
    /// Returns the bytes of the header: magic u32, salt u64, number u32, first group u64, and the CRC-32C of all of
    /// them, in little-endian order.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.salt.0.to_le_bytes());
        bytes.extend_from_slice(&self.id.to_le_bytes());
        bytes.extend_from_slice(&self.first_group.to_le_bytes());
        let crc = crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the header of a segment; `None` if it is damaged or incomplete.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn read(file: &dyn DiskFile) -> std::io::Result<Option<SegmentHeader>> {
        let mut bytes = [0; HEADER as usize];
        // A header that is cut off is damage, which a start survives. The error of a read would end the start.
        if file.len()? < HEADER {
            return Ok(None);
        }
        file.read_at(0, &mut bytes)?;
        let number = |from: usize, to: usize| {
            let mut number = [0; 8];
            number[..to - from].copy_from_slice(&bytes[from..to]);
            u64::from_le_bytes(number)
        };
        let header = SegmentHeader {
            salt: Salt(number(4, 12)),
            id: number(12, 16) as u32,
            first_group: number(16, 24),
        };
        Ok((bytes[..] == header.encode()).then_some(header))
    }
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
    /// True if the header was damaged when the segment was opened.
    pub had_damaged_header: bool,
    /// Reason why a sync of the file has failed; `None` if none has.
    sync_error: Mutex<Option<String>>,
}

impl Segment {
    /// Creates the state of an open file, which has `bytes` bytes.
    pub fn new(id: u32, salt: Salt, file: Arc<dyn DiskFile>, bytes: u64, live: u64) -> Segment {
        let (bytes, live) = (AtomicU64::new(bytes), AtomicI64::new(live as i64));
        Segment { id, salt, file, bytes, live, had_damaged_header: false, sync_error: Mutex::default() }
    }

    /// Makes the file durable.
    ///
    /// # Errors
    /// The first error of a sync, again at each later call: the kernel reports an error once and may then take the lost
    /// pages for written.
    pub fn sync(&self) -> Result<(), String> {
        // Held during the sync, so that a sync of another thread cannot succeed between the error and its record.
        let mut failed = self.sync_error.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = &*failed {
            return Err(error.clone());
        }
        self.file.sync().map_err(|error| {
            let reason = format!("fsync of {DIRECTORY}/{} failed: {error}", file_name(self.id));
            *failed = Some(reason.clone());
            reason
        })
    }

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
        // A start without writes leaves a segment without groups, which compaction may remove.
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
        // A file that was cut is damaged. Another error of the disk says nothing about the bytes.
        self.file.read_at(offset, &mut bytes).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => self.damaged(offset, "the file is too short"),
            _ => CatalogError::from(e),
        })?;
        let mut properties_bytes = Bytes::from(bytes);
        let body = properties_bytes.split_off(properties);
        // Before anybody gets the bytes: a client would take them for its object.
        if crc32c(&properties_bytes) != place.properties_crc {
            return Err(self.damaged(offset, "the properties of an object are wrong"));
        }
        if with_body && crc32c(&body) != place.body_crc {
            return Err(self.damaged(offset + properties as u64, "the body of an object is wrong"));
        }
        Ok((properties_bytes, body))
    }
}
