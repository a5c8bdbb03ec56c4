//! What to measure: experiment files and the short forms of `plimsoll run`, both resolved into the same phases.
//!
//! [`written`] is the file as people write it, [`resolve`] turns it into an [`Experiment`] with every default filled in;
//! after that nothing is validated again; [`back`] is the way back. [`short`] writes the experiments behind `run get`, `run put` and the
//! like, [`locate`] finds the line of an error and does what `--set` asks.

pub mod estimate;
pub mod field_specs;
pub mod locate;
pub mod objects;
pub mod records;
pub mod resolve;
pub mod short;
pub mod spec;
pub mod sweep;
pub mod to_toml;
pub mod ycsb;

use std::collections::BTreeMap;

use self::spec::NamedStore;
use crate::schedule::plan::{Layout, Order};
use crate::schedule::{Phase, Role};
use crate::units::parse_duration;

/// An experiment, resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Name.
    pub name: String,
    /// What it is good for.
    pub description: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Stores as written: URLs or names.
    pub stores: Vec<String>,
    /// Stores by name that the experiment brings along.
    pub named: BTreeMap<String, NamedStore>,
    /// How often the phases that are not `prepare` are gone through.
    pub repeats: u32,
    /// Order of several stores.
    pub order: Order,
    /// Longest block of interleaving, in nanoseconds.
    pub block_ns: u64,
    /// Unrecorded warm-up after a change of store, in nanoseconds.
    pub rewarm_ns: u64,
    /// Phases in order.
    pub phases: Vec<Phase>,
}

impl Experiment {
    /// Whether it writes anything before it measures.
    pub fn prepares(&self) -> bool {
        self.phases.iter().any(|p| p.role == Role::Prepare)
    }

    /// The stores as URLs where the experiment brings their names along.
    pub fn store_urls(&self) -> Vec<String> {
        let url = |name: &String| self.named.get(name).map_or(name, |named| &named.url).clone();
        self.stores.iter().map(url).collect()
    }

    /// Gives every phase this deadline, if there is one.
    ///
    /// # Errors
    /// If it is not a positive time; the message names `--timeout`.
    pub fn set_timeout(&mut self, timeout: Option<&str>) -> Result<(), String> {
        let Some(text) = timeout else { return Ok(()) };
        let ns = parse_duration(text).map_err(|e| format!("--timeout: {e}"))?;
        if ns == 0 {
            return Err(format!("--timeout {text}: a deadline must be above 0; omit it for 60s"));
        }
        self.phases.iter_mut().for_each(|phase| phase.timeout_ns = ns);
        Ok(())
    }

    /// How its phases are laid out over stores.
    pub fn layout(&self) -> Layout {
        let Experiment { repeats, order, block_ns, rewarm_ns, seed, .. } = *self;
        Layout { repeats, order, block_ns, rewarm_ns, seed }
    }
}

/// Something wrong in an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Which field: `phase.get.objects.size`; empty for the whole.
    pub path: String,
    /// What is wrong with it and how to fix it.
    pub message: String,
}

impl Problem {
    /// A problem with a field.
    pub fn new(path: &str, message: impl Into<String>) -> Problem {
        Problem { path: path.into(), message: message.into() }
    }
}

/// The built-in experiments: name and text.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("quickstart", include_str!("../../experiments/quickstart.toml")),
    ("throughput", include_str!("../../experiments/throughput.toml")),
    ("prefixes", include_str!("../../experiments/prefixes.toml")),
    ("micro", include_str!("../../experiments/micro.toml")),
    ("ramp", include_str!("../../experiments/ramp.toml")),
    ("ycsb", include_str!("../../experiments/ycsb.toml")),
    ("upload", include_str!("../../experiments/upload.toml")),
    ("upload-sweep", include_str!("../../experiments/upload-sweep.toml")),
];

/// Why an experiment was refused.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// There is no such experiment.
    #[error(
        "'{name}' is neither a built-in experiment ({known}) nor a file that can be read ({reason}); see `plimsoll list experiments`"
    )]
    NotFound {
        /// As written.
        name: String,
        /// Built-in names.
        known: String,
        /// Why the file could not be read.
        reason: String,
    },
    /// The file is wrong somewhere.
    #[error("{file}:{line}: {message}")]
    At {
        /// File name, or name of the built-in.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong and how to fix it.
        message: String,
    },
    /// A value of `--set` does not fit.
    #[error("--set {set}: {message}")]
    Set {
        /// As written.
        set: String,
        /// What is wrong and how to fix it.
        message: String,
    },
    /// `--set` could not be done.
    #[error(transparent)]
    Path(#[from] locate::SetError),
}

/// Reads a built-in experiment or a file, with the values of `--set`.
///
/// # Errors
/// See [`ExperimentError`].
pub fn load(name: &str, sets: &[String]) -> Result<Experiment, ExperimentError> {
    if let Some((name, text)) = BUILT_IN.iter().find(|(n, _)| *n == name) {
        return resolve::parse(&format!("{name} (built in)"), text, sets);
    }
    let text = std::fs::read_to_string(name).map_err(|e| ExperimentError::NotFound {
        name: name.to_string(),
        known: BUILT_IN.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", "),
        reason: e.to_string(),
    })?;
    resolve::parse(name, &text, sets)
}
