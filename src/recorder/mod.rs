//! What happened, counted without a lock and without losing anything that a percentile needs.
//!
//! Each worker owns a [`worker::WorkerRecorder`]; once a second it hands its [`tally::Tally`]s, histograms included, to the
//! one [`collector`], which adds them up exactly. Nothing is averaged. The recorder knows windows and edges; what
//! the figures mean is `summary`'s business.

pub mod collector;
pub mod histogram;
pub mod log;
pub mod sparse;
pub mod tally;
pub mod worker;

use crate::store::web::cache::CacheStatus;
use crate::store::{ErrorClass, Timings};
use crate::workload::OperationKind;

/// The edges of a phase's window on the monotonic clock: `start <= t < end`. `end` is `u64::MAX` while it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edges {
    /// First nanosecond.
    pub start_ns: u64,
    /// First nanosecond after it.
    pub end_ns: u64,
}

impl Edges {
    /// Nanoseconds that `from..to` shares with the window.
    pub fn overlap(&self, from: u64, to: u64) -> u64 {
        to.min(self.end_ns).saturating_sub(from.max(self.start_ns))
    }

    /// Whether an instant lies inside.
    pub fn contains(&self, at: u64) -> bool {
        (self.start_ns..self.end_ns).contains(&at)
    }
}

/// How an operation ended.
#[derive(Debug, Clone, Copy)]
pub enum OperationResult<'a> {
    /// Well, with so many object bytes delivered.
    Done(u64),
    /// It failed.
    Failed(&'a ErrorClass),
    /// It was still unanswered when waiting for it ended.
    Undrained,
}

/// One operation, over.
#[derive(Debug, Clone, Copy)]
pub struct Completed<'a> {
    /// Number of its phase (of its phase run).
    pub phase: usize,
    /// Its number within its phase.
    pub number: u64,
    /// What it was.
    pub kind: OperationKind,
    /// When it was meant to begin; open loops only.
    pub intended_ns: Option<u64>,
    /// When the instrument could have begun it: intended, and a connection free.
    pub ready_ns: u64,
    /// Its times; start of the first attempt, end of the last.
    pub timings: Timings,
    /// What the caches on its way say of the answer.
    pub cache: Option<CacheStatus>,
    /// How it ended.
    pub outcome: OperationResult<'a>,
    /// Requests made for it.
    pub attempts: u32,
    /// Of those, the ones that were made again after a failure.
    pub retries: u32,
}
