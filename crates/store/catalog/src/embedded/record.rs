//! Format of the log: groups of self-describing records.
//!
//! A group is written with one write and one sync, and is valid as a whole. Its header lists the length and the hash of
//! the key of each record, so that a damaged record can be attributed to its key and skipped. All numbers are
//! little-endian.
//!
//! ```text
//! group:   magic u32 | count u32 | number u64 | bytes u64 | durable u64 | crc u32 | count x (length u32, key hash u64)
//! record:  magic u32 | flags u8 | reserved u8 | key length u16 | head length u32 | properties length u32 |
//!          body length u32 | properties crc u32 | body crc u32 | crc u32 | key | head | properties | body
//! ```
//!
//! `bytes` counts the records. `durable` is the offset up to which the segment was synced before the group was written.
//! The CRC of a group covers its header and its table, that of a record its header, key and head. The magic numbers and
//! these CRCs are combined with the salt of the catalog, so that bytes chosen by a client are never taken for a group
//! or a record. The CRCs are also combined with the segment and the offset, so that a copy at another place is damage.

use bytes::Bytes;
use crc_fast::CrcAlgorithm;
use plimsoll_base::rng::mix;

use crate::{LogPosition, Value};

/// First bytes of a group.
const GROUP_MAGIC: u32 = 0x3147_4c50;
/// First bytes of a record.
const RECORD_MAGIC: u32 = 0x3152_4c50;
/// Length of a group header without its table, in bytes.
pub const GROUP_HEADER: usize = 36;
/// Length of a table entry in a group header, in bytes.
pub const TABLE_ENTRY: usize = 12;
/// Length of a record header in bytes.
pub const RECORD_HEADER: usize = 32;
/// Maximum number of records in a group; a larger count is damage.
pub const MAX_RECORDS: u32 = 1 << 20;

/// Flag of a record that removes its key.
const TOMBSTONE: u8 = 1;

/// Secret number of a catalog. Its low half changes the magic numbers, its high half the CRCs of headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Salt(pub u64);

impl Salt {
    fn magic(self, magic: u32) -> u32 {
        magic ^ self.0 as u32
    }

    fn seal(self, header: &[u8], segment: u32, offset: u64) -> u32 {
        crc32c(header) ^ mix(self.0 ^ mix(u64::from(segment) << 32 ^ offset)) as u32
    }
}

/// Returns the CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Returns a hash of a key, for filters and for the table of a group.
pub fn hash(key: &[u8]) -> u64 {
    mix(crc_fast::checksum(CrcAlgorithm::Crc64Nvme, key))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// A change of one key: its new value, or `None` if it is removed.
#[derive(Debug, Clone)]
pub struct Change {
    /// Key of the record.
    pub key: Vec<u8>,
    /// New value of the key.
    pub value: Option<Value>,
}

impl Change {
    /// Returns the length of the record in bytes.
    pub fn record_len(&self) -> usize {
        let value = self.value.as_ref().map_or(0, |v| v.head.len() + v.properties.len() + v.body.len());
        RECORD_HEADER + self.key.len() + value
    }

    /// Appends the record to `out`, and returns the place that it has if `out` begins at `base` in `segment`.
    pub fn encode(&self, salt: Salt, out: &mut Vec<u8>, segment: u32, base: u64) -> LogPosition {
        let empty = Value::default();
        let value = self.value.as_ref().unwrap_or(&empty);
        let start = out.len();
        let (length, offset) = (self.record_len(), base + start as u64);
        // The log and the index store both with 32 bits. A truncated number would refer to other bytes of the log.
        assert!(length <= u32::MAX as usize, "a record of {length} bytes is too long for the log");
        assert!(offset <= u64::from(u32::MAX), "offset {offset} in log segment {segment} exceeds 32 bits");
        let place = LogPosition {
            segment,
            offset: offset as u32,
            skip: (RECORD_HEADER + self.key.len() + value.head.len()) as u32,
            properties: value.properties.len() as u32,
            body: value.body.len() as u32,
            properties_crc: crc32c(&value.properties),
            body_crc: crc32c(&value.body),
        };
        out.extend_from_slice(&salt.magic(RECORD_MAGIC).to_le_bytes());
        out.extend_from_slice(&[if self.value.is_none() { TOMBSTONE } else { 0 }, 0]);
        // `Writer::admit` has refused longer keys.
        out.extend_from_slice(&(self.key.len() as u16).to_le_bytes());
        for number in [
            value.head.len() as u32,
            place.properties,
            place.body,
            place.properties_crc,
            place.body_crc,
            0, // the CRC, which is known only below
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.key);
        out.extend_from_slice(&value.head);
        let crc = salt.seal(&out[start..], segment, offset);
        out[start + 28..start + 32].copy_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&value.properties);
        out.extend_from_slice(&value.body);
        place
    }
}

/// Header of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Number of the group; consecutive groups have consecutive numbers.
    pub number: u64,
    /// Offset up to which the segment was synced before the group was written.
    pub durable: u64,
    /// Length in bytes and hash of the key of each record.
    pub table: Vec<(u32, u64)>,
}

impl Group {
    /// Returns the length of the header with its table, in bytes.
    pub fn header_len(&self) -> usize {
        GROUP_HEADER + TABLE_ENTRY * self.table.len()
    }

    /// Returns the length of the records in bytes.
    pub fn records_len(&self) -> u64 {
        self.table.iter().map(|(length, _)| u64::from(*length)).sum()
    }

    /// Appends the header and its table to `out`, for an offset in a segment.
    pub fn encode(&self, salt: Salt, out: &mut Vec<u8>, segment: u32, offset: u64) {
        let start = out.len();
        out.extend_from_slice(&salt.magic(GROUP_MAGIC).to_le_bytes());
        out.extend_from_slice(&(self.table.len() as u32).to_le_bytes());
        for number in [self.number, self.records_len(), self.durable] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&[0; 4]);
        for (length, hash) in &self.table {
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(&hash.to_le_bytes());
        }
        let crc = salt.seal(&out[start..], segment, offset);
        out[start + 32..start + 36].copy_from_slice(&crc.to_le_bytes());
    }

    /// Parses the header at the start of `bytes`, which are at an offset in a segment; `None` if there is no intact
    /// header of this place.
    pub fn parse(salt: Salt, bytes: &[u8], segment: u32, offset: u64) -> Option<Group> {
        if !may_begin_group(salt, bytes) {
            return None;
        }
        let count = u32_at(bytes, 4);
        let length = GROUP_HEADER + TABLE_ENTRY * count as usize;
        if count > MAX_RECORDS || bytes.len() < length {
            return None;
        }
        let mut header = bytes[..length].to_vec();
        header[32..36].fill(0);
        if salt.seal(&header, segment, offset) != u32_at(bytes, 32) {
            return None;
        }
        let table = header[GROUP_HEADER..].chunks_exact(TABLE_ENTRY);
        let table = table.map(|entry| (u32_at(entry, 0), u64_at(entry, 4))).collect();
        let group = Group { number: u64_at(bytes, 8), durable: u64_at(bytes, 24), table };
        (group.records_len() == u64_at(bytes, 16)).then_some(group)
    }
}

/// Returns true if a group may begin at the start of `bytes`.
pub fn may_begin_group(salt: Salt, bytes: &[u8]) -> bool {
    u32_at(bytes, 0) == salt.magic(GROUP_MAGIC)
}

/// Returns the length of a group header with its table, as its first bytes say; `None` if no group begins here.
pub fn announced_header_len(salt: Salt, bytes: &[u8]) -> Option<usize> {
    let count = u32_at(bytes, 4);
    // The bytes are not verified yet. A damaged count must not make a reader allocate more than a header can have.
    (may_begin_group(salt, bytes) && count <= MAX_RECORDS)
        .then(|| GROUP_HEADER + TABLE_ENTRY * count as usize)
}

/// Returns the length of a record, as its first bytes say; `None` if no record begins here.
pub fn announced_record_len(salt: Salt, bytes: &[u8]) -> Option<usize> {
    let key = u16::from_le_bytes([*bytes.get(6)?, *bytes.get(7)?]);
    let lengths = [8, 12, 16].map(|at| u32_at(bytes, at) as usize);
    (u32_at(bytes, 0) == salt.magic(RECORD_MAGIC))
        .then(|| RECORD_HEADER + usize::from(key) + lengths.iter().sum::<usize>())
}

/// A parsed record, whose key and head are intact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Key of the record.
    pub key: Vec<u8>,
    /// Head; `None` if the record removes the key.
    pub head: Option<Bytes>,
    /// Place of the properties and the body.
    pub place: LogPosition,
    /// True if the properties and the body are intact.
    pub intact: bool,
}

impl Record {
    /// Parses the record that fills `bytes` at `offset` in `segment`; `None` if its header, key or head is damaged.
    pub fn parse(salt: Salt, bytes: &[u8], segment: u32, offset: u64) -> Option<Record> {
        if u32_at(bytes, 0) != salt.magic(RECORD_MAGIC) || bytes.len() < RECORD_HEADER {
            return None;
        }
        let key_len = usize::from(u16::from_le_bytes([bytes[6], bytes[7]]));
        let (head_len, properties, body) = (u32_at(bytes, 8), u32_at(bytes, 12), u32_at(bytes, 16));
        let skip = RECORD_HEADER + key_len + head_len as usize;
        let length = skip as u64 + u64::from(properties) + u64::from(body);
        if length != bytes.len() as u64 {
            return None;
        }
        let mut header = bytes[..skip].to_vec();
        header[28..32].fill(0);
        if salt.seal(&header, segment, offset) != u32_at(bytes, 28) {
            return None;
        }
        let place = LogPosition {
            segment,
            offset: offset as u32,
            skip: skip as u32,
            properties,
            body,
            properties_crc: u32_at(bytes, 20),
            body_crc: u32_at(bytes, 24),
        };
        let end = skip + properties as usize;
        // Checked apart from the header: a damaged body must not hide the key, so that only its reads fail.
        let intact =
            crc32c(&bytes[skip..end]) == place.properties_crc && crc32c(&bytes[end..]) == place.body_crc;
        let key = bytes[RECORD_HEADER..RECORD_HEADER + key_len].to_vec();
        let head = (bytes[4] & TOMBSTONE == 0)
            .then(|| Bytes::copy_from_slice(&bytes[RECORD_HEADER + key_len..skip]));
        Some(Record { key, head, place, intact })
    }

    /// Returns the change that the record describes. `bytes` are those that it was parsed from.
    pub fn change(&self, bytes: &[u8]) -> Change {
        let skip = self.place.skip as usize;
        let end = skip + self.place.properties as usize;
        let value = self.head.clone().map(|head| Value {
            head,
            properties: Bytes::copy_from_slice(&bytes[skip..end]),
            body: Bytes::copy_from_slice(&bytes[end..]),
        });
        Change { key: self.key.clone(), value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: Salt = Salt(0x1234_5678_9abc_def0);

    fn sample() -> (Change, Vec<u8>, LogPosition) {
        let value =
            Value { head: "head".into(), properties: "properties".into(), body: vec![7; 1000].into() };
        let change = Change { key: b"key".to_vec(), value: Some(value) };
        let mut out = vec![0; 5];
        let place = change.encode(SALT, &mut out, 3, 100);
        (change, out.split_off(5), place)
    }

    #[test]
    fn a_record_survives_a_round_trip() {
        let (change, bytes, place) = sample();
        assert_eq!(bytes.len(), change.record_len());
        assert_eq!((place.segment, place.offset), (3, 105));
        let record = Record::parse(SALT, &bytes, 3, 105).unwrap();
        assert_eq!((record.place, record.intact), (place, true));
        assert_eq!(record.change(&bytes).value, change.value);
    }

    #[test]
    fn every_changed_bit_is_detected() {
        let (_, bytes, _) = sample();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let record = Record::parse(SALT, &changed, 3, 105);
            assert!(record.is_none_or(|record| !record.intact), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert_eq!(Record::parse(SALT, &bytes[..length], 3, 105), None, "{length} bytes");
        }
    }

    #[test]
    fn every_changed_bit_of_a_group_header_is_detected() {
        let group = Group { number: 7, durable: 4096, table: vec![(40, 1), (50, 2)] };
        let mut bytes = Vec::new();
        group.encode(SALT, &mut bytes, 3, 100);
        assert_eq!(bytes.len(), group.header_len());
        assert_eq!(Group::parse(SALT, &bytes, 3, 100), Some(group));
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Group::parse(SALT, &changed, 3, 100), None, "bit {bit}");
        }
    }

    /// A client that knows the format, but not the salt, stores bytes that look like a group.
    #[test]
    fn bytes_with_another_salt_are_not_a_group_or_a_record() {
        let (_, record, _) = sample();
        let mut group = Vec::new();
        let header = Group { number: 7, durable: 0, table: vec![(record.len() as u32, 1)] };
        header.encode(SALT, &mut group, 3, 100);
        for other in [Salt(0), Salt(SALT.0 ^ 1), Salt(SALT.0 ^ 1 << 63)] {
            assert_eq!(Record::parse(other, &record, 3, 105), None);
            assert_eq!(Group::parse(other, &group, 3, 100), None);
        }
    }

    /// A misdirected write puts an intact group at a place where the log had another group.
    #[test]
    fn a_copy_of_a_group_or_a_record_at_another_place_is_damage() {
        let (_, record, _) = sample();
        let mut group = Vec::new();
        let header = Group { number: 7, durable: 0, table: vec![(record.len() as u32, 1)] };
        header.encode(SALT, &mut group, 3, 105);
        for (segment, offset) in [(3, 106), (4, 105), (4, 0)] {
            assert_eq!(Record::parse(SALT, &record, segment, offset), None);
            assert_eq!(Group::parse(SALT, &group, segment, offset), None);
        }
    }
}
