//! Adds up the interval logs of several shards, second by second, with memory for one second.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, BinaryArray, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::Schema;

use super::directory::RunDirectory;
use super::intervals::{IN_FLIGHT, IntervalKey};
use super::read::plausible;
use super::size_log;
use super::stream::{Batches, invalid};
use plimsoll_recorder::collector::SecondRow;
use plimsoll_recorder::latency::{Latency, LatencyTable};
use plimsoll_recorder::sum::HistogramSum;
use plimsoll_recorder::tally::Tally;
use plimsoll_workload::schedule::Role;

/// An interval log to merge.
#[derive(Debug, Clone)]
pub struct ShardLog {
    /// Run directory of the shard.
    pub run: PathBuf,
    /// Name of the log in the directory.
    pub name: &'static str,
    /// Second of the merged log in which second 0 of this log begins; a fraction is rounded for each row.
    pub shift_s: f64,
}

/// Store, phase, role, repeat, block, step and operation of a row.
type Key = (String, String, String, u32, u32, Option<u32>, String);

/// Sums of the rows with one key in one second.
#[derive(Default)]
struct Sums {
    /// Intended, begun, completed, operations and censored.
    counts: [u64; 5],
    bytes: f64,
    errors: BTreeMap<String, u64>,
    /// Sums of the kinds of [`Latency::LOGGED`].
    latencies: [HistogramSum; Latency::LOGGED.len()],
    in_flight_ns: i128,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, n)| *sum = sum.saturating_add(n));
        self.bytes += other.bytes;
        self.in_flight_ns = self.in_flight_ns.saturating_add(other.in_flight_ns);
        for (class, n) in &other.errors {
            *self.errors.entry(class.clone()).or_default() += n;
        }
        self.latencies.iter_mut().zip(&other.latencies).for_each(|(sum, part)| sum.add(part));
    }

    fn tally(&self) -> Tally {
        let [intended, begun, completed, operations, censored] = self.counts;
        let failed = self.errors.values().fold(0u64, |sum, n| sum.saturating_add(*n));
        let mut latencies = LatencyTable::default();
        for (kind, sum) in Latency::LOGGED.into_iter().zip(&self.latencies) {
            latencies[kind] = sum.latencies();
        }
        Tally {
            intended,
            begun,
            completed,
            operations,
            succeeded: operations.saturating_sub(failed),
            censored,
            bytes: self.bytes,
            errors: self.errors.clone(),
            in_flight_ns: self.in_flight_ns,
            latencies,
            ..Tally::default()
        }
    }
}

/// Sums of one second by key.
type SecondSums = BTreeMap<Key, Sums>;

/// Position in one log: the row that is merged next.
struct Cursor {
    path: PathBuf,
    shift_s: f64,
    batches: Batches,
    batch: Option<RecordBatch>,
    row: usize,
    places: Places,
    scratch: Vec<u8>,
}

impl Cursor {
    fn open(log: &ShardLog) -> io::Result<Cursor> {
        let path = log.run.join(log.name);
        let batches = Batches::open(&path, "an interval log")?;
        let places = Places::of(&batches.schema()).ok_or_else(|| Cursor::damaged(&path))?;
        let (shift_s, scratch) = (log.shift_s, Vec::new());
        let mut cursor = Cursor { path, shift_s, batches, batch: None, row: 0, places, scratch };
        cursor.next_batch()?;
        Ok(cursor)
    }

    /// Reads batches until one has rows.
    fn next_batch(&mut self) -> io::Result<()> {
        self.row = 0;
        self.batch = loop {
            match self.batches.next()? {
                Some(batch) if batch.num_rows() == 0 => {}
                batch => break batch,
            }
        };
        Ok(())
    }

    fn damaged(path: &Path) -> io::Error {
        invalid(path, "a column is missing or damaged; another version of Plimsoll wrote the file")
    }

    /// Returns the second of the current row in the merged log; `None` at the end.
    fn second(&self) -> io::Result<Option<u64>> {
        let Some(batch) = &self.batch else { return Ok(None) };
        let seconds = batch.column(self.places.second).as_primitive_opt::<UInt64Type>();
        let second = seconds.ok_or_else(|| Cursor::damaged(&self.path))?.value(self.row);
        Ok(Some((second as f64 + self.shift_s).round() as u64))
    }

    /// Adds all rows up to a second to its sums.
    fn drain(&mut self, until: u64, sums: &mut SecondSums) -> io::Result<()> {
        while self.second()?.is_some_and(|second| second <= until) {
            let Some(batch) = &self.batch else { break };
            let columns = Columns::of(batch, &self.places).ok_or_else(|| Cursor::damaged(&self.path))?;
            let added = add_row(&columns, self.row, sums, &mut self.scratch);
            added.ok_or_else(|| Cursor::damaged(&self.path))?;
            self.row += 1;
            if self.row == batch.num_rows() {
                self.next_batch()?;
            }
        }
        Ok(())
    }
}

/// Columns of a batch.
struct Columns<'a> {
    texts: [&'a StringArray; 5],
    numbers: [&'a UInt64Array; 5],
    repeats: &'a UInt32Array,
    blocks: &'a UInt32Array,
    steps: &'a UInt32Array,
    bytes: &'a Float64Array,
    latencies: [&'a BinaryArray; Latency::LOGGED.len()],
    /// `None` in logs of schema 2.
    in_flight_ns: Option<&'a Float64Array>,
}

impl<'a> Columns<'a> {
    /// Returns the columns at their positions in the schema; `None` if one has another type.
    fn of(batch: &'a RecordBatch, places: &Places) -> Option<Columns<'a>> {
        let small = |place: usize| batch.column(place).as_primitive_opt::<UInt32Type>();
        let [repeats, blocks, steps] = places.small;
        Some(Columns {
            texts: all(places.texts, |place| batch.column(place).as_string_opt::<i32>())?,
            numbers: all(places.numbers, |place| batch.column(place).as_primitive_opt::<UInt64Type>())?,
            repeats: small(repeats)?,
            blocks: small(blocks)?,
            steps: small(steps)?,
            bytes: batch.column(places.bytes).as_primitive_opt::<Float64Type>()?,
            latencies: all(places.latencies, |place| batch.column(place).as_binary_opt::<i32>())?,
            in_flight_ns: match places.in_flight_ns {
                Some(place) => Some(batch.column(place).as_primitive_opt::<Float64Type>()?),
                None => None,
            },
        })
    }
}

/// Applies a function to all items; `None` if it fails for one.
fn all<T: Copy, U, const N: usize>(items: [T; N], of: impl Fn(T) -> Option<U>) -> Option<[U; N]> {
    let found: Option<Vec<U>> = items.into_iter().map(of).collect();
    found?.try_into().ok()
}

/// Positions of the columns in the schema of a log.
struct Places {
    second: usize,
    texts: [usize; 5],
    numbers: [usize; 5],
    small: [usize; 3],
    bytes: usize,
    latencies: [usize; Latency::LOGGED.len()],
    in_flight_ns: Option<usize>,
}

impl Places {
    fn of(schema: &Schema) -> Option<Places> {
        let at = |name| schema.index_of(name).ok();
        Some(Places {
            second: at("second")?,
            texts: all(["store", "phase", "role", "operation", "errors"], at)?,
            numbers: all(["intended", "begun", "completed", "operations", "censored"], at)?,
            small: all(["repeat", "block", "step"], at)?,
            bytes: at("bytes")?,
            latencies: all(Latency::LOGGED.map(Latency::name), at)?,
            in_flight_ns: at(IN_FLIGHT),
        })
    }
}

/// Adds one row to the sums of its second. Returns `None` if a value is damaged.
fn add_row(columns: &Columns<'_>, row: usize, sums: &mut SecondSums, scratch: &mut Vec<u8>) -> Option<()> {
    let [store, phase, role, operation, errors] = columns.texts.map(|column| column.value(row));
    let key = (
        store.to_string(),
        phase.to_string(),
        role.to_string(),
        columns.repeats.value(row),
        columns.blocks.value(row),
        (!columns.steps.is_null(row)).then(|| columns.steps.value(row)),
        operation.to_string(),
    );
    let counts = columns.numbers.map(|column| column.value(row));
    let bytes = columns.bytes.value(row);
    let sum = sums.entry(key).or_default();
    plausible(&counts, bytes).then_some(())?;
    sum.counts.iter_mut().zip(counts).for_each(|(sum, n)| *sum = sum.saturating_add(n));
    sum.bytes += bytes;
    let in_flight_ns = columns.in_flight_ns.map_or(0, |column| column.value(row) as i128);
    sum.in_flight_ns = sum.in_flight_ns.saturating_add(in_flight_ns);
    let errors: BTreeMap<String, u64> = serde_json::from_str(errors).unwrap_or_default();
    for (class, n) in errors {
        let total = sum.errors.entry(class).or_default();
        *total = total.saturating_add(n);
    }
    for (sum, column) in sum.latencies.iter_mut().zip(columns.latencies) {
        sum.add_bytes(column.value(row), scratch)?;
    }
    Some(())
}

/// Merges logs in order of seconds. Calls `emit` with each second that has rows; stops if it returns false.
fn merge_logs(logs: &[ShardLog], emit: impl Fn(u64, SecondSums) -> bool) -> io::Result<()> {
    let mut cursors = logs.iter().map(Cursor::open).collect::<io::Result<Vec<_>>>()?;
    loop {
        let mut next = None;
        for cursor in &cursors {
            next = [next, cursor.second()?].into_iter().flatten().min();
        }
        let Some(second) = next else { return Ok(()) };
        let mut sums = SecondSums::new();
        for cursor in &mut cursors {
            cursor.drain(second, &mut sums)?;
        }
        if !emit(second, sums) {
            return Ok(());
        }
    }
}

/// The sums of all seconds of a log for one phase run and operation.
pub struct LogTotal {
    /// URL of the store as the user wrote it, without credentials.
    pub store: String,
    /// Name of the phase.
    pub phase: String,
    /// Name of the role of the phase.
    pub role: String,
    /// First and last second with a row, since the run's origin.
    pub seconds: (u64, u64),
    /// Repeat, from 0.
    pub repeat: u32,
    /// Block of interleaving, from 0.
    pub block: u32,
    /// Step of a ramp, from 0. `None` outside a ramp.
    pub step: Option<u32>,
    /// Name of the operation.
    pub operation: String,
    /// Counts, and the histograms of [`Latency::LOGGED`].
    pub tally: Tally,
}

/// Adds up all seconds of the log of a run that has this name.
///
/// # Errors
/// If the log cannot be read.
pub fn log_totals(run: &Path, name: &'static str) -> io::Result<Vec<LogTotal>> {
    let log = ShardLog { run: run.to_path_buf(), name, shift_s: 0.0 };
    let mut cursor = Cursor::open(&log)?;
    let mut totals: BTreeMap<Key, (Sums, (u64, u64))> = BTreeMap::new();
    while let Some(second) = cursor.second()? {
        let mut sums = SecondSums::new();
        cursor.drain(second, &mut sums)?;
        for (key, sum) in sums {
            let total = totals.entry(key).or_insert_with(|| (Sums::default(), (second, second)));
            total.0.add(&sum);
            total.1 = (total.1.0.min(second), total.1.1.max(second));
        }
    }
    let total = |(key, (sums, seconds)): (Key, (Sums, (u64, u64)))| {
        let (store, phase, role, repeat, block, step, operation) = key;
        LogTotal { store, phase, role, seconds, repeat, block, step, operation, tally: sums.tally() }
    };
    Ok(totals.into_iter().map(total).collect())
}

/// Number of seconds that a thread may be ahead of the writer.
const AHEAD: usize = 4;

/// A message of a merging thread: a second with its sums, or the error that ended it.
type Merged = io::Result<(u64, SecondSums)>;

/// Starts a thread that merges some of the logs.
fn spawn(logs: Vec<ShardLog>) -> io::Result<Receiver<Merged>> {
    let (sender, receiver) = sync_channel(AHEAD);
    thread::Builder::new().name("merge".into()).spawn(move || {
        if let Err(error) = merge_logs(&logs, |second, sums| sender.send(Ok((second, sums))).is_ok()) {
            let _ = sender.send(Err(error));
        }
    })?;
    Ok(receiver)
}

/// Adds up the interval logs of shards into the log of `directory`, on `threads` threads.
///
/// # Errors
/// If a log cannot be read.
pub fn merge_intervals(logs: &[ShardLog], threads: usize, directory: &mut RunDirectory) -> io::Result<()> {
    let share = logs.len().div_ceil(threads.max(1)).max(1);
    let parts = logs.chunks(share).map(|part| spawn(part.to_vec())).collect::<io::Result<Vec<_>>>()?;
    let mut heads = parts.iter().map(|part| part.recv().ok().transpose()).collect::<io::Result<Vec<_>>>()?;
    let mut places: Vec<Key> = Vec::new();
    while let Some(second) = heads.iter().flatten().map(|(second, _)| *second).min() {
        let mut total = SecondSums::new();
        for (head, part) in heads.iter_mut().zip(&parts) {
            let Some((_, sums)) = head.take_if(|(at, _)| *at == second) else { continue };
            for (key, sum) in sums {
                match total.get_mut(&key) {
                    Some(known) => known.add(&sum),
                    None => drop(total.insert(key, sum)),
                }
            }
            *head = part.recv().ok().transpose()?;
        }
        for (key, sums) in &total {
            write(second, key, sums, &mut places, directory)?;
        }
    }
    Ok(())
}

/// Writes the sums of one key in one second.
fn write(
    second: u64,
    key: &Key,
    sums: &Sums,
    places: &mut Vec<Key>,
    directory: &mut RunDirectory,
) -> io::Result<()> {
    let (store, phase, role, repeat, block, step, operation) = key;
    let unknown = |what: &str| invalid(directory.path(), format!("a shard has an unknown {what}"));
    let role = Role::from_name(role).ok_or_else(|| unknown("role"))?;
    let (kind, from_bytes) = size_log::parse(operation).ok_or_else(|| unknown("operation"))?;
    let number = places.iter().position(|known| known == key).unwrap_or_else(|| {
        places.push(key.clone());
        places.len() - 1
    });
    let place = IntervalKey { store, phase, role, repeat: *repeat, block: *block, step: *step };
    let tally = sums.tally();
    match from_bytes {
        Some(_) => directory.size_second(place, second, operation, &tally),
        None => directory.second(place, &SecondRow { second, phase: number, kind, tally: &tally }),
    }
    Ok(())
}
