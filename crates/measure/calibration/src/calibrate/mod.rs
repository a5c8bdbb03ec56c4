//! Compares measurements with the true values in a server's timing log.
//!
//! Each scenario starts `plimsoll serve` as a child process with known faults and a timing log, and measures it
//! like any other store. The true service time is the logged time from the arrival of the first byte to the
//! sending of the last one, not the configured time; both processes use the same clock. The true response time is
//! the logged end minus the intended time, which the schedule reproduces from its seed.
//!
//! Client and server detect the pauses of the machine. An error that disappears without the operations that overlap a
//! pause is an error of the machine, not of the instrument.

mod compare;
pub mod measure;
pub mod relay;
pub mod scenario;
mod true_values;

use serde::Serialize;

use plimsoll_base::machine::pauses::{Pause, covered_ns};

/// A measured figure and its true value.
#[derive(Debug, Clone, Serialize)]
pub struct ScenarioRow {
    /// Name of the scenario.
    pub name: String,
    /// Name of the figure, such as `response p99` or `start lag p99`.
    pub metric: String,
    /// True value from the server's timing log, in milliseconds.
    pub true_ms: f64,
    /// Measured value, in milliseconds; if censoring hides it, the bound that it exceeds.
    pub measured_ms: f64,
    /// Measured minus true value, in milliseconds; 0 if only a bound was measured and it is correct.
    pub error_ms: f64,
    /// Largest error allowed, in milliseconds.
    pub allowed_ms: f64,
    /// True if only a bound was measured (`> X`).
    pub bound: bool,
    /// Error without the operations that overlap a pause, in milliseconds; `None` if too few remain, or if only a
    /// bound was measured.
    pub error_without_pauses_ms: Option<f64>,
    /// True if the error does not exceed the largest error allowed.
    pub within: bool,
    /// True if the error without pauses does not exceed the largest error allowed.
    pub within_without_pauses: bool,
}

impl ScenarioRow {
    /// Returns true if the error exceeds its limit and pauses of the machine do not explain it.
    pub fn is_wrong(&self) -> bool {
        !self.within && !self.within_without_pauses
    }
}

/// Pauses of the client and the server during a scenario.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DetectedPauses {
    /// Number of pauses of all cores, each as client and server saw it.
    pub count: usize,
    /// Duration of the longest pause, in milliseconds.
    pub longest_ms: f64,
    /// Share of the measured time that pauses cover (0 to 1).
    pub share: f64,
}

impl DetectedPauses {
    /// Summarizes the pauses of a window from `start_ns` to `end_ns`, in nanoseconds on the monotonic clock.
    pub fn new(pauses: &[Pause], start_ns: u64, end_ns: u64) -> DetectedPauses {
        let longest = pauses.iter().map(|pause| pause.end_ns - pause.start_ns).max().unwrap_or(0);
        DetectedPauses {
            count: pauses.len(),
            longest_ms: longest as f64 / 1e6,
            share: covered_ns(pauses, start_ns, end_ns) as f64 / (end_ns - start_ns).max(1) as f64,
        }
    }
}

/// Result of a scenario.
pub struct Measured {
    /// Measured figures with their true values.
    pub rows: Vec<ScenarioRow>,
    /// CPU time of the client per operation, in microseconds.
    pub cpu_us_per_operation: f64,
    /// Pauses of the machine.
    pub pauses: DetectedPauses,
}
