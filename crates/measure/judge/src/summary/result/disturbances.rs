//! The clock of a window's figures and the disturbances of the client during the window.

use serde::{Deserialize, Serialize};

use super::Percentiles;

/// Clock that took the arrival times of responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ReceiveClock {
    /// The kernel: a busy or paused client does not change the times.
    Kernel,
    /// The process: the times include the delays of the client.
    #[default]
    Process,
    /// The kernel for some operations, and the process for the others.
    Mixed,
}

/// Pause of one core of the client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PauseFigures {
    /// Number of the core.
    pub core: u64,
    /// Start, in seconds since the start of the window; negative if the pause began before it.
    pub start_s: f64,
    /// Duration, in milliseconds.
    pub duration_ms: f64,
}

/// Clock of a window's figures, and disturbances of the client during the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Disturbances {
    /// Clock that took the arrival times of responses.
    pub receive_clock: ReceiveClock,
    /// Time from the arrival of an operation's last byte until the client read it. With the kernel's clock, it is not
    /// part of the service time.
    pub client_delay_ms: Percentiles,
    /// Time by which a sleeping thread woke up too late, sampled about every millisecond on each core.
    pub wake_up_delay_ms: Percentiles,
    /// Number of pauses: times above 5 ms at which a core did not run a thread that was due.
    pub pauses: u64,
    /// Time that pauses cover, in seconds; simultaneous pauses of several cores count once.
    pub pauses_s: f64,
    /// Duration of the longest pause, in milliseconds.
    pub longest_pause_ms: f64,
    /// The first 100 pauses.
    pub first_pauses: Vec<PauseFigures>,
    /// Successful operations that overlap a pause, from the intended time in an open loop and from the start in a
    /// closed one.
    pub paused_operations: u64,
    /// Service times without the operations that overlap a pause. Null if there are no such operations.
    pub service_without_pauses_ms: Option<Percentiles>,
    /// Response times without these operations. Null in a closed loop, and if there are no such operations.
    pub response_without_pauses_ms: Option<Percentiles>,
    /// Amounts by which somebody set the wall clock, in milliseconds.
    pub clock_steps_ms: Vec<f64>,
}
