//! Bill of a usage at a tariff. [`charges`] computes all amounts; [`total`] adds them, and [`bill`] lists them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::money::{Usd, decimal_text};
use super::period::{DAY_S, Period};
use super::tariff::{Free, Measure, Meter, RuleName, Rules, Tariff};
use super::usage::Usage;
use plimsoll_base::provider::Confidence;
use plimsoll_base::provider::calls::Call;
use plimsoll_base::units::format_size;

/// Reason why no bill can be computed.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum BillError {
    /// The usage contains an item without a price.
    #[error("no price is known for {what} at {offer}; omit this item, or add its price with --prices FILE")]
    Unpriced {
        /// Name of the offer.
        offer: String,
        /// Item without a price.
        what: String,
    },
    /// The provider does not accept the workload.
    #[error("{offer} does not accept this workload: {reason}")]
    Refused {
        /// Name of the offer.
        offer: String,
        /// Limit of the provider that the workload exceeds.
        reason: String,
    },
    /// The amount of an item is too large to compute.
    #[error("{offer}: the amount of {item} is too large; reduce the workload")]
    Overflow {
        /// Name of the offer.
        offer: String,
        /// Item with that amount.
        item: String,
    },
}

/// A charge: `quantity / over` bytes, requests or seconds at one price.
#[derive(Debug, Clone, Copy)]
pub struct Charge<'a> {
    /// Meter that is charged.
    pub meter: &'a Meter,
    /// Price of one unit.
    pub price: Usd,
    /// Numerator of the quantity.
    pub quantity: u128,
    /// Denominator of the quantity.
    pub over: u128,
    /// Amount of the charge.
    pub amount: Usd,
    /// True if the free allowance covers the quantity.
    pub free: bool,
}

/// A quantity as a fraction. The denominator is needed for objects that are stored for a part of the month.
#[derive(Clone, Copy)]
struct Quantity {
    value: u128,
    over: u128,
}

impl Quantity {
    fn whole(value: impl Into<u128>) -> Quantity {
        Quantity { value: value.into(), over: 1 }
    }

    /// Multiplies the quantity by `times / by`. Returns `None` on overflow.
    fn scaled(self, times: u64, by: u64) -> Option<Quantity> {
        let common = gcd(u128::from(times), u128::from(by)).max(1);
        Some(Quantity {
            value: self.value.checked_mul(u128::from(times) / common)?,
            over: self.over.checked_mul(u128::from(by) / common)?,
        })
    }

    /// Adds two quantities. Returns `None` on overflow.
    fn plus(self, other: Quantity) -> Option<Quantity> {
        let common = gcd(self.over, other.over).max(1);
        let (factor, other_factor) = (other.over / common, self.over / common);
        let value = self.value.checked_mul(factor)?.checked_add(other.value.checked_mul(other_factor)?)?;
        Some(Quantity { value, over: self.over.checked_mul(factor)? })
    }

    fn is_zero(self) -> bool {
        self.value == 0
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns the billed bytes, averaged over a month. If a rule continues to bill deleted bytes, that time counts
/// towards minimum durations.
fn stored(rules: &Rules, usage: &Usage) -> Option<Quantity> {
    let bytes = if rules.daily_peak { usage.stored_peak } else { usage.stored };
    let as_objects = |bytes: Quantity| match (usage.object_bytes, rules.paid_object(usage.object_bytes)) {
        (0, _) => Some(bytes),
        (own, paid) if own == paid => Some(bytes),
        (own, paid) => bytes.scaled(paid, own),
    };
    let (least, month) = (rules.minimum_days * DAY_S, rules.month_hours * 3600);
    let after = if usage.moves_on { 0 } else { rules.charged_after_deletion_s() };
    let mut quantity = as_objects(Quantity::whole(bytes))?;
    match (usage.period, usage.retention_days) {
        // Objects are deleted immediately.
        (Period::Month, Some(0)) => {
            quantity = as_objects(Quantity::whole(usage.uploaded))?.scaled(least.max(after), month)?;
        }
        (Period::Month, Some(days)) => {
            let lived = days * DAY_S;
            quantity = quantity.scaled((lived + after).max(least), lived)?;
        }
        (Period::Month, None) => {
            quantity = quantity.plus(as_objects(Quantity::whole(usage.deleted))?.scaled(after, month)?)?;
        }
        (Period::Seconds(seconds), _) => {
            let counted = if rules.daily_peak { seconds.div_ceil(DAY_S) * DAY_S } else { seconds };
            quantity = quantity.scaled((counted + after).max(least), month)?;
        }
    }
    if usage.is_month() && quantity.value < u128::from(rules.minimum_billed).checked_mul(quantity.over)? {
        quantity = Quantity::whole(rules.minimum_billed);
    }
    Some(quantity)
}

/// Returns the billed bytes of uploads or retrievals, given the number of requests. Applies the free bytes and
/// the minimum bytes of each request.
fn moved(meter: &Meter, usage: &Usage, bytes: u64, requests: u128) -> Option<Quantity> {
    let free = u128::from(meter.free_bytes_per_request).saturating_mul(requests);
    let quantity = Quantity::whole(u128::from(bytes).saturating_sub(free));
    match usage.object_bytes {
        own if own > 0 && own < meter.minimum_bytes_per_request => {
            quantity.scaled(meter.minimum_bytes_per_request, own)
        }
        _ => Some(quantity),
    }
}

fn quantity(meter: &Meter, tariff: &Tariff, usage: &Usage) -> Option<Quantity> {
    Some(match meter.measure {
        Measure::Storage => stored(&tariff.rules, usage)?,
        Measure::Requests { calls, size_step: 0 } => Quantity::whole(usage.calls.sum(calls)),
        Measure::Requests { calls, size_step } => {
            let each = usage.object_bytes.div_ceil(size_step).max(1);
            Quantity::whole(usage.calls.sum(calls)).scaled(each, 1)?
        }
        Measure::Upload => moved(meter, usage, usage.uploaded, usage.uploads())?,
        Measure::Retrieval => moved(meter, usage, usage.downloaded, usage.downloads())?,
        Measure::Egress => Quantity::whole(usage.egress_at(tariff)),
        Measure::CrossZone => Quantity::whole(usage.cross_zone),
        Measure::CrossRegion => Quantity::whole(usage.cross_region),
        Measure::Instance => Quantity::whole(0u64),
        Measure::Function(measure) => Quantity::whole(usage.functions.quantity(measure)),
    })
}

/// Calls `each` with every charge of a tariff for a usage, in the order of the bill.
///
/// # Errors
/// [`BillError`] if an item has no price, the provider does not accept the workload, or an amount is too large.
pub fn charges<'a>(
    tariff: &'a Tariff,
    usage: &Usage,
    mut each: impl FnMut(Charge<'a>),
) -> Result<(), BillError> {
    refuse(tariff, usage)?;
    let mut counted = [false; 4];
    for meter in &tariff.meters {
        match meter.measure {
            Measure::Storage => counted[0] = true,
            Measure::Egress => counted[1] = true,
            Measure::CrossZone => counted[2] = true,
            Measure::CrossRegion => counted[3] = true,
            _ => {}
        }
        charge(tariff, meter, usage, &mut each)
            .ok_or_else(|| BillError::Overflow { offer: tariff.offer.clone(), item: meter.item.clone() })?;
    }
    let used = [usage.stored, usage.egress_at(tariff), usage.cross_zone, usage.cross_region];
    let names =
        ["storage", "egress to the internet", "transfer to another zone", "transfer to another region"];
    for ((counted, used), name) in counted.into_iter().zip(used).zip(names) {
        if used > 0 && !counted {
            return Err(unpriced(tariff, name));
        }
    }
    for (name, seconds) in &usage.instances {
        let meter = tariff.instances.iter().find(|m| m.item == *name);
        let meter = meter.ok_or_else(|| unpriced(tariff, &format!("machines of type {name}")))?;
        emit(meter, Quantity::whole(*seconds), 0, &mut each)
            .ok_or_else(|| BillError::Overflow { offer: tariff.offer.clone(), item: name.clone() })?;
    }
    if usage.functions.invocations > 0 && tariff.functions.is_empty() {
        return Err(unpriced(tariff, "functions"));
    }
    for meter in &tariff.functions {
        charge(tariff, meter, usage, &mut each)
            .ok_or_else(|| BillError::Overflow { offer: tariff.offer.clone(), item: meter.item.clone() })?;
    }
    Ok(())
}

fn unpriced(tariff: &Tariff, what: &str) -> BillError {
    BillError::Unpriced { offer: tariff.offer.clone(), what: what.into() }
}

/// Checks that every request has a price and that the workload is within the limits of the provider.
fn refuse(tariff: &Tariff, usage: &Usage) -> Result<(), BillError> {
    if let Some(call) = usage.calls.kinds().first_missing_in(tariff.priced) {
        return Err(unpriced(tariff, &format!("{} requests", call.name())));
    }
    let rules = &tariff.rules;
    let refused = |reason: String| Err(BillError::Refused { offer: tariff.offer.clone(), reason });
    if usage.object_bytes > rules.largest_object {
        return refused(format!(
            "objects are limited to {}, but those of the workload are {}",
            format_size(rules.largest_object),
            format_size(usage.object_bytes)
        ));
    }
    if rules.egress_within_stored && usage.is_month() && usage.egress_at(tariff) > usage.stored {
        return refused("the egress of a month must not exceed the data stored".into());
    }
    Ok(())
}

/// Charges one meter: first the free allowance, then the tiers in order.
fn charge<'a>(
    tariff: &'a Tariff,
    meter: &'a Meter,
    usage: &Usage,
    each: &mut impl FnMut(Charge<'a>),
) -> Option<()> {
    let mut quantity = quantity(meter, tariff, usage)?;
    if quantity.is_zero() {
        return Some(());
    }
    if !usage.is_month() {
        return emit(meter, quantity, 0, each);
    }
    if tariff.rules.round_up {
        let unit = u128::from(meter.unit_base).checked_mul(quantity.over)?;
        quantity = Quantity::whole(quantity.value.div_ceil(unit) * u128::from(meter.unit_base));
    }
    let free = match meter.free {
        _ if usage.without_allowances => 0,
        Free::None => 0,
        Free::Amount(amount) => u128::from(amount),
        Free::TimesStored(times) => u128::from(times) * u128::from(usage.stored),
    };
    let covered = free.checked_mul(quantity.over)?.min(quantity.value);
    if covered > 0 {
        let over = quantity.over;
        each(Charge { meter, price: Usd::ZERO, quantity: covered, over, amount: Usd::ZERO, free: true });
        quantity.value -= covered;
    }
    let mut reached = if meter.free_inside_tiers { covered } else { 0 };
    let end = quantity.value + reached;
    for (number, tier) in meter.tiers.iter().enumerate() {
        let bound = match tier.up_to {
            u64::MAX => end,
            up_to => u128::from(up_to).checked_mul(quantity.over)?.min(end),
        };
        if bound > reached {
            emit(meter, Quantity { value: bound - reached, over: quantity.over }, number, each)?;
            reached = bound;
        }
    }
    Some(())
}

fn emit<'a>(
    meter: &'a Meter,
    quantity: Quantity,
    tier: usize,
    each: &mut impl FnMut(Charge<'a>),
) -> Option<()> {
    let tier = &meter.tiers[tier];
    let amount = tier.amount(quantity.value, quantity.over, meter.unit_base)?;
    let Quantity { value, over } = quantity;
    each(Charge { meter, price: tier.price, quantity: value, over, amount, free: false });
    Some(())
}

/// Returns the total cost of a usage.
///
/// # Errors
/// The same as [`charges`].
pub fn total(tariff: &Tariff, usage: &Usage) -> Result<Usd, BillError> {
    let mut sum = Usd::ZERO;
    charges(tariff, usage, |charge| sum += charge.amount)?;
    Ok(sum)
}

/// One line of a bill. Amounts and quantities are decimal strings because they are exact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// Name of the billed item.
    pub item: String,
    /// Part of the bill that it belongs to: `storage`, `requests`, `data`, `egress` or `compute`. Null in results
    /// of schema 1.
    #[serde(default)]
    pub part: Option<Part>,
    /// Number of units, rounded to 12 decimal places.
    pub quantity: String,
    /// Name of the unit.
    pub unit: String,
    /// Price of one unit.
    pub unit_price_usd: Usd,
    /// Amount of the line, rounded to 12 decimal places.
    pub amount_usd: Usd,
    /// Source of the price.
    pub source: String,
    /// Date on which the source was read.
    pub as_of: String,
    /// Confidence in the price.
    pub confidence: Confidence,
    /// Remark about the price. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Part of a bill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Bytes stored over time.
    Storage,
    /// Requests of all kinds.
    Requests,
    /// Bytes written, read, or moved within the provider.
    Data,
    /// Bytes to the internet.
    Egress,
    /// Machines and functions in the store's region.
    Compute,
}

impl Part {
    /// All parts, in order.
    pub const ALL: [Part; 5] = [Part::Storage, Part::Requests, Part::Data, Part::Egress, Part::Compute];

    /// Returns the part that a measure belongs to.
    pub fn of(measure: Measure) -> Part {
        match measure {
            Measure::Storage => Part::Storage,
            Measure::Requests { .. } => Part::Requests,
            Measure::Upload | Measure::Retrieval | Measure::CrossZone | Measure::CrossRegion => Part::Data,
            Measure::Egress => Part::Egress,
            Measure::Instance | Measure::Function(_) => Part::Compute,
        }
    }

    /// Returns the name used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Part::Storage => "storage",
            Part::Requests => "requests",
            Part::Data => "data",
            Part::Egress => "egress",
            Part::Compute => "compute",
        }
    }
}

/// Monthly bill of a workload at one provider, or the bill of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bill {
    /// Name of the offer, as in `plimsoll list prices`.
    pub provider: String,
    /// Name of the offer in reports. Empty in results of schema 1.
    #[serde(default)]
    pub title: String,
    /// Region of the prices.
    pub region: String,
    /// Date of the prices.
    pub as_of: String,
    /// Sum of the lines.
    pub total_usd: Usd,
    /// Line items, in order.
    pub lines: Vec<Line>,
    /// Rules that affected the bill, with their confidence unless it is high.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Bill {
    /// Returns the sum of a part of the bill.
    pub fn part(&self, part: Part) -> Usd {
        self.lines.iter().filter(|l| l.part == Some(part)).map(|l| l.amount_usd).sum()
    }

    /// Returns the items whose price no source confirms.
    pub fn doubtful(&self) -> Vec<&str> {
        let mut items: Vec<&str> = Vec::new();
        for line in self.lines.iter().filter(|l| l.confidence == Confidence::Low) {
            if !items.contains(&line.item.as_str()) {
                items.push(&line.item);
            }
        }
        items
    }
}

/// Returns the line of the bill for a charge.
fn line(charge: &Charge<'_>) -> Line {
    let meter = charge.meter;
    // Rounded to 12 decimal places. Larger amounts have already been rejected.
    let over = charge.over * u128::from(meter.unit_base);
    let (whole, rest) = (charge.quantity / over, charge.quantity % over);
    let places = rest.checked_mul(1_000_000_000_000).map_or(0, |r| (r + over / 2) / over);
    let quantity = (whole * 1_000_000_000_000 + places) as i128;
    let free = if charge.free { ", free allowance" } else { "" };
    Line {
        item: format!("{}{free}", meter.item),
        part: Some(Part::of(meter.measure)),
        quantity: decimal_text(quantity, 0),
        unit: meter.unit.clone(),
        unit_price_usd: charge.price,
        amount_usd: charge.amount,
        source: meter.provenance.source.clone(),
        as_of: meter.provenance.as_of.clone(),
        confidence: meter.provenance.confidence,
        note: meter.note.clone(),
    }
}

/// Describes the rules that affected the bill.
fn notes(tariff: &Tariff, usage: &Usage) -> Vec<String> {
    let rules = &tariff.rules;
    let short = match usage.period {
        Period::Month => usage.retention_days.is_some_and(|days| days < rules.minimum_days),
        Period::Seconds(seconds) => seconds < rules.minimum_days * DAY_S,
    };
    let is_stored = usage.stored > 0 || (usage.retention_days == Some(0) && usage.uploaded > 0);
    let small = usage.object_bytes > 0 && usage.object_bytes < rules.minimum_object;
    let little = usage.is_month() && usage.stored < rules.minimum_billed;
    let applies = |name: RuleName| match name {
        RuleName::MinimumDays => is_stored && short,
        RuleName::MinimumObject => is_stored && small,
        RuleName::ObjectSize => is_stored && usage.object_bytes > 0,
        RuleName::MinimumBilled => little,
        RuleName::DailyPeak => is_stored && (!usage.is_month() || usage.stored != usage.stored_peak),
        RuleName::Deleted => {
            let deletes = usage.deleted > 0 || usage.retention_days.is_some() || !usage.is_month();
            deletes
                && !usage.moves_on
                && (is_stored || usage.deleted > 0)
                && rules.charged_after_deletion_s() > 0
        }
        RuleName::RoundUp => rules.round_up && usage.is_month(),
        RuleName::Unbilled | RuleName::LargestObject | RuleName::EgressWithinStored => false,
    };
    let applied = rules.descriptions.iter().filter(|rule| applies(rule.name));
    applied
        .map(|rule| match rule.provenance.confidence {
            Confidence::High => rule.words.clone(),
            other => format!("{} ({} confidence)", rule.words, other.name()),
        })
        .collect()
}

/// Computes the bill for a usage.
///
/// # Errors
/// The same as [`charges`].
pub fn bill(tariff: &Tariff, usage: &Usage) -> Result<Bill, BillError> {
    let mut lines = Vec::new();
    charges(tariff, usage, |charge| lines.push(line(&charge)))?;
    Ok(Bill {
        provider: tariff.offer.clone(),
        title: tariff.title.clone(),
        region: tariff.region.clone(),
        as_of: tariff.as_of.clone(),
        total_usd: lines.iter().map(|l| l.amount_usd).sum(),
        lines,
        notes: notes(tariff, usage),
    })
}

/// Returns true if a response with that status code is billed.
pub fn is_billed(tariff: &Tariff, status: u16) -> bool {
    let (code, class) = (status.to_string(), format!("{}xx", status / 100));
    !tariff.rules.unbilled.iter().any(|unbilled| *unbilled == code || *unbilled == class)
}

/// Returns the meter that a kind of request belongs to; `None` if it has no price.
pub fn meter_of(tariff: &Tariff, call: Call) -> Option<&Meter> {
    let counts = |m: &&Meter| matches!(m.measure, Measure::Requests { calls, .. } if calls.contains(call));
    tariff.meters.iter().find(counts)
}
