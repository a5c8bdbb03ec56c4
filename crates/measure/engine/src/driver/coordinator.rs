//! Starts the workers of a job, sends them its segments one after another, and collects their tallies.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::context;
use super::control::Control;
use super::error::DriverError;
use super::job::Job;
use super::segment::{Segment, SegmentReport};
use super::writers::Writers;
use plimsoll_base::clock::{MILLISECOND, now_ns, process_cpu_ns};
use plimsoll_base::machine::pauses::{PauseLog, PauseWatch};
use plimsoll_recorder::Edges;
use plimsoll_recorder::collector::{Collector, Listener, Message, WindowState};
use plimsoll_recorder::log::LogRecord;
use plimsoll_workload::schedule::plan::{PhaseRun, segments};
use plimsoll_workload::schedule::{Load, Role};

/// Executes all phase runs of a job and returns their sums. `origin_ns` is the origin of the interval log, in
/// nanoseconds on the monotonic clock.
///
/// # Errors
/// Returns a [`DriverError`] if the system refuses a resource, an operation of a `prepare` phase fails, or a
/// thread panics. The listener has received the sums up to that point.
pub fn run(
    job: &Arc<Job>,
    origin_ns: u64,
    control: &Arc<Control>,
    listener: &mut (dyn Listener + Send),
) -> Result<Vec<WindowState>, DriverError> {
    let (sender, receiver) = channel();
    let watch = PauseWatch::start(job.workers);
    std::thread::scope(|scope| {
        let phase_runs = job.phase_runs.len();
        let workers = job.workers;
        let pauses = watch.log();
        let collecting = scope.spawn(move || {
            let mut capture = FailureCapture { inner: listener, failures: Vec::new() };
            let windows = Collector::new(origin_ns, phase_runs, workers, pauses, &mut capture).run(&receiver);
            (windows, capture.failures)
        });
        let result = drive(job, origin_ns, control, &watch.log(), &sender);
        drop(sender);
        let (windows, failures) = collecting.join().map_err(|_| DriverError::Panic)?;
        result?;
        check_prepared(&job.phase_runs, &windows, &failures)?;
        Ok(windows)
    })
}

/// A listener that forwards everything to another listener and keeps the class and message of each reported
/// failure.
struct FailureCapture<'a> {
    inner: &'a mut (dyn Listener + Send),
    failures: Vec<(String, String)>,
}

impl Listener for FailureCapture<'_> {
    fn second(&mut self, row: &plimsoll_recorder::collector::SecondRow<'_>) {
        self.inner.second(row);
    }

    fn snapshot(&mut self, windows: &[WindowState]) {
        self.inner.snapshot(windows);
    }

    fn finished(&mut self, windows: &[WindowState]) {
        self.inner.finished(windows);
    }

    fn closed(&mut self, phase_run: usize, window: &WindowState) -> bool {
        self.inner.closed(phase_run, window)
    }

    fn logged(&mut self, operations: &[LogRecord]) {
        self.inner.logged(operations);
    }

    fn failure(&mut self, class: &str, message: &str) {
        self.failures.push((class.to_string(), message.to_string()));
        self.inner.failure(class, message);
    }
}

/// Checks that all operations of the `prepare` phases succeeded.
///
/// # Errors
/// Returns [`DriverError::Prepare`] for the first phase with a failure.
fn check_prepared(
    phase_runs: &[PhaseRun],
    windows: &[WindowState],
    failures: &[(String, String)],
) -> Result<(), DriverError> {
    let phases = phase_runs.iter().map(|s| &s.phase);
    for (phase, window) in phases.zip(windows).filter(|(p, _)| p.role == Role::Prepare) {
        let failed: u64 = window.tallies.values().map(plimsoll_recorder::tally::Tally::failures).sum();
        let class = window.tallies.values().flat_map(|t| t.errors.keys()).next();
        if let Some(class) = class {
            let message =
                failures.iter().find(|(c, _)| c == class).map(|(_, m)| m.clone()).unwrap_or_default();
            return Err(DriverError::Prepare {
                phase: phase.name.clone(),
                failed,
                class: class.clone(),
                message,
            });
        }
    }
    Ok(())
}

/// Starts the workers, executes the segments one after another, and waits until the workers have exited.
/// Stops after a `prepare` segment with a failed operation, and skips the remaining steps of ramps that a
/// rule has ended.
///
/// # Errors
/// Returns [`DriverError::System`] if a thread cannot be created or a worker reports a system error, and
/// [`DriverError::Panic`] if a worker panicked.
fn drive(
    job: &Arc<Job>,
    origin_ns: u64,
    control: &Arc<Control>,
    pauses: &Arc<PauseLog>,
    messages: &Sender<Message>,
) -> Result<(), DriverError> {
    let mut handles = Vec::new();
    for index in 0..job.workers {
        let (segment_sender, segment_receiver) = channel();
        let (report_sender, report_receiver) = channel();
        let worker = context::Worker {
            index,
            origin_ns,
            job: Arc::clone(job),
            control: Arc::clone(control),
            pauses: Arc::clone(pauses),
            messages: messages.clone(),
            numbers: std::cell::RefCell::default(),
        };
        let thread = std::thread::Builder::new().name(format!("worker-{index}"));
        let thread = thread.spawn(move || worker.run(&segment_receiver, &report_sender))?;
        handles.push(WorkerHandle {
            segments: Some(segment_sender),
            reports: report_receiver,
            thread: Some(thread),
        });
    }
    let mut result = Ok(());
    let mut counters = Counters::default();
    let (mut measuring, mut planned_ns) = (false, None);
    for range in segments(&job.phase_runs) {
        if control.stopped_at().is_some() {
            break;
        }
        let first = &job.phase_runs[range.start];
        if first.may_end_early() && control.ramp_ended_at(first.ramp_id()).is_some() {
            continue;
        }
        let prepare = first.phase.role == Role::Prepare;
        if !measuring && !prepare {
            measuring = true;
            planned_ns = job.prepared.as_ref().map(|prepared| prepared());
            if control.stopped_at().is_some() {
                break;
            }
        }
        let begins_ns = match first.phase.read_after_ns {
            Some(delay_ns) => Some(now_ns().max(planned_ns.unwrap_or(0)) + delay_ns),
            None => planned_ns,
        };
        match run_segment(job, range, begins_ns, control, messages, &handles, &mut counters) {
            Ok(segment) if segment.failed > 0 && prepare => break,
            Ok(segment) => planned_ns = segment.next_ns.filter(|_| measuring && job.prepared.is_some()),
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    for handle in &mut handles {
        drop(handle.segments.take());
        if let Some(thread) = handle.thread.take()
            && thread.join().is_err()
        {
            result = Err(DriverError::Panic);
        }
    }
    result
}

/// The coordinator's channels to a worker, and the worker's thread.
struct WorkerHandle {
    segments: Option<Sender<Segment>>,
    reports: Receiver<SegmentReport>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Time between sending a segment and its start, long enough for every worker to receive the segment.
const LEAD_NS: u64 = 10 * MILLISECOND;

/// Time between two segments whose starts are planned ([`Job::prepared`]), in which the first one can
/// drain.
const PLANNED_GAP_NS: u64 = 1_000 * MILLISECOND;

/// Counters and writes that the segments of a job share.
#[derive(Default)]
struct Counters {
    /// Operation counters by store and phase.
    operations: HashMap<(usize, usize), Arc<AtomicU64>>,
    writers: Arc<Writers>,
}

/// Result of a segment.
struct SegmentResult {
    /// Number of failed operations.
    failed: u64,
    /// Planned start of the next segment, in nanoseconds on the monotonic clock; `None` if the end of this
    /// segment was not known in advance.
    next_ns: Option<u64>,
}

/// Builds the segment for a range of phase runs. The first one starts at `at`, in nanoseconds on the
/// monotonic clock. A closed loop ends with its last operation, and a limit of operations is reached at a time that is
/// not yet known.
fn build_segment(job: &Job, range: std::ops::Range<usize>, mut at: u64, counters: &mut Counters) -> Segment {
    let phase_runs = &job.phase_runs[range.clone()];
    let mut segment = Segment {
        first: range.start,
        store: phase_runs[0].store,
        edges: Vec::new(),
        counters: Vec::new(),
        writers: Arc::clone(&counters.writers),
        limits: Vec::new(),
    };
    for phase_run in phase_runs {
        let limit = phase_run.phase.limit;
        let end_ns = match (limit.operations, limit.duration_ns) {
            (None, Some(duration)) if phase_run.phase.load.is_open() => at + duration,
            _ => u64::MAX,
        };
        segment.edges.push(Edges { start_ns: at, end_ns });
        at = end_ns;
        let counter = counters.operations.entry((phase_run.store, phase_run.number)).or_default();
        let first = job.shard.of * counter.load(Ordering::Relaxed);
        segment.limits.push(limit.operations.map(|operations| first + operations));
        segment.counters.push(Arc::clone(counter));
    }
    segment
}

/// Executes one segment on all workers.
///
/// # Errors
/// Returns [`DriverError::System`] if a worker reports a system error, and [`DriverError::Panic`] if a worker
/// has exited.
fn run_segment(
    job: &Job,
    range: std::ops::Range<usize>,
    planned_ns: Option<u64>,
    control: &Control,
    messages: &Sender<Message>,
    handles: &[WorkerHandle],
    counters: &mut Counters,
) -> Result<SegmentResult, DriverError> {
    let at = planned_ns.unwrap_or(0).max(now_ns() + LEAD_NS);
    let segment = build_segment(job, range.clone(), at, counters);
    for handle in handles {
        let sent = handle.segments.as_ref().map(|sender| sender.send(segment.clone()));
        if !matches!(sent, Some(Ok(()))) {
            return Err(DriverError::Panic);
        }
    }
    let (mut last_end_ns, mut busy_ns, mut failed) = (0, 0, 0);
    let mut error = None;
    for handle in handles {
        let report = handle.reports.recv().map_err(|_| DriverError::Panic)?;
        last_end_ns = last_end_ns.max(report.last_end_ns);
        busy_ns += report.busy_ns;
        failed += report.failed;
        error = error.or(report.error);
    }
    if let Some(error) = error {
        return Err(error.into());
    }
    let phase = &job.phase_runs[range.start].phase;
    if let [Edges { start_ns, end_ns: u64::MAX }] = segment.edges[..] {
        let stopped_at = control.stopped_at().filter(|_| phase.load.is_open());
        let edges = Edges { start_ns, end_ns: stopped_at.unwrap_or(last_end_ns).max(start_ns + 1) };
        let length_ns = mean_slot_time(job, &segment, range.start, busy_ns);
        let cpu_ns = process_cpu_ns();
        let _ = messages.send(Message::End { phase_run: range.start, edges, length_ns, cpu_ns });
    }
    for (counter, limit) in segment.counters.iter().zip(&segment.limits) {
        // Connection slots that found the limit reached have raised the counter above it. A repeat must
        // continue at the limit.
        if let Some(limit) = limit {
            let count = limit.saturating_sub(job.shard.index).div_ceil(job.shard.of);
            counter.fetch_min(count, Ordering::Relaxed);
        }
    }
    let _ = messages.send(Message::Closed(range));
    let end_ns = match (segment.edges.last(), phase.limit.operations, phase.limit.duration_ns) {
        (Some(Edges { start_ns, end_ns: u64::MAX }), None, Some(duration)) => Some(start_ns + duration),
        (edges, ..) => edges.map(|edges| edges.end_ns).filter(|end_ns| *end_ns != u64::MAX),
    };
    Ok(SegmentResult { failed, next_ns: end_ns.map(|end_ns| end_ns + PLANNED_GAP_NS) })
}

/// Returns the mean time for which the connection slots of a closed loop executed its operations, in nanoseconds. Each
/// slot executes whole operations from the start until its first end after the duration of the phase, so the number of
/// operations over this time is the rate, whatever their latency is (Wald's equation); an edge that cuts operations
/// would count too many or too few. `None` for an open loop, and for a loop that ended because all operations of its
/// limit were taken: it lasts until the last one ends.
fn mean_slot_time(job: &Job, segment: &Segment, phase_run: usize, busy_ns: u64) -> Option<u64> {
    let Load::Closed { concurrency } = job.phase_runs[phase_run].phase.load else { return None };
    let next = job.shard.index + job.shard.of * segment.counters[0].load(Ordering::Relaxed);
    if segment.limits[0].is_some_and(|limit| next >= limit) {
        return None;
    }
    Some((busy_ns / job.shard.share(concurrency).max(1) as u64).max(1))
}
