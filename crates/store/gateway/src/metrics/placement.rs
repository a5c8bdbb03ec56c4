//! Metrics of the work in the background: where objects are, what their storage costs, and what waits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_cost::tariff::Tariff;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use plimsoll_backup::last;
use plimsoll_catalog::ambient::{now_ms, shared_now_ms};
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::disk::real::free_bytes;
use plimsoll_maintenance::mover::survey::{LatestSurvey, Survey, Where};
use plimsoll_maintenance::scrub::progress;
use plimsoll_objects::Store;
use plimsoll_objects::queues::queues;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPlace {
    bucket: String,
    location: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByTier {
    tier: String,
}

/// Metrics that are read from a store at a scrape.
pub struct PlacementMetrics {
    /// Store with the catalog and the tiers.
    pub store: Arc<Store<AnyCatalog>>,
    /// Result of the last visit of all objects.
    pub survey: Arc<LatestSurvey>,
    /// Tariffs of the tiers with prices.
    pub tariffs: BTreeMap<u16, Tariff>,
}

impl std::fmt::Debug for PlacementMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PlacementMetrics")
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> std::fmt::Result {
    let gauge = ConstGauge::new(value);
    let name = format!("plimsoll_gateway_{name}");
    gauge.encode(encoder.encode_descriptor(&name, help, None, gauge.metric_type())?)
}

impl PlacementMetrics {
    fn name(&self, place: Where) -> String {
        match place {
            None => "catalog".into(),
            Some(number) => self.tier_name(number),
        }
    }

    fn tier_name(&self, number: u16) -> String {
        let tier = self.store.blobs.tiers().get(number);
        tier.map_or_else(|| format!("tier {number}"), |tier| tier.name.clone())
    }

    /// Encodes a number for each bucket and place.
    fn by_place(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        values: impl Iterator<Item = ((Arc<str>, Where), u64)>,
    ) -> std::fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for ((bucket, place), value) in values {
            let labels = ByPlace { bucket: bucket.to_string(), location: self.name(place) };
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// Encodes a number for each tier.
    fn by_tier(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        values: impl Iterator<Item = (u16, f64)>,
    ) -> std::fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (number, value) in values {
            let labels = ByTier { tier: self.tier_name(number) };
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// Encodes the age of the last backup, and the results of the verification in the background.
    fn encode_safety(&self, encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
        let age_s = |at_ms: u64| shared_now_ms().saturating_sub(at_ms) as f64 / 1000.0;
        let backup_ms = last::time_ms(&*self.store.catalog);
        if let Ok(Some(at_ms)) = backup_ms {
            gauge(
                encoder,
                "backup_age_seconds",
                "Age of the last recorded backup of the catalog",
                age_s(at_ms),
            )?;
        }
        let stopped = last::is_outdated(&backup_ms, shared_now_ms(), self.store.retain_ms);
        let help = "1 if nothing is deleted because the last backup is older than retain.deleted";
        gauge(encoder, "deletions_stopped", help, f64::from(stopped))?;
        let Ok(progress) = progress::load(&*self.store.catalog) else { return Ok(()) };
        let began_ms = progress.current.as_ref().map(|current| current.began_ms);
        if let Some(at_ms) = progress.last.as_ref().map(|last| last.ended_ms).or(began_ms) {
            let help =
                "Time since the last verification of all objects has ended, or the first one has begun";
            gauge(encoder, "scrub_age_seconds", help, age_s(at_ms))?;
        }
        let mut counts: Vec<_> = progress.last.iter().map(|last| last.counts).collect();
        counts.extend(progress.current.iter().map(|current| current.counts));
        let most = |of: fn(&progress::Counts) -> u64| counts.iter().map(of).max().unwrap_or(0) as f64;
        let help = "Objects that the last verification or the current one has found damaged";
        gauge(encoder, "scrub_damaged_objects", help, most(|counts| counts.damaged))?;
        let help = "Deleted and replaced objects that are kept, and whose bytes are damaged";
        gauge(encoder, "scrub_damaged_kept_objects", help, most(|counts| counts.kept))?;
        let help = "Readable objects of which another copy is damaged or missing";
        gauge(encoder, "scrub_damaged_copies", help, most(|counts| counts.copies))?;
        let help = "Objects that could not be verified, because a tier did not answer";
        gauge(encoder, "scrub_unverified_objects", help, most(|counts| counts.unverified))?;
        let done = progress.current.map_or(0, |current| current.counts.objects);
        gauge(encoder, "scrub_objects", "Objects that the current verification has verified", done as f64)
    }

    /// Encodes what is kept of deleted and replaced objects.
    fn encode_kept(&self, encoder: &mut DescriptorEncoder<'_>, survey: &Survey) -> std::fmt::Result {
        let kept = || survey.kept.iter().filter_map(|(place, stock)| place.map(|number| (number, stock)));
        self.by_tier(
            encoder,
            "plimsoll_gateway_kept_bytes",
            "Bytes of deleted and replaced objects that are kept in a tier",
            kept().map(|(number, stock)| (number, stock.bytes as f64)),
        )?;
        let priced = kept().filter_map(|(number, stock)| {
            Some((number, stock.month(self.tariffs.get(&number)?).ok()?.dollars()))
        });
        self.by_tier(
            encoder,
            "plimsoll_gateway_kept_month_dollars",
            "Cost at list prices of a month of storage of these bytes",
            priced,
        )
    }

    fn encode_survey(&self, encoder: &mut DescriptorEncoder<'_>, survey: &Survey) -> std::fmt::Result {
        self.encode_kept(encoder, survey)?;
        let age_s = now_ms().saturating_sub(survey.at_ms) as f64 / 1000.0;
        gauge(encoder, "survey_age_seconds", "Time since the last visit of all objects", age_s)?;
        let counts = survey.objects.iter().map(|(place, stock)| (place.clone(), stock.blobs));
        self.by_place(
            encoder,
            "plimsoll_gateway_objects",
            "Objects and versions by the place of their bodies",
            counts,
        )?;
        let counts = survey.objects.iter().map(|(place, stock)| (place.clone(), stock.bytes));
        self.by_place(encoder, "plimsoll_gateway_object_bytes", "Bytes of bodies by place", counts)?;
        self.by_tier(
            encoder,
            "plimsoll_gateway_tier_blobs",
            "Blobs and pack files in a tier, with sources that moves keep",
            survey.blobs.iter().map(|(tier, stock)| (*tier, stock.blobs as f64)),
        )?;
        self.by_tier(
            encoder,
            "plimsoll_gateway_tier_blob_bytes",
            "Bytes of blobs and pack files in a tier",
            survey.blobs.iter().map(|(tier, stock)| (*tier, stock.bytes as f64)),
        )?;
        let priced = survey.blobs.iter().filter_map(|(number, stock)| {
            Some((*number, stock.month(self.tariffs.get(number)?).ok()?.dollars()))
        });
        self.by_tier(
            encoder,
            "plimsoll_gateway_tier_month_dollars",
            "Cost at list prices of a month of storage in a tier",
            priced,
        )?;
        let hot = self.store.write_tiers().first().and_then(|hot| self.tariffs.get(hot));
        if let Some(Ok(usd)) = hot.map(|tariff| survey.all().month(tariff)) {
            let help =
                "Cost of a month of storage if every object was a blob in the tier that receives writes";
            gauge(encoder, "hot_month_dollars", help, usd.dollars())?;
        }
        let help = "Blobs that the rules move, and that have not been moved yet";
        gauge(encoder, "waiting_moves", help, survey.moves.blobs as f64)?;
        gauge(encoder, "waiting_move_bytes", "Bytes of these blobs", survey.moves.bytes as f64)?;
        let help = "Bodies that the rules pack, and that have not been packed yet";
        gauge(encoder, "waiting_packs", help, survey.packs.blobs as f64)?;
        gauge(encoder, "waiting_pack_bytes", "Bytes of these bodies", survey.packs.bytes as f64)
    }
}

impl Collector for PlacementMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let encoder = &mut encoder;
        let leads = f64::from(self.store.is_leader());
        gauge(encoder, "leader", "1 if this gateway moves and deletes objects", leads)?;
        let ahead_s = self.store.clock_ahead_ms.load(Ordering::Relaxed) as f64 / 1000.0;
        let help =
            "Seconds by which the clock of this machine is ahead of the database's or the tiers' clock";
        gauge(encoder, "clock_ahead_seconds", help, ahead_s)?;
        let owns = f64::from(self.store.owns_tiers.load(Ordering::Relaxed));
        let help = "0 if a tier belongs to another catalog, or has seen a later state of this one";
        gauge(encoder, "owns_tiers", help, owns)?;
        let tiers = self.store.blobs.tiers().iter();
        self.by_tier(
            encoder,
            "plimsoll_gateway_tier_answers",
            "0 if the last reads or writes of a tier have failed, and others are used",
            tiers.map(|(number, tier)| (number, f64::from(tier.answers()))),
        )?;
        let directories =
            self.store.blobs.tiers().iter().filter_map(|(number, tier)| {
                Some((number, free_bytes(tier.directory.as_deref()?).ok()? as f64))
            });
        self.by_tier(
            encoder,
            "plimsoll_gateway_tier_free_bytes",
            "Free bytes of the disk of a tier in a directory",
            directories,
        )?;
        // A catalog that does not answer has no queues; /readyz reports it.
        if let Ok(queues) = queues(&*self.store.catalog, now_ms(), self.store.retain_ms) {
            let overdue_s = queues.deletion_overdue_ms as f64 / 1000.0;
            let help = "Time since the first bytes should have been deleted";
            gauge(encoder, "deletion_overdue_seconds", help, overdue_s)?;
            gauge(encoder, "unfinished_moves", "Moves that have begun", queues.moves as f64)?;
            let help = "Age of the oldest unfinished move";
            gauge(encoder, "oldest_move_seconds", help, queues.oldest_move_ms as f64 / 1000.0)?;
        }
        self.encode_safety(encoder)?;
        match self.survey.get() {
            Some(survey) => self.encode_survey(encoder, &survey),
            None => Ok(()),
        }
    }
}
