//! Prometheus metrics of the server, kept only if `--metrics-listen` is given.

use http::Method;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::observer::{FinishedRequest, RequestObserver};
use plimsoll_base::metrics::LATENCY_EDGES_S;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStatus {
    method: &'static str,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByMethod {
    method: &'static str,
}

/// Returns the label of a method. Clients may send any token as a method, so unknown methods share the label `other`,
/// which bounds the number of time series.
fn label(method: &Method) -> &'static str {
    const KNOWN: [&str; 5] = ["GET", "HEAD", "PUT", "POST", "DELETE"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}

/// Prometheus metrics of all requests, by method.
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
    /// Creates the metrics and registers them with `registry`.
    pub fn new(registry: &mut Registry) -> ServerMetrics {
        let metrics = ServerMetrics {
            requests: Family::default(),
            bytes: Family::default(),
            seconds: Family::new_with_constructor(histogram as fn() -> Histogram),
        };
        registry.register("plimsoll_server_requests", "Requests answered", metrics.requests.clone());
        registry.register(
            "plimsoll_server_object_bytes",
            "Object bytes in requests and responses",
            metrics.bytes.clone(),
        );
        let help = "Time from a request's first byte to its response being ready, including injected delays";
        registry.register("plimsoll_server_request_seconds", help, metrics.seconds.clone());
        metrics
    }
}

impl RequestObserver for ServerMetrics {
    fn finished(&self, request: &FinishedRequest<'_>) {
        let by = ByMethod { method: label(request.method) };
        self.requests.get_or_create(&ByStatus { method: by.method, status: request.status }).inc();
        self.bytes.get_or_create(&by).inc_by(request.bytes_in.max(request.bytes_out));
        self.seconds.get_or_create(&by).observe(request.duration_ns as f64 / 1e9);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_methods_share_one_label() {
        let mut registry = Registry::default();
        let metrics = ServerMetrics::new(&mut registry);
        let count = |method: &Method, status| {
            metrics.finished(&FinishedRequest {
                peer: None,
                forwarded_for: "",
                id: "",
                operation: None,
                method,
                path: "/",
                query: "",
                access_key: "",
                bucket: "",
                status,
                bytes_in: 0,
                copied: None,
                key: "",
                bytes_out: 0,
                content_range: None,
                duration_ns: 1,
            });
        };
        for i in 0..1000 {
            count(&format!("INVENTED{i}").parse().unwrap(), 405);
        }
        count(&Method::GET, 200);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(
            text.contains("method=\"other\",status=\"405\"} 1000") && text.contains("method=\"GET\""),
            "{text}"
        );
        assert!(!text.contains("INVENTED"));
    }
}
