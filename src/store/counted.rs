//! Wraps a store and counts every request that passes, whoever makes it: what tests hold the instrument's own counts against, and what
//! the bill of a run is made of.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{
    BackgroundRequest, BodyChecksum, Capabilities, Connection, Description, ErrorClass, Failure, Local,
    Observer, Reply, Request, Store, Timings,
};
use crate::provider::Profile;
use crate::provider::calls::{Call, Calls, KINDS};

/// What has passed.
#[derive(Debug, Default)]
pub struct Counts {
    requests: [AtomicU64; KINDS],
    uploaded: AtomicU64,
    downloaded: AtomicU64,
    failures: AtomicU64,
    /// Refusals by kind and status; few, so a lock will do.
    refused: Mutex<BTreeMap<(usize, u16), u64>>,
}

impl Counts {
    /// Requests of a kind, those that failed included.
    pub fn requests(&self, call: Call) -> u64 {
        self.requests[call.index()].load(Ordering::Relaxed)
    }

    /// Requests of all kinds.
    pub fn calls(&self) -> Calls {
        let mut calls = Calls::default();
        Call::ALL.into_iter().for_each(|call| calls.set(call, self.requests(call)));
        calls
    }

    /// Object bytes of puts and parts that were answered well.
    pub fn uploaded(&self) -> u64 {
        self.uploaded.load(Ordering::Relaxed)
    }

    /// Object bytes of gets that were answered well.
    pub fn downloaded(&self) -> u64 {
        self.downloaded.load(Ordering::Relaxed)
    }

    /// Failures of any kind.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Requests that the store answered with an error, by kind and status.
    pub fn refused(&self) -> Vec<(Call, u16, u64)> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.iter().map(|((call, status), n)| (Call::ALL[*call], *status, *n)).collect()
    }

    /// Counts what a request came to.
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

/// What one request costs, with the object bytes that it moves, in picodollars.
pub type Charge = Arc<dyn Fn(Call, u64) -> u64 + Send + Sync>;

/// A bound on what requests may cost together, whatever the stores. Each is held against it before it is sent, with all that it may come
/// to; what does not fit is withheld.
pub struct Limit {
    most: u64,
    /// What was spent, and what requests on their way may come to.
    committed: AtomicU64,
    /// What time has cost so far, as it was last told.
    timed: AtomicU64,
    /// Bytes of the largest object that there may be.
    largest: u64,
    /// Whether everything may pass: clean-up is over the bound rather than left undone.
    lifted: AtomicBool,
    reached: Box<dyn Fn() + Send + Sync>,
}

impl Limit {
    /// At most so many picodollars; `largest` bytes are taken for an object whose size is not known. `reached` is called, perhaps often,
    /// when a request is withheld.
    pub fn new(most: u64, largest: u64, reached: Box<dyn Fn() + Send + Sync>) -> Limit {
        Limit {
            most,
            committed: AtomicU64::new(0),
            timed: AtomicU64::new(0),
            largest,
            lifted: AtomicBool::new(false),
            reached,
        }
    }

    /// From now on everything may pass.
    pub fn lift(&self) {
        self.lifted.store(true, Ordering::Relaxed);
    }

    /// What time has cost since the beginning, in picodollars.
    pub fn took(&self, timed: u64) {
        let before = self.timed.swap(timed, Ordering::Relaxed);
        self.committed.fetch_add(timed.saturating_sub(before), Ordering::Relaxed);
        if !self.fits() {
            (self.reached)();
        }
    }

    /// Whether what was spent and set aside is within the bound.
    fn fits(&self) -> bool {
        self.lifted.load(Ordering::Relaxed) || self.committed.load(Ordering::Relaxed) <= self.most
    }

    /// Sets `cost` aside, if there is room.
    fn reserve(&self, cost: u64) -> bool {
        self.committed.fetch_add(cost, Ordering::Relaxed);
        if self.fits() {
            return true;
        }
        self.committed.fetch_sub(cost, Ordering::Relaxed);
        (self.reached)();
        false
    }

    /// Replaces what was set aside by what it came to.
    fn settle(&self, reserved: u64, spent: u64) {
        self.committed.fetch_add(spent, Ordering::Relaxed);
        self.committed.fetch_sub(reserved, Ordering::Relaxed);
    }
}

/// A request on its way: what it has moved counts however it ends, also where it is called off.
struct Passing<'a> {
    counts: &'a Counts,
    limit: Option<(&'a Charge, &'a Limit, u64)>,
    call: Call,
    /// Object bytes that it moved, as far as is known.
    bytes: Cell<u64>,
    /// Whether the bytes have been counted.
    counted: Cell<bool>,
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        if !self.counted.get() {
            self.counts.downloaded.fetch_add(self.bytes.get(), Ordering::Relaxed);
        }
        if let Some((charge, limit, reserved)) = self.limit {
            limit.settle(reserved, charge(self.call, self.bytes.get()));
        }
    }
}

/// Sees what comes in on its way to the observer that asked for it.
struct Seeing<'a> {
    inner: &'a mut dyn Observer,
    bytes: &'a Cell<u64>,
}

#[deny(clippy::missing_trait_methods)]
impl Observer for Seeing<'_> {
    fn started(&mut self, at_ns: u64) {
        self.inner.started(at_ns);
    }

    fn piece(&mut self, data: &[u8]) -> Result<(), u64> {
        self.bytes.set(self.bytes.get() + data.len() as u64);
        self.inner.piece(data)
    }

    fn wants_checksum(&self) -> bool {
        self.inner.wants_checksum()
    }

    fn checksum(&self) -> Option<BodyChecksum> {
        self.inner.checksum()
    }

    fn headers(&self) -> &[(&'static str, String)] {
        self.inner.headers()
    }

    fn expects(&self) -> Option<u64> {
        self.inner.expects()
    }

    fn tag(&self) -> Option<&str> {
        self.inner.tag()
    }
}

/// A store that counts.
pub struct Counted {
    inner: Arc<dyn Store>,
    counts: Arc<Counts>,
    limit: Option<(Charge, Arc<Limit>)>,
}

impl Counted {
    /// Wraps `inner`; the counts stay readable after it is gone.
    pub fn new(inner: Arc<dyn Store>) -> (Counted, Arc<Counts>) {
        let counts = Arc::new(Counts::default());
        (Counted { inner, counts: Arc::clone(&counts), limit: None }, counts)
    }

    /// Holds what passes against a bound.
    pub fn limited(mut self, charge: Charge, limit: Arc<Limit>) -> Counted {
        self.limit = Some((charge, limit));
        self
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Counted {
    fn describe(&self) -> Description {
        self.inner.describe()
    }

    fn connection(&self, index: usize) -> Box<dyn Connection> {
        Box::new(CountedConnection {
            inner: self.inner.connection(index),
            counts: Arc::clone(&self.counts),
            limit: self.limit.clone(),
        })
    }

    fn prefix(&self) -> &str {
        self.inner.prefix()
    }

    fn container(&self) -> &str {
        self.inner.container()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn only_object(&self) -> Option<&str> {
        self.inner.only_object()
    }

    fn profile(&self) -> Option<&Profile> {
        self.inner.profile()
    }

    fn background_requests(&self) -> Vec<BackgroundRequest> {
        self.inner.background_requests()
    }

    fn tidy(&self, prefix: &str, process: u32) {
        self.inner.tidy(prefix, process);
    }
}

struct CountedConnection {
    inner: Box<dyn Connection>,
    counts: Arc<Counts>,
    limit: Option<(Charge, Arc<Limit>)>,
}

impl CountedConnection {
    /// Object bytes that a request may move; those that are charged by an object's size move none of it.
    fn most_bytes(request: &Request<'_>, expected: Option<u64>, limit: &Limit) -> u64 {
        match request {
            Request::Put { body, .. } | Request::UploadPart { body, .. } => body.len(),
            Request::Get { range: Some(range), .. } => range.end - range.start,
            Request::Get { range: None, .. } | Request::Head { .. } | Request::Delete { .. } => {
                expected.unwrap_or(limit.largest)
            }
            _ => 0,
        }
    }

    /// What the request may come to; a failure where it is too much.
    fn admit(&self, request: &Request<'_>, expected: Option<u64>) -> Result<u64, Failure> {
        let Some((charge, limit)) = &self.limit else { return Ok(0) };
        let call = request.call();
        let cost = charge(call, Self::most_bytes(request, expected, limit));
        // What has begun may always be called off.
        if call == Call::AbortMultipartUpload {
            limit.committed.fetch_add(cost, Ordering::Relaxed);
            return Ok(cost);
        }
        if limit.reserve(cost) {
            return Ok(cost);
        }
        let message = "not sent, because the run may not cost more than it does already";
        Err(Failure::new(ErrorClass::Withheld, message, Timings::default()))
    }
}

impl Connection for CountedConnection {
    fn execute<'a>(
        &'a mut self,
        request: Request<'a>,
        observer: &'a mut dyn Observer,
    ) -> Local<'a, Result<Reply, Failure>> {
        let call = request.call();
        let expected = observer.expects();
        let reserved = match self.admit(&request, expected) {
            Ok(reserved) => reserved,
            Err(withheld) => return Box::pin(std::future::ready(Err(withheld))),
        };
        self.counts.requests[call.index()].fetch_add(1, Ordering::Relaxed);
        let bytes_by_size = match call {
            Call::HeadObject | Call::DeleteObject => {
                self.limit.as_ref().map(|(_, limit)| Self::most_bytes(&request, expected, limit))
            }
            _ => None,
        };
        let CountedConnection { inner, counts, limit } = self;
        // Made before anything is polled: also what is called off before it begins gives back what was set aside.
        let passing = Passing {
            counts,
            limit: limit.as_ref().map(|(charge, limit)| (charge, limit.as_ref(), reserved)),
            call,
            bytes: Cell::new(0),
            counted: Cell::new(false),
        };
        Box::pin(async move {
            let passing = passing;
            let mut seeing = Seeing { inner: observer, bytes: &passing.bytes };
            let result = inner.execute(request, &mut seeing).await;
            passing.counts.note(call, &result);
            if let Ok(reply) = &result {
                passing.counted.set(true);
                passing.bytes.set(bytes_by_size.unwrap_or(reply.bytes));
                if let Some((charge, limit, _)) = passing.limit {
                    let also: u64 = reply.also.iter().map(|call| charge(*call, limit.largest)).sum();
                    limit.settle(0, also);
                }
            }
            result
        })
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

    /// A store where a request costs 10 and a byte 1, bounded; what it counts, and how often it told that the bound was reached.
    fn bounded(most: u64) -> (Counted, Arc<Counts>, Arc<Limit>, Arc<AtomicU64>) {
        let (store, counts) = Counted::new(Arc::new(MemoryStore::default()));
        let told = Arc::new(AtomicU64::new(0));
        let tell = Arc::clone(&told);
        let limit = Limit::new(
            most,
            100,
            Box::new(move || {
                tell.fetch_add(1, Ordering::Relaxed);
            }),
        );
        let limit = Arc::new(limit);
        let store = store.limited(Arc::new(|_, bytes| 10 + bytes), Arc::clone(&limit));
        (store, counts, limit, told)
    }

    fn put(bytes: usize) -> Request<'static> {
        Request::Put { key: "a", body: Body::Whole(vec![1; bytes].into()) }
    }

    #[test]
    fn what_does_not_fit_is_never_sent() {
        let (store, counts, limit, told) = bounded(150);
        let mut connection = store.connection(0);
        block_on(async {
            connection.execute(put(50), &mut Ignore).await.unwrap();
            // 60 are spent. A read of unknown size may come to 110, so it waits for no answer.
            let read = || Request::Get { key: "a", range: None };
            let withheld = connection.execute(read(), &mut Ignore).await.unwrap_err();
            assert_eq!((withheld.status(), withheld.class), (None, ErrorClass::Withheld));
            assert_eq!((counts.requests(Call::GetObject), told.load(Ordering::Relaxed)), (0, 1));
            // A range says what it moves.
            connection.execute(Request::Get { key: "a", range: Some(0..50) }, &mut Ignore).await.unwrap();
            assert_eq!(limit.committed.load(Ordering::Relaxed), 120);
            // Time costs as well; the bound is told, and clean-up passes in any case.
            limit.took(40);
            assert_eq!(told.load(Ordering::Relaxed), 2);
            assert!(connection.execute(Request::CheckBucket, &mut Ignore).await.is_err());
            limit.lift();
            connection.execute(read(), &mut Ignore).await.unwrap();
        });
        assert_eq!(counts.downloaded(), 100);
    }

    /// A reader that finds the first byte wrong.
    struct Wrong;

    impl Observer for Wrong {
        fn piece(&mut self, _: &[u8]) -> Result<(), u64> {
            Err(0)
        }
    }

    /// Bytes of reads that failed were in no bill, and what was called off kept its room.
    #[test]
    fn what_came_counts_however_it_ends() {
        let (store, counts, limit, _) = bounded(1_000);
        let mut connection = store.connection(0);
        block_on(async {
            connection.execute(put(50), &mut Ignore).await.unwrap();
            drop(connection.execute(Request::Get { key: "a", range: None }, &mut Ignore));
            let spent = limit.committed.load(Ordering::Relaxed);
            assert_eq!(spent, 70, "a put of 50 and a request that was begun");
            connection.execute(Request::Get { key: "a", range: None }, &mut Wrong).await.unwrap_err();
        });
        assert_eq!((counts.downloaded(), counts.failures()), (50, 1));
        assert_eq!(limit.committed.load(Ordering::Relaxed), 130);
    }
}
