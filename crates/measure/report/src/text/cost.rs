//! The cost of a run in words.

use crate::decisions::bills::{quantity, unit};
use plimsoll_cost::money::Usd;
use plimsoll_document::Table;
use plimsoll_judge::summary::result::CostFigures;

/// Describes the cost at one store in a sentence.
pub fn sentence(cost: &CostFigures) -> String {
    let emulated = if cost.emulated { ", although the store is not the provider's own" } else { "" };
    let estimated = cost
        .estimated_usd
        .map(|usd| format!("; estimated before the run: {}", usd.rounded()))
        .unwrap_or_default();
    format!(
        "{} at {}'s prices of {} ({}){emulated}{estimated}",
        cost.bill.total_usd.rounded(),
        cost.bill.provider,
        cost.bill.as_of,
        cost.bill.region
    )
}

/// Returns the table of one store's line items, without those that cost nothing.
pub fn items(cost: &CostFigures) -> Table {
    let mut table =
        Table::new("", &["item", "quantity#", "unit", "unit price#", "amount#", "price read", "confidence"]);
    for line in cost.bill.lines.iter().filter(|l| l.amount_usd != Usd::ZERO) {
        table.row([
            line.item.clone(),
            quantity(&line.quantity),
            unit(&line.unit),
            format!("${}", line.unit_price_usd),
            line.amount_usd.rounded(),
            line.as_of.clone(),
            line.confidence.name().into(),
        ]);
    }
    table
}
