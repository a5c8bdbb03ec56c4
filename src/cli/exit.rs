//! How a command ends when it does not end well.

use std::fmt::Display;
use std::path::Path;

/// An exit code with the line that explains it.
#[derive(Debug)]
pub struct Exit {
    /// Exit code of the process.
    pub code: i32,
    /// One line for a person; empty when everything was said.
    pub message: String,
}

impl Exit {
    /// 1: measured, but a check failed.
    pub fn check(message: impl Display) -> Exit {
        Exit { code: 1, message: message.to_string() }
    }

    /// 2: bad input; the message names the flag or file:line and the fix.
    pub fn input(message: impl Display) -> Exit {
        Exit { code: 2, message: message.to_string() }
    }

    /// 3: the store could not be used.
    pub fn store(message: impl Display) -> Exit {
        Exit { code: 3, message: message.to_string() }
    }

    /// 4: measured, but the disk did not take all of it.
    pub fn unwritten(message: impl Display) -> Exit {
        Exit { code: 4, message: message.to_string() }
    }

    /// 4: the disk did not take the results of the run at `path` whole.
    pub fn results_kept(what: &str, path: &Path) -> Exit {
        let path = path.display();
        Exit::unwritten(format!(
            "{what}; free some space; results kept in {path}, `plimsoll report {path}` makes its report"
        ))
    }

    /// The same end, with more to say of it.
    pub fn with(self, more: &str) -> Exit {
        Exit { message: self.message + more, ..self }
    }

    /// The same end of a run whose clean-up failed, if the message does not name the way out already.
    pub fn with_left_behind(self, left: bool, run: &Path) -> Exit {
        if !left || self.message.contains("plimsoll clean") {
            return self;
        }
        self.with(&format!(
            "; objects are left in the store, `plimsoll clean {}` removes them",
            run.display()
        ))
    }

    /// 130: interrupted; results are kept.
    pub fn interrupted(message: impl Display) -> Exit {
        Exit { code: 130, message: message.to_string() }
    }
}

/// Returns true if there was no room for a file.
pub fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Runs a future to its end on a runtime of its own.
///
/// # Errors
/// When the system refuses the runtime.
pub fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Exit::store)?;
    Ok(runtime.block_on(future))
}
