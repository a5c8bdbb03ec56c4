//! A store wrapper that makes a pseudo-random share of operations fail, for tests of the code that uses stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::store::wrapped::pass_on;
use crate::store::{BodyChecksum, Connection, Failure, Local, Observer, Reply, Request, Store};
use plimsoll_base::clock::now_ns;
use plimsoll_base::rng::Stream;
use plimsoll_recorder::ErrorClass;
use plimsoll_recorder::Timings;

/// Shares of operations that fail, each between 0 and 1. Their sum is at most 1.
#[derive(Debug, Clone, Copy, Default)]
pub struct FaultShares {
    /// Share of operations that fail with 503 SlowDown.
    pub slow_down: f64,
    /// Share of operations that fail with a broken connection.
    pub reset: f64,
    /// Share of operations that deliver corrupt content.
    pub corrupt: f64,
}

/// A store that fails a share of its operations.
pub struct Faulty<S> {
    inner: S,
    faults: FaultShares,
    draws: Stream,
    count: Arc<AtomicU64>,
}

impl<S: Store> Faulty<S> {
    /// Wraps `inner`. The seed and the order of operations alone determine which operations fail.
    pub fn new(inner: S, faults: FaultShares, seed: u64) -> Faulty<S> {
        Faulty { inner, faults, draws: Stream::new(seed, "faulty"), count: Arc::default() }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Faulty<S> {
    pass_on!(inner);

    fn connection(&self, index: usize) -> Box<dyn Connection> {
        Box::new(FaultyConnection {
            inner: self.inner.connection(index),
            faults: self.faults,
            draws: self.draws,
            count: Arc::clone(&self.count),
        })
    }
}

struct FaultyConnection {
    inner: Box<dyn Connection>,
    faults: FaultShares,
    draws: Stream,
    count: Arc<AtomicU64>,
}

/// An observer that changes the first byte of every piece before it passes the piece on.
struct Corrupting<'a>(&'a mut dyn Observer);

#[deny(clippy::missing_trait_methods)]
impl Observer for Corrupting<'_> {
    fn started(&mut self, at_ns: u64) {
        self.0.started(at_ns);
    }

    fn sent(&mut self, at_ns: u64) {
        self.0.sent(at_ns);
    }

    fn piece(&mut self, data: &[u8]) -> Result<(), u64> {
        let mut changed = data.to_vec();
        if let Some(first) = changed.first_mut() {
            *first ^= 0xff;
        }
        self.0.piece(&changed)
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
impl Connection for FaultyConnection {
    fn execute<'a>(
        &'a mut self,
        request: Request<'a>,
        observer: &'a mut dyn Observer,
    ) -> Local<'a, Result<Reply, Failure>> {
        let draw = self.draws.unit(self.count.fetch_add(1, Ordering::Relaxed));
        let FaultShares { slow_down, reset, corrupt } = self.faults;
        let fail = |class, message: &str, observer: &mut dyn Observer| {
            let now = now_ns();
            observer.started(now);
            let timings = Timings { start_ns: now, first_byte_ns: now, end_ns: now, ..Timings::default() };
            Failure::new(class, message, timings)
        };
        if draw < slow_down {
            let class = ErrorClass::Response("503 SlowDown".into());
            let failure = fail(class, "Please reduce your request rate.", observer);
            return Box::pin(std::future::ready(Err(failure)));
        }
        if draw < slow_down + reset {
            let failure = fail(ErrorClass::Reset, "the connection broke", observer);
            return Box::pin(std::future::ready(Err(failure)));
        }
        if draw < slow_down + reset + corrupt {
            return Box::pin(async move { self.inner.execute(request, &mut Corrupting(observer)).await });
        }
        self.inner.execute(request, observer)
    }

    fn address(&self) -> Option<usize> {
        self.inner.address()
    }
}
