//! FOCUS, the FinOps Open Cost and Usage Specification, 1.0 to 1.3, with the additional columns of AWS.

use super::{Charges, Format, number};
use crate::explain::charge::{Biller, Charge, ChargeKind, UsageKey, day, last_day, month};
use crate::explain::table::{Columns, Row};

/// A FOCUS data set.
pub struct Focus;

/// Returns the usage type of S3 that the description of a charge means, or the description if it means none. For
/// exports without a column for the usage type.
fn usage_type(description: &str) -> String {
    const CLASSES: [&str; 5] = ["Infrequent", "One Zone", "Glacier", "Intelligent", "Express"];
    let has = |words: &str| description.contains(words);
    let usage = match () {
        () if CLASSES.iter().any(|class| has(class)) => description,
        () if has("/ month of storage used") => "TimedStorage-ByteHrs",
        () if has("PUT, COPY, POST, or LIST requests") => "Requests-Tier1",
        () if has("GET and all other requests") => "Requests-Tier2",
        () if has("/ month data transfer out") => "DataTransfer-Out-Bytes",
        () => description,
    };
    usage.to_string()
}

impl Format for Focus {
    fn fits(&self, columns: &Columns) -> bool {
        columns.has("billedcost") && columns.has("chargecategory")
    }

    fn currency<'r>(&self, row: &'r Row<'_>) -> &'r str {
        row.get("billingcurrency")
    }

    fn charges(&self, row: Row<'_>) -> Result<Charges, String> {
        let provider =
            row.first(&["providername", "serviceprovidername", "publishername"]).to_ascii_lowercase();
        let biller = match provider.as_str() {
            name if name.contains("aws") || name.contains("amazon") => Biller::Aws,
            name if name.contains("google") => Biller::Google,
            name if name.contains("cloudflare") => Biller::Cloudflare,
            _ => Biller::Other,
        };
        let kind = match row.get("chargecategory") {
            "Usage" => ChargeKind::Usage,
            "Credit" | "Adjustment" => ChargeKind::Credit,
            "Tax" => ChargeKind::Tax,
            _ => ChargeKind::Fee,
        };
        let day = day(row.first(&["chargeperiodstart", "billingperiodstart"]));
        let text = |names: &[&str]| row.first(names).to_string();
        let usage = match (biller, kind) {
            (Biller::Aws, ChargeKind::Usage) => match text(&["xusagetype", "skumeter"]) {
                none if none.is_empty() => usage_type(&text(&["chargedescription"])),
                usage => usage,
            },
            _ => text(&["chargedescription", "skumeter", "xskumetername", "skuid"]),
        };
        Ok(vec![Charge {
            key: UsageKey {
                biller,
                kind,
                month: month(day),
                service: text(&["servicename", "xservicecode"]),
                usage,
                operation: text(&["xoperation"]),
                region: text(&["regionid"]),
                unit: text(&["consumedunit", "pricingunit"]),
            },
            quantity: number(row, &["consumedquantity", "pricingquantity"])?,
            cost: Some(number(row, &["billedcost"])?.unwrap_or(0)),
            resource: text(&["resourcename", "resourceid"]),
            day,
            last: last_day(row.first(&["chargeperiodend", "billingperiodend"])),
            is_peak: false,
        }])
    }
}
