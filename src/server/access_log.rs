//! The log of what really happened: one line per request, on the monotonic clock that client and server share.
//!
//! `calibrate` holds the instrument's figures against it. Columns: `tag,method,status,received_ns,last_byte_ns,bytes`,
//! where `tag` is the request's `x-plimsoll-tag` header, `received_ns` the arrival of its first byte and `last_byte_ns`
//! the write of its answer's last. A request whose answer never left (a reset) has `last_byte_ns` 0.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Name of the header that ties a line to the operation that caused it.
pub const TAG_HEADER: &str = "x-plimsoll-tag";

/// One request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// Value of [`TAG_HEADER`]; empty without one.
    pub tag: String,
    /// HTTP method.
    pub method: String,
    /// HTTP status answered.
    pub status: u16,
    /// First byte of the request received.
    pub received_ns: u64,
    /// Last byte of the answer written.
    pub last_byte_ns: u64,
    /// Object bytes in the answer or the request.
    pub bytes: u64,
}

/// The file behind the log.
pub struct AccessLog {
    file: Mutex<BufWriter<File>>,
}

impl AccessLog {
    /// Creates the file, replacing an old one.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(path: &Path) -> io::Result<AccessLog> {
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        writeln!(file, "tag,method,status,received_ns,last_byte_ns,bytes")?;
        Ok(AccessLog { file: Mutex::new(file) })
    }

    /// Appends a line; a full disk shows when the log is flushed.
    pub fn write(&self, e: &Entry) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let tag: String = e.tag.chars().filter(|c| !c.is_control() && *c != ',').collect();
        let _ = writeln!(
            file,
            "{tag},{},{},{},{},{}",
            e.method, e.status, e.received_ns, e.last_byte_ns, e.bytes
        );
    }

    /// Brings everything to the file.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn flush(&self) -> io::Result<()> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

/// Reads a log back.
///
/// # Errors
/// When the file cannot be read or a line is malformed; the message names it.
pub fn read(path: &Path) -> io::Result<Vec<Entry>> {
    let text = std::fs::read_to_string(path)?;
    let parse = |line: &str| {
        let mut fields = line.split(',');
        let entry = Entry {
            tag: fields.next()?.to_string(),
            method: fields.next()?.to_string(),
            status: fields.next()?.parse().ok()?,
            received_ns: fields.next()?.parse().ok()?,
            last_byte_ns: fields.next()?.parse().ok()?,
            bytes: fields.next()?.parse().ok()?,
        };
        Some(entry)
    };
    let rows = text.lines().enumerate().skip(1);
    rows.map(|(i, line)| {
        parse(line).ok_or_else(|| io::Error::other(format!("{}:{}: not a truth line", path.display(), i + 1)))
    })
    .collect()
}
