//! What helps to decide, as documents: bills side by side, where they cross, which age to move objects at, which store fits.

pub mod advice;
pub mod bills;
pub mod breakeven;
pub mod prices;
pub mod published;
pub mod tiering;

use crate::cost::money::Usd;

/// Dollars for the scale of a chart; tables have the exact amounts.
fn dollars(amount: Usd) -> f64 {
    amount.dollars()
}
