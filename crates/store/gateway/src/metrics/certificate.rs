//! Metric of the certificate.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;

use crate::certificate;

/// Metric that is read at a scrape.
#[derive(Debug)]
pub struct CertificateMetrics;

impl Collector for CertificateMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let Some(left_s) = certificate::left_s() else { return Ok(()) };
        let gauge = ConstGauge::new(left_s as f64);
        let name = "plimsoll_gateway_certificate_left_seconds";
        let help = "Seconds until the certificate of --tls-cert expires; negative afterwards";
        gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
    }
}
