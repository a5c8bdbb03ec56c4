//! Messages between the coordinator and the workers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::writers::Writers;
use plimsoll_recorder::Edges;

/// A closed loop, or open loops on one store that run back to back. Every worker receives every segment.
#[derive(Clone)]
pub struct Segment {
    /// Index of the first phase run in the job.
    pub first: usize,
    /// Index of the store in the job.
    pub store: usize,
    /// Edges of the phase runs, in order.
    pub edges: Vec<Edges>,
    /// Counters that number the operations of closed loops, one per phase run. The phase runs of one phase on
    /// one store share a counter.
    pub counters: Vec<Arc<AtomicU64>>,
    /// Writes that are in flight, for their verification.
    pub writers: Arc<Writers>,
    /// First operation number that the closed loop of each phase run must not start; `None` without a limit.
    pub limits: Vec<Option<u64>>,
}

/// Report of a worker at the end of a segment.
#[derive(Default)]
pub struct SegmentReport {
    /// End of the worker's last operation, in nanoseconds on the monotonic clock; 0 if there was none.
    pub last_end_ns: u64,
    /// System error that stopped the worker; `None` if there was none.
    pub error: Option<io::Error>,
    /// Number of failed operations.
    pub failed: u64,
    /// Sum of the times from the start of a closed loop until each connection slot was free after its last operation,
    /// in nanoseconds; 0 for open loops.
    pub busy_ns: u64,
}
