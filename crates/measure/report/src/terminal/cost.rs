//! Cost of a run, with its line items.

use crate::text::cost::{items, sentence};
use plimsoll_base::units::short_names;
use plimsoll_judge::summary::result::CostFigures;

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
        cost.bill.notes.iter().for_each(|note| out.push_str(&format!("  {note}\n")));
    }
    out
}
