//! Requests of `pyarrow.parquet.read_table` from S3, with the defaults of version 26.
//!
//! The file is looked up, opened for its schema and opened for the scan: three requests for its size. The footer is
//! read once. All chunks of all row groups are then requested together, and neighbours are merged: see
//! `ParseMetaData` and `ComputeColumnChunkRange` in `cpp/src/parquet/file_reader.cc` of Apache Arrow, and
//! `ReadRangeCombiner` in `cpp/src/arrow/io/interfaces.cc`. Files of parquet-mr before 1.2.9, for which Arrow reads 100
//! bytes more, are read like others.

use std::ops::Range;

use super::ScanRequest::{self, Bytes, Head};
use super::layout::{Layout, TAIL_BYTES};

/// Bytes at the end of a file that are read first (`kDefaultFooterReadSize`).
const FOOTER_BYTES: u64 = 64 << 10;
/// Largest hole between two ranges that are merged (`kDefaultHoleSizeLimit`).
const HOLE_BYTES: u64 = 8 << 10;
/// Largest merged range (`kDefaultRangeSizeLimit`).
const RANGE_BYTES: u64 = 32 << 20;

/// Returns the requests for a file.
pub fn requests(file: &Layout, columns: &[usize]) -> Vec<ScanRequest> {
    let footer = FOOTER_BYTES.min(file.bytes);
    let mut requests = vec![Head, Head, Bytes(file.bytes - footer..file.bytes)];
    if file.metadata_bytes + TAIL_BYTES > footer {
        requests.push(Bytes(file.metadata_start()..file.metadata_start() + file.metadata_bytes));
    }
    requests.push(Head);
    let chunks = |group: &super::Group| -> Vec<Range<u64>> {
        columns.iter().map(|column| group.chunks[*column].range_from_dictionary()).collect()
    };
    requests.extend(merge(file.groups.iter().flat_map(chunks).collect()).into_iter().map(Bytes));
    requests
}

/// Merges ranges with small holes, up to a length.
fn merge(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start >= last.start && range.end <= last.end => {}
            Some(last)
                if range.end - last.start <= RANGE_BYTES
                    && range.start.saturating_sub(last.end) <= HOLE_BYTES =>
            {
                last.end = range.end;
            }
            _ => merged.push(range),
        }
    }
    merged
}
