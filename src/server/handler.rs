//! Handles one request from arrival to response: verifies it, executes it and injects faults.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, Method, Request, Version};
use hyper::body::{Body, Incoming};

use super::Shared;
use super::access_log::{Entry, TAG_HEADER};
use super::body::{collect, discard, verify};
use super::error::ApiError;
use super::express::Session;
use super::inject::{Fault, Plan};
use super::ops::{Call, dispatch};
use super::response::{ServerResponse, set};
use super::route::Route;
use super::timestamps::ConnectionTimestamps;
use super::{accepts, auth, express, route};
use crate::clock::{Timer, now_ns, wall_now};

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

/// Handles one request, including its metrics and its access log entry.
///
/// # Errors
/// Returns an error to make hyper break the connection: for an injected reset, or if a timer fails.
pub async fn handle(
    shared: &Arc<Shared>,
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
    let sent_bytes = std::cell::Cell::new(0);
    let result = process(shared, stamps, &mut parts, &mut incoming, plan, &sent_bytes).await;
    let mut answer = match result {
        Ok(answer) => answer,
        Err(e) => e.response(parts.uri.path(), &request_id, parts.method != Method::HEAD),
    };
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
    if let Some(metrics) = &shared.metrics {
        let bytes = answer.body().size().max(sent_bytes.get());
        metrics.count(&parts.method, answer.status().as_u16(), bytes, now_ns().saturating_sub(received_ns));
    }
    let entry = shared.access_log.as_ref().map(|_| Entry {
        tag: parts.headers.get(TAG_HEADER).and_then(|v| v.to_str().ok()).unwrap_or("").to_string(),
        method: parts.method.to_string(),
        status: answer.status().as_u16(),
        received_ns,
        last_byte_ns: 0,
        bytes: answer.body().size().max(sent_bytes.get()),
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

async fn process(
    shared: &Shared,
    stamps: &ConnectionTimestamps,
    parts: &mut Parts,
    incoming: &mut Incoming,
    plan: Option<Plan>,
    sent_bytes: &std::cell::Cell<u64>,
) -> Result<ServerResponse, ApiError> {
    let now_s = wall_now().as_second();
    let session = match auth::access_key(parts) {
        Some(key) if key != shared.credentials.access_key => shared.sessions.find(&key),
        _ => None,
    };
    let by = session.as_ref().map_or(&shared.credentials, |s| &s.credentials);
    let payload = auth::verify(parts, by, now_s)?;
    stamps.registered.reads_body();
    let received = async {
        let route = permitted(shared, session.as_deref(), parts)?;
        let memory = &shared.state.memory;
        let raw = collect(incoming, route.operation, shared.settings.max_body, memory).await?;
        if plan.is_some_and(|p| p.fault == Fault::SlowDown) {
            return Err(ApiError::new("SlowDown"));
        }
        let received = verify(parts, &route, payload, raw, memory)?;
        if received.data.len() as u64 > shared.settings.max_body {
            return Err(ApiError::new("EntityTooLarge"));
        }
        Ok((route, received))
    };
    let received = received.await;
    if received.is_err() {
        discard(parts, incoming).await;
    }
    stamps.registered.works();
    let (route, received) = received?;
    sent_bytes.set(received.data.len() as u64);
    dispatch(&Call { shared, parts, route: &route, received, now_s })
}

/// Determines the operation of a verified request and checks that it is permitted and implemented as requested.
fn permitted(shared: &Shared, session: Option<&Session>, parts: &mut Parts) -> Result<Route, ApiError> {
    let route = route::route(parts)?;
    match session {
        Some(session) => session.allows(parts, &route)?,
        None => express::without_session(&route)?,
    }
    accepts::hoist(parts, &route)?;
    accepts::check(parts, &route, &shared.credentials.access_key)?;
    express::check(parts, &route)?;
    Ok(route)
}
