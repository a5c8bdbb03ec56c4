//! Recorder of one worker: plain additions to memory that it owns, sent to the collector once a second.

use std::sync::Arc;

use super::latency::Latency;
use super::log::{LONG, LogRecord, LoggedResult};
use super::part::WindowPart;
use super::paused::{PausedOperations, Recent};
use super::tally::Tally;
use super::{Completed, Edges, OperationResult};
use plimsoll_base::machine::pauses::PauseLog;
use plimsoll_workload::OperationKind;
use plimsoll_workload::size_classes::SizeClasses;

const KINDS: usize = OperationKind::ALL.len();

/// Number of operations in flight, and the time up to which it has been integrated.
#[derive(Debug, Clone, Copy, Default)]
struct InFlightIntegral {
    in_flight: i64,
    at_ns: u64,
}

/// Number of operations of the phase before that ended in a window, less the late operations of the window's own phase
/// that were counted instead. A window cuts operations at both edges: its first ones belong to the phase before, and
/// its last ones end after it. A steady load has as many of both, so that the count is the rate. A lighter phase has
/// fewer late operations, and does not count the rest.
#[derive(Debug, Clone, Copy, Default)]
struct CarriedOver {
    operations: u64,
    /// True after the first end of an operation of the phase.
    has_begun: bool,
}

/// Recorder of one worker for one stretch of consecutive phase runs.
pub struct WorkerRecorder {
    /// Number of the first phase run.
    first: usize,
    edges: Vec<Edges>,
    tallies: Vec<Option<Box<Tally>>>,
    in_flight_integrals: [InFlightIntegral; KINDS],
    carried_over: Vec<CarriedOver>,
    log: Option<Vec<LogRecord>>,
    paused: Option<PausedOperations>,
    /// Size classes of each phase run; `None` for one that does not distinguish sizes.
    size_classes: Vec<Option<SizeClasses>>,
}

/// A tally with its phase number and kind of operation.
pub type PlacedTally = (usize, OperationKind, Box<Tally>);

impl WorkerRecorder {
    /// Creates a recorder for the phase runs from `first` on, with these edges, in order and without gaps.
    /// `log` enables the operation log.
    pub fn new(first: usize, edges: Vec<Edges>, log: bool) -> WorkerRecorder {
        let start = edges.first().map_or(0, |e| e.start_ns);
        let in_flight_integrals = [InFlightIntegral { in_flight: 0, at_ns: start }; KINDS];
        let tallies = (0..edges.len() * KINDS).map(|_| None).collect();
        let carried_over = vec![CarriedOver::default(); edges.len() * KINDS];
        let size_classes = vec![None; edges.len()];
        let log = log.then(Vec::new);
        let paused = None;
        WorkerRecorder { first, edges, tallies, in_flight_integrals, carried_over, log, paused, size_classes }
    }

    /// Makes the recorder distinguish the sizes of objects, by the classes of each phase run.
    pub fn with_size_classes(self, size_classes: Vec<Option<SizeClasses>>) -> WorkerRecorder {
        WorkerRecorder { size_classes, ..self }
    }

    /// Makes the recorder find the operations that overlap a pause.
    pub fn with_pauses(self, pauses: Arc<PauseLog>) -> WorkerRecorder {
        WorkerRecorder { paused: Some(PausedOperations::new(pauses)), ..self }
    }

    fn tally(&mut self, window: usize, kind: OperationKind) -> &mut Tally {
        self.tallies[window * KINDS + kind.index()].get_or_insert_default()
    }

    /// Advances the in-flight integral of a kind to `now`. Time stamps arrive slightly out of order (an end is
    /// taken at the socket, a start in the task), so a step may be negative; the sum is the same.
    fn advance(&mut self, kind: OperationKind, now: u64) {
        let InFlightIntegral { in_flight, at_ns } = self.in_flight_integrals[kind.index()];
        self.in_flight_integrals[kind.index()].at_ns = now;
        if in_flight == 0 || now == at_ns {
            return;
        }
        let (from, to, sign) = if now > at_ns { (at_ns, now, 1) } else { (now, at_ns, -1) };
        for window in 0..self.edges.len() {
            let shared = self.edges[window].overlap(from, to);
            if shared > 0 {
                self.tally(window, kind).in_flight_ns += i128::from(sign * in_flight) * i128::from(shared);
            }
        }
    }

    /// Corrects the in-flight integral of an operation that was announced at `from` and started at `to`.
    fn postpone(&mut self, kind: OperationKind, from: u64, to: u64) {
        for window in 0..self.edges.len() {
            let shared = self.edges[window].overlap(from, to);
            if shared > 0 {
                self.tally(window, kind).in_flight_ns -= i128::from(shared);
            }
        }
    }

    fn window_of(&self, at: u64) -> Option<usize> {
        self.edges.iter().position(|e| e.contains(at))
    }

    /// Records that an operation was intended inside its phase's window (open loops).
    pub fn intended(&mut self, phase: usize, kind: OperationKind) {
        let window = phase - self.first;
        self.tally(window, kind).intended += 1;
    }

    /// Records the start of an operation of phase run `phase`.
    pub fn started(&mut self, phase: usize, kind: OperationKind, at_ns: u64) {
        self.advance(kind, at_ns);
        self.in_flight_integrals[kind.index()].in_flight += 1;
        let own = phase - self.first;
        if self.edges[own].contains(at_ns) {
            self.tally(own, kind).begun += 1;
        }
    }

    /// Records the end of an operation.
    pub fn completed(&mut self, op: &Completed<'_>) {
        let (start, end) = (op.timings.start_ns, op.timings.end_ns.max(op.timings.start_ns));
        self.advance(op.kind, end);
        self.postpone(op.kind, op.announced_ns, start);
        self.in_flight_integrals[op.kind.index()].in_flight -= 1;
        let own = op.phase - self.first;
        for window in own..self.edges.len() {
            if self.edges[window].start_ns >= end.max(start + 1) {
                break;
            }
            let shared = self.edges[window].overlap(start, end);
            if shared > 0 {
                self.tally(window, op.kind).overlap_ns += u128::from(shared);
            }
        }
        if let OperationResult::Done(bytes) = op.outcome {
            self.ended(own, op.kind, end, bytes);
        }
        self.count(op, own, start, end);
        if let (Some(paused), OperationResult::Done(_)) = (&mut self.paused, op.outcome) {
            let tally = own * KINDS + op.kind.index();
            let recent = Recent { tally, intended_ns: op.intended_ns, start_ns: start, end_ns: end };
            if paused.push(recent) {
                self.settle_pauses(false);
            }
        }
        if let Some(log) = &mut self.log {
            let (bytes, ended) = match op.outcome {
                OperationResult::Done(bytes) => (bytes, LoggedResult::Ok),
                OperationResult::Failed(class) => (0, LoggedResult::Failed(class.to_string().into())),
                OperationResult::Undrained => (0, LoggedResult::Undrained),
            };
            log.push(LogRecord {
                phase_run: op.phase,
                number: op.number,
                kind: op.kind,
                intended_ns: op.intended_ns,
                start_ns: start,
                first_byte_ns: op.timings.first_byte_ns,
                end_ns: end,
                client_delay_ns: u64::from(op.timings.client_delay_us) * 1_000,
                bytes,
                attempts: op.attempts,
                ended,
            });
        }
    }

    /// Counts the end of a successful operation of window `own` with `bytes` of an object.
    fn ended(&mut self, own: usize, kind: OperationKind, end: u64, bytes: u64) {
        let at = own * KINDS + kind.index();
        let is_inside = end < self.edges[own].end_ns;
        if is_inside && !std::mem::replace(&mut self.carried_over[at].has_begun, true) {
            // A window without a phase before it began empty. It is treated as if what it had in flight at the first
            // end had been in flight at its start.
            let in_flight = self.in_flight_integrals[kind.index()].in_flight.max(0) as u64;
            let carried = &mut self.carried_over[at].operations;
            *carried = if *carried == 0 { in_flight } else { *carried };
        }
        if !is_inside {
            if let Some(later) = self.window_of(end) {
                self.carried_over[later * KINDS + kind.index()].operations += 1;
            }
            let carried = &mut self.carried_over[at].operations;
            if *carried == 0 {
                return;
            }
            *carried -= 1;
        }
        let tally = self.tally(own, kind);
        tally.completed += 1;
        tally.bytes += bytes as f64;
    }

    /// Returns true if the operation log is long enough to be sent before the end of the second.
    pub fn log_is_long(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.len() > LONG)
    }

    /// Counts the operations that overlap a pause, among those whose pauses are known, or among all if `all` is true.
    pub fn settle_pauses(&mut self, all: bool) {
        let found = self.paused.as_mut().map(|paused| paused.take(all)).unwrap_or_default();
        for operation in found {
            let tally = self.tallies[operation.tally].get_or_insert_default();
            tally.latencies[Latency::PausedService].record(operation.end_ns - operation.start_ns);
            if let Some(intended) = operation.intended_ns {
                tally.latencies[Latency::PausedResponse].record(operation.end_ns.saturating_sub(intended));
            }
        }
    }

    /// Takes the records logged since the last call.
    pub fn take_log(&mut self) -> Vec<LogRecord> {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the part of an operation by the size of its object; `None` if its phase does not distinguish sizes.
    fn size_part(&self, op: &Completed<'_>, own: usize) -> Option<WindowPart> {
        let classes = self.size_classes[own].as_ref()?;
        match (op.outcome, op.kind) {
            (
                OperationResult::Done(bytes),
                OperationKind::Get | OperationKind::Put | OperationKind::Update,
            ) => Some(WindowPart::Size(classes.from_of(bytes))),
            _ => None,
        }
    }

    /// Records the figures that belong to the operation's own phase, even if it ends after that phase.
    fn count(&mut self, op: &Completed<'_>, own: usize, start: u64, end: u64) {
        let t = &op.timings;
        let size = self.size_part(op, own);
        let tally = self.tally(own, op.kind);
        tally.operations += 1;
        tally.attempts += u64::from(op.attempts);
        tally.retries += u64::from(op.retries);
        tally.connections += u64::from(t.connections);
        tally.reconnects += u64::from(t.reconnects);
        tally.last_end_ns = tally.last_end_ns.max(end);
        tally.latencies[Latency::StartLag].record(start.saturating_sub(op.ready_ns));
        if t.connections > 0 && t.connect_ns > 0 {
            tally.latencies[Latency::Connect].record(t.connect_ns);
        }
        if t.tls_ns > 0 {
            tally.latencies[Latency::Tls].record(t.tls_ns);
        }
        let response = op.intended_ns.map(|intended| end.saturating_sub(intended));
        match op.outcome {
            OperationResult::Done(bytes) => {
                tally.succeeded += 1;
                if op.kind == OperationKind::CompareAndSwap {
                    *tally.commits.entry(op.slot).or_default() += 1;
                }
                tally.latencies[Latency::Service].record(end - start);
                tally.latencies[Latency::ClientDelay].record(u64::from(t.client_delay_us) * 1_000);
                tally.by_kernel += u64::from(t.by_kernel);
                if t.first_byte_ns > start {
                    tally.latencies[Latency::FirstByte].record(t.first_byte_ns - start);
                }
                // A small body may arrive with the response head, in zero time. It still counts as a body.
                if bytes > 0 && t.body_first_ns > 0 {
                    tally.latencies[Latency::Body].record(t.body_last_ns.saturating_sub(t.body_first_ns));
                }
                let parts = [op.cache.map(WindowPart::Cache), op.address.map(WindowPart::Address), size];
                for part in parts.into_iter().flatten() {
                    tally.parts.entry(part).or_default().record(end - start);
                }
                if let Some(response) = response {
                    tally.latencies[Latency::Response].record(response);
                }
            }
            OperationResult::Failed(class) => {
                tally.latencies[Latency::Failed].record(end - start);
                *tally.errors.entry(class.to_string()).or_default() += 1;
                if let Some(address) = op.address {
                    *tally.failed_at.entry(address).or_default() += 1;
                }
                if let (Some(response), crate::ErrorClass::Timeout) = (response, class) {
                    tally.censored += 1;
                    tally.latencies[Latency::CensoredWait].record(response);
                }
            }
            OperationResult::Undrained => {
                tally.censored += 1;
                if let Some(response) = response {
                    tally.latencies[Latency::CensoredWait].record(response);
                }
            }
        }
    }

    /// Records the duration of one attempt, if the phase retries, and the number of the address at which it failed.
    pub fn attempted(&mut self, phase: usize, kind: OperationKind, took_ns: u64, failed_at: Option<u16>) {
        let tally = self.tally(phase - self.first, kind);
        tally.latencies[Latency::Attempt].record(took_ns);
        if let Some(address) = failed_at {
            *tally.failed_attempts_at.entry(address).or_default() += 1;
        }
    }

    /// Records an operation that was intended and never started. It had waited since `intended_ns` when the
    /// phase stopped waiting at `now_ns`.
    pub fn never_started(
        &mut self,
        phase: usize,
        number: u64,
        kind: OperationKind,
        intended_ns: u64,
        now_ns: u64,
    ) {
        if let Some(log) = &mut self.log {
            log.push(LogRecord {
                phase_run: phase,
                number,
                kind,
                intended_ns: Some(intended_ns),
                start_ns: 0,
                first_byte_ns: 0,
                end_ns: now_ns,
                client_delay_ns: 0,
                bytes: 0,
                attempts: 0,
                ended: LoggedResult::NeverStarted,
            });
        }
        let tally = self.tally(phase - self.first, kind);
        tally.operations += 1;
        tally.censored += 1;
        tally.latencies[Latency::CensoredWait].record(now_ns.saturating_sub(intended_ns));
    }

    /// Ends all windows at `at_ns` at the latest, after an interruption.
    pub fn truncate(&mut self, at_ns: u64) {
        for edges in &mut self.edges {
            edges.end_ns = edges.end_ns.min(at_ns.max(edges.start_ns));
        }
    }

    /// Takes the tallies counted since the last call.
    pub fn take(&mut self, now_ns: u64) -> Vec<PlacedTally> {
        self.settle_pauses(false);
        for kind in OperationKind::ALL {
            self.advance(kind, now_ns);
        }
        let mut out = Vec::new();
        for window in 0..self.edges.len() {
            for kind in OperationKind::ALL {
                if let Some(tally) =
                    self.tallies[window * KINDS + kind.index()].take().filter(|t| !t.is_empty())
                {
                    out.push((self.first + window, kind, tally));
                }
            }
        }
        out
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
