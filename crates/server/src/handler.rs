//! Handles one request from arrival to response: verifies it, executes it and injects faults.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Version};
use hyper::body::{Body, Incoming};

use super::Shared;
use super::access_log::{Entry, TAG_HEADER};
use super::accounts::{Accounts, Rights};
use super::body::{BodyReader, discard};
use super::error::ApiError;
use super::express::Session;
use super::features::Features;
use super::inject::{Fault, Plan};
use super::observer::FinishedRequest;
use super::ops::{Call, cors, dispatch, post};
use super::payload::Payload;
use super::response::{ServerResponse, set};
use super::route::{Operation, Route};
use super::service::ObjectService;
use super::timestamps::ConnectionTimestamps;
use super::{accepts, accounts, auth, express, route};
use plimsoll_base::clock::{Timer, now_ns, wall_now};
use plimsoll_s3::sign::EMPTY_SHA256;

thread_local! {
    /// Timers of this thread that are free for reuse.
    static TIMERS: RefCell<Vec<Timer>> = const { RefCell::new(Vec::new()) };
}

async fn wait_until(at_ns: u64) -> io::Result<()> {
    if now_ns() >= at_ns {
        return Ok(());
    }
    let mut timer = match TIMERS.with_borrow_mut(Vec::pop) {
        Some(timer) => timer,
        None => Timer::new()?,
    };
    timer.until(at_ns).await?;
    TIMERS.with_borrow_mut(|timers| timers.push(timer));
    Ok(())
}

/// Facts about a request that are known only during its execution.
#[derive(Default)]
struct Progress {
    operation: Cell<Option<Operation>>,
    access_key: RefCell<String>,
    bucket: RefCell<String>,
    bytes_in: Cell<u64>,
}

/// Handles one request, including its observers and its access log entry.
///
/// # Errors
/// Returns an error to make hyper break the connection: for an injected reset, or if a timer fails.
pub async fn handle<S: ObjectService>(
    shared: &Arc<Shared>,
    service: &S,
    stamps: &ConnectionTimestamps,
    request: Request<Incoming>,
) -> io::Result<ServerResponse> {
    stamps.head_complete();
    let received_ns = stamps.received_ns();
    let plan = shared.injector.as_ref().map(|injector| injector.plan(received_ns));
    let (mut parts, mut incoming) = request.into_parts();
    if incoming.is_end_stream() && expects_continue(&parts) {
        stamps.send_continue();
    }
    let request_id = shared.request_id();
    let progress = Progress::default();
    let result = process(shared, service, stamps, &mut parts, &mut incoming, plan, &progress).await;
    let mut answer = match result {
        Ok(answer) => answer,
        Err(e) => e.response(parts.uri.path(), &request_id, parts.method != Method::HEAD),
    };
    if parts.headers.contains_key("origin") && parts.method != Method::OPTIONS {
        cors::grant(service, &parts, answer.headers_mut()).await;
    }
    set(answer.headers_mut(), "x-amz-request-id", &request_id);
    answer.headers_mut().insert("server", HeaderValue::from_static("plimsoll"));
    if let Some(plan) = plan {
        match plan.fault {
            Fault::Truncate => answer.body_mut().truncate(),
            Fault::Corrupt(at) => answer.body_mut().corrupt(at),
            Fault::Reset => stamps.break_connection(),
            Fault::None | Fault::SlowDown => {}
        }
        wait_until(plan.answer_at_ns).await?;
    }
    if !shared.observers.is_empty() {
        let finished = FinishedRequest {
            id: &request_id,
            operation: progress.operation.get(),
            method: &parts.method,
            path: parts.uri.path(),
            access_key: &progress.access_key.borrow(),
            bucket: &progress.bucket.borrow(),
            status: answer.status().as_u16(),
            bytes_in: progress.bytes_in.get(),
            bytes_out: answer.body().size(),
            duration_ns: now_ns().saturating_sub(received_ns),
        };
        shared.observers.iter().for_each(|observer| observer.finished(&finished));
    }
    let entry = shared.access_log.as_ref().map(|_| Entry {
        tag: parts.headers.get(TAG_HEADER).and_then(|v| v.to_str().ok()).unwrap_or("").to_string(),
        method: parts.method.to_string(),
        status: answer.status().as_u16(),
        received_ns,
        last_byte_ns: 0,
        bytes: answer.body().size().max(progress.bytes_in.get()),
    });
    stamps.answered(entry);
    if plan.is_some_and(|p| p.fault == Fault::Reset) {
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    Ok(answer)
}

/// Returns true if the client waits for `100 Continue` before it sends the body.
fn expects_continue(parts: &Parts) -> bool {
    let expects = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    parts.version == Version::HTTP_11 && parts.headers.get("expect").is_some_and(expects)
}

/// Returns true if a request has no signature, and the service may allow it nevertheless. Browsers send preflight
/// requests without the signature of the request that will follow.
fn is_anonymous(parts: &Parts, features: &Features) -> bool {
    if parts.method == Method::OPTIONS {
        return features.bucket_configuration;
    }
    features.acls
        && !parts.headers.contains_key("authorization")
        && !auth::presigns(parts.uri.query().unwrap_or(""))
}

async fn process<S: ObjectService>(
    shared: &Shared,
    service: &S,
    stamps: &ConnectionTimestamps,
    parts: &mut Parts,
    incoming: &mut Incoming,
    plan: Option<Plan>,
    progress: &Progress,
) -> Result<ServerResponse, ApiError> {
    let now_s = wall_now().as_second();
    let accounts = shared.accounts();
    let mut session = None;
    let mut account = None;
    let mut client = String::new();
    let payload = if is_anonymous(parts, &service.features()) {
        auth::unsigned_payload(parts)?
    } else {
        let key = auth::access_key(parts);
        account = accounts.find(key.as_deref().unwrap_or(&accounts.owner));
        if account.is_none() {
            session = key.as_deref().and_then(|key| shared.sessions.find(key));
            account = accounts.find(&accounts.owner);
        }
        let owner = account.ok_or_else(|| ApiError::new("AccessDenied"))?;
        let by = session.as_ref().map_or(&owner.credentials, |s| &s.credentials);
        let payload = auth::verify(parts, by, now_s)?;
        client = key.unwrap_or_default();
        if !shared.observers.is_empty() {
            progress.access_key.borrow_mut().clone_from(&client);
        }
        payload
    };
    stamps.registered.reads_body();
    let rights = account.map_or(accounts.anonymous(), |account| &account.rights);
    let result = async {
        let route = permitted(service, &accounts, rights, &client, session.as_deref(), parts).await?;
        progress.operation.set(Some(route.operation));
        if !shared.observers.is_empty() {
            progress.bucket.borrow_mut().clone_from(&route.bucket);
        }
        let slow_down = plan.is_some_and(|p| p.fault == Fault::SlowDown);
        let call = Call {
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
        };
        execute(call, stamps, incoming, payload, slow_down).await
    };
    let result = result.await;
    if result.is_err() && !incoming.is_end_stream() {
        discard(parts, incoming).await;
    }
    stamps.registered.works();
    result
}

/// Reads the body of a verified request, unless the service reads it as a stream, and executes the operation.
async fn execute<S: ObjectService>(
    mut call: Call<'_, S>,
    stamps: &ConnectionTimestamps,
    incoming: &mut Incoming,
    payload: Payload,
    slow_down: bool,
) -> Result<ServerResponse, ApiError> {
    let (shared, operation) = (call.shared, call.route.operation);
    if operation == Operation::PostObject {
        return post::object(&call, incoming).await;
    }
    // Most requests have no body; nothing in them needs a reader.
    if !operation.has_content() && incoming.is_end_stream() && is_empty(&payload) && !slow_down {
        stamps.registered.works();
        return dispatch(&call, None).await;
    }
    let max_body = shared.settings.max_body;
    let mut body =
        BodyReader::new(call.parts, incoming, payload, operation, max_body)?.watched(&stamps.registered);
    if slow_down {
        while body.next().await?.is_some() {}
        return Err(ApiError::new("SlowDown"));
    }
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
) -> Result<Route, ApiError> {
    let route = route::route(parts)?;
    let features = service.features();
    match session {
        Some(session) => session.allows(parts, &route)?,
        None if features.directory_buckets => express::without_session(&route)?,
        None => {}
    }
    accepts::hoist(parts, &route)?;
    // The signature of a form is in its fields.
    if session.is_none() && route.operation != Operation::PostObject {
        accounts::check(service, rights, client, &route).await?;
    }
    accepts::check(parts, &route, &accounts.owner, &features)?;
    if features.directory_buckets {
        express::check(parts, &route)?;
    }
    Ok(route)
}
