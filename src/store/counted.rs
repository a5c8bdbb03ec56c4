//! Wraps a store and counts what passes through it: what tests hold the instrument's own counts against.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Description, Failure, Lane, Local, Observer, Reply, Request, Store};

/// What has passed, by kind of request.
#[derive(Debug, Default)]
pub struct Counts {
    /// Puts.
    pub puts: AtomicU64,
    /// Gets, ranges included.
    pub gets: AtomicU64,
    /// Heads.
    pub heads: AtomicU64,
    /// Lists.
    pub lists: AtomicU64,
    /// Deletes of one object.
    pub deletes: AtomicU64,
    /// Deletes of many objects.
    pub delete_many: AtomicU64,
    /// Failures of any kind.
    pub failures: AtomicU64,
    /// Object bytes delivered.
    pub bytes: AtomicU64,
}

/// A store that counts.
pub struct Counted<S> {
    inner: S,
    counts: Arc<Counts>,
}

impl<S: Store> Counted<S> {
    /// Wraps `inner`; the counts stay readable after it is gone.
    pub fn new(inner: S) -> (Counted<S>, Arc<Counts>) {
        let counts = Arc::new(Counts::default());
        (Counted { inner, counts: Arc::clone(&counts) }, counts)
    }
}

impl<S: Store> Store for Counted<S> {
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
        let counter = match &request {
            Request::Put { .. } => Some(&self.counts.puts),
            Request::Get { .. } => Some(&self.counts.gets),
            Request::Head { .. } => Some(&self.counts.heads),
            Request::List { .. } => Some(&self.counts.lists),
            Request::Delete { .. } => Some(&self.counts.deletes),
            Request::DeleteMany { .. } => Some(&self.counts.delete_many),
            _ => None,
        };
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        Box::pin(async move {
            let result = self.inner.execute(request, observer).await;
            match &result {
                Ok(reply) => self.counts.bytes.fetch_add(reply.bytes, Ordering::Relaxed),
                Err(_) => self.counts.failures.fetch_add(1, Ordering::Relaxed),
            };
            result
        })
    }
}
