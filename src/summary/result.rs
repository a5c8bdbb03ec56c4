//! The shape of `result.json`, schema number 1 (`schema/result.schema.json`). Field names carry their units and are the contract.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod judgement;

pub use judgement::{ClientLimit, Judged, KneeFigures, KneeStep};

/// Schema number of [`RunResult`].
pub const SCHEMA: u32 = 1;

/// Results of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// Schema number: 1.
    pub schema: u32,
    /// Which run.
    pub run: RunInfo,
    /// What the instrument used.
    pub client: ClientInfo,
    /// One entry per store, phase, repeat, block, step and operation.
    pub windows: Vec<Window>,
    /// One entry per ramp and operation: where it led.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ramps: Vec<RampFigures>,
    /// One entry per store and sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sweeps: Vec<SweepFigures>,
    /// One entry per loop of `plimsoll sync`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sync: Vec<SyncLoop>,
    /// Requests that stores made on their own account.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background_requests: Vec<BackgroundRequests>,
    /// What a search for the highest rate within objectives came to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<KneeFigures>,
    /// What the run cost, one entry per store whose provider has prices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cost: Vec<CostFigures>,
    /// What the figures of the measured phases are known to lie between; blocks and repeats as one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confidence: Vec<Judged>,
}

impl RunResult {
    /// Returns the stores with windows in the order in which the experiment lists them, whichever ran first; a store that the list lacks
    /// comes last.
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

/// What a run cost at one store: every request that was made there, preparation and clean-up included. Amounts are decimals, written as
/// strings because they are exact.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CostFigures {
    /// The store as written.
    pub store: String,
    /// Whose prices: a name from `plimsoll list prices`.
    pub provider: String,
    /// Region of the prices.
    pub region: String,
    /// Date of the prices.
    pub as_of: String,
    /// Whether the store is not that provider's, but was told to be taken for it.
    pub emulated: bool,
    /// What it was estimated to cost beforehand, as far as that could be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_usd: Option<String>,
    /// What it cost.
    pub total_usd: String,
    /// What is charged.
    pub lines: Vec<CostLine>,
    /// What was taken for granted, and what has no price.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One line of a run's cost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CostLine {
    /// What is charged.
    pub item: String,
    /// How many units.
    pub quantity: String,
    /// The unit.
    pub unit: String,
    /// Price of one.
    pub unit_price_usd: String,
    /// What the line comes to.
    pub amount_usd: String,
    /// Where the price comes from.
    pub source: String,
    /// When it was read there.
    pub as_of: String,
    /// `high`, `medium` or `low`.
    pub confidence: String,
}

/// Requests that a store made on its own account, such as those for sessions; they belong to no operation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BackgroundRequests {
    /// The store as written.
    pub store: String,
    /// What they were for: `CreateSession`.
    pub what: String,
    /// How many there were.
    pub calls: u64,
    /// How many of them failed.
    pub failed: u64,
    /// Time of the first.
    pub first_ms: f64,
    /// Mean time.
    pub mean_ms: f64,
    /// Longest time.
    pub max_ms: f64,
}

/// How objects are uploaded in parts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UploadFigures {
    /// Bytes of an object, where all have the same.
    pub object_bytes: Option<u64>,
    /// Bytes of a part.
    pub part_bytes: u64,
    /// Parts of one object on their way at once.
    pub parts_in_flight: u64,
    /// Checksum that each part bears, as the experiment asks for it.
    pub checksum: Option<String>,
    /// How uploads are held against what was sent: `off`, `on`, `readback`.
    pub verify: String,
    /// The sweep that it is a point of.
    pub sweep: Option<String>,
}

/// One setting of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepPoint {
    /// Bytes of a part.
    pub part_bytes: u64,
    /// Parts of one object on their way at once.
    pub parts_in_flight: u64,
    /// Uploads.
    pub uploads: u64,
    /// Of those, failed.
    pub failed: u64,
    /// Requests made.
    pub requests: u64,
    /// Of those, made again.
    pub retries: u64,
    /// Median time of an upload; the mean where there are too few for a median.
    pub median_s: Option<f64>,
    /// Object bytes in that time, per second.
    pub bytes_per_s: Option<f64>,
}

/// What a sweep of part sizes and parts in flight came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepFigures {
    /// The store as written.
    pub store: String,
    /// Name of the phase that was swept.
    pub sweep: String,
    /// Its points that the store takes.
    pub points: Vec<SweepPoint>,
    /// The point to use: of those that lost no upload and are within 5% of the fastest, the one with the least in flight.
    pub recommended: Option<SweepPoint>,
}

/// One loop of `plimsoll sync`: everything moved once, by one client.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SyncLoop {
    /// The store as written.
    pub store: String,
    /// `up` or `down`.
    pub direction: String,
    /// `plimsoll`, or another tool.
    pub client: String,
    /// Number of the loop, from 0.
    pub repeat: u32,
    /// Wall time of the loop.
    pub wall_s: f64,
    /// CPU time of the client.
    pub cpu_s: f64,
    /// Files moved.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files per second.
    pub objects_per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
}

/// Where a ramp led.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RampFigures {
    /// The store as written.
    pub store: String,
    /// Name of the phase.
    pub phase: String,
    /// Repeat, from 0.
    pub repeat: u32,
    /// Kind of operation.
    pub operation: String,
    /// Steps that count.
    pub steps: u32,
    /// Why there are no more.
    pub ended: String,
    /// Whether the plateau rule holds somewhere along its steps.
    #[serde(default)]
    pub reached: bool,
    /// Mean throughput of the steps within 5% of the best one, where content moves.
    pub plateau_bytes_per_s: Option<f64>,
    /// The same in operations per second.
    pub plateau_per_s: f64,
    /// Operations in flight at which the plateau begins (asymptotic bounds, see docs/method.md); null without a plateau, and where the
    /// first step is on it already.
    pub knee_in_flight: Option<f64>,
}

/// One host's part of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShardInfo {
    /// Number of the shard, from 1.
    pub shard: u64,
    /// Number of shards.
    pub of: u64,
    /// Run id of the shard.
    pub run: String,
    /// When it was meant to begin measuring, in Unix seconds.
    pub start_at_unix_s: f64,
    /// How late its first window began by its own clock, in seconds.
    pub start_late_s: Option<f64>,
    /// Store's clock minus its own, in seconds; the Date header has whole seconds, so within one.
    pub clock_offset_s: Option<f64>,
    /// Its clock minus the reference clock, in seconds, where `--clock-offset` said so.
    pub host_offset_s: Option<f64>,
    /// Shards that had prepared their objects when it began; fewer than `of` means that reads may have missed some.
    pub prepared: Option<u64>,
    /// Whether it was cut short.
    pub partial: bool,
}

/// Which run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunInfo {
    /// Identity, and name of its directory.
    pub id: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Stores in the order in which the experiment lists them; windows are in the order in which they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stores: Vec<String>,
    /// When it began, RFC 3339.
    pub started_at: String,
    /// Version of Plimsoll.
    pub version: String,
    /// Whether it was cut short: interrupted, killed, or a phase failed.
    pub partial: bool,
    /// What is missing from a merged run or may be wrong with it: shards that never came, late ones, clocks that disagree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// What was done differently on one store than on others, and which documented limits it will meet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The shards that it consists of; one when it is a shard itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<ShardInfo>,
    /// Where it came from, when it was not measured by Plimsoll.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<String>,
}

/// What the instrument used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientInfo {
    /// From where it was measured.
    pub vantage: String,
    /// Worker threads.
    pub workers: usize,
    /// CPU time of the process, user and system, in the measured windows.
    pub cpu_seconds: f64,
    /// The same per operation.
    pub cpu_us_per_operation: f64,
    /// Largest resident set.
    pub peak_rss_bytes: u64,
}

/// The figures of one operation in one phase on one store.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// The store as written.
    pub store: String,
    /// Its provider.
    pub provider: String,
    /// Name of the phase.
    pub phase: String,
    /// `prepare`, `warmup` or `measure`.
    pub role: String,
    /// Repeat of the phase, from 0.
    pub repeat: u32,
    /// Block of interleaving, from 0.
    pub block: u32,
    /// Step of a ramp, from 0.
    #[serde(default)]
    pub step: Option<u32>,
    /// When the window began by the client's clock, in Unix seconds.
    #[serde(default)]
    pub start_unix_s: f64,
    /// How objects are uploaded, where they go in parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<UploadFigures>,
    /// Group of keys, where the experiment tells groups apart.
    pub key_group: Option<String>,
    /// Kind of operation.
    pub operation: String,
    /// `closed` or `open`.
    #[serde(rename = "loop")]
    pub loop_: String,
    /// Operations in flight of a closed loop, limit of an open one.
    pub concurrency: usize,
    /// Operations intended per second; open loops only.
    pub offered_per_s: Option<f64>,
    /// Operations answered well inside the window, per second.
    pub achieved_per_s: f64,
    /// Whether the store (or the client) could not keep up; open loops only.
    pub saturated: bool,
    /// Length of the window.
    pub window_s: f64,
    /// Operations that belong to the window, however they ended.
    pub operations: u64,
    /// Requests made for them.
    pub attempts: u64,
    /// Of those, the ones that were made again after a failure.
    #[serde(default)]
    pub retries: u64,
    /// Object bytes delivered inside the window.
    pub bytes: u64,
    /// Operations whose response time is only known to exceed what was waited.
    pub censored: u64,
    /// Connections made.
    pub connections: u64,
    /// Requests sent again because their reused connection had been closed.
    pub reconnects: u64,
    /// What limited the client, when it was the limit; the figures then measure the client.
    pub client_limited: Option<String>,
    /// Share of CPU time that the hypervisor gave to other machines, where it is told.
    pub client_steal: Option<f64>,
    /// What is wrong with the instrument, when its own books do not balance.
    pub instrument_error: Option<String>,
    /// Failed operations by class.
    pub errors: BTreeMap<String, u64>,
    /// Time-mean of operations in flight.
    pub in_flight_mean: f64,
    /// Object bytes delivered inside the window, per second.
    pub throughput_bytes_per_s: f64,
    /// Start to end of successes, in milliseconds.
    pub service_ms: Percentiles,
    /// Intended time to end; open loops only.
    pub response_ms: Option<Percentiles>,
    /// Start to first byte of the answer.
    pub first_byte_ms: Percentiles,
    /// First to last byte of the content.
    pub body_ms: Percentiles,
    /// TCP handshakes.
    pub connect_ms: Percentiles,
    /// TLS handshakes.
    pub tls_ms: Percentiles,
    /// Start to end of failures.
    pub failed_ms: Percentiles,
    /// Single attempts, where the phase retries.
    pub attempt_ms: Percentiles,
    /// Start to end of successes by what a cache says of them: `hit`, `revalidated`, `miss`, `bypass`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cache_ms: BTreeMap<String, Percentiles>,
    /// Share of the answers that a cache gave without its origin, of those of which a cache says anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_ratio: Option<f64>,
    /// How late the instrument began operations that it could have begun.
    pub start_lag_ms: Percentiles,
    /// HdrHistograms (V2, compressed, base64; microseconds) by name.
    pub histograms: BTreeMap<String, String>,
}

impl Window {
    /// The phase for people, with the step of its ramp counted from 1: `get`, `ramp_3`.
    pub fn label(&self) -> String {
        self.step.map_or_else(|| self.phase.clone(), |step| format!("{}_{}", self.phase, step + 1))
    }
}

/// Percentiles in milliseconds. One that too few samples carry, or that lies among censored ones, is null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Percentiles {
    /// Samples behind them.
    pub n: u64,
    /// Exact arithmetic mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    #[serde(rename = "p99.9")]
    pub p99_9: Option<f64>,
    /// Exact minimum.
    pub min: Option<f64>,
    /// Exact maximum; null when something was censored.
    pub max: Option<f64>,
    /// Percentiles that lie among censored operations, with the value they exceed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub above: BTreeMap<String, f64>,
    /// Percentiles that are not shown, with the number of samples they need.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub needs: BTreeMap<String, u64>,
}

impl Percentiles {
    /// A percentile by name: `p50`, `p99.9`.
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

/// The JSON schema of [`RunResult`], as published in `schema/result.schema.json`.
pub fn schema() -> String {
    let mut text = serde_json::to_string_pretty(&schemars::schema_for!(RunResult)).unwrap_or_default();
    text.push('\n');
    text
}
