//! Fields that may be written in several ways: a plain value, or a table that says more. What fits none of them is refused with
//! all of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use toml::Value;

/// A size or a distribution of sizes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SizeSpec {
    /// All the same: `"1 MiB"`.
    Fixed(String),
    /// `{ uniform = ["1 KiB", "1 MiB"] }`.
    Uniform {
        /// Smallest and largest.
        uniform: [String; 2],
    },
    /// `{ lognormal = { median = "1 MiB", sigma = 1.0, max = "1 GiB" } }`.
    Lognormal {
        /// Its parameters.
        lognormal: LognormalSpec,
    },
    /// `{ weighted = { "4 KiB" = 70, "1 MiB" = 30 } }`.
    Weighted {
        /// Weight by size.
        weighted: BTreeMap<String, u32>,
    },
    /// `{ sum = { count = 10, of = { uniform = ["1 B", "100 B"] } } }`.
    Sum {
        /// Its parts.
        sum: SumSpec,
    },
}

/// Sizes drawn and added up.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SumSpec {
    /// How many.
    pub count: u32,
    /// Of what.
    pub of: Box<SizeSpec>,
}

/// Parameters of a lognormal size distribution.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LognormalSpec {
    /// Median.
    pub median: String,
    /// Standard deviation of the logarithm.
    pub sigma: f64,
    /// Smallest size (1 B).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<String>,
    /// Largest size (5 GiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
}

/// A popularity by name, or with its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum PopularitySpec {
    /// `uniform`, `sequential`, `zipfian`, `latest`, `hotspot` or `ycsb_latest`.
    Name(String),
    /// `{ zipfian = 0.99 }`.
    Zipfian {
        /// Exponent.
        zipfian: f64,
    },
    /// `{ latest = 0.99 }`.
    Latest {
        /// Exponent.
        latest: f64,
    },
    /// `{ hotspot = { objects = 0.2, operations = 0.8 } }`.
    Hotspot {
        /// Its shares.
        hotspot: HotspotSpec,
    },
    /// `{ ycsb_zipfian = { items = 1001, order = "hashed" } }`.
    YcsbZipfian {
        /// Its modulus and hash.
        ycsb_zipfian: YcsbZipfianSpec,
    },
    /// `{ exponential = { percentile = 95, objects = 0.86 } }`.
    Exponential {
        /// Its shares.
        exponential: ExponentialSpec,
    },
}

/// Modulus and hash of YCSB's zipfian.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct YcsbZipfianSpec {
    /// Keys of the modulus: those that are there, those that inserts are expected to add, and one.
    pub items: u64,
    /// `hashed` (YCSB) or `hashed-go` (go-ycsb).
    pub order: String,
}

/// Shares of an exponential popularity.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExponentialSpec {
    /// Share of the operations, in percent.
    pub percentile: f64,
    /// Share of the objects, the last ones, that they go to.
    pub objects: f64,
}

/// Shares of a hotspot.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HotspotSpec {
    /// Share of the objects that are hot.
    pub objects: f64,
    /// Share of the operations that go to them.
    pub operations: f64,
}

/// How keys are named.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum NamingSpec {
    /// `sequential` or `hex`.
    Name(String),
    /// `{ prefixes = 16 }`, `{ template = "logs/{hex}/{index}.bin" }`, or both.
    Table {
        /// Number of prefixes.
        #[serde(skip_serializing_if = "Option::is_none")]
        prefixes: Option<u64>,
        /// Template of a key.
        #[serde(skip_serializing_if = "Option::is_none")]
        template: Option<String>,
    },
}

/// Operations in flight.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ConcurrencySpec {
    /// Always so many.
    Fixed(u64),
    /// Rising.
    Ramp(ConcurrencyRamp),
}

/// A rising number of operations in flight.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConcurrencyRamp {
    /// First step.
    pub from: u64,
    /// What each step adds.
    pub step: u64,
    /// Length of a step.
    pub every: String,
    /// Most (512 where the ramp ends at its plateau).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// `plateau` (the default) or `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
}

/// Intended operations per time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum RateSpec {
    /// Always so many.
    Fixed(String),
    /// Rising.
    Ramp(RateRamp),
}

/// A rising rate.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateRamp {
    /// First step.
    pub from: String,
    /// What each step adds.
    pub step: String,
    /// Length of a step.
    pub every: String,
    /// Most.
    pub to: String,
    /// `plateau` (the default) or `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
}

/// The forms of each field, for people.
const SIZE: &str = "write a size, such as \"1 MiB\", or { uniform = [\"1 KiB\", \"1 MiB\"] }, { lognormal = { median = \"1 MiB\", sigma = 1.0 } } \
                    or { weighted = { \"4 KiB\" = 70, \"1 MiB\" = 30 } }";
const POPULARITY: &str = "write \"uniform\", \"sequential\", \"zipfian\", \"latest\" or \"hotspot\", or { zipfian = 0.99 }, { latest = 0.99 } or \
                          { hotspot = { objects = 0.2, operations = 0.8 } }";
const NAMING: &str =
    "write \"sequential\" or \"hex\", or { prefixes = 16 } or { template = \"logs/{hex}/{index}.bin\" }";
const CONCURRENCY: &str =
    "write a whole number, such as 64, or { from = 8, step = 32, every = \"5m\", stop = \"plateau\" }";
const RATE: &str = "write a rate, such as \"500/s\", or { from = \"100/s\", step = \"100/s\", to = \"2000/s\", every = \"30s\", stop = \"plateau\" }";

/// Reads `value` as the one field of a table that `name` says, or says why not.
fn field<'de, T: Deserialize<'de>>(table: &toml::Table, name: &str) -> Option<Result<T, String>> {
    let value = (table.len() == 1).then(|| table.get(name)).flatten()?;
    Some(value.clone().try_into::<T>().map_err(|e| format!("{name}: {}", e.message().trim())))
}

fn size(value: Value) -> Result<SizeSpec, String> {
    match value {
        Value::String(text) => Ok(SizeSpec::Fixed(text)),
        Value::Table(table) => (field(&table, "uniform")
            .map(|f| f.map(|uniform| SizeSpec::Uniform { uniform })))
        .or_else(|| field(&table, "lognormal").map(|f| f.map(|lognormal| SizeSpec::Lognormal { lognormal })))
        .or_else(|| field(&table, "weighted").map(|f| f.map(|weighted| SizeSpec::Weighted { weighted })))
        .or_else(|| field(&table, "sum").map(|f| f.map(|sum| SizeSpec::Sum { sum })))
        .unwrap_or_else(|| Err(SIZE.into()))
        .map_err(|e| if e == SIZE { e } else { format!("{e}; {SIZE}") }),
        other => Err(format!("{other} has no unit; {SIZE}")),
    }
}

fn popularity(value: Value) -> Result<PopularitySpec, String> {
    match value {
        Value::String(text) => Ok(PopularitySpec::Name(text)),
        Value::Table(table) => field(&table, "zipfian")
            .map(|f| f.map(|zipfian| PopularitySpec::Zipfian { zipfian }))
            .or_else(|| field(&table, "latest").map(|f| f.map(|latest| PopularitySpec::Latest { latest })))
            .or_else(|| {
                field(&table, "hotspot").map(|f| f.map(|hotspot| PopularitySpec::Hotspot { hotspot }))
            })
            .or_else(|| {
                let exponential = field(&table, "exponential");
                exponential.map(|f| f.map(|exponential| PopularitySpec::Exponential { exponential }))
            })
            .or_else(|| {
                let zipfian = field(&table, "ycsb_zipfian");
                zipfian.map(|f| f.map(|ycsb_zipfian| PopularitySpec::YcsbZipfian { ycsb_zipfian }))
            })
            .unwrap_or_else(|| Err(POPULARITY.into())),
        _ => Err(POPULARITY.into()),
    }
}

fn naming(value: Value) -> Result<NamingSpec, String> {
    let table = match value {
        Value::String(text) => return Ok(NamingSpec::Name(text)),
        Value::Table(table) => table,
        _ => return Err(NAMING.into()),
    };
    if table.is_empty() || table.keys().any(|key| key != "prefixes" && key != "template") {
        return Err(NAMING.into());
    }
    let (mut prefixes, mut template) = (None, None);
    for (key, value) in table {
        match value {
            Value::Integer(n) if key == "prefixes" && n > 0 => prefixes = Some(n as u64),
            Value::String(text) if key == "template" => template = Some(text),
            _ => return Err(NAMING.into()),
        }
    }
    Ok(NamingSpec::Table { prefixes, template })
}

fn concurrency(value: Value) -> Result<ConcurrencySpec, String> {
    match value {
        Value::Integer(n) if n >= 0 => Ok(ConcurrencySpec::Fixed(n as u64)),
        Value::Table(table) => table
            .try_into()
            .map(ConcurrencySpec::Ramp)
            .map_err(|e: toml::de::Error| format!("{}; {CONCURRENCY}", e.message().trim())),
        _ => Err(CONCURRENCY.into()),
    }
}

fn rate(value: Value) -> Result<RateSpec, String> {
    match value {
        Value::String(text) => Ok(RateSpec::Fixed(text)),
        Value::Table(table) => table
            .try_into()
            .map(RateSpec::Ramp)
            .map_err(|e: toml::de::Error| format!("{}; {RATE}", e.message().trim())),
        other => Err(format!("{other} has no unit; {RATE}")),
    }
}

macro_rules! read_with {
    ($($kind:ty => $read:path),* $(,)?) => {$(
        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$kind, D::Error> {
                $read(Value::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }
    )*};
}

read_with! {
    SizeSpec => size,
    PopularitySpec => popularity,
    NamingSpec => naming,
    ConcurrencySpec => concurrency,
    RateSpec => rate,
}
