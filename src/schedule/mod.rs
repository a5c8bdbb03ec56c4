//! When the operations happen: phases, their loads and limits, and the intended times of open loops.
//!
//! A [`Phase`] holds one workload under one load, or under one that rises ([`ramp`]); [`plan`] lays phases out over stores, blocks and
//! repeats. Stints that are limited by time alone run back to back without a pause; one that is limited by a number of
//! operations ends when the last of them is answered.

pub mod arrival;
pub mod knee;
pub mod plan;
pub mod ramp;

use arrival::Arrival;
use ramp::Ramp;

use crate::workload::Workload;

/// What a phase is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Writes what later phases read; not measured.
    Prepare,
    /// Brings connections, caches and the store to speed; recorded, not reported.
    Warmup,
    /// Measured.
    Measure,
}

impl Role {
    /// Name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Role::Prepare => "prepare",
            Role::Warmup => "warmup",
            Role::Measure => "measure",
        }
    }
}

/// How operations are let loose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Closed loop: so many operations in flight, the next begins when one ends.
    Closed {
        /// Operations in flight.
        concurrency: usize,
    },
    /// Open loop: operations begin at intended times, whatever the store does.
    Open {
        /// Operations intended per second.
        rate_per_s: f64,
        /// How the intended times are spread.
        arrival: Arrival,
        /// Most operations in flight; more of them wait, and their waiting counts.
        in_flight: usize,
    },
}

impl Load {
    /// Connection slots that the load may use at once.
    pub fn slots(&self) -> usize {
        match self {
            Load::Closed { concurrency } => *concurrency,
            Load::Open { in_flight, .. } => *in_flight,
        }
    }

    /// For people: `64 in flight`, `500/s`.
    pub fn describe(&self) -> String {
        match self {
            Load::Closed { concurrency } => format!("{concurrency} in flight"),
            Load::Open { rate_per_s, .. } => format!("{rate_per_s}/s"),
        }
    }

    /// Whether it is an open loop.
    pub fn is_open(&self) -> bool {
        matches!(self, Load::Open { .. })
    }
}

/// When a phase ends: at the first of its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// After this time, in nanoseconds.
    pub duration_ns: Option<u64>,
    /// After this many operations.
    pub operations: Option<u64>,
}

/// One stretch of one workload at one load, fully resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Unique name.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// What it does.
    pub workload: Workload,
    /// How it is let loose; the first step, where the load rises.
    pub load: Load,
    /// How the load rises.
    pub ramp: Option<Ramp>,
    /// When it ends.
    pub limit: Limit,
    /// Deadline of one operation, in nanoseconds.
    pub timeout_ns: u64,
    /// How long unanswered operations are waited for after its end, in nanoseconds.
    pub drain_ns: u64,
    /// Further attempts after a failure that may pass (throttling, server errors, broken connections).
    pub retries: u32,
    /// How contents are held against what was written.
    pub verify: Verify,
    /// Pause of a closed loop's connection slot after each of its operations, in nanoseconds.
    pub cooldown_ns: u64,
    /// The sweep that the phase is a point of.
    pub sweep_of: Option<String>,
}

/// How contents are held against what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// By length.
    Off,
    /// What is read byte for byte; what is put in parts by the store's checksum of it, or its size.
    On,
    /// As `On`; and everything that is put is read back, outside its time.
    Readback,
}

impl Verify {
    const ALL: [Verify; 3] = [Verify::Off, Verify::On, Verify::Readback];

    /// Name in files.
    pub fn name(self) -> &'static str {
        match self {
            Verify::Off => "off",
            Verify::On => "on",
            Verify::Readback => "readback",
        }
    }

    /// The way of that name.
    pub fn from_name(name: &str) -> Option<Verify> {
        Verify::ALL.into_iter().find(|v| v.name() == name)
    }
}
