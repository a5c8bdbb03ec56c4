//! The run directory: `experiment.toml`, `environment.json`, `result.json`, `intervals.arrows`. No secret is ever in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::intervals::{IntervalLog, Place};
use super::json;
use super::operations::OperationLog;
use crate::machine::Machine;
use crate::recorder::collector::SecondRow;
use crate::recorder::log::Logged;
use crate::summary::result::RunResult;

/// Everything outside the experiment that a repeat of the run must know.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct Environment {
    /// Version of Plimsoll.
    pub version: String,
    /// Identity of the run.
    #[serde(default)]
    pub run: String,
    /// Keys that the run may have created below its roots.
    #[serde(default)]
    pub owns: Ownership,
    /// Directory of local files that the run created and `plimsoll clean` removes; `None` if there is none.
    #[serde(default)]
    pub files: Option<PathBuf>,
    /// Command line as typed.
    pub command: Vec<String>,
    /// From where it was measured.
    pub vantage: String,
    /// Process id, while it runs.
    pub pid: u32,
    /// The machine.
    pub machine: Machine,
    /// Worker threads.
    pub workers: usize,
    /// When second 0 of the interval log began by the client's clock, in Unix seconds.
    #[serde(default)]
    pub origin_unix_s: f64,
    /// Number (from 0) and count, when the run is one shard of several.
    #[serde(default)]
    pub shard: Option<(u64, u64)>,
    /// Stores in order.
    pub stores: Vec<StoreFacts>,
}

/// Which keys below its roots a run may have created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ownership {
    /// Those of the datasets of its experiment.
    #[default]
    Datasets,
    /// All of them.
    Everything,
}

/// One store as the run found it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct StoreFacts {
    /// As the user wrote it.
    pub url: String,
    /// Kind of store.
    pub provider: String,
    /// `scheme://host:port`.
    pub endpoint: String,
    /// The region that it is in, where that is known.
    #[serde(default)]
    pub region: Option<String>,
    /// The storage class that it writes, where it is not the usual one.
    #[serde(default)]
    pub storage_class: Option<String>,
    /// Addresses in use.
    pub addresses: Vec<String>,
    /// What signatures cover.
    pub signing: String,
    /// Prefix of all keys of this run.
    pub root: String,
    /// TCP handshake before the run, in milliseconds: about one round trip.
    pub rtt_ms: Option<f64>,
    /// TLS handshake before the run, in milliseconds.
    pub tls_ms: Option<f64>,
    /// Store's clock minus ours, in seconds (the Date header has whole seconds).
    pub clock_offset_s: Option<i64>,
    /// Whether the run wrote there and has not cleaned up yet.
    pub uncleaned: bool,
}

/// A run directory being written.
pub struct RunDirectory {
    path: PathBuf,
    log: IntervalLog,
    operations: Option<OperationLog>,
    /// The first error of the disk; later ones are consequences.
    pub disk_error: Option<io::Error>,
}

impl RunDirectory {
    /// Creates `<out>/<run-id>/`, which must not exist, with the experiment in it.
    ///
    /// # Errors
    /// When the directory exists or cannot be written.
    pub fn create(out: &Path, run_id: &str, experiment: &str, operations: bool) -> io::Result<RunDirectory> {
        let path = out.join(run_id);
        fs::create_dir_all(out)?;
        fs::create_dir(&path)?;
        json::write_whole(&path.join("experiment.toml"), experiment)?;
        let log = IntervalLog::create(&path.join("intervals.arrows"))?;
        let operations =
            if operations { Some(OperationLog::create(&path.join("operations.arrows"))?) } else { None };
        Ok(RunDirectory { path, log, operations, disk_error: None })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `environment.json`.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn environment(&self, environment: &Environment) -> io::Result<()> {
        write_environment(&self.path, environment)
    }

    /// Adds a row to the interval log; an error is kept, the run goes on.
    pub fn second(&mut self, place: Place<'_>, row: &SecondRow<'_>) {
        if self.disk_error.is_none() {
            self.disk_error = self.log.add(place, row).err();
        }
    }

    /// Adds an operation to the operation log, where there is one; an error is kept, the run goes on.
    pub fn operation(&mut self, place: Place<'_>, operation: &Logged) {
        if let Some(log) = &mut self.operations
            && self.disk_error.is_none()
        {
            self.disk_error = log.add(place, operation).err();
        }
    }

    /// Writes `result.json`; an error is kept, the run goes on.
    pub fn result(&mut self, result: &RunResult) {
        let written = json::write_whole(&self.path.join("result.json"), &json::to_string(result));
        if self.disk_error.is_none() {
            self.disk_error = written.err();
        }
    }

    /// Brings the interval log to the disk.
    pub fn flush(&mut self) {
        if self.disk_error.is_none() {
            let operations = self.operations.as_mut().map_or(Ok(()), OperationLog::flush);
            self.disk_error = self.log.flush().and(operations).err();
        }
    }

    /// Ends the interval log.
    ///
    /// # Errors
    /// The first error of the disk during the whole run.
    pub fn finish(self) -> io::Result<()> {
        match self.disk_error {
            Some(error) => Err(error),
            None => {
                self.operations.map_or(Ok(()), OperationLog::finish)?;
                self.log.finish()
            }
        }
    }
}

/// Writes `environment.json` into a run directory.
///
/// # Errors
/// When the disk is full.
pub fn write_environment(path: &Path, environment: &Environment) -> io::Result<()> {
    let text = serde_json::to_string_pretty(environment).map_err(io::Error::other)?;
    json::write_whole(&path.join("environment.json"), &(text + "\n"))
}

/// Reads `environment.json` of a run directory.
///
/// # Errors
/// When there is none, or it is not one.
pub fn read_environment(path: &Path) -> io::Result<Environment> {
    let text = fs::read_to_string(path.join("environment.json"))?;
    serde_json::from_str(&text).map_err(io::Error::other)
}
