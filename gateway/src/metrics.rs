//! Prometheus metrics of the gateway, and its health pages.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll::metrics::{LATENCY_EDGES_S, Pages, listen};
use plimsoll::provider::calls::Call;
use plimsoll::server::observer::{FinishedRequest, RequestObserver};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::catalog::any::AnyCatalog;
use crate::catalog::embedded::Engine;
use crate::tier::Tiers;
use crate::tier::counted::{CallCount, TierUsage};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStatus {
    operation: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOperation {
    operation: String,
}

fn histogram() -> Histogram {
    Histogram::new(LATENCY_EDGES_S)
}

/// Metrics of requests by operation.
#[derive(Debug, Clone)]
pub struct GatewayMetrics {
    requests: Family<ByStatus, Counter>,
    received: Family<ByOperation, Counter>,
    sent: Family<ByOperation, Counter>,
    seconds: Family<ByOperation, Histogram, fn() -> Histogram>,
}

impl Default for GatewayMetrics {
    fn default() -> GatewayMetrics {
        GatewayMetrics {
            requests: Family::default(),
            received: Family::default(),
            sent: Family::default(),
            seconds: Family::new_with_constructor(histogram as fn() -> Histogram),
        }
    }
}

impl RequestObserver for GatewayMetrics {
    fn finished(&self, request: &FinishedRequest<'_>) {
        let operation = request.operation.map_or("rejected".to_string(), |o| format!("{o:?}"));
        let by = ByOperation { operation: operation.clone() };
        self.requests.get_or_create(&ByStatus { operation, status: request.status }).inc();
        self.received.get_or_create(&by).inc_by(request.bytes_in);
        self.sent.get_or_create(&by).inc_by(request.bytes_out);
        self.seconds.get_or_create(&by).observe(request.duration_ns as f64 / 1e9);
    }
}

/// Metrics that are read from the engine at a scrape.
#[derive(Debug)]
struct EngineMetrics(Arc<Engine>);

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Engine")
    }
}

impl Collector for EngineMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let engine = &self.0;
        let c = &engine.counters;
        let counters: [(&str, &str, &AtomicU64); 7] = [
            ("groups", "Groups of transactions written to the log", &c.groups),
            ("transactions", "Transactions in these groups", &c.transactions),
            ("log_bytes", "Bytes written to the log", &c.log_bytes),
            ("index_flushes", "Tables written from memory", &c.flushes),
            ("index_merges", "Merges of tables", &c.merges),
            ("compacted_segments", "Segments removed by compaction", &c.compacted_segments),
            ("compacted_bytes", "Bytes copied by compaction", &c.compacted_bytes),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value.load(Ordering::Relaxed));
            let name = format!("plimsoll_gateway_{name}");
            let metric = encoder.encode_descriptor(&name, help, None, counter.metric_type())?;
            counter.encode(metric)?;
        }
        let seconds = ConstCounter::new(c.sync_ns.load(Ordering::Relaxed) as f64 / 1e9);
        let name = "plimsoll_gateway_sync_seconds";
        let metric =
            encoder.encode_descriptor(name, "Time in syncs of the log", None, seconds.metric_type())?;
        seconds.encode(metric)?;
        let segments = engine.segments();
        let total: u64 = segments.iter().map(|s| s.bytes.load(Ordering::Relaxed)).sum();
        let live: i64 = segments.iter().map(|s| s.live.load(Ordering::Relaxed).max(0)).sum();
        let gauges: [(&str, &str, i64); 7] = [
            ("segments", "Segments of the log", segments.len() as i64),
            ("segment_bytes", "Bytes of the log", total as i64),
            ("live_bytes", "Bytes of the log that are in use", live),
            ("index_tables", "Tables of the index", engine.tables() as i64),
            ("index_bytes", "Bytes of the index", engine.index_bytes() as i64),
            ("free_bytes", "Free bytes of the disk", engine.free_bytes().unwrap_or(0) as i64),
            (
                "writes_stopped",
                "1 if a failure of the disk has stopped all writes",
                i64::from(engine.stop_reason().is_some()),
            ),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(value);
            let name = format!("plimsoll_gateway_{name}");
            let metric = encoder.encode_descriptor(&name, help, None, gauge.metric_type())?;
            gauge.encode(metric)?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCall {
    tier: String,
    call: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByTier {
    tier: String,
}

/// Metrics of the requests to the tiers.
#[derive(Debug)]
struct TierMetrics(Tiers);

impl TierMetrics {
    /// Encodes a metric of each kind of request that a tier has received.
    fn by_call<M: EncodeMetric>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        kind: MetricType,
        of: impl Fn(&CallCount) -> M,
    ) -> std::fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, kind)?;
        for (_, tier) in self.0.iter() {
            for call in Call::ALL {
                let count = tier.usage.of(call);
                if count.requests.load(Ordering::Relaxed) > 0 {
                    let labels = ByCall { tier: tier.name.clone(), call: call.name() };
                    of(count).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }

    /// Encodes a counter of each tier.
    fn by_tier(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        of: impl Fn(&TierUsage) -> &AtomicU64,
    ) -> std::fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (_, tier) in self.0.iter() {
            let labels = ByTier { tier: tier.name.clone() };
            let counter = ConstCounter::new(of(&tier.usage).load(Ordering::Relaxed));
            counter.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Collector for TierMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let counter = |of: fn(&CallCount) -> &AtomicU64| {
            move |count: &CallCount| ConstCounter::new(of(count).load(Ordering::Relaxed))
        };
        let requests = ("plimsoll_gateway_tier_requests", "Requests to a tier that have ended");
        self.by_call(&mut encoder, requests, MetricType::Counter, counter(|count| &count.requests))?;
        let errors = ("plimsoll_gateway_tier_errors", "Requests to a tier that have failed");
        self.by_call(&mut encoder, errors, MetricType::Counter, counter(|count| &count.errors))?;
        let seconds =
            ("plimsoll_gateway_tier_request_seconds", "Time from a request to a tier to its response");
        self.by_call(&mut encoder, seconds, MetricType::Histogram, |count| count.seconds.clone())?;
        let uploaded = ("plimsoll_gateway_tier_uploaded_bytes", "Bytes of blobs written to a tier");
        self.by_tier(&mut encoder, uploaded, |usage| &usage.uploaded)?;
        let downloaded = ("plimsoll_gateway_tier_downloaded_bytes", "Bytes of blobs read from a tier");
        self.by_tier(&mut encoder, downloaded, |usage| &usage.downloaded)
    }
}

/// Serves metrics and health pages on an address until the process ends. Returns the bound address.
///
/// # Errors
/// If the address cannot be used.
pub fn serve(
    address: &str,
    metrics: &GatewayMetrics,
    catalog: &Arc<AnyCatalog>,
    tiers: &Tiers,
) -> std::io::Result<SocketAddr> {
    let mut registry = Registry::default();
    registry.register("plimsoll_gateway_requests", "Requests answered", metrics.requests.clone());
    registry.register(
        "plimsoll_gateway_received_bytes",
        "Payload bytes of requests",
        metrics.received.clone(),
    );
    registry.register("plimsoll_gateway_sent_bytes", "Body bytes of responses", metrics.sent.clone());
    let help = "Time from a request's first byte to its response being ready";
    registry.register("plimsoll_gateway_request_seconds", help, metrics.seconds.clone());
    if let Some(engine) = catalog.engine() {
        registry.register_collector(Box::new(EngineMetrics(Arc::clone(engine))));
    }
    registry.register_collector(Box::new(TierMetrics(tiers.clone())));
    let catalog = Arc::clone(catalog);
    let pages: Pages = Arc::new(move |path| match path {
        "/healthz" => Some((200, "ok\n".into())),
        "/readyz" => Some(match catalog.check() {
            Ok(()) => (200, "ready\n".into()),
            Err(problem) => (503, format!("{problem}\n")),
        }),
        _ => None,
    });
    listen(address, Arc::new(registry), Some(pages))
}
