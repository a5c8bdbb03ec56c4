//! SKUs of Google Cloud Storage, by the words in their descriptions.

use super::{BookPrice, GIB, Meaning, OfferMeter, Scale, Topic};
use crate::explain::charge::UsageKey;
use plimsoll_base::provider::calls::Call;

/// Name and id of the service.
const SERVICES: [&str; 2] = ["Cloud Storage", "95FF-2EF5-5EA1"];

/// Seconds of the month in which Google counts storage: 30 days. A gibibyte month is 2,783,138,807,808,000 byte
/// seconds.
const MONTH_S: u64 = 30 * 24 * 3600;

/// Returns the offer of a storage class and a kind of location.
fn offer(sku: &str) -> &'static str {
    let has = |word: &str| sku.contains(word);
    match () {
        () if has("Nearline") => "google-cloud-storage-nearline",
        () if has("Coldline") => "google-cloud-storage-coldline",
        () if has("Archive") => "google-cloud-storage-archive",
        () if has("Multi-region") || has("Multi-Region") => "google-cloud-storage-multi-region",
        () if has("Dual-region") || has("Dual-Region") => "google-cloud-storage-dual-region",
        () => "google-cloud-storage",
    }
}

/// Returns true for storage and requests in several regions of a class that the books have in one region only.
fn is_elsewhere(sku: &str) -> bool {
    let several = ["Multi-region", "Multi-Region", "Dual-region", "Dual-Region"];
    let class = ["Nearline", "Coldline", "Archive", "Durable Reduced"];
    (several.iter().any(|word| sku.contains(word)) && class.iter().any(|word| sku.contains(word)))
        || sku.contains("Durable Reduced")
}

/// Returns the meaning of a usage of Cloud Storage; `None` for that of another service.
pub fn meaning(key: &UsageKey) -> Option<Meaning> {
    if !SERVICES.contains(&key.service.as_str()) {
        return None;
    }
    let sku = key.usage.as_str();
    let has = |word: &str| sku.contains(word);
    let (topic, meter) = match () {
        () if has("Class A Operations") => (Topic::Requests, Some(OfferMeter::Requests(Call::PutObject))),
        () if has("Class B Operations") => (Topic::Requests, Some(OfferMeter::Requests(Call::GetObject))),
        () if has("Data Retrieval") => (Topic::Retrieval, Some(OfferMeter::Retrieval)),
        () if has("Early Delete") => (Topic::Lifecycle, None),
        () if has("Download Worldwide") => (Topic::Egress, Some(OfferMeter::Egress)),
        () if has("Download") => (Topic::Egress, None),
        () if has("Network") || has("egress") || has("Egress") || has("Transfer") => (Topic::Transfer, None),
        () if has("Autoclass Management") || has("Tagging") => (Topic::Management, None),
        () if has("Storage") && !has("Autoclass") => (Topic::Storage, Some(OfferMeter::Storage)),
        () if has("Storage") => (Topic::Storage, None),
        () => (Topic::Unknown, None),
    };
    let price = match meter {
        Some(meter) if !is_elsewhere(sku) => BookPrice::Meter(offer(sku), meter),
        _ => BookPrice::None,
    };
    let unit = match key.unit.as_str() {
        "gibibyte month" | "gibibyte" => Scale::of(GIB),
        "count" | "requests" | "bytes" => Scale::of(1),
        "byte-seconds" => Some(Scale { times: 1, over: MONTH_S }),
        _ => None,
    };
    Some(Meaning { topic, region: key.region.clone(), price, unit })
}
