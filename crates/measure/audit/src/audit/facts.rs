//! Facts about a measurement that the run rules judge. A field is `None` if the measurement does not show the fact.

/// Load of the client during a measurement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ClientLoad {
    /// The measurement does not show it.
    #[default]
    Unknown,
    /// The client was not the bottleneck.
    Free,
    /// The client was the bottleneck, for this reason.
    Limited(String),
}

/// A 95% confidence interval of the primary figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Value that was measured.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Interval {
    /// Returns half of the width as a share of the value.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0 / self.value.abs().max(f64::MIN_POSITIVE)
    }
}

/// Figures of one operation, in one phase on one store.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measurement {
    /// Operation, phase and store for people.
    pub name: String,
    /// True if the operation reads objects.
    pub reads: bool,
    /// Name of the primary figure, such as `rate`.
    pub figure: String,
    /// Primary figure of each repeat; empty if there is none.
    pub values: Vec<f64>,
    /// Interval of the primary figure; `None` if there is none.
    pub interval: Option<Interval>,
    /// Measured time in seconds.
    pub measured_s: Option<f64>,
    /// Seconds that an interval would need; `None` if there is one, or this is not known.
    pub needed_s: Option<f64>,
    /// Operations of the measured time, successful or not.
    pub operations: Option<u64>,
    /// Operations that failed.
    pub failed: Option<u64>,
    /// True for an open loop, false for a closed one.
    pub open_loop: Option<bool>,
    /// True if times of a closed loop are called service times, so that nobody takes them for response times.
    pub is_service_time: bool,
    /// Intended and achieved rate of an open loop that did not keep up, in operations per second.
    pub missed_rate: Option<(f64, f64)>,
    /// Shares of the percentiles that are published, such as 0.99; empty if only averages are.
    pub percentiles: Vec<f64>,
    /// Samples behind the percentiles.
    pub samples: Option<u64>,
    /// True if times are published.
    pub has_times: bool,
    /// Load of the client.
    pub client: ClientLoad,
    /// Share of the measured time in which the client was paused by its machine, from 0 to 1.
    pub paused_share: Option<f64>,
}

/// Facts about a run, or a result of another tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Name of the run or the file.
    pub subject: String,
    /// Tool that measured, with its version if it is known.
    pub tool: String,
    /// Figures of each operation.
    pub measurements: Vec<Measurement>,
    /// True if the run ended as planned.
    pub is_complete: Option<bool>,
    /// Contradictions between figures and logs; `None` if there are no logs to compute them again.
    pub contradictions: Option<Vec<String>>,
    /// True if the first seconds are left out of the figures.
    pub has_warmup: Option<bool>,
    /// Declared state of caches: `warm` or `cold`.
    pub cache: Option<String>,
    /// Bytes of the objects that are read.
    pub working_set_bytes: Option<u64>,
    /// Number of the objects that are read.
    pub working_set_objects: Option<u64>,
    /// Memory of the server in bytes.
    pub server_memory_bytes: Option<u64>,
    /// True if the content that was read was compared with what was written.
    pub checks_content: Option<bool>,
    /// Number of stores.
    pub stores: usize,
    /// True if several stores took turns; `None` if this is not known.
    pub takes_turns: Option<bool>,
    /// Facts that a repeat of the measurement needs and that are missing.
    pub undisclosed: Vec<String>,
    /// Errors of the document that are known, in words.
    pub known_errors: Vec<String>,
}
