//! Metrics of the requests of clients, by bucket and operation.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use plimsoll_base::metrics::LATENCY_EDGES_S;
use plimsoll_server::observer::{FinishedRequest, RequestObserver};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStatus {
    bucket: String,
    operation: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOperation {
    bucket: String,
    operation: String,
}

/// Maximum number of buckets with a label of their own.
const MAX_BUCKETS: usize = 200;
/// Label of requests for other buckets, and for buckets that do not exist.
const OTHER: &str = "other";

fn histogram() -> Histogram {
    Histogram::new(LATENCY_EDGES_S)
}

/// Metrics of requests.
#[derive(Debug, Clone)]
pub struct RequestMetrics {
    requests: Family<ByStatus, Counter>,
    received: Family<ByOperation, Counter>,
    sent: Family<ByOperation, Counter>,
    seconds: Family<ByOperation, Histogram, fn() -> Histogram>,
    /// Buckets with a label of their own.
    buckets: Arc<RwLock<BTreeSet<String>>>,
}

impl Default for RequestMetrics {
    fn default() -> RequestMetrics {
        RequestMetrics {
            requests: Family::default(),
            received: Family::default(),
            sent: Family::default(),
            seconds: Family::new_with_constructor(histogram as fn() -> Histogram),
            buckets: Arc::default(),
        }
    }
}

impl RequestMetrics {
    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("plimsoll_gateway_requests", "Requests answered", self.requests.clone());
        let help = "Payload bytes of requests";
        registry.register("plimsoll_gateway_received_bytes", help, self.received.clone());
        registry.register("plimsoll_gateway_sent_bytes", "Body bytes of responses", self.sent.clone());
        let help = "Time from a request's first byte to its response being ready";
        registry.register("plimsoll_gateway_request_seconds", help, self.seconds.clone());
    }

    /// Returns the label of a bucket. A bucket gets its label when a request for it succeeds, so that invented
    /// names do not fill the memory.
    fn label(&self, bucket: &str, status: u16) -> String {
        if bucket.is_empty() {
            return String::new();
        }
        if self.buckets.read().unwrap_or_else(PoisonError::into_inner).contains(bucket) {
            return bucket.to_string();
        }
        let mut known = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        if status < 400 && known.len() < MAX_BUCKETS {
            known.insert(bucket.to_string());
            return bucket.to_string();
        }
        OTHER.to_string()
    }
}

impl RequestObserver for RequestMetrics {
    fn finished(&self, request: &FinishedRequest<'_>) {
        let operation = request.operation.map_or("rejected".to_string(), |o| format!("{o:?}"));
        let by = ByOperation { bucket: self.label(request.bucket, request.status), operation };
        self.received.get_or_create(&by).inc_by(request.bytes_in);
        self.sent.get_or_create(&by).inc_by(request.bytes_out);
        self.seconds.get_or_create(&by).observe(request.duration_ns as f64 / 1e9);
        let ByOperation { bucket, operation } = by;
        self.requests.get_or_create(&ByStatus { bucket, operation, status: request.status }).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invented_buckets_share_a_label() {
        let metrics = RequestMetrics::default();
        for number in 0..1000 {
            assert_eq!(metrics.label(&format!("invented-{number}"), 404), OTHER);
        }
        assert_eq!((metrics.label("b", 200), metrics.label("b", 404)), ("b".into(), "b".into()));
        for number in 0..1000 {
            metrics.label(&format!("real-{number}"), 200);
        }
        assert_eq!(metrics.buckets.read().unwrap().len(), MAX_BUCKETS);
        assert_eq!(metrics.label("real-999", 200), OTHER);
    }
}
