//! A worker: an OS thread with its runtime, its lanes and its recorder.

use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use tokio::sync::Notify;
use tokio::task::LocalSet;

use super::slots::Slots;
use super::{Control, Job, Segment, SegmentDone, dispatch, operation};
use crate::clock::{MILLISECOND, SECOND, Timer, now_ns};
use crate::recorder::Edges;
use crate::recorder::collector::Message;
use crate::recorder::worker::WorkerRecorder;
use crate::schedule::Phase;
use crate::store::Lane;
use crate::workload::Sequence;

/// What a worker thread needs.
pub struct Worker {
    /// Its number.
    pub index: usize,
    /// Second 0 of the interval log.
    pub origin_ns: u64,
    /// The work.
    pub job: Arc<Job>,
    /// How it is told to stop.
    pub control: Arc<Control>,
    /// To the collector.
    pub messages: Sender<Message>,
}

/// An operation that is due.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    /// Phase within the segment.
    pub phase: usize,
    /// Number of the operation within its phase.
    pub number: u64,
    /// When it was meant to begin; open loops only.
    pub intended_ns: Option<u64>,
    /// When the instrument could begin it.
    pub ready_ns: u64,
}

/// What the tasks of one worker share for one segment. They all run on one thread, so cells suffice.
pub struct Context {
    /// The worker.
    pub worker: Rc<Worker>,
    /// Phases of the segment.
    pub phases: Vec<Phase>,
    /// The order.
    pub segment: Segment,
    /// The recorder.
    pub recorder: RefCell<WorkerRecorder>,
    /// Lanes waiting for work, lanes at work.
    pub slots: Slots,
    /// Operations of open loops that are due and have no lane yet.
    pub backlog: RefCell<VecDeque<Task>>,
    /// The closed loop that lanes may draw from: phase within the segment.
    pub closed: Cell<Option<usize>>,
    /// Operations by number, one sequence per phase.
    pub sequences: RefCell<Vec<Sequence>>,
    /// Something changed that the dispatcher may be waiting for.
    pub changed: Notify,
    /// Whether the dispatcher waits for the lanes to finish.
    pub draining: Cell<bool>,
    /// End of the last operation.
    pub last_end_ns: Cell<u64>,
    /// Failed operations.
    pub failed: Cell<u64>,
    /// Classes of failures already told.
    pub told: RefCell<HashSet<String>>,
}

impl Context {
    /// Lanes that this worker contributes to a limit of `lanes`.
    pub fn share(&self, lanes: usize) -> usize {
        let (index, workers) = (self.worker.index, self.worker.job.workers);
        lanes / workers + usize::from(index < lanes % workers)
    }

    /// Edges of a phase of the segment, cut short by an interruption.
    pub fn edges(&self, phase: usize) -> Edges {
        let edges = self.segment.edges[phase];
        match self.worker.control.stopped_at() {
            Some(at) => Edges { end_ns: edges.end_ns.min(at.max(edges.start_ns)), ..edges },
            None => edges,
        }
    }

    /// Number of a phase within the run.
    pub fn number(&self, phase: usize) -> usize {
        self.segment.first + phase
    }

    /// Sends the collector what was counted.
    fn report(&self, until_ns: u64) {
        let placed = self.recorder.borrow_mut().take(now_ns());
        let worker = self.worker.index;
        let _ = self.worker.messages.send(Message::Counted { worker, until_ns, placed });
    }
}

impl Worker {
    /// Carries out segments until there are no more orders.
    pub fn run(self, orders: &Receiver<Segment>, reports: &Sender<SegmentDone>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let worker = Rc::new(self);
        let mut lanes: Vec<Box<dyn Lane>> = Vec::new();
        while let Ok(segment) = orders.recv() {
            let done = match &runtime {
                Ok(runtime) => LocalSet::new().block_on(runtime, run_segment(&worker, segment, &mut lanes)),
                Err(e) => Err(io::Error::new(e.kind(), e.to_string())),
            };
            let done = done.unwrap_or_else(|e| SegmentDone { last_end_ns: 0, failed: 0, error: Some(e) });
            if reports.send(done).is_err() {
                return;
            }
        }
        // Connections must go while their runtime is there.
        if let Ok(runtime) = &runtime {
            let _guard = runtime.enter();
            drop(lanes);
        }
    }
}

async fn run_segment(
    worker: &Rc<Worker>,
    segment: Segment,
    lanes: &mut Vec<Box<dyn Lane>>,
) -> io::Result<SegmentDone> {
    let job = &worker.job;
    let phases: Vec<Phase> = job.phases[segment.first..segment.first + segment.edges.len()].to_vec();
    let share = |lanes: usize| lanes / job.workers + usize::from(worker.index < lanes % job.workers);
    let count = phases.iter().map(|p| share(p.load.lanes())).max().unwrap_or(0);
    while lanes.len() < count {
        lanes.push(job.store.lane(worker.index + lanes.len() * job.workers));
    }
    let context = Rc::new(Context {
        worker: Rc::clone(worker),
        recorder: RefCell::new(WorkerRecorder::new(segment.first, segment.edges.clone())),
        slots: Slots::new(count),
        backlog: RefCell::default(),
        closed: Cell::new(None),
        sequences: RefCell::new(phases.iter().map(|p| p.workload.sequence()).collect()),
        changed: Notify::new(),
        draining: Cell::new(false),
        last_end_ns: Cell::new(0),
        failed: Cell::new(0),
        told: RefCell::default(),
        phases,
        segment,
    });
    let mut tasks = Vec::new();
    for (id, lane) in lanes.drain(..count).enumerate() {
        tasks.push(tokio::task::spawn_local(operation::lane_loop(Rc::clone(&context), id, lane)));
    }
    let ticking = tokio::task::spawn_local(tick(Rc::clone(&context)));
    let dispatched = dispatch::dispatch(&context).await;
    context.slots.stop();
    for (id, task) in tasks.into_iter().enumerate() {
        match task.await {
            Ok(lane) => lanes.insert(id, lane),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    ticking.abort();
    if let Some(at) = worker.control.stopped_at() {
        context.recorder.borrow_mut().truncate(at);
    }
    context.report(now_ns());
    dispatched?;
    Ok(SegmentDone { last_end_ns: context.last_end_ns.get(), failed: context.failed.get(), error: None })
}

/// Deadlines and interruptions are looked after at this interval, or a twentieth of the shortest deadline.
const TICK_NS: u64 = 50 * MILLISECOND;

/// Looks after what is not worth a timer of its own: deadlines, interruptions, the report of each second.
async fn tick(context: Rc<Context>) -> io::Result<()> {
    let mut timer = Timer::new()?;
    let shortest = context.phases.iter().map(|p| p.timeout_ns / 20).min().unwrap_or(TICK_NS);
    let step = shortest.clamp(MILLISECOND, TICK_NS);
    let origin = context.worker.origin_ns;
    let mut report_at = origin + (now_ns().saturating_sub(origin) / SECOND + 1) * SECOND;
    let mut next = now_ns() + step;
    loop {
        timer.until(next.min(report_at)).await?;
        let now = now_ns();
        if now >= next {
            context.slots.expire(now);
            if context.worker.control.stopped_at().is_some() {
                context.changed.notify_one();
            }
            next = now + step;
        }
        if now >= report_at {
            context.report(report_at);
            report_at += SECOND;
        }
    }
}
