//! Experiments: experiment files and the short forms of `plimsoll run`, both resolved into the same phases.
//!
//! [`spec`] is the file as a person writes it. [`resolve`] validates it and turns it into an [`Experiment`] with
//! every default filled in; no later code validates the file again. [`to_toml`] converts an experiment back into a
//! file. [`short`] builds the experiments behind `run get`, `run put` and the other short forms. [`locate`] finds
//! the line of an error and applies `--set`. [`logs`] reads requests from logs of servers and tools, and [`fit`] writes
//! an experiment that resembles them.
//!
//! Uses `workload`; `judge`, `session` and what is above them use it.

mod caches;
mod contents;
pub mod estimate;
pub mod field_specs;
pub mod fit;
pub mod locate;
pub mod logs;
pub mod objects;
pub mod parquet_scan;
mod phase_fields;
mod ranges;
mod read_after;
pub mod records;
pub mod replay;
pub mod resolve;
pub mod short;
pub mod spec;
pub mod sweep;
pub mod to_toml;
pub mod ycsb;

use std::collections::BTreeMap;

use self::spec::NamedStore;
use caches::limit_cold;
use plimsoll_base::units::parse_duration;
use plimsoll_workload::schedule::cache::CacheState;
use plimsoll_workload::schedule::plan::{Layout, Order};
use plimsoll_workload::schedule::{Phase, Role};

/// An experiment with every default filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Name of the experiment.
    pub name: String,
    /// Purpose of the experiment, as free text.
    pub description: String,
    /// Seed for all random choices of the workload and the schedule.
    pub seed: u64,
    /// Stores to run on, as written: URLs or names.
    pub stores: Vec<String>,
    /// Stores that the experiment file defines, by name.
    pub named: BTreeMap<String, NamedStore>,
    /// Number of passes through the warm-up and measured phases; prepare phases run once.
    pub repeats: u32,
    /// Order in which several stores take turns.
    pub order: Order,
    /// Maximum length of an interleaved block, in nanoseconds.
    pub block_ns: u64,
    /// Length of the unrecorded warm-up after each change of store, in nanoseconds.
    pub rewarm_ns: u64,
    /// Phases, in the order in which they run.
    pub phases: Vec<Phase>,
}

impl Experiment {
    /// Returns true if the experiment has a prepare phase, which writes objects before the measurement.
    pub fn prepares(&self) -> bool {
        self.phases.iter().any(|p| p.role == Role::Prepare)
    }

    /// Returns the stores, with each name that the experiment file defines replaced by its URL.
    pub fn store_urls(&self) -> Vec<String> {
        let url = |name: &String| self.named.get(name).map_or(name, |named| &named.url).clone();
        self.stores.iter().map(url).collect()
    }

    /// Sets the deadline of every phase; `None` leaves the deadlines unchanged.
    ///
    /// # Errors
    /// If the deadline is not a positive duration; the message names `--timeout`.
    pub fn set_timeout(&mut self, timeout: Option<&str>) -> Result<(), String> {
        let Some(text) = timeout else { return Ok(()) };
        let ns = parse_duration(text).map_err(|e| format!("--timeout: {e}"))?;
        if ns == 0 {
            return Err(format!(
                "--timeout {text}: the deadline must be above 0; omit --timeout for the default"
            ));
        }
        self.phases.iter_mut().for_each(|phase| phase.timeout_ns = ns);
        Ok(())
    }

    /// Sets the number of repeats. The cold phases of all repeats together read each object once.
    ///
    /// # Errors
    /// If a cold phase has fewer objects than repeats; the message names `--repeats`.
    pub fn set_repeats(&mut self, repeats: u32) -> Result<(), String> {
        self.repeats = repeats;
        for phase in self.phases.iter_mut().filter(|phase| phase.cache == Some(CacheState::Cold)) {
            let count = phase.workload.read.as_ref().map_or(0, |read| read.count);
            limit_cold(&mut phase.limit, count, repeats).ok_or_else(|| {
                format!(
                    "--repeats {repeats}: phase '{}' is cold and has fewer objects than repeats; write more objects",
                    phase.name
                )
            })?;
        }
        Ok(())
    }

    /// Returns the layout of the phases over the stores.
    pub fn layout(&self) -> Layout {
        let Experiment { repeats, order, block_ns, rewarm_ns, seed, .. } = *self;
        Layout { repeats, order, block_ns, rewarm_ns, seed }
    }
}

/// An error in an experiment: the field and a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field, such as `phase.get.objects.size`; empty for the experiment as a whole.
    pub path: String,
    /// Description of the error and of its fix.
    pub message: String,
}

impl Problem {
    /// Creates a problem with the field at `path`.
    pub fn new(path: &str, message: impl Into<String>) -> Problem {
        Problem { path: path.into(), message: message.into() }
    }
}

/// The built-in experiments, as pairs of name and TOML text.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("quickstart", include_str!("../experiments/quickstart.toml")),
    ("throughput", include_str!("../experiments/throughput.toml")),
    ("prefixes", include_str!("../experiments/prefixes.toml")),
    ("micro", include_str!("../experiments/micro.toml")),
    ("ramp", include_str!("../experiments/ramp.toml")),
    ("ycsb", include_str!("../experiments/ycsb.toml")),
    ("upload", include_str!("../experiments/upload.toml")),
    ("upload-sweep", include_str!("../experiments/upload-sweep.toml")),
    ("checkpoint", include_str!("../experiments/checkpoint.toml")),
    ("shards", include_str!("../experiments/shards.toml")),
    ("model-load", include_str!("../experiments/model-load.toml")),
    ("kv-cache", include_str!("../experiments/kv-cache.toml")),
    ("nix-cache", include_str!("../experiments/nix-cache.toml")),
    ("backup", include_str!("../experiments/backup.toml")),
    ("log-ingest", include_str!("../experiments/log-ingest.toml")),
];

/// An error in loading an experiment.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// No built-in experiment has this name, and no readable file has this path.
    #[error(
        "'{name}' is neither an experiment nor a readable file ({reason}); {suggestion}`plimsoll list experiments` shows \
         all experiments"
    )]
    NotFound {
        /// The name or path as written.
        name: String,
        /// Question that names the experiment that was probably meant; empty if no name is close.
        suggestion: String,
        /// The system's reason for not reading the file.
        reason: String,
    },
    /// The file contains an error at a known line.
    #[error("{file}:{line}: {message}")]
    At {
        /// Name of the file or of the built-in experiment.
        file: String,
        /// Line number, from 1.
        line: usize,
        /// Description of the error and of its fix.
        message: String,
    },
    /// The value of a `--set` option is invalid.
    #[error("--set {set}: {message}")]
    Set {
        /// The option as written: `path=value`.
        set: String,
        /// Description of the error and of its fix.
        message: String,
    },
    /// A `--set` option cannot be applied.
    #[error(transparent)]
    Path(#[from] locate::SetError),
}

/// Names that `plimsoll run` accepts besides [`BUILT_IN`] and the short forms, with descriptions.
pub const SEARCHES: [(&str, &str); 8] = [
    ("canary", "One operation per interval without an end: metrics, outages, history by day"),
    ("capacity", "The highest throughput, or the highest rate within an objective, found in five minutes"),
    ("clients", "S3 client libraries and tools against one store, in turns"),
    ("consistency", "Reads, listings and conditional writes of shared keys, checked for linearizability"),
    ("contention", "Compare-and-swap on one object by number of writers"),
    ("durability", "Power cuts of a server on a simulated disk, and what it kept"),
    ("parquet", "Scans of Parquet files with the requests of DuckDB or pyarrow"),
    ("sync", "Transfers of a directory, by Plimsoll and by other tools"),
];

/// Returns the experiment whose name is closest to `name`; `None` if no name is close.
pub fn closest(name: &str) -> Option<&'static str> {
    if name == "knee" {
        return Some("capacity");
    }
    let searches = SEARCHES.iter().map(|(name, _)| *name);
    let names = BUILT_IN.iter().map(|(name, _)| *name).chain(short::FORMS).chain(searches);
    let close = names.map(|known| (strsim::damerau_levenshtein(name, known), known));
    close
        .filter(|(edits, known)| *edits <= 2 && *edits * 2 < known.len().max(3))
        .min()
        .map(|(_, known)| known)
}

/// Loads a built-in experiment or a file and applies the `--set` options.
///
/// # Errors
/// Returns an [`ExperimentError`] if the experiment is not found or not valid, or if a `--set` option does not apply.
pub fn load(name: &str, sets: &[String]) -> Result<Experiment, ExperimentError> {
    if let Some((name, text)) = BUILT_IN.iter().find(|(n, _)| *n == name) {
        return resolve::parse(&format!("{name} (built in)"), text, sets);
    }
    let text = std::fs::read_to_string(name).map_err(|e| ExperimentError::NotFound {
        name: name.to_string(),
        suggestion: match closest(name) {
            Some(form) if form == name => {
                format!("{form} is a short form, which only `plimsoll run` accepts; ")
            }
            Some(close) => format!("did you mean {close}? "),
            None => String::new(),
        },
        reason: match e.kind() {
            std::io::ErrorKind::NotFound => "there is no such file".into(),
            _ => e.to_string(),
        },
    })?;
    resolve::parse(name, &text, sets)
}

#[cfg(test)]
mod load_tests;
