//! Other tools' logs: R2-bench's own figures come out of them to the printed digit, and ours stand beside them.

mod support;

use std::collections::BTreeMap;

use plimsoll::import::{r2_bench, replay};
use support::{data, plimsoll, scratch, text};

/// The rows printed for one store, as the notes print them.
fn published(storage: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(data("r2-bench/published.csv")).unwrap();
    let rows = text.lines().skip(1).map(|line| line.split(',').map(str::to_string).collect::<Vec<_>>());
    rows.filter(|row| row[0] == storage).collect()
}

#[test]
fn every_published_row_of_r2_bench_follows_from_its_log() {
    let mut compared = 0;
    for (storage, file) in [("R2", "r2-c5n-9xlarge.parquet"), ("S3", "s3-c5n-9xlarge.parquet")] {
        let (_, table) = r2_bench::read(&data("r2-bench").join(file)).unwrap();
        let expected = published(storage);
        assert_eq!(table.len(), expected.len());
        for (row, printed) in table.iter().zip(expected) {
            let number = |i: usize| printed[i].parse::<f64>().unwrap();
            let shown = [
                (row.phase.clone(), printed[1].clone()),
                (format!("{:.1}", row.duration_s), format!("{:.1}", number(2))),
                (row.requests.to_string(), printed[3].clone()),
                (format!("{:.3}", row.data_gib), format!("{:.3}", number(4))),
                (format!("{:.2}", row.mbit_per_s), format!("{:.2}", number(5))),
                (format!("{:.2}", row.per_s), format!("{:.2}", number(6))),
                (format!("{:.1}", row.latency_ms), format!("{:.1}", number(7))),
                (format!("{:.0}", row.concurrency), format!("{:.0}", number(8))),
            ];
            for (ours, theirs) in shown {
                assert_eq!(ours, theirs, "{storage} {}", printed[1]);
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 12 * 8);
}

#[test]
fn by_our_law_no_byte_is_lost_and_in_flight_is_what_little_says() {
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
    for (stint, state) in imported.stints.iter().zip(&imported.states) {
        let (edges, tally) = (state.edges.unwrap(), state.tallies.values().next().unwrap());
        assert_eq!(tally.in_flight_ns, tally.overlap_ns as i128, "{}", stint.phase.name);
        let in_flight = tally.in_flight_ns as f64 / (edges.end_ns - edges.start_ns) as f64;
        let threads = stint.phase.load.lanes() as f64;
        assert!(
            in_flight <= threads && in_flight > 0.9 * threads,
            "{}: {in_flight} of {threads}",
            stint.phase.name
        );
    }
}

#[test]
fn an_import_is_a_run_that_shows_and_exports() {
    let out = scratch("import");
    let file = data("r2-bench/s3-c5n-9xlarge.parquet");
    let run = plimsoll(&["import", "r2-bench"]).arg(&file).arg("--out").arg(&out).output().unwrap();
    let shown = text(&run.stdout);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    for expected in ["5386.5", "coordinated omission cannot be undone", "knee at", "By Plimsoll's law"] {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
    let path = std::fs::read_dir(&out).unwrap().flatten().next().unwrap().path();
    let to = out.join("exported");
    let mut sizes = BTreeMap::new();
    for format in ["parquet", "csv", "markdown", "hlog"] {
        let exported =
            plimsoll(&["export", "--format", format, "--to"]).arg(&to).arg(&path).output().unwrap();
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
            "windows.csv"
        ]
    );
    assert!(sizes.values().all(|size| *size > 500), "{sizes:?}");
    let rows = std::fs::read_to_string(to.join("windows.csv")).unwrap().lines().count();
    assert_eq!(rows, 1 + 5, "a header and one row per phase");
}
