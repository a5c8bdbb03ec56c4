//! SKUs of Google Cloud Storage, by the words in their descriptions.

use super::{BookPrice, GIB, Meaning, OfferMeter, Scale, Topic};
use crate::explain::charge::UsageKey;
use plimsoll_base::provider::calls::Call;

/// Name and id of the service.
const SERVICES: [&str; 2] = ["Cloud Storage", "95FF-2EF5-5EA1"];

/// Seconds in the month of a gibibyte month, which is 2,783,138,807,808,000 byte seconds: 30 days.
const MONTH_S: u64 = 30 * 24 * 3600;

/// Names of places in SKUs of storage, and their regions. Google Cloud, "Bucket locations".
const PLACES: [(&str, &str); 38] = [
    ("US Multi", "us"),
    ("Europe Multi", "eu"),
    ("EU Multi", "eu"),
    ("Asia Multi", "asia"),
    ("US Regional", "us-central1"),
    ("Northern Virginia", "us-east4"),
    ("Columbus", "us-east5"),
    ("Dallas", "us-south1"),
    ("Los Angeles", "us-west2"),
    ("Salt Lake City", "us-west3"),
    ("Las Vegas", "us-west4"),
    ("Montreal", "northamerica-northeast1"),
    ("Toronto", "northamerica-northeast2"),
    ("Sao Paulo", "southamerica-east1"),
    ("Santiago", "southamerica-west1"),
    ("Belgium", "europe-west1"),
    ("London", "europe-west2"),
    ("Frankfurt", "europe-west3"),
    ("Netherlands", "europe-west4"),
    ("Zurich", "europe-west6"),
    ("Milan", "europe-west8"),
    ("Paris", "europe-west9"),
    ("Berlin", "europe-west10"),
    ("Turin", "europe-west12"),
    ("Finland", "europe-north1"),
    ("Warsaw", "europe-central2"),
    ("Madrid", "europe-southwest1"),
    ("Taiwan", "asia-east1"),
    ("Hong Kong", "asia-east2"),
    ("Tokyo", "asia-northeast1"),
    ("Osaka", "asia-northeast2"),
    ("Seoul", "asia-northeast3"),
    ("Mumbai", "asia-south1"),
    ("Delhi", "asia-south2"),
    ("Singapore", "asia-southeast1"),
    ("Jakarta", "asia-southeast2"),
    ("Sydney", "australia-southeast1"),
    ("Melbourne", "australia-southeast2"),
];

/// Returns the region of the prices of a SKU, if the bill has none; `None` for storage in an unknown place.
fn region_of(sku: &str, topic: Topic) -> Option<&'static str> {
    // Requests, reads and egress have no place in their name.
    let known = PLACES.iter().filter(|(place, _)| sku.contains(place)).map(|(_, region)| *region);
    match known.collect::<Vec<_>>().as_slice() {
        [region] => Some(region),
        [] if topic != Topic::Storage => Some(""),
        _ => None,
    }
}

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

/// Returns the meaning of a usage of Cloud Storage; `None` for usage of another service.
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
    let region = match key.region.as_str() {
        "" => region_of(sku, topic),
        region => Some(region),
    };
    let price = match meter {
        Some(meter) if !is_elsewhere(sku) && region.is_some() => BookPrice::Meter(offer(sku), meter),
        _ => BookPrice::None,
    };
    let unit = match key.unit.as_str() {
        "gibibyte month" | "gibibyte" => Scale::of(GIB),
        "count" | "requests" | "bytes" => Scale::of(1),
        "byte-seconds" => Some(Scale { times: 1, over: MONTH_S }),
        _ => None,
    };
    Some(Meaning { topic, region: region.unwrap_or_default().to_string(), price, unit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_without_a_region_has_that_of_the_place_in_its_name() {
        let of = |sku: &str| region_of(sku, Topic::Storage);
        assert_eq!(of("Standard Storage Frankfurt"), Some("europe-west3"));
        assert_eq!(of("Standard Storage US Multi-region"), Some("us"));
        assert_eq!(of("Standard Storage Belgium/London Dual-region"), None);
        assert_eq!(of("Standard Storage Atlantis"), None);
        assert_eq!(region_of("Nearline Data Retrieval", Topic::Retrieval), Some(""));
    }
}
