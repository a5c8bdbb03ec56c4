//! Reads request bodies within size limits, decodes `aws-chunked` and verifies declared digests.

use bytes::Bytes;
use http::HeaderMap;
use http::request::Parts;
use hyper::body::{Body, Incoming};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use super::auth::{Payload, body_hash};
use super::error::ApiError;
use super::memory::{Buffer, Memory};
use super::route::{Operation, Route};
use crate::s3::checksum::{Algorithm, from_base64, md5};
use crate::s3::chunked::{ChunkError, decode};
use crate::s3::number::decimal;
use crate::s3::sign::EMPTY_SHA256;

/// A verified request body.
#[derive(Debug, Default)]
pub struct Received {
    /// Payload without the `aws-chunked` framing.
    pub data: Bytes,
    /// MD5 of the payload; `None` if the request has no `Content-MD5`.
    pub md5: Option<[u8; 16]>,
    /// Verified checksum that the client declared; `None` if it declared none, and always for CompleteMultipartUpload.
    pub checksum: Option<(Algorithm, String)>,
}

/// Maximum size of an XML document in a request, in bytes.
const XML_LIMIT: u64 = 1 << 20;
/// Maximum size of a CompleteMultipartUpload document in bytes; it lists up to 10,000 parts.
const COMPLETE_LIMIT: u64 = 4 << 20;
/// Maximum size of a DeleteObjects document in bytes: 1,000 keys of 1,024 bytes take more than 1 MiB.
const DELETE_LIMIT: u64 = 2 << 20;
/// Divisor of the payload size that gives the allowance for `aws-chunked` framing: 128 bytes per 1,024.
/// [`XML_LIMIT`] covers the trailers.
const FRAMING_SHARE: u64 = 8;

/// Returns the maximum body size of an operation in bytes and the error code for a larger body.
fn limit(operation: Operation, max_body: u64) -> (u64, &'static str) {
    match operation {
        Operation::PutObject | Operation::UploadPart => {
            (max_body.saturating_add(max_body / FRAMING_SHARE).saturating_add(XML_LIMIT), "EntityTooLarge")
        }
        Operation::CompleteUpload => (COMPLETE_LIMIT, "MaxMessageLengthExceeded"),
        Operation::DeleteObjects => (DELETE_LIMIT, "MaxMessageLengthExceeded"),
        _ => (XML_LIMIT, "MaxMessageLengthExceeded"),
    }
}

async fn frame(body: &mut Incoming) -> Option<Result<Bytes, ApiError>> {
    loop {
        match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await? {
            // Ignore HTTP trailers: S3 puts its own trailers inside `aws-chunked`.
            Ok(frame) => {
                if let Ok(piece) = frame.into_data() {
                    return Some(Ok(piece));
                }
            }
            Err(_) => return Some(Err(ApiError::new("IncompleteBody"))),
        }
    }
}

/// Reads the raw body of a request for `operation`.
///
/// # Errors
/// Returns an error if the body is larger than the operation allows, exceeds the memory limit or ends before its
/// announced length.
pub async fn collect(
    body: &mut Incoming,
    operation: Operation,
    max_body: u64,
    memory: &Arc<Memory>,
) -> Result<Bytes, ApiError> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let (limit, too_long) = limit(operation, max_body);
    let announced = body.size_hint().exact();
    if announced.unwrap_or(0) > limit {
        return Err(ApiError::new(too_long));
    }
    memory.check(announced.unwrap_or(0))?;
    let most = announced.map_or(usize::MAX, |bytes| bytes as usize);
    // Reserve the announced length up front, but at most 8 MiB; the buffer grows as the rest arrives.
    let mut data = Buffer::new(memory, announced.unwrap_or(0).min(8 << 20) as usize)?;
    while let Some(piece) = frame(body).await {
        let piece = piece?;
        if data.len() as u64 + piece.len() as u64 > limit {
            return Err(ApiError::new(too_long));
        }
        data.push(&piece, most)?;
    }
    Ok(data.freeze())
}

/// Maximum number of bytes to read from the body of a rejected request.
const DISCARD: u64 = 64 << 20;

/// Reads and drops the body of a rejected request, so that a client that reads the response only after sending its body
/// does not get a connection reset. Does nothing if the announced length is above 64 MiB, or if the client waits for
/// `100 Continue`, which hyper sends when a body is read.
pub async fn discard(parts: &Parts, body: &mut Incoming) {
    if parts.headers.contains_key("expect") || body.size_hint().lower() > DISCARD {
        return;
    }
    let mut bytes = 0;
    while let Some(Ok(piece)) = frame(body).await {
        bytes += piece.len() as u64;
        if bytes > DISCARD {
            return;
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|v| v.to_str().ok())
}

/// Removes the framing of `raw` and verifies the digests, checksums and lengths that the request declares for it.
///
/// # Errors
/// Returns the S3 error for the declared value that does not match.
pub fn verify(
    parts: &Parts,
    route: &Route,
    payload: Payload,
    raw: Bytes,
    memory: &Arc<Memory>,
) -> Result<Received, ApiError> {
    let (data, trailers) = match payload {
        Payload::Unsigned => (raw, Vec::new()),
        Payload::Sha256(expected) => {
            let matches = if raw.is_empty() { expected == EMPTY_SHA256 } else { body_hash(&raw) == expected };
            if !matches {
                return Err(ApiError::new("XAmzContentSHA256Mismatch"));
            }
            (raw, Vec::new())
        }
        Payload::Chunked(mut signer) => {
            let reservation = memory.reserve(raw.len() as u64)?;
            let decoded = decode(&raw, signer.as_deref_mut()).map_err(|error| match error {
                ChunkError::Signature => ApiError::new("SignatureDoesNotMatch"),
                ChunkError::Incomplete | ChunkError::Malformed => ApiError::new("IncompleteBody"),
            })?;
            if let Some(length) = text(&parts.headers, "x-amz-decoded-content-length")
                && decimal(length) != Some(decoded.data.len() as u64)
            {
                return Err(ApiError::new("IncompleteBody"));
            }
            (Buffer::of(decoded.data, reservation).freeze(), decoded.trailers)
        }
    };
    let md5 = check_md5(&parts.headers, &data)?;
    // The checksum headers of CompleteMultipartUpload describe the object, not the list of parts in the body.
    let of_object = route.operation == Operation::CompleteUpload;
    let checksum = match route.operation {
        _ if of_object => None,
        operation => {
            let declared = check_checksum(&parts.headers, &trailers, &data)?;
            check_algorithms(&parts.headers, operation, declared.as_ref())?;
            declared
        }
    };
    Ok(Received { data, md5, checksum })
}

fn check_md5(headers: &HeaderMap, data: &[u8]) -> Result<Option<[u8; 16]>, ApiError> {
    let Some(header) = headers.get("content-md5") else { return Ok(None) };
    let declared = header.to_str().ok().and_then(from_base64).filter(|d| d.len() == 16);
    let header_text = String::from_utf8_lossy(header.as_bytes());
    let declared =
        declared.ok_or_else(|| ApiError::new("InvalidDigest").detail("Content-MD5", &header_text))?;
    let computed = md5(data);
    if declared != computed {
        return Err(ApiError::with(
            "BadDigest",
            "The Content-MD5 you specified did not match what we received.",
        ));
    }
    Ok(Some(computed))
}

/// Checks that the headers that name a checksum algorithm or type agree with the declared checksum.
fn check_algorithms(
    headers: &HeaderMap,
    operation: Operation,
    declared: Option<&(Algorithm, String)>,
) -> Result<(), ApiError> {
    let invalid = |text: &str| Err(ApiError::with("InvalidRequest", text));
    let has_body =
        matches!(operation, Operation::PutObject | Operation::UploadPart | Operation::DeleteObjects);
    if !has_body {
        return Ok(());
    }
    if declared.is_none() && headers.contains_key("x-amz-sdk-checksum-algorithm") {
        return invalid(
            "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found.",
        );
    }
    if let Some(name) = text(headers, "x-amz-checksum-algorithm") {
        let named = Algorithm::from_name(name);
        if named.is_none() || declared.is_some_and(|(algorithm, _)| Some(*algorithm) != named) {
            return invalid("Value for x-amz-checksum-algorithm header is invalid.");
        }
    }
    if text(headers, "x-amz-checksum-type").is_some_and(|kind| !kind.eq_ignore_ascii_case("FULL_OBJECT")) {
        return invalid("Value for x-amz-checksum-type header is invalid.");
    }
    Ok(())
}

fn check_checksum(
    headers: &HeaderMap,
    trailers: &[(String, String)],
    data: &[u8],
) -> Result<Option<(Algorithm, String)>, ApiError> {
    let announced = text(headers, "x-amz-trailer").map(str::to_ascii_lowercase);
    if let Some(name) = &announced {
        if Algorithm::from_header(name).is_none() {
            return Err(ApiError::with(
                "InvalidRequest",
                "The value specified in the x-amz-trailer header is not supported",
            ));
        }
        if !trailers.iter().any(|(n, _)| n == name) {
            return Err(ApiError::new("MalformedTrailerError"));
        }
    }
    let in_headers = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str();
        let is_value = name.starts_with("x-amz-checksum-")
            && name != "x-amz-checksum-algorithm"
            && name != "x-amz-checksum-type"
            && name != "x-amz-checksum-mode";
        is_value.then(|| (name.to_string(), value.to_str().unwrap_or("").to_string()))
    });
    let in_trailers = trailers.iter().filter(|(n, _)| n.starts_with("x-amz-checksum-")).cloned();
    let declared: Vec<(String, String)> = in_headers.chain(in_trailers).collect();
    let Some((name, value)) = declared.first() else { return Ok(None) };
    if declared.len() > 1 {
        return Err(ApiError::with(
            "InvalidRequest",
            "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.",
        ));
    }
    let algorithm = Algorithm::from_header(name).ok_or_else(|| {
        ApiError::with(
            "InvalidRequest",
            "The algorithm type you specified in x-amz-checksum- header is invalid.",
        )
    })?;
    if let Some(sdk) = text(headers, "x-amz-sdk-checksum-algorithm")
        && Algorithm::from_name(sdk) != Some(algorithm)
    {
        return Err(ApiError::with(
            "InvalidRequest",
            "Value for x-amz-sdk-checksum-algorithm header is invalid.",
        ));
    }
    if from_base64(value).is_none_or(|v| v.len() != algorithm.size()) {
        return Err(ApiError::with(
            "InvalidRequest",
            format!(
                "Value for {name}{} header is invalid.",
                if trailers.is_empty() { "" } else { " trailing" }
            ),
        ));
    }
    if algorithm.of(data) != *value {
        let text = format!("The {} you specified did not match the calculated checksum.", algorithm.name());
        return Err(ApiError::with("BadDigest", text));
    }
    Ok(Some((algorithm, value.clone())))
}
