//! The experiment file as written: every field optional that has a default, nothing interpreted. Its JSON schema is
//! `schema/experiment.schema.json`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::field_specs::{ConcurrencySpec, NamingSpec, PopularitySpec, RateSpec, SizeSpec};

/// The file.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExperimentSpec {
    /// Name of the experiment.
    pub name: String,
    /// What it is good for.
    #[serde(default)]
    pub description: String,
    /// Seed of everything random.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Stores to run on, by URL or name; `--store` replaces them.
    #[serde(default)]
    pub stores: Vec<String>,
    /// Stores by name, as in `plimsoll.toml`; a table here comes before one there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub store: BTreeMap<String, NamedStore>,
    /// How often warm-up and measured phases are gone through (1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// Order of several stores: `interleaved` (the default) or `sequential`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// Longest block of interleaving (10s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    /// Unrecorded warm-up after a change of store (1s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewarm: Option<String>,
    /// Phases in order.
    #[serde(default)]
    pub phase: Vec<PhaseSpec>,
}

/// A `[store.NAME]` table. It names variables of the environment; it never holds a credential.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedStore {
    /// URL.
    pub url: String,
    /// Variable that holds the access key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_key_env: Option<String>,
    /// Variable that holds the secret key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_key_env: Option<String>,
    /// Variable that holds the session token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_token_env: Option<String>,
}

/// Seed where none is written.
pub const DEFAULT_SEED: u64 = 42;

fn default_seed() -> u64 {
    DEFAULT_SEED
}

/// One phase.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhaseSpec {
    /// Unique name.
    pub name: String,
    /// `prepare`, `warmup` or `measure` (the default).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Weights by operation: `{ get = 45, put = 15 }`.
    pub operations: BTreeMap<String, u32>,
    /// Objects it works on.
    #[serde(default)]
    pub objects: ObjectsSpec,
    /// Closed loop: operations in flight (16), or how they rise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<ConcurrencySpec>,
    /// Open loop: intended operations per second, `500/s`, or how they rise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateSpec>,
    /// Open loop: `constant` (the default) or `poisson`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival: Option<String>,
    /// Open loop: most operations in flight (1024).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u64>,
    /// Length of the phase (30s, unless `stop_after` is given).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<String>,
    /// Ends the phase after so many operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_after: Option<u64>,
    /// Deadline of one operation (60s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// How long unanswered operations are waited for at the end (10s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<String>,
    /// Further attempts after throttling, server errors and broken connections (0; 5 in prepare phases).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// `on` (the default) compares what is read byte for byte, `off` by length; `readback` also reads back all that is put.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<String>,
    /// Runs the phase at every combination of these part sizes and numbers of parts in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepSpec>,
    /// The sweep that the phase is a point of; written by Plimsoll into resolved experiments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep_of: Option<String>,
    /// Closed loop: pause after each operation (none).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cooldown: Option<String>,
}

/// Records as YCSB names them.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordsSpec {
    /// What their keys begin with, after the store's own prefix: `usertable/`.
    pub at: String,
    /// Records that are there, or are to be written.
    pub count: u64,
    /// Number of the first (0).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// What their names begin with (user).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// `hashed` (the default), `hashed-go` or `ordered`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// Least digits of their numbers (1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digits: Option<u64>,
    /// How they are written, where they are no plain bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<EncodingSpec>,
}

/// A msgpack map of fields, as go-ycsb writes records.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EncodingSpec {
    /// Fields of a record.
    pub fields: u32,
    /// Bytes of a field.
    pub length: u32,
    /// Whether an update writes all fields, or one and loses the others.
    pub writes_all: bool,
}

/// How many objects a scan reads.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScanSpec {
    /// Least (1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<u64>,
    /// Most, at most 1000.
    pub max: u64,
    /// Exponent of a zipfian distribution of lengths (all alike).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theta: Option<f64>,
}

/// The points of a sweep.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SweepSpec {
    /// Part sizes: `["8 MiB", "64 MiB"]`.
    pub part_size: Vec<String>,
    /// Numbers of parts in flight: `[1, 8]`.
    pub parts_in_flight: Vec<u64>,
}

/// The objects of a phase.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObjectsSpec {
    /// The prepare phase that wrote what this one reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Objects that were there before, only read: `s3://bucket/prefix`, or a prefix in each store's own bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// Records under a prefix of their own that are kept from run to run: read, rewritten, added to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<RecordsSpec>,
    /// How many objects a `scan` reads (1 to 100).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan: Option<ScanSpec>,
    /// A file that names the keys to read, one a line, a size behind it where that is to be checked: for what has no listings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<String>,
    /// Objects to write, round and round (1000, or as many as `from` has); with `dataset` the most to read (100000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Size of what is written (1 KiB, or as in `from`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<SizeSpec>,
    /// Writes objects larger than this in parts of this size, by multipart upload (at least 5 MiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_size: Option<String>,
    /// Parts of one object on their way at once (1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts_in_flight: Option<u64>,
    /// Checksum that uploads bear: `auto` (the cheapest that the store keeps of a whole object), `md5`, `crc32`, `crc32c`, `crc64nvme`,
    /// `sha1`, `sha256` (the store's own setting).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// A file that is the content of every object written; its length is their size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Bytes of a `get_range`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// How often the objects that are read come up (`uniform`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub popularity: Option<PopularitySpec>,
    /// What keys look like (`sequential`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub naming: Option<NamingSpec>,
}

/// The JSON schema of an experiment file, as published in `schema/experiment.schema.json`.
pub fn schema() -> String {
    let mut text = serde_json::to_string_pretty(&schemars::schema_for!(ExperimentSpec)).unwrap_or_default();
    text.push('\n');
    text
}
