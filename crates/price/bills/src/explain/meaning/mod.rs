//! The price that applies to a usage on a bill.

mod aws;
mod cloudflare;
mod google;

use super::charge::{Biller, ChargeKind, UsageKey};
use plimsoll_base::provider::calls::Call;

/// Part of a bill of object storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// Bytes stored over time.
    Storage,
    /// Requests of clients.
    Requests,
    /// Bytes read from a class with a price for reads, or written to one with a price for writes.
    Retrieval,
    /// Bytes to the internet.
    Egress,
    /// Bytes within the provider.
    Transfer,
    /// Moves between classes by lifecycle rules, restores, and deletions before the minimum duration.
    Lifecycle,
    /// Monitoring, inventories, analytics, tags.
    Management,
    /// Usage of an unknown kind.
    Unknown,
}

impl Topic {
    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Topic::Storage => "storage",
            Topic::Requests => "requests",
            Topic::Retrieval => "retrieval",
            Topic::Egress => "egress to the internet",
            Topic::Transfer => "transfer within the provider",
            Topic::Lifecycle => "lifecycle",
            Topic::Management => "management",
            Topic::Unknown => "unknown usage",
        }
    }
}

/// Meter of an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferMeter {
    /// Bytes stored over time.
    Storage,
    /// Requests of the class of a kind.
    Requests(Call),
    /// Object bytes read.
    Retrieval,
    /// Object bytes written.
    Upload,
    /// Bytes to the internet.
    Egress,
}

/// Price in the books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BookPrice {
    /// Meter of an offer.
    Meter(&'static str, OfferMeter),
    /// Line of bills: the offer, and the names under which it may be, the most exact first.
    Line(&'static str, Vec<String>),
    /// Free of charge.
    Free,
    /// None is known.
    None,
}

/// Meaning of a usage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meaning {
    /// Part of the bill.
    pub topic: Topic,
    /// Region of the price; empty if it has none.
    pub region: String,
    /// Price in the books.
    pub price: BookPrice,
    /// Unit of the quantity; `None` if it is unknown.
    pub unit: Option<Scale>,
}

/// Bytes or requests in one unit of a quantity: `times / over`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Numerator of the fraction.
    pub times: u64,
    /// Denominator of the fraction.
    pub over: u64,
}

impl Scale {
    /// Returns a unit of that many bytes or requests.
    fn of(times: u64) -> Option<Scale> {
        Some(Scale { times, over: 1 })
    }
}

/// Bytes in a GiB, which AWS and Google write as GB.
const GIB: u64 = 1 << 30;

/// Returns the meaning of a usage; `None` if it is not one of object storage.
pub fn meaning(key: &UsageKey) -> Option<Meaning> {
    if key.kind != ChargeKind::Usage {
        return None;
    }
    match key.biller {
        Biller::Aws => aws::meaning(key),
        Biller::Google => google::meaning(key),
        Biller::Cloudflare => cloudflare::meaning(key),
        Biller::Other => None,
    }
}
