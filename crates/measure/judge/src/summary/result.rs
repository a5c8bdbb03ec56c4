//! Types of `result.json`, schema number 3 (`schema/result.schema.json`). Field names include their units and
//! are a stable interface.

use std::collections::BTreeMap;

use plimsoll_cost::bill::Bill;
use plimsoll_cost::money::Usd;
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::{Role, SweepPlace};
use serde::{Deserialize, Serialize};

mod cache;
mod disturbances;
mod judgement;
mod part;
mod sweep;
mod turns;

pub use cache::{CacheFigures, CacheFinding, CachePoint};
pub use disturbances::{Disturbances, PauseFigures, ReceiveClock};
pub use judgement::{
    CapacityBy, CapacityChange, CapacityFigures, CapacityStep, ClientLimit, ConfidenceInterval,
    ObjectiveFigures, UnseenStalls, UntilFigures,
};
pub use part::{AddressFigures, SizeClassFigures};
pub use sweep::{SweepFigures, SweepPoint, UploadFigures};
pub use turns::{ClientRound, SyncLoop};

/// Schema number of [`RunResult`].
pub const SCHEMA: u32 = 3;

/// First schema number of results whose windows count the operations of their own phase alone (decision 0076).
pub const OWN_WINDOWS: u32 = 3;

/// Results of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunResult {
    /// Schema number: 3, or the number of an earlier version.
    pub schema: u32,
    /// Identity and provenance of the run.
    pub run: RunInfo,
    /// Resources that Plimsoll itself used.
    pub client: ClientInfo,
    /// One entry per store, phase, repeat, block, step and operation.
    pub windows: Vec<Window>,
    /// Plateau and knee, one entry per ramp and operation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ramps: Vec<RampFigures>,
    /// One entry per store and sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sweeps: Vec<SweepFigures>,
    /// Caches of stores, one entry per store and sweep of working sets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<CacheFigures>,
    /// One entry per loop of `plimsoll run sync`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sync: Vec<SyncLoop>,
    /// One entry per client, operation and round of `plimsoll run clients`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<ClientRound>,
    /// Requests that Plimsoll sends besides the operations, such as those for sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty", alias = "side_calls")]
    pub background_requests: Vec<BackgroundRequests>,
    /// Places in which relays executed operations, one entry per store and place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<PlaceFigures>,
    /// Result of a search for the capacity of a store.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "knee")]
    pub capacity: Option<CapacityFigures>,
    /// Question of a run that measured until its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<UntilFigures>,
    /// Objectives of the run, one entry per objective, store, phase and step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<ObjectiveFigures>,
    /// Cost of the run, one entry per store whose provider has prices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cost: Vec<CostFigures>,
    /// Figures of the measured phases with their 95% confidence intervals; blocks and repeats are merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confidence: Vec<ConfidenceInterval>,
}

impl RunResult {
    /// Returns the stores that have windows, in the order in which the experiment lists them; stores that it
    /// does not list come last.
    pub fn stores(&self) -> Vec<&str> {
        let mut out: Vec<&str> = Vec::new();
        let measured = |store: &&str| self.windows.iter().any(|w| w.store == **store);
        let listed = self.run.stores.iter().map(String::as_str).filter(measured);
        for store in listed.chain(self.windows.iter().map(|w| w.store.as_str())) {
            if !out.contains(&store) {
                out.push(store);
            }
        }
        out
    }
}

/// Cost of a run at one store. Includes every request sent there, also those of preparation and clean-up.
/// Amounts are decimal strings because they are exact.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostFigures {
    /// URL of the store as the user wrote it, without credentials.
    pub store: String,
    /// True if the store is not the provider's own, but is billed at its prices.
    pub emulated: bool,
    /// Cost estimated before the run. Null if there was no estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_usd: Option<Usd>,
    /// The bill, with the assumptions and the usage without a known price in its notes.
    #[serde(flatten)]
    pub bill: Bill,
}

/// A place in which a relay executed operations, such as a data centre of Cloudflare. The latencies of these
/// operations are those in this place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlaceFigures {
    /// URL of the store as the user wrote it, without credentials.
    pub store: String,
    /// Name of the place: an IATA code for Cloudflare, a region for AWS; empty if the relay does not know it.
    pub place: String,
    /// Number of requests, also those of preparation and clean-up.
    pub requests: u64,
    /// Step of the relay's clock in microseconds; latencies are exact to one step.
    pub clock_step_us: u64,
}

/// Requests that Plimsoll sends besides the operations, such as those for sessions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BackgroundRequests {
    /// URL of the store as the user wrote it, without credentials.
    pub store: String,
    /// Purpose of the requests, such as `CreateSession`.
    #[serde(alias = "what")]
    pub request: String,
    /// Number of requests.
    pub calls: u64,
    /// Number of requests that failed.
    pub failed: u64,
    /// Duration of the first request, in milliseconds.
    pub first_ms: f64,
    /// Mean duration, in milliseconds.
    pub mean_ms: f64,
    /// Longest duration, in milliseconds.
    pub max_ms: f64,
}

/// Plateau and knee of one ramp.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RampFigures {
    /// URL of the store as the user wrote it, without credentials.
    pub store: String,
    /// Name of the phase.
    pub phase: String,
    /// Repeat, from 0.
    pub repeat: u32,
    /// Kind of operation.
    pub operation: OperationKind,
    /// Number of steps that were measured.
    pub steps: u32,
    /// Reason why the ramp ended.
    #[serde(alias = "ended")]
    pub end_reason: String,
    /// True if the plateau rule was met at one of the steps.
    #[serde(default)]
    pub reached: bool,
    /// Mean throughput of the steps within 5% of the best one. Null if the operation transfers no content.
    pub plateau_bytes_per_s: Option<f64>,
    /// Mean rate of those steps, in operations per second.
    pub plateau_per_s: f64,
    /// Operations in flight at which the plateau begins (asymptotic bounds, see docs/method.md). Null without a
    /// plateau, and if the first step is already on it.
    pub knee_in_flight: Option<f64>,
}

/// One host's part of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShardInfo {
    /// Number of the shard, from 1.
    pub shard: u64,
    /// Number of shards in the run.
    pub of: u64,
    /// Run id of the shard.
    pub run: String,
    /// Planned start of measurement, in Unix seconds.
    pub start_at_unix_s: f64,
    /// Delay of its first window after the planned start by its own clock, in seconds.
    pub start_late_s: Option<f64>,
    /// Store's clock minus the host's clock, in seconds; accurate to one second because the Date header has
    /// whole seconds.
    pub clock_offset_s: Option<f64>,
    /// Host's clock minus the reference clock, in seconds, as given with `--clock-offset`.
    pub host_offset_s: Option<f64>,
    /// Number of shards that had prepared their objects when this one began. If it is less than `of`, reads may
    /// have missed objects.
    pub prepared: Option<u64>,
    /// True if the shard did not run to its end.
    pub partial: bool,
}

/// Identity and provenance of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunInfo {
    /// Id of the run, and name of its directory.
    pub id: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Seed of everything random.
    pub seed: u64,
    /// URLs of the stores in the experiment's order. Windows are in the order in which they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stores: Vec<String>,
    /// Start time, RFC 3339.
    pub started_at: String,
    /// Version of Plimsoll.
    pub version: String,
    /// True if the run did not complete: it was interrupted or killed, or a phase failed.
    pub partial: bool,
    /// Defects of a merged run: missing shards, late shards, clocks that disagree. Null if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// Settings that differ between stores, and documented limits that the run will reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Labels of the run, by key, from `--label`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Shards of the run; one entry if the run is itself a shard.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<ShardInfo>,
    /// Source of an imported run. Null if Plimsoll measured the run itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<String>,
}

impl RunInfo {
    /// Returns the labels in one line: `commit=ab12 region=eu`. Empty without labels.
    pub fn labels_text(&self) -> String {
        self.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    }

    /// Returns the name of the run for people: its labels and its id.
    pub fn name(&self) -> String {
        match self.labels_text() {
            none if none.is_empty() => self.id.clone(),
            labels => format!("{labels} ({})", self.id),
        }
    }
}

/// Resources that Plimsoll itself used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClientInfo {
    /// Location of the client, from `--vantage`; may be empty.
    pub vantage: String,
    /// Number of worker threads.
    pub workers: usize,
    /// CPU time of the process (user and system) in the measured windows, in seconds.
    pub cpu_seconds: f64,
    /// CPU time per operation, in microseconds.
    pub cpu_us_per_operation: f64,
    /// Peak resident set size in bytes.
    pub peak_rss_bytes: u64,
}

/// Kind of the loop that issues operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum LoopKind {
    /// Closed loop: the next operation starts when one ends.
    #[default]
    Closed,
    /// Open loop: operations start at intended times.
    Open,
}

impl LoopKind {
    /// Returns the name used in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            LoopKind::Closed => "closed",
            LoopKind::Open => "open",
        }
    }
}

/// Results of one kind of operation in one window of a phase on one store.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Window {
    /// URL of the store as the user wrote it, without credentials.
    pub store: String,
    /// Provider of the store.
    pub provider: String,
    /// Name of the phase.
    pub phase: String,
    /// Role of the phase: `prepare`, `warmup` or `measure`.
    pub role: Role,
    /// Repeat of the phase, from 0.
    pub repeat: u32,
    /// Block of an interleaved run, from 0.
    pub block: u32,
    /// Step of a ramp, from 0.
    #[serde(default)]
    pub step: Option<u32>,
    /// Start of the window by the client's clock, in Unix seconds.
    #[serde(default)]
    pub start_unix_s: f64,
    /// Place of the phase in its sweep. Null outside a sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepPlace>,
    /// Settings of multipart uploads. Null if objects are not uploaded in parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<UploadFigures>,
    /// Group of keys. Null if the experiment does not distinguish groups.
    pub key_group: Option<String>,
    /// Kind of operation.
    pub operation: OperationKind,
    /// Kind of loop: `closed` or `open`.
    #[serde(rename = "loop")]
    pub loop_: LoopKind,
    /// Operations in flight of a closed loop; in-flight limit of an open loop.
    pub concurrency: usize,
    /// Operations intended per second; open loops only.
    pub offered_per_s: Option<f64>,
    /// Successful operations that ended inside the window, per second.
    pub achieved_per_s: f64,
    /// True if the store or the client could not keep up with the offered rate; open loops only.
    pub saturated: bool,
    /// Length of the window, in seconds.
    pub window_s: f64,
    /// Operations that belong to the window, successful or not.
    pub operations: u64,
    /// Requests sent for these operations.
    pub attempts: u64,
    /// Requests sent again after a failure. For a compare-and-swap, this includes the conflicts with other writers.
    #[serde(default)]
    pub retries: u64,
    /// Successful compare-and-swaps of each writer, in ascending order. Absent for other operations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commits_by_writer: Vec<u64>,
    /// Object bytes delivered inside the window.
    pub bytes: u64,
    /// Operations whose response time is known only to exceed the time waited.
    pub censored: u64,
    /// Number of connections opened.
    pub connections: u64,
    /// Requests sent again because the store had closed their reused connection.
    pub reconnects: u64,
    /// Reason why the client was the bottleneck; the figures then measure the client. Null if it was not.
    pub client_limited: Option<String>,
    /// True if the CPU or the network link of the client was exhausted, so that it could not send more operations.
    #[serde(default)]
    pub client_exhausted: bool,
    /// Share of CPU time that the hypervisor gave to other machines (0 to 1). Null if unknown.
    pub client_steal: Option<f64>,
    /// Error of Plimsoll itself, found by its consistency check. Null if there is none.
    pub instrument_error: Option<String>,
    /// Failed operations by class.
    pub errors: BTreeMap<String, u64>,
    /// Operations in flight, averaged over time.
    pub in_flight_mean: f64,
    /// Object bytes delivered inside the window, per second.
    pub throughput_bytes_per_s: f64,
    /// Start to end of successful operations.
    pub service_ms: Percentiles,
    /// Intended time to end; open loops only.
    pub response_ms: Option<Percentiles>,
    /// Start to first byte of the response.
    pub first_byte_ms: Percentiles,
    /// First to last byte of the content.
    pub body_ms: Percentiles,
    /// Duration of TCP handshakes.
    pub connect_ms: Percentiles,
    /// Duration of TLS handshakes.
    pub tls_ms: Percentiles,
    /// Start to end of failed operations.
    pub failed_ms: Percentiles,
    /// Duration of single attempts, if the phase retries.
    pub attempt_ms: Percentiles,
    /// Start to end of successful operations by cache status: `hit`, `revalidated`, `miss`, `bypass`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cache_ms: BTreeMap<String, Percentiles>,
    /// Share of cache hits among the responses that carry a cache status (0 to 1). Null if none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_ratio: Option<f64>,
    /// Successful operations by the size of their object, in ascending order. Empty if all objects have one size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub size_classes: Vec<SizeClassFigures>,
    /// Operations by the address to which they were sent. Empty if all went to one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<AddressFigures>,
    /// Delay between the time at which Plimsoll could have started an operation and its actual start.
    pub start_lag_ms: Percentiles,
    /// Clock of the figures, and disturbances of the client.
    #[serde(default)]
    pub disturbances: Disturbances,
    /// HdrHistograms by name: V2 encoding, compressed, base64; values in microseconds.
    pub histograms: BTreeMap<String, String>,
}

impl Window {
    /// Returns the display name of the phase, with the step of its ramp counted from 1: `get`, `ramp_3`.
    pub fn label(&self) -> String {
        self.step.map_or_else(|| self.phase.clone(), |step| format!("{}_{}", self.phase, step + 1))
    }

    /// Returns the display name of phase and operation: `load put`, `ramp_3 get`, or `get` if both have one name.
    pub fn place(&self) -> String {
        let (label, operation) = (self.label(), self.operation.name());
        if label == operation { label } else { format!("{label} {operation}") }
    }

    /// Returns the number of successful operations, each of which has a service time.
    pub fn succeeded(&self) -> u64 {
        self.service_ms.n
    }
}

/// Percentiles in milliseconds. A percentile is the upper bound of its histogram bucket, at most 0.1% too high.
/// It is null if it has too few samples, or if censored operations make it uncertain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Percentiles {
    /// Number of samples.
    pub n: u64,
    /// Exact arithmetic mean.
    pub mean: Option<f64>,
    /// 50th percentile (median), in milliseconds.
    pub p50: Option<f64>,
    /// 90th percentile, in milliseconds.
    pub p90: Option<f64>,
    /// 95th percentile, in milliseconds.
    pub p95: Option<f64>,
    /// 99th percentile, in milliseconds.
    pub p99: Option<f64>,
    /// 99.9th percentile, in milliseconds.
    #[serde(rename = "p99.9")]
    pub p99_9: Option<f64>,
    /// Exact minimum, in milliseconds.
    pub min: Option<f64>,
    /// Exact maximum, in milliseconds; null if any operation was censored.
    pub max: Option<f64>,
    /// Lower bounds of the percentiles that censored operations make uncertain, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", alias = "above")]
    pub lower_bounds: BTreeMap<String, f64>,
    /// Number of samples that each omitted percentile needs, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", alias = "needs")]
    pub samples_needed: BTreeMap<String, u64>,
}

impl Percentiles {
    /// Returns a percentile by name, such as `p50` or `p99.9`; also `mean`, `min` and `max`.
    pub fn get(&self, name: &str) -> Option<f64> {
        match name {
            "mean" => self.mean,
            "p50" => self.p50,
            "p90" => self.p90,
            "p95" => self.p95,
            "p99" => self.p99,
            "p99.9" => self.p99_9,
            "min" => self.min,
            "max" => self.max,
            _ => None,
        }
    }
}

/// Returns the JSON schema of [`RunResult`], as published in `schema/result.schema.json`.
#[cfg(feature = "schema")]
pub fn schema() -> String {
    let mut text = serde_json::to_string_pretty(&schemars::schema_for!(RunResult)).unwrap_or_default();
    text.push('\n');
    text
}
