//! Usage of Cloudflare R2: lines of bills, and kinds of requests in analytics. Cloudflare's documentation, "R2
//! pricing".

use super::{BookPrice, Meaning, OfferMeter, Scale, Topic};
use crate::explain::charge::UsageKey;
use plimsoll_base::provider::calls::Call;

/// Requests of class A.
const CLASS_A: [&str; 16] = [
    "ListBuckets",
    "ListBucket",
    "PutBucket",
    "ListObjects",
    "PutObject",
    "CopyObject",
    "CompleteMultipartUpload",
    "CreateMultipartUpload",
    "LifecycleStorageTierTransition",
    "ListMultipartUploads",
    "UploadPart",
    "UploadPartCopy",
    "ListParts",
    "PutBucketEncryption",
    "PutBucketCors",
    "PutBucketLifecycleConfiguration",
];
/// Requests of class B.
const CLASS_B: [&str; 8] = [
    "HeadBucket",
    "HeadObject",
    "GetObject",
    "UsageSummary",
    "GetBucketEncryption",
    "GetBucketLocation",
    "GetBucketCors",
    "GetBucketLifecycleConfiguration",
];
/// Requests that are free.
const FREE: [&str; 4] = ["DeleteObject", "DeleteObjects", "DeleteBucket", "AbortMultipartUpload"];

/// Returns the meaning of a usage of R2; `None` for usage of another service.
pub fn meaning(key: &UsageKey) -> Option<Meaning> {
    let usage = key.usage.as_str();
    if !key.service.starts_with("R2") && !usage.starts_with("R2") {
        return None;
    }
    let is_infrequent = usage.contains("Infrequent") || key.operation == "InfrequentAccess";
    let offer = if is_infrequent { "cloudflare-r2-ia" } else { "cloudflare-r2" };
    let requests = |call| (Topic::Requests, BookPrice::Meter(offer, OfferMeter::Requests(call)));
    let (topic, price) = match usage {
        _ if usage.contains("Class A") || CLASS_A.contains(&usage) => requests(Call::PutObject),
        _ if usage.contains("Class B") || CLASS_B.contains(&usage) => requests(Call::GetObject),
        _ if FREE.contains(&usage) => (Topic::Requests, BookPrice::Free),
        _ if usage.contains("Retrieval") => {
            (Topic::Retrieval, BookPrice::Meter(offer, OfferMeter::Retrieval))
        }
        _ if usage.contains("Storage") || usage == "storage" => {
            (Topic::Storage, BookPrice::Meter(offer, OfferMeter::Storage))
        }
        _ => (Topic::Unknown, BookPrice::None),
    };
    let unit = match topic {
        Topic::Storage | Topic::Retrieval => 1_000_000_000,
        _ => 1,
    };
    Some(Meaning { topic, region: "auto".into(), price, unit: Scale::of(unit) })
}
