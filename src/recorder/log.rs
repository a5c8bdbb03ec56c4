//! The operation log: one record per operation, where a run asks for it. Workers fill lists of their own and hand them over every
//! second, or sooner when they grow long; memory stays bounded.

use crate::workload::OperationKind;

/// How an operation ended, as logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoggedResult {
    /// Well.
    Ok,
    /// It failed, with this class.
    Failed(Box<str>),
    /// It was still unanswered when waiting for it ended.
    Undrained,
    /// It was due and never begun.
    NeverBegun,
}

/// One operation. Times are on the monotonic clock in nanoseconds; 0 where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// Number of its phase run.
    pub phase_run: usize,
    /// Its number within its phase: with the seed it says key, size and content.
    pub number: u64,
    /// What it was.
    pub kind: OperationKind,
    /// When it was meant to begin; open loops only.
    pub intended_ns: Option<u64>,
    /// Start of its first attempt.
    pub start_ns: u64,
    /// First byte of the answer.
    pub first_byte_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// Object bytes delivered.
    pub bytes: u64,
    /// Requests made for it.
    pub attempts: u32,
    /// How it ended.
    pub ended: LoggedResult,
}

/// A list longer than this is handed over before its second is over.
pub const LONG: usize = 8_192;
