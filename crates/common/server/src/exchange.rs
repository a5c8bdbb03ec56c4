//! One request from arrival to response: it is verified, and executed on a service or passed on.

use std::cell::{Cell, RefCell};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, EXPECT, ORIGIN, SERVER, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderValue, Version};
use http::{Method, Request};
use hyper::body::Body;
use hyper::body::Incoming;

use super::ServerState;
use super::accounts::{Accounts, Rights};
use super::body::{BodyReader, discard};
use super::error::{ApiError, ErrorCode};
use super::express::Session;
use super::features::Features;
use super::forward::{Forward, VerifiedRequest};
use super::incoming::frame;
use super::names::AMZ_REQUEST_ID;
use super::observer::FinishedRequest;
use super::ops::{VerifiedCall, cors, dispatch, post};
use super::payload::Payload;
use super::query::Pair;
use super::request_kind::RequestKind;
use super::response::ServerResponse;
use super::route::{ApiOperation, Route};
use super::service::ObjectService;
use super::timestamps::ConnectionTimestamps;
use super::timing_log::{TAG_HEADER, TimingEntry};
use super::{accepts, accounts, auth, express, response, route};
use plimsoll_base::clock::{now_ns, wall_now};
use plimsoll_base::net::encode::parse_query;
use plimsoll_s3::sign::EMPTY_SHA256;

/// Message about a request whose end is ambiguous.
const TWO_LENGTHS: &str = "A request has Transfer-Encoding or Content-Length, not both";

/// Facts about a request that are known only during its execution.
#[derive(Default)]
struct Progress {
    operation: Cell<Option<ApiOperation>>,
    access_key: RefCell<String>,
    bucket: RefCell<String>,
    key: RefCell<String>,
    bytes_in: Cell<u64>,
    copied: Cell<Option<u64>>,
}

impl Progress {
    /// Records the operation of a request and, for observers, its bucket and key.
    fn routed(&self, shared: &ServerState, route: &Route) {
        self.operation.set(Some(route.operation));
        if !shared.observers.is_empty() {
            self.bucket.borrow_mut().clone_from(&route.bucket);
            self.key.borrow_mut().clone_from(&route.key);
        }
    }
}

/// A request and what is known about it.
pub struct Exchange {
    parts: Parts,
    incoming: Incoming,
    id: String,
    progress: Progress,
    /// Arrival time of the first byte in nanoseconds on the monotonic clock; 0 if no timestamps are taken.
    pub received_ns: u64,
}

impl Exchange {
    /// Accepts a request whose head is complete.
    pub fn begin(
        shared: &ServerState,
        stamps: &ConnectionTimestamps,
        request: Request<Incoming>,
    ) -> Exchange {
        stamps.head_complete();
        let received_ns = stamps.received_ns();
        let (parts, incoming) = request.into_parts();
        if incoming.is_end_stream() && expects_continue(&parts) {
            stamps.send_continue();
        }
        Exchange { parts, incoming, id: shared.request_id(), progress: Progress::default(), received_ns }
    }

    /// Returns the method and the path of the request.
    pub fn target(&self) -> (&Method, &str) {
        (&self.parts.method, self.parts.uri.path())
    }

    /// Returns the kind of the request by its time; `None` for requests about buckets.
    pub fn kind(&self) -> Option<RequestKind> {
        RequestKind::of(&self.parts.method, self.parts.uri.path(), &self.parts.headers)
    }

    /// Returns the length of the request's body as its header declares it; 0 without one.
    pub fn declared_size(&self) -> u64 {
        let length = self.parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        length.and_then(|length| length.parse().ok()).unwrap_or(0)
    }

    /// Executes the request on a service.
    pub async fn execute<S: ObjectService>(
        &mut self,
        shared: &ServerState,
        service: &S,
        stamps: &ConnectionTimestamps,
    ) -> ServerResponse {
        let Exchange { parts, incoming, progress, .. } = self;
        let answer = process(shared, service, stamps, parts, incoming, progress).await;
        let answer =
            answer.and_then(|mut answer| answer.body_mut().reserve(&shared.documents).map(|()| answer));
        let mut answer = self.answer_of(answer);
        if self.parts.headers.contains_key(ORIGIN) && self.parts.method != Method::OPTIONS {
            cors::grant(service, &self.parts, answer.headers_mut()).await;
        }
        self.identify(&mut answer);
        self.close_if_unread(stamps, &mut answer);
        answer
    }

    /// Verifies the request and its body, and passes it on.
    pub async fn forward<F: Forward>(
        &mut self,
        shared: &ServerState,
        to: &F,
        stamps: &ConnectionTimestamps,
    ) -> ServerResponse {
        let Exchange { parts, incoming, progress, .. } = self;
        let answer = pass_on(shared, to, stamps, parts, incoming, progress).await;
        let is_foreign = answer.is_ok();
        let mut answer = self.answer_of(answer);
        if !is_foreign {
            self.identify(&mut answer);
        }
        self.close_if_unread(stamps, &mut answer);
        answer
    }

    /// Returns the response to the request; for an error, with its description.
    fn answer_of(&self, answer: Result<ServerResponse, ApiError>) -> ServerResponse {
        answer.unwrap_or_else(|error| {
            response::of_error(&error, self.parts.uri.path(), &self.id, self.parts.method != Method::HEAD)
        })
    }

    /// Closes the connection if the client may send the body or not, or if it is unknown where the next request
    /// begins.
    fn close_if_unread(&self, stamps: &ConnectionTimestamps, answer: &mut ServerResponse) {
        let is_unread = !self.incoming.is_end_stream() && expects_continue(&self.parts);
        if is_unread || is_ambiguous(&self.parts, stamps) {
            answer.headers_mut().insert("connection", HeaderValue::from_static("close"));
        }
    }

    /// Drops the body of the request, and answers with an error.
    pub async fn refuse(&mut self, error: ApiError) -> ServerResponse {
        if !expects_continue(&self.parts) {
            while let Some(Ok(_)) = frame(&mut self.incoming).await {}
        }
        let mut answer = self.answer_of(Err(error));
        self.identify(&mut answer);
        answer
    }

    fn identify(&self, answer: &mut ServerResponse) {
        if let Ok(id) = HeaderValue::from_str(&self.id) {
            answer.headers_mut().insert(&AMZ_REQUEST_ID, id);
        }
        answer.headers_mut().insert(SERVER, HeaderValue::from_static("plimsoll"));
    }

    /// Tells the observers and the timing log about the answer, which is about to be sent.
    pub fn finish(&self, shared: &ServerState, stamps: &ConnectionTimestamps, answer: &ServerResponse) {
        let Exchange { parts, progress, received_ns, .. } = self;
        if !shared.observers.is_empty() {
            let finished = FinishedRequest {
                id: &self.id,
                operation: progress.operation.get(),
                peer: stamps.peer,
                forwarded_for: &forwarded_for(parts),
                method: &parts.method,
                path: parts.uri.path(),
                query: parts.uri.query().unwrap_or(""),
                access_key: &progress.access_key.borrow(),
                bucket: &progress.bucket.borrow(),
                key: &progress.key.borrow(),
                status: answer.status().as_u16(),
                bytes_in: progress.bytes_in.get(),
                copied: progress.copied.get(),
                bytes_out: answer.body().size(),
                content_range: answer.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok()),
                duration_ns: now_ns().saturating_sub(*received_ns),
            };
            shared.observers.iter().for_each(|observer| observer.finished(&finished));
        }
        let entry = shared.timing_log.as_ref().map(|_| TimingEntry {
            tag: parts.headers.get(TAG_HEADER).and_then(|v| v.to_str().ok()).unwrap_or("").to_string(),
            method: parts.method.to_string(),
            status: answer.status().as_u16(),
            received_ns: *received_ns,
            last_byte_ns: 0,
            bytes: answer.body().size().max(progress.bytes_in.get()),
        });
        stamps.answered(entry);
    }
}

/// Returns the values of all `X-Forwarded-For` headers of a request, in their order. A proxy may add another header.
fn forwarded_for(parts: &Parts) -> String {
    let lines = parts.headers.get_all("x-forwarded-for").iter();
    lines.filter_map(|line| line.to_str().ok()).collect::<Vec<_>>().join(",")
}

/// Returns true if the length of the body of a request may be declared twice.
fn is_ambiguous(parts: &Parts, stamps: &ConnectionTimestamps) -> bool {
    parts.headers.contains_key(TRANSFER_ENCODING) && stamps.may_have_length()
}

/// Returns true if the client waits for `100 Continue` before it sends the body.
fn expects_continue(parts: &Parts) -> bool {
    let expects = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    parts.version == Version::HTTP_11 && parts.headers.get(EXPECT).is_some_and(expects)
}

/// Returns true if a request has no signature, and the service may allow it nevertheless. Browsers send preflight
/// requests without the signature of the request that will follow.
fn is_anonymous(parts: &Parts, query: Option<&[Pair]>, features: &Features) -> bool {
    if parts.method == Method::OPTIONS {
        return features.bucket_configuration;
    }
    features.acls && !parts.headers.contains_key(AUTHORIZATION) && !auth::presigns(query)
}

async fn process<S: ObjectService>(
    shared: &ServerState,
    service: &S,
    stamps: &ConnectionTimestamps,
    parts: &mut Parts,
    incoming: &mut Incoming,
    progress: &Progress,
) -> Result<ServerResponse, ApiError> {
    if is_ambiguous(parts, stamps) {
        return Err(ApiError::with(ErrorCode::InvalidRequest, TWO_LENGTHS));
    }
    let now_s = wall_now().as_second();
    let accounts = shared.accounts();
    let mut session = None;
    let mut account = None;
    let mut client = String::new();
    let query = parse_query(parts.uri.query().unwrap_or(""));
    let payload = if is_anonymous(parts, query.as_deref(), &service.features()) {
        auth::unsigned_payload(parts)?
    } else {
        let key = auth::access_key(parts, query.as_deref());
        account = accounts.find(key.as_deref().unwrap_or(&accounts.owner));
        if account.is_none() {
            session = key.as_deref().and_then(|key| shared.sessions.find(key));
            account = accounts.find(&accounts.owner);
        }
        let owner = account.ok_or_else(|| ApiError::new(ErrorCode::AccessDenied))?;
        let by = session.as_ref().map_or(&owner.credentials, |s| &s.credentials);
        let payload = auth::verify(parts, query.as_deref(), by, now_s)?;
        client = key.unwrap_or_default();
        if !shared.observers.is_empty() {
            progress.access_key.borrow_mut().clone_from(&client);
        }
        payload
    };
    let rights = account.map_or(accounts.anonymous(), |account| &account.rights);
    with_body(stamps, parts, incoming, async |parts, incoming| {
        let route = permitted(service, &accounts, rights, &client, session.as_deref(), parts, query).await?;
        progress.routed(shared, &route);
        let call = VerifiedCall {
            shared,
            service,
            parts,
            route: &route,
            accounts: &accounts,
            rights,
            client: &client,
            now_s,
            document: Bytes::new(),
            protected: false,
            bytes_in: &progress.bytes_in,
            copied: &progress.copied,
        };
        execute(call, stamps, incoming, payload).await
    })
    .await
}

/// Does what may read the body of a request, and reads the rest of the body if it fails: a client that still sends
/// would not see the answer.
async fn with_body(
    stamps: &ConnectionTimestamps,
    parts: &mut Parts,
    incoming: &mut Incoming,
    work: impl AsyncFnOnce(&mut Parts, &mut Incoming) -> Result<ServerResponse, ApiError>,
) -> Result<ServerResponse, ApiError> {
    stamps.registered.reads_body();
    let result = work(parts, incoming).await;
    if result.is_err() && !incoming.is_end_stream() {
        discard(parts, incoming).await;
    }
    stamps.registered.works();
    result
}

/// Verifies a request with its whole body, and passes it on.
async fn pass_on<F: Forward>(
    shared: &ServerState,
    to: &F,
    stamps: &ConnectionTimestamps,
    parts: &mut Parts,
    incoming: &mut Incoming,
    progress: &Progress,
) -> Result<ServerResponse, ApiError> {
    if is_ambiguous(parts, stamps) {
        return Err(ApiError::with(ErrorCode::InvalidRequest, TWO_LENGTHS));
    }
    let accounts = shared.accounts();
    let query = parse_query(parts.uri.query().unwrap_or(""));
    let account = auth::access_key(parts, query.as_deref()).and_then(|key| accounts.find(&key).cloned());
    let account = account.ok_or_else(|| ApiError::new(ErrorCode::InvalidAccessKeyId))?;
    let payload = auth::verify(parts, query.as_deref(), &account.credentials, wall_now().as_second())?;
    with_body(stamps, parts, incoming, async |parts, incoming| {
        let route = route::with_query(parts, query)?;
        if route::is_another(&route) {
            return Err(ApiError::with(ErrorCode::NotImplemented, "This operation is not passed on"));
        }
        progress.routed(shared, &route);
        accepts::hoist(parts, &route)?;
        let max_body = shared.settings.max_body;
        let mut reader =
            BodyReader::new(parts, incoming, payload, route.operation, max_body)?.watched(&stamps.registered);
        let body = reader.collect(&shared.memory).await?;
        let checksum = reader.finish()?.checksum;
        progress.bytes_in.set(reader.bytes());
        stamps.registered.works();
        to.forward(VerifiedRequest { parts, route: &route, body, checksum }).await
    })
    .await
}

/// Reads the body of a verified request, unless the service reads it as a stream, and executes the operation.
async fn execute<S: ObjectService>(
    mut call: VerifiedCall<'_, S>,
    stamps: &ConnectionTimestamps,
    incoming: &mut Incoming,
    payload: Payload,
) -> Result<ServerResponse, ApiError> {
    let (shared, operation) = (call.shared, call.route.operation);
    if operation == ApiOperation::PostObject {
        return post::object(&call, incoming).await;
    }
    // Most requests have no body; nothing in them needs a reader.
    if !operation.has_content() && incoming.is_end_stream() && is_empty(&payload) {
        stamps.registered.works();
        return dispatch(&call, None).await;
    }
    let max_body = shared.settings.max_body;
    let mut body =
        BodyReader::new(call.parts, incoming, payload, operation, max_body)?.watched(&stamps.registered);
    let result = if operation.has_content() {
        dispatch(&call, Some(&mut body)).await
    } else {
        call.document = body.collect(&shared.memory).await?;
        call.protected = body.is_protected();
        body.finish()?;
        dispatch(&call, None).await
    };
    call.bytes_in.set(body.bytes());
    result
}

fn is_empty(payload: &Payload) -> bool {
    match payload {
        Payload::Unsigned => true,
        Payload::Sha256(hash) => hash == EMPTY_SHA256,
        Payload::Chunked(_) => false,
    }
}

/// Determines the operation of a verified request and checks that it is permitted and implemented as requested.
async fn permitted<S: ObjectService>(
    service: &S,
    accounts: &Accounts,
    rights: &Rights,
    client: &str,
    session: Option<&Session>,
    parts: &mut Parts,
    query: Option<Vec<Pair>>,
) -> Result<Route, ApiError> {
    let route = route::with_query(parts, query)?;
    let features = service.features().in_bucket(&route.bucket);
    match session {
        Some(session) => session.allows(parts, &route)?,
        None if features.directory_buckets => express::without_session(&route)?,
        None => {}
    }
    accepts::hoist(parts, &route)?;
    // The signature of a form is in its fields.
    if session.is_none() && route.operation != ApiOperation::PostObject {
        accounts::check(service, rights, client, &route).await?;
    }
    accepts::check(parts, &route, &accounts.owner, &features)?;
    if features.directory_buckets {
        express::check(parts, &route)?;
    }
    Ok(route)
}
