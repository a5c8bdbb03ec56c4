//! Exit codes of the command line.

use std::fmt::Display;

use plimsoll_bills::advise::candidates::AdviceError;
use plimsoll_calibration::twin::TwinError;
use plimsoll_cost::request::RequestError;
use plimsoll_session::RunError;

/// An exit code and the message that explains it.
#[derive(Debug)]
pub struct Exit {
    /// Exit code of the process: 1, 2, 3, 4, 101 or 130.
    pub code: i32,
    /// One-line message for the user; empty if there is nothing more to report.
    pub message: String,
}

impl Exit {
    /// Returns exit code 1: the measurement succeeded, but a check failed.
    pub fn check(message: impl Display) -> Exit {
        Exit { code: 1, message: message.to_string() }
    }

    /// Returns exit code 2: invalid input. The message names the flag or `file:line`, and the fix.
    pub fn input(message: impl Display) -> Exit {
        Exit { code: 2, message: message.to_string() }
    }

    /// Returns exit code 3: the store could not be used.
    pub fn store(message: impl Display) -> Exit {
        Exit { code: 3, message: message.to_string() }
    }

    /// Returns exit code 101: a defect in Plimsoll.
    pub fn defect(message: impl Display) -> Exit {
        Exit { code: 101, message: message.to_string() }
    }

    /// Returns exit code 130: the user interrupted the command.
    pub fn interrupted(message: impl Display) -> Exit {
        Exit { code: 130, message: message.to_string() }
    }
}

impl From<RequestError> for Exit {
    fn from(error: RequestError) -> Exit {
        Exit::input(error)
    }
}

impl From<AdviceError> for Exit {
    fn from(error: AdviceError) -> Exit {
        Exit::input(error)
    }
}

impl From<TwinError> for Exit {
    fn from(error: TwinError) -> Exit {
        Exit::input(format!("--like: {error}"))
    }
}

impl From<RunError> for Exit {
    fn from(error: RunError) -> Exit {
        Exit { code: error.exit_code(), message: error.to_string() }
    }
}
