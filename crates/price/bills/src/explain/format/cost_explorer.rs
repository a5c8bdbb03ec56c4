//! Tables of AWS Cost Explorer, grouped by usage type. They have costs only: a column for each usage type, and a row
//! for each day or month.

use super::{Charges, Format, amount};
use crate::explain::charge::{Biller, Charge, ChargeKind, UsageKey, day, month};
use crate::explain::table::{Columns, Row};

/// A table grouped by usage type.
pub struct CostExplorer;

/// Returns the usage type in the name of a column, such as `TimedStorage-ByteHrs($)`; `None` for other columns.
fn usage_of(name: &str) -> Option<&str> {
    let usage = name.trim().strip_suffix("($)")?.trim_end();
    (!usage.eq_ignore_ascii_case("total costs")).then_some(usage)
}

impl Format for CostExplorer {
    fn fits(&self, columns: &Columns) -> bool {
        let first = columns.names.first().map(|name| name.trim().to_ascii_lowercase());
        first.as_deref() == Some("usage type")
            && columns.names.iter().skip(1).any(|name| usage_of(name).is_some())
    }

    fn currency<'r>(&self, _: &'r Row<'_>) -> &'r str {
        ""
    }

    fn charges(&self, row: Row<'_>) -> Result<Charges, String> {
        let label = row.cells.first().map_or("", |cell| cell.trim());
        let day = day(label);
        let mut out = Vec::new();
        for (name, cell) in row.columns.names.iter().zip(row.cells).skip(1) {
            let Some(usage) = usage_of(name) else { continue };
            if cell.trim().is_empty() {
                continue;
            }
            let cost = amount(row, cell, name)?;
            out.push(Charge {
                key: UsageKey {
                    biller: Biller::Aws,
                    kind: ChargeKind::Usage,
                    month: month(day),
                    service: String::new(),
                    usage: usage.to_string(),
                    operation: String::new(),
                    region: String::new(),
                    unit: String::new(),
                },
                quantity: None,
                cost: Some(cost),
                resource: String::new(),
                day,
                last: None,
                is_peak: false,
            });
        }
        Ok(out)
    }
}
