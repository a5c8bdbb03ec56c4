//! Cost of a run, with its line items.

use crate::cost::money::Usd;
use crate::report::decisions::bills::{quantity, unit};
use crate::report::document::Table;
use crate::summary::result::CostFigures;
use crate::units::short_names;

/// Parses an amount of a result; zero if it is invalid.
pub fn amount(text: &str) -> Usd {
    text.strip_prefix('-')
        .map_or_else(|| Usd::parse(text), |rest| Usd::parse(rest).map(|usd| -usd))
        .unwrap_or_default()
}

/// Describes the cost at one store in a sentence.
pub fn sentence(cost: &CostFigures) -> String {
    let emulated = if cost.emulated { ", although the store is not the provider's own" } else { "" };
    let estimated = cost
        .estimated_usd
        .as_ref()
        .map(|usd| format!("; estimated before the run: {}", amount(usd).shown()))
        .unwrap_or_default();
    format!(
        "{} at {}'s prices of {} ({}){emulated}{estimated}",
        amount(&cost.total_usd).shown(),
        cost.provider,
        cost.as_of,
        cost.region
    )
}

/// Returns the table of one store's line items, without those that cost nothing.
pub fn items(cost: &CostFigures) -> Table {
    let mut table =
        Table::new("", &["item", "quantity#", "unit", "unit price#", "amount#", "price read", "confidence"]);
    for line in cost.lines.iter().filter(|l| amount(&l.amount_usd) != Usd::ZERO) {
        table.row([
            line.item.clone(),
            quantity(&line.quantity),
            unit(&line.unit),
            format!("${}", line.unit_price_usd),
            amount(&line.amount_usd).shown(),
            line.as_of.clone(),
            line.confidence.clone(),
        ]);
    }
    table
}

/// Renders the cost of a run at every store that has prices.
pub fn render(costs: &[CostFigures]) -> String {
    let mut out = String::new();
    let names = short_names(&costs.iter().map(|c| c.store.as_str()).collect::<Vec<_>>());
    for (cost, name) in costs.iter().zip(names) {
        out.push_str(&format!("\ncost of {name}: {}\n", sentence(cost)));
        for row in items(cost).rows {
            let times = if row[2].starts_with(|c: char| c.is_ascii_digit()) { "x " } else { "" };
            out.push_str(&format!(
                "  {:30} {:>16} {times}{} at {} = {}\n",
                row[0], row[1], row[2], row[3], row[4]
            ));
        }
        cost.notes.iter().for_each(|note| out.push_str(&format!("  {note}\n")));
    }
    out
}
