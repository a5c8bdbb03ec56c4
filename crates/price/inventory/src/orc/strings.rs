//! Strings: with their lengths, or as positions in a dictionary.

use super::Problem;
use super::integers::Integers;
use super::metadata::{Column, DATA, DICTIONARY, Encoding, LENGTH, StripeStreams};
use super::stream::Stream;

/// Largest dictionary of a stripe, in bytes.
const MAX_DICTIONARY: usize = 256 << 20;
/// Largest string, in bytes: keys of objects have at most 1,024.
const MAX_STRING: usize = 1 << 20;

/// Strings of a column in a stripe.
pub enum Strings {
    /// Bytes and their lengths.
    Direct {
        /// Bytes of all strings.
        data: Stream,
        /// Lengths of the strings.
        lengths: Integers,
    },
    /// Positions in a dictionary.
    Dictionary {
        /// Position of each string.
        positions: Integers,
        /// Bytes of the dictionary.
        bytes: Vec<u8>,
        /// End of each entry of the dictionary.
        ends: Vec<usize>,
    },
    /// No string has a value.
    Empty,
}

fn length(number: i64) -> Result<usize, Problem> {
    usize::try_from(number)
        .ok()
        .filter(|length| *length <= MAX_STRING)
        .ok_or_else(|| "a string is too long".into())
}

impl Strings {
    /// Opens a column.
    pub fn open(streams: &StripeStreams, column: Column) -> Result<Strings, Problem> {
        let encoding = streams.encoding(column)?;
        let is_second = matches!(encoding.kind, Encoding::DirectV2 | Encoding::DictionaryV2);
        let stream = |kind| streams.find(column, kind);
        let (Some(data), lengths) = (stream(DATA), stream(LENGTH)) else { return Ok(Strings::Empty) };
        let lengths = lengths.map(|lengths| Integers::new(lengths, is_second, false));
        if matches!(encoding.kind, Encoding::Direct | Encoding::DirectV2) {
            let lengths = lengths.ok_or("a column of strings has no lengths")?;
            return Ok(Strings::Direct { data, lengths });
        }
        let positions = Integers::new(data, is_second, false);
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        if let (Some(mut lengths), Some(mut dictionary)) = (lengths, stream(DICTIONARY)) {
            for _ in 0..encoding.dictionary_size {
                let next = length(lengths.next()?)?;
                if bytes.len() + next > MAX_DICTIONARY {
                    return Err("a dictionary is too large".into());
                }
                dictionary.append(next, &mut bytes)?;
                ends.push(bytes.len());
            }
        }
        Ok(Strings::Dictionary { positions, bytes, ends })
    }

    /// Appends the next string to a buffer.
    pub fn next(&mut self, into: &mut Vec<u8>) -> Result<(), Problem> {
        match self {
            Strings::Direct { data, lengths } => {
                let length = length(lengths.next()?)?;
                data.append(length, into)
            }
            Strings::Dictionary { positions, bytes, ends } => {
                let at = usize::try_from(positions.next()?).map_err(|e| e.to_string())?;
                let end = *ends.get(at).ok_or("a string is not in its dictionary")?;
                let start = if at == 0 { 0 } else { ends[at - 1] };
                into.extend_from_slice(&bytes[start..end]);
                Ok(())
            }
            Strings::Empty => Err("a column of strings has no data".into()),
        }
    }
}
