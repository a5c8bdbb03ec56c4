//! Document with the bills of the requests of a log.

use super::bills::{Items, document as of_bills};
use plimsoll_base::units::{format_count, format_volume};
use plimsoll_cost::bills::Bills;
use plimsoll_cost::money::Usd;
use plimsoll_document::{Document, Table};
use serde::Serialize;

/// Requests of one prefix, with their cost at some providers.
#[derive(Debug, Clone, Serialize)]
pub struct PrefixCost {
    /// Bucket and prefix.
    pub prefix: String,
    /// Number of requests in the log.
    pub requests: u64,
    /// Object bytes written in the log.
    pub written: u64,
    /// Object bytes read in the log.
    pub read: u64,
    /// Cost of its requests and bytes at each provider of the table, at the list prices of the first tier.
    pub usd: Vec<Option<Usd>>,
}

/// Bills of a log, as `plimsoll cost from-log --json` prints them.
#[derive(Debug, Serialize)]
pub struct LogBills {
    /// Bills of all requests.
    #[serde(flatten)]
    pub bills: Bills,
    /// Providers of the columns of `prefixes`.
    pub providers: Vec<String>,
    /// Requests by prefix, the most expensive one first.
    pub prefixes: Vec<PrefixCost>,
}

/// Maximum number of prefixes in the table; JSON and CSV have all.
const ROWS: usize = 20;

fn prefixes(found: &LogBills) -> Option<Table> {
    let names: Vec<String> = found.providers.iter().map(|name| format!("{name}#")).collect();
    let columns: Vec<&str> = ["prefix", "requests#", "written#", "read#"]
        .into_iter()
        .chain(names.iter().map(String::as_str))
        .collect();
    let mut table = Table::new("By prefix, at list prices of the first tier, without storage", &columns);
    for row in found.prefixes.iter().take(ROWS) {
        let first = [
            row.prefix.clone(),
            format_count(row.requests),
            format_volume(row.written),
            format_volume(row.read),
        ];
        let costs = row.usd.iter().map(|usd| usd.map_or("-".into(), Usd::rounded));
        table.row(first.into_iter().chain(costs).collect::<Vec<_>>());
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Builds the document of the bills of a log that `what` describes.
pub fn document(found: &LogBills, what: Vec<String>) -> Document {
    let mut document = of_bills(&found.bills, what, Items::Parts);
    document.title = "Monthly cost of the requests of a log".into();
    document.tables.extend(prefixes(found));
    if found.prefixes.len() > ROWS {
        let more = found.prefixes.len() - ROWS;
        document.notes.push(format!("{more} more prefixes are in the JSON (--json, --prefix-depth)"));
    }
    document
}
