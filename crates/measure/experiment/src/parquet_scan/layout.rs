//! Positions of the parts of a Parquet file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use parquet::file::metadata::{FooterTail, ParquetMetaData, ParquetMetaDataReader};

use crate::logs::LogError;

/// Length of the end of a file, behind the metadata: their length and the magic number.
pub(super) const TAIL_BYTES: u64 = 8;
/// Largest metadata that are read, in bytes. Those of ten thousand columns in a hundred row groups have this size.
const MAX_METADATA_BYTES: u64 = 256 << 20;

/// Positions of the parts of a Parquet file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Size of the metadata in bytes, without the eight bytes behind them.
    pub metadata_bytes: u64,
    /// Name of the column to which each leaf of the schema belongs.
    pub columns: Vec<String>,
    /// Row groups that have rows.
    pub groups: Vec<Group>,
}

/// A row group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// A chunk for each leaf of the schema.
    pub chunks: Vec<Chunk>,
}

/// Position of a column chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// First byte of the first data page.
    pub data: u64,
    /// First byte of the dictionary page; `None` if the metadata have none.
    pub dictionary: Option<u64>,
    /// First byte of the index page; `None` if the metadata have none.
    pub index: Option<u64>,
    /// Compressed size of all pages in bytes.
    pub bytes: u64,
}

impl Layout {
    /// Reads the metadata of a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is not a readable Parquet file.
    pub fn read(path: &Path) -> Result<Layout, LogError> {
        let failed = |e: &dyn std::fmt::Display| LogError::unreadable(path, e);
        let mut file = File::open(path).map_err(|e| failed(&e))?;
        let bytes = file.metadata().map_err(|e| failed(&e))?.len();
        if bytes < TAIL_BYTES {
            return Err(failed(&"not a Parquet file"));
        }
        let mut tail = [0; TAIL_BYTES as usize];
        file.seek(SeekFrom::Start(bytes - TAIL_BYTES)).map_err(|e| failed(&e))?;
        file.read_exact(&mut tail).map_err(|e| failed(&e))?;
        let tail = FooterTail::try_new(&tail).map_err(|_| failed(&"not a Parquet file"))?;
        if tail.is_encrypted_footer() {
            return Err(failed(&"the metadata of the Parquet file are encrypted"));
        }
        let metadata_bytes = tail.metadata_length() as u64;
        if metadata_bytes > MAX_METADATA_BYTES || metadata_bytes + TAIL_BYTES > bytes {
            return Err(failed(&format!(
                "the file ends with metadata of {metadata_bytes} bytes, which is not possible"
            )));
        }
        let mut metadata = vec![0; metadata_bytes as usize];
        file.seek(SeekFrom::Start(bytes - TAIL_BYTES - metadata_bytes)).map_err(|e| failed(&e))?;
        file.read_exact(&mut metadata).map_err(|e| failed(&e))?;
        let metadata = ParquetMetaDataReader::decode_metadata(&metadata).map_err(|e| failed(&e))?;
        Layout::of(&metadata, bytes, metadata_bytes)
            .ok_or_else(|| failed(&"the metadata of the Parquet file name bytes that it does not have"))
    }

    /// Returns the positions that metadata name; `None` if a chunk is not within the file.
    fn of(metadata: &ParquetMetaData, bytes: u64, metadata_bytes: u64) -> Option<Layout> {
        let at = |offset: i64| u64::try_from(offset).ok();
        let schema = metadata.file_metadata().schema_descr();
        let columns = schema.columns().iter().map(|leaf| leaf.path().parts()[0].clone()).collect();
        let mut groups = Vec::new();
        for group in metadata.row_groups().iter().filter(|group| group.num_rows() > 0) {
            let mut chunks = Vec::with_capacity(group.num_columns());
            for column in group.columns() {
                let chunk = Chunk {
                    data: at(column.data_page_offset())?,
                    dictionary: column.dictionary_page_offset().and_then(at),
                    index: column.index_page_offset().and_then(at),
                    bytes: at(column.compressed_size())?,
                };
                if chunk.range().end > bytes {
                    return None;
                }
                chunks.push(chunk);
            }
            // Readers take the chunk of a leaf by its number.
            if chunks.len() != schema.num_columns() {
                return None;
            }
            groups.push(Group { chunks });
        }
        Some(Layout { bytes, metadata_bytes, columns, groups })
    }

    /// Returns the first byte of the metadata.
    pub fn metadata_start(&self) -> u64 {
        self.bytes - TAIL_BYTES - self.metadata_bytes
    }
}

impl Chunk {
    /// Returns the bytes of the chunk from its first page on, of any kind.
    pub fn range(&self) -> Range<u64> {
        let start = [self.dictionary, self.index].into_iter().flatten().fold(self.data, u64::min);
        start..start.saturating_add(self.bytes)
    }

    /// Returns the bytes of the chunk from its dictionary or first data page on. Some writers name 0 as the position of
    /// a dictionary that does not exist.
    pub fn range_from_dictionary(&self) -> Range<u64> {
        let start = self.dictionary.filter(|at| *at > 0).map_or(self.data, |at| at.min(self.data));
        start..start.saturating_add(self.bytes)
    }
}
