//! A store wrapper that limits the rate of operations. It admits operations one at a time; the others wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::store::wrapped::pass_on;
use crate::store::{BodyChecksum, Connection, Failure, Local, Observer, Reply, Request, Store};
use plimsoll_base::clock::{SECOND, Timer, now_ns};
use plimsoll_recorder::ErrorClass;
use plimsoll_recorder::Timings;

/// A store with a limited rate of operations.
pub struct Throttled<S> {
    inner: S,
    interval_ns: u64,
    next_ns: Arc<AtomicU64>,
}

impl<S: Store> Throttled<S> {
    /// Wraps `inner` and admits one operation every `1 / per_s` seconds.
    pub fn new(inner: S, per_s: f64) -> Throttled<S> {
        Throttled { inner, interval_ns: (SECOND as f64 / per_s) as u64, next_ns: Arc::default() }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Throttled<S> {
    pass_on!(inner);

    fn connection(&self, index: usize) -> Box<dyn Connection> {
        Box::new(ThrottledConnection {
            inner: self.inner.connection(index),
            interval_ns: self.interval_ns,
            next_ns: Arc::clone(&self.next_ns),
            timer: None,
        })
    }
}

struct ThrottledConnection {
    inner: Box<dyn Connection>,
    interval_ns: u64,
    next_ns: Arc<AtomicU64>,
    timer: Option<Timer>,
}

/// An observer that forwards everything except the start. The start was reported before the wait, because
/// waiting for admission is part of the operation.
struct Started<'a>(&'a mut dyn Observer);

#[deny(clippy::missing_trait_methods)]
impl Observer for Started<'_> {
    /// Ignores the inner store's start, because the start was reported before the wait.
    fn started(&mut self, _at_ns: u64) {}

    /// Ignores the time of the inner store's request for the same reason.
    fn sent(&mut self, _at_ns: u64) {}

    fn piece(&mut self, data: &[u8]) -> Result<(), u64> {
        self.0.piece(data)
    }

    fn wants_checksum(&self) -> bool {
        self.0.wants_checksum()
    }

    fn wants_etag(&self) -> bool {
        self.0.wants_etag()
    }

    fn checksum(&self) -> Option<BodyChecksum> {
        self.0.checksum()
    }

    fn headers(&self) -> &[(&'static str, String)] {
        self.0.headers()
    }

    fn expected_size(&self) -> Option<u64> {
        self.0.expected_size()
    }

    fn tag(&self) -> Option<&str> {
        self.0.tag()
    }
}

#[deny(clippy::missing_trait_methods)]
impl Connection for ThrottledConnection {
    fn execute<'a>(
        &'a mut self,
        request: Request<'a>,
        observer: &'a mut dyn Observer,
    ) -> Local<'a, Result<Reply, Failure>> {
        Box::pin(async move {
            let start_ns = now_ns();
            observer.started(start_ns);
            let mut admitted = start_ns;
            let interval = self.interval_ns;
            let _ = self.next_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                admitted = next.max(start_ns);
                Some(admitted + interval)
            });
            let wait = async {
                if self.timer.is_none() {
                    self.timer = Some(Timer::new()?);
                }
                match &mut self.timer {
                    Some(timer) => timer.until(admitted).await,
                    None => Ok(()),
                }
            };
            if let Err(error) = wait.await {
                let timings = Timings { start_ns, end_ns: now_ns(), ..Timings::default() };
                return Err(Failure::new(ErrorClass::Connect, format!("the timer failed: {error}"), timings));
            }
            let mut result = self.inner.execute(request, &mut Started(observer)).await;
            match &mut result {
                Ok(reply) => reply.timings.start_ns = start_ns,
                Err(failure) => failure.timings.start_ns = start_ns,
            }
            result
        })
    }

    fn address(&self) -> Option<usize> {
        self.inner.address()
    }
}
