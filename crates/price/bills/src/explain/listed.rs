//! Costs of the lines of a bill at list prices. Lines with the same meter share its allowance in each month, and its
//! tiers in each month and region.

use std::collections::BTreeMap;

use jiff::civil::Date;

use super::explained_line::{BaseQuantity, ExplainedLine};
use plimsoll_cost::charge::in_tiers;
use plimsoll_cost::money::Usd;
use plimsoll_cost::tariff::{Free, Meter};

/// Meter of a line: its offer and item, by which lines share allowances.
fn meter_name(line: &ExplainedLine, price: &Meter) -> String {
    match line.at {
        Some((offer, at)) => format!("{offer} {at:?}"),
        None => price.item.clone(),
    }
}

/// Month, meter and region, by which lines share tiers.
pub type MeterScope = (Option<Date>, String, String);

/// Returns the lines with a price and a quantity by what they share.
pub fn shared(lines: &[ExplainedLine]) -> BTreeMap<MeterScope, Vec<usize>> {
    let mut out: BTreeMap<MeterScope, Vec<usize>> = BTreeMap::new();
    for (at, line) in lines.iter().enumerate() {
        if let (Some(price), Some(_)) = (&line.price, line.base) {
            out.entry((line.month, meter_name(line, price), line.region.clone())).or_default().push(at);
        }
    }
    out
}

/// Sets the list prices of the lines that have a price and a quantity. The cost of a line is its increase over the cost
/// of the lines before it.
pub fn set_list_prices(lines: &mut [ExplainedLine], without_allowances: bool) {
    let mut left: BTreeMap<(Option<Date>, String), u128> = BTreeMap::new();
    for ((month, meter, _), members) in shared(lines) {
        let Some(price) = members.first().and_then(|at| lines[*at].price.clone()) else { continue };
        let allowance = match price.free {
            Free::Amount(amount) if !without_allowances => u128::from(amount),
            _ => 0,
        };
        let left = left.entry((month, meter)).or_insert(allowance * BaseQuantity::OVER);
        let free = *left / BaseQuantity::OVER;
        let cost = |quantity: u128| in_tiers(&price, quantity, BaseQuantity::OVER, free);
        let mut before = Some((0u128, Usd::ZERO));
        for at in members {
            let Some(base) = lines[at].base else { continue };
            let after = before
                .and_then(|(reached, _)| reached.checked_add(base.value))
                .and_then(|reached| Some((reached, cost(reached)?)));
            lines[at].listed_usd = before.zip(after).map(|((_, from), (_, to))| to - from);
            before = after;
        }
        *left = left.saturating_sub(before.map_or(u128::MAX, |(reached, _)| reached));
    }
}
