//! Rows of a table, with a largest length whatever the file contains.

use std::io::BufRead;

use csv_core::{ReadRecordResult, Reader};

/// Maximum length of a row in bytes; a percent-encoded key has at most 3 KiB.
const MAX_ROW: usize = 64 * 1024;
/// Maximum number of fields of a row.
const MAX_FIELDS: usize = 256;

/// A row: its fields one after the other.
pub struct CsvRow {
    text: Vec<u8>,
    ends: Vec<usize>,
    /// Number of bytes and of fields of this row.
    used: (usize, usize),
    /// Number of quotes in the file so far.
    quotes: usize,
}

impl CsvRow {
    /// Creates the buffers of a row.
    pub fn new() -> CsvRow {
        CsvRow { text: vec![0; MAX_ROW], ends: vec![0; MAX_FIELDS], used: (0, 0), quotes: 0 }
    }

    /// Reads the next row. Returns false at the end of the file.
    pub fn read(&mut self, reader: &mut Reader, file: &mut impl BufRead) -> Result<bool, String> {
        self.used = (0, 0);
        loop {
            let input = file.fill_buf().map_err(|e| e.to_string())?;
            let (text, ends) = (&mut self.text[self.used.0..], &mut self.ends[self.used.1..]);
            let (result, read, written, fields) = reader.read_record(input, text, ends);
            self.quotes += input[..read].iter().filter(|byte| **byte == b'"').count();
            file.consume(read);
            self.used = (self.used.0 + written, self.used.1 + fields);
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::Record => return Ok(true),
                ReadRecordResult::End => return Ok(false),
                ReadRecordResult::OutputFull => {
                    return Err(format!("the line is longer than {} KiB", MAX_ROW / 1024));
                }
                ReadRecordResult::OutputEndsFull => {
                    return Err(format!("the line has more than {MAX_FIELDS} fields"));
                }
            }
        }
    }

    /// Returns true if the rows so far have an odd number of quotes, so that a quoted field has no end.
    pub fn has_odd_quotes(&self) -> bool {
        self.quotes % 2 == 1
    }

    /// Returns the number of fields.
    pub fn fields(&self) -> usize {
        self.used.1
    }

    /// Returns a field; empty if the row has fewer.
    pub fn field(&self, index: usize) -> &[u8] {
        let ends = &self.ends[..self.used.1];
        let start = if index == 0 { Some(0) } else { ends.get(index - 1).copied() };
        let range = start.zip(ends.get(index).copied());
        range.and_then(|(start, end)| self.text.get(start..end)).unwrap_or_default()
    }
}
