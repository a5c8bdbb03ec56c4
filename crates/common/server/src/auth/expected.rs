//! The signature that a request must have.

use std::borrow::Cow;
use std::cell::RefCell;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use http::request::Parts;

use super::payload_of;
use super::scope::Scope;
use crate::error::{ApiError, ErrorCode};
use crate::payload::Payload;
use crate::signing_key::with_key;
use plimsoll_base::net::encode::{decode, encode_path};
use plimsoll_s3::chunked::ChunkSigner;
use plimsoll_s3::credentials::Credentials;
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

/// The signature of a request, as its client describes it.
pub struct ClaimedSignature<'a> {
    /// Canonical query, without the signature.
    pub query: &'a str,
    /// Names of the signed headers, joined by `;`.
    pub signed_headers: &'a str,
    /// Time of the request, as signed.
    pub date_time: &'a str,
    /// Scope of the signing key.
    pub scope: Scope<'a>,
    /// Signature in hexadecimal.
    pub signature: &'a str,
    /// Declared hash of the body, or a literal such as `UNSIGNED-PAYLOAD`.
    pub declared: &'a str,
}

impl ClaimedSignature<'_> {
    /// Verifies the signature, which covers one of `payloads` as the hash of the body.
    ///
    /// # Errors
    /// Returns `SignatureDoesNotMatch`, or the S3 error for a header that must be signed, a malformed path, or an
    /// unknown framing of the body.
    pub fn verify(
        &self,
        parts: &Parts,
        credentials: &Credentials,
        payloads: &[&str],
    ) -> Result<Payload, ApiError> {
        check_signed(parts, self.signed_headers)?;
        with_key(credentials, self.scope.of_key(), |key| {
            for payload in payloads {
                let computed = self.expected(parts, payload, key)?;
                if verify_slices_are_equal(computed.as_bytes(), self.signature.as_bytes()).is_ok() {
                    return payload_of(self.declared, || ChunkSigner {
                        key: key.clone(),
                        date_time: self.date_time.into(),
                        scope: self.scope.text.into(),
                        previous: computed,
                    });
                }
            }
            Err(ApiError::new(ErrorCode::SignatureDoesNotMatch))
        })
    }

    /// Computes the signature of the request with this hash of its body.
    fn expected(&self, parts: &Parts, payload: &str, key: &hmac::Key) -> Result<String, ApiError> {
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
            canonical_start(text, parts.method.as_str(), path, self.query);
            self.signed_headers.split(';').for_each(|name| append_header(text, parts, name));
            canonical_end(text, self.signed_headers, payload);
            signature(key, self.date_time, self.scope.text, text, scratch)
        }))
    }
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
