//! Cost of keeping young objects in a hot store and older ones in a cold store, for every age at which objects
//! can move.
//!
//! The model is a steady state: objects arrive evenly, live for `keep` days and are read according to their
//! age. An object that moves is read from the hot store, sent to the cold store, written there, and deleted
//! from the hot store. Between two storage classes of one provider, a lifecycle rule moves it for the price of
//! a transition. Each object is deleted at the end of its life from the store that it is in.

use serde::Serialize;

use super::bill::{Bill, bill, total};
use super::blend::{Bounds, Distribution, percentile};
use super::charge::BillError;
use super::egress::Egress;
use super::money::Usd;
use super::period::DAY_S;
use super::tariff::Tariff;
use super::usage::Usage;
use super::workload::MONTH_DAYS;
use plimsoll_base::provider::calls::Call;

/// Maximum retention for which ages are computed, in days.
pub const MAX_DAYS: u64 = 3650;

/// Distribution of reads over the age of the objects.
#[derive(Debug, Clone, PartialEq)]
pub enum Reads {
    /// The number of reads changes by the same factor every day: `exp(-rate x age)`, up to the age at which
    /// objects are deleted.
    Exponential {
        /// Decay rate per day; negative if old objects are read more often than young ones.
        rate: f64,
    },
    /// Ages in days, ascending, each with the share of reads that go to younger objects. Linear between the ages.
    Known(Vec<(f64, f64)>),
}

impl Reads {
    /// Returns the exponential distribution in which a share `share` of the reads goes to objects younger than `days`
    /// days, if objects live for `keep` days.
    pub fn through(days: f64, share: f64, keep: f64) -> Reads {
        // The share increases with the rate, so bisection finds the rate.
        let (mut low, mut high) = (-50.0 / (keep - days), 50.0 / days);
        for _ in 0..200 {
            let rate = f64::midpoint(low, high);
            if exponential(rate, days, keep) < share { low = rate } else { high = rate }
        }
        Reads::Exponential { rate: f64::midpoint(low, high) }
    }

    /// Returns the share of reads that go to objects younger than `days` days, if objects live for `keep` days.
    pub fn share(&self, days: f64, keep: f64) -> f64 {
        if days >= keep {
            return 1.0;
        }
        match self {
            Reads::Exponential { rate } => exponential(*rate, days, keep),
            Reads::Known(known) => {
                let (mut before, end) = ((0.0, 0.0), (keep, 1.0));
                for point in known.iter().copied().filter(|(d, _)| *d < keep).chain([end]) {
                    if days <= point.0 {
                        let along = (days - before.0) / (point.0 - before.0);
                        return before.1 + along * (point.1 - before.1);
                    }
                    before = point;
                }
                1.0
            }
        }
    }
}

fn exponential(rate: f64, days: f64, keep: f64) -> f64 {
    let decay = |days: f64| (-rate.abs() * days).exp_m1();
    if (rate * keep).abs() < 1e-9 {
        days / keep
    } else if rate > 0.0 {
        decay(days) / decay(keep)
    } else {
        // The same ratio, in a form that does not overflow.
        (rate * (keep - days)).exp() * decay(days) / decay(keep)
    }
}

/// Two stores, and the objects that are written, read and moved.
#[derive(Debug, Clone)]
pub struct Scenario<'a> {
    /// Tariff of the store for young objects.
    pub hot: &'a Tariff,
    /// Tariff of the store for old objects.
    pub cold: &'a Tariff,
    /// Usage of a month in both stores together: writes, reads and egress.
    pub month: Usage,
    /// Size of the parts in which objects are written, in bytes; `None` if they are written in one request.
    pub part_bytes: Option<u64>,
    /// True if each object is read back after a move, and found before its source is deleted, as `plimsoll-gateway`
    /// does.
    pub verifies_moves: bool,
    /// Retention of the objects, in days.
    pub retention_days: f64,
    /// Distribution of reads over the age of the objects.
    pub reads: Reads,
    /// Latency of reads from the hot and from the cold store; `None` if it is unknown.
    pub latency: Option<(Distribution, Distribution)>,
}

/// Cost and latency if objects move at one age.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Age {
    /// Days after which objects move; 0 if they are written directly to the cold store.
    pub hot_days: u64,
    /// Share of reads that the hot store serves.
    pub hot_reads: f64,
    /// Monthly cost of the hot store.
    pub hot_usd: Usd,
    /// Monthly cost of the cold store.
    pub cold_usd: Usd,
    /// Part of both costs that is due to moving objects.
    pub migration_usd: Usd,
    /// Monthly cost of both stores.
    pub total_usd: Usd,
    /// Median latency of reads; `None` if it is unknown.
    pub p50_ms: Option<Bounds>,
    /// 99th percentile of the latency of reads; `None` if it is unknown.
    pub p99_ms: Option<Bounds>,
}

/// Returns true if both are storage classes of one provider, in one region.
pub(crate) fn is_one_provider(one: &Tariff, other: &Tariff) -> bool {
    one.provider.is_some() && one.provider == other.provider && one.region == other.region
}

/// Returns true if bytes that move between two stores are egress, because the stores do not share a network.
pub fn crosses(one: &Tariff, other: &Tariff) -> bool {
    let is_one_network = one.network.is_some() && one.network == other.network;
    !(is_one_network || is_one_provider(one, other))
}

/// Returns true if bytes that move between two stores stay in one network and change the region.
pub fn changes_region(one: &Tariff, other: &Tariff) -> bool {
    !crosses(one, other) && one.region != other.region
}

fn share_of(bytes: u64, share: f64) -> u64 {
    (bytes as f64 * share.clamp(0.0, 1.0)).round() as u64
}

impl Scenario<'_> {
    /// Returns true if a lifecycle rule moves objects: it changes their storage class in place and reads,
    /// writes and sends nothing.
    pub fn transitions(&self) -> bool {
        is_one_provider(self.hot, self.cold) && self.cold.priced.contains(Call::LifecycleTransition)
    }

    /// Returns true if moved bytes are egress, because the stores do not share a network.
    pub fn crosses(&self) -> bool {
        crosses(self.hot, self.cold)
    }

    /// Returns the monthly usage of the hot and of the cold store. If `moving` is false, objects change stores
    /// without any requests or traffic.
    fn usages(&self, hot_days: u64, moving: bool) -> (Usage, Usage) {
        let days = (hot_days as f64).min(self.retention_days);
        let month = &self.month;
        let puts = month.calls.get(Call::PutObject) + month.calls.get(Call::CreateMultipartUpload);
        let share = self.reads.share(days, self.retention_days);
        let of = |first: bool, lived: f64| {
            let (share, tariff) = if first { (share, self.hot) } else { (1.0 - share, self.cold) };
            let mut usage = Usage {
                object_bytes: month.object_bytes,
                without_allowances: month.without_allowances,
                downloaded: share_of(month.downloaded, share),
                egress: Egress::Stated(share_of(month.egress_at(tariff), share)),
                stored: (month.uploaded as f64 * lived / MONTH_DAYS).round() as u64,
                arriving: Some(month.uploaded).filter(|_| lived > 0.0),
                retention_s: Some((lived * DAY_S as f64).round() as u64).filter(|seconds| *seconds > 0),
                ..Usage::default()
            };
            usage.stored_peak = usage.stored;
            for call in [Call::GetObject, Call::HeadObject] {
                usage.calls.add(call, share_of(month.calls.get(call), share));
            }
            usage
        };
        let (mut hot, mut cold) = (of(true, days), of(false, self.retention_days - days));
        let write = |usage: &mut Usage| usage.write(puts, month.object_bytes, self.part_bytes);
        // Each object is deleted from the store that it is in at the end of its life.
        let last = if days < self.retention_days { &mut cold } else { &mut hot };
        last.calls.add(Call::DeleteObject, puts);
        if hot_days == 0 {
            write(&mut cold);
            return (hot, cold);
        }
        write(&mut hot);
        // Objects leave the hot store without a deletion if a lifecycle rule moves them, or if moving is not
        // counted.
        hot.moves_on = days < self.retention_days && (self.transitions() || !moving);
        if days < self.retention_days && moving && self.transitions() {
            cold.calls.add(Call::LifecycleTransition, puts);
        } else if days < self.retention_days && moving {
            write(&mut cold);
            let moved = puts.saturating_mul(month.object_bytes);
            hot.calls.add(Call::GetObject, puts);
            hot.calls.add(Call::DeleteObject, puts);
            hot.downloaded = hot.downloaded.saturating_add(moved);
            if self.verifies_moves {
                cold.calls.add(Call::GetObject, puts);
                cold.calls.add(Call::HeadObject, puts);
                cold.downloaded = cold.downloaded.saturating_add(moved);
            }
            if self.crosses() {
                hot.egress = hot.egress.map(|bytes| bytes.saturating_add(moved));
                let read_back = if self.verifies_moves { moved } else { 0 };
                cold.egress = cold.egress.map(|bytes| bytes.saturating_add(read_back));
            } else if changes_region(self.hot, self.cold) {
                hot.cross_region = moved;
                cold.cross_region = if self.verifies_moves { moved } else { 0 };
            }
        }
        (hot, cold)
    }

    /// Computes the cost and latency for one age.
    ///
    /// # Errors
    /// [`BillError`] if one of the stores has no bill for its part.
    pub fn age(&self, hot_days: u64) -> Result<Age, BillError> {
        let (hot, cold) = self.usages(hot_days, true);
        let (hot_usd, cold_usd) = (cost(self.hot, &hot)?, cost(self.cold, &cold)?);
        let (still_hot, still_cold) = self.usages(hot_days, false);
        let unmoved = cost(self.hot, &still_hot)? + cost(self.cold, &still_cold)?;
        let hot_reads = self.reads.share((hot_days as f64).min(self.retention_days), self.retention_days);
        let blended = |q| self.latency.as_ref().map(|(hot, cold)| percentile(hot, cold, hot_reads, q));
        Ok(Age {
            hot_days,
            // Further digits are rounding errors of the curve.
            hot_reads: (hot_reads * 1e9).round() / 1e9,
            hot_usd,
            cold_usd,
            migration_usd: hot_usd + cold_usd - unmoved,
            total_usd: hot_usd + cold_usd,
            p50_ms: blended(0.5),
            p99_ms: blended(0.99),
        })
    }

    /// Returns the bills of both stores for one age.
    ///
    /// # Errors
    /// The same as [`Scenario::age`].
    pub fn bills(&self, hot_days: u64) -> Result<(Bill, Bill), BillError> {
        let (hot, cold) = self.usages(hot_days, true);
        Ok((billed(self.hot, &hot)?, billed(self.cold, &cold)?))
    }

    /// Returns the retention in whole days: the age at which all objects stay in the hot store.
    pub fn whole_days(&self) -> u64 {
        (self.retention_days.ceil() as u64).clamp(1, MAX_DAYS)
    }

    /// Returns true if objects can move at this age: a lifecycle rule has a minimum age. The ages 0 (all cold) and that
    /// of the full retention (all hot) need no move.
    pub fn is_possible(&self, hot_days: u64) -> bool {
        let least = if self.transitions() { self.cold.rules.transition_days } else { 0 };
        hot_days == 0 || hot_days >= least.min(self.whole_days())
    }

    /// Computes every possible age from 0 (all cold) to the full retention (all hot), in days. The second list has the
    /// ages without a bill and the reason.
    pub fn ages(&self) -> (Vec<Age>, Vec<(u64, BillError)>) {
        let (mut ages, mut without) = (Vec::new(), Vec::new());
        for days in (0..=self.whole_days()).filter(|days| self.is_possible(*days)) {
            match self.age(days) {
                Ok(age) => ages.push(age),
                Err(why) => without.push((days, why)),
            }
        }
        (ages, without)
    }
}

/// Returns the cost of a store. An unused store costs nothing, not even a minimum charge.
fn cost(tariff: &Tariff, usage: &Usage) -> Result<Usd, BillError> {
    if usage.is_nothing() { Ok(Usd::ZERO) } else { total(tariff, usage) }
}

fn billed(tariff: &Tariff, usage: &Usage) -> Result<Bill, BillError> {
    if !usage.is_nothing() {
        return bill(tariff, usage);
    }
    let mut unused = tariff.clone();
    unused.rules.minimum_billed = 0;
    bill(&unused, usage)
}

/// Returns the cheapest age, and the youngest if several cost the same. With `p99_within_ms`, considers only
/// ages whose p99 has an upper bound within that limit.
pub fn best(ages: &[Age], p99_within_ms: Option<f64>) -> Option<&Age> {
    let within = |age: &&Age| {
        p99_within_ms.is_none_or(|bound| age.p99_ms.and_then(|p| p.high_ms).is_some_and(|p| p <= bound))
    };
    ages.iter().filter(within).min_by_key(|age| age.total_usd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verified_moves_read_each_object_and_find_it() {
        let prices = Prices::built_in().unwrap();
        let date = "2026-11-21".parse().unwrap();
        let (hot, cold) = (
            prices.tariff("aws-s3", None, date).unwrap(),
            prices.tariff("cloudflare-r2", None, date).unwrap(),
        );
        let mut scenario = scenario(&hot, &cold);
        scenario.month.without_allowances = true;
        let plain = scenario.age(7).unwrap().migration_usd;
        scenario.verifies_moves = true;
        // A million reads and a million HEAD requests at 0.36, and R2 has no egress.
        assert_eq!(scenario.age(7).unwrap().migration_usd - plain, Usd::parse("0.72").unwrap());
    }
    use crate::book::Prices;

    fn scenario<'a>(hot: &'a Tariff, cold: &'a Tariff) -> Scenario<'a> {
        let mut month = Usage { object_bytes: 4 << 20, ..Usage::default() };
        month.write(1_000_000, 4 << 20, None);
        month.calls.add(Call::GetObject, 10_000_000);
        month.downloaded = 10_000_000 * (4 << 20);
        month.egress = Egress::Stated(month.downloaded);
        let reads = Reads::through(7.0, 0.8, 90.0);
        Scenario {
            hot,
            cold,
            month,
            part_bytes: None,
            verifies_moves: false,
            retention_days: 90.0,
            reads,
            latency: None,
        }
    }

    fn tariff(name: &str) -> Tariff {
        Prices::built_in().unwrap().tariff(name, None, "2026-11-21".parse().unwrap()).unwrap()
    }

    #[test]
    fn reads_follow_the_known_shares() {
        let reads = Reads::through(7.0, 0.8, 90.0);
        assert!((reads.share(7.0, 90.0) - 0.8).abs() < 1e-9);
        assert_eq!((reads.share(0.0, 90.0), reads.share(90.0, 90.0)), (0.0, 1.0));
        let even = Reads::through(45.0, 0.5, 90.0);
        assert!((even.share(9.0, 90.0) - 0.1).abs() < 1e-9);
        let known = Reads::Known(vec![(1.0, 0.4), (7.0, 0.8)]);
        assert!((known.share(4.0, 30.0) - 0.6).abs() < 1e-12);
        assert!((known.share(18.5, 30.0) - 0.9).abs() < 1e-12);
        // Regression test: the search interval was too small for these extreme shares.
        for (days, share, keep) in
            [(89.0, 0.1, 90.0), (29.0, 0.1, 30.0), (85.0, 0.05, 90.0), (1.0, 0.999, 3650.0)]
        {
            let found = Reads::through(days, share, keep).share(days, keep);
            assert!((found - share).abs() < 1e-6, "{days} of {keep}: {found}");
        }
    }

    /// Regression test: an empty Wasabi store cost its minimum of 1 TB, and one age without a bill made all
    /// ages fail.
    #[test]
    fn an_unused_store_costs_nothing() {
        let (hot, cold) = (tariff("aws-s3"), tariff("wasabi"));
        let hot_first = scenario(&hot, &cold);
        let all_hot = hot_first.age(90).unwrap();
        assert_eq!((all_hot.cold_usd, all_hot.total_usd), (Usd::ZERO, all_hot.hot_usd));
        assert!(hot_first.bills(90).unwrap().1.lines.iter().all(|l| l.amount_usd == Usd::ZERO));
        // Wasabi limits egress to the data stored: objects that move while young exceed the limit.
        let mut cold_last = scenario(&cold, &hot);
        (cold_last.month.egress, cold_last.month.downloaded) = (Egress::Stated(0), 0);
        let (ages, without) = cold_last.ages();
        assert!(ages.iter().any(|a| a.hot_days == 0) && ages.iter().any(|a| a.hot_days == 90));
        assert!(without.iter().any(|(days, _)| *days == 1), "{without:?}");
    }

    /// If all objects stay in one store, the cost is the bill of that store. In between, moving objects costs
    /// extra.
    #[test]
    fn the_first_and_last_age_cost_the_bill_of_one_store() {
        let (hot, cold) = (tariff("aws-s3-express"), tariff("cloudflare-r2"));
        let scenario = scenario(&hot, &cold);
        let (ages, without) = scenario.ages();
        assert!(without.is_empty());
        let mut whole = scenario.month.clone();
        whole.stored = (whole.uploaded as f64 * 90.0 / MONTH_DAYS).round() as u64;
        whole.stored_peak = whole.stored;
        (whole.arriving, whole.retention_s) = (Some(whole.uploaded), Some(90 * DAY_S));
        whole.calls.add(Call::DeleteObject, 1_000_000);
        assert_eq!(ages[0].total_usd, total(&cold, &whole).unwrap());
        assert_eq!(ages[90].total_usd, total(&hot, &whole).unwrap());
        assert_eq!((ages[0].migration_usd, ages[90].migration_usd), (Usd::ZERO, Usd::ZERO));
        // 3,906.25 GiB move: read at 0.0006, sent at 0.07 or 0.085, one million GETs and one million Class A.
        let moved = ages[7].migration_usd.dollars();
        assert!(moved > 3_906.25 * 0.0506 && moved < 3_906.25 * 0.0906 + 5.0, "{moved}");
        assert_eq!(best(&ages, None).unwrap().hot_days, 0, "R2 alone is the cheapest");
    }

    /// Regression test: objects were read, sent, written and deleted although a lifecycle rule only changes
    /// their class.
    #[test]
    fn a_lifecycle_rule_moves_objects_between_classes_of_one_provider() {
        for (hot, cold, moving) in [
            // One million transitions: 0.01 per thousand, 9.00 per million, 0.01 per thousand.
            ("aws-s3", "aws-s3-standard-ia", "10.00"),
            ("cloudflare-r2", "cloudflare-r2-ia", "9.00"),
            ("google-cloud-storage", "google-cloud-storage-nearline", "10.00"),
        ] {
            let (hot, cold) = (tariff(hot), tariff(cold));
            let scenario = scenario(&hot, &cold);
            assert!(scenario.transitions() && !scenario.crosses());
            let age = scenario.age(30).unwrap();
            assert_eq!(age.migration_usd.to_string(), moving, "{}", cold.offer);
            let (usage_hot, usage_cold) = scenario.usages(30, true);
            let share = scenario.reads.share(30.0, 90.0);
            assert_eq!(usage_hot.downloaded, share_of(scenario.month.downloaded, share), "no extra reads");
            assert_eq!((usage_cold.uploaded, usage_cold.calls.get(Call::PutObject)), (0, 0));
            assert_eq!((usage_hot.calls.get(Call::DeleteObject), usage_hot.moves_on), (0, true));
        }
        // No lifecycle rule moves objects to a warmer class or out of S3 Express.
        for (hot, cold) in [("aws-s3-standard-ia", "aws-s3"), ("aws-s3-express", "aws-s3-standard-ia")] {
            assert!(!scenario(&tariff(hot), &tariff(cold)).transitions());
        }
    }

    /// Regression: ages were recommended at which no lifecycle rule moves an object.
    #[test]
    fn lifecycle_rules_have_a_minimum_age() {
        let (hot, cold) = (tariff("aws-s3"), tariff("aws-s3-standard-ia"));
        let ages: Vec<u64> = scenario(&hot, &cold).ages().0.iter().map(|age| age.hot_days).collect();
        assert_eq!((ages[0], ages[1], ages[2], ages.len()), (0, 30, 31, 62), "{ages:?}");
        let (hot, cold) = (tariff("cloudflare-r2"), tariff("cloudflare-r2-ia"));
        assert_eq!(scenario(&hot, &cold).ages().0.len(), 91);
    }

    /// If the workload does not specify egress, reads from B2 are egress and reads from S3 are not.
    #[test]
    fn each_store_has_its_own_assumed_egress() {
        let (hot, cold) = (tariff("aws-s3"), tariff("backblaze-b2"));
        let mut scenario = scenario(&hot, &cold);
        scenario.month.egress = Egress::UNSTATED;
        let (usage_hot, usage_cold) = scenario.usages(90, true);
        assert_eq!((usage_hot.egress.stated(), usage_cold.egress.stated()), (0, 0));
        let (_, usage_cold) = scenario.usages(0, true);
        assert_eq!(usage_cold.egress.stated(), scenario.month.downloaded);
    }

    #[test]
    fn moving_within_one_network_causes_no_egress() {
        let (hot, cold) = (tariff("aws-s3-express"), tariff("aws-s3-standard-ia"));
        let scenario = scenario(&hot, &cold);
        assert!(!scenario.crosses());
        let (bill, _) = scenario.bills(7).unwrap();
        let month: u64 = scenario.month.egress.stated();
        let egress = bill
            .lines
            .iter()
            .filter(|l| l.item.starts_with("egress"))
            .map(|l| l.quantity.parse::<f64>().unwrap());
        assert!((egress.sum::<f64>() - 0.8 * month as f64 / (1u64 << 30) as f64).abs() < 1.0);
    }
}
