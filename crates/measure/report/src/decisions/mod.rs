//! Documents that support decisions: bills of several providers, break-even points, tiering ages, price lists
//! and recommended stores.

pub mod advice;
pub mod bills;
pub mod breakeven;
pub mod explain;
pub mod fit;
pub mod from_log;
pub mod log_prefixes;
pub mod metered;
pub mod migrate;
pub mod prices;
pub mod published;
pub mod ranges;
pub mod tiering;

use plimsoll_cost::money::Usd;

/// Converts an amount to dollars for the scale of a chart. Tables contain the exact amounts.
fn dollars(amount: Usd) -> f64 {
    amount.dollars()
}
