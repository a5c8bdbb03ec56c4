//! `requests.csv`: the recorded operations of a run as a log of requests, which `plimsoll replay` and `plimsoll fit`
//! read.
//!
//! The operation log has only the number of each operation. Number and experiment determine key and size.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use plimsoll_base::files::{self, read_text};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};

use super::{Exporter, Run, named};
use plimsoll_experiment::resolve::parse;
use plimsoll_judge::run_dir::MAX_TEXT;
use plimsoll_judge::run_dir::read::batches;
use plimsoll_workload::schedule::{Phase, Role};
use plimsoll_workload::{OperationKind, Sequence};

/// Exporter of logs of requests.
pub struct Requests;

/// Phases of the experiment, with their operations.
struct Phases(BTreeMap<String, (Phase, Sequence)>);

impl Phases {
    fn read(run: &Path) -> io::Result<Phases> {
        let file = run.join("experiment.toml");
        let text = read_text(&file, MAX_TEXT).map_err(named(&file))?;
        let experiment = parse(&file.display().to_string(), &text, &[]).map_err(io::Error::other)?;
        let measured = experiment.phases.into_iter().filter(|phase| phase.role == Role::Measure);
        let found = |phase: &Phase| phase.workload.read.as_ref().is_some_and(|read| read.existing.is_some());
        let with_sequence = |phase: Phase| {
            if found(&phase) {
                return Err(io::Error::other(format!(
                    "phase '{}' reads objects that existed before the run, whose keys the run does not record",
                    phase.name
                )));
            }
            let sequence = phase.workload.sequence();
            Ok((phase.name.clone(), (phase, sequence)))
        };
        measured.map(with_sequence).collect::<io::Result<_>>().map(Phases)
    }

    /// Returns the kind, the key and the size of the object of an operation; `None` if its phase is not measured.
    fn operation(&mut self, phase: &str, number: u64) -> Option<(OperationKind, String, u64)> {
        let (phase, sequence) = self.0.get_mut(phase)?;
        let operation = sequence.at(number);
        let dataset = phase.workload.dataset(operation.target);
        let mut key = String::new();
        dataset.key_into(&mut key, "", operation.index);
        Some((operation.kind, key, dataset.size_of(operation.index, operation.version)))
    }
}

/// Columns of the operation log that the export needs.
struct Columns<'a> {
    phases: Vec<&'a str>,
    outcomes: Vec<&'a str>,
    numbers: &'a [u64],
    starts: Vec<Option<u64>>,
    bytes: &'a [u64],
}

fn columns(batch: &RecordBatch) -> Option<Columns<'_>> {
    let texts = |name: &str| -> Option<Vec<&str>> {
        let column = batch.column_by_name(name)?.as_dictionary_opt::<Int32Type>()?;
        let values = column.values().as_string_opt::<i32>()?;
        (0..column.len()).map(|row| Some(values.value(column.key(row)?))).collect()
    };
    let numbers = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<UInt64Type>();
    let (intended, started) = (numbers("intended_ns")?, numbers("start_ns")?);
    // An open loop is repeated at its intended times.
    let start = |row: usize| match (intended.is_valid(row), started.is_valid(row)) {
        (true, _) => Some(intended.value(row)),
        (false, true) => Some(started.value(row)),
        (false, false) => None,
    };
    Some(Columns {
        phases: texts("phase")?,
        outcomes: texts("outcome")?,
        numbers: numbers("number")?.values(),
        starts: (0..batch.num_rows()).map(start).collect(),
        bytes: numbers("bytes")?.values(),
    })
}

/// Returns the status that stands for an outcome: that of a response, or 500 for an operation without one.
fn status(outcome: &str) -> &str {
    let digits = outcome.split(' ').next().filter(|word| word.len() == 3 && word.parse::<u16>().is_ok());
    if outcome == "ok" { "200" } else { digits.unwrap_or("500") }
}

/// Returns a field of a table, in quotes if it needs them (RFC 4180).
fn quoted(text: &str) -> Cow<'_, str> {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")).into(),
        false => text.into(),
    }
}

impl Exporter for Requests {
    fn export(&self, run: &Run, to: &Path) -> io::Result<Vec<PathBuf>> {
        let log = run.path.join("operations.arrows");
        if !log.exists() {
            let missing =
                format!("{}: no operations were recorded; use --record operations", run.path.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, missing));
        }
        let mut phases = Phases::read(&run.path)?;
        let batches = batches(&log)?;
        let read: Option<Vec<Columns<'_>>> = batches.iter().map(columns).collect();
        let read = read.ok_or_else(|| io::Error::other(format!("{}: a column is missing", log.display())))?;
        let first_ns = read.iter().flat_map(|c| c.starts.iter().flatten()).min().copied().unwrap_or_default();
        let began: jiff::Timestamp = run.result.run.started_at.parse().unwrap_or_default();
        let file = to.join("requests.csv");
        let mut out = BufWriter::new(files::create(&file).map_err(named(&file))?);
        writeln!(out, "time,operation,key,size,bytes,status").map_err(named(&file))?;
        for columns in &read {
            for row in 0..columns.numbers.len() {
                let Some(start_ns) = columns.starts[row] else { continue };
                let Some((kind, key, size)) = phases.operation(columns.phases[row], columns.numbers[row])
                else {
                    continue;
                };
                let at = began.as_nanosecond() + i128::from(start_ns - first_ns);
                let (operation, bytes, key) = (kind.name(), columns.bytes[row], quoted(&key));
                let status = status(columns.outcomes[row]);
                writeln!(out, "{at},{operation},{key},{size},{bytes},{status}").map_err(named(&file))?;
            }
        }
        out.flush().map_err(named(&file))?;
        Ok(vec![file])
    }
}
