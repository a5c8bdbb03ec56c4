//! Lines of logs, which may be compressed.

use std::io::BufRead;
use std::path::Path;

use plimsoll_base::files::{self, read_line};

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
    files::expanded(file).map_err(|e| LogError::unreadable(file, e))
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
