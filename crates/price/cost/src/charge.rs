//! Charges of a usage at a tariff: for each meter, the free allowance and then the price tiers in order.

use super::money::Usd;
use super::period::{DAY_S, Period};
use super::tariff::{Free, Measure, Meter, Rules, Tariff};
use super::usage::{Unread, Usage};
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
        let common = gcd(times, by).max(1);
        Some(Quantity {
            value: self.value.checked_mul(u128::from(times / common))?,
            over: self.over.checked_mul(u128::from(by / common))?,
        })
    }

    /// Adds two quantities. Returns `None` on overflow.
    fn plus(self, other: Quantity) -> Option<Quantity> {
        let common = gcd_wide(self.over, other.over).max(1);
        let (factor, other_factor) = (other.over / common, self.over / common);
        let value = self.value.checked_mul(factor)?.checked_add(other.value.checked_mul(other_factor)?)?;
        Some(Quantity { value, over: self.over.checked_mul(factor)? })
    }

    fn is_zero(self) -> bool {
        self.value == 0
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns the greatest common divisor. Divisions of 64 bits are several times as fast as those of 128.
fn gcd_wide(a: u128, b: u128) -> u128 {
    match (u64::try_from(a), u64::try_from(b)) {
        (Ok(a), Ok(b)) => u128::from(gcd(a, b)),
        _ if b == 0 => a,
        _ => gcd_wide(b, a % b),
    }
}

/// Returns the billed bytes, averaged over a month.
fn stored(rules: &Rules, usage: &Usage) -> Option<Quantity> {
    let quantity = stored_as(rules, usage, rules.paid_object(usage.object_bytes))?;
    if usage.is_month() && quantity.value < u128::from(rules.minimum_billed).checked_mul(quantity.over)? {
        return Some(Quantity::whole(rules.minimum_billed));
    }
    Some(quantity)
}

/// Returns the bytes stored, averaged over a month, if each object counts as `paid` bytes. If a rule continues to bill
/// deleted bytes, that time counts towards minimum durations.
fn stored_as(rules: &Rules, usage: &Usage, paid: u64) -> Option<Quantity> {
    let bytes = if rules.daily_peak { usage.stored_peak } else { usage.stored };
    let (least, month) = (rules.minimum_days * DAY_S, rules.month_hours * 3600);
    let as_objects = |bytes: Quantity| match usage.object_bytes {
        0 => Some(bytes),
        own if own == paid => Some(bytes),
        own => bytes.scaled(paid, own),
    };
    let after = if usage.moves_on { 0 } else { rules.charged_after_deletion_s() };
    let mut quantity = as_objects(Quantity::whole(bytes))?;
    match (usage.period, usage.retention_s) {
        // Objects are deleted immediately.
        (Period::Month, Some(0)) => {
            quantity = as_objects(Quantity::whole(usage.uploaded))?.scaled(least.max(after), month)?;
        }
        (Period::Month, Some(lived)) => {
            let billed = (lived + after).max(least);
            quantity = match usage.arriving {
                Some(bytes) => as_objects(Quantity::whole(bytes))?.scaled(billed, month)?,
                None => quantity.scaled(billed, lived)?,
            };
        }
        (Period::Month, None) if usage.deleted == 0 || after == 0 => {}
        (Period::Month, None) => {
            quantity = quantity.plus(as_objects(Quantity::whole(usage.deleted))?.scaled(after, month)?)?;
        }
        (Period::Seconds(seconds), _) => {
            let counted = if rules.daily_peak { seconds.div_ceil(DAY_S) * DAY_S } else { seconds };
            quantity = quantity.scaled((counted + after).max(least), month)?;
        }
    }
    Some(quantity)
}

/// Returns the part of the stored bytes whose last read was at least `days` ago, but not so long that a later price of
/// the tariff applies. With 0 days, the part to which none of these prices applies.
fn unread(tariff: &Tariff, usage: &Usage, days: u64) -> Option<Quantity> {
    let monitored = tariff.rules.monitored_object;
    if monitored == 0 {
        return stored(&tariff.rules, usage);
    }
    let is_small = usage.object_bytes > 0 && usage.object_bytes < monitored;
    let share = |days: u64| if is_small { 0 } else { usage.unread.share(days) };
    let from = if days == 0 { Unread::WHOLE } else { share(days) };
    let later = tariff.meters.iter().filter_map(|meter| match meter.measure {
        Measure::UnreadStorage { days: later } if later > days => Some(later),
        _ => None,
    });
    match from - later.min().map_or(0, share) {
        0 => Some(Quantity::whole(0u64)),
        Unread::WHOLE => stored(&tariff.rules, usage),
        part => stored(&tariff.rules, usage)?.scaled(part, Unread::WHOLE),
    }
}

/// Returns the number of monitored objects, averaged over a month; 0 if the size of objects is unknown. Deleted objects
/// are not monitored, even if their bytes are still billed.
fn monitored(rules: &Rules, usage: &Usage) -> Option<Quantity> {
    let (size, month) = (usage.object_bytes, rules.month_hours * 3600);
    if size == 0 || size < rules.monitored_object {
        return Some(Quantity::whole(0u64));
    }
    let bytes = match (usage.period, usage.arriving.zip(usage.retention_s)) {
        (Period::Month, Some((arriving, lived))) => Quantity::whole(arriving).scaled(lived, month)?,
        (Period::Month, None) => Quantity::whole(usage.stored),
        (Period::Seconds(seconds), _) => Quantity::whole(usage.stored).scaled(seconds, month)?,
    };
    bytes.scaled(1, size)
}

/// Returns the bytes of restored copies, averaged over a month. Each read and each copy restores its object for a day.
fn restored(rules: &Rules, usage: &Usage) -> Option<Quantity> {
    let bytes = usage.downloaded.saturating_add(usage.copied);
    Quantity::whole(bytes).scaled(DAY_S, rules.month_hours * 3600)
}

/// Returns the billed bytes of uploads or retrievals, given the number of requests. Applies the free bytes and
/// the minimum bytes of each request. Copies count if the provider charges them.
fn moved(meter: &Meter, usage: &Usage, bytes: u64, requests: u128) -> Option<Quantity> {
    let (copied, copies) = match meter.counts_copies {
        true => (usage.copied, u128::from(usage.calls.get(Call::CopyObject))),
        false => (0, 0),
    };
    let (bytes, requests) = (bytes.saturating_add(copied), requests + copies);
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
        Measure::Storage => unread(tariff, usage, 0)?,
        Measure::UnreadStorage { days } => unread(tariff, usage, days)?,
        Measure::Monitored => monitored(&tariff.rules, usage)?,
        Measure::RestoredStorage => restored(&tariff.rules, usage)?,
        // Without a size, the number of objects is unknown.
        Measure::IndexStorage if usage.object_bytes == 0 => Quantity::whole(0u64),
        Measure::IndexStorage => stored_as(&tariff.rules, usage, tariff.rules.object_index)?,
        Measure::Restores => Quantity::whole(usage.restores()),
        Measure::Requests { calls, size_step: 0 } => Quantity::whole(usage.calls.sum(calls)),
        Measure::Requests { calls, size_step } => {
            let each = usage.object_bytes.div_ceil(size_step).max(1);
            Quantity::whole(usage.calls.sum(calls)).scaled(each, 1)?
        }
        Measure::Upload => moved(meter, usage, usage.uploaded, usage.uploads())?,
        Measure::Retrieval => moved(meter, usage, usage.downloaded, usage.downloads())?,
        Measure::Egress => Quantity::whole(usage.egress_at(tariff)),
        Measure::ReadInside => Quantity::whole(usage.read_inside(tariff)),
        Measure::CrossZone => Quantity::whole(usage.cross_zone),
        Measure::CrossRegion => Quantity::whole(usage.cross_region),
        Measure::Instance | Measure::Line => Quantity::whole(0u64),
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
    let used = [stored_at(tariff, usage), usage.egress_at(tariff), usage.cross_zone, usage.cross_region];
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

fn stored_at(tariff: &Tariff, usage: &Usage) -> u64 {
    usage.stored_in(tariff.rules.month_hours)
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
    if rules.egress_within_stored && usage.is_month() && usage.egress_at(tariff) > stored_at(tariff, usage) {
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
        Free::TimesStored(times) => u128::from(times) * u128::from(stored_at(tariff, usage)),
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

/// Returns the cost of `quantity / over` bytes, requests or seconds in the tiers of a meter, after `free` of them.
/// `None` on overflow.
pub fn in_tiers(meter: &Meter, quantity: u128, over: u128, free: u128) -> Option<Usd> {
    let covered = free.checked_mul(over)?.min(quantity);
    let mut reached = if meter.free_inside_tiers { covered } else { 0 };
    let end = quantity - covered + reached;
    let mut sum = Usd::ZERO;
    for tier in &meter.tiers {
        let bound = match tier.up_to {
            u64::MAX => end,
            up_to => u128::from(up_to).checked_mul(over)?.min(end),
        };
        if bound > reached {
            sum += tier.amount(bound - reached, over, meter.unit_base)?;
            reached = bound;
        }
    }
    Some(sum)
}

/// Returns the largest quantity whose cost in the tiers of a meter, without an allowance, does not exceed an amount;
/// `None` if the meter is free or the amount is negative.
pub fn of_cost(meter: &Meter, amount: Usd) -> Option<u128> {
    let mut left = u128::try_from(amount.pico()).ok()?;
    let mut reached = 0;
    for tier in &meter.tiers {
        let price = u128::try_from(tier.price.pico()).ok().filter(|price| *price > 0)?;
        let fits = left.checked_mul(u128::from(meter.unit_base))? / price;
        let width = u128::from(tier.up_to) - reached;
        if tier.up_to == u64::MAX || fits <= width {
            return Some(reached + fits);
        }
        left -= width.checked_mul(price)? / u128::from(meter.unit_base);
        reached = u128::from(tier.up_to);
    }
    None
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
