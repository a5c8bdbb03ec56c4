//! Requests of DuckDB's `read_parquet` from S3, with the defaults of version 1.5, one thread and no filter.
//!
//! The end of the file is read in the hope that it has the metadata; otherwise the metadata are read too. A row group
//! is then read whole if nearly all of it is needed, or else by column, and neighbours are merged: see `LoadMetadata`
//! and `ParquetReader::Scan` in `extension/parquet/parquet_reader.cpp`, and `ReadAheadBuffer` in
//! `extension/parquet/include/thrift_tools.hpp`. All reads pass through the cache of [`super::cache`].

use std::ops::Range;

use super::ScanRequest::{self, Bytes, Head};
use super::cache::Cache;
use super::layout::{Group, Layout, TAIL_BYTES};

/// Part of a file that its metadata are expected to have, and the limits of the first read.
const FOOTER_SHARE: u64 = 1000;
const MIN_FOOTER_BYTES: u64 = 16 << 10;
const MAX_FOOTER_BYTES: u64 = 256 << 10;
/// Buffer of a file that is not read directly, which is how the metadata are read (`INITIAL_READ_BUFFER_LEN` of the
/// extension `httpfs`).
const BUFFER_BYTES: u64 = 1 << 20;
/// Share of a row group from which on it is read whole.
const WHOLE_GROUP_SHARE: f64 = 0.95;
/// Gap between two chunks up to which they are merged.
const GAP_BYTES: u64 = 16 << 10;

/// Returns the requests for a file.
pub fn requests(file: &Layout, columns: &[usize]) -> Vec<ScanRequest> {
    let expected = (file.bytes / FOOTER_SHARE).clamp(MIN_FOOTER_BYTES, MAX_FOOTER_BYTES);
    let footer = expected.next_power_of_two().min(file.bytes);
    let mut requests = vec![Head];
    let mut cache = Cache::default();
    let buffered = |range: Range<u64>| {
        let buffer = BUFFER_BYTES.min(file.bytes - range.start);
        Bytes(range.start..range.end.max(range.start + buffer))
    };
    requests.extend(cache.read(file.bytes - footer..file.bytes).into_iter().map(buffered));
    if file.metadata_bytes + TAIL_BYTES > footer {
        let metadata = file.metadata_start()..file.metadata_start() + file.metadata_bytes;
        requests.extend(cache.read(metadata).into_iter().map(buffered));
    }
    for group in &file.groups {
        for range in reads(group, columns) {
            requests.extend(cache.read(range).into_iter().map(Bytes));
        }
    }
    requests
}

/// Returns the ranges of a row group that are read, in order.
fn reads(group: &Group, columns: &[usize]) -> Vec<Range<u64>> {
    let all = group.chunks.iter().map(|chunk| chunk.range());
    let span = all.clone().map(|range| range.start).min().unwrap_or(0)
        ..all.map(|range| range.end).max().unwrap_or(0);
    let chosen: Vec<Range<u64>> = columns.iter().map(|column| group.chunks[*column].range()).collect();
    let needed: u64 = chosen.iter().map(|range| range.end - range.start).sum();
    if span.is_empty() || chosen.is_empty() {
        return Vec::new();
    }
    if needed as f64 / (span.end - span.start) as f64 > WHOLE_GROUP_SHARE {
        return vec![span];
    }
    merge(chosen)
}

/// Merges each range with the first of the known ones that is near enough. The last new range is read first.
fn merge(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let is_before =
        |a: &Range<u64>, b: &Range<u64>| a.start < b.start && a.end.saturating_add(GAP_BYTES) < b.start;
    // Numbers of the ranges by their order in the file.
    let (mut merged, mut order): (Vec<Range<u64>>, Vec<usize>) = (Vec::new(), Vec::new());
    for range in ranges {
        let place = order.partition_point(|known| is_before(&merged[*known], &range));
        match order.get(place).copied().filter(|near| !is_before(&range, &merged[*near])) {
            Some(near) => {
                merged[near] = merged[near].start.min(range.start)..merged[near].end.max(range.end);
            }
            None => {
                order.insert(place, merged.len());
                merged.push(range);
            }
        }
    }
    merged.reverse();
    merged
}
