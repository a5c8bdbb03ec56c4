//! Reasons why a check does not show that a store does what an application needs.

/// The reason why a check did not pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The store did something else. The text says what.
    #[error("{0}")]
    Violated(String),
    /// The store did not answer, so the check shows nothing. The text says why.
    #[error("{0}")]
    Inconclusive(String),
}

impl Problem {
    /// Returns the problem of a store that did something else.
    pub fn violated(text: impl Into<String>) -> Problem {
        Problem::Violated(text.into())
    }
}

/// The result of a check: what it saw, or the problem.
pub type Checked = Result<String, Problem>;

/// Returns a violation with this text unless the condition holds.
///
/// # Errors
/// [`Problem::Violated`] if it does not.
pub fn require(condition: bool, text: impl FnOnce() -> String) -> Result<(), Problem> {
    if condition { Ok(()) } else { Err(Problem::Violated(text())) }
}
