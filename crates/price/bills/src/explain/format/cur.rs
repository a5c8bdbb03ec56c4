//! AWS cost and usage reports: CUR 2.0 and the older form, which have the same columns under other names. AWS Data
//! Exports, "Cost and Usage Report (CUR) 2.0".

use super::{Charges, Format, number};
use crate::explain::charge::{Biller, Charge, ChargeKind, UsageKey, day, last_day, month};
use crate::explain::table::{Columns, Row};

/// A cost and usage report.
pub struct CostAndUsageReport;

/// Returns the kind of a line by its type.
fn kind(line_type: &str) -> ChargeKind {
    match line_type {
        "Usage" | "DiscountedUsage" | "SavingsPlanCoveredUsage" | "" => ChargeKind::Usage,
        "Tax" => ChargeKind::Tax,
        "Credit" | "Refund" => ChargeKind::Credit,
        discount if discount.ends_with("Discount") || discount == "SavingsPlanNegation" => {
            ChargeKind::Discount
        }
        _ => ChargeKind::Fee,
    }
}

impl Format for CostAndUsageReport {
    fn fits(&self, columns: &Columns) -> bool {
        columns.has("lineitemusagetype") && columns.has("lineitemunblendedcost")
    }

    fn currency<'r>(&self, row: &'r Row<'_>) -> &'r str {
        row.get("lineitemcurrencycode")
    }

    fn charges(&self, row: Row<'_>) -> Result<Charges, String> {
        let line_type = row.get("lineitemlineitemtype");
        let kind = kind(line_type);
        let day = day(row.get("lineitemusagestartdate"));
        let named = |text: &str| match text {
            "" => row.get("lineitemlineitemdescription").to_string(),
            text => text.to_string(),
        };
        let usage = match kind {
            ChargeKind::Usage => row.get("lineitemusagetype").to_string(),
            _ => format!("{line_type} {}", named("")).trim_end().to_string(),
        };
        Ok(vec![Charge {
            key: UsageKey {
                biller: Biller::Aws,
                kind,
                month: month(day),
                service: row.get("lineitemproductcode").to_string(),
                usage,
                operation: row.get("lineitemoperation").to_string(),
                region: row.first(&["productregioncode", "productregion"]).to_string(),
                unit: row.get("pricingunit").to_string(),
            },
            quantity: number(row, &["lineitemusageamount"])?,
            cost: Some(number(row, &["lineitemunblendedcost"])?.unwrap_or(0)),
            resource: row.get("lineitemresourceid").to_string(),
            day,
            last: last_day(row.get("lineitemusageenddate")),
            is_peak: false,
        }])
    }
}
