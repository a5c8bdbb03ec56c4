//! Operations of open loops that a client was too slow to start.

use plimsoll_workload::schedule::arrival::Arrivals;

/// Operations of an open loop that were due before their phase ended but that the client was too slow to
/// release. None of them was started.
pub struct NeverStartedOperations {
    /// Index of the phase run in the segment.
    pub phase: usize,
    /// Number of the first operation.
    pub number: u64,
    /// Intended time of the first operation, in nanoseconds since the start of the phase run.
    pub offset: u64,
    /// Intended times of the operations after the first, in the same unit.
    pub arrivals: Arrivals,
    /// Start of the phase run, in nanoseconds on the monotonic clock.
    pub start_ns: u64,
    /// Length of the phase run, in nanoseconds.
    pub length: u64,
    /// First operation number after the limit of operations.
    pub number_end: u64,
    /// Remainder of the numbers of this worker's operations, modulo `divisor`.
    pub remainder: u64,
    /// Number of workers of all shards together.
    pub divisor: u64,
}

impl NeverStartedOperations {
    /// Returns the numbers and intended times of the operations of all workers, in nanoseconds since the
    /// start of the phase run.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let length = self.length;
        let offsets = std::iter::once(self.offset).chain(self.arrivals.clone());
        (self.number..self.number_end).zip(offsets).take_while(move |(_, offset)| *offset < length)
    }

    /// Returns the first operation number that is not due within the phase run.
    pub fn end(&self) -> u64 {
        self.iter().last().map_or(self.number, |(number, _)| number + 1)
    }
}
