//! Reads `intervals.arrows` as [`Series`] with every second of every window, including seconds without operations.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::mpsc::sync_channel;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};

use super::environment::read_environment;
use super::intervals;
use super::read::plausible;
use super::size_log;
use super::stream::{Batches, invalid};
use crate::summary::merge::client_limited;
use crate::summary::result::{LoopKind, RunResult, SizeClassFigures, Window};
use crate::summary::series::{Block, LatencyKind, Second, Series};
use crate::summary::size_range::SizeRange;
use plimsoll_recorder::sparse::Sparse;
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Role;

/// Key of a series: store, phase, step, operation, and the smallest size of a size class.
type Key = (String, String, Option<u32>, OperationKind, Option<u64>);

/// Columns of the log that must exist, histograms last.
const COLUMNS: [&str; 16] = [
    "second",
    "store",
    "phase",
    "role",
    "repeat",
    "block",
    "step",
    "operation",
    "completed",
    "operations",
    "failed",
    "censored",
    "bytes",
    "errors",
    "service",
    "response",
];

/// Upper bound for the seconds of a run (100 years). A later second indicates damage.
const LAST_SECOND: u64 = 100 * 366 * 86_400;

/// Maximum number of batches that are read before they are decoded.
const BATCHES_AHEAD: usize = 64;

/// Maximum number of seconds without a row in a block whose window is known (eleven days).
const SILENT_IN_WINDOW: u64 = 1_000_000;
/// Maximum number of seconds without a row in a block whose window is unknown.
const SILENT: u64 = 3_600;
/// Additional seconds without a row that each row allows.
const SILENT_PER_ROW: u64 = 1_000;

/// Returns all series of a run. `latencies` lists the histograms to decode; the others stay empty, which saves time.
///
/// # Errors
/// Fails if the log is missing, damaged, or written by another version.
pub fn series(run: &Path, result: &RunResult, latencies: &[LatencyKind]) -> io::Result<Vec<Series>> {
    let origin_unix_s = read_environment(run).map(|e| e.origin_unix_s).unwrap_or_default();
    series_since(run, origin_unix_s, result, latencies)
}

/// Returns all series of a run whose second 0 began at `origin_unix_s`; see [`series`].
///
/// # Errors
/// Fails like [`series`].
pub fn series_since(
    run: &Path,
    origin_unix_s: f64,
    result: &RunResult,
    latencies: &[LatencyKind],
) -> io::Result<Vec<Series>> {
    series_of(&run.join(intervals::NAME), origin_unix_s, result, latencies)
}

/// Returns the series of a run by size of the object; none if it has no size classes.
///
/// # Errors
/// Fails if the log is damaged, or written by another version.
pub fn by_size(run: &Path, result: &RunResult) -> io::Result<Vec<Series>> {
    let origin_unix_s = read_environment(run).map(|e| e.origin_unix_s).unwrap_or_default();
    sizes_since(run, origin_unix_s, result)
}

/// Returns the series by size of a run whose second 0 began at `origin_unix_s`; see [`by_size`].
///
/// # Errors
/// Fails like [`by_size`].
pub fn sizes_since(run: &Path, origin_unix_s: f64, result: &RunResult) -> io::Result<Vec<Series>> {
    let log = run.join(size_log::NAME);
    if !log.exists() {
        return Ok(Vec::new());
    }
    let mut found = series_of(&log, origin_unix_s, result, &[LatencyKind::Service])?;
    // In the order of their sizes, not of their first operations.
    found.sort_by(|a, b| {
        let key = |series: &Series| {
            (series.store.clone(), series.phase.clone(), series.step, series.operation.index())
        };
        key(a).cmp(&key(b)).then(a.size.cmp(&b.size))
    });
    Ok(found)
}

/// Returns all series of a log.
fn series_of(
    log: &Path,
    origin_unix_s: f64,
    result: &RunResult,
    latencies: &[LatencyKind],
) -> io::Result<Vec<Series>> {
    let mut rows = Rows::default();
    read(log, latencies, &mut rows)?;
    let Rows { mut by_key, order } = rows;
    let mut out = Vec::new();
    for key in order {
        let Some((role, rows)) = by_key.remove(&key) else { continue };
        let windows: Vec<&Window> = result.windows.iter().filter(|w| is_of(w, &key)).collect();
        let (store, phase, step, operation, from_bytes) = key;
        let size = from_bytes.map(|from_bytes| {
            let mut classes = windows.iter().flat_map(|window| &window.size_classes);
            let known = classes.find(|class| class.from_bytes == from_bytes);
            known.map_or(SizeRange { from_bytes, to_bytes: None }, SizeClassFigures::range)
        });
        out.push(Series {
            size,
            store,
            phase,
            role,
            step,
            operation,
            key_group: windows.first().and_then(|w| w.key_group.clone()),
            open: windows.first().is_some_and(|w| w.loop_ == LoopKind::Open),
            client_limited: client_limited(&windows),
            seconds: laid_out(rows, &windows, origin_unix_s)
                .ok_or_else(|| invalid(log, "its seconds are too far apart for one run"))?,
        });
    }
    Ok(out)
}

fn is_of(window: &Window, (store, phase, step, operation, _): &Key) -> bool {
    (&window.store, &window.phase, &window.step, &window.operation) == (store, phase, step, operation)
}

#[derive(Default)]
struct Rows {
    by_key: HashMap<Key, (Role, Vec<Second>)>,
    order: Vec<Key>,
}

fn read(path: &Path, latencies: &[LatencyKind], rows: &mut Rows) -> io::Result<()> {
    let mut from = Batches::open(path, "an interval log")?;
    let schema = from.schema();
    for name in COLUMNS {
        if schema.index_of(name).is_err() {
            return Err(invalid(
                path,
                format!("it contains no column {name}; another version of Plimsoll wrote the file"),
            ));
        }
    }
    // One thread reads the file, while this one decodes the histograms.
    std::thread::scope(|scope| {
        let (sender, batches) = sync_channel(BATCHES_AHEAD);
        scope.spawn(move || {
            while let Some(batch) = from.next().transpose() {
                let failed = batch.is_err();
                if sender.send(batch).is_err() || failed {
                    break;
                }
            }
        });
        let mut scratch = Vec::new();
        for batch in batches {
            add(&batch?, latencies, rows, &mut scratch)
                .ok_or_else(|| {
                    invalid(
                        path,
                        "a column has an unexpected type; another version of Plimsoll wrote the file",
                    )
                })?
                .map_err(|problem| invalid(path, problem))?;
        }
        Ok(())
    })
}

/// Adds the rows of a batch. Returns `None` if a column is missing or has an unexpected type, and a description of the
/// first damaged value as an error.
fn add(
    batch: &RecordBatch,
    latencies: &[LatencyKind],
    rows: &mut Rows,
    scratch: &mut Vec<u8>,
) -> Option<Result<(), &'static str>> {
    let number = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<UInt64Type>();
    let small = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<UInt32Type>();
    let text = |name: &str| batch.column_by_name(name)?.as_string_opt::<i32>();
    let binary = |name: &str| batch.column_by_name(name)?.as_binary_opt::<i32>();
    let bytes = batch.column_by_name("bytes")?.as_primitive_opt::<Float64Type>()?;
    let (seconds, steps) = (number("second")?, small("step")?);
    let (stores, phases, roles, kinds) = (text("store")?, text("phase")?, text("role")?, text("operation")?);
    let errors = text("errors")?;
    let (repeats, blocks) = (small("repeat")?, small("block")?);
    let (completed, operations) = (number("completed")?, number("operations")?);
    let (failed, censored) = (number("failed")?, number("censored")?);
    for i in 0..batch.num_rows() {
        let mut histogram = |which: LatencyKind| {
            if !latencies.contains(&which) {
                return Some(Some(Sparse::default()));
            }
            Some(Sparse::from_bytes(binary(which.name())?.value(i), scratch))
        };
        let (service, response) = (histogram(LatencyKind::Service)?, histogram(LatencyKind::Response)?);
        let first_byte = histogram(LatencyKind::FirstByte)?;
        let (Some(service), Some(response), Some(first_byte)) = (service, response, first_byte) else {
            return Some(Err("it contains a damaged histogram"));
        };
        let counts = [completed, operations, failed, censored].map(|column| column.value(i));
        if !plausible(&counts, bytes.value(i)) || seconds.value(i) > LAST_SECOND {
            return Some(Err("it contains an impossible count"));
        }
        let second = Second {
            second: seconds.value(i),
            block: Block { repeat: repeats.value(i), number: blocks.value(i) },
            time_s: 1.0,
            completed: completed.value(i),
            operations: operations.value(i),
            failed: failed.value(i),
            censored: censored.value(i),
            errors: if failed.value(i) > 0 {
                serde_json::from_str(errors.value(i)).unwrap_or_default()
            } else {
                BTreeMap::new()
            },
            bytes: bytes.value(i),
            service,
            response,
            first_byte,
        };
        let step = (!steps.is_null(i)).then(|| steps.value(i));
        let Some((kind, from_bytes)) = size_log::parse(kinds.value(i)) else {
            return Some(Err("it contains an unknown operation"));
        };
        let key = (stores.value(i).into(), phases.value(i).into(), step, kind, from_bytes);
        match rows.by_key.get_mut(&key) {
            Some((_, seconds)) => seconds.push(second),
            None => {
                rows.order.push(key.clone());
                let Some(role) = Role::from_name(roles.value(i)) else {
                    return Some(Err("it contains an unknown role"));
                };
                rows.by_key.insert(key, (role, vec![second]));
            }
        }
    }
    Some(Ok(()))
}

/// Assigns rows to the seconds of their windows. Each second has the length of its part inside the window;
/// seconds without a row are empty; operations that ended after the window, during the drain, count in its last
/// second. `None` if the seconds are too far apart.
fn laid_out(rows: Vec<Second>, windows: &[&Window], origin_unix_s: f64) -> Option<Vec<Second>> {
    let mut by_block: Vec<(Block, Vec<Second>)> = Vec::new();
    for row in rows {
        match by_block.iter_mut().find(|(block, _)| *block == row.block) {
            Some((_, rows)) => rows.push(row),
            None => by_block.push((row.block, vec![row])),
        }
    }
    let mut out = Vec::new();
    for (block, rows) in by_block {
        let window = windows.iter().find(|w| Block { repeat: w.repeat, number: w.block } == block);
        out.extend(one_block(rows, block, window.copied(), origin_unix_s)?);
    }
    Some(out)
}

fn one_block(
    rows: Vec<Second>,
    block: Block,
    window: Option<&Window>,
    origin_unix_s: f64,
) -> Option<Vec<Second>> {
    let seen = (rows.first().map_or(0, |r| r.second), rows.last().map_or(0, |r| r.second));
    // Without known times (an imported log), the rows define the window.
    let known = window
        .filter(|w| origin_unix_s > 0.0 && w.start_unix_s > 0.0 && w.window_s > 0.0)
        .map(|w| (w.start_unix_s - origin_unix_s, w.start_unix_s - origin_unix_s + w.window_s))
        .filter(|(start, end)| *start < seen.1 as f64 + 1.0 && *end > seen.0 as f64);
    let (start, end) = known.unwrap_or((seen.0 as f64, seen.1 as f64 + 1.0));
    let (first, last) =
        (start.max(0.0).floor() as u64, (end.ceil() as u64).saturating_sub(1).max(start.max(0.0) as u64));
    // Each empty second uses memory, so a damaged number must not create billions of them.
    let silent = if known.is_some() { SILENT_IN_WINDOW } else { SILENT };
    if last - first > silent + SILENT_PER_ROW * rows.len() as u64 {
        return None;
    }
    let second = |second: u64| {
        let time_s = end.min(second as f64 + 1.0) - start.max(second as f64);
        Second { second, block, time_s: time_s.max(0.0), ..Second::default() }
    };
    let mut out: Vec<Second> = (first..=last).map(second).collect();
    for row in rows {
        let at = (row.second.clamp(first, last) - first) as usize;
        if let Some(into) = out.get_mut(at) {
            into.absorb(row);
        }
    }
    // A part of less than half a second at either end is too short to count as a second, so it is merged into its
    // neighbour.
    for edge in [0, out.len().saturating_sub(1)] {
        if out.len() > 2 && out.get(edge).is_some_and(|s| s.time_s < 0.5) {
            let sliver = out.remove(edge);
            let neighbour = edge.saturating_sub(1);
            out[neighbour].time_s += sliver.time_s;
            out[neighbour].absorb(sliver);
        }
    }
    Some(out)
}
