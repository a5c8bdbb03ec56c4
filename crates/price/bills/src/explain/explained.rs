//! A bill compared with the prices of the books.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use serde::Serialize;

use super::charge::{ChargeKind, UsageKey};
use super::covered::{Days, MonthNow};
use super::explained_line::{BaseQuantity, ExplainedLine};
use super::listed::{set_list_prices, shared};
use super::meaning::{BookPrice, Meaning, OfferMeter, Scale, Topic, meaning};
use super::number::ONE;
use super::sum::{BillSums, Sum};
use plimsoll_cost::bill::meter_of;
use plimsoll_cost::book::Prices;
use plimsoll_cost::charge::of_cost;
use plimsoll_cost::money::{Usd, decimal_text};
use plimsoll_cost::tariff::{Measure, Meter, Tariff};

/// A part of the bill that list prices do not explain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Residual {
    /// Name of the part.
    pub name: String,
    /// Reason for which list prices do not explain it.
    pub reason: &'static str,
    /// Cost; negative for what lowers the bill.
    pub usd: Usd,
}

/// Cost of a bucket, or of another resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResourceCost {
    /// Name on the bill.
    pub name: String,
    /// Cost of its object storage.
    pub usd: Usd,
}

/// A bill with its explanation. The listed costs of the lines, and the residuals, add up to the total.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explained {
    /// Sum of all charges of the files.
    pub total_usd: Usd,
    /// Sum of the lines of object storage, without credits, discounts and taxes.
    pub object_storage_usd: Usd,
    /// Sum of the list prices of these lines.
    pub listed_usd: Usd,
    /// False if the files have usage only.
    pub is_billed: bool,
    /// First and last day of usage; null if the bill does not say.
    pub period: Option<(String, String)>,
    /// Costs of object storage by bucket, or another resource, the largest first; empty if the bill has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceCost>,
    /// Usages of object storage, the most expensive one first.
    pub lines: Vec<ExplainedLine>,
    /// Amounts that list prices do not explain, the largest first.
    pub residuals: Vec<Residual>,
}

/// Largest difference that is a rounding of the lines of a bill, in units of 10^-12 dollars: half a cent.
const ROUNDING: i128 = 5_000_000_000;

/// Prices by which a bill is explained.
pub struct Books<'a> {
    /// Price books with the list prices.
    pub prices: &'a Prices,
    /// Date of the prices for usage without a date.
    pub date: Date,
    /// True to use this date for all usage; false to use the first day of the month of the usage.
    pub fixed: bool,
    /// True if the allowances are used up by something else.
    pub without_allowances: bool,
}

/// Tariffs that were selected before.
type Selected = BTreeMap<(String, String, Date), Option<Tariff>>;

impl Books<'_> {
    /// Returns the meter of a meaning on the date of a usage; `None` if no price is known.
    fn meter(&self, meaning: &Meaning, month: Option<Date>, selected: &mut Selected) -> Option<Meter> {
        let date = match month {
            Some(month) if !self.fixed => month,
            _ => self.date,
        };
        match &meaning.price {
            BookPrice::Meter(offer, at) => {
                let key = (offer.to_string(), meaning.region.clone(), date);
                let tariff = selected.entry(key).or_insert_with(|| {
                    let region = Some(meaning.region.as_str()).filter(|region| !region.is_empty());
                    self.prices.tariff(offer, region, date).ok()
                });
                let tariff = tariff.as_ref()?;
                let meter = match at {
                    OfferMeter::Storage => tariff.meter(Measure::Storage),
                    OfferMeter::Requests(call) => meter_of(tariff, *call),
                    OfferMeter::Retrieval => tariff.meter(Measure::Retrieval),
                    OfferMeter::Upload => tariff.meter(Measure::Upload),
                    OfferMeter::Egress => tariff.meter(Measure::Egress),
                };
                meter.cloned()
            }
            BookPrice::Line(offer, names) => names
                .iter()
                .find_map(|name| self.prices.line(offer, &meaning.region, name, date).ok().flatten()),
            BookPrice::Free | BookPrice::None => None,
        }
    }
}

/// Returns a quantity in bytes or requests, as a fraction; `None` if it is negative or too large.
fn base(quantity: i128, scale: Scale) -> Option<BaseQuantity> {
    let quantity = u128::try_from(quantity).ok()?;
    let value = quantity.checked_mul(u128::from(scale.times))? / u128::from(scale.over);
    Some(BaseQuantity { value: value / (ONE as u128 / BaseQuantity::OVER) })
}

/// Usages with the same price, whose charges differ in their operation only.
fn grouped(sums: &BillSums) -> Vec<(UsageKey, Meaning, Sum)> {
    let mut groups: Vec<(UsageKey, Meaning, Sum)> = Vec::new();
    let mut known: BTreeMap<(Option<Date>, String, String, String, String), usize> = BTreeMap::new();
    for (key, sum) in &sums.usages {
        let Some(meaning) = meaning(key) else { continue };
        let price = format!("{:?}", meaning.price);
        let name = (key.month, key.usage.clone(), meaning.region.clone(), key.unit.clone(), price);
        match known.get(&name) {
            Some(at) => groups[*at].2.merge(sum.clone()),
            None => {
                known.insert(name, groups.len());
                groups.push((key.clone(), meaning, sum.clone()));
            }
        }
    }
    groups
}

/// Returns the name of a usage for people, with its operation if the price depends on it.
fn name_of(key: &UsageKey, meaning: &Meaning) -> String {
    let depends = matches!(&meaning.price, BookPrice::Line(_, names) if names.len() > 1);
    match depends && !key.operation.is_empty() {
        true => format!("{} {}", key.usage, key.operation),
        false => key.usage.clone(),
    }
}

/// Residuals by name and reason, in units of 10^-12 dollars.
#[derive(Default)]
struct Residuals(BTreeMap<(String, &'static str), i128>);

impl Residuals {
    fn add(&mut self, name: String, reason: &'static str, pico: i128) {
        *self.0.entry((name, reason)).or_insert(0) += pico;
    }

    /// Adds the lines of object storage.
    fn of_lines(&mut self, lines: &[ExplainedLine]) {
        // Providers and Plimsoll may share the tiers of a meter among its lines in different ways.
        let groups = shared(lines);
        groups
            .values()
            .for_each(|members| self.of_group(&members.iter().map(|at| &lines[*at]).collect::<Vec<_>>()));
        let grouped: BTreeSet<usize> = groups.into_values().flatten().collect();
        let alone = |(at, line)| (!grouped.contains(&at)).then_some(line);
        lines.iter().enumerate().filter_map(alone).for_each(|line| self.of_group(&[line]));
    }

    /// Adds the difference of lines from their list prices.
    fn of_group(&mut self, lines: &[&ExplainedLine]) {
        let (mut difference, mut names) = (0, Vec::new());
        for line in lines {
            let Some(billed) = line.billed_usd else { continue };
            let Some(listed) = line.listed_usd else {
                let reason = match (&line.quantity, &line.price) {
                    (None, _) => "the bill has no quantity",
                    (Some(quantity), _) if quantity.starts_with('-') => "a negative quantity",
                    (_, Some(_)) => "the unit of the quantity is unknown",
                    (_, None) => "no price in the books",
                };
                self.add(line.usage.clone(), reason, billed.pico());
                continue;
            };
            difference += billed.pico() - listed.pico();
            names.push(format!("{} in {}", line.usage, line.region));
        }
        match difference.abs() {
            0 => {}
            1..ROUNDING => self.add("rounding of lines".into(), "rounding", difference),
            _ => self.add(names.join(", "), "another price than in the books", difference),
        }
    }

    /// Adds a charge that is not for object storage, or not for usage.
    fn of_other(&mut self, key: &UsageKey, pico: i128) {
        let reason = match key.kind {
            ChargeKind::Usage => {
                let name = if key.service.is_empty() { &key.usage } else { &key.service };
                return self.add(name.clone(), "another service", pico);
            }
            ChargeKind::Credit => "credit or refund",
            ChargeKind::Discount => "discount",
            ChargeKind::Fee => "fee",
            ChargeKind::Tax => "tax",
        };
        self.add(key.usage.clone(), reason, pico);
    }

    fn sorted(self) -> Vec<Residual> {
        let named = |((name, reason), pico)| Residual { name, reason, usd: Usd::from_pico(pico) };
        let mut out: Vec<Residual> = self.0.into_iter().filter(|(_, pico)| *pico != 0).map(named).collect();
        out.sort_by_key(|residual| (std::cmp::Reverse(residual.usd.pico().abs()), residual.name.clone()));
        out
    }
}

/// Returns the quantity that a cost implies at a list price. Storage follows from the cost of one day.
fn implied(price: &Meter, meaning: &Meaning, sum: &Sum, month: Option<Date>) -> Option<u128> {
    let daily = sum.days.len() > 1 || sum.days.keys().any(|day| day.day() > 1);
    // The last day of several may be incomplete.
    let last = match sum.days.len() {
        0..4 => sum.days.values().max(),
        _ => sum.days.values().rev().nth(1),
    };
    let cost = match (meaning.topic, last, month) {
        (Topic::Storage, Some(day), Some(month)) if daily => day * i128::from(month.days_in_month()),
        // The time that the cost covers is unknown.
        (Topic::Storage, ..) => return None,
        _ => sum.cost,
    };
    of_cost(price, Usd::from_pico(cost))
}

/// Returns a usage with its price.
fn line(
    key: UsageKey,
    meaning: &Meaning,
    sum: Sum,
    books: &Books<'_>,
    selected: &mut Selected,
) -> ExplainedLine {
    let price = books.meter(meaning, key.month, selected);
    let scaled = sum.quantity.zip(meaning.unit).and_then(|(quantity, scale)| base(quantity, scale));
    ExplainedLine {
        month: key.month,
        usage: name_of(&key, meaning),
        region: meaning.region.clone(),
        topic: meaning.topic,
        quantity: sum.quantity.map(|quantity| decimal_text(quantity, 0)),
        unit: key.unit,
        billed_usd: sum.is_billed.then(|| Usd::from_pico(sum.cost)),
        listed_usd: scaled.filter(|_| meaning.price == BookPrice::Free).map(|_| Usd::ZERO),
        source: price.as_ref().map(|meter| meter.provenance.source.clone()).unwrap_or_default(),
        implied: match (sum.quantity, &price) {
            (None, Some(price)) => implied(price, meaning, &sum, key.month),
            _ => None,
        },
        days: sum.days,
        covered: sum.covered,
        price,
        base: scaled,
        at: match meaning.price {
            BookPrice::Meter(offer, meter) => Some((offer, meter)),
            _ => None,
        },
    }
}

/// Returns the costs by resource, the largest first.
fn resources(sums: &BillSums) -> Vec<ResourceCost> {
    let cost =
        |(name, pico): (&String, &i128)| ResourceCost { name: name.clone(), usd: Usd::from_pico(*pico) };
    let mut out: Vec<ResourceCost> = sums.resources.iter().map(cost).collect();
    out.sort_by_key(|resource| (std::cmp::Reverse(resource.usd), resource.name.clone()));
    out
}

/// Explains a bill by the prices of the books.
pub fn explain(sums: &BillSums, books: &Books<'_>) -> Explained {
    let mut selected = Selected::new();
    let mut residuals = Residuals::default();
    let mut lines: Vec<ExplainedLine> = grouped(sums)
        .into_iter()
        .map(|(key, meaning, sum)| line(key, &meaning, sum, books, &mut selected))
        .collect();
    set_list_prices(&mut lines, books.without_allowances);
    residuals.of_lines(&lines);
    for (key, sum) in sums.usages.iter().filter(|(key, _)| meaning(key).is_none()) {
        residuals.of_other(key, sum.cost);
    }
    lines.sort_by_key(|line| {
        (std::cmp::Reverse(line.billed_usd.or(line.listed_usd).map(Usd::pico)), line.usage.clone())
    });
    Explained {
        total_usd: Usd::from_pico(sums.total()),
        object_storage_usd: lines.iter().filter_map(|line| line.billed_usd).sum(),
        listed_usd: lines.iter().filter_map(|line| line.listed_usd).sum(),
        is_billed: sums.usages.values().any(|sum| sum.is_billed),
        period: sums.first.zip(sums.last).map(|(first, last)| (first.to_string(), last.to_string())),
        resources: resources(sums),
        lines,
        residuals: residuals.sorted(),
    }
}

/// Returns a cost of the covered days of a month, extrapolated to the month.
fn whole_usd(now: MonthNow, usd: Usd) -> Usd {
    let whole = i128::try_from(now.whole(usd.pico().unsigned_abs())).unwrap_or(i128::MAX);
    Usd::from_pico(if usd.pico() < 0 { -whole } else { whole })
}

impl ExplainedLine {
    /// Returns the bytes or requests of a month; `None` if neither quantity nor cost implies them.
    pub fn bytes_in(&self, now: MonthNow) -> Option<u128> {
        let is_month = self.base.is_none() && self.topic == Topic::Storage;
        self.stored_bytes().map(|bytes| if is_month { bytes } else { now.whole(bytes) })
    }

    /// Returns the bytes of the quantity, or the bytes that the cost implies at list prices; `None` without both.
    pub fn stored_bytes(&self) -> Option<u128> {
        match (self.base, self.implied) {
            (Some(base), _) => Some(base.value / BaseQuantity::OVER),
            (None, implied) => implied,
        }
    }
}

impl Explained {
    /// Returns the sum of the residuals.
    pub fn residual(&self) -> Usd {
        self.residuals.iter().map(|residual| residual.usd).sum()
    }

    /// Returns the last month of which storage covers most days, or other usage if there is no storage. `None` if the
    /// bill covers each month in part only.
    pub fn month_now(&self) -> Option<MonthNow> {
        let of = |lines: Vec<&ExplainedLine>| {
            let mut months: BTreeMap<Option<Date>, Days> = BTreeMap::new();
            lines.iter().for_each(|line| months.entry(line.month).or_default().add(line.covered));
            months.into_iter().collect::<Vec<_>>()
        };
        let storage = of(self.lines.iter().filter(|line| line.topic == Topic::Storage).collect());
        let months = if storage.is_empty() { of(self.lines.iter().collect()) } else { storage };
        MonthNow::select(&months, self.lines.iter().all(|line| line.quantity.is_none()))
    }

    /// Returns the lines of a month. Lines without a date belong to each.
    pub fn of_month(&self, now: MonthNow) -> impl Iterator<Item = &ExplainedLine> + Clone {
        self.lines.iter().filter(move |line| line.month.is_none_or(|month| Some(month) == now.month))
    }

    /// Returns true if the bill has several months.
    pub fn has_months(&self) -> bool {
        let months: BTreeSet<Option<Date>> = self.lines.iter().map(|line| line.month).collect();
        months.len() > 1
    }

    /// Returns the cost of a month of storage, requests and egress, which all providers price. Usage without a list
    /// price counts as billed.
    pub fn compared_usd(&self, now: MonthNow) -> Usd {
        let compared = [Topic::Storage, Topic::Requests, Topic::Retrieval, Topic::Egress];
        // Requests and bytes without a meter do not enter the usage elsewhere.
        let is_compared = |line: &&ExplainedLine| {
            compared.contains(&line.topic) && (line.at.is_some() || line.topic == Topic::Storage)
        };
        let lines = self.of_month(now).filter(is_compared);
        whole_usd(now, lines.filter_map(|line| line.listed_usd.or(line.billed_usd)).sum())
    }

    /// Returns the cost of a month of `bytes` of the storage in a class, named as in the API, with the access tier of
    /// Intelligent-Tiering; `None` if the bill has none.
    pub fn storage_of(&self, class: &str, bytes: u64, now: MonthNow) -> Option<Usd> {
        let names: &[&str] = match class {
            "STANDARD" => &["TimedStorage-ByteHrs"],
            "STANDARD_IA" => &["TimedStorage-SIA-"],
            "ONEZONE_IA" => &["TimedStorage-ZIA-"],
            "GLACIER_IR" => &["TimedStorage-GIR-"],
            "GLACIER" => &["TimedStorage-GlacierByteHrs"],
            "DEEP_ARCHIVE" => &["TimedStorage-GDA-ByteHrs"],
            "INTELLIGENT_TIERING" => &["TimedStorage-INT-"],
            "INTELLIGENT_TIERING FREQUENT" => &["TimedStorage-INT-FA-"],
            "INTELLIGENT_TIERING INFREQUENT" => &["TimedStorage-INT-IA-"],
            "INTELLIGENT_TIERING ARCHIVE_INSTANT_ACCESS" => &["TimedStorage-INT-AIA-"],
            "INTELLIGENT_TIERING ARCHIVE" => &["TimedStorage-INT-AA-"],
            "INTELLIGENT_TIERING DEEP_ARCHIVE" | "INTELLIGENT_TIERING DEEP_ARCHIVE_ACCESS" => {
                &["TimedStorage-INT-DAA-"]
            }
            _ => return None,
        };
        let is_of = |line: &&ExplainedLine| {
            names.iter().any(|name| line.usage.contains(name)) && !line.usage.contains("s-TimedStorage")
        };
        let lines: Vec<&ExplainedLine> = self.of_month(now).filter(is_of).collect();
        let costs: Vec<Usd> = lines.iter().filter_map(|line| line.billed_usd.or(line.listed_usd)).collect();
        if costs.is_empty() {
            return None;
        }
        let sum = whole_usd(now, costs.into_iter().sum()).pico();
        // Without the padding of small objects, which the inventory does not have.
        let stored = lines.iter().filter(|line| !line.usage.ends_with("SmObjects"));
        let billed: u128 = stored.filter_map(|line| line.bytes_in(now)).sum();
        let of_bill = i128::try_from(billed).unwrap_or(i128::MAX).max(i128::from(bytes)).max(1);
        Some(Usd::from_pico(sum.checked_mul(i128::from(bytes))? / of_bill))
    }

    /// Returns the costs by part of the bill, the largest first.
    pub fn topics(&self) -> Vec<(Topic, Usd)> {
        let mut sums: BTreeMap<Topic, i128> = BTreeMap::new();
        for line in &self.lines {
            let cost = line.billed_usd.or(line.listed_usd).map_or(0, Usd::pico);
            *sums.entry(line.topic).or_insert(0) += cost;
        }
        let mut topics: Vec<(Topic, Usd)> =
            sums.into_iter().map(|(topic, pico)| (topic, Usd::from_pico(pico))).collect();
        topics.sort_by_key(|(topic, usd)| (std::cmp::Reverse(usd.pico()), *topic));
        topics
    }
}
