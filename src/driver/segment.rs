//! Messages between the coordinator and its workers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::recorder::Edges;

/// One segment of phase runs, as sent to every worker.
#[derive(Clone)]
pub struct Segment {
    /// Number of the first phase run.
    pub first: usize,
    /// Number of the store.
    pub store: usize,
    /// Edges of the phase runs.
    pub edges: Vec<Edges>,
    /// What each phase run's closed loop counts its operations with; phase runs of one phase on one store share theirs.
    pub counters: Vec<Arc<AtomicU64>>,
    /// First operation number that a phase run's closed loop must not begin.
    pub limits: Vec<Option<u64>>,
}

/// What a worker says when it has done a segment.
pub struct SegmentReport {
    /// End of its last operation.
    pub last_end_ns: u64,
    /// A system error that kept it from working.
    pub error: Option<io::Error>,
    /// Operations that failed.
    pub failed: u64,
}
