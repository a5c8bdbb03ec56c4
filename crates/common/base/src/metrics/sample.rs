//! Live figures of a run at one time, independent of the protocol that carries them.

/// Labels of a series: names and values.
pub type Labels = Vec<(&'static str, String)>;

/// Cumulative counts of one store, phase, role and operation since the run began.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// Store, phase, role and operation.
    pub labels: Labels,
    /// Number of successful operations.
    pub operations: u64,
    /// Object bytes delivered.
    pub object_bytes: f64,
    /// Number of operations that were not answered in time.
    pub unanswered: u64,
    /// Failed operations by class.
    pub failed: Vec<(String, u64)>,
    /// Service times of successful operations.
    pub service: Histogram,
    /// Response times of successful operations; open loops only.
    pub response: Histogram,
}

/// A histogram with one count per bucket, not cumulative. The upper bounds are [`super::LATENCY_EDGES_S`]; the last
/// bucket has none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    /// Counts per bucket.
    pub counts: Vec<u64>,
    /// Sum of all values in seconds.
    pub sum_s: f64,
}

impl Histogram {
    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// All figures at one time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// Start of the run in nanoseconds since the Unix epoch.
    pub start_unix_ns: u64,
    /// Time of the sample in nanoseconds since the Unix epoch.
    pub at_unix_ns: u64,
    /// Counts by store, phase, role and operation.
    pub series: Vec<Series>,
    /// Cost so far in US dollars, with labels of the store and its provider.
    pub cost_usd: Vec<(Labels, f64)>,
}
