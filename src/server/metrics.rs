//! What the server counts for Prometheus, where `--metrics-listen` asks for it.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::metrics::LATENCY_EDGES_S;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStatus {
    method: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByMethod {
    method: String,
}

/// The counters.
#[derive(Debug, Clone)]
pub struct ServerMetrics {
    requests: Family<ByStatus, Counter>,
    bytes: Family<ByMethod, Counter>,
    seconds: Family<ByMethod, Histogram, fn() -> Histogram>,
}

fn histogram() -> Histogram {
    Histogram::new(LATENCY_EDGES_S)
}

impl ServerMetrics {
    /// Counters, registered.
    pub fn new(registry: &mut Registry) -> ServerMetrics {
        let metrics = ServerMetrics {
            requests: Family::default(),
            bytes: Family::default(),
            seconds: Family::new_with_constructor(histogram as fn() -> Histogram),
        };
        registry.register("plimsoll_server_requests", "Requests answered", metrics.requests.clone());
        registry.register(
            "plimsoll_server_object_bytes",
            "Object bytes in requests and answers",
            metrics.bytes.clone(),
        );
        let help = "First byte of a request received to its answer ready, injected waits included";
        registry.register("plimsoll_server_request_seconds", help, metrics.seconds.clone());
        metrics
    }

    /// Counts a request.
    pub fn count(&self, method: &str, status: u16, bytes: u64, ns: u64) {
        let by = ByMethod { method: method.into() };
        self.requests.get_or_create(&ByStatus { method: method.into(), status }).inc();
        self.bytes.get_or_create(&by).inc_by(bytes);
        self.seconds.get_or_create(&by).observe(ns as f64 / 1e9);
    }
}
