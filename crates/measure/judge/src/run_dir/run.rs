//! A finished run in memory, either just written or read from its directory.

use std::path::{Path, PathBuf};

use plimsoll_base::files::read_text;

use super::MAX_TEXT;
use super::environment::{Environment, read_environment};
use super::json;
use super::seconds::{by_size, series};
use crate::summary::consistency;
use crate::summary::objective::Objective;
use crate::summary::objectives;
use crate::summary::result::RunResult;
use crate::summary::series::{LatencyKind, Series};
use plimsoll_workload::schedule::Role;

/// The contents of a run directory.
pub struct Run {
    /// Path of the run directory.
    pub path: PathBuf,
    /// The result, as in `result.json`.
    pub result: RunResult,
    /// The environment, as in `environment.json`.
    pub environment: Environment,
    /// The resolved experiment, as in `experiment.toml`.
    pub experiment: String,
    /// All counts by second, from `intervals.arrows`.
    pub series: Vec<Series>,
    /// Service times by second and size of the object, from `size_classes.arrows`.
    pub by_size: Vec<Series>,
}

impl Run {
    /// Returns the resolved experiment as TOML; an empty table if the text is not valid TOML.
    pub fn experiment_table(&self) -> toml::Table {
        self.experiment.parse().unwrap_or_default()
    }

    /// Returns the series of all operations, and then the series by size of the object.
    pub fn all_series(&self) -> impl Iterator<Item = &Series> + Clone {
        self.series.iter().chain(&self.by_size)
    }

    /// Returns the stores that the run measured, in the order in which the experiment lists them.
    pub fn measured(&self) -> Vec<&str> {
        let measured =
            |store: &&str| self.series.iter().any(|s| s.role == Role::Measure && s.store == **store);
        self.result.stores().into_iter().filter(measured).collect()
    }

    /// Returns the measured series to which an objective applies. If it names no operation, all operations of a
    /// phase are combined into one series.
    pub fn subjects(&self, objective: &Objective) -> Vec<Series> {
        objectives::subjects(self.all_series(), objective)
    }
}

/// Error of a run directory that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// The path is not a directory.
    #[error("{0}; specify a run directory, such as plimsoll-runs/<run-id>")]
    NoDirectory(String),
    /// `result.json` cannot be read.
    #[error(transparent)]
    Result(#[from] json::ReadError),
    /// Another file of the directory is missing or damaged.
    #[error("{file}: {reason}; the run directory is damaged")]
    Damaged {
        /// Path of the file.
        file: String,
        /// Reason why the file cannot be used.
        reason: String,
    },
    /// The interval log cannot be read.
    #[error(transparent)]
    Intervals(std::io::Error),
    /// The files do not belong to one run.
    #[error("{path}: {problem}")]
    Inconsistent {
        /// Path of the directory.
        path: String,
        /// The first contradiction.
        problem: String,
    },
}

/// Reads a run directory; `latencies` lists the histograms to read.
///
/// # Errors
/// See [`RunDirError`].
pub fn read(path: &Path, latencies: &[LatencyKind]) -> Result<Run, RunDirError> {
    let shown = path.display();
    if !path.is_dir() {
        let problem = if path.exists() { "is a file" } else { "does not exist" };
        return Err(RunDirError::NoDirectory(format!("{shown}: {problem}")));
    }
    let result = json::read(path)?;
    let damaged = |name: &str, reason: &dyn std::fmt::Display| RunDirError::Damaged {
        file: path.join(name).display().to_string(),
        reason: reason.to_string(),
    };
    let environment = read_environment(path).map_err(|e| damaged("environment.json", &e))?;
    let text = read_text(&path.join("experiment.toml"), MAX_TEXT);
    let experiment = text.map_err(|e| damaged("experiment.toml", &e))?;
    experiment.parse::<toml::Table>().map_err(|e| damaged("experiment.toml", &e.message()))?;
    let series = series(path, &result, latencies).map_err(RunDirError::Intervals)?;
    if let Some(problem) = consistency::problem(&result, &series) {
        return Err(RunDirError::Inconsistent { path: shown.to_string(), problem });
    }
    let by_size = by_size(path, &result).map_err(RunDirError::Intervals)?;
    Ok(Run { path: path.to_path_buf(), result, environment, experiment, series, by_size })
}
