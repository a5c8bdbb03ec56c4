//! Figures of clients and synchronizations that take turns.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One loop of `plimsoll run sync`: one client transfers all files once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SyncLoop {
    /// URL of the store as the user wrote it, without credentials.
    pub store: String,
    /// Direction of the transfer: `up` or `down`.
    pub direction: String,
    /// Name of the client: `plimsoll` or another tool.
    pub client: String,
    /// Number of the loop, from 0.
    pub repeat: u32,
    /// Wall-clock time of the loop, in seconds.
    pub wall_s: f64,
    /// CPU time of the client, in seconds.
    pub cpu_s: f64,
    /// Number of files transferred.
    pub objects: u64,
    /// Total size of the files in bytes.
    pub bytes: u64,
    /// Files transferred per second.
    pub objects_per_s: f64,
    /// Bytes transferred per second.
    pub bytes_per_s: f64,
}

/// One round of one client in `plimsoll run clients`: an operation on each object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClientRound {
    /// Name of the client.
    pub client: String,
    /// Version of the client. Empty if it is unknown.
    pub version: String,
    /// Kind of operation: `put` or `get`.
    pub operation: String,
    /// Number of the round, from 0.
    pub round: u32,
    /// Number of operations.
    pub operations: u64,
    /// Object bytes that were sent or received.
    pub bytes: u64,
    /// Operations in flight.
    pub concurrency: u64,
    /// Time from the first request to the last response in seconds; of a command-line tool, from its start to its end.
    pub wall_s: f64,
    /// CPU time of the client in seconds.
    pub cpu_s: f64,
    /// Median time of an operation in milliseconds. Null if the client does not tell.
    pub p50_ms: Option<f64>,
    /// 99th percentile of the time of an operation in milliseconds. Null if there are too few operations.
    pub p99_ms: Option<f64>,
    /// Share of the round, from 0 to 1, during which a core of the machine was paused. The same for every client:
    /// whoever needs the core at that time is slowed down.
    #[serde(default)]
    pub paused_share: f64,
    /// Requests of such a round by operation, counted once by an endpoint between client and store. Empty if they were
    /// not counted.
    #[serde(default)]
    pub requests: BTreeMap<String, u64>,
}

impl ClientRound {
    /// Returns the operations per second.
    pub fn operations_per_s(&self) -> f64 {
        self.operations as f64 / self.wall_s.max(1e-9)
    }

    /// Returns the requests per operation; `None` if they were not counted.
    pub fn requests_per_operation(&self) -> Option<f64> {
        let requests: u64 = self.requests.values().sum();
        (requests > 0).then(|| requests as f64 / self.operations.max(1) as f64)
    }
}
