//! Metrics of a standby.

use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;

use plimsoll_catalog::following::Following;

/// Metrics of the copy of a catalog that another gateway leads.
#[derive(Debug)]
pub struct StandbyMetrics(pub Arc<Following>);

impl Collector for StandbyMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let state = self.0.state();
        let gauges = [
            (
                "standby_lag_seconds",
                "Time since the copy had everything that was in the place of the backup",
                Some(state.lag_seconds),
            ),
            (
                "standby_newest_timestamp_seconds",
                "Unix time of the newest write in the copy",
                state.newest_ms.map(|ms| ms as f64 / 1000.0),
            ),
        ];
        for (name, help, value) in gauges {
            let Some(value) = value else { continue };
            let gauge = ConstGauge::new(value);
            let name = format!("plimsoll_gateway_{name}");
            gauge.encode(encoder.encode_descriptor(&name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}
