//! The usage of a bill at other providers, with the cost of moving there.

use serde::Serialize;

use super::covered::MonthNow;
use super::explained::Explained;
use super::explained_line::ExplainedLine;
use super::meaning::{OfferMeter, Topic};
use plimsoll_base::provider::calls::Call;
use plimsoll_cost::bill::total;
use plimsoll_cost::egress::Egress;
use plimsoll_cost::migrate::Migration;
use plimsoll_cost::money::Usd;
use plimsoll_cost::tariff::{Measure, Tariff};
use plimsoll_cost::usage::Usage;

/// Bytes copied per second in a move: 1 GB/s, as `plimsoll cost migrate` assumes.
const BYTES_PER_S: u64 = 1_000_000_000;

/// Size in bytes of an object that a store of objects accepts.
const LARGE_OBJECT: u64 = 1 << 30;

/// A bill's usage at another provider.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Elsewhere {
    /// Name of the offer.
    pub provider: String,
    /// Region of the prices.
    pub region: String,
    /// Cost of a month at list prices.
    pub month_usd: Usd,
    /// Cost of a month less than at list prices of the bill; negative if it is more.
    pub saved_usd: Usd,
    /// Cost of the move, once; null without the number of objects.
    pub move_usd: Option<Usd>,
    /// Months after which the move has paid for itself; null if it never does, or its cost is unknown.
    pub payback_months: Option<f64>,
}

/// Usage of a month, and the offer in which most of the data is.
#[derive(Debug, Clone, PartialEq)]
pub struct MonthOfBill {
    /// Usage of a month.
    pub usage: Usage,
    /// Name of the offer and its region; `None` without storage.
    pub main: Option<(&'static str, String)>,
}

/// Returns the usage of a month of a bill. `mean_object` is the mean size of an object in bytes, 0 if it is unknown.
pub fn month_of(found: &Explained, now: MonthNow, mean_object: u64) -> MonthOfBill {
    let sum = |topics: &[Topic], meters: &[OfferMeter]| -> u64 {
        let lines = found.of_month(now).filter(|line| {
            topics.contains(&line.topic) && line.at.is_some_and(|(_, meter)| meters.contains(&meter))
        });
        let sum: u128 = lines.filter_map(|line| line.bytes_in(now)).sum();
        u64::try_from(sum).unwrap_or(u64::MAX)
    };
    let requests = |call| sum(&[Topic::Requests], &[OfferMeter::Requests(call)]);
    // The books have no offer for some storage, such as Intelligent-Tiering.
    let stored: u128 = found
        .of_month(now)
        .filter(|line| line.topic == Topic::Storage && !line.usage.ends_with("SmObjects"))
        .filter_map(|line| line.bytes_in(now))
        .sum();
    let stored = u64::try_from(stored).unwrap_or(u64::MAX);
    let egress = sum(&[Topic::Egress], &[OfferMeter::Egress]);
    let retrieved = sum(&[Topic::Retrieval], &[OfferMeter::Retrieval]);
    let mut usage = Usage {
        stored,
        stored_peak: stored,
        object_bytes: mean_object,
        downloaded: egress.max(retrieved),
        egress: Egress::Stated(egress),
        ..Usage::default()
    };
    usage.calls.set(Call::PutObject, requests(Call::PutObject));
    usage.calls.set(Call::GetObject, requests(Call::GetObject));
    let is_storage = |line: &&ExplainedLine| line.topic == Topic::Storage;
    // A bill without quantities does not say which part of a month it covers.
    let has_quantities = found.of_month(now).filter(is_storage).all(|line| line.quantity.is_some());
    let main = found
        .of_month(now)
        .filter(|line| has_quantities && is_storage(line))
        .filter_map(|line| Some((line.stored_bytes()?, line.at?.0, line.region.clone())))
        .max()
        .map(|(_, offer, region)| (offer, region));
    MonthOfBill { usage, main }
}

/// Returns the cost of the usage at stores of other providers, the cheapest first, with the cost of a move from `from`.
/// `now` is the cost of the usage at list prices of the bill.
pub fn elsewhere(month: &MonthOfBill, from: &Tariff, now: Usd, stores: &[Tariff]) -> Vec<Elsewhere> {
    // Without a price for reads, the bill does not say how much is read, so classes with one cannot be compared.
    let reads_are_known = from.meter(Measure::Retrieval).is_some();
    let is_other = |to: &&Tariff| {
        to.provider != from.provider
            && to.network != from.network
            && to.rules.largest_object > LARGE_OBJECT
            && to.rules.restore_hours == 0
            && (reads_are_known || to.meter(Measure::Retrieval).is_none())
    };
    let mut out: Vec<Elsewhere> = Vec::new();
    for to in stores.iter().filter(is_other) {
        let Ok(cost) = total(to, &month.usage) else { continue };
        let saved = now - cost;
        let moved = (month.usage.object_bytes > 0)
            .then(|| {
                let migration = Migration {
                    from,
                    to,
                    month: month.usage.clone(),
                    part_bytes: None,
                    verifies: false,
                    waived: false,
                    bytes_per_s: BYTES_PER_S,
                    kept_s: 0,
                };
                migration.cost().ok().map(|moved| moved.once_usd)
            })
            .flatten();
        let payback = moved.filter(|_| saved.pico() > 0).map(|once| once.pico() as f64 / saved.pico() as f64);
        out.push(Elsewhere {
            provider: to.offer.clone(),
            region: to.region.clone(),
            month_usd: cost,
            saved_usd: saved,
            move_usd: moved,
            payback_months: payback,
        });
    }
    out.sort_by_key(|other| other.month_usd);
    out
}
