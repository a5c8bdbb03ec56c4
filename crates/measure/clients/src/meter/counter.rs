//! Counts of finished requests.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use plimsoll_base::clock::wall_now;
use plimsoll_base::provider::calls::Call;
use plimsoll_bills::advise::metered::Counted;
use plimsoll_experiment::logs::Logged;
use plimsoll_experiment::logs::usage::LogUsage;
use plimsoll_server::observer::{FinishedRequest, RequestObserver};
use plimsoll_server::request_log::RequestLog;
use plimsoll_server::route::ApiOperation;

/// Requests counted so far.
#[derive(Debug, Clone, Default)]
pub struct MeteredCounts {
    /// Requests as bills count them.
    pub usage: LogUsage,
    /// Requests by operation.
    pub operations: BTreeMap<String, Counted>,
    /// Kind of each of these operations on a bill.
    pub kinds: Vec<(String, Option<Call>)>,
    /// Number of requests that were refused before their operation was known.
    pub refused: u64,
}

impl MeteredCounts {
    fn add(&mut self, request: &FinishedRequest<'_>, depth: usize) {
        let Some(operation) = request.operation else {
            self.refused += 1;
            return;
        };
        let failed = request.status >= 400;
        let bytes = match operation.call() {
            _ if failed => None,
            Some(Call::PutObject) => Some(request.bytes_in),
            Some(Call::UploadPart) if operation == ApiOperation::UploadPart => Some(request.bytes_in),
            Some(Call::UploadPart | Call::CopyObject) => request.copied,
            Some(Call::GetObject) => Some(request.bytes_out),
            _ => None,
        };
        let is_copy = matches!(operation, ApiOperation::CopyObject | ApiOperation::UploadPartCopy);
        self.usage.add(
            &Logged {
                at_ns: i64::try_from(wall_now().as_nanosecond()).unwrap_or(i64::MAX),
                // The name by which usage recognises the copy of a part.
                operation: Cow::Borrowed(if is_copy { "COPY" } else { operation.name() }),
                kind: None,
                call: operation.call(),
                bucket: Cow::Borrowed(request.bucket),
                key: Cow::Borrowed(request.key),
                status: request.status,
                bytes,
                size: bytes.filter(|_| operation == ApiOperation::CopyObject),
                range_start: None,
            },
            depth,
        );
        let name = operation.name();
        if !self.operations.contains_key(name) {
            self.kinds.push((name.to_string(), operation.call()));
        }
        let counted = self.operations.entry(name.to_string()).or_default();
        counted.requests += 1;
        counted.failed += u64::from(failed);
        counted.bytes = counted.bytes.saturating_add(bytes.unwrap_or(0));
    }
}

/// Observer that counts requests, and records them if it has a log.
pub struct Counter {
    counts: Mutex<MeteredCounts>,
    depth: usize,
    log: Option<RequestLog>,
    is_open: AtomicBool,
}

impl Counter {
    /// Creates a counter of the requests by the first `depth` parts of their keys, which counts and records nothing
    /// until [`Counter::open`].
    pub fn new(depth: usize, log: Option<RequestLog>) -> Counter {
        Counter { counts: Mutex::default(), depth, log, is_open: AtomicBool::new(false) }
    }

    /// Starts to count.
    pub fn open(&self) {
        self.is_open.store(true, Ordering::Release);
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> MeteredCounts {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the first error in recording a request, in words; `None` if all are recorded.
    pub fn record_failure(&self) -> Option<String> {
        self.log.as_ref()?.failure().map(ToString::to_string)
    }
}

impl RequestObserver for Counter {
    fn finished(&self, request: &FinishedRequest<'_>) {
        if self.is_open.load(Ordering::Acquire) {
            self.counts.lock().unwrap_or_else(PoisonError::into_inner).add(request, self.depth);
            if let Some(log) = &self.log {
                log.finished(request);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished<'a>(operation: Option<ApiOperation>, key: &'a str, status: u16) -> FinishedRequest<'a> {
        const METHOD: &http::Method = &http::Method::GET;
        FinishedRequest {
            id: "",
            operation,
            peer: None,
            forwarded_for: "",
            method: METHOD,
            path: "",
            query: "",
            access_key: "",
            bucket: "b",
            key,
            status,
            bytes_in: 10,
            bytes_out: 200,
            content_range: None,
            copied: Some(3000),
            duration_ns: 1,
        }
    }

    #[test]
    fn only_object_bytes_of_successful_requests_count() {
        use ApiOperation as O;
        let counter = Counter::new(1, None);
        counter.finished(&finished(Some(O::PutObject), "before/x", 200));
        counter.open();
        for (operation, key, status) in [
            (Some(O::PutObject), "a/x", 200),
            (Some(O::PutObject), "a/y", 503),
            (Some(O::GetObject), "a/x", 206),
            (Some(O::ListObjectsV2), "", 200),
            (Some(O::UploadPart), "c", 200),
            (Some(O::UploadPartCopy), "c", 200),
            (Some(O::CopyObject), "d/e", 200),
            (Some(O::PutObjectTags), "a/x", 200),
            (None, "", 403),
        ] {
            counter.finished(&finished(operation, key, status));
        }
        let counts = counter.counts();
        let of = |name: &str| counts.operations[name];
        assert_eq!(of("PutObject"), Counted { requests: 2, failed: 1, bytes: 10 });
        assert_eq!(of("UploadPartCopy"), Counted { requests: 1, failed: 0, bytes: 3000 });
        let all = &counts.usage.all;
        assert_eq!((all.uploaded, all.downloaded, all.copied, counts.refused), (20, 200, 6000, 1));
        assert_eq!(all.calls[&(Call::UploadPart, 200)], 2);
        assert_eq!(counts.usage.unknown["PutObjectTagging"], 1);
        assert_eq!(counts.usage.prefixes.keys().collect::<Vec<_>>(), ["b/", "b/a/", "b/d/"]);
    }
}
