//! Positions of the columns: from names, or from the contents of a row.

use jiff::Timestamp;

use super::record::CsvRow;
use crate::names::plain;

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

/// Positions of the columns that are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    /// Position of the bucket.
    pub bucket: Option<usize>,
    /// Position of the key.
    pub key: usize,
    /// Position of the size.
    pub size: usize,
    /// Position of the time of the last modification.
    pub modified: Option<usize>,
    /// Position of the mark of delete markers.
    pub is_marker: Option<usize>,
    /// Position of the storage class.
    pub class: Option<usize>,
    /// Position of the access tier of Intelligent-Tiering.
    pub tier: Option<usize>,
    /// True if keys are percent-encoded, as S3 does.
    pub is_encoded: bool,
    /// True if the positions follow from contents, so that later rows may complete them.
    pub is_guessed: bool,
}

impl Columns {
    /// Finds the columns by their names; `None` if the key or the size is missing.
    fn of<'a>(names: impl Iterator<Item = &'a str>, is_encoded: bool) -> Option<Columns> {
        let names: Vec<String> = names.map(plain).collect();
        let find = |wanted: &[&str]| names.iter().position(|name| wanted.contains(&name.as_str()));
        Some(Columns {
            bucket: find(&["bucket"]),
            key: find(&["key", "name"])?,
            size: find(&["size"])?,
            modified: find(&["lastmodifieddate", "lastmodified", "modified", "updated"]),
            is_marker: find(&["isdeletemarker"]),
            class: find(&["storageclass"]),
            tier: find(&["intelligenttieringaccesstier"]),
            is_encoded,
            is_guessed: false,
        })
    }

    /// Finds the columns by the names in a manifest of S3 Inventory.
    pub fn of_schema(schema: &str) -> Option<Columns> {
        Columns::of(schema.split(','), true)
    }

    /// Finds the columns by the names in a header; `None` if it is none.
    pub fn of_header(record: &CsvRow) -> Option<Columns> {
        let names: Vec<_> =
            (0..record.fields()).map(|at| String::from_utf8_lossy(record.field(at))).collect();
        Columns::of(names.iter().map(|name| &**name), false)
    }

    /// Finds the columns of an inventory of S3 by the contents of a row: bucket and key come first, the size is a
    /// number, the class has a known name, the time is one. `None` if the row is of something else.
    pub fn of_contents(record: &CsvRow) -> Option<Columns> {
        let is_number = |at: &usize| {
            let text = record.field(*at);
            !text.is_empty() && text.iter().all(u8::is_ascii_digit)
        };
        let size = (2..record.fields()).find(is_number)?;
        // In the order of S3, the size is behind the key or the columns of versions, and the others follow.
        let next = record.field(size + 1);
        let is_hash =
            |text: &[u8]| text.len() >= 32 && text.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-');
        let follows = next.is_empty()
            || is_time(next)
            || is_hash(next)
            || is_boolean(next)
            || CLASSES.iter().any(|class| class.as_bytes() == next);
        let is_behind = size == 2 || size <= 5 && is_boolean(record.field(size - 1));
        if !follows || !is_behind || record.field(0).is_empty() || record.field(1).is_empty() {
            return None;
        }
        Some(Columns {
            bucket: Some(0),
            key: 1,
            size,
            modified: (2..record.fields()).find(|at| is_time(record.field(*at))),
            is_marker: None,
            class: find(record, &CLASSES),
            tier: None,
            is_encoded: true,
            is_guessed: true,
        })
    }

    /// Returns true if a row may be a delete marker: it has an empty field, which may be the size, and the time or a
    /// mark.
    pub fn is_marker(record: &CsvRow) -> bool {
        let mut rest = (2..record.fields()).map(|at| record.field(at));
        let has_other = rest.clone().any(|field| is_boolean(field) || is_time(field));
        rest.any(<[u8]>::is_empty) && has_other
    }

    /// Finds the columns of the class and the time in another row, because the first rows may have neither. `is_last`
    /// ends the search.
    pub fn complete(&mut self, record: &CsvRow, is_last: bool) {
        self.class = self.class.or_else(|| find(record, &CLASSES));
        self.modified = self.modified.or_else(|| (2..record.fields()).find(|at| is_time(record.field(*at))));
        self.is_guessed = !is_last && (self.class.is_none() || self.modified.is_none());
    }

    /// Returns the position of the access tier of an object in Intelligent-Tiering, which follows the class.
    pub fn tier_of(&self, record: &CsvRow) -> Option<usize> {
        let class = self.class.filter(|class| record.field(*class) == b"INTELLIGENT_TIERING")?;
        let is_tier = |at: &usize| TIERS.iter().any(|tier| tier.as_bytes() == record.field(*at));
        (class + 1..record.fields()).find(is_tier)
    }
}

fn find(record: &CsvRow, words: &[&str]) -> Option<usize> {
    (2..record.fields()).find(|at| words.iter().any(|word| word.as_bytes() == record.field(*at)))
}

fn is_boolean(text: &[u8]) -> bool {
    text == b"true" || text == b"false"
}

fn is_time(text: &[u8]) -> bool {
    text.len() >= 20 && std::str::from_utf8(text).is_ok_and(|text| text.parse::<Timestamp>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_follow_from_a_row() {
        let of = |row: &str| {
            let (mut reader, mut record) = (csv_core::Reader::new(), CsvRow::new());
            assert!(record.read(&mut reader, &mut row.as_bytes()).unwrap());
            Columns::of_contents(&record)
        };
        let columns = of("b,k,v1,true,false,12,2024-08-15T15:28:26.000Z,STANDARD\n").unwrap();
        assert_eq!((columns.size, columns.modified, columns.class), (5, Some(6), Some(7)));
        assert_eq!(of("b,k\n"), None);
    }
}
