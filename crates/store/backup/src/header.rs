//! Format of a piece: a header, and the compressed bytes of its runs one after the other.
//!
//! ```text
//! piece:   "PLBK" | length of the header u32, little-endian | header as JSON | payload, zstd
//! ```

use bytes::Bytes;
use plimsoll_base::net::encode::hex;
use plimsoll_s3::sign::sha256;
use serde::{Deserialize, Serialize};

use super::error::BackupError;
use super::place::Chain;
use plimsoll_catalog::embedded::Engine;
use plimsoll_catalog::embedded::follow::Run;
use plimsoll_catalog::embedded::segment_list::Position;

/// First bytes of a piece.
const MAGIC: &[u8; 4] = b"PLBK";
/// Length of the bytes before the header.
const START: usize = 8;
/// Largest header in bytes. It lists at most all segments of a log.
const MAX_HEADER: usize = 16 << 20;
/// Most bytes of the log in a piece. A piece is longer than usual only if a single group is.
const MAX_LOG: u64 = 1 << 30;
/// Level of the compression: the fastest one, because the writer of the log has the same cores.
const LEVEL: i32 = 1;

/// Consecutive bytes of a segment in a piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHeader {
    /// Number of the segment.
    pub segment: u32,
    /// Number of its first group.
    pub first_group: u64,
    /// Offset of the first byte in the segment.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Number of the group behind the last byte.
    pub next_group: u64,
}

/// Place of a piece in its log: where it ends, and a digest of what is before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tail {
    /// End of the last run.
    pub position: Position,
    /// SHA-256 of the last [`Tail::BYTES`] bytes of the segment before it, in hexadecimal digits.
    pub sha256: String,
}

impl Tail {
    /// Number of bytes that the digest covers.
    pub const BYTES: u64 = 4096;

    /// Creates the tail of a log whose last bytes are `bytes`.
    pub fn new(position: Position, bytes: &[u8]) -> Tail {
        Tail { position, sha256: hex(&sha256(bytes)) }
    }

    /// Creates the tail of a log that ends at a position; `None` if the log does not have the bytes before it.
    pub fn of(engine: &Engine, position: Position) -> Option<Tail> {
        engine.tail(&position, Tail::BYTES).map(|bytes| Tail::new(position, &bytes))
    }

    /// Returns true if a log contains everything up to this tail.
    pub fn is_in(&self, engine: &Engine) -> bool {
        // Behind the synced end, a power loss may still remove the bytes.
        let is_before = self.position.group <= engine.synced_end().group;
        is_before && Tail::of(engine, self.position).is_some_and(|tail| tail == *self)
    }
}

/// Properties of an entry of the journal that a piece does not have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryHeader {
    /// Milliseconds for which the writer leads after it began to send an entry.
    pub lease_ms: u64,
    /// Number of an entry up to which all entries existed when this one was written; 0 if it is unknown.
    pub confirmed: u64,
    /// True if the writer does not lead any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_last: bool,
}

/// Header of a piece, or of an entry of the journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Epoch of the writer.
    pub epoch: u64,
    /// Number of the piece, counted through all epochs.
    pub number: u64,
    /// SHA-256 of the header of the piece before, in hexadecimal digits; empty for the first one.
    pub previous: String,
    /// Random id of the process that has written the piece.
    pub writer: String,
    /// Unix time in milliseconds at which it was written.
    pub written_ms: u64,
    /// Epoch that follows, if this piece ends its epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// True if the runs of earlier pieces do not belong to the same log: everything begins again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_first: bool,
    /// True if the state behind each group of the piece can be restored.
    pub is_complete: bool,
    /// Time of the last group before the piece in Unix milliseconds; 0 if it has none.
    pub since_ms: u64,
    /// Least time of a group of the piece; 0 if there is none. A group without a time has the time of the group before.
    pub least_ms: u64,
    /// Time of the last group up to the end of the piece; 0 if it has none.
    pub until_ms: u64,
    /// Segments in use when the piece was begun, such as `1-3,7`; `None` in a fence, or if the last list is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<String>,
    /// Runs in the order of the log.
    pub runs: Vec<RunHeader>,
    /// End of the piece in the log.
    pub tail: Tail,
    /// Length of the payload in bytes.
    pub bytes: u64,
    /// SHA-256 of the payload, in hexadecimal digits.
    pub sha256: String,
    /// Properties of an entry of the journal, whose payload is not compressed; `None` for a piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<EntryHeader>,
}

impl Header {
    /// Returns the name of the object.
    pub fn name(&self) -> String {
        let chain = if self.entry.is_some() { Chain::Journal } else { Chain::Log };
        chain.name(self.epoch, self.number)
    }

    /// Returns the number of bytes of the log.
    pub fn log_bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).fold(0, u64::saturating_add)
    }
}

/// A header with its text, which the digest of the next header covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Header of the piece.
    pub header: Header,
    /// Header as it is stored.
    pub text: String,
}

impl Known {
    /// Creates a header that is to be stored.
    pub fn new(header: Header) -> Known {
        // Numbers and text have a JSON form.
        let text = serde_json::to_string(&header).unwrap_or_default();
        Known { header, text }
    }

    /// Parses a stored header; `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Known> {
        /// Largest number that a header may have, so that sums do not overflow.
        const MOST: u64 = 1 << 53;
        let header: Header = serde_json::from_str(text).ok()?;
        let of_run = |run: &RunHeader| [run.first_group, run.offset, run.bytes, run.next_group];
        let position = header.tail.position;
        let entry = header.entry.clone().unwrap_or_default();
        let own = [header.epoch, header.number, header.fence.unwrap_or(0), position.offset, position.group];
        let own = own.into_iter().chain([entry.lease_ms, entry.confirmed]);
        let is_small = own.chain(header.runs.iter().flat_map(of_run)).all(|number| number <= MOST);
        // The text is kept: the digest covers it as it was written, also with fields of later versions.
        is_small.then(|| Known { header, text: text.to_string() })
    }

    /// Returns the digest of the header.
    pub fn digest(&self) -> String {
        hex(&sha256(self.text.as_bytes()))
    }

    /// Returns the piece with a payload.
    pub fn encode(&self, payload: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(START + self.text.len() + payload.len());
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&(self.text.len() as u32).to_le_bytes());
        out.extend_from_slice(self.text.as_bytes());
        out.extend_from_slice(payload);
        out.into()
    }

    /// Reads the header at the start of an object. Returns the number of bytes that are needed if there are fewer.
    ///
    /// # Errors
    /// If the object is not a piece.
    pub fn decode(name: &str, bytes: &[u8]) -> Result<Result<Known, u64>, BackupError> {
        let wrong = |problem: &str| BackupError::damaged(name, problem);
        let Some((start, rest)) = bytes.split_at_checked(START) else { return Ok(Err(START as u64)) };
        let length = u32::from_le_bytes([start[4], start[5], start[6], start[7]]) as usize;
        if start[..4] != *MAGIC || length > MAX_HEADER {
            return Err(wrong("it is not a piece of a backup"));
        }
        let Some(text) = rest.get(..length) else { return Ok(Err((START + length) as u64)) };
        let known = std::str::from_utf8(text).ok().and_then(Known::parse);
        let known = known.ok_or_else(|| wrong("its header is damaged"))?;
        // A copy under another name has a right digest, and would be read twice or in place of a lost piece.
        if known.header.name() != name {
            return Err(wrong("it is another piece"));
        }
        Ok(Ok(known))
    }

    /// Returns the bytes of the runs of a piece, whose whole object is `object`.
    ///
    /// # Errors
    /// If the object does not belong to this header.
    pub fn payload(&self, object: &Bytes) -> Result<Vec<Bytes>, BackupError> {
        let name = self.header.name();
        let wrong = |problem: &str| BackupError::damaged(&*name, problem);
        let found = Known::decode(&name, object)?.map_err(|_| wrong("it is too short"))?;
        // The chain was checked with the header of an index or an earlier look; the object may have been replaced.
        if found.text != self.text {
            return Err(wrong("its header is not the one that later pieces refer to"));
        }
        let payload = object.slice(START + self.text.len()..);
        if payload.len() as u64 != self.header.bytes || hex(&sha256(&payload)) != self.header.sha256 {
            return Err(wrong("its content has changed"));
        }
        let lengths = self.header.runs.iter().map(|run| run.bytes);
        let length = lengths.fold(0u64, u64::saturating_add);
        if length > MAX_LOG {
            return Err(wrong("it is too large"));
        }
        let length = length as usize;
        let mut raw: Bytes = match self.header.entry {
            Some(_) => payload,
            None => {
                let raw = zstd::bulk::decompress(&payload, length);
                raw.map_err(|_| wrong("it cannot be decompressed"))?.into()
            }
        };
        if raw.len() != length {
            return Err(wrong("it has a wrong length"));
        }
        Ok(self.header.runs.iter().map(|run| raw.split_to(run.bytes as usize)).collect())
    }
}

/// Compresses the bytes of runs.
///
/// # Errors
/// If there is too little memory.
pub fn compress(runs: &[Run]) -> std::io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
    encoder.set_pledged_src_size(Some(runs.iter().map(|run| run.bytes.len() as u64).sum()))?;
    for run in runs {
        std::io::Write::write_all(&mut encoder, &run.bytes)?;
    }
    encoder.finish()
}

/// Returns numbers in increasing order as ranges, such as `1-3,7`.
pub fn to_ranges(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let range = |(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

/// Returns the numbers of ranges; `None` if they are malformed, not in increasing order, or more than a log can have.
pub fn from_ranges(text: &str) -> Option<Vec<u32>> {
    const MOST: usize = 1 << 22;
    let mut numbers: Vec<u32> = Vec::new();
    for range in text.split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let is_next = numbers.last().is_none_or(|number| *number < first);
        // A few characters can name four billion segments.
        if !is_next || last < first || numbers.len() + (last - first) as usize >= MOST {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_catalog::embedded::segment_list::ListedSegment;

    fn piece() -> (Known, Bytes) {
        let segment = ListedSegment { id: 3, first_group: 7, end: None };
        let run = Run { segment, offset: 28, bytes: Bytes::from(vec![5; 1000]) };
        let payload = compress(std::slice::from_ref(&run)).unwrap();
        let runs = vec![RunHeader { segment: 3, first_group: 7, offset: 28, bytes: 1000, next_group: 9 }];
        let (bytes, sha256) = (payload.len() as u64, hex(&sha256(&payload)));
        let known = Known::new(Header { epoch: 2, number: 5, runs, bytes, sha256, ..Header::default() });
        let object = known.encode(&payload);
        (known, object)
    }

    #[test]
    fn a_piece_survives_a_round_trip() {
        let (known, object) = piece();
        assert_eq!(Known::decode(&known.header.name(), &object).unwrap(), Ok(known.clone()));
        assert_eq!(known.payload(&object).unwrap(), vec![Bytes::from(vec![5; 1000])]);
        assert_eq!(Known::decode("log/1", &object[..5]).unwrap(), Err(8));
        let length = 8 + known.text.len() as u64;
        assert_eq!(Known::decode(&known.header.name(), &object[..20]).unwrap(), Err(length));
        assert!(Known::decode("log/00000002/000000000006", &object).is_err(), "a piece has its own name");
    }

    #[test]
    fn every_changed_byte_is_detected() {
        let (known, object) = piece();
        for index in 0..object.len() {
            let mut changed = object.to_vec();
            changed[index] ^= 1;
            assert!(known.payload(&changed.into()).is_err(), "byte {index}");
        }
        for length in 0..object.len() {
            assert!(known.payload(&object.slice(..length)).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn ranges_survive_a_round_trip() {
        for numbers in [vec![], vec![7], vec![1, 2, 3, 7], vec![1, 3, 4, u32::MAX - 1]] {
            assert_eq!(from_ranges(&to_ranges(&numbers)), Some(numbers));
        }
        assert_eq!(to_ranges(&[1, 2, 3, 7]), "1-3,7");
        for wrong in ["3-1", "2,1", "a", "1-", "0-4294967295", "1-2,2"] {
            assert_eq!(from_ranges(wrong), None, "{wrong}");
        }
    }
}
