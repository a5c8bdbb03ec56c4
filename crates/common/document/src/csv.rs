//! Renders a table as CSV.

use super::Table;

/// Returns the table as CSV with a header line.
pub fn render(table: &Table) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Writing to memory does not fail.
    let _ = writer.write_record(table.columns.iter().map(|c| &c.name));
    for row in &table.rows {
        let _ = writer.write_record(row);
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}
