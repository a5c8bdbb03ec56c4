//! Metrics of the backup of the catalog.

use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use plimsoll_backup::running::Running;
use plimsoll_catalog::any::AnyCatalog;

/// Metrics that are read from the backup at a scrape; none if this gateway makes no backup.
pub struct BackupMetrics {
    /// The backup that this process makes.
    pub backup: Running,
    /// The catalog, whose lease the journal extends.
    pub catalog: Arc<AnyCatalog>,
}

impl std::fmt::Debug for BackupMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BackupMetrics")
    }
}

impl Collector for BackupMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(state) = self.backup.get().map(|backup| backup.state()) else { return Ok(()) };
        let newest = state.newest_ms.map(|ms| ms as f64 / 1000.0);
        let lease = self.catalog.lease().map(|lease| lease.left_ms() as f64 / 1000.0);
        let gauges = [
            (
                "journal_lease_seconds",
                "Time until another gateway may lead, if nothing more reaches the journal",
                lease,
            ),
            (
                "backup_lag_seconds",
                "Time since the backup had everything; 0 while nothing is missing",
                Some(state.lag_seconds),
            ),
            ("backup_newest_timestamp_seconds", "Unix time of the newest state in the backup", newest),
            (
                "backup_damaged",
                "1 if the last verification has found that not every state can be restored",
                Some(f64::from(u8::from(state.damage.is_some()))),
            ),
        ];
        for (name, help, value) in gauges {
            let Some(value) = value else { continue };
            let gauge = ConstGauge::new(value);
            let name = format!("plimsoll_gateway_{name}");
            gauge.encode(encoder.encode_descriptor(&name, help, None, gauge.metric_type())?)?;
        }
        let counter = ConstCounter::new(state.log_bytes);
        let (name, help) =
            ("plimsoll_gateway_backup_log_bytes", "Bytes of the log that were shipped to the backup");
        counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)
    }
}
