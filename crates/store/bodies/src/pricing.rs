//! Prices of the tiers: which offer of the price books applies to a tier, and what work at it costs.

use std::collections::BTreeMap;

use jiff::civil::Date;
use plimsoll_base::provider::calls::{Call, Calls};
use plimsoll_cost::bill::total;
use plimsoll_cost::book::Prices;
use plimsoll_cost::charge::BillError;
use plimsoll_cost::egress::Egress;
use plimsoll_cost::money::Usd;
use plimsoll_cost::period::{DAY_S, Period};
use plimsoll_cost::tariff::Tariff;
use plimsoll_cost::tiering::crosses;
use plimsoll_cost::usage::Usage;

use crate::tier::{Backend, TierTable};

/// Prices of a tier, and a remark about them.
#[derive(Debug, Clone, PartialEq)]
pub struct TierPrices {
    /// Tariff of the tier.
    pub tariff: Tariff,
    /// Remark, such as an assumed region; `None` if there is none.
    pub note: Option<String>,
}

/// Returns the prices of a tier: those of the offer in its settings, or those of its provider. `None` if the settings
/// say that it has none.
///
/// # Errors
/// A message if the offer is unknown, or the provider has no prices.
pub fn of_tier(
    prices: &Prices,
    table: &TierTable,
    backend: &Backend,
    date: Date,
) -> Result<Option<TierPrices>, String> {
    match table.offer.as_deref() {
        Some("none") => Ok(None),
        Some(offer) => {
            let (name, region) = offer.split_once('@').map_or((offer, None), |(o, r)| (o, Some(r)));
            let tariff = prices.tariff(name, region, date).map_err(|e| format!("offer: {e}"))?;
            let assumed = prices.assumed_region(name).filter(|_| region.is_none());
            let note = assumed.map(|region| format!("prices of {region} are assumed; write {name}@REGION"));
            Ok(Some(TierPrices { tariff, note }))
        }
        // A disk of the user has no price list.
        None if backend.directory.is_some() => Ok(None),
        None => {
            let unknown = || {
                "there are no prices for this store; set offer to a name from `plimsoll list prices`, or \
                    to \"none\" if it has no price"
                    .to_string()
            };
            let provider = backend.provider.as_deref().ok_or_else(unknown)?;
            let class = backend.storage_class.as_deref();
            let found = prices.of_store(provider, backend.region.as_deref(), class, date);
            let found = found.map_err(|e| e.to_string())?.ok_or_else(unknown)?;
            Ok(Some(TierPrices { tariff: found.tariff, note: found.note }))
        }
    }
}

/// Work at a tier that moves need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    /// Requests by kind.
    pub calls: Calls,
    /// Bytes of blobs written.
    pub uploaded: u64,
    /// Bytes of blobs read.
    pub downloaded: u64,
    /// Bytes among those read that leave the provider for the internet.
    pub egress: u64,
    /// Bytes of blobs that are deleted before the minimum duration of the store, by the days that are still billed.
    pub early: BTreeMap<u64, u64>,
    /// Size of a blob in bytes, for rules that depend on it.
    pub object_bytes: u64,
}

impl Work {
    /// Adds the requests that write a blob, as [`crate::blob`] sends them.
    pub fn write(&mut self, bytes: u64, part: u64) {
        if bytes < part {
            self.calls.add(Call::PutObject, 1);
        } else {
            self.calls.add(Call::CreateMultipartUpload, 1);
            self.calls.add(Call::UploadPart, bytes.div_ceil(part));
            self.calls.add(Call::CompleteMultipartUpload, 1);
        }
        self.uploaded += bytes;
    }

    /// Adds other work at the same tier.
    pub fn add(&mut self, other: Work) {
        Call::ALL.iter().for_each(|call| self.calls.add(*call, other.calls.get(*call)));
        self.uploaded += other.uploaded;
        self.downloaded += other.downloaded;
        self.egress += other.egress;
        other.early.into_iter().for_each(|(days, bytes)| *self.early.entry(days).or_default() += bytes);
        self.object_bytes = self.object_bytes.max(other.object_bytes);
    }

    /// Adds requests that read bytes, which leave the provider if they cross.
    pub fn read(&mut self, requests: u64, bytes: u64, crosses: bool) {
        self.calls.add(Call::GetObject, requests);
        self.downloaded += bytes;
        self.egress += if crosses { bytes } else { 0 };
    }

    /// Adds the request that reads a whole blob, or checks that an empty one exists.
    pub fn read_blob(&mut self, bytes: u64, crosses: bool) {
        match bytes {
            0 => self.calls.add(Call::HeadObject, 1),
            bytes => self.read(1, bytes, crosses),
        }
    }

    /// Returns the cost at list prices, without the free allowances and without the storage of what is written.
    ///
    /// # Errors
    /// If something has no price.
    pub fn cost(&self, tariff: &Tariff) -> Result<Usd, BillError> {
        let usage = Usage {
            period: Period::Seconds(0),
            calls: self.calls,
            uploaded: self.uploaded,
            downloaded: self.downloaded,
            egress: Egress::Stated(self.egress),
            object_bytes: self.object_bytes,
            ..Usage::default()
        };
        total(tariff, &usage)
    }

    /// Returns the charge for the rest of the minimum durations.
    ///
    /// # Errors
    /// If storage has no price.
    pub fn early_deletion(&self, tariff: &Tariff) -> Result<Usd, BillError> {
        let mut plain = tariff.clone();
        (plain.rules.minimum_days, plain.rules.deleted_days, plain.rules.deleted_versions) = (0, 0, false);
        let mut sum = Usd::ZERO;
        for (days, bytes) in &self.early {
            let usage = Usage {
                period: Period::Seconds(days * DAY_S),
                stored: *bytes,
                stored_peak: *bytes,
                object_bytes: self.object_bytes,
                ..Usage::default()
            };
            sum += total(&plain, &usage)?;
        }
        Ok(sum)
    }
}

/// Blobs in a tier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Stock {
    /// Number of blobs.
    pub blobs: u64,
    /// Size of the blobs in bytes.
    pub bytes: u64,
}

impl Stock {
    /// Adds a number of blobs.
    pub fn add(&mut self, blobs: u64, bytes: u64) {
        self.blobs = self.blobs.saturating_add(blobs);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Removes a number of blobs.
    pub fn remove(&mut self, blobs: u64, bytes: u64) {
        self.blobs = self.blobs.saturating_sub(blobs);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Returns the cost of storing the blobs for a month, without the free allowances.
    ///
    /// # Errors
    /// If storage has no price.
    pub fn month(&self, tariff: &Tariff) -> Result<Usd, BillError> {
        if self.bytes == 0 {
            return Ok(Usd::ZERO);
        }
        let usage = Usage {
            stored: self.bytes,
            stored_peak: self.bytes,
            object_bytes: self.bytes.checked_div(self.blobs).unwrap_or(0),
            without_allowances: true,
            ..Usage::default()
        };
        total(tariff, &usage)
    }
}

/// Decides whether a move pays for itself during the expected stay in the destination.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// Tariff of the source.
    pub from: Tariff,
    /// Tariff of the destination.
    pub to: Tariff,
    /// Tariff of the tier in whose network the gateway runs.
    pub home: Tariff,
    /// Length of a part of an upload to the destination in bytes.
    pub part: u64,
    /// Days for which a blob is expected to stay.
    pub payback_days: u64,
}

impl Gate {
    /// Returns true if storing `after` bytes in the destination instead of `before` bytes in the source saves more
    /// during the stay than the move costs. `lived_days` is the time that the source was stored already. Something
    /// without a price does not pay.
    pub fn pays(&self, before: u64, after: u64, lived_days: u64) -> bool {
        self.balance(before, after, lived_days).is_ok_and(|saved| saved > Usd::ZERO)
    }

    /// Returns what the move saves during the stay, minus its cost.
    fn balance(&self, before: u64, after: u64, lived_days: u64) -> Result<Usd, BillError> {
        let (mut source, mut destination) = (Work::default(), Work::default());
        source.read(1, after, crosses(&self.from, &self.to));
        source.calls.add(Call::DeleteObject, 1);
        let left = self.from.rules.minimum_days.saturating_sub(lived_days);
        source.early = BTreeMap::from([(left, before)]);
        destination.write(after, self.part);
        destination.read(1, after, crosses(&self.to, &self.home));
        let moves =
            source.cost(&self.from)? + source.early_deletion(&self.from)? + destination.cost(&self.to)?;
        let stored = |bytes: u64, tariff: &Tariff, days: u64| {
            let month = Stock { blobs: 1, bytes }.month(&of_one_blob(tariff))?;
            Ok::<Usd, BillError>(Usd::from_pico(
                month.pico() * i128::from(days * 24) / i128::from(tariff.rules.month_hours),
            ))
        };
        let billed_days = self.payback_days.max(self.to.rules.minimum_days);
        let saved = stored(before, &self.from, self.payback_days)? - stored(after, &self.to, billed_days)?;
        Ok(saved - moves)
    }
}

/// Returns a tariff without the minimum bill of a month and without rounding, which apply to all blobs together.
fn of_one_blob(tariff: &Tariff) -> Tariff {
    let mut plain = tariff.clone();
    (plain.rules.minimum_billed, plain.rules.round_up) = (0, false);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tariff(name: &str) -> Tariff {
        let prices = Prices::built_in().unwrap();
        prices.tariff(name, None, "2026-11-21".parse().unwrap()).unwrap()
    }

    #[test]
    fn work_costs_its_requests_and_bytes() {
        // 1,000,000 writes at 0.005 a thousand, and 1 GiB of egress at 0.09.
        let calls = Calls::of(Call::PutObject, 1_000_000);
        let work = Work { calls, egress: 1 << 30, downloaded: 1 << 30, ..Work::default() };
        assert_eq!(work.cost(&tariff("aws-s3")).unwrap().cents(), "$5.09");
    }

    #[test]
    fn the_rest_of_a_minimum_duration_is_charged() {
        // S3 Standard-IA bills 30 days at 0.0125 per GiB and month: 20 days left of 1,024 GiB.
        let work = Work { early: BTreeMap::from([(20, 1 << 40)]), object_bytes: 1 << 20, ..Work::default() };
        let rest = work.early_deletion(&tariff("aws-s3-standard-ia")).unwrap();
        assert_eq!(rest.cents(), format!("${:.2}", 1024.0 * 0.0125 * 20.0 * 24.0 / 730.0));
        assert_eq!(Work::default().early_deletion(&tariff("aws-s3")).unwrap(), Usd::ZERO);
    }

    #[test]
    fn a_move_pays_if_it_saves_more_than_it_costs() {
        let gate = |from: &str, to: &str, payback_days: u64| Gate {
            from: tariff(from),
            to: tariff(to),
            home: tariff(from),
            part: 8 << 20,
            payback_days,
        };
        // S3 Express to S3: 0.11 and 0.023 per GiB and month; a write costs 0.000005.
        let express = gate("aws-s3-express", "aws-s3", 90);
        assert!(express.pays(1 << 20, 1 << 20, 0) && !express.pays(1 << 10, 1 << 10, 0));
        // From S3 to R2, the egress of 0.09 takes 13 months at 0.023 and 0.0161 per GiB and month.
        assert!(!gate("aws-s3", "cloudflare-r2", 300).pays(1 << 30, 1 << 30, 0));
        assert!(gate("aws-s3", "cloudflare-r2", 500).pays(1 << 30, 1 << 30, 0));
        // Standard-IA bills 128 KiB for a small object.
        assert!(!gate("aws-s3", "aws-s3-standard-ia", 3000).pays(1 << 10, 1 << 10, 0));
        // A rewrite without garbage pays, unless the minimum duration of the source has just begun.
        assert!(gate("aws-s3", "aws-s3", 90).pays(64 << 20, 16 << 20, 0));
        let ia = gate("aws-s3-standard-ia", "aws-s3-standard-ia", 20);
        assert!(!ia.pays(64 << 20, 16 << 20, 0));
    }

    #[test]
    fn small_blobs_are_billed_at_the_minimum_size() {
        // Standard-IA bills 128 KiB for each of 8,192 objects of 1 KiB: 1 GiB.
        let stock = Stock { blobs: 8192, bytes: 8192 << 10 };
        assert_eq!(stock.month(&tariff("aws-s3-standard-ia")).unwrap().to_string(), "0.0125");
        assert_eq!(Stock::default().month(&tariff("wasabi")).unwrap(), Usd::ZERO);
    }
}
