//! Sends the segments of a job to its workers, one after another, and collects their counts.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::context;
use super::control::Control;
use super::error::DriverError;
use super::job::Job;
use super::segment::{Segment, SegmentReport};
use crate::clock::{MILLISECOND, now_ns, process_cpu_ns};
use crate::recorder::Edges;
use crate::recorder::collector::{Collector, Listener, Message, WindowState};
use crate::recorder::log::Logged;
use crate::schedule::Role;
use crate::schedule::plan::{PhaseRun, segments};

/// Runs all phase runs and returns their sums. `origin_ns` is second 0 of the interval log.
///
/// # Errors
/// See [`DriverError`]; the sums so far have reached the listener.
pub fn run(
    job: &Arc<Job>,
    origin_ns: u64,
    control: &Arc<Control>,
    listener: &mut (dyn Listener + Send),
) -> Result<Vec<WindowState>, DriverError> {
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        let phase_runs = job.phase_runs.len();
        let workers = job.workers;
        let collecting = scope.spawn(move || {
            let mut watch = Watch { inner: listener, failures: Vec::new() };
            let windows = Collector::new(origin_ns, phase_runs, workers, &mut watch).run(&receiver);
            (windows, watch.failures)
        });
        let outcome = drive(job, origin_ns, control, &sender);
        drop(sender);
        let (windows, failures) = collecting.join().map_err(|_| DriverError::Panic)?;
        outcome?;
        check_prepared(&job.phase_runs, &windows, &failures)?;
        Ok(windows)
    })
}

/// Keeps the first failures for error messages while passing everything on.
struct Watch<'a> {
    inner: &'a mut (dyn Listener + Send),
    failures: Vec<(String, String)>,
}

impl Listener for Watch<'_> {
    fn second(&mut self, row: &crate::recorder::collector::SecondRow<'_>) {
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

    fn logged(&mut self, operations: &[Logged]) {
        self.inner.logged(operations);
    }

    fn failure(&mut self, class: &str, message: &str) {
        self.failures.push((class.to_string(), message.to_string()));
        self.inner.failure(class, message);
    }
}

fn check_prepared(
    phase_runs: &[PhaseRun],
    windows: &[WindowState],
    failures: &[(String, String)],
) -> Result<(), DriverError> {
    let phases = phase_runs.iter().map(|s| &s.phase);
    for (phase, window) in phases.zip(windows).filter(|(p, _)| p.role == Role::Prepare) {
        let failed: u64 = window.tallies.values().map(crate::recorder::tally::Tally::failures).sum();
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

fn drive(
    job: &Arc<Job>,
    origin_ns: u64,
    control: &Arc<Control>,
    messages: &Sender<Message>,
) -> Result<(), DriverError> {
    let mut hands = Vec::new();
    for index in 0..job.workers {
        let (orders, inbox) = channel();
        let (outbox, reports) = channel();
        let worker = context::Worker {
            index,
            origin_ns,
            job: Arc::clone(job),
            control: Arc::clone(control),
            messages: messages.clone(),
            numbers: std::cell::RefCell::default(),
        };
        let thread = std::thread::Builder::new().name(format!("worker-{index}"));
        let thread = thread.spawn(move || worker.run(&inbox, &outbox))?;
        hands.push(Hand { orders: Some(orders), reports, thread: Some(thread) });
    }
    let mut result = Ok(());
    let mut counters = Counters::default();
    let (mut measuring, mut planned_ns) = (false, None);
    for range in segments(&job.phase_runs) {
        if control.stopped_at().is_some() {
            break;
        }
        let first = &job.phase_runs[range.start];
        if first.may_end_early() && control.cut_at(first.ramp_id()).is_some() {
            continue;
        }
        let prepare = first.phase.role == Role::Prepare;
        if !measuring && !prepare {
            measuring = true;
            if let Some(prepared) = &job.prepared {
                prepared();
            }
            planned_ns = job.start_at_ns;
            if control.stopped_at().is_some() {
                break;
            }
        }
        match run_segment(job, range, planned_ns, control, messages, &hands, &mut counters) {
            Ok(done) if done.failed > 0 && prepare => break,
            Ok(done) => planned_ns = done.next_ns.filter(|_| measuring && job.start_at_ns.is_some()),
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    for hand in &mut hands {
        drop(hand.orders.take());
        if let Some(thread) = hand.thread.take()
            && thread.join().is_err()
        {
            result = Err(DriverError::Panic);
        }
    }
    result
}

/// A worker as the driver holds it.
struct Hand {
    orders: Option<Sender<Segment>>,
    reports: Receiver<SegmentReport>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Time between the order and the first operation: enough for every worker to have taken the order.
const LEAD_NS: u64 = 10 * MILLISECOND;

/// With a timetable, time between two stretches for the first to be drained.
const TIMETABLE_GAP_NS: u64 = 1_000 * MILLISECOND;

/// Operation counters by store and phase.
type Counters = HashMap<(usize, usize), Arc<AtomicU64>>;

/// A segment is over.
struct SegmentEnd {
    failed: u64,
    /// When the next one begins, where a timetable can say so.
    next_ns: Option<u64>,
}

/// Lays out one segment from `at` on.
fn lay_out(job: &Job, range: std::ops::Range<usize>, mut at: u64, counters: &mut Counters) -> Segment {
    let phase_runs = &job.phase_runs[range.clone()];
    let mut segment = Segment {
        first: range.start,
        store: phase_runs[0].store,
        edges: Vec::new(),
        counters: Vec::new(),
        limits: Vec::new(),
    };
    for phase_run in phase_runs {
        let limit = phase_run.phase.limit;
        // Where a number of operations ends the phase, its window ends with the last of them.
        let end_ns = match (limit.operations, limit.duration_ns) {
            (None, Some(duration)) => at + duration,
            _ => u64::MAX,
        };
        segment.edges.push(Edges { start_ns: at, end_ns });
        at = end_ns;
        let counter = counters.entry((phase_run.store, phase_run.number)).or_default();
        let first = job.shard.of * counter.load(Ordering::Relaxed);
        segment.limits.push(limit.operations.map(|operations| first + operations));
        segment.counters.push(Arc::clone(counter));
    }
    segment
}

/// Runs one segment on all workers.
fn run_segment(
    job: &Job,
    range: std::ops::Range<usize>,
    planned_ns: Option<u64>,
    control: &Control,
    messages: &Sender<Message>,
    hands: &[Hand],
    counters: &mut Counters,
) -> Result<SegmentEnd, DriverError> {
    let at = planned_ns.unwrap_or(0).max(now_ns() + LEAD_NS);
    let segment = lay_out(job, range.clone(), at, counters);
    for hand in hands {
        let sent = hand.orders.as_ref().map(|orders| orders.send(segment.clone()));
        if !matches!(sent, Some(Ok(()))) {
            return Err(DriverError::Panic);
        }
    }
    let (mut last_end_ns, mut failed) = (0, 0);
    let mut error = None;
    for hand in hands {
        let done = hand.reports.recv().map_err(|_| DriverError::Panic)?;
        last_end_ns = last_end_ns.max(done.last_end_ns);
        failed += done.failed;
        error = error.or(done.error);
    }
    if let Some(error) = error {
        return Err(error.into());
    }
    if let [Edges { start_ns, end_ns: u64::MAX }] = segment.edges[..] {
        let end_ns = control.stopped_at().unwrap_or(last_end_ns).max(start_ns + 1);
        let _ = messages.send(Message::End(range.start, Edges { start_ns, end_ns }, process_cpu_ns()));
    }
    for (counter, limit) in segment.counters.iter().zip(&segment.limits) {
        // Connection slots that found the limit reached have counted beyond it; a repeat goes on at the limit.
        if let Some(limit) = limit {
            let most = limit.saturating_sub(job.shard.index).div_ceil(job.shard.of);
            counter.fetch_min(most, Ordering::Relaxed);
        }
    }
    let _ = messages.send(Message::Closed(range));
    let ended = segment.edges.last().map(|e| e.end_ns).filter(|end| *end != u64::MAX);
    Ok(SegmentEnd { failed, next_ns: ended.map(|end| end + TIMETABLE_GAP_NS) })
}
