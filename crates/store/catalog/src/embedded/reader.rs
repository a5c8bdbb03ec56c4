//! Reads the groups of a segment.

use bytes::Bytes;

use super::record::{GROUP_HEADER, Group, Record, Salt, announced_header_len, may_begin_group};
use super::segment::{HEADER, Segment};
use crate::CatalogError;

/// Reads the groups of a segment one after the other.
pub struct GroupReader<'a> {
    segment: &'a Segment,
    /// Offset of the next group.
    pub offset: u64,
    /// Length of the file.
    pub length: u64,
}

/// A group with the bytes of its records.
pub struct ReadGroup {
    /// Header of the group.
    pub group: Group,
    salt: Salt,
    segment: u32,
    /// Offset of the first record in the segment.
    pub records_at: u64,
    /// Records, one after the other.
    pub bytes: Bytes,
}

impl ReadGroup {
    /// Returns the group at the start of `bytes`, which are at an offset in a segment; `None` if there is no complete
    /// group with an intact header.
    pub fn parse(salt: Salt, segment: u32, offset: u64, bytes: &Bytes) -> Option<ReadGroup> {
        let length = announced_header_len(salt, bytes)?;
        let group = Group::parse(salt, bytes.get(..length)?, segment, offset)?;
        let records = usize::try_from(group.records_len()).ok()?;
        let bytes = (bytes.len() - length >= records).then(|| bytes.slice(length..length + records))?;
        Some(ReadGroup { group, salt, segment, records_at: offset + length as u64, bytes })
    }

    /// Returns true if all records are intact.
    pub fn is_intact(&self) -> bool {
        self.records().all(|(record, ..)| record.is_some_and(|record| record.intact))
    }

    /// Returns the offset behind the group.
    pub fn end(&self) -> u64 {
        self.records_at + self.bytes.len() as u64
    }

    /// Returns each record with its bytes, its offset and the hash of its key. The record of a damaged header
    /// is `None`, because its key is unknown.
    pub fn records(&self) -> impl Iterator<Item = (Option<Record>, &[u8], u64, u64)> {
        let mut at = 0;
        self.group.table.iter().map(move |(length, hash)| {
            let bytes = &self.bytes[at..at + *length as usize];
            let offset = self.records_at + at as u64;
            at += *length as usize;
            (Record::parse(self.salt, bytes, self.segment, offset), bytes, offset, *hash)
        })
    }
}

impl<'a> GroupReader<'a> {
    /// Creates a reader that starts at an offset; 0 is the first group.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn new(segment: &'a Segment, offset: u64) -> Result<GroupReader<'a>, CatalogError> {
        Ok(GroupReader { segment, offset: offset.max(HEADER), length: segment.file.len()? })
    }

    /// Returns the group at an offset; `None` if there is no complete group with an intact header.
    fn group_at(&self, offset: u64) -> Result<Option<ReadGroup>, CatalogError> {
        if offset + GROUP_HEADER as u64 > self.length {
            return Ok(None);
        }
        let salt = self.segment.salt;
        // Only the fixed part at first: its lengths may be damaged, and must fit the file before memory is allocated.
        let mut head = vec![0; GROUP_HEADER];
        self.segment.file.read_at(offset, &mut head)?;
        let Some(length) = announced_header_len(salt, &head) else { return Ok(None) };
        if offset + length as u64 > self.length {
            return Ok(None);
        }
        head.resize(length, 0);
        self.segment.file.read_at(offset, &mut head)?;
        let Some(group) = Group::parse(salt, &head, self.segment.id, offset) else { return Ok(None) };
        let records_at = offset + length as u64;
        if records_at + group.records_len() > self.length {
            return Ok(None);
        }
        let mut bytes = vec![0; group.records_len() as usize];
        self.segment.file.read_at(records_at, &mut bytes)?;
        let bytes = bytes.into();
        Ok(Some(ReadGroup { group, salt, segment: self.segment.id, records_at, bytes }))
    }

    /// Returns the next group and moves behind it; `None` if none begins at the offset.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn next_group(&mut self) -> Result<Option<ReadGroup>, CatalogError> {
        let group = self.group_at(self.offset)?;
        if let Some(group) = &group {
            self.offset = group.end();
        }
        Ok(group)
    }

    /// Moves to the next intact group behind the offset. Returns false if there is none.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn skip_damage(&mut self) -> Result<bool, CatalogError> {
        const WINDOW: usize = 1 << 20;
        let mut at = self.offset + 1;
        while at + GROUP_HEADER as u64 <= self.length {
            let mut window = vec![0; WINDOW.min((self.length - at) as usize)];
            self.segment.file.read_at(at, &mut window)?;
            for index in 0..window.len().saturating_sub(3) {
                let candidate = at + index as u64;
                // A body may contain the magic number by chance, so only an intact group counts.
                if may_begin_group(self.segment.salt, &window[index..]) && self.group_at(candidate)?.is_some()
                {
                    self.offset = candidate;
                    return Ok(true);
                }
            }
            // The windows overlap by three bytes, because a magic number may lie across their border.
            at += window.len().saturating_sub(3).max(1) as u64;
        }
        Ok(false)
    }
}
