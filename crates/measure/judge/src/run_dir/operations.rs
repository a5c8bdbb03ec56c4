//! `operations.arrows`: an Arrow IPC stream with one row per operation, written with `--record operations`.
//! Times are nanoseconds on the client's monotonic clock; columns of repeated text are dictionary-encoded.

use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{StringDictionaryBuilder, UInt32Builder, UInt64Builder};
use arrow_array::types::Int32Type;
use arrow_schema::{DataType, Field, Schema};

use super::intervals::IntervalKey;
use super::stream::Stream;
use plimsoll_recorder::log::{LogRecord, LoggedResult};

/// Returns the schema of the log.
pub fn schema() -> Schema {
    let text = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let field = |name: &str, kind| Field::new(name, kind, false);
    Schema::new(vec![
        field("store", text()),
        field("phase", text()),
        field("role", text()),
        field("repeat", DataType::UInt32),
        field("block", DataType::UInt32),
        Field::new("step", DataType::UInt32, true),
        field("operation", text()),
        field("number", DataType::UInt64),
        Field::new("intended_ns", DataType::UInt64, true),
        Field::new("start_ns", DataType::UInt64, true),
        Field::new("first_byte_ns", DataType::UInt64, true),
        field("end_ns", DataType::UInt64),
        field("client_delay_ns", DataType::UInt64),
        field("bytes", DataType::UInt64),
        field("attempts", DataType::UInt32),
        field("outcome", text()),
    ])
}

/// Number of rows in a batch of the file.
const BATCH: usize = 16_384;

/// Writer of the operation log.
pub struct OperationLog {
    stream: Stream,
    rows: Rows,
}

#[derive(Default)]
struct Rows {
    count: usize,
    stores: StringDictionaryBuilder<Int32Type>,
    phases: StringDictionaryBuilder<Int32Type>,
    roles: StringDictionaryBuilder<Int32Type>,
    repeats: UInt32Builder,
    blocks: UInt32Builder,
    steps: UInt32Builder,
    kinds: StringDictionaryBuilder<Int32Type>,
    numbers: UInt64Builder,
    intended: UInt64Builder,
    starts: UInt64Builder,
    first_bytes: UInt64Builder,
    ends: UInt64Builder,
    client_delays: UInt64Builder,
    bytes: UInt64Builder,
    attempts: UInt32Builder,
    outcomes: StringDictionaryBuilder<Int32Type>,
}

impl OperationLog {
    /// Creates the file of the log.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn create(path: &Path) -> io::Result<OperationLog> {
        Ok(OperationLog { stream: Stream::create(path, schema())?, rows: Rows::default() })
    }

    /// Adds the record of an operation, and writes a full batch to the file.
    ///
    /// # Errors
    /// Fails if the file cannot be written, for example because the disk is full.
    pub fn add(&mut self, place: IntervalKey<'_>, op: &LogRecord) -> io::Result<()> {
        let known = |ns: u64| (ns > 0).then_some(ns);
        let rows = &mut self.rows;
        rows.count += 1;
        rows.stores.append_value(place.store);
        rows.phases.append_value(place.phase);
        rows.roles.append_value(place.role.name());
        rows.repeats.append_value(place.repeat);
        rows.blocks.append_value(place.block);
        rows.steps.append_option(place.step);
        rows.kinds.append_value(op.kind.name());
        rows.numbers.append_value(op.number);
        rows.intended.append_option(op.intended_ns);
        rows.starts.append_option(known(op.start_ns));
        rows.first_bytes.append_option(known(op.first_byte_ns));
        rows.ends.append_value(op.end_ns);
        rows.client_delays.append_value(op.client_delay_ns);
        rows.bytes.append_value(op.bytes);
        rows.attempts.append_value(op.attempts);
        rows.outcomes.append_value(match &op.ended {
            LoggedResult::Ok => "ok",
            LoggedResult::Failed(class) => class,
            LoggedResult::Undrained => "undrained",
            LoggedResult::NeverStarted => "never started",
        });
        if self.rows.count >= BATCH { self.flush() } else { Ok(()) }
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
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.stores.finish()),
            Arc::new(rows.phases.finish()),
            Arc::new(rows.roles.finish()),
            Arc::new(rows.repeats.finish()),
            Arc::new(rows.blocks.finish()),
            Arc::new(rows.steps.finish()),
            Arc::new(rows.kinds.finish()),
            Arc::new(rows.numbers.finish()),
            Arc::new(rows.intended.finish()),
            Arc::new(rows.starts.finish()),
            Arc::new(rows.first_bytes.finish()),
            Arc::new(rows.ends.finish()),
            Arc::new(rows.client_delays.finish()),
            Arc::new(rows.bytes.finish()),
            Arc::new(rows.attempts.finish()),
            Arc::new(rows.outcomes.finish()),
        ];
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
