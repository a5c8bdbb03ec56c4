//! Pack files: blobs that contain the small bodies of many objects.
//!
//! ```text
//! pack file = "PLIMSEG1" record*
//! record  = magic, length of the header, length of the body, CRC-32C of these and the header, header, body,
//!           CRC-32C of the body
//! header  = bucket, key, head and properties of the object's row
//! ```
//!
//! Numbers have four bytes, least significant first. A record describes its object completely, so the objects of a pack
//! file can be listed without the catalog.

use bytes::{BufMut, Bytes, BytesMut};

use crate::name::BlobName;
use plimsoll_catalog::codec::{Reader, put_bytes};
use plimsoll_catalog::embedded::record::crc32c;

/// First bytes of a pack file.
pub const START: &[u8; 8] = b"PLIMSEG1";
/// First bytes of a record.
const MAGIC: &[u8; 4] = b"PSR1";
/// Length of the part of a record before its header in bytes.
const FIXED: usize = 16;
/// Bytes behind the body: its checksum.
const TAIL: u64 = 4;

/// A body in a pack file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slice {
    /// Name of the pack file's blob.
    pub pack_file: BlobName,
    /// Offset of the body in the pack file in bytes.
    pub offset: u64,
    /// Size of the body in bytes.
    pub size: u64,
    /// CRC-32C of the body.
    pub crc: u32,
}

impl Slice {
    /// Returns true if these are the bytes of the body.
    pub fn is_intact(&self, body: &[u8]) -> bool {
        body.len() as u64 == self.size && crc32c(body) == self.crc
    }
}

/// The object that a record describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header<'a> {
    /// Name of the bucket.
    pub bucket: &'a str,
    /// Key of the object.
    pub key: &'a str,
    /// Head of the object's row.
    pub head: &'a [u8],
    /// Properties of the object's row, without the place of the body.
    pub properties: &'a [u8],
}

impl Header<'_> {
    /// Appends a record to a pack file. Returns the offset of the body from the start of the record, and its checksum.
    pub fn put(&self, out: &mut BytesMut, body: &[u8]) -> (u64, u32) {
        let mut header = Vec::with_capacity(64 + self.properties.len());
        for bytes in [self.bucket.as_bytes(), self.key.as_bytes(), self.head, self.properties] {
            put_bytes(&mut header, bytes);
        }
        let start = out.len();
        out.extend_from_slice(MAGIC);
        out.put_u32_le(header.len() as u32);
        out.put_u32_le(body.len() as u32);
        let crc = checksum(&out[start..], &header);
        out.put_u32_le(crc);
        out.extend_from_slice(&header);
        out.extend_from_slice(body);
        let crc = crc32c(body);
        out.put_u32_le(crc);
        ((FIXED + header.len()) as u64, crc)
    }
}

/// Returns the length of a number with [`put_number`] in bytes.
pub(super) fn digits(number: usize) -> u64 {
    u64::from((usize::BITS - number.leading_zeros()).max(1).div_ceil(7))
}

/// Returns the length of a record in bytes. `lengths` has those of the bucket, the key, the head and the properties.
pub fn record_length(lengths: [usize; 4], body: u64) -> u64 {
    let header: u64 = lengths.into_iter().map(|length| digits(length) + length as u64).sum();
    FIXED as u64 + header + body + TAIL
}

fn checksum(fixed: &[u8], header: &[u8]) -> u32 {
    crc32c(&[&fixed[..FIXED - 4], header].concat())
}

/// Maximum length of a header in bytes.
const MAX_HEADER: usize = 17 << 20;

/// Decodes the header of a record; `None` if it is malformed.
pub fn decode(bytes: &[u8]) -> Option<Header<'_>> {
    let mut reader = Reader(bytes);
    let (bucket, key) = (reader.text()?, reader.text()?);
    Some(Header { bucket, key, head: reader.bytes()?, properties: reader.bytes()? })
}

/// A record in the bytes of a pack file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Encoded header of the object.
    pub header: Bytes,
    /// Offset of the body in the pack file in bytes.
    pub offset: u64,
    /// The body, which has the right checksum.
    pub body: Bytes,
}

/// Consecutive records in a range of a pack file.
pub struct Records {
    bytes: Bytes,
    /// Offset of `bytes` in the pack file.
    at: u64,
}

impl Records {
    /// Creates the records of a range that begins with one. `at` is the offset of the range in the pack file.
    pub fn new(bytes: Bytes, at: u64) -> Records {
        Records { bytes, at }
    }

    /// Returns the offset of the next record in the pack file.
    pub fn offset(&self) -> u64 {
        self.at
    }
}

/// Returns the 4-byte number at an offset.
fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(bytes)).ok()
}

impl Iterator for Records {
    type Item = Record;

    /// Returns the next record; `None` at the end of the range, or if the next record is incomplete or damaged.
    fn next(&mut self) -> Option<Record> {
        let bytes = &self.bytes;
        let header_len = number(bytes, 4).filter(|len| *len <= MAX_HEADER)?;
        let body_len = number(bytes, 8)?;
        let (from, tail) = (FIXED + header_len, FIXED + header_len + body_len);
        let fixed = bytes.get(..FIXED)?;
        let header = bytes.get(FIXED..from)?;
        let is_header = fixed.starts_with(MAGIC) && number(bytes, 12)? == checksum(fixed, header) as usize;
        let body = bytes.get(from..tail)?;
        if !is_header || number(bytes, tail)? != crc32c(body) as usize {
            return None;
        }
        let offset = self.at + from as u64;
        let record = Record { header: bytes.slice(FIXED..from), offset, body: bytes.slice(from..tail) };
        let end = tail + TAIL as usize;
        self.bytes = self.bytes.slice(end..);
        self.at += end as u64;
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack_file() -> (Bytes, Vec<u64>) {
        let mut out = BytesMut::from(&START[..]);
        let mut offsets = Vec::new();
        for (key, body) in [("a", "first"), ("b/c", ""), ("d", "PSR1 and more")] {
            let header = Header { bucket: "bucket", key, head: b"head", properties: b"properties" };
            let start = out.len() as u64;
            offsets.push(start + header.put(&mut out, body.as_bytes()).0);
            let lengths = [header.bucket.len(), key.len(), header.head.len(), header.properties.len()];
            assert_eq!(record_length(lengths, body.len() as u64), out.len() as u64 - start);
        }
        (out.freeze(), offsets)
    }

    #[test]
    fn the_records_of_a_pack_file_are_read_back() {
        let (bytes, offsets) = pack_file();
        let mut records = Records::new(bytes.slice(8..), 8);
        let found: Vec<_> = records.by_ref().collect();
        assert_eq!(found.iter().map(|record| record.offset).collect::<Vec<_>>(), offsets);
        assert_eq!(found[2].body, "PSR1 and more");
        let header = decode(&found[1].header).unwrap();
        assert_eq!((header.bucket, header.key, header.head), ("bucket", "b/c", &b"head"[..]));
        assert_eq!(records.offset(), bytes.len() as u64);
        // From the second record on.
        let start = (offsets[0] + 5 + TAIL) as usize;
        assert_eq!(Records::new(bytes.slice(start..), start as u64).count(), 2);
    }

    #[test]
    fn the_length_of_a_record_is_known_before_it_is_written() {
        for length in [0, 1, 127, 128, 129, 16_383, 16_384, 100_000] {
            let key = "k".repeat(length);
            let header = Header { bucket: "b", key: &key, head: &[], properties: b"p" };
            let mut out = BytesMut::new();
            header.put(&mut out, &[7; 300]);
            assert_eq!(record_length([1, length, 0, 1], 300), out.len() as u64, "{length}");
        }
    }

    #[test]
    fn damage_ends_the_records() {
        let (bytes, offsets) = pack_file();
        for at in 8..offsets[0] as usize + 5 {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 1;
            assert_eq!(Records::new(Bytes::from(damaged).slice(8..), 8).count(), 0, "byte {at}");
        }
        let mut random = vec![0; 64];
        random[..4].copy_from_slice(MAGIC);
        random[4..8].fill(255);
        assert_eq!(Records::new(random.into(), 0).count(), 0);
    }

    #[test]
    fn a_cut_range_ends_with_its_last_complete_record() {
        let (bytes, offsets) = pack_file();
        for end in 8..bytes.len() {
            let count = Records::new(bytes.slice(8..end), 8).count();
            let complete = |index: usize, size: u64| offsets[index] + size + TAIL <= end as u64;
            let expected = usize::from(complete(0, 5)) + usize::from(complete(1, 0));
            assert_eq!(count, expected, "{end} bytes");
        }
    }
}
