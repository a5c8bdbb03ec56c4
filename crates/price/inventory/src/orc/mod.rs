//! Inventories in ORC (Apache ORC specification, version 1), as S3 writes them: strings, integers and times, without
//! compression, or with Zlib or Zstandard. The only reader for Rust needs another version of the Arrow libraries.

mod integers;
mod metadata;
mod stream;
mod strings;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use self::integers::Integers;
use self::metadata::{Column, ColumnKind, Encoding, Stripe, StripeStreams, Tail};
use self::stream::{Bits, OrcFile};
use self::strings::Strings;
use crate::{InventoryError, Listed, Modified, Receive};

/// Problem of a file, in words.
type Problem = String;

/// A column of a stripe: its values, and the rows that have one.
struct Values<T> {
    present: Option<Bits>,
    values: T,
}

impl<T> Values<T> {
    /// Returns true if the next row has a value.
    fn is_present(&mut self) -> Result<bool, Problem> {
        self.present.as_mut().map_or(Ok(true), Bits::next)
    }
}

/// Columns of an inventory, by their position in the file.
struct Columns {
    bucket: Option<Column>,
    key: Column,
    size: Column,
    class: Option<Column>,
    tier: Option<Column>,
    modified: Option<Column>,
    marker: Option<Column>,
}

/// First second of ORC's timestamps: 2015-01-01, in the time zone of the writer. S3 writes in UTC.
const EPOCH: i64 = 1_420_070_400;

impl Columns {
    fn of(tail: &Tail) -> Result<Columns, Problem> {
        let find = |name: &str, kind: ColumnKind| match tail.column(name) {
            Some(column) if column.kind == kind => Ok(Some(column)),
            Some(_) => Err(format!("the column {name} has an unexpected type")),
            None => Ok(None),
        };
        let missing = || "the inventory has no columns key and size".to_string();
        Ok(Columns {
            bucket: find("bucket", ColumnKind::Text)?,
            key: find("key", ColumnKind::Text)?.ok_or_else(missing)?,
            size: find("size", ColumnKind::Integer)?.ok_or_else(missing)?,
            class: find("storage_class", ColumnKind::Text)?,
            tier: find("intelligent_tiering_access_tier", ColumnKind::Text)?,
            modified: tail
                .column("last_modified_date")
                .filter(|column| !matches!(column.kind, ColumnKind::Boolean | ColumnKind::Other)),
            marker: tail.column("is_delete_marker").filter(|column| column.kind == ColumnKind::Boolean),
        })
    }
}

fn present(streams: &StripeStreams, column: Column) -> Option<Bits> {
    streams.find(column, metadata::PRESENT).map(Bits::new)
}

fn texts(streams: &StripeStreams, column: Column) -> Result<Values<Strings>, Problem> {
    Ok(Values { present: present(streams, column), values: Strings::open(streams, column)? })
}

fn integers(streams: &StripeStreams, column: Column) -> Result<Values<Integers>, Problem> {
    // Writers leave out the stream of a column without values.
    let data = streams.find_or_empty(column, metadata::DATA);
    let is_second = matches!(streams.encoding(column)?.kind, Encoding::DirectV2 | Encoding::DictionaryV2);
    Ok(Values { present: present(streams, column), values: Integers::new(data, is_second, true) })
}

/// Reads the next text of a column into a buffer; empty without a value.
fn next_text(column: Option<&mut Values<Strings>>, into: &mut Vec<u8>) -> Result<(), Problem> {
    into.clear();
    let Some(column) = column else { return Ok(()) };
    match column.is_present()? {
        true => column.values.next(into),
        false => Ok(()),
    }
}

/// Times of the last modification in a stripe.
struct Times {
    kind: ColumnKind,
    numbers: Values<Integers>,
}

impl Times {
    /// Returns the time of the next row. Parts of a second are left out: S3 has none.
    fn next(&mut self) -> Result<Modified<'static>, Problem> {
        if !self.numbers.is_present()? {
            return Ok(Modified::Unknown);
        }
        let number = self.numbers.values.next()?;
        Ok(Modified::Ms(match self.kind {
            ColumnKind::Timestamp => number.saturating_add(EPOCH).saturating_mul(1000),
            ColumnKind::Date => number.saturating_mul(86_400_000),
            _ => number,
        }))
    }
}

/// Rows of a file, and who receives them.
struct Rows<'a, 'b, E> {
    file: &'a Path,
    row: u64,
    receive: &'a mut Receive<'b, E>,
}

impl<E: From<InventoryError>> Rows<'_, '_, E> {
    fn fail(&self, problem: Problem) -> E {
        InventoryError::file(self.file, format!("invalid ORC file: {problem}")).into()
    }

    fn stripe(&mut self, source: &Arc<OrcFile>, stripe: &Stripe, of: &Columns) -> Result<(), E> {
        let mut reader = Reader::open(source, stripe, of).map_err(|problem| self.fail(problem))?;
        for _ in 0..stripe.rows {
            let (bytes, modified) = reader.next().map_err(|problem| self.fail(problem))?;
            self.row += 1;
            let [bucket, key, class, tier, time] = &reader.texts;
            let modified = if time.is_empty() { modified } else { Modified::Text(time) };
            (self.receive)(&Listed {
                file: self.file,
                row: self.row,
                bucket,
                key,
                bytes,
                modified,
                class,
                tier,
            })?;
        }
        Ok(())
    }
}

/// Columns of a stripe.
struct Reader {
    columns: [Option<Values<Strings>>; 5],
    sizes: Values<Integers>,
    times: Option<Times>,
    markers: Option<Values<Bits>>,
    /// Bucket, key, class, tier, and time if it is a text, of the row.
    texts: [Vec<u8>; 5],
}

impl Reader {
    fn open(source: &Arc<OrcFile>, stripe: &Stripe, of: &Columns) -> Result<Reader, Problem> {
        let streams = StripeStreams::read(source, stripe)?;
        let open = |column: Option<Column>| column.map(|column| texts(&streams, column)).transpose();
        let times = |column: Column| {
            Ok::<_, Problem>(Times { kind: column.kind, numbers: integers(&streams, column)? })
        };
        let time = of.modified.filter(|column| column.kind == ColumnKind::Text);
        Ok(Reader {
            columns: [open(of.bucket)?, open(Some(of.key))?, open(of.class)?, open(of.tier)?, open(time)?],
            sizes: integers(&streams, of.size)?,
            times: of.modified.filter(|column| column.kind != ColumnKind::Text).map(times).transpose()?,
            markers: of.marker.map(|column| Values {
                present: present(&streams, column),
                values: Bits::new(streams.find_or_empty(column, metadata::DATA)),
            }),
            texts: Default::default(),
        })
    }

    /// Reads the next row. Returns its size and time.
    fn next(&mut self) -> Result<(Option<u64>, Modified<'static>), Problem> {
        for (column, into) in self.columns.iter_mut().zip(&mut self.texts) {
            next_text(column.as_mut(), into)?;
        }
        let size = if self.sizes.is_present()? { Some(self.sizes.values.next()?) } else { None };
        let bytes = size.map(|size| u64::try_from(size).map_err(|_| "a size is negative".to_string()));
        let is_marker = match &mut self.markers {
            Some(markers) => markers.is_present()? && markers.values.next()?,
            None => false,
        };
        let bytes = bytes.filter(|_| !is_marker);
        let modified = self.times.as_mut().map_or(Ok(Modified::Unknown), Times::next)?;
        Ok((bytes.transpose()?, modified))
    }
}

/// Reads an inventory.
///
/// # Errors
/// If the file is malformed, a column is missing, or the receiver fails.
pub fn read<E: From<InventoryError>>(file: &Path, receive: &mut Receive<'_, E>) -> Result<(), E> {
    let mut rows = Rows { file, row: 0, receive };
    let opened = File::open(file).map_err(|e| E::from(InventoryError::file(file, e)))?;
    let (tail, source) = Tail::read(opened).map_err(|problem| rows.fail(problem))?;
    let columns = Columns::of(&tail).map_err(|problem| rows.fail(problem))?;
    tail.stripes.iter().try_for_each(|stripe| rows.stripe(&source, stripe, &columns))
}
