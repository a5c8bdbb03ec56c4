//! Reads the Arrow streams of a run directory, including incomplete streams of a killed run.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};

use super::stream::{Batches, invalid};
use plimsoll_recorder::histogram::Latencies;
use plimsoll_recorder::latency::Latency;
use plimsoll_recorder::tally::Tally;
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Role;

/// One row of `intervals.arrows`.
#[derive(Debug, Clone)]
pub struct Interval {
    /// Seconds since the run's origin.
    pub second: u64,
    /// URL of the store as the user wrote it, without credentials.
    pub store: String,
    /// Name of the phase.
    pub phase: String,
    /// Role of the phase.
    pub role: Role,
    /// Repeat, from 0.
    pub repeat: u32,
    /// Block of interleaving, from 0.
    pub block: u32,
    /// Step of a ramp, from 0. `None` outside a ramp.
    pub step: Option<u32>,
    /// Kind of operation.
    pub operation: OperationKind,
    /// Counts and histograms of the row.
    pub tally: Tally,
}

/// Returns all complete batches of a stream. Ignores an incomplete batch at its end.
///
/// # Errors
/// Fails if the file does not exist, is not an Arrow stream, or is damaged.
pub fn batches(path: &Path) -> io::Result<Vec<RecordBatch>> {
    let mut out = Vec::new();
    for_each_batch(path, |batch| {
        out.push(batch.clone());
        Ok(())
    })?;
    Ok(out)
}

/// Calls `each` with the complete batches of a stream, one by one. Ignores an incomplete batch at its end.
///
/// # Errors
/// The errors of [`batches`] and of `each`.
pub fn for_each_batch(path: &Path, mut each: impl FnMut(&RecordBatch) -> io::Result<()>) -> io::Result<()> {
    let mut from = Batches::open(path, "a log of Plimsoll")?;
    while let Some(batch) = from.next()? {
        each(&batch)?;
    }
    Ok(())
}

/// Upper bound for the operations of one second, far more than a client can execute. A larger count indicates damage,
/// and sums of such counts could overflow.
const MAX_OPERATIONS: u64 = 1 << 40;

/// Returns true if the counts of a row are possible for one second.
pub(super) fn plausible(counts: &[u64], bytes: f64) -> bool {
    counts.iter().all(|n| *n < MAX_OPERATIONS) && bytes.is_finite() && bytes >= 0.0
}

fn missing(column: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!(
            "intervals.arrows contains no valid column {column}; another version of Plimsoll wrote the file"
        ),
    )
}

/// Returns the rows of a run's `intervals.arrows`.
///
/// # Errors
/// Fails like [`batches`], and if the file was written by another version or contains an impossible value.
pub fn intervals(run: &Path) -> io::Result<Vec<Interval>> {
    let mut out = Vec::new();
    for batch in batches(&run.join("intervals.arrows"))? {
        let column = |name: &str| batch.column_by_name(name).ok_or_else(|| missing(name));
        let number = |name: &str| column(name)?.as_primitive_opt::<UInt64Type>().ok_or_else(|| missing(name));
        let small = |name: &str| column(name)?.as_primitive_opt::<UInt32Type>().ok_or_else(|| missing(name));
        let text = |name: &str| column(name)?.as_string_opt::<i32>().ok_or_else(|| missing(name));
        let binary = |name: &str| column(name)?.as_binary_opt::<i32>().ok_or_else(|| missing(name));
        let bytes = column("bytes")?.as_primitive_opt::<Float64Type>().ok_or_else(|| missing("bytes"))?;
        let (seconds, steps, errors) = (number("second")?, small("step")?, text("errors")?);
        let (stores, phases, roles, kinds) =
            (text("store")?, text("phase")?, text("role")?, text("operation")?);
        let (repeats, blocks) = (small("repeat")?, small("block")?);
        let [intended, begun, completed, operations, censored] = [
            number("intended")?,
            number("begun")?,
            number("completed")?,
            number("operations")?,
            number("censored")?,
        ];
        let mut histograms = Vec::with_capacity(Latency::LOGGED.len());
        for kind in Latency::LOGGED {
            histograms.push((kind, binary(kind.name())?));
        }
        for i in 0..batch.num_rows() {
            let counts = [intended, begun, completed, operations, censored].map(|column| column.value(i));
            if !plausible(&counts, bytes.value(i)) {
                return Err(invalid(&run.join("intervals.arrows"), "it contains an impossible count"));
            }
            let errors: BTreeMap<String, u64> = serde_json::from_str(errors.value(i)).unwrap_or_default();
            let failed = errors.values().fold(0u64, |sum, n| sum.saturating_add(*n));
            let mut tally = Tally {
                intended: intended.value(i),
                begun: begun.value(i),
                completed: completed.value(i),
                operations: operations.value(i),
                succeeded: operations.value(i).saturating_sub(failed),
                censored: censored.value(i),
                bytes: bytes.value(i),
                errors,
                ..Tally::default()
            };
            for (kind, column) in &histograms {
                tally.latencies[*kind] = Latencies::from_bytes(column.value(i)).unwrap_or_default();
            }
            let Some(role) = Role::from_name(roles.value(i)) else {
                return Err(invalid(&run.join("intervals.arrows"), "it contains an unknown role"));
            };
            let Some(operation) = OperationKind::from_name(kinds.value(i)) else {
                return Err(invalid(&run.join("intervals.arrows"), "it contains an unknown operation"));
            };
            out.push(Interval {
                second: seconds.value(i),
                store: stores.value(i).into(),
                phase: phases.value(i).into(),
                role,
                repeat: repeats.value(i),
                block: blocks.value(i),
                step: (!steps.is_null(i)).then(|| steps.value(i)),
                operation,
                tally,
            });
        }
    }
    Ok(out)
}
