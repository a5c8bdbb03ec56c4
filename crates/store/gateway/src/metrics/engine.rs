//! Metrics of the engine of an embedded catalog.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use plimsoll_catalog::embedded::Engine;

/// Metrics that are read from the engine at a scrape.
pub struct EngineMetrics(pub Arc<Engine>);

impl std::fmt::Debug for EngineMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EngineMetrics")
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
            ("compacted_segments", "Log segments that compaction removed", &c.compacted_segments),
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
            ("segments", "Log segments", segments.len() as i64),
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
