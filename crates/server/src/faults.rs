//! The handler of `plimsoll serve --inject`: delays, damages and refuses answers as [`super::inject`] decides.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::{Request, StatusCode};
use hyper::body::Incoming;

use super::Shared;
use super::error::{ApiError, ErrorCode};
use super::handler::{Exchange, Handler};
use super::header_case::LowerCase;
use super::inject::{Fault, Injector};
use super::response::{ResponseBody, ServerResponse};
use super::service::ObjectService;
use super::timestamps::ConnectionTimestamps;
use plimsoll_base::clock::{Timer, now_ns};

/// Handler that executes requests on a service, and injects faults.
pub struct Faulty<S> {
    /// Service that executes the requests.
    pub service: Arc<S>,
    /// Faults to inject; `None` for none.
    pub injector: Option<Injector>,
}

impl<S: ObjectService> Handler for Faulty<S> {
    fn needs_times(&self) -> bool {
        self.injector.is_some()
    }

    async fn handle(
        &self,
        shared: &Arc<Shared>,
        stamps: &ConnectionTimestamps,
        request: Request<Incoming>,
    ) -> io::Result<ServerResponse> {
        let mut exchange = Exchange::begin(shared, stamps, request);
        let plan = self.injector.as_ref().map(|injector| injector.plan(exchange.received_ns));
        let fault = plan.map_or(Fault::None, |plan| plan.fault);
        let mut answer = match fault {
            Fault::SlowDown => exchange.refuse(ApiError::new(ErrorCode::SlowDown)).await,
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
