//! What the tasks of one worker share, and the operation that is due: the ground that dispatcher and lanes both stand on.

use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use tokio::sync::Notify;

use super::slots::Slots;
use super::{Control, Job, Segment};
use crate::clock::now_ns;
use crate::recorder::Edges;
use crate::recorder::collector::Message;
use crate::recorder::worker::WorkerRecorder;
use crate::schedule::Phase;
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
    pub fn report(&self, until_ns: u64) {
        let placed = self.recorder.borrow_mut().take(now_ns());
        let worker = self.worker.index;
        let _ = self.worker.messages.send(Message::Counted { worker, until_ns, placed });
    }
}
