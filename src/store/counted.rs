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

/// A store that counts.
pub struct Counted {
    inner: Arc<dyn Store>,
    counts: Arc<Counts>,
}

impl Counted {
    /// Wraps `inner`; the counts stay readable after it is gone.
    pub fn new(inner: Arc<dyn Store>) -> (Counted, Arc<Counts>) {
        let counts = Arc::new(Counts::default());
        (Counted { inner, counts: Arc::clone(&counts) }, counts)
    }
}

impl Store for Counted {
    fn describe(&self) -> Description {
        self.inner.describe()
    }

    fn lane(&self, index: usize) -> Box<dyn Lane> {
        Box::new(CountedLane { inner: self.inner.lane(index), counts: Arc::clone(&self.counts) })
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
}

impl Lane for CountedLane {
    fn execute<'a>(
        &'a mut self,
        request: Request<'a>,
        observer: &'a mut dyn Observer,
    ) -> Local<'a, Result<Reply, Failure>> {
        let call = request.call();
        self.counts.requests[call.index()].fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let result = self.inner.execute(request, observer).await;
            self.counts.note(call, &result);
            result
        })
    }
}
