//! Inventories in CSV. Inventories of S3 have no names of columns; other tables have names.

use std::io::BufRead;
use std::path::Path;

use super::{Inventory, Listed};
use crate::explain::ExplainError;
use crate::explain::table::plain;

/// Storage classes of S3.
const CLASSES: [&str; 10] = [
    "STANDARD",
    "REDUCED_REDUNDANCY",
    "STANDARD_IA",
    "ONEZONE_IA",
    "INTELLIGENT_TIERING",
    "GLACIER",
    "DEEP_ARCHIVE",
    "GLACIER_IR",
    "OUTPOSTS",
    "EXPRESS_ONEZONE",
];
/// Access tiers of Intelligent-Tiering.
const TIERS: [&str; 6] =
    ["FREQUENT", "INFREQUENT", "ARCHIVE_INSTANT_ACCESS", "ARCHIVE", "DEEP_ARCHIVE", "DEEP_ARCHIVE_ACCESS"];

/// Number of rows after which the columns are known.
const MAX_UNKNOWN: u64 = 1000;

/// Positions of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Columns {
    bucket: Option<usize>,
    key: usize,
    size: usize,
    class: Option<usize>,
    tier: Option<usize>,
    is_encoded: bool,
}

/// Returns the columns by their names in a header; `None` if it is none.
fn named(record: &csv::ByteRecord) -> Option<Columns> {
    let names: Vec<String> = record.iter().map(|cell| plain(&String::from_utf8_lossy(cell))).collect();
    let find = |wanted: &[&str]| names.iter().position(|name| wanted.contains(&name.as_str()));
    Some(Columns {
        bucket: find(&["bucket"]),
        key: find(&["key", "name"])?,
        size: find(&["size"])?,
        class: find(&["storageclass"]),
        tier: find(&["intelligenttieringaccesstier"]),
        is_encoded: false,
    })
}

/// Returns the columns of an inventory of S3 from the contents of a row: bucket and key come first, the size is a
/// number, the class has a known name. `None` if the row is of something else.
fn from_contents(record: &csv::ByteRecord) -> Option<Columns> {
    let text = |at: usize| record.get(at).and_then(|cell| std::str::from_utf8(cell).ok()).unwrap_or("");
    let is_number =
        |at: &usize| !text(*at).is_empty() && text(*at).bytes().all(|digit| digit.is_ascii_digit());
    let find = |words: &[&str]| (2..record.len()).find(|at| words.contains(&text(*at)));
    let class = find(&CLASSES);
    let size = (2..record.len()).find(is_number)?;
    (record.len() >= 3).then_some(Columns {
        bucket: Some(0),
        key: 1,
        size,
        class,
        tier: None,
        is_encoded: true,
    })
}

/// Returns the position of the access tier in a row of an object in Intelligent-Tiering, which follows the class.
fn tier_of(record: &csv::ByteRecord, class: Option<usize>) -> Option<usize> {
    let is_tier =
        |at: &usize| record.get(*at).is_some_and(|cell| TIERS.iter().any(|tier| tier.as_bytes() == cell));
    let class = class.filter(|class| record.get(*class) == Some(b"INTELLIGENT_TIERING"))?;
    (class + 1..record.len()).find(is_tier)
}

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

/// Reads an inventory.
pub fn read(file: &Path, from: Box<dyn BufRead>, into: &mut Inventory) -> Result<(), ExplainError> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(from);
    let (mut record, mut columns) = (csv::ByteRecord::new(), None::<Columns>);
    let (mut name, mut key, mut number) = (Vec::new(), Vec::new(), 0);
    // Rows before the columns are known, whose sizes are empty: delete markers.
    let mut first_sizes = 0;
    loop {
        number += 1;
        let at = |reason: String| ExplainError::at(file, number, reason);
        if !reader.read_byte_record(&mut record).map_err(|e| at(e.to_string()))? {
            into.without_size += first_sizes;
            return Ok(());
        }
        let of = match columns {
            // The class of the first rows may be empty.
            Some(mut known) if known.is_encoded && known.class.is_none() && number < MAX_UNKNOWN => {
                known.class = from_contents(&record).and_then(|found| found.class);
                *columns.insert(known)
            }
            Some(columns) => columns,
            None if number == 1 && named(&record).is_some() => {
                columns = named(&record);
                continue;
            }
            None => match from_contents(&record) {
                Some(found) => *columns.insert(found),
                None if record.len() >= 3 && number < MAX_UNKNOWN => {
                    first_sizes += 1;
                    continue;
                }
                None => {
                    let what = "this is no inventory: expected that of S3 or Google Cloud Storage, a table with the \
                                columns key and size, or the output of `aws s3 ls --recursive`";
                    return Err(at(what.into()));
                }
            },
        };
        let cell = |at: Option<usize>| at.and_then(|at| record.get(at)).unwrap_or_default();
        let size = cell(Some(of.size));
        if size.is_empty() {
            into.without_size += 1;
            continue;
        }
        let bytes = std::str::from_utf8(size).ok().and_then(|size| size.trim().parse().ok());
        let bytes = bytes.ok_or_else(|| at(format!("'{}' is not a size", String::from_utf8_lossy(size))))?;
        let raw = cell(Some(of.key));
        let tier = of.tier.or_else(|| tier_of(&record, of.class));
        let listed = Listed {
            bucket: cell(of.bucket),
            key: if of.is_encoded { decoded(raw, &mut key) } else { raw },
            bytes,
            class: cell(of.class),
            tier: cell(tier),
        };
        into.add(&listed, &mut name);
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

    #[test]
    fn columns_follow_from_a_row() {
        let row = csv::ByteRecord::from(vec!["b", "k", "v1", "true", "false", "12", "2024", "STANDARD"]);
        let columns = from_contents(&row).unwrap();
        assert_eq!((columns.size, columns.class), (5, Some(7)));
        assert_eq!(from_contents(&csv::ByteRecord::from(vec!["b", "k"])), None);
    }
}
