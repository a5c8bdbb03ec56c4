//! CSV listings of objects: S3 Inventory files, whose manifest names the columns, and files with a header line.

use std::io::BufRead;
use std::path::Path;

use csv_core::{ReadRecordResult, Reader};

use super::{Listed, ListingError, MAX_LINE, Receive, decode};

/// Numbers of the columns that are needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    bucket: Option<usize>,
    key: usize,
    size: usize,
    modified: usize,
    is_marker: Option<usize>,
}

impl Columns {
    /// Finds the columns by their names; `None` if one is missing.
    pub fn of<'a>(names: impl Iterator<Item = &'a str>) -> Option<Columns> {
        let plain = |name: &str| name.trim().to_ascii_lowercase().replace(['_', ' ', '-'], "");
        let names: Vec<String> = names.map(plain).collect();
        let find = |wanted: &[&str]| names.iter().position(|name| wanted.contains(&name.as_str()));
        Some(Columns {
            bucket: find(&["bucket"]),
            key: find(&["key", "name"])?,
            size: find(&["size"])?,
            modified: find(&["lastmodifieddate", "lastmodified", "modified"])?,
            is_marker: find(&["isdeletemarker"]),
        })
    }

    fn listed(&self, fields: &[&str], is_encoded: bool) -> Result<Option<Listed>, String> {
        let field = |index: usize| fields.get(index).copied().unwrap_or_default();
        if self.is_marker.is_some_and(|index| field(index).eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let (size, modified) = (field(self.size), field(self.modified));
        let size = size.parse().map_err(|_| format!("{size} is no size in bytes"))?;
        let time = modified.parse::<jiff::Timestamp>();
        let time = time.map_err(|_| format!("{modified} is no time, such as 2026-01-02T03:04:05Z"))?;
        let key = if is_encoded { decode(field(self.key)) } else { field(self.key).to_string() };
        let bucket = self.bucket.map(field).unwrap_or_default().to_string();
        Ok(Some(Listed { bucket, key, size, modified_ms: time.as_millisecond() }))
    }
}

/// Maximum number of fields of a line.
const MAX_FIELDS: usize = 256;

/// A line of a table. Its length is limited, whatever the file contains.
struct Record {
    text: Vec<u8>,
    ends: Vec<usize>,
    /// Number of bytes and of fields of this line.
    used: (usize, usize),
}

impl Record {
    fn new() -> Record {
        Record { text: vec![0; MAX_LINE], ends: vec![0; MAX_FIELDS], used: (0, 0) }
    }

    /// Reads the next line. Returns false at the end of the file.
    fn read(&mut self, reader: &mut Reader, file: &mut impl BufRead) -> Result<bool, String> {
        self.used = (0, 0);
        loop {
            let input = file.fill_buf().map_err(|e| e.to_string())?;
            let (text, ends) = (&mut self.text[self.used.0..], &mut self.ends[self.used.1..]);
            let (result, read, written, fields) = reader.read_record(input, text, ends);
            file.consume(read);
            self.used = (self.used.0 + written, self.used.1 + fields);
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::Record => return Ok(true),
                ReadRecordResult::End => return Ok(false),
                ReadRecordResult::OutputFull => {
                    return Err(format!("the line is longer than {} KiB", MAX_LINE / 1024));
                }
                ReadRecordResult::OutputEndsFull => {
                    return Err(format!("the line has more than {MAX_FIELDS} fields"));
                }
            }
        }
    }

    /// Returns the fields; `None` if the line is not UTF-8.
    fn fields(&self) -> Option<Vec<&str>> {
        let text = std::str::from_utf8(&self.text[..self.used.0]).ok()?;
        let mut start = 0;
        let ends = self.ends[..self.used.1].iter();
        ends.map(|end| text.get(std::mem::replace(&mut start, *end)..*end)).collect()
    }
}

/// Reads a table. The keys of S3 Inventory, which has its columns in a manifest, are percent-encoded.
///
/// # Errors
/// If the columns are unknown, a line is malformed, or the receiver fails.
pub fn read<E: From<ListingError>>(
    path: &Path,
    mut file: impl BufRead,
    columns: Option<&Columns>,
    receive: &mut Receive<'_, E>,
) -> Result<(), E> {
    let name = path.display().to_string();
    let (mut reader, mut record) = (Reader::new(), Record::new());
    let (mut known, is_encoded) = (columns.cloned(), columns.is_some());
    loop {
        let line = reader.line();
        let fail = |problem| ListingError::Line { file: name.clone(), line, problem };
        if !record.read(&mut reader, &mut file).map_err(fail)? {
            return Ok(());
        }
        let fields = record.fields().ok_or_else(|| fail("the line is not UTF-8 text".into()))?;
        match &known {
            Some(columns) => {
                if let Some(listed) = columns.listed(&fields, is_encoded).map_err(fail)? {
                    receive(listed)?;
                }
            }
            None => {
                known = Some(Columns::of(fields.into_iter()).ok_or_else(|| ListingError::Format {
                    file: name.clone(),
                    problem: "the first line must name the columns Key, Size and LastModified; S3 Inventory is read \
                              with its manifest.json"
                        .into(),
                })?);
            }
        }
    }
}
