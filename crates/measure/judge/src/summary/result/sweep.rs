//! Settings of multipart uploads, and results of sweeps.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use plimsoll_workload::OperationKind;

/// Settings of multipart uploads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UploadFigures {
    /// Size of an object in bytes. Null if sizes differ.
    pub object_bytes: Option<u64>,
    /// Size of a part in bytes.
    pub part_bytes: u64,
    /// Parts of one object uploaded concurrently.
    pub parts_in_flight: u64,
    /// Checksum sent with each part, as named in the experiment. Null if none.
    pub checksum: Option<String>,
    /// Verification of uploads: `off`, `on` or `readback`.
    pub verify: String,
}

/// One point of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepPoint {
    /// Swept fields and their values, such as `size` and `64 KiB`.
    #[serde(default)]
    pub at: BTreeMap<String, String>,
    /// Number of operations, failed ones included.
    #[serde(alias = "uploads")]
    pub operations: u64,
    /// Number of failed operations.
    pub failed: u64,
    /// Number of requests sent, retries included.
    pub requests: u64,
    /// Number of retried requests.
    pub retries: u64,
    /// Successful operations per second.
    #[serde(default)]
    pub achieved_per_s: f64,
    /// Object bytes per second.
    #[serde(default)]
    pub throughput_bytes_per_s: f64,
    /// Median of the service time in milliseconds. Null if there are too few operations.
    #[serde(default)]
    pub p50_ms: Option<f64>,
    /// 99th percentile of the service time in milliseconds. Null if there are too few operations.
    #[serde(default)]
    pub p99_ms: Option<f64>,
    /// True if the client limited the point.
    #[serde(default)]
    pub client_limited: bool,
    /// Multipart uploads: size of a part in bytes. Zero otherwise.
    #[serde(default)]
    pub part_bytes: u64,
    /// Multipart uploads: parts of one object uploaded concurrently. Zero otherwise.
    #[serde(default)]
    pub parts_in_flight: u64,
    /// Multipart uploads: median time of an upload, in seconds; the mean if there are too few uploads for a median.
    #[serde(default)]
    pub median_s: Option<f64>,
    /// Multipart uploads: object size divided by `median_s`, in bytes per second. Null if object sizes differ.
    #[serde(default)]
    pub bytes_per_s: Option<f64>,
    /// Multipart uploads: lower end of the 95% confidence interval of `bytes_per_s`. Null with fewer than two uploads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low_bytes_per_s: Option<f64>,
    /// Multipart uploads: upper end of the 95% confidence interval of `bytes_per_s`. Null with fewer than two uploads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_bytes_per_s: Option<f64>,
}

/// Results of a sweep: one operation on one store at every point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepFigures {
    /// URL of the store as the user wrote it, without credentials.
    pub store: String,
    /// Name of the swept phase.
    pub sweep: String,
    /// Kind of operation.
    #[serde(default)]
    pub operation: OperationKind,
    /// Points that the store accepts, with their results.
    pub points: Vec<SweepPoint>,
    /// Recommended point of a sweep of part sizes: of those without a failed upload and within 5% of the fastest, the
    /// one with the fewest bytes in flight. Null otherwise, and if every point lost an upload.
    pub recommended: Option<SweepPoint>,
}
