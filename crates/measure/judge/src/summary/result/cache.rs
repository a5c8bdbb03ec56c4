//! Results of a sweep of working sets: the cache that it shows.

use plimsoll_workload::OperationKind;
use serde::{Deserialize, Serialize};

/// Conclusion from a sweep of working sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CacheFinding {
    /// The times follow the law of one cache.
    Found,
    /// Reads of all working sets take about the same time: their medians differ by less than a quarter.
    None,
    /// The times differ, but do not show one cache whose size lies among the working sets.
    #[default]
    Inconclusive,
}

/// Cache that a sweep of working sets shows at one store.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CacheFigures {
    /// URL of the store as the user wrote it, without credentials.
    pub store: String,
    /// Name of the swept phase.
    pub sweep: String,
    /// Kind of operation.
    pub operation: OperationKind,
    /// Conclusion from the sweep.
    pub finding: CacheFinding,
    /// Reason for the conclusion, in words.
    pub reason: String,
    /// Size of the cache in bytes of objects. Null unless a cache was found.
    pub bytes: Option<f64>,
    /// Lower end of the 95% confidence interval of the size in bytes. Null unless a cache was found.
    pub low_bytes: Option<f64>,
    /// Upper end of the 95% confidence interval of the size in bytes. Null unless a cache was found.
    pub high_bytes: Option<f64>,
    /// Median of the service time in the smallest working set, in milliseconds.
    pub hit_ms: Option<f64>,
    /// Median of the service times above `threshold_ms` in the largest working set, in milliseconds.
    pub miss_ms: Option<f64>,
    /// Service time that separates fast reads from slow ones, in milliseconds.
    pub threshold_ms: Option<f64>,
    /// Working sets in ascending order.
    pub points: Vec<CachePoint>,
}

/// One working set of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CachePoint {
    /// Size of the working set in bytes.
    pub bytes: f64,
    /// Number of successful reads.
    pub reads: u64,
    /// Share of the reads that took at most `threshold_ms`, from 0 to 1. Null without a threshold.
    pub fast_share: Option<f64>,
    /// Share that the law of a cache of the fitted size predicts. Null without a fit.
    pub expected_share: Option<f64>,
}
