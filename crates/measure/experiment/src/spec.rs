//! The experiment file as written: fields with a default are optional, and values are not interpreted yet. Its JSON
//! schema is `schema/experiment.schema.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use super::field_specs::{ArrivalSpec, ConcurrencySpec, NamingSpec, PopularitySpec, RateSpec, SizeSpec};

/// An experiment file: the stores, the order of execution and the phases.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExperimentSpec {
    /// Name of the experiment.
    pub name: String,
    /// Purpose of the experiment, as free text.
    #[serde(default)]
    pub description: String,
    /// Seed for all random choices (default: 42). Runs with the same seed perform the same sequence of operations.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Stores to run on, as URLs or names. `--store` replaces this list.
    #[serde(default)]
    pub stores: Vec<String>,
    /// Named stores, as in `plimsoll.toml`. A table here takes precedence over one of the same name there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub store: BTreeMap<String, NamedStore>,
    /// Number of passes through the warm-up and measured phases (default: 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// Order of several stores: `interleaved` (default) runs them in turns, block by block; `sequential` runs one
    /// store after another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// Maximum length of a block when stores are interleaved (default: `10s`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    /// Length of the unrecorded warm-up after each change of store (default: `1s`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewarm: Option<String>,
    /// Phases, in the order in which they run.
    #[serde(default)]
    pub phase: Vec<PhaseSpec>,
}

/// A `[store.NAME]` table. It names the environment variables that contain the credentials, never the credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NamedStore {
    /// URL of the store.
    pub url: String,
    /// Name of the environment variable that contains the access key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_key_env: Option<String>,
    /// Name of the environment variable that contains the secret key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_key_env: Option<String>,
    /// Name of the environment variable that contains the session token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_token_env: Option<String>,
    /// URL of the relay that sends the requests, such as a Cloudflare Worker. The environment variable
    /// `PLIMSOLL_RELAY_TOKEN` contains its token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<String>,
}

/// Seed of an experiment that does not set one.
pub const DEFAULT_SEED: u64 = 42;

fn default_seed() -> u64 {
    DEFAULT_SEED
}

/// A phase: one workload under one load.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PhaseSpec {
    /// Name of the phase, unique in the file: 1 to 64 letters, digits, `-`, `_` or `.`.
    pub name: String,
    /// Role of the phase: `prepare` writes objects for later phases, `warmup` is recorded but not reported, `measure`
    /// (default) is reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Weight of each operation, such as `{ get = 45, put = 15 }`. Required unless the phase has a trace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub operations: BTreeMap<String, u32>,
    /// Recorded requests that the phase repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceSpec>,
    /// Objects that the phase reads, writes or deletes.
    #[serde(default)]
    pub objects: ObjectsSpec,
    /// Closed loop: number of operations in flight (default: 16), or a ramp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<ConcurrencySpec>,
    /// Open loop: intended rate of operations, such as `500/s`, or a ramp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateSpec>,
    /// Open loop: distribution of the intended start times (default: `constant`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival: Option<ArrivalSpec>,
    /// Open loop: maximum number of operations in flight (default: 1024).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u64>,
    /// Length of the phase. Default: `30s`, or unlimited if `stop_after` is set or the phase is a prepare phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<String>,
    /// Reads each object of `objects.from` once, this time after the end of the phase before: `10s`, or `0s` without a
    /// pause. The order is `objects.popularity`: `sequential` (default), `reversed`, `shuffled` or `shifted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_after: Option<String>,
    /// Number of operations after which the phase ends. Default: unlimited; in prepare phases, the number of objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_after: Option<u64>,
    /// Deadline of one operation, or of each request of a multipart upload (default: `60s`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Maximum time to wait for unanswered operations at the end of the phase (default: `10s`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<String>,
    /// Maximum number of retries of a request after throttling, a server error or a broken connection (default: 0;
    /// 10 in prepare phases).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Verification of content: `on` (default) compares the bytes that are read, `off` checks only their length,
    /// `readback` also reads back every object that the phase writes, outside the measured time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<String>,
    /// State of the store's caches that the phase declares: `cold` (each object is read at most once) or `warm` (an
    /// earlier warm-up phase reads every object once).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// Sizes at which classes of sizes begin, such as `["64 KiB", "1 MiB"]`. Results have the latency of each class, if
    /// the objects have several sizes (default: 1 KiB, 4 KiB, 16 KiB, and so on).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_classes: Option<Vec<String>>,
    /// Sweep: the phase runs once for every combination of these values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepSpec>,
    /// Name of the sweep to which the phase belongs. Plimsoll writes this field into resolved experiments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep_of: Option<String>,
    /// Values of the sweep with which the phase runs. Plimsoll writes this field into resolved experiments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sweep_at: BTreeMap<String, String>,
    /// Closed loop: pause after each operation (default: none).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think_time: Option<String>,
}

/// Recorded requests that a phase repeats at their recorded times, instead of `operations`, `rate` and `duration`. A
/// prepare phase writes the objects that existed before the first request.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TraceSpec {
    /// Logs, or the Parquet files of a scan: files, and directories with files.
    pub files: Vec<String>,
    /// Format of the logs: `s3`, `cloudfront`, `minio`, `nginx`, `plimsoll`, `warp` or `csv` (default: detected).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Columns of a table that are not called `time`, `operation`, `key`, `size`, `bytes`, `status` or `bucket`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<String, String>,
    /// Factor by which the requests are faster than recorded (default: 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    /// Program whose scan the phase repeats; the files are then Parquet files: `duckdb` or `pyarrow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reader: Option<String>,
    /// Columns that the scan reads (default: all).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub select: Vec<String>,
}

/// YCSB records: the objects of a table that is kept from run to run.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RecordsSpec {
    /// Name of the table, ending in `/`, such as `usertable/`. The keys of its records begin with
    /// `plimsoll/records-<table>/` after the store's prefix.
    pub at: String,
    /// Number of records that the phase works on or writes.
    pub count: u64,
    /// Number of the first record (default: 0).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// Prefix of the record names (default: `user`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Form of the numbers in record names: `hashed` as in YCSB (default), `hashed-go` as in go-ycsb, or `ordered`
    /// (not hashed).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// Minimum number of digits in a record name; shorter numbers are padded with zeros (default: 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digits: Option<u64>,
    /// Encoding of the records (default: plain bytes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<EncodingSpec>,
}

/// Encoding of a record as a msgpack map of fields, as go-ycsb writes it.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EncodingSpec {
    /// Number of fields in a record.
    pub fields: u32,
    /// Length of a field, in bytes.
    pub length: u32,
    /// True if an update writes all fields; false if it writes one field, which removes the others from the record.
    pub writes_all: bool,
}

/// Number of objects that a `scan` reads: a random number from `min` to `max`.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ScanSpec {
    /// Minimum number of objects (default: 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<u64>,
    /// Maximum number of objects; must not exceed 1000.
    pub max: u64,
    /// Exponent of a zipfian distribution that favours short scans (default: all lengths are equally likely).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theta: Option<f64>,
}

/// The values of a sweep, which runs every combination of them: one or two fields, each with its values.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SweepSpec {
    /// Sizes of the objects, such as `["1 KiB", "1 MiB"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Vec<String>>,
    /// Sizes of the objects to read in total, such as `["16 MiB", "32 MiB"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_set: Option<Vec<String>>,
    /// Part sizes, such as `["8 MiB", "64 MiB"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_size: Option<Vec<String>>,
    /// Numbers of parts in flight, such as `[1, 8]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts_in_flight: Option<Vec<u64>>,
    /// Closed loop: numbers of operations in flight, such as `[1, 8, 64]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Vec<u64>>,
    /// Open loop: rates, such as `["100/s", "1000/s"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Vec<String>>,
}

/// The objects that a phase reads, writes or deletes.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ObjectsSpec {
    /// Name of the earlier prepare phase whose objects this phase reads. A measured phase that puts each of its
    /// objects once is also allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Existing objects, which are only read: `s3://bucket/prefix`, or a prefix in each store's own bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// YCSB records, which are kept from run to run. Operations can read, overwrite and add records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<RecordsSpec>,
    /// Number of objects that a `scan` reads (default: 1 to 100).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan: Option<ScanSpec>,
    /// Path of a file with the keys to read, for stores that cannot list: one key per line, optionally followed by
    /// a tab and the size in bytes, which is then checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<String>,
    /// Number of objects to write, repeatedly and in order (default: 1000, or the number of objects of `from`). With
    /// `dataset` or `keys`: maximum number of objects to read (default: 100000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Size of the objects to write (default: 1 KiB, or the size of the objects of `from`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<SizeSpec>,
    /// Part size, at least 5 MiB. Larger objects are written by multipart upload in parts of this size. Default: one
    /// request per object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_size: Option<String>,
    /// Number of parts of one object in flight at the same time (default: 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts_in_flight: Option<u64>,
    /// Checksum sent with uploads: `auto` (the cheapest one that the store keeps for a whole object), `md5`, `crc32`,
    /// `crc32c`, `crc64nvme`, `sha1` or `sha256`. Default: the setting of the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// Path of a file that is the content of every object to write; its length replaces `size`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Share of the bytes that compression can remove, from 0 to 0.99 (default: 0, or that of the objects of `from`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compressible: Option<f64>,
    /// Number of objects with the same content, at least 1; other objects share no block of 4 KiB (default: 1 with
    /// `compressible`, or that of the objects of `from`; otherwise, all contents are slices of one block of 2 MiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedup: Option<f64>,
    /// Number of bytes that a `get_range` reads, such as `1 MiB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// Size of the objects to read, such as `64 MiB`: the first ones of `from`, which have one size (default: all).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_set: Option<String>,
    /// Distribution of reads over the objects (default: `uniform`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub popularity: Option<PopularitySpec>,
    /// Naming scheme of the keys to write (default: `sequential`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub naming: Option<NamingSpec>,
}

/// Returns the JSON schema of an experiment file, as published in `schema/experiment.schema.json`.
#[cfg(feature = "schema")]
pub fn schema() -> String {
    let mut text = serde_json::to_string_pretty(&schemars::schema_for!(ExperimentSpec)).unwrap_or_default();
    text.push('\n');
    text
}
