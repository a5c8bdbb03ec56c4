//! A store wrapper that counts every request. Bills are computed from these counts, and tests compare them with
//! the counts that a run reports.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::cost_limit::{Charge, Limit};
use super::{BodyChecksum, Connection, ErrorClass, Failure, Local, Observer, Reply, Request, Store, Timings};
use crate::store::wrapped::pass_on;
use plimsoll_base::provider::calls::{Call, Calls, KINDS};

/// Counters of requests, object bytes and failures.
#[derive(Debug, Default)]
pub struct RequestCounts {
    requests: [AtomicU64; KINDS],
    uploaded: AtomicU64,
    downloaded: AtomicU64,
    failures: AtomicU64,
    /// Error responses by request kind and HTTP status. They are rare, so a lock is fast enough.
    refused: Mutex<BTreeMap<(usize, u16), u64>>,
}

impl RequestCounts {
    /// Returns the number of requests of a kind, including failed ones.
    pub fn requests(&self, call: Call) -> u64 {
        self.requests[call.index()].load(Ordering::Relaxed)
    }

    /// Returns the number of requests of each kind.
    pub fn calls(&self) -> Calls {
        let mut calls = Calls::default();
        Call::ALL.into_iter().for_each(|call| calls.set(call, self.requests(call)));
        calls
    }

    /// Returns the object bytes of successful puts and part uploads.
    pub fn uploaded(&self) -> u64 {
        self.uploaded.load(Ordering::Relaxed)
    }

    /// Returns the object bytes received by gets, including those that failed or were cancelled.
    pub fn downloaded(&self) -> u64 {
        self.downloaded.load(Ordering::Relaxed)
    }

    /// Returns the number of failed requests.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Returns the number of error responses by request kind and HTTP status.
    pub fn refused(&self) -> Vec<(Call, u16, u64)> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.iter().map(|((call, status), n)| (Call::ALL[*call], *status, *n)).collect()
    }

    /// Counts the result of a request.
    fn note(&self, call: Call, result: &Result<Reply, Failure>) {
        match result {
            Ok(reply) => {
                for also in &reply.also {
                    self.requests[also.index()].fetch_add(1, Ordering::Relaxed);
                }
                let bytes = match call {
                    Call::PutObject | Call::UploadPart => &self.uploaded,
                    _ => &self.downloaded,
                };
                bytes.fetch_add(reply.bytes, Ordering::Relaxed);
            }
            Err(failure) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                if let Some(status) = failure.status() {
                    let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
                    *refused.entry((call.index(), status)).or_default() += 1;
                }
            }
        }
    }
}

/// A request in flight. Dropping it counts the bytes transferred, even if the request failed or was cancelled.
struct InFlight<'a> {
    counts: &'a RequestCounts,
    limit: Option<(&'a Charge, &'a Limit, u64)>,
    call: Call,
    /// Object bytes transferred so far.
    bytes: Cell<u64>,
    /// True if the bytes have been counted.
    counted: Cell<bool>,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.counted.get() {
            self.counts.downloaded.fetch_add(self.bytes.get(), Ordering::Relaxed);
        }
        if let Some((charge, limit, reserved)) = self.limit {
            limit.settle(reserved, charge(self.call, self.bytes.get()));
        }
    }
}

/// Counts received bytes and forwards everything to the inner observer.
struct ByteCounter<'a> {
    inner: &'a mut dyn Observer,
    bytes: &'a Cell<u64>,
}

#[deny(clippy::missing_trait_methods)]
impl Observer for ByteCounter<'_> {
    fn started(&mut self, at_ns: u64) {
        self.inner.started(at_ns);
    }

    fn sent(&mut self, at_ns: u64) {
        self.inner.sent(at_ns);
    }

    fn piece(&mut self, data: &[u8]) -> Result<(), u64> {
        self.bytes.set(self.bytes.get() + data.len() as u64);
        self.inner.piece(data)
    }

    fn wants_checksum(&self) -> bool {
        self.inner.wants_checksum()
    }

    fn wants_etag(&self) -> bool {
        self.inner.wants_etag()
    }

    fn checksum(&self) -> Option<BodyChecksum> {
        self.inner.checksum()
    }

    fn headers(&self) -> &[(&'static str, String)] {
        self.inner.headers()
    }

    fn expected_size(&self) -> Option<u64> {
        self.inner.expected_size()
    }

    fn tag(&self) -> Option<&str> {
        self.inner.tag()
    }
}

/// A store that counts its requests and can limit their cost.
pub struct Counted {
    inner: Arc<dyn Store>,
    counts: Arc<RequestCounts>,
    limit: Option<(Charge, Arc<Limit>)>,
}

impl Counted {
    /// Wraps `inner` and adds its requests to `counts`, which stay readable after the store is dropped.
    pub fn new(inner: Arc<dyn Store>, counts: Arc<RequestCounts>) -> Counted {
        Counted { inner, counts, limit: None }
    }

    /// Limits the total cost of requests, which `charge` prices.
    pub fn limited(mut self, charge: Charge, limit: Arc<Limit>) -> Counted {
        self.limit = Some((charge, limit));
        self
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Counted {
    pass_on!(inner);

    fn connection(&self, index: usize) -> Box<dyn Connection> {
        Box::new(CountedConnection {
            inner: self.inner.connection(index),
            counts: Arc::clone(&self.counts),
            limit: self.limit.clone(),
        })
    }
}

struct CountedConnection {
    inner: Box<dyn Connection>,
    counts: Arc<RequestCounts>,
    limit: Option<(Charge, Arc<Limit>)>,
}

impl CountedConnection {
    /// Returns the maximum number of object bytes that a request may be charged for. Head and delete transfer
    /// none, but may be charged by the object's size.
    fn max_object_bytes(request: &Request<'_>, expected: Option<u64>, limit: &Limit) -> u64 {
        match request {
            Request::Put { body, .. } | Request::UploadPart { body, .. } => body.len(),
            Request::Get { range: Some(range), .. } => range.end - range.start,
            Request::Get { range: None, .. }
            | Request::Copy { .. }
            | Request::Head { .. }
            | Request::Delete { .. } => expected.unwrap_or(limit.largest),
            _ => 0,
        }
    }

    /// Reserves the maximum cost of a request and returns it; fails if the limit would be exceeded.
    fn admit(&self, request: &Request<'_>, expected: Option<u64>) -> Result<u64, Failure> {
        let Some((charge, limit)) = &self.limit else { return Ok(0) };
        let call = request.call();
        let cost = charge(call, Self::max_object_bytes(request, expected, limit));
        // A started upload may always be aborted.
        if call == Call::AbortMultipartUpload {
            limit.settle(0, cost);
            return Ok(cost);
        }
        if limit.reserve(cost) {
            return Ok(cost);
        }
        let message = "not sent: it would exceed --max-cost";
        Err(Failure::new(ErrorClass::Withheld, message, Timings::default()))
    }
}

#[deny(clippy::missing_trait_methods)]
impl Connection for CountedConnection {
    fn execute<'a>(
        &'a mut self,
        request: Request<'a>,
        observer: &'a mut dyn Observer,
    ) -> Local<'a, Result<Reply, Failure>> {
        let call = request.call();
        let expected = observer.expected_size();
        let reserved = match self.admit(&request, expected) {
            Ok(reserved) => reserved,
            Err(withheld) => return Box::pin(std::future::ready(Err(withheld))),
        };
        self.counts.requests[call.index()].fetch_add(1, Ordering::Relaxed);
        let bytes_by_size = match call {
            Call::HeadObject | Call::DeleteObject | Call::CopyObject => {
                self.limit.as_ref().map(|(_, limit)| Self::max_object_bytes(&request, expected, limit))
            }
            _ => None,
        };
        let CountedConnection { inner, counts, limit } = self;
        // Created before the first poll, so that a future dropped before then also releases its reservation.
        let in_flight = InFlight {
            counts,
            limit: limit.as_ref().map(|(charge, limit)| (charge, limit.as_ref(), reserved)),
            call,
            bytes: Cell::new(0),
            counted: Cell::new(false),
        };
        Box::pin(async move {
            let in_flight = in_flight;
            let mut counter = ByteCounter { inner: observer, bytes: &in_flight.bytes };
            let result = inner.execute(request, &mut counter).await;
            in_flight.counts.note(call, &result);
            if let Ok(reply) = &result {
                in_flight.counted.set(true);
                in_flight.bytes.set(bytes_by_size.unwrap_or(reply.bytes));
                if let Some((charge, limit, _)) = in_flight.limit {
                    let also: u64 = reply.also.iter().map(|call| charge(*call, limit.largest)).sum();
                    limit.settle(0, also);
                }
            }
            result
        })
    }

    fn address(&self) -> Option<usize> {
        self.inner.address()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::MemoryStore;
    use crate::store::{Body, Ignore};

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    /// Returns a store with a cost limit (a request costs 10, a byte 1), its counts, the limit, and how many
    /// times the limit was reached.
    fn bounded(most: u64) -> (Counted, Arc<RequestCounts>, Arc<Limit>, Arc<AtomicU64>) {
        let counts = Arc::<crate::store::counted::RequestCounts>::default();
        let store = Counted::new(Arc::new(MemoryStore::default()), Arc::clone(&counts));
        let reached = Arc::new(AtomicU64::new(0));
        let hits = Arc::clone(&reached);
        let limit = Limit::new(
            most,
            100,
            Box::new(move || {
                hits.fetch_add(1, Ordering::Relaxed);
            }),
        );
        let limit = Arc::new(limit);
        let store = store.limited(Arc::new(|_, bytes| 10 + bytes), Arc::clone(&limit));
        (store, counts, limit, reached)
    }

    fn put(bytes: usize) -> Request<'static> {
        Request::Put { key: "a", body: Body::Whole(vec![1; bytes].into()) }
    }

    #[test]
    fn requests_that_exceed_the_limit_are_not_sent() {
        let (store, counts, limit, reached) = bounded(150);
        let mut connection = store.connection(0);
        block_on(async {
            connection.execute(put(50), &mut Ignore).await.unwrap();
            // 60 are spent. A read of unknown size may cost 110, so it is not sent.
            let read = || Request::Get { key: "a", range: None };
            let withheld = connection.execute(read(), &mut Ignore).await.unwrap_err();
            assert_eq!((withheld.status(), withheld.class), (None, ErrorClass::Withheld));
            assert_eq!((counts.requests(Call::GetObject), reached.load(Ordering::Relaxed)), (0, 1));
            // A range bounds the bytes to transfer.
            connection.execute(Request::Get { key: "a", range: Some(0..50) }, &mut Ignore).await.unwrap();
            assert_eq!(limit.committed(), 120);
            // Time-based cost counts too. Once the limit is lifted, every request passes.
            limit.took(40);
            assert_eq!(reached.load(Ordering::Relaxed), 2);
            assert!(connection.execute(Request::CheckBucket, &mut Ignore).await.is_err());
            limit.lift();
            connection.execute(read(), &mut Ignore).await.unwrap();
        });
        assert_eq!(counts.downloaded(), 100);
    }

    /// An observer that rejects the first byte.
    struct Wrong;

    impl Observer for Wrong {
        fn piece(&mut self, _: &[u8]) -> Result<(), u64> {
            Err(0)
        }
    }

    /// Regression test: failed reads were not billed, and cancelled requests kept their reservation.
    #[test]
    fn failed_and_cancelled_requests_are_charged() {
        let (store, counts, limit, _) = bounded(1_000);
        let mut connection = store.connection(0);
        block_on(async {
            connection.execute(put(50), &mut Ignore).await.unwrap();
            drop(connection.execute(Request::Get { key: "a", range: None }, &mut Ignore));
            let spent = limit.committed();
            assert_eq!(spent, 70, "a put of 50 bytes and a request that was cancelled");
            connection.execute(Request::Get { key: "a", range: None }, &mut Wrong).await.unwrap_err();
        });
        assert_eq!((counts.downloaded(), counts.failures()), (50, 1));
        assert_eq!(limit.committed(), 130);
    }
}
