//! `--timeout`: the deadline of every request to a store or a credential service.

use std::time::Duration;

use clap::Args;

use super::exit::Exit;
use plimsoll_base::net::client_limits;
use plimsoll_base::units::parse_duration;

/// `--timeout` of commands that send only unmeasured requests.
#[derive(Debug, Clone, Args)]
pub struct TimeoutArgument {
    /// Deadline of one request, including its retries [default: 60s]
    #[arg(long, value_name = "TIME", global = true)]
    timeout: Option<String>,
}

impl TimeoutArgument {
    /// Sets the deadline for the whole process.
    ///
    /// # Errors
    /// Exit code 2 if the value is not a positive duration.
    pub fn apply(&self) -> Result<(), Exit> {
        apply(self.timeout.as_deref())
    }

    /// Returns the value as the user wrote it; `None` if the flag is not set.
    pub fn given(&self) -> Option<&str> {
        self.timeout.as_deref()
    }
}

/// Sets the deadline for the whole process from the value of `--timeout`, if it is set.
///
/// # Errors
/// Exit code 2 if the value is not a positive duration.
pub fn apply(timeout: Option<&str>) -> Result<(), Exit> {
    let Some(text) = timeout else { return Ok(()) };
    let ns = parse_duration(text).map_err(|e| Exit::input(format!("--timeout: {e}")))?;
    if ns == 0 {
        return Err(Exit::input(format!(
            "--timeout {text}: the deadline must be above 0; omit --timeout for the default"
        )));
    }
    client_limits::set_timeout(Duration::from_nanos(ns));
    Ok(())
}
