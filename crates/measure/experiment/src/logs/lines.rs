//! Lines of logs, which may be compressed.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use plimsoll_base::files::{CountedReader, Expanded, read_line};

use super::LogError;

/// Maximum length of a line, in bytes; lines of warp's log have a few hundred.
const MAX_LINE: u64 = 64 * 1024;

/// Lines of a log, decompressed while they are read. Both the length of a line and the expansion are limited.
pub struct Lines<'a> {
    file: &'a Path,
    /// Kind of log, for messages.
    what: &'static str,
    from: Box<dyn BufRead>,
    line: Vec<u8>,
    /// Number of the last line that was read, from 1.
    pub number: u64,
}

/// Opens a file, which may be compressed with Zstandard or gzip. The expansion is limited.
///
/// # Errors
/// If the file cannot be read or decompressed.
pub fn expanded(file: &Path) -> Result<Box<dyn BufRead>, LogError> {
    let unreadable = |reason: String| LogError::unreadable(file, reason);
    let opened = File::open(file).map_err(|e| unreadable(e.to_string()))?;
    let (counted, bytes) = CountedReader::new(opened);
    let mut whole = BufReader::new(counted);
    let head = whole.fill_buf().map_err(|e| unreadable(e.to_string()))?;
    // The magic number of a Zstandard frame (RFC 8878, 3.1.1).
    Ok(if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let decoder = zstd::Decoder::with_buffer(whole)
            .map_err(|e| unreadable(format!("invalid Zstandard file: {e}")))?;
        Box::new(BufReader::new(Expanded::new(decoder, bytes)))
    // The magic number of gzip (RFC 1952, 2.3.1).
    } else if head.starts_with(&[0x1f, 0x8b]) {
        Box::new(BufReader::new(Expanded::new(MultiGzDecoder::new(whole), bytes)))
    } else {
        Box::new(whole)
    })
}

impl<'a> Lines<'a> {
    /// Opens a log of a kind. The file may be compressed with Zstandard or gzip.
    ///
    /// # Errors
    /// If the file cannot be read or decompressed.
    pub fn open(file: &'a Path, what: &'static str) -> Result<Lines<'a>, LogError> {
        Ok(Lines { file, what, from: expanded(file)?, line: Vec::new(), number: 0 })
    }

    /// Reads the next line, without its line ending; `None` after the last line.
    ///
    /// # Errors
    /// If the file cannot be read, a line is too long or not UTF-8, or the file expands too far.
    pub fn read(&mut self) -> Result<Option<&str>, LogError> {
        self.number += 1;
        let at = |reason: String| LogError::at(self.file, self.number, reason);
        let whole = read_line(&mut self.from, MAX_LINE, &mut self.line);
        if !whole.map_err(|e| at(format!("{e}; is the file {}?", self.what)))? {
            let most = MAX_LINE / 1024;
            return Err(at(format!("the line is longer than {most} KiB; is the file {}?", self.what)));
        }
        if self.line.is_empty() {
            return Ok(None);
        }
        let text = std::str::from_utf8(&self.line).map_err(|_| at("the line is not UTF-8 text".into()))?;
        Ok(Some(text.trim_end_matches(['\n', '\r'])))
    }
}
