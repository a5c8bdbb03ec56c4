//! `--timeout`: the deadline of every exchange with a store or a credential service.

use std::time::Duration;

use clap::Args;

use super::exit::Exit;
use crate::net::limits;
use crate::units::parse_duration;

/// The argument of commands that only make unmeasured requests.
#[derive(Debug, Clone, Args)]
pub struct TimeoutArgument {
    /// Deadline of one request, its retries included [default: 60s]
    #[arg(long, value_name = "TIME", global = true)]
    timeout: Option<String>,
}

impl TimeoutArgument {
    /// Sets the deadline of the process.
    ///
    /// # Errors
    /// 2 if it is not a positive time.
    pub fn apply(&self) -> Result<(), Exit> {
        apply(self.timeout.as_deref())
    }

    /// The time as it was given.
    pub fn given(&self) -> Option<&str> {
        self.timeout.as_deref()
    }
}

/// Sets the deadline of the process from the text of `--timeout`, if it was given.
///
/// # Errors
/// 2 if it is not a positive time.
pub fn apply(timeout: Option<&str>) -> Result<(), Exit> {
    let Some(text) = timeout else { return Ok(()) };
    let ns = parse_duration(text).map_err(|e| Exit::input(format!("--timeout: {e}")))?;
    if ns == 0 {
        return Err(Exit::input(format!("--timeout {text}: a deadline must be above 0; omit it for 60s")));
    }
    limits::set_timeout(Duration::from_nanos(ns));
    Ok(())
}
