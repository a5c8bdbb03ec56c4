//! `plimsoll list prices`: lists offers, and prices with their sources.

use super::cost::request::PriceArguments;
use super::exit::Exit;
use super::out::say;
use plimsoll_judge::report::decisions::prices::{all, one};

/// Prints all offers, or all prices of one offer.
///
/// # Errors
/// Exit code 2 if there are no prices for the offer or date.
pub fn list(name: Option<&str>, arguments: &PriceArguments) -> Result<(), Exit> {
    let prices = arguments.read()?;
    let date = arguments.date(&prices)?;
    let document = match name {
        Some(name) => one(&prices, name, date, arguments.is_dated()).map_err(Exit::input)?,
        None => all(&prices, date),
    };
    say(&document.terminal())
}
