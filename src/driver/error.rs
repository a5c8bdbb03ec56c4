//! Errors that end a run before its last operation.

use std::io;

/// Reason why a run ended before its last operation.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The machine refused a thread or a timer.
    #[error(
        "the system refused a thread, a timer or a descriptor: {0}; raise `ulimit -n` or lower --concurrency or --in-flight"
    )]
    System(#[from] io::Error),
    /// Objects that later phases need could not be written.
    #[error(
        "phase '{phase}' could not write its objects: {failed} operations failed, the first with {class}: {message}"
    )]
    Prepare {
        /// Name of the phase.
        phase: String,
        /// Number of failures.
        failed: u64,
        /// Class of the first.
        class: String,
        /// Message of the first.
        message: String,
    },
    /// A worker died of a defect in the instrument.
    #[error("a worker thread panicked; this is a defect, please report it")]
    Panic,
}
