//! Lets the schedule loose on a store: workers, lanes, deadlines, drains. It counts nothing itself; the recorder does.
//!
//! A worker is an OS thread with its own runtime, its own lanes and its own recorder ([`worker`]). Within a worker, a
//! dispatcher hands out operations when they are due ([`dispatch`]) and one task per lane carries them out
//! ([`operation`]). Workers share one thing on the hot path: the counter that numbers the operations of a closed loop.

pub mod clean;
pub mod context;
pub mod dispatch;
pub mod operation;
pub mod slots;
pub mod worker;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::clock::{MILLISECOND, now_ns};
use crate::recorder::Edges;
use crate::recorder::collector::{Collector, Listener, Message, WindowState};
use crate::schedule::{Phase, Role, segments};
use crate::store::Store;
use crate::workload::payload::Block;

/// Why a run ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The machine refused a thread or a timer.
    #[error(
        "the system refused a thread, a timer or a descriptor: {0}; raise `ulimit -n` or lower --concurrency or --in-flight"
    )]
    System(#[from] io::Error),
    /// Objects that later phases need could not be written.
    #[error(
        "phase '{phase}' could not write its objects: {failed} operations failed, the first with {class}: {message}"
    )]
    Prepare {
        /// Name of the phase.
        phase: String,
        /// Number of failures.
        failed: u64,
        /// Class of the first.
        class: String,
        /// Message of the first.
        message: String,
    },
    /// A worker died of a defect in the instrument.
    #[error("a worker thread panicked; this is a defect, please report it")]
    Panic,
}

/// How a run is told to stop early; shared with the signal handler.
#[derive(Debug, Default)]
pub struct Control {
    stop_at_ns: AtomicU64,
}

impl Control {
    /// Ends the run now; what is recorded stays.
    pub fn stop(&self) {
        let _ = self.stop_at_ns.compare_exchange(0, now_ns(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// When the run was told to stop.
    pub fn stopped_at(&self) -> Option<u64> {
        Some(self.stop_at_ns.load(Ordering::Relaxed)).filter(|at| *at != 0)
    }
}

/// One store and what to do to it.
pub struct Job {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Phases in order.
    pub phases: Arc<[Phase]>,
    /// Prefix of all keys of this run, ending in `/`.
    pub root: String,
    /// Worker threads.
    pub workers: usize,
    /// Contents.
    pub block: Block,
    /// Whether each request carries its operation's number, for the injecting server's log.
    pub tag: bool,
}

/// Worker threads for these phases on a machine with `cores` cores: no more than there are cores, and never so many that a
/// worker's share of an in-flight limit becomes too small to act as one limit.
pub fn workers_for(phases: &[Phase], cores: usize) -> usize {
    let most =
        phases.iter().map(|p| if p.load.is_open() { p.load.lanes().div_ceil(64) } else { p.load.lanes() });
    most.min().unwrap_or(1).clamp(1, cores.max(1))
}

/// Runs all phases and returns their sums. `origin_ns` is second 0 of the interval log.
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
        let phases = job.phases.len();
        let workers = job.workers;
        let collecting = scope.spawn(move || {
            let mut watch = Watch { inner: listener, failures: Vec::new() };
            let windows = Collector::new(origin_ns, phases, workers, &mut watch).run(&receiver);
            (windows, watch.failures)
        });
        let outcome = drive(job, origin_ns, control, &sender);
        drop(sender);
        let (windows, failures) = collecting.join().map_err(|_| DriverError::Panic)?;
        outcome?;
        check_prepared(&job.phases, &windows, &failures)?;
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

    fn failure(&mut self, class: &str, message: &str) {
        self.failures.push((class.to_string(), message.to_string()));
        self.inner.failure(class, message);
    }
}

fn check_prepared(
    phases: &[Phase],
    windows: &[WindowState],
    failures: &[(String, String)],
) -> Result<(), DriverError> {
    for (phase, window) in phases.iter().zip(windows).filter(|(p, _)| p.role == Role::Prepare) {
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

/// One segment of phases, as sent to every worker.
#[derive(Clone)]
pub struct Segment {
    /// Number of the first phase.
    pub first: usize,
    /// Edges of the phases.
    pub edges: Vec<Edges>,
    /// Next operation number of each phase, for closed loops.
    pub counters: Arc<[AtomicU64]>,
}

/// What a worker says when it has done a segment.
pub struct SegmentDone {
    /// End of its last operation.
    pub last_end_ns: u64,
    /// A system error that kept it from working.
    pub error: Option<io::Error>,
    /// Operations that failed.
    pub failed: u64,
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
        };
        let thread = std::thread::Builder::new().name(format!("worker-{index}"));
        let thread = thread.spawn(move || worker.run(&inbox, &outbox))?;
        hands.push(Hand { orders: Some(orders), reports, thread: Some(thread) });
    }
    let mut result = Ok(());
    for range in segments(&job.phases) {
        if control.stopped_at().is_some() {
            break;
        }
        let prepare = job.phases[range.start].role == Role::Prepare;
        match run_segment(job, range, control, messages, &hands) {
            Ok(failed) if failed > 0 && prepare => break,
            Ok(_) => {}
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
    reports: Receiver<SegmentDone>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Time between the order and the first operation: enough for every worker to have taken the order.
const LEAD_NS: u64 = 10 * MILLISECOND;

/// Runs one segment on all workers; returns the number of failed operations.
fn run_segment(
    job: &Job,
    range: std::ops::Range<usize>,
    control: &Control,
    messages: &Sender<Message>,
    hands: &[Hand],
) -> Result<u64, DriverError> {
    let mut at = now_ns() + LEAD_NS;
    let mut edges = Vec::new();
    for phase in &job.phases[range.clone()] {
        // Where a number of operations ends the phase, its window ends with the last of them.
        let end_ns = match (phase.limit.operations, phase.limit.duration_ns) {
            (None, Some(duration)) => at + duration,
            _ => u64::MAX,
        };
        edges.push(Edges { start_ns: at, end_ns });
        at = end_ns;
    }
    let counters: Arc<[AtomicU64]> = range.clone().map(|_| AtomicU64::new(0)).collect();
    let segment = Segment { first: range.start, edges: edges.clone(), counters };
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
    if let [Edges { start_ns, end_ns: u64::MAX }] = edges[..] {
        let end_ns = control.stopped_at().unwrap_or(last_end_ns).max(start_ns + 1);
        let _ = messages.send(Message::End(range.start, Edges { start_ns, end_ns }));
    }
    Ok(failed)
}
