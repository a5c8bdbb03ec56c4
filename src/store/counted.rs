//! Wraps a store and counts every request that passes, whoever makes it: what tests hold the instrument's own counts against, and what
//! the bill of a run is made of.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Capabilities, Description, Failure, Lane, Local, Observer, Reply, Request, SideCall, Store};
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

/// A bound on what requests may cost together, whatever the stores. It is looked at with every request: a second of a fast store can
/// cost more than a whole run may.
pub struct Limit {
    most: u64,
    spent: AtomicU64,
    /// Requests on their way.
    open: AtomicU64,
    dearest: AtomicU64,
    reached: Box<dyn Fn() + Send + Sync>,
}

/// Requests that may begin between the one that reaches the bound and the end that it brings, beside those on their way.
const STRAGGLERS: u64 = 4;

impl Limit {
    /// At most so many picodollars; the dearest request costs so much as far as that is known. `reached` is called, perhaps often, when
    /// what is on its way could exceed the bound.
    pub fn new(most: u64, dearest: u64, reached: Box<dyn Fn() + Send + Sync>) -> Limit {
        let (spent, open) = (AtomicU64::new(0), AtomicU64::new(0));
        Limit { most, spent, open, dearest: AtomicU64::new(dearest), reached }
    }

    /// What may still be spent when the bound is reached: each request on its way may bring bytes that were not known, and its lane may
    /// begin another.
    pub fn margin(&self) -> u64 {
        let requests = 2 * self.open.load(Ordering::Relaxed) + STRAGGLERS;
        requests.saturating_mul(self.dearest.load(Ordering::Relaxed))
    }

    fn add(&self, cost: u64, of_one: u64) {
        self.dearest.fetch_max(of_one, Ordering::Relaxed);
        let spent = self.spent.fetch_add(cost, Ordering::Relaxed) + cost;
        if spent.saturating_add(self.margin()) > self.most {
            (self.reached)();
        }
    }
}

/// A request on its way, until it is answered or called off.
struct Open<'a>(&'a AtomicU64);

impl<'a> Open<'a> {
    fn of(limit: &'a Limit) -> Open<'a> {
        limit.open.fetch_add(1, Ordering::Relaxed);
        Open(&limit.open)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
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

impl Store for Counted {
    fn describe(&self) -> Description {
        self.inner.describe()
    }

    fn lane(&self, index: usize) -> Box<dyn Lane> {
        Box::new(CountedLane {
            inner: self.inner.lane(index),
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

    fn side_calls(&self) -> Vec<SideCall> {
        self.inner.side_calls()
    }

    fn tidy(&self, prefix: &str) {
        self.inner.tidy(prefix);
    }
}

struct CountedLane {
    inner: Box<dyn Lane>,
    counts: Arc<Counts>,
    limit: Option<(Charge, Arc<Limit>)>,
}

/// Object bytes that a request moves, as far as it says so itself.
fn bytes_of(request: &Request<'_>) -> u64 {
    match request {
        Request::Put { body, .. } | Request::UploadPart { body, .. } => body.len(),
        Request::Get { range: Some(range), .. } => range.end - range.start,
        _ => 0,
    }
}

impl Lane for CountedLane {
    fn execute<'a>(
        &'a mut self,
        request: Request<'a>,
        observer: &'a mut dyn Observer,
    ) -> Local<'a, Result<Reply, Failure>> {
        let call = request.call();
        self.counts.requests[call.index()].fetch_add(1, Ordering::Relaxed);
        let known = bytes_of(&request);
        if let Some((charge, limit)) = &self.limit {
            let cost = charge(call, known);
            limit.add(cost, cost);
        }
        Box::pin(async move {
            let _open = self.limit.as_ref().map(|(_, limit)| Open::of(limit));
            let result = self.inner.execute(request, observer).await;
            self.counts.note(call, &result);
            if let (Some((charge, limit)), Ok(reply)) = (&self.limit, &result)
                && (reply.bytes > known || !reply.also.is_empty())
            {
                let also: u64 = reply.also.iter().map(|call| charge(*call, 0)).sum();
                let whole = charge(call, reply.bytes.max(known)) + also;
                limit.add(whole.saturating_sub(charge(call, known)), whole);
            }
            result
        })
    }
}
