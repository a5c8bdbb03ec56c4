//! Prices of one offer in one region at one date, in the form that bills are computed from.

use super::money::Usd;
use super::usage::{DAY_S, MONTH_HOURS};
use crate::provider::Confidence;
use crate::provider::calls::CallSet;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// Who says so.
    pub source: String,
    /// When it was read: year, month, day as far as known.
    pub as_of: String,
    /// How sure it is.
    pub confidence: Confidence,
}

/// What of the usage a meter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Bytes stored.
    Storage,
    /// Requests of these kinds; where `every` is set, one for every so many bytes of the object that were begun.
    Requests {
        /// Which.
        calls: CallSet,
        /// Bytes; 0 counts requests as they are.
        every: u64,
    },
    /// Object bytes written.
    Upload,
    /// Object bytes read.
    Retrieval,
    /// Bytes to the internet.
    Egress,
    /// Bytes to another zone.
    CrossZone,
    /// Bytes to another region.
    CrossRegion,
    /// Seconds of a machine.
    Instance,
}

/// What of a meter costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Free {
    /// Nothing is free.
    None,
    /// So many bytes or requests a month.
    Amount(u64),
    /// So many times the bytes stored.
    TimesStored(u64),
}

/// A price up to an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tier {
    /// Bytes, requests or seconds of a month up to which it holds, counted beyond the free ones; `u64::MAX` for the last.
    pub up_to: u64,
    /// Price of a unit.
    pub price: Usd,
    /// Picodollars of one byte, request or second, shifted left by `shift`: exact where it is not 0.
    per_base: u64,
    /// See `per_base`.
    shift: u32,
}

impl Tier {
    /// A tier of prices for units of `unit` bytes, requests or seconds.
    pub fn new(up_to: u64, price: Usd, unit: u64) -> Tier {
        let pico = price.pico() as u64;
        let (per_base, shift) = if pico.is_multiple_of(unit) {
            (pico / unit, 0)
        } else if unit.is_power_of_two() {
            (pico, unit.trailing_zeros())
        } else {
            (0, 0)
        };
        Tier { up_to, price, per_base, shift }
    }

    /// What `quantity / over` bytes, requests or seconds cost, rounded to the picodollar; `None` where that is beyond all bounds.
    pub fn amount(&self, quantity: u128, over: u128, unit: u64) -> Option<Usd> {
        if over == 1 && (self.per_base > 0 || self.price == Usd::ZERO) {
            let product = quantity.checked_mul(u128::from(self.per_base))?;
            let half = if self.shift == 0 { 0 } else { 1u128 << (self.shift - 1) };
            return Some(Usd::from_pico(i128::try_from((product.checked_add(half)?) >> self.shift).ok()?));
        }
        let over = over.checked_mul(u128::from(unit))?;
        let product = quantity.checked_mul(self.price.pico() as u128)?;
        Some(Usd::from_pico(i128::try_from((product.checked_add(over / 2)?) / over).ok()?))
    }
}

/// One thing that is charged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meter {
    /// What it is called on the bill.
    pub item: String,
    /// What it counts.
    pub measure: Measure,
    /// Name of a unit: `GiB-month`, `1000 requests`.
    pub unit: String,
    /// Bytes, requests or seconds of a unit.
    pub unit_base: u64,
    /// Bytes of every request that it does not count.
    pub above: u64,
    /// Bytes of every request that it counts at least.
    pub least: u64,
    /// What is free.
    pub free: Free,
    /// Whether tiers count what is free too.
    pub free_inside_tiers: bool,
    /// Prices, in order.
    pub tiers: Vec<Tier>,
    /// Where the price comes from.
    pub provenance: Provenance,
    /// What is to be known about it.
    pub note: Option<String>,
}

/// The rules there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleName {
    /// Days that an object is paid for at least.
    MinimumDays,
    /// Bytes that an object is paid for at least.
    MinimumObject,
    /// What an object is paid for beside its content.
    ObjectSize,
    /// Bytes that are paid for at least in a month.
    MinimumBilled,
    /// Storage counts each day at its highest.
    DailyPeak,
    /// Quantities are rounded up to whole units.
    RoundUp,
    /// Deleted bytes that are charged further.
    Deleted,
    /// Answers that are not charged.
    Unbilled,
    /// Most bytes of an object.
    LargestObject,
    /// No more may leave than is stored.
    EgressWithinStored,
}

/// A rule for people, with where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceRule {
    /// Which.
    pub name: RuleName,
    /// In words.
    pub words: String,
    /// Where it comes from.
    pub provenance: Provenance,
}

/// What a provider's rules do to a bill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Hours of the month that a price per month is for.
    pub month_hours: u64,
    /// Days that an object is paid for at least.
    pub minimum_days: u64,
    /// Bytes that an object is paid for at least.
    pub minimum_object: u64,
    /// Multiples that an object's size is rounded up to, one at least; 0 for none.
    pub object_step: u64,
    /// Bytes that are stored and paid for beside every object's own.
    pub object_overhead: u64,
    /// Bytes that are paid for at least in a month.
    pub minimum_billed: u64,
    /// Whether storage counts each day at its highest.
    pub daily_peak: bool,
    /// Whether every meter is rounded up to whole units.
    pub round_up: bool,
    /// Days that deleted bytes are charged further.
    pub deleted_days: u64,
    /// True if deleted bytes are charged until their versions are deleted.
    pub deleted_versions: bool,
    /// Status codes of answers that are not charged: `403`, or `5xx` for all of them.
    pub unbilled: Vec<String>,
    /// Most bytes of an object.
    pub largest_object: u64,
    /// Whether no more may leave in a month than is stored.
    pub egress_within_stored: bool,
    /// What they say, and where they come from.
    pub said: Vec<PriceRule>,
}

impl Rules {
    /// Seconds that deleted bytes are charged further. Where that ends only with their versions, a month.
    pub fn charged_after_deletion_s(&self) -> u64 {
        if self.deleted_versions { self.month_hours * 3600 } else { self.deleted_days * DAY_S }
    }

    /// Bytes that an object of a size is paid for.
    pub fn paid_object(&self, bytes: u64) -> u64 {
        let stepped = match self.object_step {
            0 => bytes,
            step => bytes.max(1).next_multiple_of(step),
        };
        (stepped + self.object_overhead).max(self.minimum_object)
    }
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            month_hours: MONTH_HOURS,
            minimum_days: 0,
            minimum_object: 0,
            object_step: 0,
            object_overhead: 0,
            minimum_billed: 0,
            daily_peak: false,
            round_up: false,
            deleted_days: 0,
            deleted_versions: false,
            unbilled: Vec::new(),
            largest_object: u64::MAX,
            egress_within_stored: false,
            said: Vec::new(),
        }
    }
}

/// An offer as it can be bought in one region at one date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tariff {
    /// Name of the offer: `aws-s3`, `aws-s3-standard-ia`.
    pub offer: String,
    /// Name for people.
    pub title: String,
    /// The provider of stores that are billed so; `None` where no store is known by it.
    pub provider: Option<String>,
    /// True if the provider sells machines in the store's region, so that reads can stay there.
    pub sells_compute: bool,
    /// Region.
    pub region: String,
    /// The offer whose prices hold for bytes that leave; none where there is only one price for them.
    pub network: Option<String>,
    /// Date, `2026-11-21`.
    pub as_of: String,
    /// What is charged, in the order of the bill.
    pub meters: Vec<Meter>,
    /// Prices of machines next to it, by type.
    pub instances: Vec<Meter>,
    /// Rules.
    pub rules: Rules,
    /// Kinds of requests that have a price, or are said to have none.
    pub priced: CallSet,
}

impl Tariff {
    /// The meter of a measure that has one at most.
    pub fn meter(&self, measure: Measure) -> Option<&Meter> {
        self.meters.iter().find(|m| m.measure == measure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The quick ways must say what the plain division says.
    #[test]
    fn every_way_to_an_amount_is_exact() {
        let ways = [
            (Usd::parse("0.023").unwrap(), 1 << 30),
            (Usd::parse("0.015").unwrap(), 1_000_000_000),
            (Usd::parse("0.00113").unwrap(), 1000),
            (Usd::parse("0.0000000001").unwrap(), 3600),
            (Usd::ZERO, 1 << 30),
        ];
        for (price, unit) in ways {
            let tier = Tier::new(u64::MAX, price, unit);
            for quantity in [0, 1, 999, 1 << 29, 123_456_789_012_345, 1 << 62] {
                let plain = (quantity * price.pico() as u128 + u128::from(unit) / 2) / u128::from(unit);
                assert_eq!(tier.amount(quantity, 1, unit).unwrap().pico() as u128, plain);
                assert_eq!(tier.amount(quantity * 7, 7, unit), tier.amount(quantity, 1, unit));
            }
        }
        assert_eq!(Tier::new(u64::MAX, Usd::parse("9").unwrap(), 7).amount(u128::MAX, 1, 7), None);
    }
}
