//! Signatures in the query: presigned URLs.

use http::request::Parts;

use super::expected::ClaimedSignature;
use super::scope::{Scope, parse_date_time};
use super::{SKEW_S, text};
use crate::error::{ApiError, ErrorCode};
use crate::names::AMZ_CONTENT_SHA256;
use crate::payload::Payload;
use crate::query::Pair;
use plimsoll_s3::credentials::Credentials;
use plimsoll_s3::number::decimal;
use plimsoll_s3::sign::{ALGORITHM, UNSIGNED_PAYLOAD, canonical_query};

/// Longest lifetime of a presigned URL in seconds (S3: seven days).
const MAX_EXPIRY_S: i64 = 7 * 24 * 3600;

fn wrong(problem: &str) -> ApiError {
    ApiError::with(ErrorCode::AuthorizationQueryParametersError, problem)
}

/// Parses the lifetime of a URL in seconds.
fn expiry(text: &str) -> Result<i64, ApiError> {
    if text.strip_prefix('-').is_some_and(|rest| decimal(rest).is_some()) {
        return Err(wrong("X-Amz-Expires must be non-negative"));
    }
    let expires_s = decimal(text).ok_or_else(|| wrong("X-Amz-Expires should be a number"))?;
    let expires_s = i64::try_from(expires_s).unwrap_or(i64::MAX);
    if expires_s > MAX_EXPIRY_S {
        return Err(wrong(
            "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than 604800 seconds",
        ));
    }
    Ok(expires_s)
}

/// Verifies a request with a presigned URL that arrived at `now_s` (Unix seconds).
///
/// # Errors
/// Returns the S3 error for a malformed, expired or wrong signature.
pub fn verify(
    parts: &Parts,
    query: Option<&[Pair]>,
    credentials: &Credentials,
    now_s: i64,
) -> Result<Payload, ApiError> {
    let pairs = query.ok_or_else(|| ApiError::new(ErrorCode::InvalidURI))?;
    let find = |name: &str| {
        let found = pairs.iter().find(|(n, v)| n == name && !v.is_empty()).map(|(_, v)| v.as_str());
        found.ok_or_else(|| {
            wrong("Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.")
        })
    };
    if find("X-Amz-Algorithm")? != ALGORITHM {
        return Err(wrong("X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"."));
    }
    let credential = find("X-Amz-Credential")?;
    let date_time = find("X-Amz-Date")?;
    let signed_headers = find("X-Amz-SignedHeaders")?;
    let signature = find("X-Amz-Signature")?;
    let expires_s = expiry(find("X-Amz-Expires")?)?;
    let scope = Scope::parse(credential)
        .map_err(|problem| wrong(&format!("Error parsing the X-Amz-Credential parameter; {problem}")))?;
    let at = parse_date_time(date_time)
        .ok_or_else(|| wrong("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\""))?;
    if !date_time.starts_with(scope.date) {
        let day = &date_time[..date_time.len().min(8)];
        let message = format!(
            "Invalid credential date \"{}\". This date is not the same as X-Amz-Date: \"{day}\".",
            scope.date
        );
        return Err(wrong(&message));
    }
    if scope.access_key != credentials.access_key {
        return Err(ApiError::new(ErrorCode::InvalidAccessKeyId).detail("AWSAccessKeyId", scope.access_key));
    }
    if at - now_s > SKEW_S {
        return Err(ApiError::with(ErrorCode::AccessDenied, "Request is not valid yet"));
    }
    if at + expires_s <= now_s {
        return Err(ApiError::with(ErrorCode::AccessDenied, "Request has expired."));
    }
    // The body hash may also be a query parameter.
    let in_query = pairs.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-amz-content-sha256"));
    let declared = text(parts, &AMZ_CONTENT_SHA256).or(in_query.map(|(_, value)| value.as_str()));
    let declared = declared.unwrap_or(UNSIGNED_PAYLOAD);
    let query = canonical_query(pairs.iter().filter(|(name, _)| name != "X-Amz-Signature"));
    let claim = ClaimedSignature { query: &query, signed_headers, date_time, scope, signature, declared };
    // Some clients sign the hash that they declare instead of UNSIGNED-PAYLOAD.
    claim.verify(parts, credentials, &[UNSIGNED_PAYLOAD, declared])
}
