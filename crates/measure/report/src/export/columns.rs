//! Columns of the tables that are exported for people: the windows of a run, and what is added to its intervals.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow_schema::{ArrowError, Field, Schema};

use super::Run;
use plimsoll_judge::run_dir::environment::read_environment;
use plimsoll_judge::run_dir::read::Interval;
use plimsoll_judge::summary::percentiles::percentiles;
use plimsoll_judge::summary::result::{Percentiles, Window};
use plimsoll_recorder::latency::Latency;

/// Value of a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// A text; `None` if it does not apply.
    Text(Option<String>),
    /// A whole number; `None` if it does not apply.
    Whole(Option<u64>),
    /// A number; `None` if there are too few samples.
    Number(Option<f64>),
    /// A yes or no.
    Flag(bool),
    /// A time in UTC, in microseconds since 1970; `None` if it is unknown.
    Time(Option<i64>),
}

/// Cells of a row with the names of their columns.
pub type Row = Vec<(String, Cell)>;

const LATENCIES: [&str; 8] = ["mean", "p50", "p90", "p95", "p99", "p99.9", "min", "max"];

fn latencies<'a>(kind: &'a str, found: Option<&'a Percentiles>) -> impl Iterator<Item = (String, Cell)> + 'a {
    LATENCIES.iter().map(move |name| {
        (format!("{kind}_{name}_ms"), Cell::Number(found.and_then(|percentiles| percentiles.get(name))))
    })
}

/// Returns a time in seconds since 1970 in microseconds; `None` for 0, which is unknown.
fn time(unix_s: f64) -> Cell {
    Cell::Time((unix_s > 0.0).then(|| (unix_s * 1e6).round() as i64))
}

/// Returns the settings that at least one window of a run sweeps, in order of their names.
fn swept(windows: &[Window]) -> BTreeSet<String> {
    windows.iter().filter_map(|w| w.sweep.as_ref()).flat_map(|sweep| sweep.at.keys().cloned()).collect()
}

fn sweep_values(settings: &BTreeSet<String>, window: Option<&Window>) -> Row {
    let at = window.and_then(|w| w.sweep.as_ref()).map(|sweep| &sweep.at);
    let value = |name: &String| at.and_then(|at| at.get(name)).cloned();
    settings.iter().map(|name| (format!("sweep_{name}"), Cell::Text(value(name)))).collect()
}

fn window(w: &Window, settings: &BTreeSet<String>) -> Row {
    let errors: Vec<String> = w.errors.iter().map(|(class, n)| format!("{class} x {n}")).collect();
    let text = |text: &str| Cell::Text(Some(text.to_string()));
    let whole = |n: u64| Cell::Whole(Some(n));
    let number = |n: f64| Cell::Number(Some(n));
    let fixed = [
        ("started", time(w.start_unix_s)),
        ("store", text(&w.store)),
        ("provider", text(&w.provider)),
        ("phase", text(&w.phase)),
        ("role", text(w.role.name())),
        ("repeat", whole(u64::from(w.repeat))),
        ("block", whole(u64::from(w.block))),
        ("step", Cell::Whole(w.step.map(u64::from))),
        ("key_group", Cell::Text(w.key_group.clone())),
        ("operation", text(w.operation.name())),
        ("loop", text(w.loop_.name())),
        ("concurrency", whole(w.concurrency as u64)),
        ("offered_per_s", Cell::Number(w.offered_per_s)),
        ("achieved_per_s", number(w.achieved_per_s)),
        ("saturated", Cell::Flag(w.saturated)),
        ("start_unix_s", number(w.start_unix_s)),
        ("window_s", number(w.window_s)),
        ("operations", whole(w.operations)),
        ("failed", whole(w.errors.values().sum())),
        ("censored", whole(w.censored)),
        ("attempts", whole(w.attempts)),
        ("bytes", whole(w.bytes)),
        ("throughput_bytes_per_s", number(w.throughput_bytes_per_s)),
        ("in_flight_mean", number(w.in_flight_mean)),
        ("errors", text(&errors.join("; "))),
        ("client_limited", Cell::Text(w.client_limited.clone())),
    ];
    let fixed = fixed.into_iter().map(|(name, cell)| (name.to_string(), cell));
    fixed
        .chain(latencies("service", Some(&w.service_ms)))
        .chain(latencies("response", w.response_ms.as_ref()))
        .chain(latencies("first_byte", Some(&w.first_byte_ms)))
        .chain(sweep_values(settings, Some(w)))
        .collect()
}

/// Returns one row per window of a run.
pub fn windows(run: &Run) -> Vec<Row> {
    let settings = swept(&run.result.windows);
    run.result.windows.iter().map(|w| window(w, &settings)).collect()
}

/// Returns the columns that are added to the interval log of a run: the start of the second, percentiles, and the
/// swept values.
pub fn of_intervals(run: &Run, rows: &[Interval]) -> Vec<Row> {
    let settings = swept(&run.result.windows);
    let origin_unix_s = read_environment(Path::new(&run.path)).map_or(0.0, |e| e.origin_unix_s);
    let row = |row: &Interval| {
        let at = if origin_unix_s > 0.0 { origin_unix_s + row.second as f64 } else { 0.0 };
        let [service, response] =
            [Latency::Service, Latency::Response].map(|kind| percentiles(&row.tally.latencies[kind]));
        let own = run.result.windows.iter().find(|w| w.phase == row.phase);
        std::iter::once(("time".to_string(), time(at)))
            .chain(latencies("service", Some(&service)))
            .chain(latencies("response", Some(&response)))
            .chain(sweep_values(&settings, own))
            .collect()
    };
    rows.iter().map(row).collect()
}

impl Cell {
    /// Returns the cell as text for a table of comma-separated values; empty without a value.
    pub fn text(&self) -> String {
        match self {
            Cell::Text(text) => text.clone().unwrap_or_default(),
            Cell::Whole(n) => n.map_or(String::new(), |n| n.to_string()),
            Cell::Number(x) => x.map_or(String::new(), |x| x.to_string()),
            Cell::Flag(flag) => flag.to_string(),
            Cell::Time(us) => {
                let time = us.and_then(|us| jiff::Timestamp::from_microsecond(us).ok());
                time.map_or(String::new(), |time| time.to_string())
            }
        }
    }
}

/// Returns rows as columns; `None` without rows.
///
/// # Errors
/// Fails if the rows have different columns.
pub fn batch(rows: &[Row]) -> Result<Option<RecordBatch>, ArrowError> {
    let Some(first) = rows.first() else { return Ok(None) };
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (index, (name, _)) in first.iter().enumerate() {
        let column = column(rows.iter().filter_map(|row| row.get(index)).map(|(_, cell)| cell).collect());
        fields.push(Field::new(name, column.data_type().clone(), true));
        columns.push(column);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map(Some)
}

/// Returns cells of one kind as an array.
fn column(cells: Vec<&Cell>) -> ArrayRef {
    macro_rules! of_kind {
        ($kind:ident, $array:ty) => {
            Arc::new(<$array>::from_iter(cells.iter().map(|cell| match cell {
                Cell::$kind(value) => value.clone(),
                _ => None,
            })))
        };
    }
    match cells.first() {
        Some(Cell::Text(_)) | None => of_kind!(Text, StringArray),
        Some(Cell::Whole(_)) => of_kind!(Whole, UInt64Array),
        Some(Cell::Number(_)) => of_kind!(Number, Float64Array),
        Some(Cell::Flag(_)) => Arc::new(
            cells.iter().map(|cell| Some(matches!(cell, Cell::Flag(true)))).collect::<BooleanArray>(),
        ),
        Some(Cell::Time(_)) => {
            let times = cells.iter().map(|cell| if let Cell::Time(us) = cell { *us } else { None });
            Arc::new(times.collect::<TimestampMicrosecondArray>().with_timezone_utc())
        }
    }
}
