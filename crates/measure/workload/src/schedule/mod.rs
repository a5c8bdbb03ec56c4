//! Schedules: phases, their loads and limits, and the intended start times of open loops.
//!
//! A [`Phase`] is one workload under a fixed load or a rising one ([`ramp`]). [`plan`] divides phases into phase
//! runs over stores, blocks and repeats. Phase runs that are limited only by time run back to back without a pause.
//! A phase run that is limited by a number of operations ends when the last of them is answered.

pub mod arrival;
pub mod cache;
pub mod knee;
pub mod pace;
pub mod plan;
pub mod plateau;
pub mod ramp;
pub mod survey;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use arrival::{Arrival, Gaps};
use cache::CacheState;
use ramp::Ramp;

use crate::Workload;
use crate::size_classes::SizeClasses;

/// Purpose of a phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Phase that writes objects for later phases; not measured.
    Prepare,
    /// Phase that warms up connections, caches and the store; recorded but not reported.
    Warmup,
    /// Phase that is measured and reported.
    #[default]
    Measure,
}

impl Role {
    /// All roles, in the order in which their phases usually run.
    pub const ALL: [Role; 3] = [Role::Prepare, Role::Warmup, Role::Measure];

    /// Returns the role with this name; `None` if there is none.
    pub fn from_name(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }

    /// Returns the name used in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Role::Prepare => "prepare",
            Role::Warmup => "warmup",
            Role::Measure => "measure",
        }
    }
}

/// Load of a phase: a closed or an open loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Closed loop: a fixed number of operations in flight; the next one starts when one ends.
    Closed {
        /// Number of operations in flight.
        concurrency: usize,
    },
    /// Open loop: operations start at intended times, regardless of the store's responses.
    Open {
        /// Intended rate, in operations per second.
        rate_per_s: f64,
        /// Distribution of the intended start times.
        arrival: Arrival,
        /// Maximum number of operations in flight; further ones wait, and their waiting time counts.
        in_flight: usize,
    },
}

impl Load {
    /// Returns the number of connection slots that the load can use at the same time.
    pub fn slots(&self) -> usize {
        match self {
            Load::Closed { concurrency } => *concurrency,
            Load::Open { in_flight, .. } => *in_flight,
        }
    }

    /// Returns a description of the load, such as `64 in flight` or `500/s`.
    pub fn describe(&self) -> String {
        match self {
            Load::Closed { concurrency } => format!("{concurrency} in flight"),
            Load::Open { rate_per_s, arrival: Arrival::Recorded, .. } => format!("{rate_per_s:.1}/s"),
            // Searches compute rates.
            Load::Open { rate_per_s, .. } if *rate_per_s >= 10.0 => {
                format!("{}/s", (rate_per_s * 10.0).round() / 10.0)
            }
            Load::Open { rate_per_s, .. } => format!("{rate_per_s}/s"),
        }
    }

    /// Returns true if the load is an open loop.
    pub fn is_open(&self) -> bool {
        matches!(self, Load::Open { .. })
    }
}

/// Limits of a phase, which ends at the first limit that it reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Length of the phase, in nanoseconds; `None` for no limit.
    pub duration_ns: Option<u64>,
    /// Number of operations; `None` for no limit.
    pub operations: Option<u64>,
}

/// One workload under one load, with every default filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Name of the phase, unique in the experiment.
    pub name: String,
    /// Purpose of the phase.
    pub role: Role,
    /// Operations of the phase and their objects.
    pub workload: Workload,
    /// Load of the phase; with a ramp, the load of the first step.
    pub load: Load,
    /// Ramp of the load; `None` if the load is fixed.
    pub ramp: Option<Ramp>,
    /// Gaps between the intended start times of an open loop with [`Arrival::Gaps`], as multiples of the mean gap.
    pub gaps: Option<Gaps>,
    /// Limits at which the phase ends.
    pub limit: Limit,
    /// Deadline of one operation, in nanoseconds.
    pub timeout_ns: u64,
    /// Maximum time to wait for unanswered operations after the end of the phase, in nanoseconds.
    pub drain_ns: u64,
    /// Maximum number of retries of a request after a transient failure (throttling, server error, broken
    /// connection).
    pub retries: u32,
    /// Verification of contents.
    pub verify: Verify,
    /// Pause of each connection slot of a closed loop after each of its operations, in nanoseconds.
    pub think_time_ns: u64,
    /// Time between the end of the phase before and this one, which then reads each of its objects once, in
    /// nanoseconds; `None` if the phase is not about that.
    pub read_after_ns: Option<u64>,
    /// State of the store's caches that the phase declares; `None` if it declares none.
    pub cache: Option<CacheState>,
    /// Size in bytes to which the objects that the phase reads are restricted; `None` if it may read all.
    pub working_set: Option<u64>,
    /// Classes of sizes by which latencies are divided; `None` if all objects have one size.
    pub size_classes: Option<SizeClasses>,
    /// Place of the phase in its sweep; `None` outside a sweep.
    pub sweep: Option<SweepPlace>,
}

/// Place of a phase in a sweep.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepPlace {
    /// Name of the sweep: that of the phase in the experiment file.
    pub of: String,
    /// Swept fields and their values, such as `size` and `64 KiB`.
    pub at: BTreeMap<String, String>,
}

/// Verification of the contents that are read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// Only the length of what is read is checked.
    Off,
    /// Every byte that is read is compared. An object that is put in parts is checked against the store's checksum of
    /// it, or against its size.
    On,
    /// As `On`; in addition, every object that is put is read back, outside the time of the put.
    Readback,
}

impl Verify {
    const ALL: [Verify; 3] = [Verify::Off, Verify::On, Verify::Readback];

    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Verify::Off => "off",
            Verify::On => "on",
            Verify::Readback => "readback",
        }
    }

    /// Returns the verification with this name; `None` if there is none.
    pub fn from_name(name: &str) -> Option<Verify> {
        Verify::ALL.into_iter().find(|v| v.name() == name)
    }
}
