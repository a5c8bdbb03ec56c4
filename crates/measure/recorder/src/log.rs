//! Operation log: one record per operation, if the run has it enabled. Each worker fills its own list and sends
//! it every second, or sooner if it grows long, so memory stays bounded.

use plimsoll_workload::OperationKind;

/// Result of an operation, as logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoggedResult {
    /// The operation succeeded.
    Ok,
    /// The operation failed, with this error class.
    Failed(Box<str>),
    /// The operation had no response by the end of the drain.
    Undrained,
    /// The operation was due and never started.
    NeverStarted,
}

/// Record of one operation. Times are on the monotonic clock in nanoseconds; 0 if there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRecord {
    /// Number of its phase run.
    pub phase_run: usize,
    /// Number of the operation within its phase. With the seed, it determines key, size and content.
    pub number: u64,
    /// Kind of operation.
    pub kind: OperationKind,
    /// Intended time; open loops only.
    pub intended_ns: Option<u64>,
    /// Start of the first attempt.
    pub start_ns: u64,
    /// Time of the response's first byte.
    pub first_byte_ns: u64,
    /// End of the operation.
    pub end_ns: u64,
    /// Duration from the arrival of the last byte until the client read it.
    pub client_delay_ns: u64,
    /// Object bytes delivered.
    pub bytes: u64,
    /// Requests sent for this operation.
    pub attempts: u32,
    /// Result of the operation.
    pub ended: LoggedResult,
}

/// Number of records above which a worker sends its list before the end of the second.
pub const LONG: usize = 8_192;
