//! Signatures in the `Authorization` header.

use http::request::Parts;

use super::expected::ClaimedSignature;
use super::scope::{Scope, parse_date_time};
use super::{SKEW_S, text};
use crate::error::{ApiError, ErrorCode};
use crate::names::{AMZ_CONTENT_SHA256, AMZ_DATE};
use crate::payload::Payload;
use crate::query::Pair;
use plimsoll_s3::credentials::Credentials;
use plimsoll_s3::sign::{ALGORITHM, canonical_query};

/// Returns the error for an `Authorization` header of another scheme.
fn unsupported(authorization: &str) -> ApiError {
    if authorization.starts_with("AWS ") {
        let message =
            "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.";
        return ApiError::with(ErrorCode::InvalidRequest, message);
    }
    ApiError::with(ErrorCode::InvalidArgument, "Unsupported Authorization Type")
}

/// Components of an `Authorization` header.
struct Components<'a> {
    credential: &'a str,
    signed_headers: &'a str,
    signature: &'a str,
}

impl<'a> Components<'a> {
    /// Parses the header behind the name of the algorithm; the error is a message for the client.
    fn parse(fields: &'a str) -> Result<Components<'a>, String> {
        const NAMES: [&str; 3] = ["Credential", "SignedHeaders", "Signature"];
        let mut found: [Option<&str>; 3] = [None; 3];
        let mut count = 0;
        for part in fields.split(',').map(str::trim) {
            count += 1;
            let Some((name, value)) = part.split_once('=') else {
                return Err(format!("the authorization component \"{part}\" is malformed."));
            };
            if let Some(index) = NAMES.iter().position(|known| *known == name) {
                found[index].get_or_insert(value);
            }
        }
        let found = found.map(|value| value.filter(|value| !value.is_empty()));
        if let [Some(credential), Some(signed_headers), Some(signature)] = found {
            return Ok(Components { credential, signed_headers, signature });
        }
        if count < NAMES.len() {
            return Err("the authorization header requires three components: Credential, SignedHeaders, and Signature.".into());
        }
        let missing = NAMES.iter().zip(found).find(|(_, value)| value.is_none());
        Err(format!("missing {}.", missing.map_or("", |(name, _)| name)))
    }
}

/// Verifies a request with an `Authorization` header that arrived at `now_s` (Unix seconds).
///
/// # Errors
/// Returns the S3 error for a malformed, expired or wrong signature.
pub fn verify(
    parts: &Parts,
    authorization: &str,
    query: Option<&[Pair]>,
    credentials: &Credentials,
    now_s: i64,
) -> Result<Payload, ApiError> {
    let malformed = |problem: &str| {
        ApiError::with(
            ErrorCode::AuthorizationHeaderMalformed,
            format!("The authorization header is malformed; {problem}"),
        )
    };
    let Some(fields) = authorization.strip_prefix(ALGORITHM) else {
        return Err(unsupported(authorization));
    };
    let components = Components::parse(fields).map_err(|problem| malformed(&problem))?;
    let scope = Scope::parse(components.credential).map_err(|problem| malformed(&problem))?;
    if scope.access_key != credentials.access_key {
        return Err(ApiError::new(ErrorCode::InvalidAccessKeyId).detail("AWSAccessKeyId", scope.access_key));
    }
    let no_date = || {
        let message = "AWS authentication requires a valid Date or x-amz-date header.";
        ApiError::with(ErrorCode::AccessDenied, message)
    };
    let date_time = text(parts, &AMZ_DATE).ok_or_else(no_date)?;
    let at = parse_date_time(date_time).ok_or_else(no_date)?;
    if (at - now_s).abs() > SKEW_S {
        return Err(ApiError::new(ErrorCode::RequestTimeTooSkewed));
    }
    if !date_time.starts_with(scope.date) {
        return Err(malformed("the credential date does not match x-amz-date."));
    }
    let declared = text(parts, &AMZ_CONTENT_SHA256).ok_or_else(|| {
        ApiError::with(
            ErrorCode::InvalidRequest,
            "Missing required header for this request: x-amz-content-sha256",
        )
    })?;
    let query = canonical_query(query.ok_or_else(|| ApiError::new(ErrorCode::InvalidURI))?);
    let Components { signed_headers, signature, .. } = components;
    let claim = ClaimedSignature { query: &query, signed_headers, date_time, scope, signature, declared };
    claim.verify(parts, credentials, &[declared])
}
