//! Table of the requests of logs by prefix, for the document that explains a bill.

use plimsoll_base::units::{format_count, format_volume};
use plimsoll_cost::money::Usd;
use plimsoll_document::Table;
use serde::Serialize;

use super::from_log::PrefixCost;

/// Maximum number of rows of the table; the JSON has all.
pub const MAX_ROWS: usize = 20;

/// Requests of logs by prefix, with their cost at list prices.
#[derive(Debug, Clone, Serialize)]
pub struct LogPrefixes {
    /// Name of the offer with the prices.
    pub offer: String,
    /// Region of the prices.
    pub region: String,
    /// Requests by prefix, the most expensive one first.
    pub rows: Vec<PrefixCost>,
}

/// Builds the table of the requests by prefix.
pub fn requests(found: &LogPrefixes) -> Table {
    let head =
        format!("Requests of the logs by prefix, at list prices of {} in {}", found.offer, found.region);
    let mut table = Table::new(head, &["prefix", "requests#", "written#", "read#", "cost#"]);
    for row in found.rows.iter().take(MAX_ROWS) {
        table.row([
            row.prefix.clone(),
            format_count(row.requests),
            format_volume(row.written),
            format_volume(row.read),
            row.usd.first().copied().flatten().map_or("-".into(), Usd::rounded),
        ]);
    }
    table
}
