//! How a command ends when it does not end well.

use std::fmt::Display;

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

    /// The same end, with more to say of it.
    pub fn with(self, more: &str) -> Exit {
        Exit { message: self.message + more, ..self }
    }

    /// 130: interrupted; results are kept.
    pub fn interrupted(message: impl Display) -> Exit {
        Exit { code: 130, message: message.to_string() }
    }
}

/// Runs a future to its end on a runtime of its own.
///
/// # Errors
/// When the system refuses the runtime.
pub fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Exit::store)?;
    Ok(runtime.block_on(future))
}
