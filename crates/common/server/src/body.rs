//! Reads request bodies as streams within size limits, decodes `aws-chunked` and verifies declared digests.

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use aws_lc_rs::digest;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{AsHeaderName, EXPECT};
use http::request::Parts;
use hyper::body::{Body, Incoming};
use md5::{Digest as _, Md5};

use super::connections::Registration;
use super::error::{ApiError, ErrorCode};
use super::form::FormFile;
use super::incoming::frame;
use super::limits::{FRAMING_DIVISOR, MAX_XML_BYTES, payload_limit};
use super::names::{
    AMZ_CHECKSUM_ALGORITHM, AMZ_CHECKSUM_TYPE, AMZ_DECODED_LENGTH, AMZ_SDK_CHECKSUM, AMZ_TRAILER, CONTENT_MD5,
};
use super::payload::Payload;
use super::reserve::{Buffer, Memory};
use super::response::ResponseBody;
use super::route::ApiOperation;
use plimsoll_base::net::encode::hex;
use plimsoll_s3::checksum::{Algorithm, Hasher, from_base64};
use plimsoll_s3::chunked::{ChunkDecoder, ChunkError};
use plimsoll_s3::number::decimal;

/// Source of the bytes of a body.
enum Source<'a> {
    /// Body of a request without framing.
    Plain(&'a mut Incoming),
    /// Body of a request in `aws-chunked` framing, and the input that is not yet decoded.
    Chunked(&'a mut Incoming, Box<ChunkDecoder>, Bytes),
    /// File in an HTML form.
    Form(FormFile<'a>),
    /// Content of another object.
    Object(ResponseBody),
}

/// Digests of a complete and verified body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digests {
    /// MD5 of the payload.
    pub md5: [u8; 16],
    /// Checksum that the client declared, otherwise the one that the reader computes; `None` if there is neither.
    pub checksum: Option<(Algorithm, String)>,
    /// CRC-64/NVME of the payload in base64; empty unless requested with [`BodyReader::want_crc64`].
    pub crc64: String,
}

/// A request body as a stream of payload pieces. It verifies what the request declares about the body.
pub struct BodyReader<'a> {
    source: Source<'a>,
    /// Request headers; empty for the content of another object.
    headers: Cow<'a, HeaderMap>,
    operation: ApiOperation,
    least: u64,
    limit: u64,
    too_large: ErrorCode,
    raw_limit: u64,
    raw_bytes: u64,
    bytes: u64,
    length: Option<u64>,
    sha256: Option<(String, digest::Context)>,
    md5: Md5,
    wants_md5: bool,
    hashers: Vec<(Algorithm, Hasher)>,
    crc64: Option<Hasher>,
    /// Connection whose phase shows whether the reader waits for a piece.
    watched: Option<&'a Registration>,
}

impl<'a> BodyReader<'a> {
    /// Creates a reader for the body of a verified request.
    ///
    /// # Errors
    /// Returns the S3 error for headers that contradict each other or that announce a body above the limit.
    pub fn new(
        parts: &'a Parts,
        incoming: &'a mut Incoming,
        payload: Payload,
        operation: ApiOperation,
        max_body: u64,
    ) -> Result<BodyReader<'a>, ApiError> {
        let (limit, too_large) = payload_limit(operation, max_body);
        let announced = incoming.size_hint().exact();
        let (source, sha256, length) = match payload {
            Payload::Unsigned => (Source::Plain(incoming), None, announced),
            Payload::Sha256(expected) => {
                let sha256 = Some((expected, digest::Context::new(&digest::SHA256)));
                (Source::Plain(incoming), sha256, announced)
            }
            Payload::Chunked(signer) => {
                let decoder = Box::new(ChunkDecoder::new(signer));
                let length = text(&parts.headers, &AMZ_DECODED_LENGTH).and_then(decimal);
                (Source::Chunked(incoming, decoder, Bytes::new()), None, length)
            }
        };
        let framed = matches!(source, Source::Chunked(..));
        let allowance = if framed { limit / FRAMING_DIVISOR + MAX_XML_BYTES } else { 0 };
        let mut reader = BodyReader {
            source,
            headers: Cow::Borrowed(&parts.headers),
            operation,
            least: 0,
            limit,
            too_large,
            raw_limit: limit.saturating_add(allowance),
            raw_bytes: 0,
            bytes: 0,
            length,
            sha256,
            md5: Md5::new(),
            wants_md5: false,
            hashers: Vec::new(),
            crc64: None,
            watched: None,
        };
        if announced.unwrap_or(0) > reader.raw_limit || length.unwrap_or(0) > limit {
            return Err(ApiError::new(too_large));
        }
        reader.check_headers()?;
        Ok(reader)
    }

    fn of(source: Source<'a>, length: Option<u64>, limit: u64) -> BodyReader<'a> {
        BodyReader {
            source,
            headers: Cow::Owned(HeaderMap::new()),
            operation: ApiOperation::PutObject,
            least: 0,
            limit,
            too_large: ErrorCode::EntityTooLarge,
            raw_limit: u64::MAX,
            raw_bytes: 0,
            bytes: 0,
            length,
            sha256: None,
            md5: Md5::new(),
            wants_md5: false,
            hashers: Vec::new(),
            crc64: None,
            watched: None,
        }
    }

    /// Creates a reader for the content of another object.
    pub fn of_object(content: ResponseBody) -> BodyReader<'static> {
        let size = content.size();
        BodyReader::of(Source::Object(content), Some(size), u64::MAX)
    }

    /// Creates a reader for the file in an HTML form, which must have `least` to `limit` bytes.
    pub fn of_form(file: FormFile<'a>, limit: u64, least: u64) -> BodyReader<'a> {
        BodyReader { least, ..BodyReader::of(Source::Form(file), None, limit) }
    }

    /// Sets the phase of the connection while it waits for a piece of the body.
    pub fn watched(mut self, registration: &'a Registration) -> BodyReader<'a> {
        self.watched = Some(registration);
        self
    }

    /// Returns the announced length of the payload in bytes; `None` if it is unknown.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// Returns the algorithm of the checksum that the request declares for its body; `None` if it declares none.
    pub fn declared(&self) -> Option<Algorithm> {
        self.hashers.first().map(|(algorithm, _)| *algorithm)
    }

    /// Returns the number of payload bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes the reader compute a CRC-64/NVME of the payload. Call it before the first read.
    pub fn want_crc64(&mut self) {
        self.crc64 = Some(Hasher::new(Algorithm::Crc64Nvme));
    }

    /// Makes the reader compute the MD5 and, if the request declares no checksum, one of this algorithm. Call it before
    /// the first read.
    pub fn want(&mut self, checksum: Option<Algorithm>) {
        self.wants_md5 = true;
        if self.hashers.is_empty()
            && let Some(algorithm) = checksum
        {
            self.hashers.push((algorithm, Hasher::new(algorithm)));
        }
    }

    /// Checks the headers that name checksums, and starts the checksums that they declare.
    fn check_headers(&mut self) -> Result<(), ApiError> {
        self.wants_md5 = self.headers.contains_key(&CONTENT_MD5);
        // The checksum headers of CompleteMultipartUpload describe the object, not the list of parts in the body.
        if self.operation == ApiOperation::CompleteUpload {
            return Ok(());
        }
        if let Some(name) = text(&self.headers, &AMZ_TRAILER) {
            let Some(algorithm) = Algorithm::from_header(name) else {
                return Err(ApiError::with(
                    ErrorCode::InvalidRequest,
                    "The value specified in the x-amz-trailer header is not supported",
                ));
            };
            self.hashers.push((algorithm, Hasher::new(algorithm)));
        }
        for (name, _) in declared(&self.headers) {
            if let Some(algorithm) = Algorithm::from_header(name) {
                self.hashers.push((algorithm, Hasher::new(algorithm)));
            }
        }
        Ok(())
    }

    /// Returns the next piece of the payload; `None` at its end.
    ///
    /// # Errors
    /// Returns an error if the body is larger than the operation allows, malformed, or ends early.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        // Between two pieces the client waits for the server, and no timeout applies.
        self.watched.iter().for_each(|registration| registration.reads_body());
        let received = self.receive().await;
        self.watched.iter().for_each(|registration| registration.works());
        let Some(piece) = received? else { return Ok(None) };
        self.bytes += piece.len() as u64;
        if self.bytes > self.limit {
            return Err(ApiError::new(self.too_large));
        }
        self.update(&piece);
        Ok(Some(piece))
    }

    async fn receive(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            match &mut self.source {
                Source::Plain(incoming) => return frame(incoming).await.transpose(),
                Source::Chunked(incoming, decoder, input) => {
                    if let Some(piece) = decoder.next(input).map_err(framing_error)? {
                        return Ok(Some(piece));
                    }
                    match frame(incoming).await {
                        Some(piece) => *input = piece?,
                        None => return Ok(None),
                    }
                    self.raw_bytes += input.len() as u64;
                    if self.raw_bytes > self.raw_limit {
                        return Err(ApiError::new(self.too_large));
                    }
                }
                Source::Form(file) => return file.next().await,
                Source::Object(content) => {
                    return match poll_fn(|cx| Pin::new(&mut *content).poll_frame(cx)).await {
                        Some(Ok(frame)) => Ok(frame.into_data().ok()),
                        Some(Err(_)) => Err(ApiError::new(ErrorCode::InternalError)),
                        None => Ok(None),
                    };
                }
            }
        }
    }

    fn update(&mut self, piece: &[u8]) {
        if let Some((_, hasher)) = &mut self.sha256 {
            hasher.update(piece);
        }
        if self.wants_md5 {
            self.md5.update(piece);
        }
        self.hashers.iter_mut().for_each(|(_, hasher)| hasher.update(piece));
        if let Some(hasher) = &mut self.crc64 {
            hasher.update(piece);
        }
    }

    /// Reads the whole payload into memory.
    ///
    /// # Errors
    /// Returns the errors of [`BodyReader::next`], or `SlowDown` if the memory limit would be exceeded.
    pub async fn collect(&mut self, memory: &Arc<Memory>) -> Result<Bytes, ApiError> {
        let announced = self.length.unwrap_or(0);
        memory.check(announced)?;
        let most = self.length.map_or(usize::MAX, |bytes| bytes as usize);
        let Some(first) = self.next().await? else { return Ok(Bytes::new()) };
        if matches!(self.source, Source::Object(_)) && Some(first.len() as u64) == self.length {
            return Ok(first);
        }
        // Reserve the announced length up front, but at most 8 MiB; the buffer grows as the rest arrives.
        let mut data = Buffer::new(memory, announced.min(8 << 20) as usize)?;
        data.push(&first, most)?;
        while let Some(piece) = self.next().await? {
            data.push(&piece, most)?;
        }
        Ok(data.freeze())
    }

    /// Verifies everything that the request declares about its body. Call it after the last piece.
    ///
    /// # Errors
    /// Returns the S3 error for the declared value that does not match.
    pub fn finish(&mut self) -> Result<Digests, ApiError> {
        if self.bytes < self.least {
            return Err(ApiError::new(ErrorCode::EntityTooSmall));
        }
        let mut trailers = Vec::new();
        if let Source::Chunked(_, decoder, _) = &mut self.source {
            let decoder = std::mem::replace(&mut **decoder, ChunkDecoder::new(None));
            trailers = decoder.finish().map_err(framing_error)?;
            let has_length = self.headers.contains_key(&AMZ_DECODED_LENGTH);
            if has_length && self.length != Some(self.bytes) {
                return Err(ApiError::new(ErrorCode::IncompleteBody));
            }
        }
        if let Some((expected, hasher)) = self.sha256.take()
            && hex(hasher.finish().as_ref()) != expected
        {
            return Err(ApiError::new(ErrorCode::XAmzContentSHA256Mismatch));
        }
        let md5: [u8; 16] = std::mem::take(&mut self.md5).finalize().into();
        check_md5(&self.headers, md5)?;
        let checksum = if self.operation == ApiOperation::CompleteUpload {
            None
        } else {
            let declared = self.check_checksum(&trailers)?;
            check_algorithms(&self.headers, self.operation, declared.as_ref())?;
            declared.or_else(|| self.hashers.pop().map(|(algorithm, hasher)| (algorithm, hasher.finish())))
        };
        Ok(Digests { md5, checksum, crc64: self.crc64.take().map(Hasher::finish).unwrap_or_default() })
    }

    /// Returns true if the request declares an MD5 or another checksum of its body.
    pub fn is_protected(&self) -> bool {
        self.wants_md5 || !self.hashers.is_empty()
    }

    fn check_checksum(
        &mut self,
        trailers: &[(String, String)],
    ) -> Result<Option<(Algorithm, String)>, ApiError> {
        let invalid = |text: String| Err(ApiError::with(ErrorCode::InvalidRequest, text));
        if let Some(name) = text(&self.headers, &AMZ_TRAILER)
            && !trailers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
        {
            return Err(ApiError::new(ErrorCode::MalformedTrailerError));
        }
        let in_trailers = trailers.iter().filter(|(n, _)| n.starts_with("x-amz-checksum-"));
        let in_trailers = in_trailers.map(|(name, value)| (name.as_str(), value.as_str()));
        let mut all = declared(&self.headers).chain(in_trailers);
        let Some((name, value)) = all.next() else { return Ok(None) };
        if all.next().is_some() {
            return invalid(
                "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.".into(),
            );
        }
        let Some(algorithm) = Algorithm::from_header(name) else {
            return invalid("The algorithm type you specified in x-amz-checksum- header is invalid.".into());
        };
        if let Some(sdk) = text(&self.headers, &AMZ_SDK_CHECKSUM)
            && Algorithm::from_name(sdk) != Some(algorithm)
        {
            return invalid("Value for x-amz-sdk-checksum-algorithm header is invalid.".into());
        }
        if from_base64(value).is_none_or(|v| v.len() != algorithm.size()) {
            let trailing = if trailers.is_empty() { "" } else { " trailing" };
            return invalid(format!("Value for {name}{trailing} header is invalid."));
        }
        let hasher = self.hashers.iter().position(|(a, _)| *a == algorithm);
        let computed = hasher.map(|at| self.hashers.swap_remove(at).1.finish());
        // A trailer that the request does not announce cannot be verified while the body streams.
        let Some(computed) = computed else { return Err(ApiError::new(ErrorCode::MalformedTrailerError)) };
        if computed != *value {
            let text =
                format!("The {} you specified did not match the calculated checksum.", algorithm.name());
            return Err(ApiError::with(ErrorCode::BadDigest, text));
        }
        Ok(Some((algorithm, value.to_string())))
    }
}

fn framing_error(error: ChunkError) -> ApiError {
    match error {
        ChunkError::Signature => ApiError::new(ErrorCode::SignatureDoesNotMatch),
        ChunkError::Incomplete | ChunkError::Malformed => ApiError::new(ErrorCode::IncompleteBody),
    }
}

/// Maximum number of bytes to read from the body of a rejected request.
const DISCARD: u64 = 64 << 20;

/// Reads and drops the body of a rejected request, so that a client that reads the response only after sending its body
/// does not get a connection reset. Does nothing if the announced length is above 64 MiB, or if the client waits for
/// `100 Continue`, which hyper sends when a body is read.
pub async fn discard(parts: &Parts, body: &mut Incoming) {
    if parts.headers.contains_key(EXPECT) || body.size_hint().lower() > DISCARD {
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

fn text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name).and_then(|v| v.to_str().ok())
}

/// Returns the headers that carry a checksum of the body, with their values.
fn declared(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    headers.iter().filter_map(|(name, value)| {
        let suffix = name.as_str().strip_prefix("x-amz-checksum-")?;
        let is_value = !matches!(suffix, "algorithm" | "type" | "mode");
        is_value.then(|| (name.as_str(), value.to_str().unwrap_or("")))
    })
}

fn check_md5(headers: &HeaderMap, computed: [u8; 16]) -> Result<(), ApiError> {
    let Some(header) = headers.get(&CONTENT_MD5) else { return Ok(()) };
    let declared = header.to_str().ok().and_then(from_base64).filter(|d| d.len() == 16);
    let header_text = String::from_utf8_lossy(header.as_bytes());
    let declared = declared
        .ok_or_else(|| ApiError::new(ErrorCode::InvalidDigest).detail("Content-MD5", &header_text))?;
    if declared == computed {
        return Ok(());
    }
    Err(ApiError::with(ErrorCode::BadDigest, "The Content-MD5 you specified did not match what we received."))
}

/// Checks that the headers that name a checksum algorithm or type agree with the declared checksum.
fn check_algorithms(
    headers: &HeaderMap,
    operation: ApiOperation,
    declared: Option<&(Algorithm, String)>,
) -> Result<(), ApiError> {
    let invalid = |text: &str| Err(ApiError::with(ErrorCode::InvalidRequest, text));
    let has_body =
        matches!(operation, ApiOperation::PutObject | ApiOperation::UploadPart | ApiOperation::DeleteObjects);
    if !has_body {
        return Ok(());
    }
    if declared.is_none() && headers.contains_key(&AMZ_SDK_CHECKSUM) {
        return invalid(
            "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found.",
        );
    }
    if let Some(name) = text(headers, &AMZ_CHECKSUM_ALGORITHM) {
        let named = Algorithm::from_name(name);
        if named.is_none() || declared.is_some_and(|(algorithm, _)| Some(*algorithm) != named) {
            return invalid("Value for x-amz-checksum-algorithm header is invalid.");
        }
    }
    if text(headers, &AMZ_CHECKSUM_TYPE).is_some_and(|kind| !kind.eq_ignore_ascii_case("FULL_OBJECT")) {
        return invalid("Value for x-amz-checksum-type header is invalid.");
    }
    Ok(())
}
