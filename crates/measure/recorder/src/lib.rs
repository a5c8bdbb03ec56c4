//! The records of a run: results of operations, counted without locks in full histograms, so that merging loses nothing
//! that a percentile needs.
//!
//! Each worker owns a [`worker::WorkerRecorder`]. Once a second it sends its [`tally::Tally`]s, histograms included, to
//! the single [`collector`], which sums them exactly. Nothing is averaged. The recorder counts within the edges of
//! windows. `plimsoll-engine` fills it, and `plimsoll-judge` computes figures from it; neither knows the other.

pub mod cache_status;
pub mod collector;
pub mod error_class;
pub mod histogram;
pub mod latency;
pub mod log;
pub mod part;
pub mod paused;
pub mod sparse;
pub mod store_facts;
pub mod sum;
pub mod tally;
pub mod timings;
pub mod worker;

pub use error_class::ErrorClass;
pub use timings::Timings;

use cache_status::CacheStatus;
use plimsoll_workload::OperationKind;

/// Edges of a phase's window on the monotonic clock, in nanoseconds: `start <= t < end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edges {
    /// First nanosecond of the window.
    pub start_ns: u64,
    /// First nanosecond after the window; `u64::MAX` while it is not known.
    pub end_ns: u64,
}

impl Edges {
    /// Returns the nanoseconds that `from..to` overlaps with the window.
    pub fn overlap(&self, from: u64, to: u64) -> u64 {
        to.min(self.end_ns).saturating_sub(from.max(self.start_ns))
    }

    /// Returns true if an instant is inside the window.
    pub fn contains(&self, at: u64) -> bool {
        (self.start_ns..self.end_ns).contains(&at)
    }
}

/// Result of an operation.
#[derive(Debug, Clone, Copy)]
pub enum OperationResult<'a> {
    /// Success, with the number of object bytes delivered.
    Done(u64),
    /// Failure of the given class.
    Failed(&'a ErrorClass),
    /// No response by the end of the drain.
    Undrained,
}

/// A finished operation.
#[derive(Debug, Clone, Copy)]
pub struct Completed<'a> {
    /// Number of its phase run.
    pub phase: usize,
    /// Number of the operation within its phase.
    pub number: u64,
    /// Number of the connection slot that executed it, among those of all workers.
    pub slot: usize,
    /// Kind of operation.
    pub kind: OperationKind,
    /// Intended time on the monotonic clock, in nanoseconds; open loops only.
    pub intended_ns: Option<u64>,
    /// Earliest possible start on the monotonic clock, in nanoseconds: the operation was due and a connection
    /// was free.
    pub ready_ns: u64,
    /// Start passed to [`worker::WorkerRecorder::started`]. The start in `timings` is at the same time or later.
    pub announced_ns: u64,
    /// Times of the operation, from the start of the first attempt to the end of the last.
    pub timings: Timings,
    /// Cache status of the response; `None` if it carries none.
    pub cache: Option<CacheStatus>,
    /// Number of the address to which it was sent, among those of the store; `None` if the store has at most one.
    pub address: Option<u16>,
    /// Result of the operation.
    pub outcome: OperationResult<'a>,
    /// Requests sent for this operation.
    pub attempts: u32,
    /// Requests sent again after a failure.
    pub retries: u32,
}
