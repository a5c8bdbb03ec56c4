//! Names of directory buckets (S3 Express One Zone), which contain the zone of the bucket.

/// Suffix of the name of a directory bucket (S3 user guide, directory bucket naming rules).
pub const SUFFIX: &str = "--x-s3";

/// Returns true if a bucket with this name is a directory bucket.
pub fn is_directory(bucket: &str) -> bool {
    bucket.ends_with(SUFFIX)
}

/// Returns the zone id in the name of a directory bucket, such as `use1-az4` in `base--use1-az4--x-s3`; `None` for any
/// other name.
pub fn zone_of(bucket: &str) -> Option<&str> {
    let (base, zone) = bucket.strip_suffix(SUFFIX)?.rsplit_once("--")?;
    (!base.is_empty() && !zone.is_empty()).then_some(zone)
}

/// Returns the rule that the name of a directory bucket breaks (S3 user guide, directory bucket naming rules), or
/// `None` if the name is valid.
pub fn name_fault(bucket: &str) -> Option<&'static str> {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = bucket.as_bytes();
    if !(3..=63).contains(&bytes.len()) {
        return Some("it must have 3 to 63 characters, including the suffix");
    }
    if !bytes.iter().all(|c| plain(*c) || *c == b'-') {
        return Some("it may contain only a-z, 0-9 and '-'");
    }
    if !plain(bytes[0]) {
        return Some("it must begin with a letter or digit");
    }
    let Some(zone) = zone_of(bucket) else {
        return Some("it must be in the form base--zone--x-s3, such as data--use1-az4--x-s3");
    };
    if ["xn--", "sthree-", "amzn-s3-demo-"].iter().any(|p| bucket.starts_with(p)) {
        return Some("it begins with a reserved prefix");
    }
    let number = zone.rsplit_once("-az").map(|(_, n)| n);
    let fits = number.is_some_and(|n| !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()));
    (!fits).then_some("its zone must be a zone id, such as use1-az4")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_bucket_names_are_parsed_and_checked() {
        assert_eq!(zone_of("data--use1-az4--x-s3"), Some("use1-az4"));
        assert_eq!(zone_of("a--b--usw2-az1--x-s3"), Some("usw2-az1"));
        for other in ["data", "data--x-s3", "--use1-az4--x-s3", "data--use1-az4--x-s3-"] {
            assert_eq!(zone_of(other), None, "{other}");
        }
        let express = crate::provider::load("aws-s3-express").unwrap();
        assert_eq!(express.region_of("apne1-az4"), Some("ap-northeast-1"));
        assert_eq!(express.region_of("mars1-az1"), None);
        assert_eq!(name_fault("data--use1-az4--x-s3"), None);
        for (bad, why) in [
            ("Data--use1-az4--x-s3", "a-z"),
            ("-data--use1-az4--x-s3", "begin"),
            ("data--x-s3", "base--zone--x-s3"),
            ("xn--data--use1-az4--x-s3", "reserved"),
            ("data--useast1--x-s3", "zone id"),
            (&format!("{}--use1-az4--x-s3", "d".repeat(50)), "63"),
        ] {
            assert!(name_fault(bad).is_some_and(|f| f.contains(why)), "{bad}");
        }
    }
}
