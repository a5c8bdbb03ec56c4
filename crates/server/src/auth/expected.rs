//! The signature that a request must have.

use std::borrow::Cow;
use std::cell::RefCell;

use aws_lc_rs::hmac;
use http::request::Parts;

use crate::error::{ApiError, ErrorCode};
use plimsoll_base::net::encode::{decode, encode_path};
use plimsoll_s3::sign::{canonical_end, canonical_header, canonical_start, signature};

thread_local! {
    static BUFFERS: RefCell<(String, String)> = const { RefCell::new((String::new(), String::new())) };
}

/// Returns the text of a header value for the canonical request. Clients sign UTF-8, and clients that send Latin-1
/// (Python's `http.client`) sign the same characters in UTF-8.
fn value_text(value: &http::HeaderValue) -> Cow<'_, str> {
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) => text.into(),
        Err(_) => value.as_bytes().iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// Checks that the signature covers the host and every `x-amz-*` header.
fn check_signed(parts: &Parts, signed_headers: &str) -> Result<(), ApiError> {
    let error = || {
        ApiError::with(
            ErrorCode::AccessDenied,
            "There were headers present in the request which were not signed",
        )
    };
    let is_signed = |name: &str| signed_headers.split(';').any(|signed| signed == name);
    if !is_signed("host") {
        return Err(error().detail("HeadersNotSigned", "host"));
    }
    // An unsigned body hash is allowed: it is verified against the body and has no other effect.
    let must_be_signed = |name: &&str| name.starts_with("x-amz-") && *name != "x-amz-content-sha256";
    let names = parts.headers.keys().map(http::HeaderName::as_str);
    match names.filter(must_be_signed).find(|name| !is_signed(name)) {
        Some(name) => Err(error().detail("HeadersNotSigned", name)),
        None => Ok(()),
    }
}

/// What a client says about its signature.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// Canonical query, without the signature.
    pub query: &'a str,
    /// Names of the signed headers, joined by `;`.
    pub signed_headers: &'a str,
    /// Signed payload hash, or a literal such as `UNSIGNED-PAYLOAD`.
    pub payload: &'a str,
    /// Time of the request, as signed.
    pub date_time: &'a str,
    /// Scope of the signing key, as text.
    pub scope: &'a str,
}

/// Appends a signed header, with all its values, to a canonical request.
fn append_header(out: &mut String, parts: &Parts, name: &str) {
    let mut values = parts.headers.get_all(name).iter().map(value_text);
    // Proxies and HTTP libraries drop empty headers and `expect`, so a missing signed header counts as empty.
    let first = values.next().unwrap_or_default();
    match values.next() {
        None => canonical_header(out, name, &first),
        Some(second) => {
            let all: Vec<_> = [first, second].into_iter().chain(values).collect();
            canonical_header(out, name, &all.join(","));
        }
    }
}

/// Computes the signature of a request with the key of its scope.
///
/// # Errors
/// Returns the S3 error for a header that must be signed, or for a malformed path.
pub fn expected(parts: &Parts, claim: &Claim<'_>, key: &hmac::Key) -> Result<String, ApiError> {
    check_signed(parts, claim.signed_headers)?;
    let raw = parts.uri.path();
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_' | b'~' | b'/');
    let encoded;
    let path = if raw.bytes().all(plain) {
        raw
    } else {
        encoded = encode_path(&decode(raw, false).ok_or_else(|| ApiError::new(ErrorCode::InvalidURI))?);
        &encoded
    };
    Ok(BUFFERS.with_borrow_mut(|(text, scratch)| {
        canonical_start(text, parts.method.as_str(), path, claim.query);
        claim.signed_headers.split(';').for_each(|name| append_header(text, parts, name));
        canonical_end(text, claim.signed_headers, claim.payload);
        signature(key, claim.date_time, claim.scope, text, scratch)
    }))
}
