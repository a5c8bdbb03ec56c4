//! The nodes of a Ray cluster, with one actor on each.

use std::process::Command;

use super::{Carrier, LaunchError, Launcher};

/// A Ray cluster. The Python package `plimsoll[ray]` places the actors and carries their messages.
pub struct Ray {
    address: String,
    names: Vec<String>,
}

impl Ray {
    /// Creates the launcher for a cluster at `address`: `auto` or `ray://HOST:PORT`.
    ///
    /// # Errors
    /// [`LaunchError::Nodes`] without a number of nodes.
    pub fn new(address: &str, nodes: Option<u64>) -> Result<Ray, LaunchError> {
        let nodes = nodes.ok_or_else(|| {
            LaunchError::Nodes(
                "--on ray: the number of nodes is missing; add --nodes, such as --nodes 8".into(),
            )
        })?;
        Ok(Ray { address: address.into(), names: (1..=nodes).map(|n| format!("actor {n}")).collect() })
    }
}

impl Launcher for Ray {
    fn nodes(&self) -> &[String] {
        &self.names
    }

    fn carriers(&self) -> Vec<Carrier> {
        let of = self.names.len() as u64;
        let python = std::env::var("PLIMSOLL_PYTHON").unwrap_or_else(|_| "python3".into());
        let mut command = Command::new(python);
        command.args(["-m", "plimsoll.ray", "--address", &self.address, "--nodes", &of.to_string()]);
        vec![Carrier { command, nodes: (0..of).collect() }]
    }
}
