//! Launchers start `plimsoll fleet node` on every node and connect its standard input and output with this process.
//!
//! A launcher is a list of child processes: one for each node, or one that carries the messages of several nodes. The
//! engines do the rest: they authenticate, place, and end the processes.

use std::path::Path;
use std::process::Command;

pub mod kubernetes;
pub mod local;
pub mod ray;
pub mod slurm;
pub mod ssh;

/// Error of a launcher.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The value of `--on` is invalid.
    #[error(
        "--on {0}: unknown engine; use ssh:FILE (one host per line), slurm, ray://HOST:PORT, ray, k8s:JOB or local:N"
    )]
    Unknown(String),
    /// The hosts file cannot be used.
    #[error("--on ssh:{path}: {reason}")]
    Hosts {
        /// Path of the file.
        path: String,
        /// Reason and fix.
        reason: String,
    },
    /// A number of nodes is missing or invalid.
    #[error("{0}")]
    Nodes(String),
    /// A command of the engine failed.
    #[error("{command}: {reason}")]
    Engine {
        /// Command that failed.
        command: String,
        /// Its error message, or the reason why it did not start.
        reason: String,
    },
}

/// A child process that carries the messages of one or more nodes.
pub struct Carrier {
    /// Command to start. Its standard input and output are pipes.
    pub command: Command,
    /// Numbers of the nodes, from 0.
    pub nodes: Vec<u64>,
}

/// An engine that starts processes on nodes.
pub trait Launcher {
    /// Returns the names of the nodes, in the order of their numbers.
    fn nodes(&self) -> &[String];

    /// Returns the child processes for all nodes.
    fn carriers(&self) -> Vec<Carrier>;
}

/// Returns the arguments of the program on node `node`.
pub fn node_arguments(node: u64, of: u64) -> [String; 4] {
    ["fleet".into(), "node".into(), "--shard".into(), format!("{}/{of}", node + 1)]
}

/// Returns the launcher that `--on` describes. `nodes` is the value of `--nodes`. `program` is the path of Plimsoll on
/// the nodes.
///
/// # Errors
/// A [`LaunchError`] if the engine is unknown or its nodes cannot be listed.
pub fn parse(on: &str, nodes: Option<u64>, program: &Path) -> Result<Box<dyn Launcher>, LaunchError> {
    let (engine, rest) = on.split_once(':').unwrap_or((on, ""));
    Ok(match engine {
        "ssh" => Box::new(ssh::Ssh::read(rest, nodes, program)?),
        "slurm" if rest.is_empty() => Box::new(slurm::Slurm::in_allocation(nodes, program)?),
        "ray" => Box::new(ray::Ray::new(if rest.is_empty() { "auto" } else { on }, nodes)?),
        "k8s" => Box::new(kubernetes::Kubernetes::attached(rest, nodes)?),
        "local" => Box::new(local::Local::new(rest, program)?),
        _ => return Err(LaunchError::Unknown(on.into())),
    })
}

/// Runs a command of an engine and returns its output.
///
/// # Errors
/// [`LaunchError::Engine`] if the command cannot be started or fails.
pub(super) fn output(command: &mut Command) -> Result<String, LaunchError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |reason: String| LaunchError::Engine { command: name.clone(), reason };
    let done = command.output().map_err(|e| failed(format!("{e}; is it installed?")))?;
    if !done.status.success() {
        let text = String::from_utf8_lossy(&done.stderr).trim().to_string();
        return Err(failed(if text.is_empty() { done.status.to_string() } else { text }));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
