//! The run directory: `experiment.toml`, `environment.json`, `result.json`, `intervals.arrows`, `SHA256SUMS`, and for
//! objects of several sizes `size_classes.arrows`. It never contains secrets.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::environment::{Environment, write_environment};
use super::intervals::{IntervalKey, IntervalLog};
use super::json;
use super::operations::OperationLog;
use super::run::Run;
use super::seconds::{series_since, sizes_since};
use super::size_log::SizeLog;
use super::sums;
use super::write::write_whole;
use crate::summary::estimates::confidence_intervals;
use crate::summary::objective::Objective;
use crate::summary::objectives::judge;
use crate::summary::result::RunResult;
use crate::summary::series::LatencyKind;
use plimsoll_recorder::collector::SecondRow;
use plimsoll_recorder::log::LogRecord;
use plimsoll_recorder::tally::Tally;

/// Latencies whose histograms reports and confidence intervals need.
pub const LATENCIES: [LatencyKind; 2] = [LatencyKind::Service, LatencyKind::Response];

/// Writer of a run directory.
pub struct RunDirectory {
    path: PathBuf,
    experiment: String,
    log: IntervalLog,
    sizes: SizeLog,
    operations: Option<OperationLog>,
    /// Objectives to judge when the run ends.
    pub objectives: Vec<Objective>,
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
        write_whole(&path.join("experiment.toml"), experiment)?;
        let log = IntervalLog::create(&path.join("intervals.arrows"))?;
        let operations =
            if operations { Some(OperationLog::create(&path.join("operations.arrows"))?) } else { None };
        Ok(RunDirectory {
            objectives: Vec::new(),
            sizes: SizeLog::new(&path),
            path,
            experiment: experiment.to_string(),
            log,
            operations,
            disk_error: None,
        })
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
    pub fn second(&mut self, place: IntervalKey<'_>, row: &SecondRow<'_>) {
        if self.disk_error.is_none() {
            let sizes = &mut self.sizes;
            self.disk_error = self.log.add(place, row).and_then(|()| sizes.add(place, row)).err();
        }
    }

    /// Adds a row with any name of an operation to the log of the size classes, as [`RunDirectory::second`].
    pub fn size_second(&mut self, place: IntervalKey<'_>, second: u64, operation: &str, tally: &Tally) {
        if self.disk_error.is_none() {
            self.disk_error = self.sizes.add_named(place, second, operation, tally).err();
        }
    }

    /// Adds an operation to the operation log, if it is enabled. Stores an error in `disk_error` and does not
    /// stop the run.
    pub fn operation(&mut self, place: IntervalKey<'_>, operation: &LogRecord) {
        if let Some(log) = &mut self.operations
            && self.disk_error.is_none()
        {
            self.disk_error = log.add(place, operation).err();
        }
    }

    /// Writes `result.json`. Stores an error in `disk_error` and does not stop the run.
    pub fn result(&mut self, result: &RunResult) {
        let written = write_whole(&self.path.join("result.json"), &json::to_string(result));
        if self.disk_error.is_none() {
            self.disk_error = written.err();
        }
    }

    /// Writes the buffered rows of both logs to their files.
    pub fn flush(&mut self) {
        if self.disk_error.is_none() {
            let operations = self.operations.as_mut().map_or(Ok(()), OperationLog::flush);
            self.disk_error = self.log.flush().and(self.sizes.flush()).and(operations).err();
        }
    }

    /// Finishes the logs, adds the confidence intervals and the judged objectives to `result`, and writes
    /// `environment.json`, `result.json` and the checksums of all files.
    ///
    /// Returns the run, and the first error while writing a file since the run began.
    pub fn finish(self, mut result: RunResult, environment: Environment) -> (Run, Option<io::Error>) {
        let RunDirectory { path, experiment, log, sizes, operations, objectives, mut disk_error } = self;
        let mut check = |done: io::Result<()>| {
            if let Err(error) = done {
                disk_error.get_or_insert(error);
            }
        };
        check(operations.map_or(Ok(()), OperationLog::finish));
        check(log.finish());
        check(sizes.finish());
        check(write_environment(&path, &environment));
        let series =
            series_since(&path, environment.origin_unix_s, &result, &LATENCIES).unwrap_or_else(|error| {
                check(Err(error));
                Vec::new()
            });
        result.confidence = confidence_intervals(&series);
        if !objectives.is_empty() {
            let latencies = [LatencyKind::Service, LatencyKind::Response, LatencyKind::FirstByte];
            let all = series_since(&path, environment.origin_unix_s, &result, &latencies);
            let by_size = sizes_since(&path, environment.origin_unix_s, &result).unwrap_or_default();
            let all = all.as_deref().unwrap_or(&series);
            result.objectives = judge(all.iter().chain(&by_size), &objectives);
        }
        check(write_whole(&path.join("result.json"), &json::to_string(&result)));
        check(sums::write(&path));
        let by_size = sizes_since(&path, environment.origin_unix_s, &result).unwrap_or_default();
        (Run { path, result, environment, experiment, series, by_size }, disk_error)
    }
}
