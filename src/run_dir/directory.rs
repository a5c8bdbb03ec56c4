//! The run directory: `experiment.toml`, `environment.json`, `result.json`, `intervals.arrows`. It never
//! contains secrets.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::intervals::{IntervalLog, Place};
use super::json;
use super::operations::OperationLog;
use super::run::Run;
use super::seconds::series_since;
use crate::machine::Machine;
use crate::recorder::collector::SecondRow;
use crate::recorder::log::LogRecord;
use crate::summary::estimates::confidence_intervals;
use crate::summary::result::RunResult;
use crate::summary::series::LatencyKind;

/// Latencies whose histograms reports and confidence intervals need.
pub const LATENCIES: [LatencyKind; 2] = [LatencyKind::Service, LatencyKind::Response];

/// Conditions of a run that the experiment does not describe and that are needed to repeat it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct Environment {
    /// Version of Plimsoll.
    pub version: String,
    /// Id of the run.
    #[serde(default)]
    pub run: String,
    /// Keys that the run may have created below its roots.
    #[serde(default)]
    pub owns: Ownership,
    /// Directory of local files that the run created and `plimsoll clean` removes; `None` if there is none.
    #[serde(default)]
    pub files: Option<PathBuf>,
    /// Command line of the run.
    pub command: Vec<String>,
    /// Location of the client, from `--vantage`; may be empty.
    pub vantage: String,
    /// Process id of the run.
    pub pid: u32,
    /// Machine that ran the client.
    pub machine: Machine,
    /// Number of worker threads.
    pub workers: usize,
    /// Start of second 0 of the interval log by the client's clock, in Unix seconds.
    #[serde(default)]
    pub origin_unix_s: f64,
    /// Number of the shard (from 0) and number of shards. `None` if the run is not a shard.
    #[serde(default)]
    pub shard: Option<(u64, u64)>,
    /// Stores in the order of the experiment.
    pub stores: Vec<StoreFacts>,
}

/// Keys below its roots that a run may have created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ownership {
    /// Keys of the datasets of its experiment.
    #[default]
    Datasets,
    /// All keys below its roots.
    Everything,
}

/// Facts about a store at the start of the run.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct StoreFacts {
    /// URL as the user wrote it, without credentials.
    pub url: String,
    /// Provider of the store.
    pub provider: String,
    /// Endpoint in the form `scheme://host:port`.
    pub endpoint: String,
    /// Region of the store; `None` if unknown.
    #[serde(default)]
    pub region: Option<String>,
    /// Storage class of written objects; `None` for the default class.
    #[serde(default)]
    pub storage_class: Option<String>,
    /// IP addresses in use.
    pub addresses: Vec<String>,
    /// Part of the request that signatures cover, for people.
    pub signing: String,
    /// Prefix of all keys that the run creates.
    pub root: String,
    /// Duration of a TCP handshake before the run, in milliseconds: about one round trip.
    pub rtt_ms: Option<f64>,
    /// Duration of a TLS handshake before the run, in milliseconds; `None` without TLS.
    pub tls_ms: Option<f64>,
    /// Store's clock minus the client's clock, in whole seconds, from the Date header.
    pub clock_offset_s: Option<i64>,
    /// True if the run wrote to the store and has not cleaned up yet.
    pub uncleaned: bool,
}

/// Writer of a run directory.
pub struct RunDirectory {
    path: PathBuf,
    experiment: String,
    log: IntervalLog,
    operations: Option<OperationLog>,
    /// First error while writing a file; later errors are consequences of it.
    pub disk_error: Option<io::Error>,
}

impl RunDirectory {
    /// Creates `<out>/<run-id>/`, writes the experiment and opens the logs. `operations` enables the operation log.
    ///
    /// # Errors
    /// Fails if the directory already exists or cannot be written.
    pub fn create(out: &Path, run_id: &str, experiment: &str, operations: bool) -> io::Result<RunDirectory> {
        let path = out.join(run_id);
        fs::create_dir_all(out)?;
        fs::create_dir(&path)?;
        json::write_whole(&path.join("experiment.toml"), experiment)?;
        let log = IntervalLog::create(&path.join("intervals.arrows"))?;
        let operations =
            if operations { Some(OperationLog::create(&path.join("operations.arrows"))?) } else { None };
        Ok(RunDirectory { path, experiment: experiment.to_string(), log, operations, disk_error: None })
    }

    /// Returns the path of the run directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `environment.json`.
    ///
    /// # Errors
    /// Fails if the file cannot be written, for example because the disk is full.
    pub fn environment(&self, environment: &Environment) -> io::Result<()> {
        write_environment(&self.path, environment)
    }

    /// Adds a row to the interval log. Stores an error in `disk_error` and does not stop the run.
    pub fn second(&mut self, place: Place<'_>, row: &SecondRow<'_>) {
        if self.disk_error.is_none() {
            self.disk_error = self.log.add(place, row).err();
        }
    }

    /// Adds an operation to the operation log, if it is enabled. Stores an error in `disk_error` and does not
    /// stop the run.
    pub fn operation(&mut self, place: Place<'_>, operation: &LogRecord) {
        if let Some(log) = &mut self.operations
            && self.disk_error.is_none()
        {
            self.disk_error = log.add(place, operation).err();
        }
    }

    /// Writes `result.json`. Stores an error in `disk_error` and does not stop the run.
    pub fn result(&mut self, result: &RunResult) {
        let written = json::write_whole(&self.path.join("result.json"), &json::to_string(result));
        if self.disk_error.is_none() {
            self.disk_error = written.err();
        }
    }

    /// Writes the buffered rows of both logs to their files.
    pub fn flush(&mut self) {
        if self.disk_error.is_none() {
            let operations = self.operations.as_mut().map_or(Ok(()), OperationLog::flush);
            self.disk_error = self.log.flush().and(operations).err();
        }
    }

    /// Finishes the logs, adds the confidence intervals to `result`, and writes `environment.json` and `result.json`.
    ///
    /// Returns the run, and the first error while writing a file since the run began.
    pub fn finish(self, mut result: RunResult, environment: Environment) -> (Run, Option<io::Error>) {
        let RunDirectory { path, experiment, log, operations, mut disk_error } = self;
        let mut check = |done: io::Result<()>| {
            if let Err(error) = done {
                disk_error.get_or_insert(error);
            }
        };
        check(operations.map_or(Ok(()), OperationLog::finish));
        check(log.finish());
        check(write_environment(&path, &environment));
        let series =
            series_since(&path, environment.origin_unix_s, &result, &LATENCIES).unwrap_or_else(|error| {
                check(Err(error));
                Vec::new()
            });
        result.confidence = confidence_intervals(&series);
        check(json::write_whole(&path.join("result.json"), &json::to_string(&result)));
        (Run { path, result, environment, experiment, series }, disk_error)
    }
}

/// Writes `environment.json` into a run directory.
///
/// # Errors
/// Fails if the file cannot be written, for example because the disk is full.
pub fn write_environment(path: &Path, environment: &Environment) -> io::Result<()> {
    let text = serde_json::to_string_pretty(environment).map_err(io::Error::other)?;
    json::write_whole(&path.join("environment.json"), &(text + "\n"))
}

/// Reads `environment.json` of a run directory.
///
/// # Errors
/// Fails if the file does not exist or is invalid.
pub fn read_environment(path: &Path) -> io::Result<Environment> {
    let text = fs::read_to_string(path.join("environment.json"))?;
    serde_json::from_str(&text).map_err(io::Error::other)
}
