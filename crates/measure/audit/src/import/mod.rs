//! Import of logs from other tools. Plimsoll's recorder processes every logged request, so windows, percentiles and
//! throughput follow docs/method.md. An import cannot remove the coordinated omission of a closed loop, because the
//! tool never measured the missing waiting times.

use plimsoll_base::clock::SECOND;
use plimsoll_recorder::ErrorClass;
use plimsoll_recorder::Timings;
use plimsoll_recorder::collector::WindowState;
use plimsoll_recorder::log::LogRecord;
use plimsoll_recorder::tally::Tally;
use plimsoll_recorder::worker::WorkerRecorder;
use plimsoll_recorder::{Completed, Edges, OperationResult};
use plimsoll_workload::mix::Mix;
use plimsoll_workload::popularity::Popularity;
use plimsoll_workload::schedule::plan::PhaseRun;
use plimsoll_workload::schedule::{Limit, Load, Phase, Role, Verify};
use plimsoll_workload::size::Size;
use plimsoll_workload::{Dataset, OperationKind, ScanLength, Workload};

pub mod r2_bench;
mod stages;
mod unit;
pub mod warp;

/// One request of another tool. Times are in nanoseconds since the log's origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportedRequest {
    /// Index of the phase in [`Log::phases`].
    pub phase: u16,
    /// Kind of the operation.
    pub kind: OperationKind,
    /// Index of the error in [`Log::errors`]; `None` if the request succeeded.
    pub error: Option<u16>,
    /// Start of the request.
    pub start_ns: u64,
    /// Arrival of the first byte of the response; 0 if the tool did not log it.
    pub first_byte_ns: u64,
    /// End of the request.
    pub end_ns: u64,
    /// Number of object bytes transferred.
    pub bytes: u64,
    /// Number of retries that the tool made after failures.
    pub retries: u32,
}

/// A log that has been read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Log {
    /// Tool and file, with caveats for the reader.
    pub origin: String,
    /// Store that was measured, as far as the log identifies it.
    pub store: String,
    /// Unix time of the log's origin, in seconds.
    pub origin_unix_s: f64,
    /// Names of the phases, in order of time.
    pub phases: Vec<String>,
    /// Error classes, without duplicates.
    pub errors: Vec<String>,
    /// Requests, sorted by start.
    pub records: Vec<ImportedRequest>,
    /// Rows that were left out: name of the unsupported operation and number of rows.
    pub left_out: Vec<(String, u64)>,
    /// Notes for the reader of the figures, such as the units that were found and the number of inconsistent rows.
    pub notes: Vec<String>,
}

/// Allowed difference between latency and end - start, in milliseconds; [`LATENCY_SHARE`] applies if it allows more.
const LATENCY_MS: f64 = 1.0;
/// Allowed difference between latency and end - start, as a share of end - start.
const LATENCY_SHARE: f64 = 0.01;

/// Counter of rows whose latency disagrees with their start and end times.
#[derive(Debug, Default)]
struct Disagreements {
    rows: u64,
    differ: u64,
}

impl Disagreements {
    /// Adds a row with its latency and the difference between its end and start.
    fn add(&mut self, latency_ms: f64, between_ms: f64) {
        self.rows += 1;
        let allowed = LATENCY_MS.max(LATENCY_SHARE * between_ms);
        self.differ += u64::from((latency_ms - between_ms).abs() > allowed);
    }

    /// Returns a note on these rows; `None` if there are none. `latency`, `start` and `end` are column names.
    fn note(&self, latency: &str, start: &str, end: &str) -> Option<String> {
        (self.differ > 0).then(|| {
            format!(
                "{} of {} rows: {latency} differs from {end} - {start} by more than 1 ms and 1%; Plimsoll uses the times",
                self.differ, self.rows
            )
        })
    }
}

/// An imported log: phase runs with their windows and seconds.
pub struct Imported {
    /// Phase runs, one per phase of the log.
    pub phase_runs: Vec<PhaseRun>,
    /// Window state of each phase run.
    pub states: Vec<WindowState>,
    /// Tallies by second of the end, phase run and kind.
    pub seconds: Vec<(u64, usize, OperationKind, Tally)>,
    /// All operations of the log.
    pub operations: Vec<LogRecord>,
}

/// Splits the name of a phase into phase and step: `ramp_3` is step 2 of the phase `ramp`.
fn step_of(name: &str) -> (String, Option<u32>) {
    match name.rsplit_once('_').map(|(phase, n)| (phase, n.parse::<u32>())) {
        Some((phase, Ok(n))) if n > 0 => (phase.to_string(), Some(n - 1)),
        _ => (name.to_string(), None),
    }
}

/// Returns the window of a phase, which begins with its first request and ends when all its requests have ended.
fn edges(log: &Log, phase: usize) -> Edges {
    let own = || log.records.iter().filter(|r| usize::from(r.phase) == phase);
    let start_ns = own().map(|r| r.start_ns).min().unwrap_or(0);
    let last_ns = own().map(|r| r.end_ns).max().unwrap_or(0);
    Edges { start_ns, end_ns: last_ns.max(start_ns + 1) }
}

/// Returns the maximum number of requests of a phase in flight at the same time, at least 1.
fn most_in_flight(records: &[ImportedRequest], phase: usize) -> usize {
    let own = records.iter().filter(|r| usize::from(r.phase) == phase);
    let mut events: Vec<(u64, i64)> = own.flat_map(|r| [(r.start_ns, 1), (r.end_ns, -1)]).collect();
    events.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, change) in events {
        now += change;
        most = most.max(now);
    }
    most.max(1) as usize
}

fn phase_run(log: &Log, number: usize) -> PhaseRun {
    let (name, step) = step_of(&log.phases[number]);
    let mut kinds: Vec<(OperationKind, u32)> = Vec::new();
    for record in log.records.iter().filter(|r| usize::from(r.phase) == number) {
        if kinds.iter().all(|(kind, _)| *kind != record.kind) {
            kinds.push((record.kind, 1));
        }
    }
    let mix = Mix::new(&kinds).or_else(|_| Mix::new(&[(OperationKind::Get, 1)]));
    let workload = Workload {
        seed: 0,
        phase: name.clone(),
        mix: mix.unwrap_or_else(|_| unreachable!("a mix of one get is valid")),
        read: None,
        written: Dataset::new(&name, 0, 1, Size::Fixed(0)),
        spare: None,
        copies: None,
        range: 0,
        popularity: Popularity::Uniform,
        inserts: None,
        scan: ScanLength::default(),
        sink: None,
        recording: None,
        written_in: None,
    };
    let role = match name.as_str() {
        "warmup" => Role::Warmup,
        stages::PREPARATION => Role::Prepare,
        _ => Role::Measure,
    };
    let phase = Phase {
        role,
        name,
        workload,
        load: Load::Closed { concurrency: most_in_flight(&log.records, number) },
        ramp: None,
        gaps: None,
        limit: Limit { duration_ns: None, operations: None },
        timeout_ns: 0,
        drain_ns: 0,
        retries: 0,
        verify: Verify::Off,
        think_time_ns: 0,
        read_after_ns: None,
        cache: None,
        working_set: None,
        size_classes: None,
        sweep: None,
    };
    PhaseRun { phase, store: 0, number, repeat: 0, block: 0, step, recorded: true }
}

/// Replays a log through the recorder, phase by phase: the window of a phase has its own requests alone.
pub fn replay(log: &Log) -> Imported {
    let mut out = Imported {
        phase_runs: (0..log.phases.len()).map(|p| phase_run(log, p)).collect(),
        states: Vec::new(),
        seconds: Vec::new(),
        operations: Vec::new(),
    };
    for phase in 0..log.phases.len() {
        replay_phase(log, phase, &mut out);
    }
    out
}

fn replay_phase(log: &Log, phase: usize, out: &mut Imported) {
    let edges = edges(log, phase);
    // The recorder counts an operation that ends at the end of a window as late, and the last one ends there.
    let mut recorder = WorkerRecorder::new(phase, vec![Edges { end_ns: u64::MAX, ..edges }], true);
    let mut state = WindowState { edges: Some(edges), finished: true, ..WindowState::default() };
    // Starts and ends in order of time. At the same instant, ends come before starts, as in a closed loop.
    let own = || log.records.iter().enumerate().filter(|(_, r)| usize::from(r.phase) == phase);
    let starts = own().map(|(i, r)| (r.start_ns, true, i));
    let ends = own().map(|(i, r)| (r.end_ns, false, i));
    let mut events: Vec<(u64, bool, usize)> = starts.chain(ends).collect();
    events.sort_unstable_by_key(|(at, starts, i)| (*at, *starts && log.records[*i].end_ns > *at, *i));
    let mut second = edges.start_ns / SECOND;
    let mut flush = |recorder: &mut WorkerRecorder, second: u64, until: u64| {
        for (_, kind, tally) in recorder.take(until) {
            state.tallies.entry(kind).or_default().merge(&tally);
            out.seconds.push((second, phase, kind, *tally));
        }
        out.operations.append(&mut recorder.take_log());
    };
    for (at, starts, i) in events {
        if at / SECOND != second {
            flush(&mut recorder, second, (second + 1) * SECOND);
            second = at / SECOND;
        }
        let record = &log.records[i];
        if starts {
            recorder.started(phase, record.kind, record.start_ns);
        } else {
            complete(&mut recorder, log, record, i as u64);
        }
    }
    flush(&mut recorder, second, edges.end_ns);
    out.states.push(state);
}

fn complete(recorder: &mut WorkerRecorder, log: &Log, record: &ImportedRequest, number: u64) {
    let class = record.error.map(|e| ErrorClass::Response(log.errors[usize::from(e)].clone()));
    // If the first byte is not known, the transfer is assumed to last for the whole operation.
    let body_first = if record.first_byte_ns > 0 { record.first_byte_ns } else { record.start_ns };
    let timings = Timings {
        start_ns: record.start_ns,
        first_byte_ns: record.first_byte_ns,
        body_first_ns: body_first,
        body_last_ns: record.end_ns,
        end_ns: record.end_ns,
        ..Timings::default()
    };
    recorder.completed(&Completed {
        slot: 0,
        announced_ns: timings.start_ns,
        phase: usize::from(record.phase),
        number,
        kind: record.kind,
        intended_ns: None,
        ready_ns: record.start_ns,
        timings,
        outcome: class.as_ref().map_or(OperationResult::Done(record.bytes), OperationResult::Failed),
        attempts: 1 + record.retries,
        retries: record.retries,
        cache: None,
        address: None,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_has_its_own_requests_and_window() {
        let record = |phase, start_s: u64, end_s: u64| ImportedRequest {
            phase,
            kind: OperationKind::GetRange,
            error: None,
            start_ns: start_s * SECOND,
            first_byte_ns: 0,
            end_ns: end_s * SECOND,
            bytes: 1000,
            retries: 2,
        };
        let log = Log {
            phases: vec!["warmup".into(), "ramp_1".into()],
            records: vec![record(0, 0, 4), record(0, 4, 12), record(1, 10, 20)],
            ..Log::default()
        };
        let imported = replay(&log);
        let tally = |i: usize| &imported.states[i].tallies[&OperationKind::GetRange];
        let window = |i: usize| imported.states[i].edges.map(|e| (e.start_ns / SECOND, e.end_ns / SECOND));
        assert_eq!(
            (window(0), window(1)),
            (Some((0, 12)), Some((10, 20))),
            "no time before or after the phase"
        );
        assert_eq!((tally(0).operations, tally(1).operations), (2, 1));
        assert_eq!((tally(0).completed, tally(1).completed), (2, 1), "the last end belongs to the window");
        assert_eq!((tally(0).attempts, tally(0).retries), (6, 4), "retries are preserved");
        assert_eq!((tally(0).bytes, tally(1).bytes), (2000.0, 1000.0));
        assert_eq!(
            (imported.phase_runs[1].phase.name.as_str(), imported.phase_runs[1].step),
            ("ramp", Some(0))
        );
        assert_eq!(imported.operations.len(), 3);
        let in_flight_s = tally(0).in_flight_ns / i128::from(SECOND);
        assert_eq!(in_flight_s, 12, "one request at a time for twelve seconds");
    }
}
