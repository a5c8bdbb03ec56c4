//! Counts and histograms of one kind of operation in one window; tallies can be summed.

use std::collections::BTreeMap;

use super::histogram::Latencies;
use super::latency::{Latency, LatencyTable};
use crate::part::WindowPart;

/// Counts of one window and operation, or of one second of it.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Operations that belong to the phase (by intended time, or actual start in a closed loop).
    pub operations: u64,
    /// Successful operations among `operations`.
    pub succeeded: u64,
    /// Operations intended inside the window; open loops only.
    pub intended: u64,
    /// Operations of the phase that started inside the window.
    pub begun: u64,
    /// Successful operations of the phase that ended inside the window. Of those that ended after it, as many count as
    /// operations before the phase ended in it, because both edges then cut the same load.
    pub completed: u64,
    /// Requests sent for the phase's operations.
    pub attempts: u64,
    /// Requests sent again after a failure.
    pub retries: u64,
    /// Successful operations whose arrival times the kernel took.
    pub by_kernel: u64,
    /// Object bytes that the operations in `completed` delivered.
    pub bytes: f64,
    /// Operations without a known response time: never started, timed out or undrained.
    pub censored: u64,
    /// Number of connections opened.
    pub connections: u64,
    /// Requests sent again because the store had closed their connection.
    pub reconnects: u64,
    /// Failed operations by class.
    pub errors: BTreeMap<String, u64>,
    /// Failed operations by the number of the address to which they were sent; empty if the store has at most one.
    pub failed_at: BTreeMap<u16, u64>,
    /// Failed attempts by the number of their address, repeated ones included; empty without retries, and if the store
    /// has at most one address.
    pub failed_attempts_at: BTreeMap<u16, u64>,
    /// Successful compare-and-swaps by connection slot.
    pub commits: BTreeMap<usize, u64>,
    /// Sum of the operations' overlaps with the window, in nanoseconds.
    pub overlap_ns: u128,
    /// Integral of the in-flight counter over the window, in operation-nanoseconds.
    pub in_flight_ns: i128,
    /// Latest end of an operation, on the monotonic clock.
    pub last_end_ns: u64,
    /// Histograms of latencies. [`Latency::WakeUpDelay`] is empty: it belongs to no operation.
    pub latencies: LatencyTable,
    /// Service times of the successful operations of each part.
    pub parts: BTreeMap<WindowPart, Latencies>,
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
        for (address, n) in &other.failed_at {
            *self.failed_at.entry(*address).or_default() += n;
        }
        for (address, n) in &other.failed_attempts_at {
            *self.failed_attempts_at.entry(*address).or_default() += n;
        }
        for (slot, n) in &other.commits {
            *self.commits.entry(*slot).or_default() += n;
        }
        self.overlap_ns += other.overlap_ns;
        self.in_flight_ns += other.in_flight_ns;
        self.last_end_ns = self.last_end_ns.max(other.last_end_ns);
        for (part, latencies) in &other.parts {
            self.parts.entry(*part).or_default().merge(latencies);
        }
        self.latencies.merge(&other.latencies);
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
            && self.latencies[Latency::PausedService].is_empty()
    }
}
