//! `plimsoll list prices`: what can be bought, and every price with its source.

use super::cost::request::PriceArguments;
use super::exit::Exit;
use super::out::say;
use crate::report::decisions::prices::{all, one};

/// Prints what there is, or all prices of one offer.
///
/// # Errors
/// 2 for an offer or a date that there are no prices for.
pub fn list(name: Option<&str>, arguments: &PriceArguments) -> Result<(), Exit> {
    let (prices, date) = (arguments.read()?, arguments.date()?);
    let document = match name {
        Some(name) => one(&prices, name, date, arguments.is_dated()).map_err(Exit::input)?,
        None => all(&prices, date),
    };
    say(&document.terminal())
}
