//! Listings in CSV. Inventories of S3 have no names of columns: these are in the manifest, or follow from the contents.

mod columns;
mod record;

use std::io::BufRead;
use std::path::Path;

use csv_core::Reader;

pub use self::columns::Columns;
use self::record::CsvRow;
use crate::{InventoryError, Listed, Modified, Receive};

/// Number of rows after which the columns are known.
const MAX_UNKNOWN: u64 = 1000;

/// Decodes a key of an inventory: percent-encoding, with `+` for a space.
fn decoded<'a>(key: &'a [u8], into: &'a mut Vec<u8>) -> &'a [u8] {
    if !key.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return key;
    }
    into.clear();
    let hex = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut at = 0;
    while at < key.len() {
        let pair = key.get(at + 1).copied().and_then(hex).zip(key.get(at + 2).copied().and_then(hex));
        match (key[at], pair) {
            (b'%', Some((high, low))) => {
                into.push(high * 16 + low);
                at += 3;
                continue;
            }
            (b'+', _) => into.push(b' '),
            (byte, _) => into.push(byte),
        }
        at += 1;
    }
    into
}

/// Contents of a row.
enum RowKind<'a> {
    /// Names of the columns.
    Header,
    /// Delete marker before the columns are known.
    Marker,
    /// Object or delete marker, with the columns of the table.
    Entry(&'a Columns),
}

/// Columns of a table, as far as its first rows tell.
struct Table {
    columns: Option<Columns>,
    /// Number of rows that have been read.
    rows: u64,
}

impl Table {
    /// Takes the next row.
    ///
    /// # Errors
    /// If no listing has such a row.
    fn next(&mut self, record: &CsvRow) -> Result<RowKind<'_>, String> {
        self.rows += 1;
        match &mut self.columns {
            Some(known) if known.is_guessed => known.complete(record, self.rows >= MAX_UNKNOWN),
            Some(_) => {}
            None if self.rows == 1 && Columns::of_header(record).is_some() => {
                self.columns = Columns::of_header(record);
                return Ok(RowKind::Header);
            }
            None => {
                self.columns = Columns::of_contents(record);
                if self.columns.is_none() && !(self.rows < MAX_UNKNOWN && Columns::is_marker(record)) {
                    return Err(not_a_listing(record, self.rows == 1));
                }
            }
        }
        Ok(self.columns.as_ref().map_or(RowKind::Marker, RowKind::Entry))
    }
}

/// Returns the message for a row that no listing has.
fn not_a_listing(record: &CsvRow, is_first: bool) -> String {
    let names: Vec<_> =
        (0..record.fields().min(6)).map(|at| String::from_utf8_lossy(record.field(at))).collect();
    let expected = "expected that of S3 or Google Cloud Storage, a table whose first line names the columns key and size, \
                    or the output of `aws s3 ls --recursive`";
    match is_first && names.len() > 1 {
        true => format!("this is no inventory: {expected}; the columns are {}", names.join(", ")),
        false => format!("this is no inventory: {expected}"),
    }
}

/// Reads a listing. `columns` are those that a manifest names.
///
/// # Errors
/// If the columns are unknown, a row is malformed, or the receiver fails.
pub fn read<E: From<InventoryError>>(
    file: &Path,
    mut from: impl BufRead,
    columns: Option<Columns>,
    receive: &mut Receive<'_, E>,
) -> Result<(), E> {
    let (mut reader, mut record, mut key) = (Reader::new(), CsvRow::new(), Vec::new());
    let mut table = Table { columns, rows: 0 };
    loop {
        let row = reader.line();
        let at = |reason: String| InventoryError::row(file, row, reason);
        if !record.read(&mut reader, &mut from).map_err(at)? {
            // S3 quotes all fields and encodes the quotes in keys, so an odd one means that the end of the file is
            // missing.
            let is_cut = record.has_odd_quotes() && table.columns.is_some_and(|of| of.is_encoded);
            return if is_cut { Err(at("the file ends within a field".into()).into()) } else { Ok(()) };
        }
        let marker = Listed {
            file,
            row,
            bucket: b"",
            key: b"",
            bytes: None,
            modified: Modified::Unknown,
            class: b"",
            tier: b"",
        };
        let of = match table.next(&record).map_err(at)? {
            RowKind::Header => continue,
            RowKind::Marker => {
                receive(&marker)?;
                continue;
            }
            RowKind::Entry(of) => of,
        };
        let cell = |at: Option<usize>| at.map(|at| record.field(at)).unwrap_or_default();
        let is_marker = cell(of.is_marker).eq_ignore_ascii_case(b"true");
        let size = cell(Some(of.size)).trim_ascii();
        let bytes = match size {
            _ if is_marker => None,
            b"" => None,
            _ => {
                let size = String::from_utf8_lossy(size);
                Some(size.parse().map_err(|_| at(format!("{size} is no size in bytes")))?)
            }
        };
        let raw = cell(Some(of.key));
        receive(&Listed {
            bucket: cell(of.bucket),
            key: if of.is_encoded { decoded(raw, &mut key) } else { raw },
            bytes,
            modified: match cell(of.modified).trim_ascii() {
                b"" => Modified::Unknown,
                text => Modified::Text(text),
            },
            class: cell(of.class),
            tier: cell(of.tier.or_else(|| of.tier_of(&record))),
            ..marker
        })?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_decoded() {
        let mut buffer = Vec::new();
        assert_eq!(decoded(b"a+b%2Fc%C3%A4", &mut buffer), "a b/cä".as_bytes());
        assert_eq!(decoded(b"100%", &mut buffer), b"100%");
        assert_eq!(decoded(b"%zz%4", &mut buffer), b"%zz%4");
    }
}
