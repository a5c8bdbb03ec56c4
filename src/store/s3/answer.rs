//! The second half of an operation: reading the answer, and saying what it means.

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, ETAG, HeaderName};

use crate::clock::now_ns;
use crate::s3::checksum::{Algorithm, Hasher};
use crate::s3::connection::Connection;
use crate::s3::error::S3Error;
use crate::s3::message::{Listing, completed, delete_many_failure, upload_id, uploads};
use crate::store::{ErrorClass, Failure, Observer, Reply, Request, Timings};

/// The failure of a connection that broke.
pub(super) fn broken(error: &hyper::Error, timings: &mut Timings) -> Failure {
    timings.end_ns = now_ns();
    let mut message = format!("the connection broke: {error}");
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        message.push_str(&format!(": {inner}"));
        source = inner.source();
    }
    Failure::new(ErrorClass::Reset, message, *timings)
}

/// Error bodies beyond this are not read further.
const ERROR_BODY_LIMIT: usize = 64 * 1024;

/// An answer being read.
pub(super) struct Exchange<'a> {
    pub(super) connection: &'a mut Connection,
    pub(super) timings: &'a mut Timings,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) body: &'a mut Incoming,
}

impl Exchange<'_> {
    /// Reads the answer to `request` to its end.
    pub(super) async fn receive(
        &mut self,
        request: &Request<'_>,
        head: &http::response::Parts,
    ) -> Result<Reply, Failure> {
        self.timings.first_byte_ns = self.connection.stamps().first_read.get();
        let text = |name: HeaderName| head.headers.get(name).and_then(|v| v.to_str().ok());
        let request_id = text(HeaderName::from_static("x-amz-request-id")).unwrap_or("");
        if !head.status.is_success() {
            let body = self.collect(ERROR_BODY_LIMIT).await?;
            self.end();
            let mut error = S3Error::parse(head.status.as_u16(), request_id, &body);
            if error.code.is_empty() && matches!(request, Request::Head { .. } | Request::CheckBucket) {
                error.code = implied_code(error.status).into();
            }
            return Err(self.answered(&error));
        }
        let mut reply = Reply::default();
        if matches!(request, Request::Head { .. }) {
            reply.etag = text(ETAG).map(str::to_string);
        }
        match request {
            Request::Get { .. } => {
                let kept = if self.observer.wants_checksum() { kept_checksum(head) } else { None };
                reply.bytes = self.stream(kept).await?;
            }
            Request::Put { body, .. } | Request::UploadPart { body, .. } => {
                self.timings.body_first_ns = self.connection.stamps().first_write.get();
                self.timings.body_last_ns = self.connection.stamps().last_write.get();
                let answer = self.collect(ERROR_BODY_LIMIT).await?;
                self.end();
                if let Some(error) = S3Error::inside_success(request_id, &answer) {
                    return Err(self.answered(&error));
                }
                reply.bytes = body.len();
                if matches!(request, Request::UploadPart { .. }) {
                    reply.etag = text(ETAG).map(str::to_string);
                }
            }
            Request::Head { .. } => {
                reply.size = text(CONTENT_LENGTH).and_then(|v| v.parse().ok());
                self.collect(0).await?;
            }
            Request::Delete { .. }
            | Request::AbortMultipart { .. }
            | Request::CheckBucket
            | Request::CreateBucket
            | Request::DeleteBucket => {
                self.collect(ERROR_BODY_LIMIT).await?;
            }
            _ => self.document(request, head, request_id, &mut reply).await?,
        }
        self.end();
        reply.timings = *self.timings;
        Ok(reply)
    }

    /// Reads an answer that is an XML document.
    async fn document(
        &mut self,
        request: &Request<'_>,
        head: &http::response::Parts,
        request_id: &str,
        reply: &mut Reply,
    ) -> Result<(), Failure> {
        let body = self.collect(usize::MAX).await?;
        self.end();
        // S3 may begin to answer 200 before it knows that it will fail.
        if let Some(error) = S3Error::inside_success(request_id, &body) {
            return Err(self.answered(&error));
        }
        let unreadable = |e| format!("the answer is {e}");
        match request {
            Request::List { .. } => {
                reply.listing = Some(Listing::parse(&body).map_err(|e| self.corrupt(unreadable(e)))?);
                let date = head.headers.get(hyper::header::DATE).and_then(|v| v.to_str().ok());
                let date = date.and_then(|d| jiff::fmt::rfc2822::parse(d).ok());
                reply.store_clock_s = date.map(|d| d.timestamp().as_second());
            }
            Request::DeleteMany { .. } => {
                if let Some(error) = delete_many_failure(&body).map_err(|e| self.corrupt(unreadable(e)))? {
                    return Err(self.answered(&error));
                }
            }
            Request::CreateMultipart { .. } => {
                reply.upload_id = Some(upload_id(&body).map_err(|e| self.corrupt(unreadable(e)))?);
            }
            Request::CompleteMultipart { .. } => {
                let done = completed(&body).map_err(|e| self.corrupt(unreadable(e)))?;
                reply.etag = Some(done.etag).filter(|etag| !etag.is_empty());
                reply.checksum = done.checksum;
            }
            Request::ListUploads { .. } => {
                reply.uploads = uploads(&body).map_err(|e| self.corrupt(unreadable(e)))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The operation ends with the last byte read, not when this task came round to it.
    fn end(&mut self) {
        if self.timings.end_ns == 0 {
            self.timings.end_ns = self.connection.stamps().last_read.get();
        }
    }

    fn answered(&mut self, error: &S3Error) -> Failure {
        self.end();
        let mut message =
            if error.message.is_empty() { "no message".to_string() } else { error.message.clone() };
        if !error.request_id.is_empty() {
            message.push_str(&format!(" (request id {})", error.request_id));
        }
        Failure::new(ErrorClass::Answered(error.class()), message, *self.timings)
    }

    fn corrupt(&mut self, message: String) -> Failure {
        self.end();
        Failure::new(ErrorClass::Corrupt, message, *self.timings)
    }

    /// Reads the content, and holds it against the checksum that the store `kept` of it.
    async fn stream(&mut self, kept: Option<(Algorithm, String)>) -> Result<u64, Failure> {
        let mut bytes = 0;
        let mut wrong = None;
        let mut hasher = kept.as_ref().map(|(algorithm, _)| Hasher::new(*algorithm));
        while let Some(piece) = self.next().await? {
            if bytes == 0 {
                self.timings.body_first_ns = self.connection.stamps().last_read.get();
            }
            bytes += piece.len() as u64;
            if wrong.is_none() {
                wrong = self.observer.piece(&piece).err();
            }
            if let Some(hasher) = &mut hasher {
                hasher.update(&piece);
            }
        }
        self.timings.body_last_ns = self.connection.stamps().last_read.get();
        if let (Some((algorithm, expected)), Some(hasher)) = (kept, hasher) {
            let found = hasher.finish();
            if found != expected {
                let name = algorithm.name();
                return Err(
                    self.corrupt(format!("{name} of the content is {found}, the store keeps {expected}"))
                );
            }
        }
        match wrong {
            Some(offset) => Err(self.corrupt(format!("byte {offset} is not what was written"))),
            None => Ok(bytes),
        }
    }

    async fn collect(&mut self, limit: usize) -> Result<Vec<u8>, Failure> {
        let mut out = Vec::new();
        while let Some(piece) = self.next().await? {
            let room = limit.saturating_sub(out.len());
            out.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        Ok(out)
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let piece = self.connection.next_piece(self.body).await;
        piece.map_err(|error| broken(&error, self.timings))
    }
}

/// The checksum of the whole object that an answer carries; one that is composed of its parts' checksums says nothing about the content
/// as it streams.
fn kept_checksum(head: &http::response::Parts) -> Option<(Algorithm, String)> {
    let text = |name: &str| head.headers.get(name).and_then(|v| v.to_str().ok());
    if text("x-amz-checksum-type").is_some_and(|kind| kind.eq_ignore_ascii_case("COMPOSITE")) {
        return None;
    }
    let kept = Algorithm::ALL.into_iter().find_map(|a| Some((a, text(a.header())?.to_string())));
    // Before there were types, a composite checksum was marked by its number of parts.
    kept.filter(|(_, value)| !value.contains('-'))
}

/// What a bodiless answer (to HEAD) means, in S3's words.
fn implied_code(status: u16) -> &'static str {
    match status {
        403 => "AccessDenied",
        404 => "NotFound",
        503 => "SlowDown",
        _ => "",
    }
}
