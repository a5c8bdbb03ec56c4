//! Sums the tallies of all workers by second, and passes the sums to a listener during the run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::Edges;
use super::histogram::Latencies;
use super::log::LogRecord;
use super::tally::Tally;
use super::worker::PlacedTally;
use plimsoll_base::clock::SECOND;
use plimsoll_base::clock::wall::ClockStep;
use plimsoll_base::machine::Sample;
use plimsoll_base::machine::pauses::{Pause, PauseLog};
use plimsoll_workload::OperationKind;

/// Resources of the machine that the client used during a phase.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// CPU time of the whole process, in nanoseconds.
    pub process_cpu_ns: u64,
    /// CPU time of the busiest worker thread, in nanoseconds.
    pub busiest_worker_ns: u64,
    /// Share of CPU time that the hypervisor gave to other machines (0 to 1); `None` if unknown.
    pub steal: Option<f64>,
    /// Busiest network interface of known speed: its name and the used share of its speed (0 to 1).
    pub link: Option<(String, f64)>,
    /// Pauses of the client that overlap the phase.
    pub pauses: Vec<Pause>,
    /// Steps of the wall clock during the phase.
    pub clock_steps: Vec<ClockStep>,
    /// Times by which sleeping threads woke up too late during the phase.
    pub wake_up_delay: Latencies,
}

/// Message of a worker or the driver to the collector.
pub enum Message {
    /// Start of a phase, whose end may not be known yet: phase number, edges, and the CPU time of the process
    /// so far in nanoseconds.
    Begin(usize, Edges, u64),
    /// End of a phase.
    End {
        /// Number of the phase run.
        phase_run: usize,
        /// Final edges of its window.
        edges: Edges,
        /// Length of the window if its edges do not tell; see [`WindowState::length_ns`].
        length_ns: Option<u64>,
        /// CPU time of the process so far, in nanoseconds.
        cpu_ns: u64,
    },
    /// Tallies of one worker up to `until_ns`.
    Counted {
        /// Number of the worker.
        worker: usize,
        /// End of the interval on the monotonic clock, in nanoseconds.
        until_ns: u64,
        /// Tallies with their phase and kind of operation.
        placed: Vec<PlacedTally>,
    },
    /// Range of phase runs for which no more messages follow.
    Closed(std::ops::Range<usize>),
    /// Records of single operations, if the run logs them.
    LogRecord(Vec<LogRecord>),
    /// Phase number, and the CPU time in nanoseconds that a worker's thread used during that phase.
    Used(usize, u64),
    /// Class and message of a failure; only the first of each class is sent.
    Failure(String, String),
}

/// Sums of one phase.
#[derive(Debug, Clone, Default)]
pub struct WindowState {
    /// Edges of its window; `None` before it begins.
    pub edges: Option<Edges>,
    /// Mean time for which the connection slots of a closed loop executed its operations, in nanoseconds. `None` if the
    /// window is as long as the time between its edges.
    pub length_ns: Option<u64>,
    /// True if the phase has ended.
    pub finished: bool,
    /// Tallies by kind of operation.
    pub tallies: BTreeMap<OperationKind, Tally>,
    /// Resources that the client used.
    pub usage: Usage,
}

/// Complete counts of one second of one phase and operation.
pub struct SecondRow<'a> {
    /// Seconds since the run began.
    pub second: u64,
    /// Number of the phase run.
    pub phase: usize,
    /// Kind of operation.
    pub kind: OperationKind,
    /// Counts of this second.
    pub tally: &'a Tally,
}

/// Receiver of the sums.
pub trait Listener {
    /// Receives one complete second.
    fn second(&mut self, row: &SecondRow<'_>);

    /// Receives all sums so far, about once a second.
    fn snapshot(&mut self, windows: &[WindowState]);

    /// Receives the final sums.
    fn finished(&mut self, windows: &[WindowState]) {
        self.snapshot(windows);
    }

    /// Receives the final sums of one phase run. If it returns true, the collector drops the tallies, so that
    /// memory does not grow with the number of phase runs.
    fn closed(&mut self, phase_run: usize, window: &WindowState) -> bool {
        let _ = (phase_run, window);
        false
    }

    /// Receives records of single operations, if the run logs them.
    fn logged(&mut self, operations: &[LogRecord]) {
        let _ = operations;
    }

    /// Receives the first failure of a class.
    fn failure(&mut self, class: &str, message: &str);
}

/// Collector of the sums of a run.
pub struct Collector<'a> {
    origin_ns: u64,
    workers: usize,
    windows: Vec<WindowState>,
    samples: Vec<Option<Sample>>,
    begin_cpu_ns: Vec<u64>,
    pending: BTreeMap<u64, BTreeMap<(usize, OperationKind), Tally>>,
    reported_ns: Vec<u64>,
    pauses: Arc<PauseLog>,
    /// Number of the phase run whose wake-up delays are being recorded.
    current: usize,
    listener: &'a mut dyn Listener,
}

impl<'a> Collector<'a> {
    /// Creates a collector for `phases` phase runs by `workers` workers, starting at `origin_ns` on the
    /// monotonic clock.
    pub fn new(
        origin_ns: u64,
        phases: usize,
        workers: usize,
        pauses: Arc<PauseLog>,
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
            pauses,
            current: 0,
            listener,
        }
    }

    /// Collects until all senders have disconnected. Returns the sums.
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
                self.record_wake_ups();
                self.current = phase;
                self.windows[phase].edges = Some(edges);
                self.begin_cpu_ns[phase] = cpu_ns;
                self.samples[phase] = Some(Sample::take());
            }
            Message::End { phase_run, edges, length_ns, cpu_ns } => {
                self.windows[phase_run].length_ns = length_ns;
                self.end(phase_run, edges, cpu_ns);
            }
            Message::LogRecord(operations) => self.listener.logged(&operations),
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

    /// Adds the wake-up delays since the last call to the current phase run.
    fn record_wake_ups(&mut self) {
        let Some(window) = self.windows.get_mut(self.current) else { return };
        for us in self.pauses.take_overshoots() {
            window.usage.wake_up_delay.record(u64::from(us) * 1_000);
        }
    }

    fn end(&mut self, phase: usize, edges: Edges, cpu_ns: u64) {
        self.record_wake_ups();
        let window = &mut self.windows[phase];
        window.edges = Some(edges);
        window.finished = true;
        if let Some(begin) = self.samples[phase].take() {
            let used = begin.until(&Sample::take());
            // The sender measured the CPU time, because this thread may process its messages late.
            window.usage.process_cpu_ns = cpu_ns.saturating_sub(self.begin_cpu_ns[phase]);
            window.usage.steal = used.steal;
            window.usage.pauses = self.pauses.within(edges.start_ns, edges.end_ns);
            window.usage.clock_steps = self.pauses.steps_within(edges.start_ns, edges.end_ns);
            window.usage.link = used.link;
        }
    }

    fn counted(&mut self, worker: usize, until_ns: u64, placed: Vec<PlacedTally>) {
        self.record_wake_ups();
        // The interval ends exactly at the end of a second, so its last nanosecond determines the second.
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

    /// Passes the seconds before `complete` to the listener. Returns true if there were any.
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
