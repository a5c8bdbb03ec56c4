//! `windows.csv` with one row per window, and `intervals.csv` with one row per second. Latencies are in
//! milliseconds; a percentile with too few samples is empty.

use std::io;
use std::path::{Path, PathBuf};

use super::columns::{Cell, Row, of_intervals, windows};
use super::{Exporter, Run, named};
use plimsoll_judge::run_dir::read::{Interval, intervals};

/// Exporter of comma-separated values (RFC 4180).
pub struct Csv;

/// Writes rows with their header; only a header is missing without rows.
fn write(rows: &[Row], file: &Path) -> io::Result<()> {
    let mut writer = csv::Writer::from_path(file).map_err(io::Error::other).map_err(named(file))?;
    if let Some(first) = rows.first() {
        writer
            .write_record(first.iter().map(|(name, _)| name))
            .map_err(io::Error::other)
            .map_err(named(file))?;
    }
    for row in rows {
        let cells = row.iter().map(|(_, cell)| cell.text());
        writer.write_record(cells).map_err(io::Error::other).map_err(named(file))?;
    }
    writer.flush().map_err(named(file))
}

/// Returns the counts of a row of the interval log.
fn counts(row: &Interval) -> Row {
    let t = &row.tally;
    let text = |text: &str| Cell::Text(Some(text.to_string()));
    let whole = |n: u64| Cell::Whole(Some(n));
    let cells = [
        ("second", whole(row.second)),
        ("store", text(&row.store)),
        ("phase", text(&row.phase)),
        ("role", text(row.role.name())),
        ("repeat", whole(u64::from(row.repeat))),
        ("block", whole(u64::from(row.block))),
        ("step", Cell::Whole(row.step.map(u64::from))),
        ("operation", text(row.operation.name())),
        ("intended", whole(t.intended)),
        ("begun", whole(t.begun)),
        ("completed", whole(t.completed)),
        ("operations", whole(t.operations)),
        ("failed", whole(t.failures())),
        ("censored", whole(t.censored)),
        ("bytes", Cell::Number(Some(t.bytes))),
    ];
    cells.into_iter().map(|(name, cell)| (name.to_string(), cell)).collect()
}

impl Exporter for Csv {
    fn export(&self, run: &Run, to: &Path) -> io::Result<Vec<PathBuf>> {
        let files = [to.join("windows.csv"), to.join("intervals.csv")];
        write(&windows(run), &files[0])?;
        let rows = intervals(&run.path)?;
        let seconds = rows.iter().zip(of_intervals(run, &rows));
        write(&seconds.map(|(row, more)| [counts(row), more].concat()).collect::<Vec<_>>(), &files[1])?;
        Ok(files.into())
    }
}
