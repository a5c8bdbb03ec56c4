//! Fields that accept several forms: a plain value, or a table with more detail. If a value fits none of the forms,
//! the error lists the common ones.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use toml::Value;

/// Object size: a fixed size, or a distribution of sizes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum SizeSpec {
    /// Fixed size, such as `"1 MiB"`.
    Fixed(String),
    /// Uniform distribution: `{ uniform = ["1 KiB", "1 MiB"] }`.
    Uniform {
        /// Smallest and largest size, both included.
        uniform: [String; 2],
    },
    /// Lognormal distribution: `{ lognormal = { median = "1 MiB", sigma = 1.0, max = "1 GiB" } }`.
    Lognormal {
        /// Parameters of the distribution.
        lognormal: LognormalSpec,
    },
    /// Listed sizes with weights: `{ weighted = { "4 KiB" = 70, "1 MiB" = 30 } }`.
    Weighted {
        /// Weight of each size.
        weighted: BTreeMap<String, u32>,
    },
    /// Sizes of the first objects, which then begin again: `{ list = ["1 MiB", "5 MiB"] }`.
    List {
        /// Sizes of the first objects.
        list: Vec<String>,
    },
    /// Points of the cumulative distribution function: `{ cdf = [[0.0, "1 KiB"], [0.5, "4 KiB"], [1.0, "1 MiB"]] }`.
    Cdf {
        /// Probabilities of sizes up to a point, from 0 to 1, and the sizes.
        cdf: Vec<(f64, String)>,
        /// Rank correlation between the number of an object and its size, from -1 (the first object is the largest) to
        /// 1 (default: 0).
        #[serde(skip_serializing_if = "Option::is_none")]
        trend: Option<f64>,
    },
    /// Sum of several sizes: `{ sum = { count = 10, of = { uniform = ["1 B", "100 B"] } } }`.
    Sum {
        /// Number and distribution of the sizes to add.
        sum: SumSpec,
    },
}

/// Sum of several sizes, each drawn independently.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SumSpec {
    /// Number of sizes to add.
    pub count: u32,
    /// Size or distribution of each summand.
    pub of: Box<SizeSpec>,
}

/// Parameters of a lognormal size distribution.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LognormalSpec {
    /// Median of the distribution before `min` and `max` apply, such as `1 MiB`.
    pub median: String,
    /// Standard deviation of the natural logarithm of the size, above 0 and at most 10.
    pub sigma: f64,
    /// Smallest size; smaller draws are raised to it (default: 1 B).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<String>,
    /// Largest size; larger draws are lowered to it (default: 5 GiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
}

/// Distribution of reads over the objects: a name, or a table with parameters.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum PopularitySpec {
    /// Name of a distribution: `uniform`, `sequential`, `zipfian`, `latest`, `hotspot` or `ycsb_latest`.
    Name(String),
    /// Zipfian distribution, its ranks spread over all objects: `{ zipfian = 0.99 }`.
    Zipfian {
        /// Exponent of the distribution, above 0 and at most 10.
        zipfian: f64,
    },
    /// Zipfian distribution that favours the most recently written objects: `{ latest = 0.99 }`.
    Latest {
        /// Exponent of the distribution, above 0 and at most 10.
        latest: f64,
    },
    /// Hotspot distribution, in which a share of the objects receives a share of the operations:
    /// `{ hotspot = { object_share = 0.2, operation_share = 0.8 } }`.
    Hotspot {
        /// Shares of the hotspot.
        hotspot: HotspotSpec,
    },
    /// YCSB's scrambled zipfian distribution: `{ ycsb_zipfian = { items = 1001, order = "hashed" } }`.
    YcsbZipfian {
        /// Modulus and hash of the distribution.
        ycsb_zipfian: YcsbZipfianSpec,
    },
    /// Shares of the operations for shares of the objects: `{ shares = { period = 1000, points = [[0.0, 0.0],
    /// [0.8, 0.2], [1.0, 1.0]] } }`.
    Shares {
        /// Shares of the distribution.
        shares: SharesSpec,
    },
    /// Exponential distribution that favours the most recently written objects:
    /// `{ exponential = { percentile = 95, object_share = 0.86 } }`.
    Exponential {
        /// Shares of the distribution.
        exponential: ExponentialSpec,
    },
}

/// Shares of the operations for shares of the objects.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SharesSpec {
    /// Number of operations in which the shares are exact.
    pub period: u64,
    /// Share of the operations, from 0 to 1, for the share of the most popular objects, from 0 to 1.
    pub points: Vec<(f64, f64)>,
    /// True if the first object is the most popular, and so on (default: false; the objects are in random order).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ordered: bool,
}

/// Modulus and hash of YCSB's scrambled zipfian distribution.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct YcsbZipfianSpec {
    /// Modulus of the hash: the number of existing keys, plus the keys that inserts are expected to add, plus one.
    pub items: u64,
    /// Hash function: `hashed` (YCSB) or `hashed-go` (go-ycsb).
    pub order: String,
}

/// Shares of an exponential distribution of reads.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExponentialSpec {
    /// Share of the operations that address the most recent `object_share`, in percent.
    pub percentile: f64,
    /// Share of the objects, counted from the most recent, that receives these operations: above 0 and at most 1.
    pub object_share: f64,
}

/// Shares of a hotspot: its objects and its operations.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HotspotSpec {
    /// Share of the objects that are hot, between 0 and 1.
    pub object_share: f64,
    /// Share of the operations that address the hot objects, between 0 and 1.
    pub operation_share: f64,
}

/// Naming scheme of the keys: a name, or a table with prefixes or a template.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum NamingSpec {
    /// `sequential` (one prefix) or `hex` (a random 8-hex prefix per object).
    Name(String),
    /// Prefixes, a template, or both: `{ prefixes = 16 }`, `{ template = "logs/{hex}/{index}.bin" }`.
    Table {
        /// Number of prefixes, to which the objects are assigned in turn.
        #[serde(skip_serializing_if = "Option::is_none")]
        prefixes: Option<u64>,
        /// Template of a key, with the placeholders `{index}`, `{hex}`, `{prefix}` and `{dir}`.
        #[serde(skip_serializing_if = "Option::is_none")]
        template: Option<String>,
    },
}

/// Distribution of the intended start times of an open loop.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum ArrivalSpec {
    /// `constant` or `poisson`.
    Name(String),
    /// Gaps between two starts, as multiples of the mean gap: `{ gaps = [[0.0, 0.0], [0.9, 0.5], [1.0, 10.0]] }`.
    Gaps {
        /// Probabilities of gaps up to a point, from 0 to 1, and the gaps.
        gaps: Vec<(f64, f64)>,
        /// Rate in successive slices of time; the gaps are relative to it (default: constant).
        #[serde(skip_serializing_if = "Option::is_none")]
        pace: Option<PaceSpec>,
    },
}

/// Rate of an open loop in successive slices of time, after which it repeats: bursts, and quiet and busy hours.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PaceSpec {
    /// Length of a slice, such as `50ms`.
    pub every: String,
    /// Rate of each slice, relative to the others. The mean of all slices is the rate of the phase.
    pub rates: Vec<f64>,
}

/// Number of operations in flight: fixed, or a ramp.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum ConcurrencySpec {
    /// Fixed number of operations in flight.
    Fixed(u64),
    /// Ramp: a number that rises step by step.
    Ramp(ConcurrencyRamp),
}

/// Ramp of the number of operations in flight.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ConcurrencyRamp {
    /// Number of operations in flight in the first step.
    pub from: u64,
    /// Increase of the number from one step to the next.
    pub step: u64,
    /// Length of a step, such as `30s`.
    pub every: String,
    /// Maximum number of operations in flight. Default: 512, or `from` if that is larger; required with
    /// `stop = "never"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// End of the ramp: `plateau` (default) when throughput no longer grows, `never` only after the last step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
}

/// Intended rate of operations: fixed, or a ramp.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum RateSpec {
    /// Fixed rate, such as `"500/s"`.
    Fixed(String),
    /// Ramp: a rate that rises step by step.
    Ramp(RateRamp),
}

/// Ramp of the intended rate of operations.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RateRamp {
    /// Rate in the first step, such as `100/s`.
    pub from: String,
    /// Increase of the rate from one step to the next.
    pub step: String,
    /// Length of a step, such as `30s`.
    pub every: String,
    /// Maximum rate, which no step exceeds.
    pub to: String,
    /// End of the ramp: `plateau` (default) when throughput no longer grows, `never` only after the last step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
}

/// Common forms of a size, for error messages; the constants below list those of the other fields.
const SIZE: &str = "write a size, such as \"1 MiB\", or { uniform = [\"1 KiB\", \"1 MiB\"] }, { lognormal = { median = \"1 MiB\", sigma = 1.0 } } \
                    or { weighted = { \"4 KiB\" = 70, \"1 MiB\" = 30 } }";
const POPULARITY: &str = "write \"uniform\", \"sequential\", \"zipfian\", \"latest\" or \"hotspot\", or { zipfian = 0.99 }, { latest = 0.99 } or \
                          { hotspot = { object_share = 0.2, operation_share = 0.8 } }";
const NAMING: &str =
    "write \"sequential\" or \"hex\", or { prefixes = 16 } or { template = \"logs/{hex}/{index}.bin\" }";
const ARRIVAL: &str =
    "write \"constant\" or \"poisson\", or { gaps = [[0.0, 0.0], [0.9, 0.5], [1.0, 10.0]] }";
const CONCURRENCY: &str =
    "write a whole number, such as 64, or { from = 8, step = 32, every = \"5m\", stop = \"plateau\" }";
const RATE: &str = "write a rate, such as \"500/s\", or { from = \"100/s\", step = \"100/s\", to = \"2000/s\", every = \"30s\", stop = \"plateau\" }";

/// Parses the value of the field `name`. Returns `None` unless `name` is the only field of the table.
fn field<'de, T: Deserialize<'de>>(table: &toml::Table, name: &str) -> Option<Result<T, String>> {
    let value = (table.len() == 1).then(|| table.get(name)).flatten()?;
    Some(value.clone().try_into::<T>().map_err(|e| format!("{name}: {}", e.message().trim())))
}

/// Parses the values of the fields `first` and `second`. Returns `None` unless these are the only fields of the table.
fn fields<'de, A: Deserialize<'de>, B: Deserialize<'de>>(
    table: &toml::Table,
    first: &str,
    second: &str,
) -> Option<Result<(A, B), String>> {
    let (one, two) = table.get(first).zip(table.get(second)).filter(|_| table.len() == 2)?;
    let failed = |name: &str, e: toml::de::Error| format!("{name}: {}", e.message().trim());
    let both = || {
        let one = one.clone().try_into::<A>().map_err(|e| failed(first, e))?;
        Ok((one, two.clone().try_into::<B>().map_err(|e| failed(second, e))?))
    };
    Some(both())
}

fn size(value: Value) -> Result<SizeSpec, String> {
    match value {
        Value::String(text) => Ok(SizeSpec::Fixed(text)),
        Value::Table(table) => (field(&table, "uniform")
            .map(|f| f.map(|uniform| SizeSpec::Uniform { uniform })))
        .or_else(|| field(&table, "lognormal").map(|f| f.map(|lognormal| SizeSpec::Lognormal { lognormal })))
        .or_else(|| field(&table, "weighted").map(|f| f.map(|weighted| SizeSpec::Weighted { weighted })))
        .or_else(|| field(&table, "list").map(|f| f.map(|list| SizeSpec::List { list })))
        .or_else(|| field(&table, "cdf").map(|f| f.map(|cdf| SizeSpec::Cdf { cdf, trend: None })))
        .or_else(|| {
            fields(&table, "cdf", "trend")
                .map(|f| f.map(|(cdf, trend)| SizeSpec::Cdf { cdf, trend: Some(trend) }))
        })
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
            .or_else(|| field(&table, "shares").map(|f| f.map(|shares| PopularitySpec::Shares { shares })))
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

fn arrival(value: Value) -> Result<ArrivalSpec, String> {
    match value {
        Value::String(text) => Ok(ArrivalSpec::Name(text)),
        Value::Table(table) => field(&table, "gaps")
            .map(|f| f.map(|gaps| ArrivalSpec::Gaps { gaps, pace: None }))
            .or_else(|| {
                fields(&table, "gaps", "pace")
                    .map(|f| f.map(|(gaps, pace)| ArrivalSpec::Gaps { gaps, pace: Some(pace) }))
            })
            .unwrap_or_else(|| Err(ARRIVAL.into())),
        _ => Err(ARRIVAL.into()),
    }
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
    ArrivalSpec => arrival,
    ConcurrencySpec => concurrency,
    RateSpec => rate,
}
