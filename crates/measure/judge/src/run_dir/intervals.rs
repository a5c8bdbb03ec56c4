//! `intervals.arrows`: an Arrow IPC stream with one row, including histograms, per second of completion, store, phase
//! and operation. A stream needs no footer, so the log of a killed run can be read.

use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{BinaryBuilder, Float64Builder, StringBuilder, UInt32Builder, UInt64Builder};
use arrow_schema::{DataType, Field, Schema};

use super::stream::Stream;
use plimsoll_recorder::collector::SecondRow;
use plimsoll_recorder::histogram::Latencies;
use plimsoll_recorder::latency::Latency;
use plimsoll_recorder::tally::Tally;
use plimsoll_workload::schedule::Role;

/// Store, phase and position in the run to which a row belongs.
#[derive(Debug, Clone, Copy)]
pub struct IntervalKey<'a> {
    /// URL of the store as the user wrote it, without credentials.
    pub store: &'a str,
    /// Name of the phase.
    pub phase: &'a str,
    /// Role of the phase.
    pub role: Role,
    /// Repeat, from 0.
    pub repeat: u32,
    /// Block of interleaving, from 0.
    pub block: u32,
    /// Step of a ramp, from 0. `None` outside a ramp.
    pub step: Option<u32>,
}

/// Name of the file.
pub const NAME: &str = "intervals.arrows";

/// Name of the column with the integral of the in-flight counter, in operation-nanoseconds: a whole number, which may
/// be negative in a second that corrects the one before. Logs of schema 2 lack it.
pub(super) const IN_FLIGHT: &str = "in_flight_ns";

/// Returns the schema of the log. Histograms are compressed HdrHistogram V2 in microseconds, or empty if there
/// are no values.
pub fn schema() -> Schema {
    let field = |name: &str, kind| Field::new(name, kind, false);
    let mut fields = vec![
        field("second", DataType::UInt64),
        field("store", DataType::Utf8),
        field("phase", DataType::Utf8),
        field("role", DataType::Utf8),
        field("repeat", DataType::UInt32),
        field("block", DataType::UInt32),
        Field::new("step", DataType::UInt32, true),
        field("operation", DataType::Utf8),
        field("intended", DataType::UInt64),
        field("begun", DataType::UInt64),
        field("completed", DataType::UInt64),
        field("operations", DataType::UInt64),
        field("failed", DataType::UInt64),
        field("censored", DataType::UInt64),
        field("bytes", DataType::Float64),
        field("errors", DataType::Utf8),
    ];
    fields.extend(Latency::LOGGED.map(|kind| field(kind.name(), DataType::Binary)));
    fields.push(field(IN_FLIGHT, DataType::Float64));
    Schema::new(fields)
}

/// Writer of the interval log.
pub struct IntervalLog {
    stream: Stream,
    second: u64,
    rows: Rows,
}

#[derive(Default)]
struct Rows {
    count: usize,
    seconds: UInt64Builder,
    stores: StringBuilder,
    phases: StringBuilder,
    roles: StringBuilder,
    repeats: UInt32Builder,
    blocks: UInt32Builder,
    steps: UInt32Builder,
    kinds: StringBuilder,
    intended: UInt64Builder,
    begun: UInt64Builder,
    completed: UInt64Builder,
    operations: UInt64Builder,
    failed: UInt64Builder,
    censored: UInt64Builder,
    bytes: Float64Builder,
    errors: StringBuilder,
    latencies: [BinaryBuilder; Latency::LOGGED.len()],
    in_flight_ns: Float64Builder,
}

impl Rows {
    /// Begins a row with its place.
    fn place(&mut self, place: IntervalKey<'_>, second: u64, operation: &str) {
        self.count += 1;
        self.seconds.append_value(second);
        self.stores.append_value(place.store);
        self.phases.append_value(place.phase);
        self.roles.append_value(place.role.name());
        self.repeats.append_value(place.repeat);
        self.blocks.append_value(place.block);
        self.steps.append_option(place.step);
        self.kinds.append_value(operation);
    }
}

impl IntervalLog {
    /// Creates the file of the log.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn create(path: &Path) -> io::Result<IntervalLog> {
        Ok(IntervalLog { stream: Stream::create(path, schema())?, second: 0, rows: Rows::default() })
    }

    /// Adds a row. The rows of a second are written to the file when the first row of the next second is added.
    ///
    /// # Errors
    /// Fails if the file cannot be written, for example because the disk is full.
    pub fn add(&mut self, place: IntervalKey<'_>, row: &SecondRow<'_>) -> io::Result<()> {
        self.add_named(place, row.second, row.kind.name(), row.tally)
    }

    /// Adds a row with any name of an operation, as [`IntervalLog::add`].
    ///
    /// # Errors
    /// Fails if the file cannot be written, for example because the disk is full.
    pub fn add_named(
        &mut self,
        place: IntervalKey<'_>,
        second: u64,
        operation: &str,
        tally: &Tally,
    ) -> io::Result<()> {
        let rows = self.rows_of(second)?;
        rows.place(place, second, operation);
        rows.intended.append_value(tally.intended);
        rows.begun.append_value(tally.begun);
        rows.completed.append_value(tally.completed);
        rows.operations.append_value(tally.operations);
        rows.failed.append_value(tally.failures());
        rows.censored.append_value(tally.censored);
        rows.bytes.append_value(tally.bytes);
        rows.errors.append_value(serde_json::to_string(&tally.errors).unwrap_or_default());
        for (column, kind) in rows.latencies.iter_mut().zip(Latency::LOGGED) {
            column.append_value(tally.latencies[kind].to_bytes());
        }
        rows.in_flight_ns.append_value(tally.in_flight_ns as f64);
        Ok(())
    }

    /// Adds a row of successful operations of which only the service times are known, as [`IntervalLog::add_named`].
    ///
    /// # Errors
    /// Fails if the file cannot be written, for example because the disk is full.
    pub fn add_service(
        &mut self,
        place: IntervalKey<'_>,
        second: u64,
        operation: &str,
        service: &Latencies,
    ) -> io::Result<()> {
        let rows = self.rows_of(second)?;
        rows.place(place, second, operation);
        rows.intended.append_value(0);
        rows.begun.append_value(0);
        rows.completed.append_value(service.len());
        rows.operations.append_value(service.len());
        rows.failed.append_value(0);
        rows.censored.append_value(0);
        rows.bytes.append_value(0.0);
        rows.errors.append_value("{}");
        for (column, kind) in rows.latencies.iter_mut().zip(Latency::LOGGED) {
            column.append_value(if kind == Latency::Service { service.to_bytes() } else { Vec::new() });
        }
        rows.in_flight_ns.append_value(0.0);
        Ok(())
    }

    /// Returns the buffered rows, which are those of one second.
    fn rows_of(&mut self, second: u64) -> io::Result<&mut Rows> {
        if second != self.second {
            self.flush()?;
            self.second = second;
        }
        Ok(&mut self.rows)
    }

    /// Writes the buffered rows to the file.
    ///
    /// # Errors
    /// Fails if the file cannot be written, for example because the disk is full.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.rows.count == 0 {
            return Ok(());
        }
        let mut rows = std::mem::take(&mut self.rows);
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(rows.seconds.finish()),
            Arc::new(rows.stores.finish()),
            Arc::new(rows.phases.finish()),
            Arc::new(rows.roles.finish()),
            Arc::new(rows.repeats.finish()),
            Arc::new(rows.blocks.finish()),
            Arc::new(rows.steps.finish()),
            Arc::new(rows.kinds.finish()),
            Arc::new(rows.intended.finish()),
            Arc::new(rows.begun.finish()),
            Arc::new(rows.completed.finish()),
            Arc::new(rows.operations.finish()),
            Arc::new(rows.failed.finish()),
            Arc::new(rows.censored.finish()),
            Arc::new(rows.bytes.finish()),
            Arc::new(rows.errors.finish()),
        ];
        columns.extend(rows.latencies.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef));
        columns.push(Arc::new(rows.in_flight_ns.finish()));
        self.stream.write(columns)
    }

    /// Writes the buffered rows and the end of the stream.
    ///
    /// # Errors
    /// Fails if the file cannot be written, for example because the disk is full.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.stream.finish()
    }
}
