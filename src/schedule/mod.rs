//! When the operations happen: phases, their loads and limits, and the intended times of open loops.
//!
//! A [`Phase`] holds one workload under one load. Phases that are limited by time alone run back to back without a pause
//! ([`segments`]); one that is limited by a number of operations ends when the last of them is answered.

pub mod arrival;

use arrival::Arrival;

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
    /// Lanes that the load may use at once.
    pub fn lanes(&self) -> usize {
        match self {
            Load::Closed { concurrency } => *concurrency,
            Load::Open { in_flight, .. } => *in_flight,
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
    /// How it is let loose.
    pub load: Load,
    /// When it ends.
    pub limit: Limit,
    /// Deadline of one operation, in nanoseconds.
    pub timeout_ns: u64,
    /// How long unanswered operations are waited for after its end, in nanoseconds.
    pub drain_ns: u64,
    /// Further attempts after a failure that may pass (throttling, server errors, broken connections).
    pub retries: u32,
    /// Whether contents read are compared byte for byte.
    pub verify: bool,
}

/// Groups phases that run back to back without a drain: neighbours that are limited by time alone.
pub fn segments(phases: &[Phase]) -> Vec<std::ops::Range<usize>> {
    let timed = |p: &Phase| p.limit.operations.is_none();
    let mut out: Vec<std::ops::Range<usize>> = Vec::new();
    for (i, phase) in phases.iter().enumerate() {
        match out.last_mut() {
            Some(last) if timed(phase) && timed(&phases[last.end - 1]) => last.end = i + 1,
            _ => out.push(i..i + 1),
        }
    }
    out
}
