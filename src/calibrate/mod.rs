//! Compares measurements with the true values in a server's access log.
//!
//! Each scenario starts `plimsoll serve` as a child process with known faults and an access log, and measures it
//! like any other store. The true service time is the logged time from the first byte received to the last byte
//! sent, not the configured time; both processes use the same clock. The true response time is the logged end
//! minus the intended time, which the schedule reproduces from its seed.

pub mod scenario;
mod true_values;

use serde::Serialize;

/// A measured figure and its true value.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Name of the scenario.
    pub name: String,
    /// Name of the figure, such as `response p99` or `start lag p99`.
    pub metric: String,
    /// True value from the server's access log, in milliseconds; 0 for start lag, which has none.
    pub true_ms: f64,
    /// Measured value, in milliseconds; if censoring hides it, the bound that it exceeds.
    pub measured_ms: f64,
    /// Measured minus true value, in milliseconds; 0 if only a bound was measured and it is correct.
    pub error_ms: f64,
    /// Largest error allowed, in milliseconds.
    pub allowed_ms: f64,
    /// True if only a bound was measured (`> X`).
    pub bound: bool,
    /// True if the error does not exceed the largest error allowed.
    pub within: bool,
}
