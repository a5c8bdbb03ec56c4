//! Bill of a usage at a tariff: [`total`] adds the charges, and [`bill`] lists them.

use serde::{Deserialize, Serialize};

use super::charge::{BillError, Charge, charges};
use super::money::{Usd, decimal_text};
use super::period::{DAY_S, Period};
use super::tariff::{Measure, Meter, RuleName, Tariff};
use super::usage::Usage;
use plimsoll_base::provider::Confidence;
use plimsoll_base::provider::calls::Call;

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BillLine {
    /// Name of the billed item.
    pub item: String,
    /// Part of the bill that it belongs to: `storage`, `requests`, `data`, `egress` or `compute`. Null in results
    /// of schema 1.
    #[serde(default)]
    pub part: Option<BillPart>,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum BillPart {
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
    /// Lines of bills that no workload contains.
    Other,
}

impl BillPart {
    /// All parts, in order.
    pub const ALL: [BillPart; 6] = [
        BillPart::Storage,
        BillPart::Requests,
        BillPart::Data,
        BillPart::Egress,
        BillPart::Compute,
        BillPart::Other,
    ];

    /// Returns the part that a measure belongs to.
    pub fn of(measure: Measure) -> BillPart {
        match measure {
            Measure::Storage | Measure::IndexStorage | Measure::UnreadStorage { .. } | Measure::Monitored => {
                BillPart::Storage
            }
            Measure::Requests { .. } | Measure::Restores => BillPart::Requests,
            Measure::Upload
            | Measure::Retrieval
            | Measure::RestoredStorage
            | Measure::ReadInside
            | Measure::CrossZone
            | Measure::CrossRegion => BillPart::Data,
            Measure::Egress => BillPart::Egress,
            Measure::Instance | Measure::Function(_) => BillPart::Compute,
            Measure::Line => BillPart::Other,
        }
    }

    /// Returns the name used in tables.
    pub fn name(self) -> &'static str {
        match self {
            BillPart::Storage => "storage",
            BillPart::Requests => "requests",
            BillPart::Data => "data",
            BillPart::Egress => "egress",
            BillPart::Compute => "compute",
            BillPart::Other => "other",
        }
    }
}

/// Monthly bill of a workload at one provider, or the bill of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    pub lines: Vec<BillLine>,
    /// Rules that affected the bill, with their confidence unless it is high.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Bill {
    /// Returns the sum of a part of the bill.
    pub fn part(&self, part: BillPart) -> Usd {
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
fn line(charge: &Charge<'_>) -> BillLine {
    let meter = charge.meter;
    // Rounded to 12 decimal places. Larger amounts have already been rejected.
    let over = charge.over * u128::from(meter.unit_base);
    let (whole, rest) = (charge.quantity / over, charge.quantity % over);
    let places = rest.checked_mul(1_000_000_000_000).map_or(0, |r| (r + over / 2) / over);
    let quantity = (whole * 1_000_000_000_000 + places) as i128;
    let free = if charge.free { ", free allowance" } else { "" };
    BillLine {
        item: format!("{}{free}", meter.item),
        part: Some(BillPart::of(meter.measure)),
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
        Period::Month => usage.retention_s.is_some_and(|lived| lived < rules.minimum_days * DAY_S),
        Period::Seconds(seconds) => seconds < rules.minimum_days * DAY_S,
    };
    let is_stored = usage.stored > 0 || (usage.retention_s == Some(0) && usage.uploaded > 0);
    let small = usage.object_bytes > 0 && usage.object_bytes < rules.minimum_object;
    let little = usage.is_month() && usage.stored_in(rules.month_hours) < rules.minimum_billed;
    let applies = |name: RuleName| match name {
        RuleName::MinimumDays => is_stored && short,
        RuleName::MinimumObject => is_stored && small,
        RuleName::ObjectSize | RuleName::ObjectIndex => is_stored && usage.object_bytes > 0,
        RuleName::Restore => usage.restores() > 0,
        RuleName::Monitored => is_stored,
        RuleName::MinimumBilled => little,
        RuleName::DailyPeak => is_stored && (!usage.is_month() || usage.stored != usage.stored_peak),
        RuleName::Deleted => {
            let deletes = usage.deleted > 0 || usage.retention_s.is_some() || !usage.is_month();
            deletes
                && !usage.moves_on
                && (is_stored || usage.deleted > 0)
                && rules.charged_after_deletion_s() > 0
        }
        RuleName::RoundUp => rules.round_up && usage.is_month(),
        RuleName::Unbilled
        | RuleName::LargestObject
        | RuleName::EgressWithinStored
        | RuleName::TransitionDays => false,
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
