//! What to measure: experiment files and the short forms of `plimsoll run`, both resolved into the same phases.
//!
//! [`written`] is the file as people write it, [`resolve`] turns it into an [`Experiment`] with every default filled in;
//! after that nothing is validated again. [`short`] writes the experiments behind `run get`, `run put` and the like.

pub mod resolve;
pub mod short;
pub mod written;

use crate::schedule::Phase;

/// An experiment, resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Name.
    pub name: String,
    /// What it is good for.
    pub description: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Stores as written; run one after another.
    pub stores: Vec<String>,
    /// Phases in order.
    pub phases: Vec<Phase>,
}

/// The built-in experiments: name and text.
pub const BUILT_IN: &[(&str, &str)] = &[("quickstart", include_str!("../../experiments/quickstart.toml"))];

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
}

/// Reads a built-in experiment or a file.
///
/// # Errors
/// See [`ExperimentError`].
pub fn load(name: &str) -> Result<Experiment, ExperimentError> {
    if let Some((name, text)) = BUILT_IN.iter().find(|(n, _)| *n == name) {
        return resolve::parse(&format!("{name} (built in)"), text);
    }
    let text = std::fs::read_to_string(name).map_err(|e| ExperimentError::NotFound {
        name: name.to_string(),
        known: BUILT_IN.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", "),
        reason: e.to_string(),
    })?;
    resolve::parse(name, &text)
}
