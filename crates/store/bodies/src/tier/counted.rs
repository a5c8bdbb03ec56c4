//! A backend that counts its requests by kind, with their bytes and times.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display, Formatter};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use plimsoll_base::clock::now_ns;
use plimsoll_base::metrics::LATENCY_EDGES_S;
use plimsoll_base::provider::calls::Call;
use prometheus_client::metrics::histogram::Histogram;

use super::origin::current;
use plimsoll_catalog::liveness;

/// Requests of one kind.
#[derive(Debug)]
pub struct CallCount {
    /// Requests that have ended.
    pub requests: AtomicU64,
    /// Requests that failed for a reason other than a missing object.
    pub errors: AtomicU64,
    /// Times from a request to its response, without the body of the response, in seconds.
    pub seconds: Histogram,
}

impl Default for CallCount {
    fn default() -> CallCount {
        CallCount {
            requests: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            seconds: Histogram::new(LATENCY_EDGES_S),
        }
    }
}

/// Requests for one bucket.
#[derive(Debug)]
pub struct OriginUsage {
    requests: [AtomicU64; Call::ALL.len()],
    uploaded: AtomicU64,
    downloaded: AtomicU64,
}

impl Default for OriginUsage {
    fn default() -> OriginUsage {
        let requests = std::array::from_fn(|_| AtomicU64::new(0));
        OriginUsage { requests, uploaded: AtomicU64::new(0), downloaded: AtomicU64::new(0) }
    }
}

impl OriginUsage {
    /// Returns the number of requests of a kind.
    pub fn requests(&self, call: Call) -> u64 {
        self.requests[call as usize].load(Ordering::Relaxed)
    }

    /// Returns the bytes of objects written.
    pub fn uploaded(&self) -> u64 {
        self.uploaded.load(Ordering::Relaxed)
    }

    /// Returns the bytes of objects read.
    pub fn downloaded(&self) -> u64 {
        self.downloaded.load(Ordering::Relaxed)
    }
}

/// Requests of a tier since the start. A request that the client repeats counts once.
#[derive(Debug)]
pub struct TierUsage {
    calls: [CallCount; Call::ALL.len()],
    origins: RwLock<BTreeMap<Arc<str>, Arc<OriginUsage>>>,
    /// Bytes of objects written.
    pub uploaded: AtomicU64,
    /// Bytes of objects read.
    pub downloaded: AtomicU64,
}

impl Default for TierUsage {
    fn default() -> TierUsage {
        TierUsage {
            calls: std::array::from_fn(|_| CallCount::default()),
            origins: RwLock::default(),
            uploaded: AtomicU64::new(0),
            downloaded: AtomicU64::new(0),
        }
    }
}

impl TierUsage {
    /// Returns the requests of a kind.
    pub fn of(&self, call: Call) -> &CallCount {
        &self.calls[call as usize]
    }

    /// Returns the requests by bucket.
    pub fn origins(&self) -> Vec<(Arc<str>, Arc<OriginUsage>)> {
        let origins = self.origins.read().unwrap_or_else(PoisonError::into_inner);
        origins.iter().map(|(bucket, usage)| (Arc::clone(bucket), Arc::clone(usage))).collect()
    }

    /// Returns the counts of a bucket.
    fn origin(&self, bucket: &Arc<str>) -> Arc<OriginUsage> {
        let origins = self.origins.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(usage) = origins.get(bucket) {
            return Arc::clone(usage);
        }
        drop(origins);
        let mut origins = self.origins.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(origins.entry(Arc::clone(bucket)).or_default())
    }

    /// Counts bytes of an object that was written for a bucket.
    fn upload(&self, bucket: &Arc<str>, bytes: u64) {
        self.uploaded.fetch_add(bytes, Ordering::Relaxed);
        self.origin(bucket).uploaded.fetch_add(bytes, Ordering::Relaxed);
    }

    fn record<T>(&self, call: Call, start_ns: u64, result: &Result<T>) {
        self.record_for(&current(), call, start_ns, result);
    }

    fn record_for<T>(&self, bucket: &Arc<str>, call: Call, start_ns: u64, result: &Result<T>) {
        liveness::at("its next step");
        self.origin(bucket).requests[call as usize].fetch_add(1, Ordering::Relaxed);
        let count = self.of(call);
        count.requests.fetch_add(1, Ordering::Relaxed);
        if !matches!(result, Ok(_) | Err(object_store::Error::NotFound { .. })) {
            count.errors.fetch_add(1, Ordering::Relaxed);
        }
        count.seconds.observe(now_ns().saturating_sub(start_ns) as f64 / 1e9);
    }
}

/// Returns the time at the start of a request, which takes at most a time if it has a timeout.
fn begin(timeout: Duration) -> u64 {
    liveness::at_most("the answer of a tier", timeout);
    now_ns()
}

/// A backend with counts. Its client can be replaced, for new credentials.
#[derive(Debug)]
pub struct Counted {
    client: RwLock<Arc<dyn ObjectStore>>,
    usage: Arc<TierUsage>,
    /// Longest time of a request; zero without a limit.
    timeout: Duration,
}

impl Counted {
    /// Counts the requests of a client, which take at most a time, or have no limit if it is zero.
    pub fn new(client: Arc<dyn ObjectStore>, timeout: Duration) -> Counted {
        Counted { client: RwLock::new(client), usage: Arc::default(), timeout }
    }

    /// Returns the counts.
    pub fn usage(&self) -> Arc<TierUsage> {
        Arc::clone(&self.usage)
    }

    /// Replaces the client; requests that have started continue with the old one.
    pub fn replace(&self, client: Arc<dyn ObjectStore>) {
        *self.client.write().unwrap_or_else(PoisonError::into_inner) = client;
    }

    /// Returns the client itself.
    pub fn client(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.client.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Display for Counted {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Display::fmt(&self.client(), f)
    }
}

#[async_trait]
impl ObjectStore for Counted {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let (start, bytes) = (begin(self.timeout), payload.content_length() as u64);
        let result = self.client().put_opts(path, payload, options).await;
        self.usage.record(Call::PutObject, start, &result);
        self.usage.upload(&current(), bytes);
        result
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let start = begin(self.timeout);
        let result = self.client().put_multipart_opts(path, options).await;
        self.usage.record(Call::CreateMultipartUpload, start, &result);
        Ok(Box::new(CountedUpload { inner: result?, usage: Arc::clone(&self.usage), timeout: self.timeout }))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let (start, call) =
            (begin(self.timeout), if options.head { Call::HeadObject } else { Call::GetObject });
        let result = self.client().get_opts(path, options).await;
        self.usage.record(call, start, &result);
        if let (Ok(found), Call::GetObject) = (&result, call) {
            let bytes = found.range.end - found.range.start;
            self.usage.downloaded.fetch_add(bytes, Ordering::Relaxed);
            self.usage.origin(&current()).downloaded.fetch_add(bytes, Ordering::Relaxed);
        }
        result
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (start, usage) = (begin(self.timeout), self.usage());
        let deleted = self.client().delete_stream(paths);
        deleted.inspect(move |result| usage.record(Call::DeleteObject, start, result)).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        /// Number of objects in a page of a listing.
        const PAGE: usize = 1000;
        let (start, usage) = (begin(self.timeout), self.usage());
        let listed = self.client().list(prefix).enumerate();
        let counted = listed.map(move |(index, result)| {
            if index % PAGE == 0 {
                usage.record(Call::ListObjects, start, &result);
            }
            result
        });
        counted.boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let start = begin(self.timeout);
        let result = self.client().list_with_delimiter(prefix).await;
        self.usage.record(Call::ListObjects, start, &result);
        result
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let start = begin(self.timeout);
        let result = self.client().copy_opts(from, to, options).await;
        self.usage.record(Call::CopyObject, start, &result);
        result
    }
}

/// An upload in parts with counts.
#[derive(Debug)]
struct CountedUpload {
    inner: Box<dyn MultipartUpload>,
    usage: Arc<TierUsage>,
    /// Longest time of a request; zero without a limit.
    timeout: Duration,
}

#[async_trait]
impl MultipartUpload for CountedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (start, bytes, usage) =
            (begin(self.timeout), data.content_length() as u64, Arc::clone(&self.usage));
        let part = self.inner.put_part(data);
        // The part may be sent by another task.
        let bucket = current();
        Box::pin(async move {
            let result = part.await;
            usage.record_for(&bucket, Call::UploadPart, start, &result);
            usage.upload(&bucket, bytes);
            result
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let start = begin(self.timeout);
        let result = self.inner.complete().await;
        self.usage.record(Call::CompleteMultipartUpload, start, &result);
        result
    }

    async fn abort(&mut self) -> Result<()> {
        let start = begin(self.timeout);
        let result = self.inner.abort().await;
        self.usage.record(Call::AbortMultipartUpload, start, &result);
        result
    }
}
