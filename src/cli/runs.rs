//! Run directories as the commands that judge and show take them: read whole, and held against themselves.

use std::path::{Path, PathBuf};

use super::exit::Exit;
use crate::run_dir::directory::{Environment, read_environment};
use crate::run_dir::json;
use crate::run_dir::seconds::series;
use crate::summary::consistency;
use crate::summary::result::RunResult;
use crate::summary::series::{Clocked, Series};

/// A run, read.
pub struct Run {
    /// Its directory.
    pub path: PathBuf,
    /// Its result.
    pub result: RunResult,
    /// Its environment.
    pub environment: Environment,
    /// Its experiment, resolved.
    pub experiment: toml::Table,
    /// Everything by second.
    pub series: Vec<Series>,
}

impl Run {
    /// Returns the stores that it measured, in the order in which the experiment lists them.
    pub fn measured(&self) -> Vec<&str> {
        let measured = |store: &&str| self.series.iter().any(|s| s.role == "measure" && s.store == **store);
        self.result.stores().into_iter().filter(measured).collect()
    }
}

/// Reads a run directory with these latencies.
///
/// # Errors
/// 2 when it is none, is damaged, or its files do not belong together.
pub fn read(path: &Path, latencies: &[Clocked]) -> Result<Run, Exit> {
    if !path.is_dir() {
        let what = if path.exists() { "is a file" } else { "is not there" };
        return Err(Exit::input(format!(
            "{}: {what}; name a run directory, such as plimsoll-runs/<run-id>",
            path.display()
        )));
    }
    let result = json::read(path).map_err(Exit::input)?;
    let of = |name: &str, e: &dyn std::fmt::Display| {
        Exit::input(format!("{}: {e}; the run directory is damaged", path.join(name).display()))
    };
    let environment = read_environment(path).map_err(|e| of("environment.json", &e))?;
    let text =
        std::fs::read_to_string(path.join("experiment.toml")).map_err(|e| of("experiment.toml", &e))?;
    let experiment = text.parse().map_err(|e: toml::de::Error| of("experiment.toml", &e.message()))?;
    let series = series(path, &result, latencies).map_err(Exit::input)?;
    if let Some(problem) = consistency::problem(&result, &series) {
        return Err(Exit::input(format!("{}: {problem}", path.display())));
    }
    Ok(Run { path: path.to_path_buf(), result, environment, experiment, series })
}
