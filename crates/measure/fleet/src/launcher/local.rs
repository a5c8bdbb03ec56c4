//! Several processes on this machine, to try a fleet or to use more processes than one.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Carrier, LaunchError, Launcher, node_arguments};

/// Maximum number of processes on one machine.
const MAX_PROCESSES: u64 = 256;

/// Processes on this machine.
pub struct Local {
    program: PathBuf,
    names: Vec<String>,
}

impl Local {
    /// Creates the launcher for `local:N`.
    ///
    /// # Errors
    /// [`LaunchError::Nodes`] if the number is missing or too large.
    pub fn new(number: &str, program: &Path) -> Result<Local, LaunchError> {
        let n = number.parse().ok().filter(|n| (1..=MAX_PROCESSES).contains(n));
        let n = n.ok_or_else(|| {
            LaunchError::Nodes(format!("--on local:{number}: use a number from 1 to {MAX_PROCESSES}"))
        })?;
        Ok(Local { program: program.into(), names: (1..=n).map(|n| format!("process {n}")).collect() })
    }
}

impl Launcher for Local {
    fn nodes(&self) -> &[String] {
        &self.names
    }

    fn carriers(&self) -> Vec<Carrier> {
        let of = self.names.len() as u64;
        let carrier = |node| {
            let mut command = Command::new(&self.program);
            command.args(node_arguments(node, of));
            Carrier { command, nodes: vec![node] }
        };
        (0..of).map(carrier).collect()
    }
}
