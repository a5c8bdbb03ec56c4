//! Usage types of Amazon S3: an optional region and a name. Amazon S3 User Guide, "Understanding your AWS billing and
//! usage reports for Amazon S3"; AWS Global Infrastructure, "Region billing codes".

use super::{BookPrice, GIB, Meaning, OfferMeter, Scale, Topic};
use crate::explain::charge::UsageKey;
use plimsoll_base::provider::calls::Call;

/// Names of S3 in the columns of exports.
const SERVICES: [&str; 5] = [
    "AmazonS3",
    "AmazonGlacier",
    "AmazonS3GlacierDeepArchive",
    "Amazon Simple Storage Service",
    "Amazon S3 Glacier",
];

/// Codes of regions in usage types.
const REGIONS: [(&str, &str); 42] = [
    ("USE1", "us-east-1"),
    ("USE2", "us-east-2"),
    ("USW1", "us-west-1"),
    ("USW2", "us-west-2"),
    ("CAN1", "ca-central-1"),
    ("CAN2", "ca-west-1"),
    ("MXC1", "mx-central-1"),
    ("AFS1", "af-south-1"),
    ("CPT", "af-south-1"),
    ("APE1", "ap-east-1"),
    ("APE2", "ap-east-2"),
    ("APN1", "ap-northeast-1"),
    ("APN2", "ap-northeast-2"),
    ("APN3", "ap-northeast-3"),
    ("APS1", "ap-southeast-1"),
    ("APS2", "ap-southeast-2"),
    ("APS3", "ap-south-1"),
    ("APS4", "ap-southeast-3"),
    ("APS5", "ap-south-2"),
    ("APS6", "ap-southeast-4"),
    ("APS7", "ap-southeast-5"),
    ("APS8", "ap-southeast-6"),
    ("APS9", "ap-southeast-7"),
    ("EU", "eu-west-1"),
    ("EUW1", "eu-west-1"),
    ("EUW2", "eu-west-2"),
    ("EUW3", "eu-west-3"),
    ("EUC1", "eu-central-1"),
    ("EUC2", "eu-central-2"),
    ("EUN1", "eu-north-1"),
    ("EUS1", "eu-south-1"),
    ("EUS2", "eu-south-2"),
    ("ILC1", "il-central-1"),
    ("MEC1", "me-central-1"),
    ("MES1", "me-south-1"),
    ("SAE1", "sa-east-1"),
    ("UGW1", "us-gov-west-1"),
    ("UGE1", "us-gov-east-1"),
    ("CNN1", "cn-north-1"),
    ("CNW1", "cn-northwest-1"),
    ("LAX1", "us-west-2-lax-1"),
    ("Global", ""),
];

/// Offer with the prices of other lines.
const LINES: &str = "aws-s3-lines";

/// Storage classes with an offer: their part of a usage type, and the offer.
const CLASSES: [(&str, &str); 4] = [
    ("SIA", "aws-s3-standard-ia"),
    ("ZIA", "aws-s3-one-zone-ia"),
    ("GIR", "aws-s3-glacier-instant"),
    ("XZ", "aws-s3-express"),
];

/// Splits a usage type into its region and its name without the region.
fn without_region(usage: &str) -> (Option<&'static str>, &str) {
    let code = |text: &str| REGIONS.iter().find(|(code, _)| *code == text).map(|(_, region)| *region);
    match usage.split_once('-') {
        Some((first, rest)) => match code(first) {
            Some(region) => (Some(region), rest),
            None => (None, usage),
        },
        None => (None, usage),
    }
}

fn offer_of(class: &str) -> Option<&'static str> {
    CLASSES.iter().find(|(name, _)| *name == class).map(|(_, offer)| *offer)
}

/// Returns the offer and the meter of a usage without its region; `None` for other usage.
fn meter(name: &str) -> Option<(Topic, &'static str, OfferMeter)> {
    use OfferMeter as M;
    let tier = |tier: &str| match tier {
        "Tier1" => Some(M::Requests(Call::PutObject)),
        "Tier2" => Some(M::Requests(Call::GetObject)),
        _ => None,
    };
    let parts: Vec<&str> = name.split('-').collect();
    Some(match parts.as_slice() {
        ["TimedStorage", "ByteHrs"] => (Topic::Storage, "aws-s3", M::Storage),
        ["TimedStorage", class, "ByteHrs" | "SmObjects"] => (Topic::Storage, offer_of(class)?, M::Storage),
        ["EarlyDelete", class] | ["EarlyDelete", class, "SmObjects"] => {
            (Topic::Lifecycle, offer_of(class)?, M::Storage)
        }
        ["Requests", number] => (Topic::Requests, "aws-s3", tier(number)?),
        ["Requests", class, number] => (Topic::Requests, offer_of(class)?, tier(number)?),
        ["Retrieval", class] | ["Retrieval", class, "Bytes"] => {
            (Topic::Retrieval, offer_of(class)?, M::Retrieval)
        }
        ["Upload", class] | ["Upload", class, "Bytes"] => (Topic::Retrieval, offer_of(class)?, M::Upload),
        ["DataTransfer", "Out", "Bytes"] => (Topic::Egress, "aws-s3", M::Egress),
        _ => return None,
    })
}

/// Returns the part of the bill of a usage that has no meter.
fn topic(name: &str) -> Topic {
    // A description has words, a usage type has none.
    if name.contains(' ') {
        return Topic::Unknown;
    }
    let starts = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
    if starts(&["TimedStorage", "Tables-TimedStorage", "Annotation-TimedStorage"]) {
        Topic::Storage
    } else if starts(&["Requests-Tier3", "Requests-Tier4", "Requests-Tier5", "Requests-Tier6", "EarlyDelete"])
        || name.contains("Retrieval-Bytes")
        || starts(&["Requests-GDA-Tier3", "Requests-GDA-Tier5", "S3G-DataTransfer"])
    {
        Topic::Lifecycle
    } else if starts(&["Requests", "Tables-Requests"]) {
        Topic::Requests
    } else if starts(&["Retrieval", "Upload", "Select"]) {
        Topic::Retrieval
    } else if name.contains("-Bytes") || name.contains("ABytes") {
        Topic::Transfer
    } else {
        Topic::Management
    }
}

/// Returns the names of the price of a line, the most exact first. A transfer to another region has two regions.
fn line_names(name: &str, operation: &str) -> Vec<String> {
    let mut names = Vec::new();
    if let (Some(to), rest) = without_region(name)
        && (rest.starts_with("AWS-") || rest.starts_with("S3RTC-"))
    {
        names.extend([format!("{rest} {to}"), rest.to_string()]);
    }
    if !operation.is_empty() {
        names.push(format!("{name} {operation}"));
    }
    names.push(name.to_string());
    names
}

/// Returns true if the name of a usage type belongs to S3 alone. Any service may transfer data to the internet.
fn is_of_s3(name: &str) -> bool {
    const NAMES: [&str; 14] = [
        "TimedStorage-",
        "Requests-",
        "Retrieval-",
        "Upload-",
        "EarlyDelete-",
        "Select-",
        "Standard-Retrieval-",
        "Bulk-Retrieval-",
        "Expedited-Retrieval-",
        "Monitoring-Automation-INT",
        "Inventory-",
        "Storage",
        "TagStorage-",
        "DataTransfer-Out-Bytes",
    ];
    NAMES.iter().any(|start| name.starts_with(start))
}

/// Returns the meaning of a usage of S3; `None` for usage of another service.
pub fn meaning(key: &UsageKey) -> Option<Meaning> {
    // Cost Explorer has no service.
    if !key.service.is_empty() && !SERVICES.contains(&key.service.as_str()) {
        return None;
    }
    let (coded, name) = without_region(&key.usage);
    if key.service.is_empty() && !is_of_s3(name) {
        return None;
    }
    let region = match (coded, key.region.as_str()) {
        (Some(region), _) => region.to_string(),
        // Usage types of us-east-1 have no region.
        (None, "") => "us-east-1".into(),
        (None, region) => region.to_string(),
    };
    let unit = match key.unit.as_str() {
        // Of GB-Hours and the like, the length of the month is unknown.
        unit if unit.to_ascii_lowercase().contains("hour") => 0,
        unit if unit.starts_with("GB") || unit.starts_with("GiB") => GIB,
        "" => match topic(name) {
            Topic::Requests | Topic::Management => 1,
            Topic::Lifecycle if name.starts_with("Requests") => 1,
            _ => GIB,
        },
        _ => 1,
    };
    let (topic, price) = match meter(name) {
        Some((topic, offer, meter)) => (topic, BookPrice::Meter(offer, meter)),
        None => (topic(name), BookPrice::Line(LINES, line_names(name, &key.operation))),
    };
    Some(Meaning { topic, region, price, unit: Scale::of(unit).filter(|scale| scale.times > 0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::charge::{Biller, ChargeKind};

    fn of(service: &str, usage: &str, operation: &str, unit: &str) -> Option<Meaning> {
        meaning(&UsageKey {
            biller: Biller::Aws,
            kind: ChargeKind::Usage,
            month: None,
            service: service.into(),
            usage: usage.into(),
            operation: operation.into(),
            region: String::new(),
            unit: unit.into(),
        })
    }

    #[test]
    fn a_usage_type_has_a_region_and_a_price() {
        let found = of("AmazonS3", "EUC1-TimedStorage-SIA-ByteHrs", "", "GB-Mo").unwrap();
        let storage = BookPrice::Meter("aws-s3-standard-ia", OfferMeter::Storage);
        assert_eq!(
            (found.region.as_str(), found.unit, found.price),
            ("eu-central-1", Scale::of(GIB), storage)
        );
        let found = of("", "Requests-Tier1", "", "").unwrap();
        let put = BookPrice::Meter("aws-s3", OfferMeter::Requests(Call::PutObject));
        assert_eq!((found.region.as_str(), found.unit, found.price), ("us-east-1", Scale::of(1), put));
        let found = of("AmazonS3", "USW2-Requests-Tier4", "S3-INTTransition", "Requests").unwrap();
        let names = ["Requests-Tier4 S3-INTTransition", "Requests-Tier4"].map(String::from).to_vec();
        assert_eq!((found.topic, found.price), (Topic::Lifecycle, BookPrice::Line(LINES, names)));
        let found = of("AmazonS3", "USE1-USW2-AWS-Out-Bytes", "", "GB").unwrap();
        let BookPrice::Line(_, names) = found.price else { unreachable!() };
        assert_eq!((found.region.as_str(), names[0].as_str()), ("us-east-1", "AWS-Out-Bytes us-west-2"));
        assert_eq!(of("AmazonEC2", "BoxUsage:m5.large", "", "Hrs"), None);
        assert_eq!(of("AmazonS3", "TimedStorage-INT-FA-ByteHrs", "", "GB-Mo").unwrap().topic, Topic::Storage);
        assert_eq!(of("AmazonS3", "EarlyDelete-SIA", "", "GB-Mo").unwrap().topic, Topic::Lifecycle);
        assert_eq!(of("AmazonS3", "$1 per something", "", "Count").unwrap().topic, Topic::Unknown);
    }
}
