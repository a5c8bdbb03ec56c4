//! Inventories in ORC (Apache ORC specification, version 1), as S3 writes them: strings and integers, without
//! compression, or with Zlib or Zstandard. The only reader for Rust needs another version of the Arrow libraries.

mod integers;
mod metadata;
mod stream;
mod strings;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use self::integers::Integers;
use self::metadata::{Column, Encoding, Kind, Stripe, StripeStreams, Tail};
use self::stream::{Bits, Source};
use self::strings::Strings;
use super::{Inventory, Listed};
use crate::explain::ExplainError;

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
}

impl Columns {
    fn of(tail: &Tail) -> Result<Columns, Problem> {
        let find = |name: &str, kind: Kind| match tail.column(name) {
            Some(column) if column.kind == kind => Ok(Some(column)),
            Some(_) => Err(format!("the column {name} has an unexpected type")),
            None => Ok(None),
        };
        let missing = || "the inventory has no columns key and size".to_string();
        Ok(Columns {
            bucket: find("bucket", Kind::Text)?,
            key: find("key", Kind::Text)?.ok_or_else(missing)?,
            size: find("size", Kind::Integer)?.ok_or_else(missing)?,
            class: find("storage_class", Kind::Text)?,
            tier: find("intelligent_tiering_access_tier", Kind::Text)?,
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
    let data = streams.find(column, metadata::DATA).ok_or("a column of numbers has no data")?;
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

fn stripe(source: &Arc<Source>, stripe: &Stripe, of: &Columns, into: &mut Inventory) -> Result<(), Problem> {
    let streams = StripeStreams::read(source, stripe)?;
    let open = |column: Option<Column>| column.map(|column| texts(&streams, column)).transpose();
    let (mut buckets, mut classes, mut tiers) = (open(of.bucket)?, open(of.class)?, open(of.tier)?);
    let (mut keys, mut sizes) = (texts(&streams, of.key)?, integers(&streams, of.size)?);
    let [mut bucket, mut key, mut class, mut tier, mut name]: [Vec<u8>; 5] = Default::default();
    for _ in 0..stripe.rows {
        next_text(buckets.as_mut(), &mut bucket)?;
        next_text(Some(&mut keys), &mut key)?;
        next_text(classes.as_mut(), &mut class)?;
        next_text(tiers.as_mut(), &mut tier)?;
        let size = if sizes.is_present()? { Some(sizes.values.next()?) } else { None };
        match size.map(u64::try_from) {
            Some(Ok(bytes)) => {
                let listed = Listed { bucket: &bucket, key: &key, bytes, class: &class, tier: &tier };
                into.add(&listed, &mut name);
            }
            Some(Err(_)) => return Err("a size is negative".into()),
            None => into.without_size += 1,
        }
    }
    Ok(())
}

/// Reads an inventory.
pub fn read(file: &Path, into: &mut Inventory) -> Result<(), ExplainError> {
    let opened = File::open(file).map_err(|e| ExplainError::unreadable(file, e))?;
    let whole = || {
        let (tail, source) = Tail::read(opened)?;
        let columns = Columns::of(&tail)?;
        tail.stripes.iter().try_for_each(|each| stripe(&source, each, &columns, into))
    };
    whole().map_err(|problem: Problem| ExplainError::unreadable(file, format!("invalid ORC file: {problem}")))
}
