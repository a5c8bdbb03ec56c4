//! The error of a run, classified by the action that it requires.

use std::fmt::Display;
use std::path::Path;

/// Reason why a run failed. Each message is one line for a person and names the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A check failed after the measurement: wrong content, a client that was too slow, a cost limit that was reached.
    #[error("{0}")]
    Check(String),
    /// A setting, an experiment or a local file is wrong; nothing was measured.
    #[error("{0}")]
    Input(String),
    /// The store could not be used.
    #[error("{0}")]
    Store(String),
    /// The run was measured, but its results could not all be written to the disk.
    #[error("{0}")]
    Unwritten(String),
    /// The run was stopped; its results so far are kept.
    #[error("{0}")]
    Interrupted(String),
    /// Plimsoll itself failed.
    #[error("{0}")]
    Defect(String),
}

impl RunError {
    /// Returns a [`RunError::Check`] with this message.
    pub fn check(message: impl Display) -> RunError {
        RunError::Check(message.to_string())
    }

    /// Returns a [`RunError::Input`] with this message, which names the flag or `file:line`.
    pub fn input(message: impl Display) -> RunError {
        RunError::Input(message.to_string())
    }

    /// Returns a [`RunError::Store`] with this message.
    pub fn store(message: impl Display) -> RunError {
        RunError::Store(message.to_string())
    }

    /// Returns a [`RunError::Interrupted`] with this message.
    pub fn interrupted(message: impl Display) -> RunError {
        RunError::Interrupted(message.to_string())
    }

    /// Returns the error of a run at `path` whose results could not all be written because of `problem`.
    pub fn results_kept(problem: &str, path: &Path) -> RunError {
        let path = path.display();
        RunError::Unwritten(format!(
            "{problem}; free disk space; the results are kept in {path}, and `plimsoll report {path}` \
             creates the report"
        ))
    }

    /// Returns the exit code of a process that ends with this error.
    pub fn exit_code(&self) -> i32 {
        match self {
            RunError::Check(_) => 1,
            RunError::Input(_) => 2,
            RunError::Store(_) => 3,
            RunError::Unwritten(_) => 4,
            RunError::Interrupted(_) => 130,
            RunError::Defect(_) => 101,
        }
    }

    fn message_mut(&mut self) -> &mut String {
        match self {
            RunError::Check(text)
            | RunError::Input(text)
            | RunError::Store(text)
            | RunError::Unwritten(text)
            | RunError::Interrupted(text)
            | RunError::Defect(text) => text,
        }
    }

    /// Appends `more` to the message.
    #[must_use]
    pub fn with(mut self, more: &str) -> RunError {
        self.message_mut().push_str(more);
        self
    }

    /// Appends the command that removes the objects of a run whose clean-up failed (`left`), unless the message already
    /// contains it.
    #[must_use]
    pub fn with_left_behind(mut self, left: bool, run: &Path) -> RunError {
        if !left || self.message_mut().contains("plimsoll clean") {
            return self;
        }
        self.with(&format!(
            "; objects remain in the store; remove them with `plimsoll clean {}`",
            run.display()
        ))
    }
}

/// Returns true if a file could not be written because there was no space left for it.
pub fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
