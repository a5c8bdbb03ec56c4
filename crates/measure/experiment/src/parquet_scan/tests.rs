//! Requests of scans, for layouts that are simple enough to compute by hand.

use super::ScanRequest::{Bytes, Head};
use super::*;

const KB: u64 = 1 << 10;

/// A file of 1,000 KiB: `groups` row groups, each with three chunks of `chunk` bytes, one after the other.
fn layout(groups: u64, chunk: u64) -> Layout {
    let at = |number: u64| Chunk { data: 4 + number * chunk, dictionary: None, index: None, bytes: chunk };
    let group = |group: u64| Group { chunks: (0..3).map(|leaf| at(group * 3 + leaf)).collect() };
    Layout {
        bytes: 1000 * KB,
        metadata_bytes: 1000,
        columns: vec!["a".into(), "b".into(), "c".into()],
        groups: (0..groups).map(group).collect(),
    }
}

fn bytes(start: u64, length: u64) -> ScanRequest {
    Bytes(start..start + length)
}

#[test]
fn pyarrow_merges_chunks_with_holes_of_8_kib() {
    let footer = [Head, Head, bytes(936 * KB, 64 * KB), Head];
    let merged = requests_of(Reader::PyArrow, &layout(2, 8 * KB), &[0, 2]);
    assert_eq!(merged, [&footer[..], &[bytes(4, 6 * 8 * KB)]].concat());
    let apart = requests_of(Reader::PyArrow, &layout(1, 8 * KB + 1), &[0, 2]);
    let chunk = 8 * KB + 1;
    assert_eq!(apart, [&footer[..], &[bytes(4, chunk), bytes(4 + 2 * chunk, chunk)]].concat());
}

#[test]
fn pyarrow_requests_at_most_32_mib_and_reads_long_metadata_twice() {
    let chunk = 12 << 20;
    let file = Layout { bytes: 100 << 20, metadata_bytes: 70_000, ..layout(1, chunk) };
    let found = requests_of(Reader::PyArrow, &file, &[0, 1, 2]);
    let footer = [Head, Head, bytes(file.bytes - 64 * KB, 64 * KB), bytes(file.bytes - 70_008, 70_000), Head];
    assert_eq!(found, [&footer[..], &[bytes(4, 2 * chunk), bytes(4 + 2 * chunk, chunk)]].concat());
}

#[test]
fn duckdb_reads_a_row_group_whole_if_nearly_all_of_it_is_needed() {
    let footer = [Head, bytes(984 * KB, 16 * KB)];
    let whole = requests_of(Reader::DuckDb, &layout(2, 100 * KB), &[0, 1, 2]);
    assert_eq!(whole, [&footer[..], &[bytes(4, 300 * KB), bytes(4 + 300 * KB, 300 * KB)]].concat());
    let some = requests_of(Reader::DuckDb, &layout(1, 100 * KB), &[0, 1]);
    assert_eq!(some, [&footer[..], &[bytes(4, 200 * KB)]].concat());
}

#[test]
fn duckdb_reads_the_last_chunk_first_and_then_fills_the_gap_before_it() {
    let chunk = 100 * KB;
    let found = requests_of(Reader::DuckDb, &layout(1, chunk), &[0, 2]);
    let expected = [Head, bytes(984 * KB, 16 * KB), bytes(4 + 2 * chunk, chunk), bytes(4, 2 * chunk)];
    assert_eq!(found, expected);
}

#[test]
fn duckdb_does_not_request_what_came_with_the_footer() {
    let file = Layout { bytes: 40 * KB, ..layout(1, 10 * KB) };
    // The footer begins at 24 KiB; the third chunk has bytes before it.
    let found = requests_of(Reader::DuckDb, &file, &[2]);
    assert_eq!(found, [Head, bytes(24 * KB, 16 * KB), bytes(4 + 20 * KB, 4 * KB - 4)]);
    let small = Layout { bytes: 16 * KB, ..layout(1, 4 * KB) };
    assert_eq!(requests_of(Reader::DuckDb, &small, &[0, 1]), [Head, bytes(0, 16 * KB)]);
}

#[test]
fn duckdb_reads_long_metadata_through_a_buffer() {
    let file = Layout { metadata_bytes: 50_000, ..layout(0, 0) };
    let end = file.bytes;
    let found = requests_of(Reader::DuckDb, &file, &[]);
    assert_eq!(found, [Head, bytes(end - 16 * KB, 16 * KB), bytes(end - 50_008, 50_008)]);
    let huge = Layout { bytes: 100 << 20, metadata_bytes: 5 << 20, ..layout(0, 0) };
    let (start, footer) = (huge.metadata_start(), huge.bytes - 128 * KB);
    assert_eq!(
        requests_of(Reader::DuckDb, &huge, &[]),
        [Head, bytes(footer, 128 * KB), Bytes(start..footer)],
        "without the bytes of the footer"
    );
}

#[test]
fn files_that_are_not_parquet_and_unknown_columns_are_named() {
    let path = std::env::temp_dir().join(format!("plimsoll-parquet-scan-{}", std::process::id()));
    let scan = Scan { reader: Reader::DuckDb, select: vec!["b".into()] };
    let reason = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        trace(std::slice::from_ref(&path), &scan).unwrap_err().to_string()
    };
    assert!(reason(b"PAR1").ends_with("not a Parquet file"));
    assert!(reason(&[7; 100]).ends_with("not a Parquet file"));
    assert!(reason(b"PAR1\xff\xff\xff\x7fPAR1").contains("metadata of 2147483647 bytes"));
    assert!(reason(b"PAR1\x01\x00\x00\x00PARE").contains("encrypted"));
    std::fs::remove_file(&path).unwrap();
    let missing = columns(&layout(1, 10), &["d".into()], &path).unwrap_err().to_string();
    assert!(missing.ends_with("the file has no column 'd'; it has a, b, c"), "{missing}");
    assert_eq!(columns(&layout(1, 10), &["c".into(), "a".into()], &path).unwrap(), [0, 2]);
}
