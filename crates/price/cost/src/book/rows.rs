//! All prices as rows of a table, for programs.

use serde::Serialize;

use super::{Price, Prices};
use crate::bill::BillPart;
use crate::money::Usd;
use crate::tariff::{Free, Measure};
use plimsoll_base::provider::Confidence;
use plimsoll_base::provider::calls::Call;

/// Price of one tier of one item of an offer in one region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PriceRow {
    /// Name of the offer.
    pub offer: String,
    /// Provider whose stores are billed at it; null if none is linked to the offer.
    pub provider: Option<String>,
    /// Region of the price.
    pub region: String,
    /// Part of a bill that it belongs to.
    pub part: &'static str,
    /// Name of the billed item.
    pub item: String,
    /// Requests that it applies to, named as in the S3 API; empty for other items.
    pub calls: Vec<String>,
    /// Name of the unit of the price.
    pub unit: String,
    /// Start of the tier, in bytes, requests or seconds per month.
    pub tier_from: u64,
    /// End of the tier; null for the last one.
    pub tier_up_to: Option<u64>,
    /// Price of one unit in US dollars, as an exact decimal.
    pub usd: Usd,
    /// Free bytes or requests per month; null if there are none, or they depend on the data stored.
    pub free: Option<u64>,
    /// First day on which the price is known to be valid.
    pub valid_from: String,
    /// First day on which it is no longer valid; null if it still is.
    pub valid_until: Option<String>,
    /// Source of the price.
    pub source: String,
    /// Date on which the source was read: the year, and the month and day if they are known.
    pub as_of: String,
    /// Confidence in the price.
    pub confidence: Confidence,
    /// Remark about the price; null if there is none.
    pub note: Option<String>,
}

fn rows(price: &Price, offer: &str, provider: Option<&String>, region: &str, out: &mut Vec<PriceRow>) {
    let meter = &price.meter;
    let calls = match meter.measure {
        Measure::Requests { calls, .. } => {
            Call::ALL.into_iter().filter(|call| calls.contains(*call)).map(Call::name).collect()
        }
        _ => Vec::new(),
    };
    let mut reached = 0;
    for tier in &meter.tiers {
        out.push(PriceRow {
            offer: offer.into(),
            provider: provider.cloned(),
            region: region.into(),
            part: BillPart::of(meter.measure).name(),
            item: meter.item.clone(),
            calls: calls.clone(),
            unit: meter.unit.clone(),
            tier_from: reached,
            tier_up_to: Some(tier.up_to).filter(|up_to| *up_to < u64::MAX),
            usd: tier.price,
            free: match meter.free {
                Free::Amount(amount) => Some(amount),
                Free::None | Free::TimesStored(_) => None,
            },
            valid_from: price.span.from.to_string(),
            valid_until: price.span.until.map(|date| date.to_string()),
            source: meter.provenance.source.clone(),
            as_of: meter.provenance.as_of.clone(),
            confidence: meter.provenance.confidence,
            note: meter.note.clone(),
        });
        reached = tier.up_to;
    }
}

impl Prices {
    /// Returns all prices of all dates: a row for each offer, region and tier.
    pub fn rows(&self) -> Vec<PriceRow> {
        let mut out = Vec::new();
        for price in self.books.iter().flat_map(|book| &book.entries().prices) {
            for offer in price.offers.iter().filter_map(|name| self.offer(name)) {
                let regions = if price.regions.is_empty() { &offer.regions } else { &price.regions };
                for region in regions {
                    rows(price, &offer.name, offer.provider.as_ref(), region, &mut out);
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_price_is_a_row_with_its_origin() {
        let rows = Prices::built_in().unwrap().rows();
        let of = |offer: &str, item: &str| -> Vec<&PriceRow> {
            rows.iter().filter(|r| r.offer == offer && r.region == "us-east-1" && r.item == item).collect()
        };
        let storage = of("aws-s3", "storage");
        let tiers: Vec<_> = storage.iter().map(|r| (r.tier_from >> 40, r.usd.to_string())).collect();
        assert_eq!(tiers, [(0, "0.023".into()), (50, "0.022".into()), (500, "0.021".into())]);
        assert_eq!((storage[2].tier_up_to, storage[0].provider.as_deref()), (None, Some("aws-s3")));
        // Both the price before the cut of April 2025 and the one after it.
        let express = of("aws-s3-express", "storage");
        assert_eq!((express.len(), express[0].valid_until.as_deref()), (2, Some("2025-04-10")));
        assert!(rows.iter().all(|r| !r.source.is_empty() && !r.as_of.is_empty()) && rows.len() > 1000);
    }
}
