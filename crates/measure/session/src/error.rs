//! The error of a run, classified by the action that it requires.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Name of the file with the result of a run.
const RESULT: &str = "result.json";

/// Description of an error, and what it leaves behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Details {
    /// Message for a person; one line.
    pub text: String,
    /// Run directory of a run whose objects are still in the store; `None` if there are none.
    pub left_behind: Option<PathBuf>,
}

impl Details {
    /// Returns the description of an error that leaves nothing behind.
    fn of(message: impl Display) -> Details {
        Details { text: message.to_string(), left_behind: None }
    }
}

impl Display for Details {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)?;
        match &self.left_behind {
            None => Ok(()),
            Some(run) => {
                let run = run.display();
                write!(f, "; objects remain in the store; remove them with `plimsoll clean {run}`")
            }
        }
    }
}

/// Reason why a run failed. Each message is one line for a person and names the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A check failed after the measurement: wrong content, a client that was too slow, a cost limit that was reached.
    #[error("{0}")]
    Check(Details),
    /// A setting, an experiment or a local file is wrong; nothing was measured.
    #[error("{0}")]
    Input(Details),
    /// The store could not be used.
    #[error("{0}")]
    Store(Details),
    /// The run was measured, but its results could not all be written to the disk.
    #[error("{0}")]
    Unwritten(Details),
    /// The run was stopped; its results so far are kept.
    #[error("{0}")]
    Interrupted(Details),
    /// Plimsoll itself failed.
    #[error("{0}")]
    Defect(Details),
}

impl RunError {
    /// Returns a [`RunError::Check`] with this message.
    pub fn check(message: impl Display) -> RunError {
        RunError::Check(Details::of(message))
    }

    /// Returns a [`RunError::Input`] with this message, which names the flag or `file:line`.
    pub fn input(message: impl Display) -> RunError {
        RunError::Input(Details::of(message))
    }

    /// Returns a [`RunError::Store`] with this message.
    pub fn store(message: impl Display) -> RunError {
        RunError::Store(Details::of(message))
    }

    /// Returns a [`RunError::Interrupted`] with this message.
    pub fn interrupted(message: impl Display) -> RunError {
        RunError::Interrupted(Details::of(message))
    }

    /// Returns a [`RunError::Defect`] with this message.
    pub fn defect(message: impl Display) -> RunError {
        RunError::Defect(Details::of(message))
    }

    /// Returns the error of a run at `path` whose results could not all be written because of `problem`.
    pub fn results_kept(problem: &str, path: &Path) -> RunError {
        let has_result = path.join(RESULT).is_file();
        let path = path.display();
        RunError::Unwritten(Details::of(match has_result {
            true => format!(
                "{problem}; free disk space; the results are kept in {path}, and `plimsoll report {path}` creates the \
                 report"
            ),
            false => format!("{problem}; {path} has no {RESULT}: free disk space, and repeat the run"),
        }))
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

    fn details_mut(&mut self) -> &mut Details {
        match self {
            RunError::Check(details)
            | RunError::Input(details)
            | RunError::Store(details)
            | RunError::Unwritten(details)
            | RunError::Interrupted(details)
            | RunError::Defect(details) => details,
        }
    }

    /// Appends `more` to the message.
    #[must_use]
    pub fn with(mut self, more: &str) -> RunError {
        self.details_mut().text.push_str(more);
        self
    }

    /// Records that objects of a run are still in the store.
    #[must_use]
    pub fn with_left_behind(mut self, run: &Path) -> RunError {
        self.details_mut().left_behind = Some(run.to_path_buf());
        self
    }
}

/// Returns true if a file could not be written because there was no space left for it.
pub fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
