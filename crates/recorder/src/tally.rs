//! Counts and histograms of one kind of operation in one window; tallies can be summed.

use std::collections::BTreeMap;

use super::histogram::Latencies;
use crate::cache_status::CacheStatus;

/// Counts of one window and operation, or of one second of it.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Operations that belong to the phase (by intended time, or actual start in a closed loop).
    pub operations: u64,
    /// Successful operations among `operations`.
    pub succeeded: u64,
    /// Operations intended inside the window; open loops only.
    pub intended: u64,
    /// Operations started inside the window, in any phase.
    pub begun: u64,
    /// Successful operations that ended inside the window, of any phase.
    pub completed: u64,
    /// Requests sent for the phase's operations.
    pub attempts: u64,
    /// Requests sent again after a failure.
    pub retries: u64,
    /// Successful operations whose arrival times the kernel took.
    pub by_kernel: u64,
    /// Object bytes delivered inside the window, prorated over each operation's body transfer.
    pub bytes: f64,
    /// Operations without a known response time: never started, timed out or undrained.
    pub censored: u64,
    /// Number of connections opened.
    pub connections: u64,
    /// Requests sent again because the store had closed their connection.
    pub reconnects: u64,
    /// Failed operations by class.
    pub errors: BTreeMap<String, u64>,
    /// Successful compare-and-swaps by connection slot.
    pub commits: BTreeMap<usize, u64>,
    /// Sum of the operations' overlaps with the window, in nanoseconds.
    pub overlap_ns: u128,
    /// Integral of the in-flight counter over the window, in operation-nanoseconds.
    pub in_flight_ns: i128,
    /// Latest end of an operation, on the monotonic clock.
    pub last_end_ns: u64,
    /// Service times of successful operations.
    pub service: Latencies,
    /// Service times of failed operations.
    pub failed: Latencies,
    /// Response times of successful operations; open loops only.
    pub response: Latencies,
    /// Times waited for censored operations, timed-out ones included; open loops only.
    pub censored_waits: Latencies,
    /// Times from start to first byte of the response.
    pub first_byte: Latencies,
    /// Times from first to last byte of the content.
    pub body: Latencies,
    /// Durations of TCP handshakes.
    pub connect: Latencies,
    /// Durations of TLS handshakes.
    pub tls: Latencies,
    /// Start lags: times from the earliest possible to the actual start.
    pub start_lag: Latencies,
    /// Durations of single attempts, if the phase retries.
    pub attempt: Latencies,
    /// Times from the arrival of the last byte of a successful operation until the client read it.
    pub client_delay: Latencies,
    /// Service times of the successful operations that overlap a pause of the client.
    pub paused_service: Latencies,
    /// Response times of these operations; open loops only.
    pub paused_response: Latencies,
    /// Service times of successful operations by cache status.
    pub cache: BTreeMap<CacheStatus, Latencies>,
}

impl Tally {
    /// Adds another tally to this one, exactly.
    pub fn merge(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.succeeded += other.succeeded;
        self.intended += other.intended;
        self.begun += other.begun;
        self.completed += other.completed;
        self.attempts += other.attempts;
        self.retries += other.retries;
        self.bytes += other.bytes;
        self.by_kernel += other.by_kernel;
        self.censored += other.censored;
        self.connections += other.connections;
        self.reconnects += other.reconnects;
        for (class, n) in &other.errors {
            *self.errors.entry(class.clone()).or_default() += n;
        }
        for (slot, n) in &other.commits {
            *self.commits.entry(*slot).or_default() += n;
        }
        self.overlap_ns += other.overlap_ns;
        self.in_flight_ns += other.in_flight_ns;
        self.last_end_ns = self.last_end_ns.max(other.last_end_ns);
        for (status, latencies) in &other.cache {
            self.cache.entry(*status).or_default().merge(latencies);
        }
        for (sum, added) in self.histograms_mut().into_iter().zip(other.histograms()) {
            sum.merge(added);
        }
    }

    fn histograms(&self) -> [&Latencies; 13] {
        [
            &self.service,
            &self.failed,
            &self.response,
            &self.censored_waits,
            &self.first_byte,
            &self.body,
            &self.connect,
            &self.tls,
            &self.start_lag,
            &self.attempt,
            &self.client_delay,
            &self.paused_service,
            &self.paused_response,
        ]
    }

    fn histograms_mut(&mut self) -> [&mut Latencies; 13] {
        [
            &mut self.service,
            &mut self.failed,
            &mut self.response,
            &mut self.censored_waits,
            &mut self.first_byte,
            &mut self.body,
            &mut self.connect,
            &mut self.tls,
            &mut self.start_lag,
            &mut self.attempt,
            &mut self.client_delay,
            &mut self.paused_service,
            &mut self.paused_response,
        ]
    }

    /// Returns the number of failed operations of all classes.
    pub fn failures(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Returns true if nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.operations == 0
            && self.begun == 0
            && self.completed == 0
            && self.intended == 0
            && self.overlap_ns == 0
            && self.in_flight_ns == 0
            && self.bytes == 0.0
            && self.paused_service.is_empty()
    }
}
