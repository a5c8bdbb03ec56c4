//! State that the tasks of one worker share: the dispatcher and the connection slots.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use tokio::sync::Notify;

use super::never_started::NeverStartedOperations;
use super::segment::Segment;
use super::slots::Slots;
use super::{Control, Job};
use plimsoll_base::clock::now_ns;
use plimsoll_base::machine::pauses::PauseLog;
use plimsoll_recorder::Edges;
use plimsoll_recorder::collector::Message;
use plimsoll_recorder::worker::WorkerRecorder;
use plimsoll_workload::Sequence;
use plimsoll_workload::schedule::Phase;
use plimsoll_workload::schedule::plan::PhaseRun;

/// State that a worker thread keeps from segment to segment.
pub struct Worker {
    /// Number of the worker, from 0.
    pub index: usize,
    /// Origin of the interval log, in nanoseconds on the monotonic clock.
    pub origin_ns: u64,
    /// Stores and phase runs of the run.
    pub job: Arc<Job>,
    /// State through which other threads stop the run.
    pub control: Arc<Control>,
    /// Pauses of the client.
    pub pauses: Arc<PauseLog>,
    /// Sender of messages to the collector.
    pub messages: Sender<Message>,
    /// Next operation number of each open loop, by store and phase. Each block continues the numbers of the
    /// previous one.
    pub numbers: RefCell<HashMap<(usize, usize), u64>>,
}

impl Worker {
    /// Returns the number of connection slots that this worker contributes to a limit of `slots` for all
    /// workers of all shards.
    pub fn share(&self, slots: usize) -> usize {
        let here = self.job.shard.share(slots);
        here / self.job.workers + usize::from(self.index < here % self.job.workers)
    }
}

/// An operation that is due.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    /// Index of the phase run in the segment.
    pub phase: usize,
    /// Number of the operation within its phase.
    pub number: u64,
    /// Intended start, in nanoseconds on the monotonic clock; open loops only.
    pub intended_ns: Option<u64>,
    /// Earliest possible start on the monotonic clock, in nanoseconds: the operation was due and a connection
    /// slot was free.
    pub ready_ns: u64,
}

/// Operations that the dispatcher offers to the connection slots of a worker.
#[derive(Default)]
pub struct Offer {
    /// Operations of open loops that are due and wait for a connection slot.
    pub backlog: RefCell<VecDeque<Task>>,
    /// Operations of open loops that were due before their phase ended but did not reach the backlog in time.
    pub never_started: RefCell<Vec<NeverStartedOperations>>,
    /// Index in the segment of the closed loop from which connection slots take operations; `None` while none
    /// is active.
    pub closed_loop: Cell<Option<usize>>,
    /// Notification of a change for which the dispatcher may be waiting.
    pub changed: Notify,
    /// True if the dispatcher waits for the connection slots to finish.
    pub draining: Cell<bool>,
}

/// Results of the operations of a worker in a segment.
#[derive(Default)]
pub struct Progress {
    /// End of the last operation, in nanoseconds on the monotonic clock; 0 before the first.
    pub last_end_ns: Cell<u64>,
    /// True if the kernel took the arrival times of the last response.
    pub kernel_clock: Cell<bool>,
    /// Number of failed operations.
    pub failed: Cell<u64>,
    /// Error classes of which a failure has been sent to the collector.
    pub reported_classes: RefCell<HashSet<String>>,
}

/// State that the tasks of one worker share during one segment. They all run on one thread, so cells suffice.
pub struct Context {
    /// State that the worker keeps from segment to segment.
    pub worker: Rc<Worker>,
    /// Phase runs of the segment.
    pub phase_runs: Vec<PhaseRun>,
    /// Segment to execute.
    pub segment: Segment,
    /// Recorder of the worker's operations.
    pub recorder: RefCell<WorkerRecorder>,
    /// Connection slots of the worker, waiting and working.
    pub slots: Slots,
    /// Operations that are offered to the connection slots.
    pub offer: Offer,
    /// Operations by number, one sequence per phase run.
    pub sequences: RefCell<Vec<Sequence>>,
    /// True if every operation of the segment is one request with a small response; see [`super::nap`].
    pub naps_possible: bool,
    /// Results of the operations so far.
    pub progress: Progress,
}

impl Context {
    /// Returns the phase of phase run `index` of the segment.
    pub fn phase(&self, index: usize) -> &Phase {
        &self.phase_runs[index].phase
    }

    /// Returns the number of connection slots that this worker contributes to a limit of `slots`.
    pub fn share(&self, slots: usize) -> usize {
        self.worker.share(slots)
    }

    /// Returns the time at which phase run `phase` of the segment was ended early, by an interruption or by
    /// the rule that ends its ramp, in nanoseconds on the monotonic clock. `None` if it was not ended early.
    pub fn ended_at(&self, phase: usize) -> Option<u64> {
        let phase_run = &self.phase_runs[phase];
        let cut = if phase_run.may_end_early() {
            self.worker.control.ramp_ended_at(phase_run.ramp_id())
        } else {
            None
        };
        match (self.worker.control.stopped_at(), cut) {
            (Some(stopped), Some(cut)) => Some(stopped.min(cut)),
            (stopped, cut) => stopped.or(cut),
        }
    }

    /// Returns the edges of phase run `phase` of the segment. If it was ended early, its window ends at that
    /// time at the latest.
    pub fn edges(&self, phase: usize) -> Edges {
        let edges = self.segment.edges[phase];
        match self.ended_at(phase) {
            Some(at) => Edges { end_ns: edges.end_ns.min(at.max(edges.start_ns)), ..edges },
            None => edges,
        }
    }

    /// Converts the index of a phase run in the segment to its number in the job.
    pub fn number(&self, phase: usize) -> usize {
        self.segment.first + phase
    }

    /// Sends the logged operations to the collector.
    pub fn report_log(&self) {
        let logged = self.recorder.borrow_mut().take_log();
        if !logged.is_empty() {
            let _ = self.worker.messages.send(Message::LogRecord(logged));
        }
    }

    /// Sends the logged operations and the tallies to the collector. `until_ns` is the end of the reported
    /// interval.
    pub fn report(&self, until_ns: u64) {
        let placed = self.recorder.borrow_mut().take(now_ns());
        let worker = self.worker.index;
        self.report_log();
        let _ = self.worker.messages.send(Message::Counted { worker, until_ns, placed });
    }
}
