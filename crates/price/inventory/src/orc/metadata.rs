//! Footers of a file and of its stripes, which are protocol buffers (ORC specification, "File Tail" and "Stripes").

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::Problem;
use super::stream::{Compression, MAX_BLOCK, OrcFile, Stream};

/// Kind of the stream with the rows that have a value.
pub const PRESENT: u64 = 0;
/// Kind of the stream with the values.
pub const DATA: u64 = 1;
/// Kind of the stream with lengths.
pub const LENGTH: u64 = 2;
/// Kind of the stream with the entries of a dictionary.
pub const DICTIONARY: u64 = 3;

/// Largest footer, in bytes.
const MAX_FOOTER: usize = 64 << 20;

/// Type of a column, as far as inventories need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Short, int or long.
    Integer,
    /// String, varchar or char.
    Text,
    /// Timestamp, whose data are seconds.
    Timestamp,
    /// Days since 1970.
    Date,
    /// True or false.
    Boolean,
    /// Any other type.
    Other,
}

/// A column of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Number of the column in the file.
    pub number: u64,
    /// Type of its values.
    pub kind: ColumnKind,
}

/// Encoding of a column in a stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Values, with the first run-length encoding.
    Direct,
    /// Dictionary, with the first run-length encoding.
    Dictionary,
    /// Values, with the second run-length encoding.
    DirectV2,
    /// Dictionary, with the second run-length encoding.
    DictionaryV2,
}

/// Encoding of a column, with the number of entries of its dictionary.
#[derive(Debug, Clone, Copy)]
pub struct ColumnEncoding {
    /// Encoding of the values.
    pub kind: Encoding,
    /// Number of entries; 0 without a dictionary.
    pub dictionary_size: u64,
}

/// A stripe: rows that are stored together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stripe {
    offset: u64,
    index: u64,
    data: u64,
    footer: u64,
    /// Number of rows.
    pub rows: u64,
}

/// Value of a field of a protocol buffer.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl Value<'_> {
    fn number(&self) -> u64 {
        match self {
            Value::Number(number) => *number,
            Value::Bytes(_) => 0,
        }
    }
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Problem> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or("its metadata ends early")?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("a number of its metadata is too long".into())
}

fn take<'a>(bytes: &mut &'a [u8], count: u64) -> Result<&'a [u8], Problem> {
    let count = usize::try_from(count).map_err(|e| e.to_string())?;
    let (first, rest) = bytes.split_at_checked(count).ok_or("its metadata ends early")?;
    *bytes = rest;
    Ok(first)
}

/// Calls `each` with every field of a message: its number and value.
fn fields<'a>(
    mut bytes: &'a [u8],
    mut each: impl FnMut(u64, Value<'a>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut bytes)?),
            1 => Value::Bytes(take(&mut bytes, 8)?),
            2 => {
                let length = varint(&mut bytes)?;
                Value::Bytes(take(&mut bytes, length)?)
            }
            5 => Value::Bytes(take(&mut bytes, 4)?),
            _ => return Err("its metadata has an unknown encoding".into()),
        };
        each(tag >> 3, value)?;
    }
    Ok(())
}

/// A type of the schema.
#[derive(Debug, Default)]
struct Type {
    kind: u64,
    children: Vec<u64>,
    names: Vec<String>,
}

impl Type {
    fn read(bytes: &[u8]) -> Result<Type, Problem> {
        let mut out = Type::default();
        fields(bytes, |field, value| {
            match (field, value) {
                (1, value) => out.kind = value.number(),
                (2, Value::Number(child)) => out.children.push(child),
                (2, Value::Bytes(mut packed)) => {
                    while !packed.is_empty() {
                        out.children.push(varint(&mut packed)?);
                    }
                }
                (3, Value::Bytes(name)) => out.names.push(String::from_utf8_lossy(name).into_owned()),
                _ => {}
            }
            Ok(())
        })?;
        Ok(out)
    }
}

/// The tail of a file: its schema and stripes.
pub struct Tail {
    /// Stripes, in order.
    pub stripes: Vec<Stripe>,
    types: Vec<Type>,
}

impl Tail {
    /// Reads the tail.
    pub fn read(file: File) -> Result<(Tail, Arc<OrcFile>), Problem> {
        let size = file.metadata().map_err(|e| e.to_string())?.len();
        let read = |at: u64, bytes: u64| -> Result<Vec<u8>, Problem> {
            let mut out = vec![0; usize::try_from(bytes).map_err(|e| e.to_string())?];
            file.read_exact_at(&mut out, at).map_err(|e| e.to_string())?;
            Ok(out)
        };
        let last = size.checked_sub(1).ok_or("it is empty")?;
        let script_bytes = u64::from(read(last, 1)?[0]);
        let script_at = last.checked_sub(script_bytes).ok_or("it is too short")?;
        let (mut footer, mut compression, mut block, mut is_orc) = (0, 0, 256 * 1024, false);
        fields(&read(script_at, script_bytes)?, |field, value| {
            match (field, value) {
                (1, value) => footer = value.number(),
                (2, value) => compression = value.number(),
                (3, value) => block = value.number(),
                (8000, Value::Bytes(magic)) => is_orc = magic == b"ORC",
                _ => {}
            }
            Ok(())
        })?;
        if !is_orc {
            return Err("its end is not that of an ORC file".into());
        }
        let compression = match compression {
            0 => Compression::None,
            1 => Compression::Zlib,
            5 => Compression::Zstandard,
            other => {
                let name = match other {
                    2 => "Snappy",
                    3 => "LZO",
                    4 => "LZ4",
                    6 => "Brotli",
                    _ => "something unknown",
                };
                return Err(format!(
                    "it is compressed with {name}; write it with Zlib, Zstandard or without compression"
                ));
            }
        };
        if footer > MAX_FOOTER as u64 || block > MAX_BLOCK {
            return Err("its metadata is too large".into());
        }
        let footer_at = script_at.checked_sub(footer).ok_or("it is too short")?;
        let source = Arc::new(OrcFile { file, compression, block });
        let footer = Stream::new(&source, footer_at, script_at).whole(MAX_FOOTER)?;
        Ok((Tail::of(&footer)?, source))
    }

    fn of(footer: &[u8]) -> Result<Tail, Problem> {
        let mut tail = Tail { stripes: Vec::new(), types: Vec::new() };
        fields(footer, |field, value| {
            match (field, value) {
                (3, Value::Bytes(bytes)) => {
                    let mut stripe = Stripe::default();
                    fields(bytes, |field, value| {
                        match field {
                            1 => stripe.offset = value.number(),
                            2 => stripe.index = value.number(),
                            3 => stripe.data = value.number(),
                            4 => stripe.footer = value.number(),
                            5 => stripe.rows = value.number(),
                            _ => {}
                        }
                        Ok(())
                    })?;
                    tail.stripes.push(stripe);
                }
                (4, Value::Bytes(bytes)) => tail.types.push(Type::read(bytes)?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(tail)
    }

    /// Returns a column of the outermost structure by its name.
    pub fn column(&self, name: &str) -> Option<Column> {
        let root = self.types.first()?;
        let number = *root.children.get(root.names.iter().position(|known| known == name)?)?;
        let kind = match self.types.get(usize::try_from(number).ok()?)?.kind {
            2..=4 => ColumnKind::Integer,
            7 | 16 | 17 => ColumnKind::Text,
            0 => ColumnKind::Boolean,
            9 | 18 => ColumnKind::Timestamp,
            15 => ColumnKind::Date,
            _ => ColumnKind::Other,
        };
        Some(Column { number, kind })
    }
}

/// Streams of a stripe.
pub struct StripeStreams {
    source: Arc<OrcFile>,
    /// Kind, column, start and end of each stream.
    streams: Vec<(u64, u64, u64, u64)>,
    encodings: Vec<ColumnEncoding>,
}

impl StripeStreams {
    /// Reads the footer of a stripe.
    pub fn read(source: &Arc<OrcFile>, stripe: &Stripe) -> Result<StripeStreams, Problem> {
        let add = |a: u64, b: u64| a.checked_add(b).ok_or_else(|| "a stripe is too large".to_string());
        let footer_at = add(add(stripe.offset, stripe.index)?, stripe.data)?;
        let footer = Stream::new(source, footer_at, add(footer_at, stripe.footer)?).whole(MAX_FOOTER)?;
        let mut out =
            StripeStreams { source: Arc::clone(source), streams: Vec::new(), encodings: Vec::new() };
        let mut at = stripe.offset;
        fields(&footer, |field, value| {
            // Further fields are the time zone and encryption.
            let (1 | 2, Value::Bytes(bytes)) = (field, value) else { return Ok(()) };
            let mut numbers = [0; 3];
            fields(bytes, |field, value| {
                if let Some(number) =
                    usize::try_from(field).ok().and_then(|n| numbers.get_mut(n.wrapping_sub(1)))
                {
                    *number = value.number();
                }
                Ok(())
            })?;
            match field {
                1 => {
                    let end = add(at, numbers[2])?;
                    out.streams.push((numbers[0], numbers[1], at, end));
                    at = end;
                }
                2 => out.encodings.push(ColumnEncoding {
                    kind: match numbers[0] {
                        0 => Encoding::Direct,
                        1 => Encoding::Dictionary,
                        2 => Encoding::DirectV2,
                        3 => Encoding::DictionaryV2,
                        _ => return Err("a column has an unknown encoding".into()),
                    },
                    dictionary_size: numbers[1],
                }),
                _ => {}
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// Returns a stream of a column; `None` if the stripe does not have it.
    pub fn find(&self, column: Column, kind: u64) -> Option<Stream> {
        let found = self.streams.iter().find(|(known, of, ..)| (*known, *of) == (kind, column.number));
        found.map(|(_, _, at, end)| Stream::new(&self.source, *at, *end))
    }

    /// Returns a stream of a column, which is empty if the stripe does not have it.
    pub fn find_or_empty(&self, column: Column, kind: u64) -> Stream {
        self.find(column, kind).unwrap_or_else(|| Stream::new(&self.source, 0, 0))
    }

    /// Returns the encoding of a column.
    pub fn encoding(&self, column: Column) -> Result<ColumnEncoding, Problem> {
        let at = usize::try_from(column.number).map_err(|e| e.to_string())?;
        self.encodings.get(at).copied().ok_or_else(|| "a column has no encoding".into())
    }
}
