//! Comparison of the operation log with the schedule and with the interval log: each operation has the kind, the
//! intended time and the size that the seed determines, occurs once, and is counted in the interval log.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt32Type, UInt64Type};
use arrow_array::{Array, PrimitiveArray, RecordBatch};
use plimsoll_workload::schedule::arrival::Arrivals;
use plimsoll_workload::{OperationKind, Sequence};

use super::schedule::{OperationCounts, PhaseOnStore, Position, position};
use plimsoll_judge::run_dir::read::for_each_batch;

/// Maximum number of operations whose numbers are kept in memory.
const MAX_OPERATIONS: usize = 1 << 27;

/// Highest number of an operation, far above what a client can execute; larger ones overflow in the schedule.
const MAX_NUMBER: u64 = 1 << 40;

/// Result of the comparison of the operation log.
#[derive(Debug, Default)]
pub(super) struct Compared {
    /// Number of operations that follow from the seed.
    pub operations: u64,
    /// Contradictions, in words: the first of each phase.
    pub problems: Vec<String>,
}

/// A text column with repeated values.
struct Texts<'a> {
    keys: &'a PrimitiveArray<Int32Type>,
    values: Vec<&'a str>,
}

impl<'a> Texts<'a> {
    fn of(batch: &'a RecordBatch, name: &str) -> Option<Texts<'a>> {
        let column = batch.column_by_name(name)?.as_dictionary_opt::<Int32Type>()?;
        let values = column.values().as_string_opt::<i32>()?;
        Some(Texts { keys: column.keys(), values: (0..values.len()).map(|at| values.value(at)).collect() })
    }

    fn at(&self, row: usize) -> &'a str {
        usize::try_from(self.keys.value(row)).ok().and_then(|key| self.values.get(key)).copied().unwrap_or("")
    }
}

/// Columns of a batch that the comparison needs.
struct Columns<'a> {
    stores: Texts<'a>,
    phases: Texts<'a>,
    kinds: Texts<'a>,
    outcomes: Texts<'a>,
    repeats: &'a PrimitiveArray<UInt32Type>,
    blocks: &'a PrimitiveArray<UInt32Type>,
    steps: &'a PrimitiveArray<UInt32Type>,
    numbers: &'a PrimitiveArray<UInt64Type>,
    intended: &'a PrimitiveArray<UInt64Type>,
    bytes: &'a PrimitiveArray<UInt64Type>,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch) -> Option<Columns<'a>> {
        let texts = |name| Texts::of(batch, name);
        let small = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<UInt32Type>();
        let large = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<UInt64Type>();
        Some(Columns {
            stores: texts("store")?,
            phases: texts("phase")?,
            kinds: texts("operation")?,
            outcomes: texts("outcome")?,
            repeats: small("repeat")?,
            blocks: small("block")?,
            steps: small("step")?,
            numbers: large("number")?,
            intended: large("intended_ns")?,
            bytes: large("bytes")?,
        })
    }

    fn position(&self, row: usize) -> Position {
        let step = self.steps.is_valid(row).then(|| self.steps.value(row));
        (self.repeats.value(row), self.blocks.value(row), step)
    }
}

/// Intended times of one phase run of an open loop.
struct Times {
    /// Number of the first operation.
    first: u64,
    /// Intended time of each operation, in nanoseconds since the start of the phase run.
    offsets: Vec<u64>,
    /// Start of the phase run on the monotonic clock, from its first row in the log.
    start_ns: Option<u64>,
}

/// A phase on one store, as far as its rows have been read.
struct Reader<'a> {
    planned: &'a PhaseOnStore,
    sequence: Sequence,
    times: BTreeMap<Position, Times>,
    numbers: Vec<u64>,
    counted: BTreeMap<(Position, OperationKind), u64>,
    problem: Option<String>,
}

impl<'a> Reader<'a> {
    fn new(planned: &'a PhaseOnStore) -> Reader<'a> {
        let recorded = planned.phase_runs.iter().filter(|(phase_run, _)| phase_run.recorded);
        let times = recorded.filter_map(|(phase_run, first)| {
            let first = (*first)?;
            let length = phase_run.phase.limit.duration_ns.unwrap_or(u64::MAX);
            let limit = phase_run.phase.limit.operations.unwrap_or(u64::MAX);
            let offsets = Arrivals::of(&phase_run.phase, first)?
                .take(usize::try_from(limit).unwrap_or(usize::MAX).min(MAX_OPERATIONS))
                .take_while(|at| *at < length)
                .collect();
            Some((position(phase_run), Times { first, offsets, start_ns: None }))
        });
        let is_open = planned.phase.load.is_open();
        Reader {
            sequence: planned.phase.workload.sequence(),
            times: if is_open { times.collect() } else { BTreeMap::new() },
            numbers: Vec::new(),
            counted: BTreeMap::new(),
            problem: None,
            planned,
        }
    }

    /// Compares a row. Returns the contradiction, if there is one.
    fn row(&mut self, columns: &Columns<'_>, row: usize) -> Option<String> {
        let (number, at) = (columns.numbers.value(row), columns.position(row));
        if number > MAX_NUMBER {
            return Some(format!("operation {number} is not in the schedule"));
        }
        let (stated, scheduled) = (columns.kinds.at(row), self.sequence.at(number));
        let kind = scheduled.kind;
        *self.counted.entry((at, kind)).or_default() += 1;
        if self.numbers.len() < MAX_OPERATIONS {
            self.numbers.push(number);
        }
        if stated != kind.name() {
            return Some(format!("operation {number} is a {stated}, and a {} in the schedule", kind.name()));
        }
        if kind == OperationKind::Put && columns.outcomes.at(row) == "ok" {
            let dataset = self.planned.phase.workload.dataset(scheduled.target);
            let (size, bytes) =
                (dataset.size_of(scheduled.index, scheduled.version), columns.bytes.value(row));
            if size != bytes {
                return Some(format!("operation {number} put {bytes} bytes, and {size} in the schedule"));
            }
        }
        let times = self.times.get_mut(&at)?;
        let offset = number
            .checked_sub(times.first)
            .and_then(|index| times.offsets.get(usize::try_from(index).ok()?))
            .copied();
        let intended = columns.intended.is_valid(row).then(|| columns.intended.value(row));
        let start = intended.zip(offset).and_then(|(at, offset)| at.checked_sub(offset));
        let same = start.is_some_and(|start| *times.start_ns.get_or_insert(start) == start);
        (!same).then(|| format!("operation {number} does not have the intended time of the schedule"))
    }

    /// Compares the numbers of all rows, and the number of rows with the interval log.
    fn finish(&mut self, counts: &OperationCounts<'_>) -> Option<String> {
        self.numbers.sort_unstable();
        if let Some(pair) = self.numbers.windows(2).find(|pair| pair[0] == pair[1]) {
            return Some(format!("operation {} occurs more than once", pair[0]));
        }
        let (store, phase) = (self.planned.store.as_str(), self.planned.phase.name.as_str());
        for (phase_run, _) in &self.planned.phase_runs {
            let at = position(phase_run);
            let logged = counts.get(&(store, phase, at));
            for (kind, _) in self.planned.phase.workload.mix.shares() {
                let rows = self.counted.get(&(at, *kind)).copied().unwrap_or(0);
                let logged = logged.and_then(|kinds| kinds.get(kind.name())).copied().unwrap_or(0);
                if rows != logged {
                    return Some(format!(
                        "it has {rows} {} operations, and intervals.arrows has {logged}",
                        kind.name()
                    ));
                }
            }
        }
        None
    }
}

/// Compares the operation log of a run with the schedule and the totals of the interval log.
///
/// # Errors
/// If the log cannot be read.
pub(super) fn check(
    log: &Path,
    phases: &[PhaseOnStore],
    counts: &OperationCounts<'_>,
) -> io::Result<Compared> {
    let mut readers: Vec<Reader<'_>> = phases.iter().map(Reader::new).collect();
    let mut out = Compared::default();
    for_each_batch(log, |batch| {
        let Some(columns) = Columns::of(batch) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{}: a column is missing", log.display()),
            ));
        };
        let mut last = 0;
        for row in 0..batch.num_rows() {
            let (store, phase) = (columns.stores.at(row), columns.phases.at(row));
            let is =
                |reader: &Reader<'_>| reader.planned.store == store && reader.planned.phase.name == phase;
            if !readers.get(last).is_some_and(is) {
                last = readers.iter().position(is).unwrap_or(usize::MAX);
            }
            match readers.get_mut(last) {
                Some(reader) if reader.problem.is_none() => match reader.row(&columns, row) {
                    None => out.operations += 1,
                    problem => reader.problem = problem,
                },
                Some(_) => {}
                None if out.problems.is_empty() => out.problems.push(format!(
                    "operations.arrows has a phase '{phase}' on {store} that is not in the schedule"
                )),
                None => {}
            }
        }
        Ok(())
    })?;
    for reader in &mut readers {
        let problem = reader.problem.take().or_else(|| reader.finish(counts));
        out.problems.extend(problem.map(|problem| {
            let PhaseOnStore { store, phase, .. } = reader.planned;
            format!("operations.arrows, phase '{}' on {store}: {problem}", phase.name)
        }));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use plimsoll_experiment::resolve::parse;
    use plimsoll_recorder::log::{LogRecord, LoggedResult};

    use super::super::schedule::numbered;
    use super::*;
    use plimsoll_judge::run_dir::intervals::IntervalKey;
    use plimsoll_judge::run_dir::operations::OperationLog;

    const EXPERIMENT: &str = "name = 'e'\nseed = 5\n[[phase]]\nname = 'objects'\nrole = 'prepare'\noperations = { put = 1 }\n\
        objects = { count = 50, size = { uniform = ['1 KiB', '9 KiB'] } }\n\
        [[phase]]\nname = 'open'\noperations = { get = 3, put = 1 }\nobjects = { from = 'objects' }\n\
        rate = '100/s'\narrival = 'poisson'\nduration = '2s'\n";

    /// Returns the rows of a run with this schedule: the phase and the record of each.
    fn rows(phases: &[PhaseOnStore]) -> Vec<(usize, LogRecord)> {
        let mut out = Vec::new();
        for (at, planned) in phases.iter().enumerate() {
            let workload = &planned.phase.workload;
            let mut sequence = workload.sequence();
            let times: Option<Vec<u64>> = Arrivals::of(&planned.phase, 0)
                .map(|times| times.take_while(|at| *at < 2_000_000_000).collect());
            let count = times.as_ref().map_or(50, |times| times.len() as u64);
            for number in 0..count {
                let operation = sequence.at(number);
                let dataset = workload.dataset(operation.target);
                let record = LogRecord {
                    phase_run: at,
                    number,
                    kind: operation.kind,
                    intended_ns: times.as_ref().map(|times| 7_000_000_000 + times[number as usize]),
                    start_ns: 1,
                    first_byte_ns: 1,
                    end_ns: 2,
                    client_delay_ns: 0,
                    bytes: dataset.size_of(operation.index, operation.version),
                    attempts: 1,
                    ended: LoggedResult::Ok,
                };
                out.push((at, record));
            }
        }
        out
    }

    /// Writes rows to a log and compares it. The interval log has the counts of `expected`.
    fn compared(
        name: &str,
        phases: &[PhaseOnStore],
        rows: &[(usize, LogRecord)],
        phase: Option<&str>,
    ) -> Compared {
        let file = std::env::temp_dir().join(format!("plimsoll-verify-{name}-{}", std::process::id()));
        let _ = fs::remove_file(&file);
        let mut log = OperationLog::create(&file).unwrap();
        for (at, record) in rows {
            let planned = &phases[*at];
            let phase = phase.unwrap_or(&planned.phase.name);
            let role = planned.phase.role;
            let place = IntervalKey { store: &planned.store, phase, role, repeat: 0, block: 0, step: None };
            log.add(place, record).unwrap();
        }
        log.finish().unwrap();
        let mut counts = OperationCounts::new();
        for (at, record) in super::tests::rows(phases) {
            let planned = &phases[at];
            let key = (planned.store.as_str(), planned.phase.name.as_str(), (0, 0, None));
            *counts.entry(key).or_default().entry(record.kind.name()).or_insert(0) += 1;
        }
        let found = check(&file, phases, &counts).unwrap();
        fs::remove_file(&file).unwrap();
        found
    }

    #[test]
    fn rows_that_follow_from_the_seed_are_accepted_in_any_order() {
        let phases = numbered(&parse("", EXPERIMENT, &[]).unwrap(), &["s3://a".into()]);
        let mut rows = rows(&phases);
        rows.reverse();
        let found = compared("order", &phases, &rows, None);
        assert_eq!((found.problems, found.operations), (Vec::new(), rows.len() as u64));
    }

    /// Part of the expected message, and a change of a row.
    type Change = (&'static str, fn(&mut LogRecord));

    #[test]
    fn each_changed_field_is_found() {
        let phases = numbered(&parse("", EXPERIMENT, &[]).unwrap(), &["s3://a".into()]);
        let whole = rows(&phases);
        let changes: [Change; 6] = [
            ("is a head, and a", |row| row.kind = OperationKind::Head),
            ("does not have the intended time", |row| row.intended_ns = row.intended_ns.map(|ns| ns + 1)),
            ("does not have the intended time", |row| row.intended_ns = None),
            ("in the schedule", |row| row.bytes += u64::from(row.kind == OperationKind::Put)),
            ("", |row| row.number += 1),
            ("is not in the schedule", |row| row.number = u64::MAX),
        ];
        let put = whole.iter().position(|(at, row)| *at == 1 && row.kind == OperationKind::Put).unwrap();
        for (named, change) in changes {
            let mut changed = whole.clone();
            change(&mut changed[put].1);
            let found = compared("field", &phases, &changed, None);
            assert!(found.problems.len() == 1 && found.problems[0].contains(named), "{named}: {found:?}");
        }
        let twice = [&whole[..], &whole[put..=put]].concat();
        let found = compared("twice", &phases, &twice, None);
        assert!(found.problems[0].contains("occurs more than once"), "{found:?}");
        let found = compared("missing", &phases, &whole[..whole.len() - 1], None);
        assert!(found.problems[0].contains("and intervals.arrows has"), "{found:?}");
        let found = compared("phase", &phases, &whole, Some("other"));
        assert!(
            found.problems[0].contains("phase 'other' on s3://a that is not in the schedule"),
            "{found:?}"
        );
    }
}
