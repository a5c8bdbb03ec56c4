//! Passes requests on to a store: the verified requests of a client, signed again with the credentials of the store.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode};

use plimsoll_base::clock::now_ns;
use plimsoll_base::net::client_limits::timeout;
use plimsoll_base::net::encode::{decode, hex};
use plimsoll_base::net::http1::outgoing::Payload;
use plimsoll_engine::store::http::{
    Answer, Destination, HttpTransport, OpenError, Prepared, Sending, Unsent, target_of,
};
use plimsoll_engine::store::{Failure, Timings};
use plimsoll_s3::credentials::CredentialSource;
use plimsoll_s3::sign::{EMPTY_SHA256, Signer, UNSIGNED_PAYLOAD, canonical_query, sha256};
use plimsoll_s3::url::StoreUrl;
use plimsoll_s3::url::s3::{PayloadSigning, S3Url};
use plimsoll_server::error::{ApiError, ErrorCode};
use plimsoll_server::forward::{Forward, VerifiedRequest};
use plimsoll_server::response::{ResponseBody, ServerResponse};
use plimsoll_server::route::ApiOperation;
use plimsoll_session::RunError;
use plimsoll_session::open::Opened;

/// Headers of a request that belong to the connection or the signature, and are made anew.
const OWN: [&str; 13] = [
    "host",
    "authorization",
    "connection",
    "content-length",
    "transfer-encoding",
    "expect",
    "te",
    "upgrade",
    "x-amz-date",
    "x-amz-content-sha256",
    "x-amz-security-token",
    "x-amz-decoded-content-length",
    "x-amz-trailer",
];
/// Headers of a response that belong to the connection.
const OF_CONNECTION: [&str; 4] = ["connection", "transfer-encoding", "keep-alive", "content-length"];
/// Maximum size in bytes of a response of unknown length, such as a listing.
const MAX_UNANNOUNCED: usize = 64 << 20;
/// Slowest rate of an upload to the store, in bytes per second.
const SLOWEST_BYTES_PER_S: u64 = 16 * 1024;
/// Size in bytes up to which a response is read before its head is passed on.
const SHORT: u64 = 64 * 1024;

thread_local! {
    /// Idle transports of this thread, at most one for each connection of a client.
    static IDLE: RefCell<Vec<HttpTransport>> = const { RefCell::new(Vec::new()) };
}

/// First failure to get a response, in words.
type Failed = Arc<Mutex<Option<String>>>;

/// A bucket to which requests are passed on.
pub struct Upstream {
    url: S3Url,
    destination: Destination,
    credentials: Option<CredentialSource>,
    failure: Failed,
}

/// Returns true if a header is to be passed on.
fn is_passed(name: &HeaderName) -> bool {
    !OWN.contains(&name.as_str())
}

fn internal(problem: &impl std::fmt::Display) -> ApiError {
    ApiError::with(ErrorCode::InvalidRequest, problem.to_string())
}

impl Upstream {
    /// Takes the address and the credentials of an open store.
    ///
    /// # Errors
    /// [`RunError::Input`] for a store that is not a whole S3 bucket, [`RunError::Store`] if its host does not resolve.
    pub fn of(opened: &Opened) -> Result<Upstream, RunError> {
        match opened.store.prefix() {
            "" => Upstream::whole(opened),
            _ => Err(RunError::input(format!(
                "--upstream {}: the requests go to a whole bucket; omit the prefix",
                opened.written
            ))),
        }
    }

    /// Does the same as [`Upstream::of`] for the whole bucket of a store with a prefix.
    ///
    /// # Errors
    /// Returns the same errors as [`Upstream::of`].
    pub fn whole(opened: &Opened) -> Result<Upstream, RunError> {
        let Some(StoreUrl::S3(url)) = &opened.url else {
            return Err(RunError::input(format!(
                "--upstream {}: only an S3 store (s3://BUCKET) can receive the requests",
                opened.written
            )));
        };
        let refused = |why: &str| Err(RunError::input(format!("--upstream {}: {why}", opened.written)));
        if !url.others.is_empty() {
            return refused("the requests go to one endpoint; name only one in endpoint=");
        }
        if url.profile.sessions {
            return refused("a directory bucket needs sessions, which are not passed on");
        }
        let open = |e: OpenError| RunError::store(format!("--upstream: {e}"));
        let destination = target_of(&url.endpoint.host, url.endpoint.port, url.endpoint.tls, opened.route())
            .map_err(open)?;
        Ok(Upstream {
            url: (**url).clone(),
            destination,
            credentials: opened.credentials.clone(),
            failure: Failed::default(),
        })
    }

    /// Returns the name of the bucket.
    pub fn bucket(&self) -> &str {
        &self.url.endpoint.bucket
    }

    /// Returns the region of the bucket.
    pub fn region(&self) -> &str {
        &self.url.endpoint.region
    }

    /// Returns the first failure to get a response from the store; `None` if there was none.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn failed(&self, problem: String) -> ApiError {
        let error =
            ApiError::with(ErrorCode::ServiceUnavailable, format!("The store did not answer: {problem}"));
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(problem);
        error
    }

    /// Checks that a request concerns the bucket and nothing else.
    fn check(&self, request: &VerifiedRequest<'_>) -> Result<(), ApiError> {
        let denied = |what: &str| {
            let bucket = self.bucket();
            Err(ApiError::with(
                ErrorCode::AccessDenied,
                format!("{what}; requests go to the bucket {bucket} only"),
            ))
        };
        if request.route.operation == ApiOperation::CreateSession {
            return Err(ApiError::new(ErrorCode::NotImplemented));
        }
        if request.route.bucket != self.bucket() {
            return denied("This is another bucket");
        }
        let sources = request.parts.headers.get_all("x-amz-copy-source");
        let of_bucket = |source: &HeaderValue| {
            let source = std::str::from_utf8(source.as_bytes()).ok().and_then(|source| decode(source, true));
            source.is_some_and(|source| {
                let source = source.strip_prefix('/').unwrap_or(&source);
                source.split_once('/').is_some_and(|(bucket, _)| bucket == self.bucket())
            })
        };
        if sources.iter().count() > 1 || !sources.iter().all(of_bucket) {
            return denied("The source of the copy is in another bucket");
        }
        Ok(())
    }

    /// Builds and signs the request to the store.
    fn prepare(&self, request: &VerifiedRequest<'_>) -> Result<Prepared, ApiError> {
        let (url, body) = (&self.url, &request.body);
        let mut path = String::new();
        url.endpoint.path_into(&mut path, &request.route.key);
        // The parameters of a signature are made anew, and the server has moved the others to the headers.
        let signs = |name: &str| name.to_ascii_lowercase().starts_with("x-amz-");
        let query = canonical_query(request.route.query.iter().filter(|(name, _)| !signs(name)));
        let mut headers = HeaderMap::with_capacity(16);
        for (name, value) in request.parts.headers.iter().filter(|(name, _)| is_passed(name)) {
            headers.append(name, value.clone());
        }
        without_framing(&mut headers);
        let text = |value: &str| HeaderValue::from_str(value).map_err(|e| internal(&e));
        if let (Some((algorithm, value)), true) =
            (&request.checksum, request.parts.headers.contains_key("x-amz-trailer"))
        {
            headers.insert(HeaderName::from_static(algorithm.header()), text(value)?);
        }
        headers.insert(HOST, text(&url.endpoint.authority)?);
        if let Some(source) = &self.credentials {
            let hash = match url.payload {
                _ if body.is_empty() => EMPTY_SHA256.to_string(),
                PayloadSigning::Unsigned => UNSIGNED_PAYLOAD.to_string(),
                PayloadSigning::Signed => hex(&sha256(body)),
            };
            self.sign(&mut headers, &request.parts.method, &path, &query, &hash, source)?;
        }
        let is_upload = matches!(request.parts.method, Method::PUT | Method::POST);
        if body.is_empty() && is_upload {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let target = if query.is_empty() { path } else { format!("{path}?{query}") };
        let mut prepared = http::Request::new(match body.is_empty() {
            true => Payload::empty(),
            false => Payload::whole(body.clone()),
        });
        *prepared.method_mut() = request.parts.method.clone();
        *prepared.uri_mut() = http::Uri::try_from(target).map_err(|e| internal(&e))?;
        *prepared.headers_mut() = headers;
        Ok(prepared.into())
    }

    fn sign(
        &self,
        headers: &mut HeaderMap,
        method: &Method,
        path: &str,
        query: &str,
        hash: &str,
        source: &CredentialSource,
    ) -> Result<(), ApiError> {
        let text = |value: &str| HeaderValue::from_str(value).map_err(|e| internal(&e));
        let by = source.current();
        headers.insert("x-amz-content-sha256", text(hash)?);
        if let Some(token) = &by.session_token {
            headers.insert("x-amz-security-token", text(token)?);
        }
        // The lines of a header that occurs more than once are signed as one.
        let mut signed: Vec<(String, String)> = Vec::new();
        for name in headers.keys().filter(|name| is_signed(name)) {
            let lines =
                headers.get_all(name).iter().filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
            signed.push((name.to_string(), lines.collect::<Vec<_>>().join(",")));
        }
        signed.sort();
        let signed: Vec<(&str, &str)> =
            signed.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut signer = Signer::new(self.region(), "s3");
        let made = signer.sign(&by, method.as_str(), path, query, &signed, hash);
        headers.insert("x-amz-date", text(made.date_time)?);
        headers.insert("authorization", text(made.authorization)?);
        Ok(())
    }

    /// Sends a request, again on a new connection if the reused one was closed, and returns the head of the response.
    async fn send(
        &self,
        wire: &mut HttpTransport,
        request: &VerifiedRequest<'_>,
    ) -> Result<Answer, ApiError> {
        let now = now_ns();
        let mut timings = Timings { start_ns: now, ..Timings::default() };
        let idempotent = request.parts.method != Method::POST;
        let sending = Sending { bytes: request.body.len() as u64, idempotent };
        let failed = |failure: Failure| self.failed(failure.message);
        match wire.send(self.prepare(request)?, sending, &mut timings).await {
            Ok(answer) => Ok(answer),
            Err(Unsent::Failed(failure)) => Err(failed(failure)),
            Err(Unsent::ConnectionClosed) => {
                let again = self.prepare(request)?;
                wire.send_on_new_connection(again, sending, &mut timings).await.map_err(failed)
            }
        }
    }
}

/// Returns true if the signature covers a header.
fn is_signed(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.starts_with("x-amz-") || matches!(name, "host" | "content-type" | "content-md5" | "range")
}

/// Removes the framing of the client's body from `Content-Encoding`.
fn without_framing(headers: &mut HeaderMap) {
    let Some(encoding) = headers.get("content-encoding").and_then(|value| value.to_str().ok()) else {
        return;
    };
    let kept: Vec<&str> = encoding
        .split(',')
        .map(str::trim)
        .filter(|coding| !coding.eq_ignore_ascii_case("aws-chunked"))
        .collect();
    match (kept.is_empty(), HeaderValue::from_str(&kept.join(","))) {
        (false, Ok(value)) => headers.insert("content-encoding", value),
        _ => headers.remove("content-encoding"),
    };
}

/// Puts a transport back for the next request of this thread.
fn put_back(wire: HttpTransport) {
    IDLE.with_borrow_mut(|idle| idle.push(wire));
}

/// A response that is being passed on.
struct Passing {
    wire: HttpTransport,
    answer: Answer,
}

impl Passing {
    /// Returns the next piece of the body.
    async fn next(&mut self) -> std::io::Result<Option<Bytes>> {
        let next = self.answer.connection.next_piece();
        match tokio::time::timeout(timeout(), next).await {
            Ok(Ok(piece)) => Ok(piece.map(Bytes::copy_from_slice)),
            Ok(Err(error)) => Err(std::io::Error::other(error)),
            Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
        }
    }

    fn end(mut self) {
        self.wire.keep(self.answer);
        put_back(self.wire);
    }
}

/// Returns the length of a response body, if the head announces it.
fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reads a whole body of at most `limit` bytes.
async fn collect(mut passing: Passing, limit: usize) -> std::io::Result<Bytes> {
    let mut whole = Vec::new();
    while let Some(piece) = passing.next().await? {
        if whole.len() + piece.len() > limit {
            return Err(std::io::Error::other(format!("the response has more than {limit} bytes")));
        }
        whole.extend_from_slice(&piece);
    }
    passing.end();
    Ok(whole.into())
}

impl Forward for Upstream {
    async fn forward(&self, request: VerifiedRequest<'_>) -> Result<ServerResponse, ApiError> {
        self.check(&request)?;
        if let Some(source) = &self.credentials
            && source.renewal_due_in_s().is_some_and(|seconds| seconds <= 0)
        {
            source.renew().await.map_err(|e| self.failed(e.to_string()))?;
        }
        let idle = IDLE.with_borrow_mut(Vec::pop);
        let mut wire = idle.unwrap_or_else(|| HttpTransport::new(self.destination.clone(), 0));
        // A body takes time to be sent.
        let deadline = timeout() + Duration::from_secs(request.body.len() as u64 / SLOWEST_BYTES_PER_S);
        let late = |_| self.failed(format!("no response within {} s", deadline.as_secs()));
        let answer = tokio::time::timeout(deadline, self.send(&mut wire, &request)).await.map_err(late)??;
        let head = answer.head.parts();
        let status = head.status;
        if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
            let status = status.as_u16();
            let region = answer.head.text("x-amz-bucket-region");
            let region = region.map_or(String::new(), |region| format!("; its region is {region}"));
            return Err(
                self.failed(format!("it redirects with status {status}{region}; check the URL of the store"))
            );
        }
        let mut out = Response::new(ResponseBody::default());
        *out.status_mut() = status;
        for (name, value) in head.headers.iter().filter(|(name, _)| !OF_CONNECTION.contains(&name.as_str())) {
            out.headers_mut().append(name, value.clone());
        }
        let length = announced(&head.headers);
        let has_body = request.parts.method != Method::HEAD
            && !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
            && length != Some(0);
        let passing = Passing { wire, answer };
        let broken = |e: std::io::Error| self.failed(format!("the response broke: {e}"));
        match length {
            _ if !has_body => {
                if let (Some(length), &Method::HEAD) = (length, &request.parts.method) {
                    out.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
                }
                passing.end();
            }
            Some(length) if length > SHORT => {
                *out.body_mut() = ResponseBody::of_stream(pieces(passing, Arc::clone(&self.failure)), length)
            }
            length => {
                let limit = length.map_or(MAX_UNANNOUNCED, |length| length as usize);
                let body = collect(passing, limit).await.map_err(broken)?;
                *out.body_mut() = ResponseBody::new(vec![body]);
            }
        }
        Ok(out)
    }
}

/// Returns the body of a response as a stream.
fn pieces(passing: Passing, failure: Failed) -> plimsoll_server::response::PieceStream {
    Box::pin(stream::unfold((Some(passing), failure), async |(state, failure)| {
        let mut passing = state?;
        match passing.next().await {
            Ok(Some(piece)) => Some((Ok(piece), (Some(passing), failure))),
            Ok(None) => {
                passing.end();
                None
            }
            Err(error) => {
                let problem = format!("a response broke: {error}");
                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(problem);
                Some((Err(error), (None, failure)))
            }
        }
    }))
}
