//! Lines of logs, which may be compressed.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::LogError;

/// Maximum length of a line, in bytes; lines of warp's log have a few hundred.
const MAX_LINE: u64 = 64 * 1024;

/// Maximum ratio of decompressed to compressed size. A log of distinct times compresses less than this, so a file
/// that expands further is not a log.
const MAX_EXPANSION: u64 = 200;

/// Lines of a log, decompressed while they are read. Both the length of a line and the total length are limited.
pub struct Lines<'a> {
    file: &'a Path,
    /// Kind of log, for messages.
    what: &'static str,
    from: Box<dyn BufRead>,
    line: Vec<u8>,
    /// Number of the last line that was read, from 1.
    pub number: u64,
    /// Number of bytes that may still be read before the total limit.
    left: u64,
}

impl<'a> Lines<'a> {
    /// Opens a log of a kind. The file may be compressed with Zstandard or gzip.
    ///
    /// # Errors
    /// If the file cannot be read or decompressed.
    pub fn open(file: &'a Path, what: &'static str) -> Result<Lines<'a>, LogError> {
        let unreadable = |reason: String| LogError::unreadable(file, reason);
        let opened = File::open(file).map_err(|e| unreadable(e.to_string()))?;
        let size = opened.metadata().map_err(|e| unreadable(e.to_string()))?.len();
        let mut head = [0u8; 4];
        let mut reader = BufReader::new(opened);
        let n = reader.read(&mut head).map_err(|e| unreadable(e.to_string()))?;
        let whole = std::io::Cursor::new(head[..n].to_vec()).chain(reader);
        // The magic number of a Zstandard frame (RFC 8878, 3.1.1).
        let from: Box<dyn BufRead> = if head[..n] == [0x28, 0xb5, 0x2f, 0xfd] {
            let decoder = zstd::Decoder::with_buffer(whole)
                .map_err(|e| unreadable(format!("invalid Zstandard file: {e}")))?;
            Box::new(BufReader::new(decoder))
        // The magic number of gzip (RFC 1952, 2.3.1).
        } else if head[..n].starts_with(&[0x1f, 0x8b]) {
            Box::new(BufReader::new(MultiGzDecoder::new(whole)))
        } else {
            Box::new(BufReader::new(whole))
        };
        let left = size.saturating_mul(MAX_EXPANSION).saturating_add(MAX_LINE);
        Ok(Lines { file, what, from, line: Vec::new(), number: 0, left })
    }

    /// Reads the next line, without its line ending; `None` after the last line.
    ///
    /// # Errors
    /// If the file cannot be read, a line is too long or not UTF-8, or the file expands too far.
    pub fn read(&mut self) -> Result<Option<&str>, LogError> {
        self.number += 1;
        let at = |reason: String| LogError::at(self.file, self.number, reason);
        self.line.clear();
        let most = MAX_LINE.min(self.left);
        let read = (&mut self.from).take(most).read_until(b'\n', &mut self.line);
        let read = read.map_err(|e| at(format!("{e}; is the file {}?", self.what)))? as u64;
        self.left -= read;
        if read == most && self.line.last() != Some(&b'\n') {
            return Err(at(if self.left == 0 {
                format!(
                    "the file expands to more than {MAX_EXPANSION} times its size; it is not {}",
                    self.what
                )
            } else {
                format!("the line is longer than {} KiB; is the file {}?", MAX_LINE / 1024, self.what)
            }));
        }
        if read == 0 {
            return Ok(None);
        }
        let text = std::str::from_utf8(&self.line).map_err(|_| at("the line is not UTF-8 text".into()))?;
        Ok(Some(text.trim_end_matches(['\n', '\r'])))
    }
}
