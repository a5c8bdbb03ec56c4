//! Request authentication: SigV4 in the `Authorization` header or in a presigned URL, for any region and for the
//! services `s3` and `s3express`.

mod expected;
mod header;
mod policy;
mod presigned;
mod scope;

use aws_lc_rs::hmac;
use http::HeaderName;
use http::header::AUTHORIZATION;
use http::request::Parts;
use memchr::memchr;

pub use self::policy::verify_policy;
use self::scope::Scope;
use super::error::{ApiError, ErrorCode};
use super::names::AMZ_CONTENT_SHA256;
use super::payload::Payload;
use super::query::Pair;
use plimsoll_s3::chunked::ChunkSigner;
use plimsoll_s3::credentials::Credentials;
use plimsoll_s3::sign::UNSIGNED_PAYLOAD;

/// Maximum difference between the request time and the server's clock, in seconds (S3: 15 minutes).
const SKEW_S: i64 = 15 * 60;

/// Returns the value of a header; `None` if it is absent or not UTF-8.
fn text<'a>(parts: &'a Parts, name: &HeaderName) -> Option<&'a str> {
    parts.headers.get(name).and_then(|v| std::str::from_utf8(v.as_bytes()).ok())
}

fn payload_of(declared: &str, signer: impl FnOnce() -> ChunkSigner) -> Result<Payload, ApiError> {
    match declared {
        UNSIGNED_PAYLOAD => Ok(Payload::Unsigned),
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => Ok(Payload::Chunked(None)),
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" | "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => {
            Ok(Payload::Chunked(Some(Box::new(signer()))))
        }
        hash if hash.len() == 64 && hash.bytes().all(|c| c.is_ascii_hexdigit()) => {
            Ok(Payload::Sha256(hash.to_ascii_lowercase()))
        }
        _ => Err(ApiError::with(
            ErrorCode::InvalidArgument,
            "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, \
             STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a valid sha256 value.",
        )),
    }
}

/// Returns the framing of the body of a request without a signature.
///
/// # Errors
/// Returns the S3 error for a framing that needs a signature.
pub fn unsigned_payload(parts: &Parts) -> Result<Payload, ApiError> {
    match text(parts, &AMZ_CONTENT_SHA256) {
        None => Ok(Payload::Unsigned),
        Some(declared) if declared.starts_with("STREAMING-AWS4") => {
            Err(ApiError::new(ErrorCode::AccessDenied))
        }
        Some(declared) => payload_of(declared, || ChunkSigner {
            key: hmac::Key::new(hmac::HMAC_SHA256, &[]),
            date_time: String::new(),
            scope: String::new(),
            previous: String::new(),
        }),
    }
}

/// Returns the access key that a request claims to be signed with; `None` if it has no well-formed credential. `query`
/// is its decoded query, or `None` if that is malformed.
pub fn access_key(parts: &Parts, query: Option<&[Pair]>) -> Option<String> {
    let access_key = |credential: &str| Some(Scope::parse(credential.trim()).ok()?.access_key.to_string());
    match text(parts, &AUTHORIZATION) {
        Some(authorization) => {
            let usual = authorization.strip_prefix("AWS4-HMAC-SHA256 Credential=");
            let rest = usual.or_else(|| Some(authorization.split_once("Credential=")?.1))?;
            access_key(&rest[..memchr(b',', rest.as_bytes()).unwrap_or(rest.len())])
        }
        None => access_key(&query?.iter().find(|(name, _)| name == "X-Amz-Credential")?.1),
    }
}

/// Verifies the signature of a request that arrived at `now_s` (Unix seconds). `query` is its decoded query, or `None`
/// if that is malformed.
///
/// # Errors
/// Returns the S3 error for a missing, malformed, expired or wrong signature.
pub fn verify(
    parts: &Parts,
    query: Option<&[Pair]>,
    credentials: &Credentials,
    now_s: i64,
) -> Result<Payload, ApiError> {
    let mut authorizations = parts.headers.get_all(AUTHORIZATION).iter();
    if authorizations.next().is_some() && (presigns(query) || authorizations.next().is_some()) {
        return Err(ApiError::with(
            ErrorCode::InvalidArgument,
            "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string \
             parameter or the Authorization header should be specified",
        ));
    }
    match text(parts, &AUTHORIZATION) {
        Some(authorization) => header::verify(parts, authorization, query, credentials, now_s),
        None if parts.uri.query().is_some_and(|query| query.contains("X-Amz-")) => {
            presigned::verify(parts, query, credentials, now_s)
        }
        None if presigns(query) => Err(ApiError::with(
            ErrorCode::AccessDenied,
            "URLs that are signed with signature version 2 are not accepted; sign them with version 4, in boto3 with \
             Config(signature_version='s3v4')",
        )),
        None => {
            Err(ApiError::with(ErrorCode::AccessDenied, "Anonymous access is forbidden for this operation"))
        }
    }
}

/// Returns true if a decoded query contains parameters of a version 4 or version 2 signature; false if it is malformed.
pub fn presigns(query: Option<&[Pair]>) -> bool {
    const NAMES: [&str; 6] = [
        "X-Amz-Algorithm",
        "X-Amz-Credential",
        "X-Amz-Signature",
        "X-Amz-SignedHeaders",
        "AWSAccessKeyId",
        "Signature",
    ];
    let is_one = |name: &str| NAMES.iter().any(|known| known.eq_ignore_ascii_case(name));
    query.is_some_and(|pairs| pairs.iter().any(|(name, _)| is_one(name)))
}
