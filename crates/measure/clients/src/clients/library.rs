//! Libraries of Python, and programs that read the same job: each executes a batch, and writes its times.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;

use super::Turn;
use super::batch::{BatchOperation, DATASET, OperationBatch, Timed};
use crate::sync::tool::{quoted, run};
use plimsoll_base::clock::now_ns;
use plimsoll_base::files::read_text;
use plimsoll_session::RunError;

/// The program that uses the libraries of Python.
const DRIVER: &str = include_str!("driver.py");
/// Largest number of cores that a program can use.
const MAX_CORES: u64 = 4096;
/// Maximum length in bytes of the file with the times.
const MAX_TIMES: u64 = 256 << 20;

/// A library, or a program that reads a job.
#[derive(Debug, Clone)]
pub struct Library {
    /// Name of the client.
    pub name: String,
    /// Version of the library; empty for a program.
    pub version: String,
    /// Command to which the paths of the job and of the times are appended.
    command: String,
}

/// The job of a program, as JSON.
#[derive(Debug, Serialize)]
struct Job<'a> {
    library: &'a str,
    operation: BatchOperation,
    endpoint: &'a str,
    region: &'a str,
    bucket: &'a str,
    path_style: bool,
    keys: Vec<String>,
    bytes: u64,
    concurrency: usize,
}

/// Returns the libraries that an interpreter of Python has, with their versions.
///
/// # Errors
/// If the interpreter cannot be started, or fails.
pub fn installed(python: &str) -> std::io::Result<Vec<(String, String)>> {
    let asked = Command::new(python).args(["-c", DRIVER]).stdin(Stdio::null()).output()?;
    if !asked.status.success() {
        let text = String::from_utf8_lossy(&asked.stderr).lines().last().unwrap_or_default().to_string();
        return Err(std::io::Error::other(text.chars().take(200).collect::<String>()));
    }
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    let found = text.lines().filter_map(|line| line.split_once(' '));
    Ok(found.map(|(name, version)| (name.to_string(), version.to_string())).collect())
}

impl Library {
    /// Returns a library of an interpreter of Python.
    pub fn of_python(python: &str, name: &str, version: &str) -> Library {
        let command = format!("{} -c {}", quoted(python), quoted(DRIVER));
        Library { name: name.into(), version: version.into(), command }
    }

    /// Returns a program that reads a job.
    pub fn of_command(name: &str, command: &str) -> Library {
        Library { name: name.into(), version: String::new(), command: command.into() }
    }

    /// Executes a batch in a new process.
    ///
    /// # Errors
    /// [`RunError::Input`] if a file cannot be written, [`RunError::Store`] if the process fails or its times are
    /// incomplete.
    pub fn execute(&self, batch: &OperationBatch, turn: &Turn<'_>) -> Result<Timed, RunError> {
        let address = turn.address;
        let prefix = format!("{}{DATASET}/", turn.space.root());
        let job = Job {
            library: &self.name,
            operation: batch.operation,
            endpoint: &address.endpoint,
            region: &address.region,
            bucket: &address.bucket,
            path_style: address.has_path_style,
            keys: batch.names().map(|name| format!("{prefix}{name}")).collect(),
            bytes: batch.bytes,
            concurrency: batch.concurrency,
        };
        let [input, output] = ["job.json", "times.json"].map(|name| turn.files.join("jobs").join(name));
        let unusable =
            |path: &Path, e: &dyn std::fmt::Display| RunError::input(format!("{}: {e}", path.display()));
        let text = serde_json::to_string(&job).map_err(|e| unusable(&input, &e))?;
        std::fs::create_dir_all(turn.files.join("jobs")).map_err(|e| unusable(&input, &e))?;
        std::fs::write(&input, text).map_err(|e| unusable(&input, &e))?;
        let _ = std::fs::remove_file(&output);
        let line = format!(
            "{} {} {}",
            self.command,
            quoted(&input.to_string_lossy()),
            quoted(&output.to_string_lossy())
        );
        let began_ns = now_ns();
        let ended = run(&line, &address.variables(), turn.control)
            .map_err(|e| RunError::input(format!("{}: {e}", self.name)))?;
        let lived_ns = now_ns() - began_ns;
        let what = format!("{}, {}", self.name, batch.operation.name());
        if !ended.status.success() {
            return Err(RunError::store(format!("{what}: {}: {}", ended.status, ended.last_line)));
        }
        let text = read_text(&output, MAX_TIMES)
            .map_err(|e| RunError::store(format!("{what}: it wrote no times ({}: {e})", output.display())))?;
        let timed: Timed = serde_json::from_str(&text)
            .map_err(|e| RunError::store(format!("{what}: invalid times: {e}")))?;
        let (known, expected) = (timed.latencies_ns.len() as u64, batch.objects);
        if timed.wall_ns == 0 || (known > 0 && known != expected) {
            return Err(RunError::store(format!("{what}: it timed {known} of {expected} operations")));
        }
        let longest = timed.latencies_ns.iter().copied().max().unwrap_or(0);
        if timed.wall_ns > lived_ns
            || longest > timed.wall_ns
            || timed.cpu_ns > lived_ns.saturating_mul(MAX_CORES)
        {
            return Err(RunError::store(format!(
                "{what}: its times are impossible: it ran for {:.3} s, and states {:.3} s in all, {:.3} s for an operation and \
                 {:.3} s of CPU time",
                lived_ns as f64 / 1e9,
                timed.wall_ns as f64 / 1e9,
                longest as f64 / 1e9,
                timed.cpu_ns as f64 / 1e9
            )));
        }
        Ok(timed)
    }
}
