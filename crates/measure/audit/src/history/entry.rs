//! Summaries of runs, read from the small part of their results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plimsoll_base::files::read_text;
use serde::{Deserialize, Serialize};

use plimsoll_judge::run_dir::MAX_TEXT;
use plimsoll_judge::summary::figure_selector::FigureSelector;
use plimsoll_judge::summary::result::ConfidenceInterval;

/// Fields of `result.json` that a summary needs.
#[derive(Deserialize)]
struct Results {
    run: Info,
    #[serde(default)]
    confidence: Vec<ConfidenceInterval>,
    capacity: Option<Found>,
}

/// Result of a search for the capacity.
#[derive(Deserialize)]
struct Found {
    per_s: Option<f64>,
}

#[derive(Deserialize)]
struct Info {
    id: String,
    experiment: String,
    started_at: String,
    #[serde(default)]
    stores: Vec<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    partial: bool,
}

/// Summary of a run.
#[derive(Debug, Clone, Serialize)]
pub struct RunEntry {
    /// Directory of the run.
    pub path: PathBuf,
    /// Id of the run.
    pub id: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Start time, RFC 3339.
    pub started_at: String,
    /// URLs of the stores, without credentials.
    pub stores: Vec<String>,
    /// Labels of the run.
    pub labels: BTreeMap<String, String>,
    /// True if the run did not complete.
    pub partial: bool,
    /// Capacity in successful operations per second, if the run searched for it and found it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_per_s: Option<f64>,
    /// Figures with their confidence intervals.
    #[serde(skip)]
    pub figures: Vec<ConfidenceInterval>,
}

impl RunEntry {
    /// Reads the summary of a run directory; `None` if it is not one, or if its result cannot be read.
    pub fn read(path: &Path) -> Option<RunEntry> {
        let text = read_text(&path.join("result.json"), MAX_TEXT).ok()?;
        let Results { run, confidence, capacity } = serde_json::from_str(&text).ok()?;
        Some(RunEntry {
            path: path.to_path_buf(),
            id: run.id,
            experiment: run.experiment,
            started_at: run.started_at,
            stores: run.stores,
            labels: run.labels,
            partial: run.partial,
            capacity_per_s: capacity.and_then(|found| found.per_s),
            figures: confidence,
        })
    }

    /// Returns the experiment of the run; empty for an imported run, which has none.
    pub fn settings(&self) -> toml::Table {
        let text = read_text(&self.path.join("experiment.toml"), MAX_TEXT).unwrap_or_default();
        text.parse().unwrap_or_default()
    }

    /// Returns the first figure that a target names; with a store, only figures of that store. Without an operation,
    /// this is the figure of the first operation. The steps of a ramp or of a search are not figures of the run.
    pub fn figure(&self, target: &FigureSelector, store: Option<&str>) -> Option<&ConfidenceInterval> {
        self.figures.iter().find(|f| {
            f.metric == target.metric
                && f.step.is_none()
                && target.size.is_none()
                && target.phase.as_ref().is_none_or(|phase| *phase == f.phase)
                && target.operation.as_ref().is_none_or(|name| *name == f.operation.name())
                && store.is_none_or(|store| f.store == store)
        })
    }
}

/// Conditions on the runs of a history. All must be met.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Substring of the URL of a store.
    pub store: Option<String>,
    /// Name of the experiment.
    pub experiment: Option<String>,
    /// Labels with their values; an empty value accepts any.
    pub labels: Vec<(String, String)>,
    /// Earliest start, as a prefix of an RFC 3339 time such as `2026-11` or `2026-11-20`.
    pub since: Option<String>,
}

impl Filter {
    /// Returns true if the run meets all conditions.
    pub fn accepts(&self, entry: &RunEntry) -> bool {
        let label = |(key, value): &(String, String)| {
            entry.labels.get(key).is_some_and(|own| value.is_empty() || own == value)
        };
        self.store.as_ref().is_none_or(|text| entry.stores.iter().any(|store| store.contains(text)))
            && self.experiment.as_ref().is_none_or(|name| *name == entry.experiment)
            && self.labels.iter().all(label)
            && self.since.as_ref().is_none_or(|since| entry.started_at.as_str() >= since.as_str())
    }
}

/// Reads the summaries of all runs below a directory, in order of their starts. Directories that are not runs are
/// skipped.
///
/// # Errors
/// Returns the error of reading the directory.
pub fn entries(directory: &Path) -> std::io::Result<Vec<RunEntry>> {
    let paths: Vec<PathBuf> =
        std::fs::read_dir(directory)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = paths.len().div_ceil(threads).max(1);
    let mut out: Vec<RunEntry> = std::thread::scope(|scope| {
        let read =
            |paths: &[PathBuf]| paths.iter().filter_map(|path| RunEntry::read(path)).collect::<Vec<_>>();
        let reading: Vec<_> = paths.chunks(share).map(|paths| scope.spawn(move || read(paths))).collect();
        reading.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    });
    out.sort_by(|a, b| (&a.started_at, &a.id).cmp(&(&b.started_at, &b.id)));
    Ok(out)
}
