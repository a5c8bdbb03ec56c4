//! Everything that is counted of one kind of operation in one window: a sum that can be added to another.

use std::collections::BTreeMap;

use super::histogram::Latencies;
use crate::store::web::cache::CacheStatus;

/// The counts of one window and operation, or of one second of it.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Operations that belong to the phase (by intended time, or start in a closed loop).
    pub operations: u64,
    /// Of those, answered well.
    pub succeeded: u64,
    /// Operations intended inside the window; open loops only.
    pub intended: u64,
    /// Operations begun inside the window, whatever phase they belong to.
    pub begun: u64,
    /// Operations answered well inside the window, whatever phase they belong to.
    pub completed: u64,
    /// Requests made for the phase's operations.
    pub attempts: u64,
    /// Of those, the ones that were made again after a failure.
    pub retries: u64,
    /// Object bytes delivered inside the window, prorated over each operation's body transfer.
    pub bytes: f64,
    /// Operations without a known response time: never begun, timed out or undrained.
    pub censored: u64,
    /// Connections made.
    pub connections: u64,
    /// Requests sent again because their connection had been closed.
    pub reconnects: u64,
    /// Failures by class.
    pub errors: BTreeMap<String, u64>,
    /// Sum over operations of their overlap with the window, in nanoseconds.
    pub overlap_ns: u128,
    /// Integral of the in-flight counter over the window, in operation-nanoseconds.
    pub in_flight_ns: i128,
    /// End of the operation that ended last, on the monotonic clock.
    pub last_end_ns: u64,
    /// Service times of successes.
    pub service: Latencies,
    /// Service times of failures.
    pub failed: Latencies,
    /// Response times of successes; open loops only.
    pub response: Latencies,
    /// Observed waits of censored operations and of timed-out ones; open loops only.
    pub censored_waits: Latencies,
    /// First byte of the answer since start.
    pub first_byte: Latencies,
    /// Last byte of the content since its first.
    pub body: Latencies,
    /// TCP handshakes.
    pub connect: Latencies,
    /// TLS handshakes.
    pub tls: Latencies,
    /// Start since the instrument could have started.
    pub start_lag: Latencies,
    /// Single attempts, where the phase retries.
    pub attempt: Latencies,
    /// Service times of successes by what a cache says of them.
    pub cache: BTreeMap<CacheStatus, Latencies>,
}

impl Tally {
    /// Adds another tally.
    pub fn merge(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.succeeded += other.succeeded;
        self.intended += other.intended;
        self.begun += other.begun;
        self.completed += other.completed;
        self.attempts += other.attempts;
        self.retries += other.retries;
        self.bytes += other.bytes;
        self.censored += other.censored;
        self.connections += other.connections;
        self.reconnects += other.reconnects;
        for (class, n) in &other.errors {
            *self.errors.entry(class.clone()).or_default() += n;
        }
        self.overlap_ns += other.overlap_ns;
        self.in_flight_ns += other.in_flight_ns;
        self.last_end_ns = self.last_end_ns.max(other.last_end_ns);
        for (status, latencies) in &other.cache {
            self.cache.entry(*status).or_default().merge(latencies);
        }
        for (mine, theirs) in self.histograms_mut().into_iter().zip(other.histograms()) {
            mine.merge(theirs);
        }
    }

    fn histograms(&self) -> [&Latencies; 10] {
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
        ]
    }

    fn histograms_mut(&mut self) -> [&mut Latencies; 10] {
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
        ]
    }

    /// Failures of all classes.
    pub fn failures(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Whether anything at all was counted.
    pub fn is_empty(&self) -> bool {
        self.operations == 0
            && self.begun == 0
            && self.completed == 0
            && self.intended == 0
            && self.overlap_ns == 0
            && self.in_flight_ns == 0
            && self.bytes == 0.0
    }
}
