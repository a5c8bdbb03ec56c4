//! Adds up what the workers hand over, second by second, and passes the sums on as the run goes.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::Edges;
use super::log::Logged;
use super::tally::Tally;
use super::worker::Placed;
use crate::clock::SECOND;
use crate::machine::Sample;
use crate::workload::OperationKind;

/// What the client used of its machine while a phase lasted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    /// CPU time of the whole process, in nanoseconds.
    pub process_cpu_ns: u64,
    /// CPU time of the busiest worker thread, in nanoseconds.
    pub busiest_worker_ns: u64,
    /// Share of CPU time that the hypervisor gave to others, 0 to 1; `None` where it is not told.
    pub steal: Option<f64>,
    /// Busiest network interface of known speed: name and the share of its speed that was used.
    pub link: Option<(String, f64)>,
}

/// What workers and driver send.
pub enum Message {
    /// A phase begins; its end may not be known yet. With the CPU time of the process by then, in nanoseconds.
    Begin(usize, Edges, u64),
    /// The end of a phase is known. With the CPU time of the process by then.
    End(usize, Edges, u64),
    /// What one worker counted up to `until_ns`.
    Counted {
        /// Which worker.
        worker: usize,
        /// End of the interval.
        until_ns: u64,
        /// The tallies.
        placed: Vec<Placed>,
    },
    /// Nothing more comes for these phase runs.
    Closed(std::ops::Range<usize>),
    /// Single operations, where the run logs them.
    Logged(Vec<Logged>),
    /// CPU time in nanoseconds that a worker's thread used during a phase.
    Used(usize, u64),
    /// A failure worth telling a person: class and message; only the first of each class is sent.
    Failure(String, String),
}

/// One phase's sums.
#[derive(Debug, Clone, Default)]
pub struct WindowState {
    /// Its edges, once it began.
    pub edges: Option<Edges>,
    /// Whether its end was reached.
    pub finished: bool,
    /// Tallies by operation.
    pub tallies: BTreeMap<OperationKind, Tally>,
    /// What the client used.
    pub usage: Usage,
}

/// One second of one phase and operation, complete.
pub struct SecondRow<'a> {
    /// Seconds since the run began.
    pub second: u64,
    /// Number of the phase.
    pub phase: usize,
    /// Kind of operation.
    pub kind: OperationKind,
    /// What was counted.
    pub tally: &'a Tally,
}

/// Who wants to know.
pub trait Listener {
    /// A second is complete.
    fn second(&mut self, row: &SecondRow<'_>);

    /// All sums as they stand, about once a second.
    fn snapshot(&mut self, windows: &[WindowState]);

    /// All sums, for the last time.
    fn finished(&mut self, windows: &[WindowState]) {
        self.snapshot(windows);
    }

    /// A phase run is over and all of it is in `window`. Whoever returns true has taken what it needs; the sums are then dropped, so
    /// that memory does not grow with the number of phase runs.
    fn closed(&mut self, phase_run: usize, window: &WindowState) -> bool {
        let _ = (phase_run, window);
        false
    }

    /// Single operations, where the run logs them.
    fn logged(&mut self, operations: &[Logged]) {
        let _ = operations;
    }

    /// The first failure of a class.
    fn failure(&mut self, class: &str, message: &str);
}

/// The sums of a run.
pub struct Collector<'a> {
    origin_ns: u64,
    workers: usize,
    windows: Vec<WindowState>,
    samples: Vec<Option<Sample>>,
    begin_cpu_ns: Vec<u64>,
    pending: BTreeMap<u64, BTreeMap<(usize, OperationKind), Tally>>,
    reported_ns: Vec<u64>,
    listener: &'a mut dyn Listener,
}

impl<'a> Collector<'a> {
    /// A collector for `phases` phases run by `workers` workers from `origin_ns` on.
    pub fn new(
        origin_ns: u64,
        phases: usize,
        workers: usize,
        listener: &'a mut dyn Listener,
    ) -> Collector<'a> {
        Collector {
            origin_ns,
            workers,
            windows: vec![WindowState::default(); phases],
            samples: vec![None; phases],
            begin_cpu_ns: vec![0; phases],
            pending: BTreeMap::new(),
            reported_ns: vec![0; workers],
            listener,
        }
    }

    /// Collects until all senders are gone; returns the sums.
    pub fn run(mut self, messages: &Receiver<Message>) -> Vec<WindowState> {
        loop {
            match messages.recv_timeout(Duration::from_secs(1)) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => self.listener.snapshot(&self.windows),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.flush(u64::MAX);
        self.listener.finished(&self.windows);
        self.windows
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Begin(phase, edges, cpu_ns) => {
                self.windows[phase].edges = Some(edges);
                self.begin_cpu_ns[phase] = cpu_ns;
                self.samples[phase] = Some(Sample::take());
            }
            Message::End(phase, edges, cpu_ns) => self.end(phase, edges, cpu_ns),
            Message::Logged(operations) => self.listener.logged(&operations),
            Message::Closed(range) => {
                for phase_run in range {
                    if self.listener.closed(phase_run, &self.windows[phase_run]) {
                        self.windows[phase_run].tallies.clear();
                    }
                }
            }
            Message::Used(phase, cpu_ns) => {
                let usage = &mut self.windows[phase].usage;
                usage.busiest_worker_ns = usage.busiest_worker_ns.max(cpu_ns);
            }
            Message::Failure(class, message) => self.listener.failure(&class, &message),
            Message::Counted { worker, until_ns, placed } => self.counted(worker, until_ns, placed),
        }
    }

    fn end(&mut self, phase: usize, edges: Edges, cpu_ns: u64) {
        let window = &mut self.windows[phase];
        window.edges = Some(edges);
        window.finished = true;
        if let Some(begin) = self.samples[phase].take() {
            let used = begin.until(&Sample::take());
            // Taken by who sent it: this thread may come to its messages late.
            window.usage.process_cpu_ns = cpu_ns.saturating_sub(self.begin_cpu_ns[phase]);
            window.usage.steal = used.steal;
            window.usage.link = used.link;
        }
    }

    fn counted(&mut self, worker: usize, until_ns: u64, placed: Vec<Placed>) {
        // The interval ends with its second, so its last nanosecond names it.
        let second = until_ns.saturating_sub(self.origin_ns + 1) / SECOND;
        for (phase, kind, tally) in placed {
            self.windows[phase].tallies.entry(kind).or_default().merge(&tally);
            self.pending.entry(second).or_default().entry((phase, kind)).or_default().merge(&tally);
        }
        self.reported_ns[worker] = until_ns;
        let slowest = self.reported_ns.iter().take(self.workers).min().copied().unwrap_or(0);
        let complete = slowest.saturating_sub(self.origin_ns) / SECOND;
        if self.flush(complete) {
            self.listener.snapshot(&self.windows);
        }
    }

    /// Passes on the seconds before `complete`.
    fn flush(&mut self, complete: u64) -> bool {
        let mut any = false;
        while let Some(entry) = self.pending.first_entry().filter(|e| *e.key() < complete) {
            let (second, rows) = entry.remove_entry();
            for ((phase, kind), tally) in &rows {
                self.listener.second(&SecondRow { second, phase: *phase, kind: *kind, tally });
            }
            any = true;
        }
        any
    }
}
