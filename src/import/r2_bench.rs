//! R2-bench's per-request Parquet (both of its schemas), and the phase table as R2-bench computes it from them.

use std::fs::File;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::{ImportError, Log, Record};
use crate::workload::OperationKind;

/// One row of R2-bench's own table.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseRow {
    /// Name of the phase, or `ALL`.
    pub phase: String,
    /// Last completion minus first completion, in seconds.
    pub duration_s: f64,
    /// Requests.
    pub requests: u64,
    /// Bytes of all of them / 2^30 (R2-bench writes GB).
    pub data_gib: f64,
    /// All bytes * 8 / 10^6 / duration.
    pub mbit_per_s: f64,
    /// Requests / duration.
    pub per_s: f64,
    /// Mean of the tool's own latencies, in milliseconds.
    pub latency_ms: f64,
    /// Mean over requests of the number of threads that the tool noted.
    pub concurrency: f64,
}

#[derive(Default)]
struct Sums {
    requests: u64,
    bytes: u64,
    latency_ms: f64,
    concurrency: f64,
    first: Option<f64>,
    last: f64,
}

impl Sums {
    fn add(&mut self, completed: f64, bytes: u64, latency_ms: f64, concurrency: f64) {
        self.requests += 1;
        self.bytes += bytes;
        self.latency_ms += latency_ms;
        self.concurrency += concurrency;
        self.first = Some(self.first.map_or(completed, |first: f64| first.min(completed)));
        self.last = self.last.max(completed);
    }

    fn row(&self, phase: &str) -> PhaseRow {
        let duration_s = self.last - self.first.unwrap_or(self.last);
        let n = self.requests as f64;
        PhaseRow {
            phase: phase.into(),
            duration_s,
            requests: self.requests,
            data_gib: self.bytes as f64 / (1u64 << 30) as f64,
            mbit_per_s: self.bytes as f64 * 8.0 / 1e6 / duration_s,
            per_s: n / duration_s,
            latency_ms: self.latency_ms / n,
            concurrency: self.concurrency / n,
        }
    }
}

/// The columns of a batch that matter.
struct Columns<'a> {
    batch: &'a RecordBatch,
}

impl Columns<'_> {
    fn real(&self, name: &str, row: usize) -> Option<f64> {
        let column = self.batch.column_by_name(name)?;
        if column.is_null(row) {
            return None;
        }
        match column.as_primitive_opt::<Float64Type>() {
            Some(reals) => Some(reals.value(row)),
            None => Some(column.as_primitive_opt::<Int64Type>()?.value(row) as f64),
        }
    }

    fn text(&self, name: &str, row: usize) -> Option<String> {
        let column = self.batch.column_by_name(name)?;
        if column.is_null(row) {
            return None;
        }
        let plain = column.as_string_opt::<i32>().map(|c| c.value(row).to_string());
        plain.or_else(|| column.as_string_opt::<i64>().map(|c| c.value(row).to_string()))
    }
}

/// One request with its absolute times, before the log's origin is known.
struct Request {
    phase: u16,
    start_s: f64,
    end_s: f64,
    ttfb_ms: f64,
    bytes: u64,
    error: Option<u16>,
}

/// Reads a log, and the table as R2-bench prints it.
///
/// # Errors
/// When the file is not one of R2-bench's.
pub fn read(file: &Path) -> Result<(Log, Vec<PhaseRow>), ImportError> {
    let opened = File::open(file).map_err(|e| ImportError::unreadable(file, e))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(opened)
        .and_then(ParquetRecordBatchReaderBuilder::build)
        .map_err(|e| ImportError::unreadable(file, format!("not a Parquet file that can be read: {e}")))?;
    let mut log = Log { store: "as logged by R2-bench".into(), ..Log::default() };
    let mut requests = Vec::new();
    let mut sums: Vec<Sums> = Vec::new();
    let mut all = Sums::default();
    let mut row_number = 0;
    for batch in reader {
        let batch = batch.map_err(|e| ImportError::unreadable(file, e))?;
        let columns = Columns { batch: &batch };
        for row in 0..batch.num_rows() {
            row_number += 1;
            let need = |name: &str| {
                columns.real(name, row).ok_or_else(|| {
                    ImportError::at(file, row_number, format!("no column {name}; is it a log of R2-bench?"))
                })
            };
            let phase = columns.text("phase_id", row).ok_or_else(|| {
                ImportError::at(file, row_number, "no column phase_id; is it a log of R2-bench?")
            })?;
            let (bytes, latency_ms) = (need("bytes")? as u64, need("latency_ms")?);
            let end_s = columns.real("end_ts", row).map_or_else(|| need("ts"), Ok)?;
            let completed = columns.real("ts", row).unwrap_or(end_s);
            let start_s = columns.real("start_ts", row).unwrap_or(end_s - latency_ms / 1e3);
            let index = log.phases.iter().position(|p| *p == phase).unwrap_or_else(|| {
                log.phases.push(phase.clone());
                sums.push(Sums::default());
                log.phases.len() - 1
            });
            let concurrency = columns.real("concurrency", row).unwrap_or(0.0);
            sums[index].add(completed, bytes, latency_ms, concurrency);
            all.add(completed, bytes, latency_ms, concurrency);
            let status = columns.real("http_status", row).unwrap_or(200.0) as u16;
            requests.push(Request {
                phase: index as u16,
                start_s,
                end_s: end_s.max(start_s),
                ttfb_ms: columns.real("rtt_ms", row).unwrap_or(0.0),
                bytes,
                error: (!matches!(status, 200 | 206)).then(|| class(&mut log.errors, status)),
            });
        }
    }
    if requests.is_empty() {
        return Err(ImportError::Empty(file.display().to_string()));
    }
    let table = table(&log.phases, &sums, &all);
    finish(file, &mut log, requests);
    Ok((log, table))
}

/// Phases by their first completion, then all of them.
fn table(phases: &[String], sums: &[Sums], all: &Sums) -> Vec<PhaseRow> {
    let mut order: Vec<usize> = (0..phases.len()).collect();
    let first = |i: usize| sums[i].first.unwrap_or(f64::INFINITY);
    order.sort_by(|a, b| first(*a).total_cmp(&first(*b)));
    let mut table: Vec<PhaseRow> = order.into_iter().map(|i| sums[i].row(&phases[i])).collect();
    table.push(all.row("ALL"));
    table
}

/// R2-bench's own codes: 0 for a broken connection, 408 for its own deadline.
fn class(errors: &mut Vec<String>, status: u16) -> u16 {
    let name = match status {
        0 => "reset".to_string(),
        408 => "timeout".to_string(),
        other => other.to_string(),
    };
    let place = errors.iter().position(|e| *e == name).unwrap_or_else(|| {
        errors.push(name);
        errors.len() - 1
    });
    place as u16
}

fn finish(file: &Path, log: &mut Log, requests: Vec<Request>) {
    let origin = requests.iter().map(|r| r.start_s).fold(f64::INFINITY, f64::min);
    let ns = |s: f64| ((s - origin) * 1e9).round().max(0.0) as u64;
    log.records = requests
        .iter()
        .map(|r| Record {
            phase: r.phase,
            kind: OperationKind::GetRange,
            error: r.error,
            start_ns: ns(r.start_s),
            first_byte_ns: if r.ttfb_ms > 0.0 { ns(r.start_s + r.ttfb_ms / 1e3) } else { 0 },
            end_ns: ns(r.end_s),
            bytes: r.bytes,
        })
        .collect();
    log.records.sort_by_key(|r| r.start_ns);
    // Phases in the order of their first starts.
    let mut order: Vec<u16> = Vec::new();
    for record in &log.records {
        if !order.contains(&record.phase) {
            order.push(record.phase);
        }
    }
    let place = |phase: u16| order.iter().position(|p| *p == phase).unwrap_or(0) as u16;
    log.records.iter_mut().for_each(|r| r.phase = place(r.phase));
    log.phases = order.iter().map(|p| log.phases[usize::from(*p)].clone()).collect();
    log.origin_unix_s = origin;
    let name = file.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    log.origin = format!(
        "R2-bench log {name}; a closed loop, so coordinated omission cannot be undone; requests in flight at its end were not logged"
    );
}
