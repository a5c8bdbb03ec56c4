//! What the tasks of one worker share, and the operation that is due: the ground that dispatcher and connection slots both stand on.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use tokio::sync::Notify;

use super::dispatch::Rest;
use super::segment::Segment;
use super::slots::Slots;
use super::{Control, Job};
use crate::clock::now_ns;
use crate::recorder::Edges;
use crate::recorder::collector::Message;
use crate::recorder::worker::WorkerRecorder;
use crate::schedule::Phase;
use crate::schedule::plan::PhaseRun;
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
    /// The next operation number of each open loop, by store and phase: blocks go on where the one before ended.
    pub numbers: RefCell<HashMap<(usize, usize), u64>>,
}

impl Worker {
    /// Connection slots that this worker contributes to a limit of `slots` for all workers of all shards.
    pub fn share(&self, slots: usize) -> usize {
        let here = self.job.shard.share(slots);
        here / self.job.workers + usize::from(self.index < here % self.job.workers)
    }
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
    /// Stints of the segment.
    pub phase_runs: Vec<PhaseRun>,
    /// The order.
    pub segment: Segment,
    /// The recorder.
    pub recorder: RefCell<WorkerRecorder>,
    /// Connection slots waiting for work, connection slots at work.
    pub slots: Slots,
    /// Operations of open loops that are due and have no connection slot yet.
    pub backlog: RefCell<VecDeque<Task>>,
    /// Operations of open loops that could not be handed out before their phase ended.
    pub rest: RefCell<Vec<Rest>>,
    /// The closed loop that connection slots may draw from: phase within the segment.
    pub closed: Cell<Option<usize>>,
    /// Operations by number, one sequence per phase.
    pub sequences: RefCell<Vec<Sequence>>,
    /// Something changed that the dispatcher may be waiting for.
    pub changed: Notify,
    /// Whether the dispatcher waits for the connection slots to finish.
    pub draining: Cell<bool>,
    /// End of the last operation.
    pub last_end_ns: Cell<u64>,
    /// Failed operations.
    pub failed: Cell<u64>,
    /// Classes of failures already told.
    pub told: RefCell<HashSet<String>>,
}

impl Context {
    /// The phase of a phase run of the segment.
    pub fn phase(&self, index: usize) -> &Phase {
        &self.phase_runs[index].phase
    }

    /// Connection slots that this worker contributes to a limit of `slots`.
    pub fn share(&self, slots: usize) -> usize {
        self.worker.share(slots)
    }

    /// When a phase of the segment was ended before its time: by an interruption, or by the rule that ends its ramp.
    pub fn ended_at(&self, phase: usize) -> Option<u64> {
        let phase_run = &self.phase_runs[phase];
        let cut =
            if phase_run.may_end_early() { self.worker.control.cut_at(phase_run.ramp_id()) } else { None };
        match (self.worker.control.stopped_at(), cut) {
            (Some(stopped), Some(cut)) => Some(stopped.min(cut)),
            (stopped, cut) => stopped.or(cut),
        }
    }

    /// Edges of a phase of the segment, cut short where it was ended before its time.
    pub fn edges(&self, phase: usize) -> Edges {
        let edges = self.segment.edges[phase];
        match self.ended_at(phase) {
            Some(at) => Edges { end_ns: edges.end_ns.min(at.max(edges.start_ns)), ..edges },
            None => edges,
        }
    }

    /// Number of a phase within the run.
    pub fn number(&self, phase: usize) -> usize {
        self.segment.first + phase
    }

    /// Sends the collector what was logged of single operations.
    pub fn report_log(&self) {
        let logged = self.recorder.borrow_mut().take_log();
        if !logged.is_empty() {
            let _ = self.worker.messages.send(Message::Logged(logged));
        }
    }

    /// Sends the collector what was counted.
    pub fn report(&self, until_ns: u64) {
        let placed = self.recorder.borrow_mut().take(now_ns());
        let worker = self.worker.index;
        self.report_log();
        let _ = self.worker.messages.send(Message::Counted { worker, until_ns, placed });
    }
}
