//! The prices of all books as a table, in CSV and Parquet.

use std::io;
use std::path::Path;

use super::columns::{Cell, Row, batch};
use super::parquet::write_to;
use plimsoll_cost::book::PriceRow;
use plimsoll_document::{Document, Table};

fn row(price: &PriceRow) -> Row {
    let text = |text: &str| Cell::Text(Some(text.to_string()));
    let calls = Some(price.calls.join(" ")).filter(|calls| !calls.is_empty());
    vec![
        ("offer".into(), text(&price.offer)),
        ("provider".into(), Cell::Text(price.provider.clone())),
        ("region".into(), text(&price.region)),
        ("part".into(), text(price.part)),
        ("item".into(), text(&price.item)),
        ("calls".into(), Cell::Text(calls)),
        ("unit".into(), text(&price.unit)),
        ("tier_from".into(), Cell::Whole(Some(price.tier_from))),
        ("tier_up_to".into(), Cell::Whole(price.tier_up_to)),
        ("usd".into(), text(&price.usd.to_string())),
        ("free".into(), Cell::Whole(price.free)),
        ("valid_from".into(), text(&price.valid_from)),
        ("valid_until".into(), Cell::Text(price.valid_until.clone())),
        ("source".into(), text(&price.source)),
        ("as_of".into(), text(&price.as_of)),
        ("confidence".into(), text(price.confidence.name())),
        ("note".into(), Cell::Text(price.note.clone())),
    ]
}

/// Returns the prices as CSV with a header. Amounts are exact decimals.
pub fn csv(prices: &[PriceRow]) -> String {
    let rows: Vec<Row> = prices.iter().map(row).collect();
    let names: Vec<&str> =
        rows.first().map_or(Vec::new(), |row| row.iter().map(|(name, _)| name.as_str()).collect());
    let mut table = Table::new("", &names);
    for row in &rows {
        table.row(row.iter().map(|(_, cell)| cell.text()).collect::<Vec<_>>());
    }
    Document { figures: table, ..Document::default() }.csv()
}

/// Writes the prices as a Parquet file. Amounts are texts, because they are exact decimals.
///
/// # Errors
/// If the file cannot be written.
pub fn parquet(prices: &[PriceRow], path: &Path) -> io::Result<()> {
    let rows: Vec<Row> = prices.iter().map(row).collect();
    let batches = batch(&rows).map_err(io::Error::other)?.into_iter().collect::<Vec<_>>();
    write_to(path, &batches)
}
