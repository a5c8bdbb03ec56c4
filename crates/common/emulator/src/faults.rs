//! The handler of `plimsoll serve --inject`: delays, damages and refuses answers as [`crate::inject`] decides.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::{Request, StatusCode};
use hyper::body::Incoming;

use crate::inject::{Fault, Injector, Spec};
use crate::twin::model::Failure;
use crate::twin::{InFlight, Twin};
use plimsoll_base::clock::{SECOND, Timer, now_ns};
use plimsoll_server::ServerState;
use plimsoll_server::connection_limit::ConnectionLimit;
use plimsoll_server::error::{ApiError, ErrorCode};
use plimsoll_server::exchange::Exchange;
use plimsoll_server::handler::Handler;
use plimsoll_server::header_case::LowerCase;
use plimsoll_server::response::{ResponseBody, ServerResponse};
use plimsoll_server::service::ObjectService;
use plimsoll_server::timestamps::ConnectionTimestamps;

/// Handler that executes requests on a service, injects faults, and answers at the times of a measured store.
pub struct Faulty<S> {
    /// Service that executes the requests.
    service: Arc<S>,
    /// Faults to inject; `None` for none.
    injector: Option<Injector>,
    /// Twin of a measured store; `None` for none.
    twin: Option<Twin>,
    /// Limit of the connections; `None` for none.
    connections: Option<ConnectionLimit>,
}

impl<S> Faulty<S> {
    /// Returns the handler of a service.
    pub fn new(service: Arc<S>, inject: Option<Spec>, twin: Option<Twin>) -> Faulty<S> {
        let most = inject.as_ref().and_then(|spec| spec.connections);
        let injector = inject.map(Injector::new);
        Faulty { service, injector, twin, connections: most.map(ConnectionLimit::new) }
    }
}

/// Time after which a request without an answer ends, if the client still waits, in nanoseconds.
const SILENCE_NS: u64 = 600 * SECOND;
/// Size of a body in bytes from which on its pieces are sent in the time that the measured store took.
const PACED_BYTES: u64 = 128 * 1024;
/// Size in bytes of the slices of such a body.
const PACED_SLICE: usize = 64 * 1024;

impl<S: ObjectService> Handler for Faulty<S> {
    fn needs_times(&self) -> bool {
        self.injector.is_some() || self.twin.is_some()
    }

    async fn handle(
        &self,
        shared: &Arc<ServerState>,
        stamps: &ConnectionTimestamps,
        request: Request<Incoming>,
    ) -> io::Result<ServerResponse> {
        if self.connections.as_ref().is_some_and(|limit| !stamps.is_within(limit)) {
            stamps.break_connection();
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let mut exchange = Exchange::begin(shared, stamps, request);
        let twin = self.twin.as_ref().and_then(|twin| Some((twin, exchange.kind()?)));
        let begun = twin.map(|(twin, kind)| {
            (twin, twin.begin(kind, exchange.declared_size(), exchange.received_ns, now_ns()))
        });
        let plan = self.injector.as_ref().map(|injector| injector.plan(exchange.received_ns));
        let failure = begun.as_ref().and_then(|(_, (draw, _))| draw.failure.clone());
        let fault = match (&failure, plan) {
            (Some(Failure::Reset), _) => Fault::Reset,
            (Some(Failure::Corrupt), _) => Fault::Corrupt(0),
            (_, plan) => plan.map_or(Fault::None, |plan| plan.fault),
        };
        let mut answer = match (&failure, fault) {
            (Some(Failure::Response(code)), _) => exchange.refuse(ApiError::new(*code)).await,
            (_, Fault::SlowDown) => exchange.refuse(ApiError::new(ErrorCode::SlowDown)).await,
            _ => exchange.execute(shared, &*self.service, stamps).await,
        };
        match fault {
            Fault::Truncate => answer = answer.map(truncated),
            Fault::Corrupt(at) => answer = answer.map(|body| corrupted(body, at)),
            Fault::WrongRange if answer.status() == StatusCode::PARTIAL_CONTENT => answer = answer.map(late),
            Fault::LowercaseHeaders => {
                answer.extensions_mut().insert(LowerCase);
            }
            Fault::Reset => stamps.break_connection(),
            Fault::None | Fault::SlowDown | Fault::WrongRange => {}
        }
        if let (Some(plan), Some(injector)) = (plan, &self.injector) {
            let (method, path) = exchange.target();
            let size = answer.body().size();
            let miss_ns = if answer.status().is_success() { injector.miss_ns(method, path, size) } else { 0 };
            wait_until(plan.answer_at_ns + miss_ns).await?;
        }
        if let Some((twin, (draw, in_flight))) = begun {
            if failure == Some(Failure::Silence) {
                wait_until(exchange.received_ns + SILENCE_NS).await?;
                return Err(io::ErrorKind::TimedOut.into());
            }
            let size = answer.body().size();
            let times = twin.times(&draw, size.max(exchange.declared_size()));
            let [first_ns, last_ns] = [times.first_ns, times.last_ns].map(|ns| exchange.received_ns + ns);
            if size >= PACED_BYTES && first_ns < last_ns {
                wait_until(first_ns).await?;
                answer = answer.map(|body| paced(body, first_ns, last_ns, in_flight));
            } else {
                wait_until(last_ns).await?;
            }
        }
        exchange.finish(shared, stamps, &answer);
        if fault == Fault::Reset { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(answer) }
    }
}

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

/// Returns the pieces of a body with the offset of each.
fn placed(body: ResponseBody) -> impl Stream<Item = io::Result<(u64, Bytes)>> {
    let mut at = 0;
    body.into_stream().map(move |piece| {
        let piece = piece?;
        at += piece.len() as u64;
        Ok((at - piece.len() as u64, piece))
    })
}

/// Sends a body at a constant rate between two times on the monotonic clock. The request is in flight until its end.
fn paced(body: ResponseBody, from_ns: u64, to_ns: u64, in_flight: InFlight) -> ResponseBody {
    let size = body.size();
    let slices = placed(body).flat_map(|piece| {
        let slices: Vec<io::Result<(u64, Bytes)>> = match piece {
            Err(error) => vec![Err(error)],
            Ok((at, piece)) => {
                let starts = (0..piece.len()).step_by(PACED_SLICE);
                let slice = |from: usize| piece.slice(from..piece.len().min(from + PACED_SLICE));
                starts.map(|from| Ok((at + from as u64, slice(from)))).collect()
            }
        };
        stream::iter(slices)
    });
    let pieces = slices.then(move |slice| {
        let _in_flight = &in_flight;
        async move {
            let (at, slice) = slice?;
            let sent = (at + slice.len() as u64) as f64 / size as f64;
            wait_until(from_ns + ((to_ns - from_ns) as f64 * sent) as u64).await?;
            Ok(slice)
        }
    });
    ResponseBody::of_stream(Box::pin(pieces), size)
}

/// Truncates a body: it announces its full length, sends half of it and then aborts the connection.
fn truncated(body: ResponseBody) -> ResponseBody {
    let (size, end) = (body.size(), body.size() / 2);
    if size == 0 {
        return body;
    }
    let half = placed(body)
        .take_while(move |piece| std::future::ready(piece.as_ref().map_or(true, |(at, _)| *at < end)));
    let half = half.map(move |piece| {
        let (at, piece) = piece?;
        Ok(piece.slice(..usize::try_from(end - at).unwrap_or(usize::MAX).min(piece.len())))
    });
    // hyper writes the pieces before the abort only if it is polled once more.
    let mut flushed = false;
    let abort = stream::poll_fn(move |cx| {
        if !flushed {
            flushed = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())))
    });
    ResponseBody::of_stream(Box::pin(half.chain(abort)), size)
}

/// Moves the bytes of a body by one position: the first is left out, and a zero added at the end.
fn late(body: ResponseBody) -> ResponseBody {
    let size = body.size();
    if size == 0 {
        return body;
    }
    let pieces = placed(body).map(|piece| {
        let (at, piece) = piece?;
        Ok(if at == 0 { piece.slice(1..) } else { piece })
    });
    let end = stream::iter([Ok(Bytes::from_static(&[0]))]);
    ResponseBody::of_stream(Box::pin(pieces.chain(end)), size)
}

/// Changes the byte of a body at offset `at` modulo its length.
fn corrupted(body: ResponseBody, at: u64) -> ResponseBody {
    let size = body.size();
    let Some(wrong) = at.checked_rem(size) else { return body };
    let pieces = placed(body).map(move |piece| {
        let (at, piece) = piece?;
        if !(at..at + piece.len() as u64).contains(&wrong) {
            return Ok(piece);
        }
        let mut changed = piece.to_vec();
        changed[(wrong - at) as usize] ^= 0x55;
        Ok(Bytes::from(changed))
    });
    ResponseBody::of_stream(Box::pin(pieces), size)
}
