//! Import of R2-bench's per-request Parquet file (both of its schemas), and the phase table as R2-bench computes it
//! from that file.

use std::fs::File;
use std::path::Path;

use super::unit::Unit;
use super::{Disagreements, ImportedRequest, Log};
use plimsoll_experiment::logs::LogError;
use plimsoll_inventory::columns::{Column, RowBatch, read as read_columns};
use plimsoll_workload::OperationKind;

/// One row of R2-bench's phase table.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseRow {
    /// Name of the phase, or `ALL` for all phases.
    pub phase: String,
    /// Time from the first to the last completion, in seconds.
    pub duration_s: f64,
    /// Number of requests.
    pub requests: u64,
    /// Data of all requests, in GiB (R2-bench labels it GB).
    pub data_gib: f64,
    /// Throughput in Mbit/s: all bytes * 8 / 10^6 / duration.
    pub mbit_per_s: f64,
    /// Requests per second: number of requests / duration.
    pub per_s: f64,
    /// Mean of the latencies that the tool logged, in milliseconds.
    pub latency_ms: f64,
    /// Number of threads that the tool logged, averaged over the requests.
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

/// A batch of rows, with access to its columns by name.
struct Columns<'a> {
    batch: &'a RowBatch,
    file: &'a Path,
    /// Number of the first row of the batch in the file, from 1.
    first: u64,
}

/// Possible names of the latency column.
const LATENCY: [&str; 5] = ["latency_ms", "latency_us", "latency_s", "latency_ns", "latency"];

/// All columns that are read.
const COLUMNS: [&str; 14] = [
    "phase_id",
    "ts",
    "start_ts",
    "end_ts",
    "bytes",
    "http_status",
    "retry_count",
    "rtt_ms",
    "concurrency",
    "latency_ms",
    "latency_us",
    "latency_s",
    "latency_ns",
    "latency",
];

impl Columns<'_> {
    fn at(&self, row: usize, reason: impl Into<String>) -> LogError {
        LogError::at(self.file, self.first + row as u64, reason)
    }

    /// Returns a number, or `None` if the row does not have one.
    fn real(&self, name: &str, row: usize) -> Result<Option<f64>, LogError> {
        let value = match self.batch.column(name) {
            None => None,
            Some(Column::Numbers(values)) => values[row],
            Some(Column::Texts(values)) if values[row].is_none() => None,
            Some(Column::Texts(_)) => return Err(self.at(row, format!("{name} is a text, not a number"))),
            Some(Column::Other(kind)) => {
                return Err(self.at(row, format!("{name} is of type {kind}, not a number")));
            }
        };
        match value {
            Some(value) if !value.is_finite() => Err(self.at(row, format!("{name} is {value}"))),
            value => Ok(value),
        }
    }

    /// Returns a number that the row must have.
    fn need(&self, name: &str, row: usize) -> Result<f64, LogError> {
        let missing = || self.at(row, format!("the row contains no {name}; is the file a log of R2-bench?"));
        self.real(name, row)?.ok_or_else(missing)
    }

    /// Returns a count that the row must have.
    fn count(&self, name: &str, row: usize) -> Result<u64, LogError> {
        let value = self.need(name, row)?;
        if value < 0.0 {
            return Err(self.at(row, format!("{name} is {value}, which is negative")));
        }
        Ok(value as u64)
    }

    fn text(&self, name: &str, row: usize) -> Option<String> {
        let Some(Column::Texts(values)) = self.batch.column(name) else { return None };
        let bytes = values[row].as_ref()?.data();
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Returns the phase of a row and its figures, in the units of the log.
    fn row(&self, row: usize) -> Result<(String, RequestRow), LogError> {
        let no_phase = || self.at(row, "the row contains no phase_id; is the file a log of R2-bench?");
        let phase = self.text("phase_id", row).ok_or_else(no_phase)?;
        let column = self.latency_column();
        let latency = self.need(column, row)?;
        if latency < 0.0 {
            return Err(self.at(row, format!("{column} is {latency}, which is negative")));
        }
        let ended = match self.real("end_ts", row)? {
            Some(end) => end,
            None => self.need("ts", row)?,
        };
        let began = self.real("start_ts", row)?;
        if let Some(start) = began.filter(|start| *start > ended) {
            return Err(self.at(row, format!("end_ts {ended} is before start_ts {start}")));
        }
        let status = self.real("http_status", row)?.unwrap_or(200.0) as u16;
        let retries =
            if self.real("retry_count", row)?.is_some() { self.count("retry_count", row)? } else { 0 };
        let figures = RequestRow {
            phase: 0,
            began,
            ended,
            completed: self.real("ts", row)?.unwrap_or(ended),
            latency,
            first_byte: self.real("rtt_ms", row)?.unwrap_or(0.0),
            bytes: self.count("bytes", row)?,
            status,
            retries: u32::try_from(retries).unwrap_or(u32::MAX),
            concurrency: self.real("concurrency", row)?.unwrap_or(0.0),
        };
        Ok((phase, figures))
    }

    fn latency_column(&self) -> &'static str {
        let known = |name: &&str| self.batch.column(name).is_some();
        LATENCY.into_iter().find(known).unwrap_or(LATENCY[0])
    }
}

/// One row, in the units of the log.
struct RequestRow {
    phase: u16,
    began: Option<f64>,
    ended: f64,
    completed: f64,
    latency: f64,
    first_byte: f64,
    bytes: u64,
    status: u16,
    retries: u32,
    concurrency: f64,
}

/// Units of the times and latencies in a log.
#[derive(Debug, Clone, Copy)]
struct Units {
    time: Unit,
    latency: Unit,
}

/// Determines the units of a log. The magnitude of Unix times gives their unit. The unit of latencies follows from
/// end - start, or from Little's law if the log has no starts.
fn units(rows: &[RequestRow], column: &str) -> Units {
    let named = Unit::of_name(column).unwrap_or(Unit::Ms);
    let latest = rows.iter().map(|r| r.ended).fold(0.0, f64::max);
    let between =
        |scale: f64| rows.iter().filter_map(move |r| Some((r.latency, (r.ended - r.began?) * scale)));
    let time = Unit::of_unix(latest).unwrap_or_else(|| {
        // The times count from the beginning of the log, so the unit in the name of the latency column determines
        // theirs.
        let inverse = between(1.0).map(|(latency, between)| (between, latency * named.seconds()));
        Unit::of_pairs(inverse, 3.0).unwrap_or(Unit::S)
    });
    let latency = Unit::of_pairs(between(time.seconds()), 3.0).or_else(|| {
        let earliest = rows.iter().map(|r| r.ended).fold(f64::INFINITY, f64::min);
        let busy: f64 = rows.iter().map(|r| r.latency).sum();
        let in_flight = rows.iter().map(|r| r.concurrency).sum::<f64>() / rows.len() as f64;
        Unit::of_pairs([(busy, in_flight * (latest - earliest) * time.seconds())].into_iter(), 5.0)
    });
    Units { time, latency: latency.unwrap_or(named) }
}

/// One request with its absolute times, before the log's origin is known.
struct Request {
    phase: u16,
    start_s: f64,
    end_s: f64,
    first_byte_s: f64,
    bytes: u64,
    error: Option<u16>,
    retries: u32,
}

/// Reads a log of R2-bench. Returns the log and the phase table as R2-bench prints it.
///
/// # Errors
/// Returns an [`LogError`] if the file cannot be read, is not a log of R2-bench, or contains no rows.
pub fn read(file: &Path) -> Result<(Log, Vec<PhaseRow>), LogError> {
    let opened = File::open(file).map_err(|e| LogError::unreadable(file, e))?;
    let mut log = Log { store: "as logged by R2-bench".into(), ..Log::default() };
    let mut rows: Vec<RequestRow> = Vec::new();
    let mut column = LATENCY[0];
    let failed = |e| LogError::unreadable(file, format!("cannot read the file as Parquet: {e}"));
    read_columns(opened, &COLUMNS, failed, |batch| {
        let columns = Columns { batch, file, first: rows.len() as u64 + 1 };
        column = columns.latency_column();
        for number in 0..batch.rows {
            let (phase, mut row) = columns.row(number)?;
            let place = log.phases.iter().position(|p| *p == phase).unwrap_or_else(|| {
                log.phases.push(phase);
                log.phases.len() - 1
            });
            row.phase = place as u16;
            rows.push(row);
        }
        Ok(())
    })?;
    if rows.is_empty() {
        return Err(LogError::Empty(file.display().to_string()));
    }
    let units = units(&rows, column);
    if units.latency != Unit::of_name(column).unwrap_or(Unit::Ms) {
        log.notes.push(format!(
            "{column} is assumed to be in {}, because this agrees with the times in the log",
            units.latency.name()
        ));
    }
    if units.time != Unit::S {
        log.notes.push(format!("the times in the log are in {}", units.time.name()));
    }
    let mut sums: Vec<Sums> = log.phases.iter().map(|_| Sums::default()).collect();
    let (mut all, mut disagree) = (Sums::default(), Disagreements::default());
    let requests: Vec<Request> = rows
        .iter()
        .map(|row| {
            let (latency_s, scale) = (row.latency * units.latency.seconds(), units.time.seconds());
            let (end_s, latency_ms) = (row.ended * scale, latency_s * 1e3);
            let start_s = row.began.map_or(end_s - latency_s, |start| start * scale);
            if row.began.is_some() {
                disagree.add(latency_ms, (end_s - start_s) * 1e3);
            }
            let sum = &mut sums[usize::from(row.phase)];
            [sum, &mut all]
                .into_iter()
                .for_each(|s| s.add(row.completed * scale, row.bytes, latency_ms, row.concurrency));
            Request {
                phase: row.phase,
                start_s,
                end_s,
                first_byte_s: row.first_byte * units.latency.seconds(),
                bytes: row.bytes,
                error: (!matches!(row.status, 200 | 206)).then(|| class(&mut log.errors, row.status)),
                retries: row.retries,
            }
        })
        .collect();
    log.notes.extend(disagree.note(column, "start_ts", "end_ts"));
    let table = table(&log.phases, &sums, &all);
    finish(file, &mut log, requests);
    Ok((log, table))
}

/// Returns the rows of the phases, sorted by their first completion, followed by the row `ALL`.
fn table(phases: &[String], sums: &[Sums], all: &Sums) -> Vec<PhaseRow> {
    let mut order: Vec<usize> = (0..phases.len()).collect();
    let first = |i: usize| sums[i].first.unwrap_or(f64::INFINITY);
    order.sort_by(|a, b| first(*a).total_cmp(&first(*b)));
    let mut table: Vec<PhaseRow> = order.into_iter().map(|i| sums[i].row(&phases[i])).collect();
    table.push(all.row("ALL"));
    table
}

/// Returns the index of the error class for a status. R2-bench logs 0 for a broken connection and 408 for its own
/// deadline.
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
        .map(|r| ImportedRequest {
            phase: r.phase,
            kind: OperationKind::GetRange,
            error: r.error,
            start_ns: ns(r.start_s),
            first_byte_ns: if r.first_byte_s > 0.0 { ns(r.start_s + r.first_byte_s) } else { 0 },
            end_ns: ns(r.end_s),
            bytes: r.bytes,
            retries: r.retries,
        })
        .collect();
    log.records.sort_by_key(|r| r.start_ns);
    // Sort the phases by their first starts.
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
        "R2-bench log {name}; R2-bench runs a closed loop, so coordinated omission cannot be undone; it does not log requests in flight at the end"
    );
}
