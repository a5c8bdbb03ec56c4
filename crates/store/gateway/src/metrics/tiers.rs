//! Metrics of the requests to the tiers and their costs, by tier, bucket and kind of request.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_base::provider::calls::{Call, Calls};
use plimsoll_cost::tariff::Tariff;
use plimsoll_cost::tiering::crosses;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use plimsoll_backup::running::Running;
use plimsoll_bodies::pricing::Work;
use plimsoll_bodies::tier::counted::{CallCount, OriginUsage, TierUsage};
use plimsoll_bodies::tier::{Tier, Tiers};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCall {
    tier: String,
    call: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByTier {
    tier: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByBucketAndCall {
    tier: String,
    bucket: String,
    call: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByBucket {
    tier: String,
    bucket: String,
}

/// Metrics of the tiers.
pub struct TierMetrics {
    /// Tiers by their numbers.
    pub tiers: Tiers,
    /// Tariffs of the tiers with prices.
    pub tariffs: BTreeMap<u16, Tariff>,
    /// Number of the tier in whose network the gateway runs.
    pub home: Option<u16>,
    /// Backup, whose place has its own requests.
    pub backup: Running,
}

/// Number of the place of the backup among the tiers.
const BACKUP: u16 = u16::MAX;

impl std::fmt::Debug for TierMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TierMetrics")
    }
}

impl TierMetrics {
    /// Returns the tiers, and the place of the backup.
    fn all(&self) -> impl Iterator<Item = (u16, &Tier)> {
        let backup = self.backup.get().map(|backup| (BACKUP, backup.tier()));
        self.tiers.iter().chain(backup)
    }

    fn tariff(&self, number: u16) -> Option<&Tariff> {
        match self.backup.get() {
            Some(backup) if number == BACKUP => backup.tariff(),
            _ => self.tariffs.get(&number),
        }
    }

    /// Returns the cost of the bytes that cross the internet between a tier and the gateway, as plans compute it: the
    /// provider of the tier bills the bytes read from it, and the provider of the gateway bills the bytes written to
    /// it.
    fn egress_usd(&self, tariff: Option<&Tariff>, usage: &OriginUsage) -> Option<f64> {
        let (tariff, home) = (tariff?, self.tariffs.get(&self.home?)?);
        let leaves = |from: &Tariff, to: &Tariff, bytes: u64| {
            let egress = if crosses(from, to) { bytes } else { 0 };
            Work { egress, ..Work::default() }.cost(from).ok().map(|usd| usd.dollars())
        };
        Some(leaves(tariff, home, usage.downloaded())? + leaves(home, tariff, usage.uploaded())?)
    }

    /// Encodes a metric of each kind of request that a tier has received.
    fn by_call<M: EncodeMetric>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        kind: MetricType,
        of: impl Fn(&CallCount) -> M,
    ) -> std::fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, kind)?;
        for (_, tier) in self.all() {
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
        name: &str,
        help: &str,
        of: impl Fn(&TierUsage) -> &AtomicU64,
    ) -> std::fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (_, tier) in self.all() {
            let labels = ByTier { tier: tier.name.clone() };
            let counter = ConstCounter::new(of(&tier.usage).load(Ordering::Relaxed));
            counter.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// Encodes the cost of requests by bucket and kind.
    fn request_costs(&self, encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
        let help = "Cost at list prices of the requests to a tier; bucket (background) stands for moves";
        let name = "plimsoll_gateway_tier_request_dollars";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (number, tier) in self.all() {
            let Some(tariff) = self.tariff(number) else { continue };
            for (bucket, usage) in tier.usage.origins() {
                for call in Call::ALL {
                    let requests = usage.requests(call);
                    let work = Work { calls: Calls::of(call, requests), ..Work::default() };
                    let Some(usd) = work.cost(tariff).ok().filter(|_| requests > 0) else { continue };
                    let (tier, bucket) = (tier.name.clone(), bucket.to_string());
                    let labels = ByBucketAndCall { tier, bucket, call: call.name() };
                    ConstCounter::new(usd.dollars()).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }

    /// Encodes a number for each tier and bucket.
    fn by_bucket(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        of: impl Fn(Option<&Tariff>, &OriginUsage) -> Option<f64>,
    ) -> std::fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (number, tier) in self.all() {
            for (bucket, usage) in tier.usage.origins() {
                let Some(value) = of(self.tariff(number), &usage) else { continue };
                let labels = ByBucket { tier: tier.name.clone(), bucket: bucket.to_string() };
                ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// Returns the cost of the bytes that were written to and read from a tier, without requests.
fn transfer_usd(tariff: Option<&Tariff>, usage: &OriginUsage) -> Option<f64> {
    let (uploaded, downloaded) = (usage.uploaded(), usage.downloaded());
    let work = Work { uploaded, downloaded, ..Work::default() };
    Some(work.cost(tariff?).ok()?.dollars())
}

impl Collector for TierMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let counter = |of: fn(&CallCount) -> &AtomicU64| {
            move |count: &CallCount| ConstCounter::new(of(count).load(Ordering::Relaxed))
        };
        self.by_call(
            &mut encoder,
            "plimsoll_gateway_tier_requests",
            "Requests to a tier that have ended",
            MetricType::Counter,
            counter(|count| &count.requests),
        )?;
        self.by_call(
            &mut encoder,
            "plimsoll_gateway_tier_errors",
            "Requests to a tier that have failed",
            MetricType::Counter,
            counter(|count| &count.errors),
        )?;
        self.by_call(
            &mut encoder,
            "plimsoll_gateway_tier_request_seconds",
            "Time from a request to a tier to its response",
            MetricType::Histogram,
            |count| count.seconds.clone(),
        )?;
        self.by_tier(
            &mut encoder,
            "plimsoll_gateway_tier_uploaded_bytes",
            "Bytes of blobs written to a tier",
            |usage| &usage.uploaded,
        )?;
        self.by_tier(
            &mut encoder,
            "plimsoll_gateway_tier_downloaded_bytes",
            "Bytes of blobs read from a tier",
            |usage| &usage.downloaded,
        )?;
        self.request_costs(&mut encoder)?;
        let help = "Cost at list prices of the bytes written to and read from a tier, without egress";
        self.by_bucket(&mut encoder, "plimsoll_gateway_tier_transfer_dollars", help, transfer_usd)?;
        let help =
            "Cost at list prices of the bytes that leave a provider between a tier and the first write tier";
        let name = "plimsoll_gateway_tier_egress_dollars";
        self.by_bucket(&mut encoder, name, help, |tariff, usage| self.egress_usd(tariff, usage))?;
        let help = "Bytes of blobs read from a tier by bucket";
        let name = "plimsoll_gateway_tier_bucket_downloaded_bytes";
        self.by_bucket(&mut encoder, name, help, |_, usage| Some(usage.downloaded() as f64))
    }
}
