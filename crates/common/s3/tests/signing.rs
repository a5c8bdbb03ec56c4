//! Compares Plimsoll's signer with the `aws-sigv4` crate, on keys and queries that break naive encoders.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials as AwsCredentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation,
    SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use plimsoll_base::net::encode::{encode_path, hex};
use plimsoll_s3::credentials::Credentials;
use plimsoll_s3::sign::{EMPTY_SHA256, Signer, UNSIGNED_PAYLOAD, canonical_query, sha256};
use proptest::prelude::*;

const ACCESS: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

fn settings(location: SignatureLocation) -> SigningSettings {
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    settings.signature_location = location;
    settings
}

struct Case<'a> {
    method: &'a str,
    host: &'a str,
    target: &'a str,
    headers: &'a [(&'a str, &'a str)],
    body: SignableBody<'a>,
    token: Option<&'a str>,
    second: u64,
}

/// Returns the Authorization header of `aws-sigv4`, or the signature of a presigned URL if `expires` is given.
fn aws_sigv4(case: &Case<'_>, expires: Option<Duration>) -> String {
    let location =
        if expires.is_some() { SignatureLocation::QueryParams } else { SignatureLocation::Headers };
    let mut settings = settings(location);
    settings.expires_in = expires;
    let identity = AwsCredentials::new(ACCESS, SECRET, case.token.map(str::to_string), None, "test").into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region("eu-central-1")
        .name("s3")
        .time(SystemTime::UNIX_EPOCH + Duration::from_secs(case.second))
        .settings(settings)
        .build()
        .unwrap()
        .into();
    let url = format!("https://{}{}", case.host, case.target);
    let headers = case.headers.iter().copied();
    let request = SignableRequest::new(case.method, url, headers, case.body.clone()).unwrap();
    let (instructions, signature) = sign(request, &params).unwrap().into_parts();
    if expires.is_some() {
        return signature;
    }
    let (headers, _) = instructions.into_parts();
    headers.into_iter().find(|h| h.name() == "authorization").unwrap().value().to_string()
}

/// Generates strings from pieces that are hard to encode.
fn hostile() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "a", "Z", "0", "-", ".", "_", "~", "/", "//", " ", "+", "%", "%2F", "=", "&", "?", "#", ":", ";",
        ",", "@", "!", "*", "'", "(", ")", "\"", "<", ">", "\\", "|", "^", "`", "{", "}", "[", "]", "ü",
        "日", "🦀", "\u{7f}", "..", "./",
    ]);
    prop::collection::vec(pieces, 1..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn header_signatures_match_aws_sigv4(
        key in hostile(),
        pairs in prop::collection::vec((hostile(), hostile()), 0..4),
        payload in prop::collection::vec(any::<u8>(), 0..64),
        unsigned in any::<bool>(),
        token in prop::option::of("[A-Za-z0-9+/=]{8,40}"),
        second in 1_500_000_000u64..2_000_000_000,
    ) {
        let path = encode_path(&format!("/bucket/{key}"));
        let query = canonical_query(&pairs);
        let target = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
        let hash = if unsigned {
            UNSIGNED_PAYLOAD.to_string()
        } else if payload.is_empty() {
            EMPTY_SHA256.to_string()
        } else {
            hex(&sha256(&payload))
        };
        let body = if unsigned { SignableBody::UnsignedPayload } else { SignableBody::Bytes(&payload) };
        let case = Case { method: "PUT", host: "example.com:9000", target: &target, headers: &[("range", "bytes=0-9")], body, token: token.as_deref(), second };
        let expected = aws_sigv4(&case, None);

        let credentials = Credentials::new(ACCESS, SECRET, token.as_deref());
        let mut headers = vec![("host", "example.com:9000"), ("range", "bytes=0-9"), ("x-amz-content-sha256", hash.as_str())];
        if let Some(token) = &token {
            headers.push(("x-amz-security-token", token.as_str()));
        }
        let mut signer = Signer::new("eu-central-1", "s3");
        let signature = signer.sign_at(&credentials, second as i64, "PUT", &path, &query, &headers, &hash);
        prop_assert_eq!(signature.authorization, expected);
    }

    #[test]
    fn presigned_urls_match_aws_sigv4(key in hostile(), token in prop::option::of("[A-Za-z0-9]{8,40}"), second in 1_500_000_000u64..2_000_000_000) {
        let path = encode_path(&format!("/{key}"));
        let case = Case { method: "GET", host: "bucket.example.com", target: &path, headers: &[], body: SignableBody::UnsignedPayload, token: token.as_deref(), second };
        let expected = aws_sigv4(&case, Some(Duration::from_secs(900)));
        let credentials = Credentials::new(ACCESS, SECRET, token.as_deref());
        let mut signer = Signer::new("eu-central-1", "s3");
        let query = signer.presign_at(&credentials, second as i64, "GET", "bucket.example.com", &path, (&[], &[]), 900);
        prop_assert!(query.ends_with(&format!("X-Amz-Signature={expected}")), "{} lacks {}", query, expected);
    }
}
