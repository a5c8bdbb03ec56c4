//! File format of price books: TOML. Amounts are strings, because TOML numbers are not exact decimals.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::money::Usd;
use plimsoll_base::provider::Confidence;
use plimsoll_base::provider::calls::Call;

/// A price book file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BookSpec {
    /// Title of the book, for people.
    pub title: String,
    /// Sources of the values: a short name, and the document or page that it stands for.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
    /// Offers that the book defines. A file that only changes prices of built-in offers needs none.
    #[serde(default)]
    pub offer: Vec<OfferSpec>,
    /// Prices of the offers.
    #[serde(default)]
    pub price: Vec<PriceSpec>,
    /// Billing rules of the offers.
    #[serde(default)]
    pub rule: Vec<RuleSpec>,
}

/// Something that a provider sells: a storage class, network traffic, machines, or functions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OfferSpec {
    /// Name on the command line.
    pub name: String,
    /// Name in reports.
    pub title: String,
    /// Provider whose stores are billed at these prices: a name from `plimsoll list providers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Storage class of the objects that are billed at these prices. Absent for the provider's default class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// Regions with these prices. The first is the default region.
    pub regions: Vec<String>,
    /// Offer whose prices apply to outgoing traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// True if the provider sells machines in the store's region. If false, all reads are egress unless the
    /// workload specifies the egress.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sells_compute: bool,
    /// True if the prices apply in every region of the provider, including regions that are not listed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub every_region: bool,
    /// Offer with the prices of machines in the same region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machines: Option<String>,
    /// Offer with the prices of functions in the same region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub functions: Option<String>,
    /// Hours in a billing month [default: 730].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub month_hours: Option<u64>,
}

/// Quantity that a price applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MeterName {
    /// Bytes stored, per month.
    Storage,
    /// Number of requests.
    Requests,
    /// Object bytes written.
    Upload,
    /// Object bytes read.
    Retrieval,
    /// Requests to restore an archived object: one for each read and each copy.
    Restores,
    /// Restored copies of archived objects, stored for a day each.
    RestoredStorage,
    /// Index entries of objects (`object_index` of a rule), per month.
    IndexStorage,
    /// Bytes of objects that were not read for `unread_days`, per month.
    UnreadStorage,
    /// Objects whose reads are monitored, per month.
    Monitored,
    /// Bytes to the internet.
    Egress,
    /// Bytes read by machines of the provider.
    ReadInside,
    /// Bytes to another zone of the region.
    CrossZone,
    /// Bytes to another region of the provider.
    CrossRegion,
    /// Machine hours; `item` names the type of the machine.
    Instance,
    /// Invocations of functions.
    Invocations,
    /// CPU time of functions.
    CpuTime,
    /// Memory of functions multiplied by their duration.
    MemoryTime,
    /// Monthly charge for an account that uses functions.
    Subscription,
    /// Line of a provider's bill that no workload contains; `item` is its name there, without the region.
    Line,
}

/// Price tier: a unit price, and the quantity up to which it applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TierSpec {
    /// Upper end of the tier, not counting the free amount (unless `free_inside_tiers` is set). Absent in the
    /// last tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<String>,
    /// Price of one unit, in US dollars.
    pub usd: Usd,
}

/// A price and its period of validity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PriceSpec {
    /// Offers that the price applies to.
    pub offers: Vec<String>,
    /// Regions that the price applies to. Absent for all regions of the offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<String>,
    /// Quantity that the price applies to.
    pub meter: MeterName,
    /// Name on the bill. Required for requests (the name of the class), machines (their type) and unread storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// Kinds of requests that belong to the class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// Unit: `GiB-month`, `GB-month`, `GB`, `1000 requests`, `1000000 request units`, `hour`, `1000000 invocations`,
    /// `1000000 CPU ms`, `GB-second` or `month`; for lines of bills also a number of other things, such as
    /// `1000 objects`. A price of zero needs no unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<String>,
    /// Price of one unit, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<Usd>,
    /// Prices by tier, instead of `usd`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierSpec>,
    /// Bytes of each request that are free, such as `512 KiB`. Only for uploads and retrievals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes_per_request: Option<String>,
    /// Minimum number of bytes billed per request, such as `32 KiB`. Only for uploads and retrievals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_bytes_per_request: Option<String>,
    /// True if bytes that are copied within the store count, too. Only for uploads and retrievals.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts_copies: bool,
    /// Step in which the size of the object counts, such as `1 KiB`: a request counts once for each started step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_step: Option<String>,
    /// Number of days since the last read from which the price of `unread-storage` applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread_days: Option<u64>,
    /// Free amount per month: `10 GB`, or a number of requests, invocations, CPU milliseconds or GB-seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<String>,
    /// True if the tiers include the free amount.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub free_inside_tiers: bool,
    /// Free egress per month, as a multiple of the bytes stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_times_stored: Option<u64>,
    /// First day on which the price is known to be valid, such as `2025-04-10`.
    pub from: String,
    /// First day on which the price is no longer valid. Absent if it is still valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Source of the price: a name from `sources`, or free text.
    pub source: String,
    /// Date on which the source was read.
    pub as_of: String,
    /// Confidence in the price.
    pub confidence: Confidence,
    /// Remark that is printed with the price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A billing rule and its period of validity. All settings of one rule have the same source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    /// Offers that the rule applies to.
    pub offers: Vec<String>,
    /// Minimum number of days for which an object is billed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_days: Option<u64>,
    /// Minimum size at which an object is billed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_object: Option<String>,
    /// Step to which the size of an object is rounded up. An empty object counts as one step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_step: Option<String>,
    /// Bytes billed for each object in addition to its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_overhead: Option<String>,
    /// Bytes of the index entry of each object, billed by the meter `index-storage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_index: Option<String>,
    /// Maximum number of hours until an archived object is restored and can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_hours: Option<u64>,
    /// Minimum size of an object that is moved to another price by its last read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitored_object: Option<String>,
    /// Minimum storage billed per month.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_billed: Option<String>,
    /// True if storage is billed by its daily peak, not by the hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daily_peak: Option<bool>,
    /// True if every quantity is rounded up to whole units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_up: Option<bool>,
    /// Number of days for which deleted objects are still billed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_days: Option<u64>,
    /// True if deleted objects are billed until their versions are deleted. A bill then includes one month of storage
    /// for the deleted objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_versions: Option<bool>,
    /// Minimum age at which a lifecycle rule moves an object into the class, in days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transition_days: Option<u64>,
    /// Status codes of responses that are not billed: `403`, or `5xx` for the whole class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unbilled: Vec<String>,
    /// Maximum size of an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_object: Option<String>,
    /// True if the egress of a month may not exceed the data stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_within_stored: Option<bool>,
    /// First day on which the rule is known to be valid.
    pub from: String,
    /// First day on which the rule is no longer valid. Absent if it is still valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Source of the rule: a name from `sources`, or free text.
    pub source: String,
    /// Date on which the source was read.
    pub as_of: String,
    /// Confidence in the rule.
    pub confidence: Confidence,
}

/// Returns the JSON schema of price books.
#[cfg(feature = "schema")]
pub fn schema() -> String {
    let mut text = serde_json::to_string_pretty(&schemars::schema_for!(BookSpec)).unwrap_or_default();
    text.push('\n');
    text
}
