//! Verification of completed uploads against the parts that were sent.

use super::{Algorithm, BodyChecksum, PartTag};
use plimsoll_base::provider::{Profile, Tag};
use plimsoll_s3::checksum::from_base64;
use plimsoll_s3::integrity::{composite, full_object, multipart_etag};

/// Compares the entity tag and the checksum of a completed multipart object (`done`) with those of the parts
/// sent, each given with its length in bytes. Returns false if there was nothing to compare.
///
/// # Errors
/// Returns a message with both values if they differ.
pub fn check_upload(
    profile: Option<&Profile>,
    sent: &[(PartTag, u64)],
    done: &PartTag,
) -> Result<bool, String> {
    let md5s: Option<Vec<[u8; 16]>> = sent
        .iter()
        .map(|(part, _)| match &part.checksum {
            Some((BodyChecksum::Md5, value)) => from_base64(value)?.try_into().ok(),
            _ => None,
        })
        .collect();
    let is_md5 = profile.is_some_and(|p| p.multipart_etag == Tag::Md5);
    if let (Some(md5s), true) = (md5s, is_md5) {
        let (expected, found) = (multipart_etag(&md5s), done.etag.trim_matches('"'));
        return if expected == found {
            Ok(true)
        } else {
            Err(format!("the entity tag is {found}, but the parts give {expected}"))
        };
    }
    let Some((BodyChecksum::Declared(algorithm), found)) = &done.checksum else { return Ok(false) };
    let Some(expected) = expected(*algorithm, sent, found) else { return Ok(false) };
    if expected == *found {
        return Ok(true);
    }
    Err(format!("{} of the object is {found}, but the parts give {expected}", algorithm.name()))
}

/// Returns the cheapest checksum that allows verification: one that the provider keeps for whole multipart
/// objects, else MD5 if the provider's entity tags are computed from MD5s. Returns `None` if the provider has
/// neither.
pub fn cheapest(profile: &Profile) -> Option<BodyChecksum> {
    let whole = ["crc64nvme", "crc32c", "crc32"].into_iter().find(|name| profile.keeps_whole(name));
    let md5 = (profile.multipart_etag == Tag::Md5 && profile.takes("md5")).then_some("md5");
    BodyChecksum::from_name(whole.or(md5)?)
}

/// Computes the checksum of the object from its parts, in the form of `found`: composite (with `-`) or of the
/// whole object. Returns `None` if the parts' checksums do not allow it.
fn expected(algorithm: Algorithm, sent: &[(PartTag, u64)], found: &str) -> Option<String> {
    let value = |part: &PartTag| match &part.checksum {
        Some((BodyChecksum::Declared(a), value)) if *a == algorithm => from_base64(value),
        _ => None,
    };
    let values: Vec<(Vec<u8>, u64)> =
        sent.iter().map(|(part, len)| Some((value(part)?, *len))).collect::<Option<_>>()?;
    if found.contains('-') {
        let values: Vec<Vec<u8>> = values.into_iter().map(|(value, _)| value).collect();
        return Some(composite(algorithm, &values));
    }
    full_object(algorithm, &values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_base::net::encode::hex;
    use plimsoll_base::provider::load;
    use plimsoll_s3::checksum::md5;

    fn sent(checksum: BodyChecksum) -> Vec<(PartTag, u64)> {
        let part = |data: &[u8]| {
            let tag = PartTag {
                etag: format!("\"{}\"", hex(&md5(data))),
                checksum: Some((checksum, checksum.of([data].into_iter()))),
            };
            (tag, data.len() as u64)
        };
        vec![part(b"first part"), part(b"second")]
    }

    #[test]
    fn corrupt_uploads_are_detected() {
        let s3 = load("aws-s3").unwrap();
        let whole = b"first partsecond".as_slice();
        let tag = multipart_etag(&[md5(b"first part"), md5(b"second")]);
        let etag = format!("\"{tag}\"");
        let done = |etag: &str, checksum| PartTag { etag: etag.into(), checksum };
        assert_eq!(check_upload(Some(&s3), &sent(BodyChecksum::Md5), &done(&etag, None)), Ok(true));
        assert!(check_upload(Some(&s3), &sent(BodyChecksum::Md5), &done("\"0-2\"", None)).is_err());
        // A tag that is unrelated to the content must not be compared with an MD5: every good upload would be
        // rejected.
        let express = load("aws-s3-express").unwrap();
        assert_eq!(check_upload(Some(&express), &sent(BodyChecksum::Md5), &done("\"x\"", None)), Ok(false));
        for algorithm in [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Crc64Nvme] {
            let by = BodyChecksum::Declared(algorithm);
            let reported = |value: &str| done("\"x\"", Some((by, value.to_string())));
            assert_eq!(check_upload(None, &sent(by), &reported(&algorithm.of(whole))), Ok(true));
            assert!(check_upload(None, &sent(by), &reported(&algorithm.of(b"other"))).is_err());
        }
        let by = BodyChecksum::Declared(Algorithm::Sha256);
        let parts =
            [b"first part".as_slice(), b"second"].map(|d| from_base64(&Algorithm::Sha256.of(d)).unwrap());
        let value = composite(Algorithm::Sha256, &parts);
        assert_eq!(check_upload(None, &sent(by), &done("", Some((by, value)))), Ok(true));
        assert_eq!(check_upload(None, &sent(by), &done("", None)), Ok(false), "nothing to compare");
    }
}
