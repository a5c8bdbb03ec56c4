//! Checks whether an S3 server keeps what it acknowledged when the power fails. Uses `session` and `disk`; only
//! `plimsoll` uses it, on Linux.
//!
//! [`simulated`] runs the server on a simulated disk (`plimsoll_disk`), [`real`] on a machine that a command of the
//! user cuts off. Both use the same clients ([`work`]), the same expectations ([`history`]) and the same [`audit`].

pub mod audit;
pub mod content;
pub mod cut;
pub mod cuts;
pub mod findings;
pub mod history;
pub mod moment;
pub mod pause;
pub mod plan;
pub mod process;
pub mod proof;
pub mod real;
pub mod script;
pub mod server;
pub mod signed;
pub mod simulated;
pub mod versions;
pub mod violation;
pub mod work;

/// Error that ends a check.
#[derive(Debug, thiserror::Error)]
pub enum DurabilityError {
    /// The server profile or command is invalid.
    #[error("--server: {0}")]
    Server(String),
    /// The system does not allow what the check needs.
    #[error("{0}")]
    System(String),
    /// The store did not answer as it must before any cut.
    #[error("{0}")]
    Store(String),
}

/// Returns the seed of a cut.
pub fn cut_seed(seed: u64, number: u64) -> u64 {
    plimsoll_base::rng::mix(seed ^ plimsoll_base::rng::mix(number))
}

impl From<std::io::Error> for DurabilityError {
    fn from(error: std::io::Error) -> DurabilityError {
        DurabilityError::System(error.to_string())
    }
}

impl From<plimsoll_session::RunError> for DurabilityError {
    fn from(error: plimsoll_session::RunError) -> DurabilityError {
        DurabilityError::Store(error.to_string())
    }
}
