//! Compares measurements with the true values of a server that logs every request.
//!
//! Each scenario starts `plimsoll serve` as a child process with known faults and an access log, and measures it like any
//! other store. The true value of a service time is the logged time from the first byte received to the last byte sent, on the clock that
//! both processes share, not the configured time. The true value of a response time is the logged end minus the intended time, which the
//! schedule reproduces from its seed.

pub mod scenario;
mod true_values;

use serde::Serialize;

/// One figure beside its true values.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Name of the scenario.
    pub name: String,
    /// Which figure: `response p99`, `start lag p99`.
    pub metric: String,
    /// What the server's log says; for a bar without a true values (start lag) 0.
    pub true_ms: f64,
    /// What was measured; where censoring hides it, the bound that it exceeds.
    pub measured_ms: f64,
    /// Measured minus true; 0 where a bound is right.
    pub error_ms: f64,
    /// Largest error allowed.
    pub allowed_ms: f64,
    /// Whether only a bound was measured (`> X`).
    pub bound: bool,
    /// Whether it is within its bar.
    pub within: bool,
}
