//! Errors that end a run before its last operation.

use std::io;

/// Error that ends a run before its last operation.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The system could not create a thread, a timer or a file descriptor.
    #[error(
        "cannot create a thread, timer or file descriptor: {0}; raise `ulimit -n`, or lower --concurrency or --in-flight"
    )]
    System(#[from] io::Error),
    /// A `prepare` phase did not write all of the objects that later phases need.
    #[error(
        "phase '{phase}' could not write all objects: {failed} operations failed, one of them with {class}: {message}"
    )]
    Prepare {
        /// Name of the phase.
        phase: String,
        /// Number of failed operations.
        failed: u64,
        /// Error class of one of the failures.
        class: String,
        /// Message of the first failure of that class.
        message: String,
    },
    /// A worker thread or the collector thread panicked, which is a bug.
    #[error("a worker thread panicked: this is a bug in Plimsoll; please report it")]
    Panic,
}
