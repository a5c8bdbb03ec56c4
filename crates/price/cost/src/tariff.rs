//! Tariff: the prices of one offer in one region on one date, in the form from which bills are computed.

use super::functions::FunctionMeasure;
use super::money::Usd;
use super::period::{DAY_S, MONTH_HOURS};
use plimsoll_base::provider::Confidence;
use plimsoll_base::provider::calls::CallSet;

/// Origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// Document or page that states the value.
    pub source: String,
    /// Date on which the source was read: the year, and the month and day if they are known.
    pub as_of: String,
    /// Confidence in the value.
    pub confidence: Confidence,
}

/// Part of the usage that a meter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Bytes stored over time.
    Storage,
    /// Requests of some kinds. If `size_step` is not 0, a request counts once for each started `size_step` bytes of its
    /// object.
    Requests {
        /// Kinds of requests that count.
        calls: CallSet,
        /// Step in bytes; 0 if each request counts once.
        size_step: u64,
    },
    /// Object bytes written.
    Upload,
    /// Object bytes read.
    Retrieval,
    /// Requests to restore an archived object: one for each read and each copy.
    Restores,
    /// Bytes of restored copies, stored over time.
    RestoredStorage,
    /// Bytes of the index entries of objects, stored over time.
    IndexStorage,
    /// Bytes of objects that were not read for some days, stored over time. [`Measure::Storage`] leaves them out.
    UnreadStorage {
        /// Number of days since the last read.
        days: u64,
    },
    /// Number of objects whose reads the provider monitors.
    Monitored,
    /// Bytes to the internet.
    Egress,
    /// Bytes read by machines of the provider.
    ReadInside,
    /// Bytes to another zone.
    CrossZone,
    /// Bytes to another region.
    CrossRegion,
    /// Seconds of a machine.
    Instance,
    /// Line of a provider's bill that no workload contains.
    Line,
    /// Functions that run on demand.
    Function(FunctionMeasure),
}

/// Free allowance of a meter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Free {
    /// Nothing is free.
    None,
    /// Free bytes or requests per month.
    Amount(u64),
    /// Free bytes per month, as a multiple of the bytes stored.
    TimesStored(u64),
}

/// Price tier: a unit price, and the quantity up to which it applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tier {
    /// Upper end of the tier, in bytes, requests or seconds per month; `u64::MAX` for the last tier. The free
    /// allowance counts only if `Meter::free_inside_tiers` is set.
    pub up_to: u64,
    /// Price of one unit.
    pub price: Usd,
    /// Picodollars per byte, request or second, shifted left by `shift`. 0 if that is not a whole number.
    per_base: u64,
    /// Number of bits by which `per_base` is shifted.
    shift: u32,
}

impl Tier {
    /// Creates a tier with a price per `unit` bytes, requests or seconds.
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

    /// Returns the cost of `quantity / over` bytes, requests or seconds, rounded to the picodollar. `None` on
    /// overflow.
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

/// One billed item with its price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meter {
    /// Name on the bill.
    pub item: String,
    /// Part of the usage that it counts.
    pub measure: Measure,
    /// Name of the unit: `GiB-month`, `1000 requests`.
    pub unit: String,
    /// Number of bytes, requests or seconds in one unit.
    pub unit_base: u64,
    /// Bytes of each request that are not billed.
    pub free_bytes_per_request: u64,
    /// Minimum number of bytes billed per request.
    pub minimum_bytes_per_request: u64,
    /// True if bytes that are copied within the store count, too. Only for uploads and retrievals.
    pub counts_copies: bool,
    /// Free allowance per month.
    pub free: Free,
    /// True if the tiers include the free allowance, false if they start after it.
    pub free_inside_tiers: bool,
    /// Prices by tier, in ascending order.
    pub tiers: Vec<Tier>,
    /// Origin of the price.
    pub provenance: Provenance,
    /// Remark that is printed with the price.
    pub note: Option<String>,
}

/// Kind of billing rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleName {
    /// Minimum number of days for which an object is billed.
    MinimumDays,
    /// Minimum size at which an object is billed.
    MinimumObject,
    /// Rounding of the size of an object, and bytes added to it.
    ObjectSize,
    /// Minimum storage billed per month.
    MinimumBilled,
    /// Storage billed by its daily peak.
    DailyPeak,
    /// Quantities rounded up to whole units.
    RoundUp,
    /// Billing of objects after their deletion.
    Deleted,
    /// Responses that are not billed.
    Unbilled,
    /// Index entry of an object, billed at another price than its content.
    ObjectIndex,
    /// Restores before reads.
    Restore,
    /// Moves of objects between prices by their last read.
    Monitored,
    /// Age from which lifecycle rules move objects into the class.
    TransitionDays,
    /// Maximum size of an object.
    LargestObject,
    /// Monthly egress limited to the data stored.
    EgressWithinStored,
}

/// A billing rule in words, with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceRule {
    /// Kind of the rule.
    pub name: RuleName,
    /// Description of the rule, for people.
    pub words: String,
    /// Origin of the rule.
    pub provenance: Provenance,
}

/// Billing rules of an offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Hours in a billing month.
    pub month_hours: u64,
    /// Minimum number of days for which an object is billed; 0 for none.
    pub minimum_days: u64,
    /// Minimum bytes billed per object; 0 for none.
    pub minimum_object: u64,
    /// Step to which the size of an object is rounded up, in bytes; 0 for none. An empty object counts as one
    /// step.
    pub object_step: u64,
    /// Bytes billed for each object in addition to its content.
    pub object_overhead: u64,
    /// Bytes of the index entry of each object, which [`Measure::IndexStorage`] bills.
    pub object_index: u64,
    /// Maximum number of hours until an archived object is restored; 0 if objects can be read at once.
    pub restore_hours: u64,
    /// Minimum bytes of an object that the provider moves to another price by its last read; 0 for no moves.
    pub monitored_object: u64,
    /// Minimum bytes of storage billed per month.
    pub minimum_billed: u64,
    /// True if storage is billed by its daily peak.
    pub daily_peak: bool,
    /// True if every quantity is rounded up to whole units.
    pub round_up: bool,
    /// Number of days for which deleted bytes are still billed.
    pub deleted_days: u64,
    /// True if deleted bytes are billed until their versions are deleted.
    pub deleted_versions: bool,
    /// Minimum age at which a lifecycle rule moves an object into the class, in days; 0 for none.
    pub transition_days: u64,
    /// Status codes of responses that are not billed: `403`, or `5xx` for the whole class.
    pub unbilled: Vec<String>,
    /// Maximum size of an object, in bytes.
    pub largest_object: u64,
    /// True if the egress of a month may not exceed the data stored.
    pub egress_within_stored: bool,
    /// Descriptions of the rules, with their origin.
    pub descriptions: Vec<PriceRule>,
}

impl Rules {
    /// Returns the number of seconds for which deleted bytes are still billed: one month if they are billed
    /// until their versions are deleted.
    pub fn charged_after_deletion_s(&self) -> u64 {
        if self.deleted_versions { self.month_hours * 3600 } else { self.deleted_days * DAY_S }
    }

    /// Returns the number of bytes billed for an object of a size.
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
            object_index: 0,
            restore_hours: 0,
            monitored_object: 0,
            minimum_billed: 0,
            daily_peak: false,
            round_up: false,
            deleted_days: 0,
            deleted_versions: false,
            transition_days: 0,
            unbilled: Vec::new(),
            largest_object: u64::MAX,
            egress_within_stored: false,
            descriptions: Vec::new(),
        }
    }
}

/// Prices and rules of one offer in one region on one date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tariff {
    /// Name of the offer: `aws-s3`, `aws-s3-standard-ia`.
    pub offer: String,
    /// Name in reports.
    pub title: String,
    /// Provider whose stores are billed at this tariff; `None` if no provider is linked to the offer.
    pub provider: Option<String>,
    /// True if the provider sells machines in the store's region, so that reads can stay there.
    pub sells_compute: bool,
    /// Region of the prices.
    pub region: String,
    /// Offer whose prices apply to outgoing traffic; `None` if the offer has its own.
    pub network: Option<String>,
    /// Date of the prices, such as `2026-11-21`.
    pub as_of: String,
    /// Billed items, in the order of the bill.
    pub meters: Vec<Meter>,
    /// Prices of machines in the same region, by type.
    pub instances: Vec<Meter>,
    /// Prices of functions in the same region; empty if the provider does not sell them.
    pub functions: Vec<Meter>,
    /// Billing rules of the offer.
    pub rules: Rules,
    /// Kinds of requests that have a price, which may be zero.
    pub priced: CallSet,
}

impl Tariff {
    /// Returns the meter of a measure that has at most one.
    pub fn meter(&self, measure: Measure) -> Option<&Meter> {
        self.meters.iter().find(|m| m.measure == measure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fast paths must return the same amount as the plain division.
    #[test]
    fn fast_paths_to_an_amount_are_exact() {
        let cases = [
            (Usd::parse("0.023").unwrap(), 1 << 30),
            (Usd::parse("0.015").unwrap(), 1_000_000_000),
            (Usd::parse("0.00113").unwrap(), 1000),
            (Usd::parse("0.0000000001").unwrap(), 3600),
            (Usd::ZERO, 1 << 30),
        ];
        for (price, unit) in cases {
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
