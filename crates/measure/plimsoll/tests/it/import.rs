//! Imports of other tools' logs. The import reproduces the published figures of R2-bench to the printed digit and adds
//! Plimsoll's own figures.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::{data, plimsoll, scratch, text};
use parquet::basic::{Compression, GzipLevel, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use plimsoll_audit::import::{Log, r2_bench, replay, warp};
use plimsoll_judge::summary::result::RunResult;

/// Returns the published rows of one store, as printed in the notes of R2-bench.
fn published(storage: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(data("r2-bench/published.csv")).unwrap();
    let rows = text.lines().skip(1).map(|line| line.split(',').map(str::to_string).collect::<Vec<_>>());
    rows.filter(|row| row[0] == storage).collect()
}

#[test]
fn the_r2_bench_log_reproduces_every_published_row() {
    let mut compared = 0;
    for (storage, file) in [("R2", "r2-c5n-9xlarge.parquet"), ("S3", "s3-c5n-9xlarge.parquet")] {
        let (_, table) = r2_bench::read(&data("r2-bench").join(file)).unwrap();
        let expected = published(storage);
        assert_eq!(table.len(), expected.len());
        for (row, printed) in table.iter().zip(expected) {
            let number = |i: usize| printed[i].parse::<f64>().unwrap();
            let figures = [
                (row.phase.clone(), printed[1].clone()),
                (format!("{:.1}", row.duration_s), format!("{:.1}", number(2))),
                (row.requests.to_string(), printed[3].clone()),
                (format!("{:.3}", row.data_gib), format!("{:.3}", number(4))),
                (format!("{:.2}", row.mbit_per_s), format!("{:.2}", number(5))),
                (format!("{:.2}", row.per_s), format!("{:.2}", number(6))),
                (format!("{:.1}", row.latency_ms), format!("{:.1}", number(7))),
                (format!("{:.0}", row.concurrency), format!("{:.0}", number(8))),
            ];
            for (computed, published) in figures {
                assert_eq!(computed, published, "{storage} {}", printed[1]);
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 12 * 8);
}

#[test]
fn the_replay_loses_no_byte_and_satisfies_littles_law() {
    let (log, table) = r2_bench::read(&data("r2-bench/r2-c5n-9xlarge.parquet")).unwrap();
    let imported = replay(&log);
    let all = table.last().unwrap();
    let tallies = || imported.states.iter().flat_map(|s| s.tallies.values());
    assert_eq!(tallies().map(|t| t.operations).sum::<u64>(), all.requests);
    let bytes: f64 = tallies().map(|t| t.bytes).sum();
    assert!(
        (bytes / (all.data_gib * (1u64 << 30) as f64) - 1.0).abs() < 1e-9,
        "bytes only move between phases"
    );
    for (phase_run, state) in imported.phase_runs.iter().zip(&imported.states) {
        let (edges, tally) = (state.edges.unwrap(), state.tallies.values().next().unwrap());
        assert_eq!(tally.in_flight_ns, tally.overlap_ns as i128, "{}", phase_run.phase.name);
        let in_flight = tally.in_flight_ns as f64 / (edges.end_ns - edges.start_ns) as f64;
        let threads = phase_run.phase.load.slots() as f64;
        assert!(
            in_flight <= threads && in_flight > 0.9 * threads,
            "{}: {in_flight} of {threads}",
            phase_run.phase.name
        );
    }
}

#[test]
fn an_imported_run_can_be_shown_and_exported() {
    let out = scratch("import");
    let file = data("r2-bench/s3-c5n-9xlarge.parquet");
    let run = plimsoll(&["import", "r2-bench"]).arg(&file).arg("--out").arg(&out).output().unwrap();
    let shown = text(&run.stdout);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    for expected in ["5386.5", "coordinated omission cannot be undone", "knee at", "As Plimsoll computes it"]
    {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
    let path = std::fs::read_dir(&out).unwrap().flatten().next().unwrap().path();
    let to = out.join("exported");
    let mut sizes = BTreeMap::new();
    for format in ["parquet", "csv", "markdown", "hlog"] {
        let exported =
            plimsoll(&["export", "--format", format, "--out"]).arg(&to).arg(&path).output().unwrap();
        assert_eq!(exported.status.code(), Some(0), "{}", text(&exported.stderr));
        for line in text(&exported.stdout).lines() {
            sizes
                .insert(line.rsplit('/').next().unwrap().to_string(), std::fs::metadata(line).unwrap().len());
        }
    }
    let names: Vec<&str> = sizes.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "intervals.csv",
            "intervals.parquet",
            "operations.parquet",
            "report.md",
            "service.hlog",
            "windows.csv",
            "windows.parquet"
        ]
    );
    assert!(sizes.values().all(|size| *size > 500), "{sizes:?}");
    let rows = std::fs::read_to_string(to.join("windows.csv")).unwrap().lines().count();
    assert_eq!(rows, 1 + 5, "a header and one row per phase");
}

/// An R2-bench log of 100 consecutive requests of 50 ms each. Times are in units of 1/`scale` seconds.
struct Requests {
    scale: f64,
    latency: Vec<f64>,
    /// Start times; `None` if the log has no `start_ts` column.
    begins: Option<Vec<f64>>,
    ends: Vec<f64>,
    bytes: Vec<i64>,
    codec: Compression,
}

/// Values of a column.
enum Values {
    Real(Vec<f64>),
    Whole(Vec<i64>),
    Text(Vec<&'static str>),
}

/// Writes a Parquet file of columns that have a value in every row.
fn write_parquet(path: &Path, columns: &[(&str, Values)], codec: Compression) {
    let fields = columns.iter().map(|(name, values)| {
        let (physical, logical) = match values {
            Values::Real(_) => (Physical::DOUBLE, None),
            Values::Whole(_) => (Physical::INT64, None),
            Values::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let column = Type::primitive_type_builder(name, physical).with_logical_type(logical);
        Arc::new(column.with_repetition(Repetition::OPTIONAL).build().unwrap())
    });
    let schema = Type::group_type_builder("log").with_fields(fields.collect()).build().unwrap();
    let properties = WriterProperties::builder().set_compression(codec).build();
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for (_, values) in columns {
        let mut column = group.next_column().unwrap().unwrap();
        match values {
            Values::Real(v) => {
                column.typed::<DoubleType>().write_batch(v, Some(&vec![1; v.len()]), None).unwrap();
            }
            Values::Whole(v) => {
                column.typed::<Int64Type>().write_batch(v, Some(&vec![1; v.len()]), None).unwrap();
            }
            Values::Text(v) => {
                let texts: Vec<ByteArray> = v.iter().map(|text| ByteArray::from(*text)).collect();
                column.typed::<ByteArrayType>().write_batch(&texts, Some(&vec![1; v.len()]), None).unwrap();
            }
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

impl Requests {
    fn new(scale: f64, latency: f64) -> Requests {
        let begins: Vec<f64> = (0..100).map(|i| (1.7e9 + f64::from(i) * 0.05) * scale).collect();
        Requests {
            scale,
            latency: vec![latency; 100],
            ends: begins.iter().map(|begin| begin + 0.05 * scale).collect(),
            begins: Some(begins),
            bytes: vec![1000; 100],
            codec: Compression::UNCOMPRESSED,
        }
    }

    fn write(&self, path: &Path) -> PathBuf {
        let mut columns = vec![
            ("ts", Values::Real(self.ends.clone())),
            ("end_ts", Values::Real(self.ends.clone())),
            ("latency_ms", Values::Real(self.latency.clone())),
            ("bytes", Values::Whole(self.bytes.clone())),
            ("retry_count", Values::Whole((0..100).map(|i| i64::from(i % 4 == 0) * 2).collect())),
            ("concurrency", Values::Whole(vec![1; 100])),
            ("phase_id", Values::Text(vec!["ramp_1"; 100])),
        ];
        if let Some(begins) = &self.begins {
            columns.push(("start_ts", Values::Real(begins.clone())));
        }
        write_parquet(path, &columns, self.codec);
        path.to_path_buf()
    }

    fn read(&self, path: &Path) -> Log {
        r2_bench::read(&self.write(path)).unwrap().0
    }

    fn refusal(&self, path: &Path) -> String {
        r2_bench::read(&self.write(path)).unwrap_err().to_string()
    }
}

fn span_ns(log: &Log) -> (u64, u64) {
    let first = &log.records[0];
    (first.end_ns - first.start_ns, log.records.last().unwrap().end_ns)
}

#[test]
fn the_units_of_times_and_latencies_are_detected() {
    let file = scratch("units").join("log.parquet");
    for scale in [1.0, 1e3, 1e6] {
        for (latency, unit) in [(0.05, "seconds"), (50.0, ""), (50_000.0, "microseconds")] {
            let mut requests = Requests::new(scale, latency);
            for starts in [true, false] {
                if !starts {
                    // Without start times the latency gives the start, and Little's law gives the unit of the latency.
                    requests.begins = None;
                }
                let log = requests.read(&file);
                let (one, all) = span_ns(&log);
                assert!(one.abs_diff(50_000_000) < 1_000, "{scale} {latency} {starts}: {one} ns");
                assert!(all.abs_diff(5_000_000_000) < 10_000, "{scale} {latency} {starts}: {all} ns");
                let noted = log
                    .notes
                    .iter()
                    .any(|note| note.contains(&format!("latency_ms is assumed to be in {unit}")));
                assert_eq!(noted, !unit.is_empty(), "{:?}", log.notes);
            }
        }
    }
}

#[test]
fn retries_and_contradictory_rows_are_recorded_in_the_run() {
    let out = scratch("contradiction");
    let mut requests = Requests::new(1.0, 50.0);
    requests.latency[7] = 20.0;
    requests.latency[8] = 90.0;
    let file = requests.write(&out.join("log.parquet"));
    let run = plimsoll(&["import", "r2-bench", "--json"]).arg(&file).arg("--out").arg(&out).output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let result: RunResult = serde_json::from_slice(&run.stdout).unwrap();
    let window = &result.windows[0];
    assert_eq!((window.operations, window.attempts, window.retries), (100, 150, 50));
    let note = "2 of 100 rows: latency_ms differs from end_ts - start_ts";
    assert!(result.run.notes.iter().any(|n| n.contains(note)), "{:?}", result.run.notes);
    assert!(text(&run.stderr).contains(note), "{}", text(&run.stderr));
}

#[test]
fn invalid_numbers_and_times_are_refused_with_their_row() {
    let file = scratch("import-refused").join("log.parquet");
    let refusal = |change: fn(&mut Requests)| {
        let mut requests = Requests::new(1.0, 50.0);
        change(&mut requests);
        requests.refusal(&file)
    };
    for (message, expected) in [
        (refusal(|r| r.latency[4] = f64::NAN), "log.parquet:5: latency_ms is NaN"),
        (refusal(|r| r.latency[4] = -1.0), "log.parquet:5: latency_ms is -1, which is negative"),
        (refusal(|r| r.ends[99] = f64::INFINITY), "log.parquet:100: end_ts is inf"),
        (refusal(|r| r.bytes[0] = -5), "log.parquet:1: bytes is -5, which is negative"),
        (refusal(|r| r.ends[2] -= 0.06 * r.scale), "log.parquet:3: end_ts"),
    ] {
        assert!(message.contains(expected), "{message} lacks '{expected}'");
    }
    let row = |bytes: &str, end: &str| {
        format!(
            "op\tbytes\terror\tstart\tend\nGET\t{bytes}\t\t2026-11-21T10:00:05Z\t2026-11-21T10:00:{end}Z\n"
        )
    };
    let csv = scratch("import-refused-warp").join("log.csv");
    for (bytes, end, expected) in [
        ("-5", "06", "log.csv:2: bytes '-5'"),
        ("5", "04", "log.csv:2: end 2026-11-21T10:00:04Z is before start"),
    ] {
        std::fs::write(&csv, row(bytes, end)).unwrap();
        let message = warp::read(&csv).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn compressed_parquet_is_read() {
    let file = scratch("codecs").join("log.parquet");
    let codecs = [
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::ZSTD(ZstdLevel::default()),
        Compression::LZ4_RAW,
        Compression::LZ4,
    ];
    for codec in codecs {
        let log = Requests { codec, ..Requests::new(1.0, 50.0) }.read(&file);
        assert_eq!(log.records.len(), 100, "{codec:?}");
    }
}

/// Returns a Zstandard frame with `head`, followed by `times` RLE blocks. Each RLE block expands four bytes to 128 KiB
/// of `byte` (RFC 8878, 3.1.1.2).
fn zstd_of_repeated(head: &[u8], byte: u8, times: usize) -> Vec<u8> {
    const BLOCK: u32 = 128 * 1024;
    let mut out = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    let block = |kind: u32, size: u32, last: bool| {
        (size << 3 | kind << 1 | u32::from(last)).to_le_bytes()[..3].to_vec()
    };
    out.extend(block(0, head.len() as u32, false));
    out.extend_from_slice(head);
    for number in 1..=times {
        out.extend(block(1, BLOCK, number == times));
        out.push(byte);
    }
    out
}

#[test]
fn a_zstandard_bomb_is_refused_before_it_expands() {
    let file = scratch("bomb").join("warp.csv.zst");
    let header = b"op\tbytes\terror\tstart\tend\n";
    for (byte, expected) in
        [(b'x', "warp.csv.zst:2: the line is longer than 64 KiB"), (b'\n', "times its size")]
    {
        // The frame expands to 4 GiB.
        std::fs::write(&file, zstd_of_repeated(header, byte, 32 * 1024)).unwrap();
        let message = warp::read(&file).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}
