//! `windows.csv` with one row per window, and `intervals.csv` with one row per second. Latencies are in
//! milliseconds; a percentile with too few samples is empty.

use plimsoll_recorder::latency::Latency;
use std::io;
use std::path::{Path, PathBuf};

use super::{Exporter, Run, named};
use crate::run_dir::read::intervals;
use crate::summary::percentiles::percentiles;
use crate::summary::result::{Percentiles, Window};

/// Exporter of comma-separated values (RFC 4180).
pub struct Csv;

const LATENCIES: [&str; 8] = ["mean", "p50", "p90", "p95", "p99", "p99.9", "min", "max"];

fn latency_columns(prefix: &str) -> Vec<String> {
    LATENCIES.iter().map(|name| format!("{prefix}_{name}_ms")).collect()
}

fn latency_values(percentiles: Option<&Percentiles>) -> Vec<String> {
    let value =
        |name: &&str| percentiles.and_then(|p| p.get(name)).map_or(String::new(), |ms| ms.to_string());
    LATENCIES.iter().map(value).collect()
}

fn number<T: ToString>(value: Option<T>) -> String {
    value.map_or(String::new(), |v| v.to_string())
}

fn window_row(w: &Window) -> Vec<String> {
    let errors: Vec<String> = w.errors.iter().map(|(class, n)| format!("{class} x {n}")).collect();
    let mut row = vec![
        w.store.clone(),
        w.provider.clone(),
        w.phase.clone(),
        w.role.name().into(),
        w.repeat.to_string(),
        w.block.to_string(),
        number(w.step),
        w.key_group.clone().unwrap_or_default(),
        w.operation.to_string(),
        w.loop_.name().into(),
        w.concurrency.to_string(),
        number(w.offered_per_s),
        w.achieved_per_s.to_string(),
        w.saturated.to_string(),
        w.start_unix_s.to_string(),
        w.window_s.to_string(),
        w.operations.to_string(),
        w.errors.values().sum::<u64>().to_string(),
        w.censored.to_string(),
        w.attempts.to_string(),
        w.bytes.to_string(),
        w.throughput_bytes_per_s.to_string(),
        w.in_flight_mean.to_string(),
        errors.join("; "),
        w.client_limited.clone().unwrap_or_default(),
    ];
    row.extend(latency_values(Some(&w.service_ms)));
    row.extend(latency_values(w.response_ms.as_ref()));
    row.extend(latency_values(Some(&w.first_byte_ms)));
    row
}

fn windows(run: &Run, file: &Path) -> io::Result<()> {
    let mut writer = csv::Writer::from_path(file).map_err(io::Error::other).map_err(named(file))?;
    let fixed = [
        "store",
        "provider",
        "phase",
        "role",
        "repeat",
        "block",
        "step",
        "key_group",
        "operation",
        "loop",
        "concurrency",
        "offered_per_s",
        "achieved_per_s",
        "saturated",
        "start_unix_s",
        "window_s",
        "operations",
        "failed",
        "censored",
        "attempts",
        "bytes",
        "throughput_bytes_per_s",
        "in_flight_mean",
        "errors",
        "client_limited",
    ];
    let latencies = ["service", "response", "first_byte"].iter().flat_map(|p| latency_columns(p));
    writer.write_record(fixed.iter().map(ToString::to_string).chain(latencies)).map_err(io::Error::other)?;
    for window in &run.result.windows {
        writer.write_record(window_row(window)).map_err(io::Error::other).map_err(named(file))?;
    }
    writer.flush().map_err(named(file))
}

fn seconds(run: &Run, file: &Path) -> io::Result<()> {
    let mut writer = csv::Writer::from_path(file).map_err(io::Error::other).map_err(named(file))?;
    let fixed = [
        "second",
        "store",
        "phase",
        "role",
        "repeat",
        "block",
        "step",
        "operation",
        "intended",
        "begun",
        "completed",
        "operations",
        "failed",
        "censored",
        "bytes",
    ];
    let latencies = ["service", "response"].iter().flat_map(|p| latency_columns(p));
    writer.write_record(fixed.iter().map(ToString::to_string).chain(latencies)).map_err(io::Error::other)?;
    for row in intervals(&run.path)? {
        let t = &row.tally;
        let mut cells = vec![
            row.second.to_string(),
            row.store.clone(),
            row.phase.clone(),
            row.role.name().into(),
            row.repeat.to_string(),
            row.block.to_string(),
            number(row.step),
            row.operation.to_string(),
        ];
        cells.extend(
            [t.intended, t.begun, t.completed, t.operations, t.failures(), t.censored].map(|n| n.to_string()),
        );
        cells.push(t.bytes.to_string());
        cells.extend(latency_values(Some(&percentiles(&t.latencies[Latency::Service]))));
        cells.extend(latency_values(Some(&percentiles(&t.latencies[Latency::Response]))));
        writer.write_record(cells).map_err(io::Error::other).map_err(named(file))?;
    }
    writer.flush().map_err(named(file))
}

impl Exporter for Csv {
    fn export(&self, run: &Run, to: &Path) -> io::Result<Vec<PathBuf>> {
        let files = [to.join("windows.csv"), to.join("intervals.csv")];
        windows(run, &files[0])?;
        seconds(run, &files[1])?;
        Ok(files.into())
    }
}
