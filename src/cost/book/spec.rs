//! A price book as it is written: TOML whose amounts are strings, because they are exact.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cost::money::Usd;
use crate::provider::Confidence;
use crate::provider::calls::Call;

/// A file of prices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BookSpec {
    /// Whose prices they are, for people.
    pub title: String,
    /// Where values come from: short name and what it stands for.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
    /// What can be bought. A file that changes prices of built-in offers needs none.
    #[serde(default)]
    pub offer: Vec<OfferSpec>,
    /// Prices.
    #[serde(default)]
    pub price: Vec<PriceSpec>,
    /// Rules.
    #[serde(default)]
    pub rule: Vec<RuleSpec>,
}

/// Something that can be bought: a storage class, a network, machines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OfferSpec {
    /// Name in commands.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// The provider of stores that are billed so, as in `plimsoll list providers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The storage class that objects are written with to be billed so; absent for the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// Regions with these prices; the first is the one that is meant where none is named.
    pub regions: Vec<String>,
    /// The offer whose prices hold for bytes that leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// True if its provider sells machines in the store's region. If not, all reads are egress unless the workload says otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sells_compute: bool,
    /// True if its prices hold in every region of the provider, those that are not listed included.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub every_region: bool,
    /// The offer whose machines stand next to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machines: Option<String>,
    /// Hours of the month that a price per month is for [default: 730].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub month_hours: Option<u64>,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MeterName {
    /// Bytes stored, per month.
    Storage,
    /// Requests.
    Requests,
    /// Object bytes written.
    Upload,
    /// Object bytes read.
    Retrieval,
    /// Bytes to the internet.
    Egress,
    /// Bytes to another zone of the region.
    CrossZone,
    /// Bytes to another region of the provider.
    CrossRegion,
    /// Hours of a machine whose type is the item.
    Instance,
}

/// A price up to an amount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TierSpec {
    /// Amount up to which it holds, counted from the first that is not free (see `free_inside_tiers`); absent in the last tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<String>,
    /// Price of a unit.
    pub usd: Usd,
}

/// A price while it held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceSpec {
    /// Offers that have it.
    pub offers: Vec<String>,
    /// Regions in which it holds; absent for all of the offer's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<String>,
    /// What is counted.
    pub meter: MeterName,
    /// Its name on the bill; needed where an offer has several of a meter, such as classes of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// The kinds of requests that belong to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// Unit: `GiB-month`, `GB-month`, `GB`, `1000 requests`, `1000000 request units`, `hour`. A price of nothing needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<String>,
    /// Price of a unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<Usd>,
    /// Prices by amount, instead of `usd`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierSpec>,
    /// Bytes of every request that are not charged: `512 KiB`. For uploads and retrievals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<String>,
    /// Bytes that every request is charged for at least: `32 KiB`. For uploads and retrievals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least: Option<String>,
    /// A request counts once for every so many bytes of its object that were begun: `1 KiB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// What is free in a month: `10 GB`, `1000000`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<String>,
    /// Whether tiers count what is free too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub free_inside_tiers: bool,
    /// What is free in a month, as a multiple of the bytes stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_times_stored: Option<u64>,
    /// First day on which it is known to hold, `2025-04-10`.
    pub from: String,
    /// First day on which it does not hold any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Where it comes from: a name in `sources`, or in words.
    pub source: String,
    /// When it was read there.
    pub as_of: String,
    /// How sure it is.
    pub confidence: Confidence,
    /// What is to be known about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A rule while it held. One that says several things has one source for all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    /// Offers that have it.
    pub offers: Vec<String>,
    /// Days that an object is paid for at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_days: Option<u64>,
    /// Size that an object is paid for at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_object: Option<String>,
    /// Multiples of this that an object's size is rounded up to, one at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_step: Option<String>,
    /// Bytes that are stored beside every object's own, and paid for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_overhead: Option<String>,
    /// Storage that is paid for at least in a month.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_billed: Option<String>,
    /// Whether storage counts each day at its highest instead of hour by hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daily_peak: Option<bool>,
    /// Whether every meter is rounded up to whole units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_up: Option<bool>,
    /// Days that deleted objects are charged further.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_days: Option<u64>,
    /// True if deleted objects are charged until their versions are deleted; bills then count a month.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_versions: Option<bool>,
    /// Status codes of answers that are not charged: `403`, or `5xx` for all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unbilled: Vec<String>,
    /// Largest object that it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_object: Option<String>,
    /// Whether no more may leave in a month than is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_within_stored: Option<bool>,
    /// First day on which it is known to hold.
    pub from: String,
    /// First day on which it does not hold any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Where it comes from.
    pub source: String,
    /// When it was read there.
    pub as_of: String,
    /// How sure it is.
    pub confidence: Confidence,
}

/// The schema of price books, as JSON.
pub fn schema() -> String {
    let mut text = serde_json::to_string_pretty(&schemars::schema_for!(BookSpec)).unwrap_or_default();
    text.push('\n');
    text
}
