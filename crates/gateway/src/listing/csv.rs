//! CSV listings of objects: S3 Inventory files, whose manifest names the columns, and files with a header line.

use std::io::BufRead;
use std::path::Path;

use csv::{ReaderBuilder, StringRecord};

use super::{Listed, ListingError, Receive, decode};

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

    fn listed(&self, record: &StringRecord, is_encoded: bool) -> Result<Option<Listed>, String> {
        let field = |index: usize| record.get(index).unwrap_or_default();
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

/// Reads a table. The keys of S3 Inventory, which has its columns in a manifest, are percent-encoded.
///
/// # Errors
/// If the columns are unknown, a line is malformed, or the receiver fails.
pub fn read<E: From<ListingError>>(
    path: &Path,
    file: impl BufRead,
    columns: Option<&Columns>,
    receive: &mut Receive<'_, E>,
) -> Result<(), E> {
    let name = path.display().to_string();
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(file);
    let mut record = StringRecord::new();
    let (mut known, is_encoded) = (columns.cloned(), columns.is_some());
    loop {
        let line = reader.position().line();
        let fail = |problem| ListingError::Line { file: name.clone(), line, problem };
        if !reader.read_record(&mut record).map_err(|e| fail(e.to_string()))? {
            return Ok(());
        }
        match &known {
            Some(columns) => {
                if let Some(listed) = columns.listed(&record, is_encoded).map_err(fail)? {
                    receive(listed)?;
                }
            }
            None => {
                known = Some(Columns::of(record.iter()).ok_or_else(|| ListingError::Format {
                    file: name.clone(),
                    problem: "the first line must name the columns Key, Size and LastModified; S3 Inventory is read \
                              with its manifest.json"
                        .into(),
                })?);
            }
        }
    }
}
