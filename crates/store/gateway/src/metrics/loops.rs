//! Metrics of the loops of the background work.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use plimsoll_catalog::liveness::{self, LoopState};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByLoop {
    r#loop: &'static str,
}

/// Metrics that are read from the loops at a scrape.
#[derive(Debug)]
pub struct LoopMetrics;

fn by_loop(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: impl Fn(&LoopState) -> u64,
) -> std::fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for found in liveness::all() {
        ConstGauge::new(value(&found)).encode(family.encode_family(&ByLoop { r#loop: found.name })?)?;
    }
    Ok(())
}

impl Collector for LoopMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        by_loop(
            &mut encoder,
            "plimsoll_gateway_loop_idle_seconds",
            "Seconds since a loop of the background work should have continued",
            |found| found.late_s,
        )?;
        by_loop(
            &mut encoder,
            "plimsoll_gateway_loop_stalled",
            "1 if a loop of the background work has made no progress for a minute",
            |found| u64::from(found.is_stalled),
        )
    }
}
