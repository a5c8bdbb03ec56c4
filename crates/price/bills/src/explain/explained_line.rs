//! A line of a bill with its price in the books.

use std::collections::BTreeMap;

use jiff::civil::Date;
use serde::Serialize;

use super::covered::Days;
use super::meaning::{OfferMeter, Topic};
use plimsoll_cost::money::Usd;
use plimsoll_cost::tariff::Meter;

/// A quantity of bytes or requests, in units of 10^-6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseQuantity {
    /// Number of millionths.
    pub value: u128,
}

impl BaseQuantity {
    /// Number of units in one byte or request.
    pub const OVER: u128 = 1_000_000;
}

/// Serializes a date as text.
fn as_text<S: serde::Serializer>(date: &Option<Date>, to: S) -> Result<S::Ok, S::Error> {
    date.map(|date| date.to_string()).serialize(to)
}

/// A usage of object storage on a bill.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExplainedLine {
    /// First day of the month; null if the bill does not say.
    #[serde(serialize_with = "as_text")]
    pub month: Option<Date>,
    /// Name on the bill, without the operation.
    pub usage: String,
    /// Region of the price; empty if it has none.
    pub region: String,
    /// Part of the bill.
    pub topic: Topic,
    /// Quantity, as an exact decimal; null if the bill has none.
    pub quantity: Option<String>,
    /// Unit of the quantity.
    pub unit: String,
    /// Cost on the bill; null if the file has usage only.
    pub billed_usd: Option<Usd>,
    /// Cost at list prices of the books; null if no price is known, or the bill has no quantity.
    pub listed_usd: Option<Usd>,
    /// Source of that price; empty if there is none.
    pub source: String,
    /// Costs by day, as on the bill.
    #[serde(skip)]
    pub days: BTreeMap<Date, i128>,
    /// Days of the month that the charges cover.
    #[serde(skip)]
    pub covered: Days,
    /// Price in the books.
    #[serde(skip)]
    pub price: Option<Meter>,
    /// Quantity in bytes or requests.
    #[serde(skip)]
    pub base: Option<BaseQuantity>,
    /// Bytes or requests that the cost implies at list prices, if the bill has no quantity. For storage, averaged over
    /// a month, from the cost of the last whole day, or of the most expensive day of at most three.
    pub implied: Option<u128>,
    /// Meter of the usage.
    #[serde(skip)]
    pub at: Option<(&'static str, OfferMeter)>,
}
