//! A table: an immutable file of index entries, sorted by key.
//!
//! ```text
//! blocks:  entries, seal u32
//! entry:   key length u16 | kind u8 | (place of 28 bytes | head length u16 | head), unless removed | key
//! index:   first key, offset and length of each block
//! filter:  Bloom filter of all keys
//! footer:  offset of the index u64 | offset of the filter u64 | entries u64 | number of the catalog's index u64 |
//!          number of the table u64 | CRC of index and filter u32 | CRC of the footer u32 | magic u32
//! ```
//!
//! The seal of a block is the CRC-32C of its entries, combined with the numbers of the index and the table and the
//! offset of the block. So a block, or a whole file, at another place than its own is taken for damage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};

use plimsoll_base::rng::mix;

use super::bloom::Bloom;
use super::record::{crc32c, hash};
use crate::disk::{Disk, DiskFile};
use crate::{CatalogError, LogPosition, Row};

/// Length above which a block is complete, in bytes.
const BLOCK: usize = 4096;
/// Number of bytes that are written at a time.
const WRITE: usize = 1 << 20;
/// Length of the footer in bytes.
const FOOTER: usize = 52;
const MAGIC: u32 = 0x3254_4c50;
/// Directory of the tables.
pub const DIRECTORY: &str = "index";

/// Index entry of a key: its row, or `None` if the key was removed.
pub type Slot = Option<Row>;

/// Returns the file name of a table.
pub fn file_name(id: u64) -> String {
    format!("{id:08}.table")
}

/// Returns the number of the table with this file name; `None` for other files.
pub fn id_of(name: &str) -> Option<u64> {
    let id = name.strip_suffix(".table")?.parse().ok()?;
    (file_name(id) == name).then_some(id)
}

/// Numbers that identify a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableId {
    /// Number of the index, in the manifest.
    pub index: u64,
    /// Number of the table.
    pub table: u64,
}

impl TableId {
    /// Returns the seal of a block at an offset of the table.
    fn seal(self, offset: u64, entries: &[u8]) -> u32 {
        crc32c(entries) ^ mix(self.index ^ mix(self.table ^ mix(offset))) as u32
    }
}

fn put_u32(out: &mut Vec<u8>, numbers: &[u32]) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

/// Reader of consecutive numbers and byte strings.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<usize> {
        Some(usize::from(u16::from_le_bytes(self.take(2)?.try_into().ok()?)))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
}

/// Appends an entry to a block.
fn encode(out: &mut Vec<u8>, key: &[u8], slot: &Slot) {
    // `Writer::admit` refuses keys and heads whose lengths need more than 16 bits.
    out.extend_from_slice(&(key.len() as u16).to_le_bytes());
    out.push(u8::from(slot.is_some()));
    if let Some(row) = slot {
        let p = &row.place;
        let numbers = [p.segment, p.offset, p.skip, p.properties, p.body, p.properties_crc, p.body_crc];
        put_u32(out, &numbers);
        out.extend_from_slice(&(row.head.len() as u16).to_le_bytes());
        out.extend_from_slice(&row.head);
    }
    out.extend_from_slice(key);
}

/// An entry of a block that is not yet decoded.
struct Raw<'a> {
    key: &'a [u8],
    place: Option<&'a [u8]>,
    head: &'a [u8],
}

impl<'a> Raw<'a> {
    fn next(cursor: &mut Cursor<'a>) -> Option<Raw<'a>> {
        let key_len = cursor.u16()?;
        let (place, head) = match cursor.take(1)? {
            [0] => (None, &[][..]),
            _ => {
                let place = cursor.take(28)?;
                let head_len = cursor.u16()?;
                (Some(place), cursor.take(head_len)?)
            }
        };
        Some(Raw { key: cursor.take(key_len)?, place, head })
    }

    fn slot(&self, block: &Bytes) -> Slot {
        let mut cursor = Cursor(self.place?);
        let mut next = || cursor.u32().unwrap_or(0);
        let place = LogPosition {
            segment: next(),
            offset: next(),
            skip: next(),
            properties: next(),
            body: next(),
            properties_crc: next(),
            body_crc: next(),
        };
        Some(Row { head: block.slice_ref(self.head), place, loaded: None })
    }
}

/// Writer of a table.
pub struct TableWriter {
    file: Arc<dyn DiskFile>,
    id: TableId,
    written: u64,
    buffer: Vec<u8>,
    /// Start of the current block in the buffer.
    block_start: usize,
    keys: Vec<u8>,
    blocks: Vec<(u32, u64, u32)>,
    bloom: Bloom,
    entries: u64,
}

impl TableWriter {
    /// Starts a table with this number for at most `entries` entries.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn new(disk: &dyn Disk, id: TableId, entries: u64) -> Result<TableWriter, CatalogError> {
        Ok(TableWriter {
            file: disk.create(DIRECTORY, &file_name(id.table))?,
            id,
            written: 0,
            buffer: Vec::with_capacity(WRITE),
            block_start: 0,
            keys: Vec::new(),
            blocks: Vec::new(),
            bloom: Bloom::new(entries as usize),
            entries: 0,
        })
    }

    /// Appends an entry, whose key must be greater than all earlier ones.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&mut self, key: &[u8], slot: &Slot) -> Result<(), CatalogError> {
        if self.buffer.len() == self.block_start {
            self.keys.extend_from_slice(key);
        }
        encode(&mut self.buffer, key, slot);
        self.bloom.insert(hash(key));
        self.entries += 1;
        if self.buffer.len() - self.block_start >= BLOCK {
            self.end_block()?;
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), CatalogError> {
        if self.buffer.len() == self.block_start {
            return Ok(());
        }
        let offset = self.written + self.block_start as u64;
        let seal = self.id.seal(offset, &self.buffer[self.block_start..]);
        self.buffer.extend_from_slice(&seal.to_le_bytes());
        let length = self.buffer.len() - self.block_start;
        // The positions of the keys and the lengths of the blocks have 32 bits.
        assert!(self.keys.len() <= u32::MAX as usize, "the index of table {} is too long", self.id.table);
        let end = self.blocks.last().map_or(0, |(_, offset, length)| offset + u64::from(*length));
        assert_eq!(
            offset, end,
            "a block of table {} does not begin where the previous one ends",
            self.id.table
        );
        self.blocks.push((self.keys.len() as u32, offset, length as u32));
        self.block_start = self.buffer.len();
        if self.buffer.len() >= WRITE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), CatalogError> {
        self.file.write_at(self.written, &self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        self.block_start = 0;
        Ok(())
    }

    /// Writes the index, the filter and the footer, and makes the file durable.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self, disk: &dyn Disk) -> Result<Table, CatalogError> {
        self.end_block()?;
        self.flush()?;
        let mut crc = Digest::new(CrcAlgorithm::Crc32Iscsi);
        let index_at = self.written;
        for block in 0..self.blocks.len() {
            let key = first_key(&self.keys, &self.blocks, block);
            let (_, offset, length) = self.blocks[block];
            self.buffer.extend_from_slice(&(key.len() as u16).to_le_bytes());
            self.buffer.extend_from_slice(key);
            self.buffer.extend_from_slice(&offset.to_le_bytes());
            self.buffer.extend_from_slice(&length.to_le_bytes());
            if self.buffer.len() >= WRITE {
                crc.update(&self.buffer);
                self.flush()?;
            }
        }
        let filter_at = self.written + self.buffer.len() as u64;
        let bloom = std::mem::take(&mut self.bloom);
        for words in bloom.words().chunks(WRITE / 8) {
            words.iter().for_each(|word| self.buffer.extend_from_slice(&word.to_le_bytes()));
            crc.update(&self.buffer);
            self.flush()?;
        }
        for number in [index_at, filter_at, self.entries, self.id.index, self.id.table] {
            self.buffer.extend_from_slice(&number.to_le_bytes());
        }
        put_u32(&mut self.buffer, &[crc.finalize() as u32]);
        let footer_crc = crc32c(&self.buffer);
        put_u32(&mut self.buffer, &[footer_crc, MAGIC]);
        assert_eq!(
            self.buffer.len(),
            FOOTER,
            "the footer of table {} has an unexpected length",
            self.id.table
        );
        self.flush()?;
        // The manifest may name the table only when both are durable: the file and its entry in the directory.
        self.file.sync()?;
        disk.sync_directory(DIRECTORY)?;
        self.keys.shrink_to_fit();
        self.blocks.shrink_to_fit();
        Ok(Table {
            id: self.id.table,
            identity: self.id,
            is_damaged: AtomicBool::new(false),
            entries: self.entries,
            bytes: self.written,
            file: self.file,
            bloom,
            keys: self.keys,
            blocks: self.blocks,
        })
    }
}

/// Returns the first key of a block. `keys` and `blocks` are those of its table.
fn first_key<'a>(keys: &'a [u8], blocks: &[(u32, u64, u32)], block: usize) -> &'a [u8] {
    let start = if block == 0 { 0 } else { blocks[block - 1].0 as usize };
    &keys[start..blocks[block].0 as usize]
}

/// An open table.
pub struct Table {
    /// Number of the table.
    pub id: u64,
    /// Number of entries.
    pub entries: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    identity: TableId,
    /// True after a read has found damage.
    is_damaged: AtomicBool,
    file: Arc<dyn DiskFile>,
    bloom: Bloom,
    /// First keys of all blocks, one after the other.
    keys: Vec<u8>,
    /// End of the first key in `keys`, offset and length of each block.
    blocks: Vec<(u32, u64, u32)>,
}

impl Table {
    /// Opens a table and reads its index and filter.
    ///
    /// # Errors
    /// [`CatalogError::Damaged`] if the file is missing, is not this table, or its index, filter or footer is damaged;
    /// or the error of the disk.
    pub fn open(disk: &dyn Disk, identity: TableId) -> Result<Table, CatalogError> {
        let id = identity.table;
        let damaged = |offset: u64, problem: &str| CatalogError::Damaged {
            file: format!("{DIRECTORY}/{}", file_name(id)),
            offset,
            problem: problem.into(),
        };
        let file = match disk.open(DIRECTORY, &file_name(id)) {
            // Without the file, the index is built again. Any other error of the disk ends the start.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(damaged(0, "the file is missing"));
            }
            file => file?,
        };
        let bytes = file.len()?;
        let footer_at =
            bytes.checked_sub(FOOTER as u64).ok_or_else(|| damaged(0, "the file is too short"))?;
        let mut footer = [0; FOOTER];
        file.read_at(footer_at, &mut footer)?;
        let parse = |footer: &[u8]| {
            let mut cursor = Cursor(footer);
            let numbers = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
            let found = TableId { index: cursor.u64()?, table: cursor.u64()? };
            let crc = cursor.u32()?;
            let intact = cursor.u32()? == crc32c(&footer[..FOOTER - 8]) && cursor.u32()? == MAGIC;
            let (index_at, filter_at, entries) = numbers;
            let fits = found == identity && index_at <= filter_at && filter_at <= footer_at;
            (intact && fits).then_some((index_at, filter_at, entries, crc))
        };
        let (index_at, filter_at, entries, crc) =
            parse(&footer).ok_or_else(|| damaged(footer_at, "the footer is wrong"))?;
        let mut tail = vec![0; (footer_at - index_at) as usize];
        file.read_at(index_at, &mut tail)?;
        if crc32c(&tail) != crc {
            return Err(damaged(index_at, "the index or the filter is wrong"));
        }
        let (index, filter) = tail.split_at((filter_at - index_at) as usize);
        let bloom = Bloom::from_bytes(filter).ok_or_else(|| damaged(filter_at, "the filter is wrong"))?;
        let (mut keys, mut blocks) = (Vec::new(), Vec::new());
        let mut cursor = Cursor(index);
        while !cursor.0.is_empty() {
            let mut next = || {
                let length = cursor.u16()?;
                Some((cursor.take(length)?, cursor.u64()?, cursor.u32()?))
            };
            let (key, offset, length) = next().ok_or_else(|| damaged(index_at, "the index is wrong"))?;
            keys.extend_from_slice(key);
            blocks.push((keys.len() as u32, offset, length));
        }
        keys.shrink_to_fit();
        blocks.shrink_to_fit();
        let is_damaged = AtomicBool::new(false);
        Ok(Table { id, entries, bytes, identity, is_damaged, file, bloom, keys, blocks })
    }

    /// Returns the number of the block that would contain a key.
    fn block_of(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.blocks.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if first_key(&self.keys, &self.blocks, middle) <= key { low = middle + 1 } else { high = middle }
        }
        low.saturating_sub(1)
    }

    /// Reads a block and verifies it.
    fn read_block(&self, block: usize) -> Result<Bytes, CatalogError> {
        let (_, offset, length) = self.blocks[block];
        let mut bytes = vec![0; length as usize];
        match self.file.read_at(offset, &mut bytes) {
            // A file that was cut is damaged, and the index is built again. Other errors say nothing about the bytes.
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Err(self.damaged(block)),
            read => read?,
        }
        let end = bytes.len().saturating_sub(4);
        let seal = Cursor(&bytes[end..]).u32();
        if seal != Some(self.identity.seal(offset, &bytes[..end])) {
            return Err(self.damaged(block));
        }
        bytes.truncate(end);
        Ok(Bytes::from(bytes))
    }

    /// Returns true if a read of the table has found damage.
    pub fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Acquire)
    }

    /// Reads all blocks and verifies them.
    ///
    /// # Errors
    /// If a block is damaged or cannot be read.
    pub fn verify(&self) -> Result<(), CatalogError> {
        (0..self.blocks.len()).try_for_each(|block| self.read_block(block).map(|_| ()))
    }

    fn damaged(&self, block: usize) -> CatalogError {
        // `Engine::repair_index` builds the index again only if a table has this mark.
        self.is_damaged.store(true, Ordering::Release);
        CatalogError::Damaged {
            file: format!("{DIRECTORY}/{}", file_name(self.id)),
            offset: self.blocks[block].1,
            problem: "a block of the index is wrong".into(),
        }
    }

    /// Returns the entry of a key, whose hash is `hash`; `None` if the table has none.
    ///
    /// # Errors
    /// If the block is damaged or cannot be read.
    pub fn get(&self, key: &[u8], hash: u64) -> Result<Option<Slot>, CatalogError> {
        // A table has no block if it comes from an empty memtable, or only from removals.
        if self.blocks.is_empty() || !self.bloom.may_contain(hash) {
            return Ok(None);
        }
        let block = self.block_of(key);
        let bytes = self.read_block(block)?;
        let mut cursor = Cursor(&bytes);
        while !cursor.0.is_empty() {
            let raw = Raw::next(&mut cursor).ok_or_else(|| self.damaged(block))?;
            if raw.key == key {
                return Ok(Some(raw.slot(&bytes)));
            }
        }
        Ok(None)
    }

    /// Returns the entries from the first key at or after `from`.
    pub fn iterate(self: &Arc<Table>, from: &[u8]) -> TableIterator {
        let block = self.block_of(from);
        TableIterator { table: Arc::clone(self), block, bytes: Bytes::new(), at: 0, from: from.to_vec() }
    }
}

/// Entries of a table in key order.
pub struct TableIterator {
    table: Arc<Table>,
    /// Next block to read.
    block: usize,
    bytes: Bytes,
    /// Offset of the next entry in `bytes`.
    at: usize,
    from: Vec<u8>,
}

impl TableIterator {
    /// Returns the next entry; `None` at the end.
    ///
    /// # Errors
    /// If a block is damaged or cannot be read.
    pub fn next(&mut self) -> Result<Option<(Bytes, Slot)>, CatalogError> {
        loop {
            if self.at == self.bytes.len() {
                if self.block >= self.table.blocks.len() {
                    return Ok(None);
                }
                self.bytes = self.table.read_block(self.block)?;
                self.at = 0;
                self.block += 1;
                continue;
            }
            let mut cursor = Cursor(&self.bytes[self.at..]);
            let raw = Raw::next(&mut cursor).ok_or_else(|| self.table.damaged(self.block - 1))?;
            self.at = self.bytes.len() - cursor.0.len();
            if raw.key >= self.from.as_slice() {
                return Ok(Some((self.bytes.slice_ref(raw.key), raw.slot(&self.bytes))));
            }
        }
    }
}
