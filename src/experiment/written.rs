//! The experiment file as written: every field optional that has a default, nothing interpreted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::Spanned;

/// The file.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentWritten {
    /// Name of the experiment.
    pub name: String,
    /// What it is good for.
    #[serde(default)]
    pub description: String,
    /// Seed of everything random.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Stores to run on, one after another; `--store` replaces them.
    #[serde(default)]
    pub stores: Vec<String>,
    /// Phases in order.
    #[serde(default)]
    pub phase: Vec<Spanned<PhaseWritten>>,
}

/// Seed where none is written.
pub const DEFAULT_SEED: u64 = 42;

fn default_seed() -> u64 {
    DEFAULT_SEED
}

/// One phase.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseWritten {
    /// Unique name.
    pub name: String,
    /// `prepare`, `warmup` or `measure` (the default).
    pub role: Option<String>,
    /// Weights by operation: `{ get = 45, put = 15 }`.
    pub operations: BTreeMap<String, u32>,
    /// Objects it works on.
    #[serde(default)]
    pub objects: ObjectsWritten,
    /// Closed loop: operations in flight (16).
    pub concurrency: Option<u64>,
    /// Open loop: intended operations per second, `500/s`.
    pub rate: Option<String>,
    /// Open loop: `constant` (the default) or `poisson`.
    pub arrival: Option<String>,
    /// Open loop: most operations in flight (1024).
    pub in_flight: Option<u64>,
    /// Length of the phase (30s, unless `stop_after` is given).
    pub duration: Option<String>,
    /// Ends the phase after so many operations.
    pub stop_after: Option<u64>,
    /// Deadline of one operation (60s).
    pub timeout: Option<String>,
    /// How long unanswered operations are waited for at the end (10s).
    pub drain: Option<String>,
    /// Further attempts after throttling, server errors and broken connections (0; 5 in prepare phases).
    pub retries: Option<u32>,
    /// `on` (the default) compares what is read byte for byte, `off` by length.
    pub verify: Option<String>,
}

/// The objects of a phase.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectsWritten {
    /// The prepare phase that wrote what this one reads.
    pub from: Option<String>,
    /// Objects to write, round and round (1000, or as many as `from` has).
    pub count: Option<u64>,
    /// Size of what is written (1 KiB, or as in `from`).
    pub size: Option<String>,
    /// Bytes of a `get_range`.
    pub range: Option<String>,
}
