//! Cloudflare: billable usage, and the analytics of R2, which have usage without costs.

use super::{Charges, Format, number};
use crate::explain::charge::{Biller, Charge, ChargeKind, UsageKey, day, last_day, month};
use crate::explain::number::ONE;
use crate::explain::table::{Columns, Row};

/// Rows of billable usage.
pub struct BillableUsage;

impl Format for BillableUsage {
    fn fits(&self, columns: &Columns) -> bool {
        columns.has("servicename") && columns.has("contractedcost") && !columns.has("chargecategory")
            || columns.has("cumulatedcontractedcost")
    }

    fn currency<'r>(&self, row: &'r Row<'_>) -> &'r str {
        row.get("billingcurrency")
    }

    fn charges(&self, row: Row<'_>) -> Result<Charges, String> {
        let day = day(row.first(&["chargeperiodstart", "billingperiodstart"]));
        Ok(vec![Charge {
            key: UsageKey {
                biller: Biller::Cloudflare,
                kind: ChargeKind::Usage,
                month: month(day),
                service: row.first(&["servicefamilyname", "servicename"]).to_string(),
                usage: row.get("servicename").to_string(),
                operation: String::new(),
                region: String::new(),
                unit: row.first(&["consumedunit", "pricingunit"]).to_string(),
            },
            // Within the free allowance, the priced quantity is 0.
            quantity: number(row, &["consumedquantity", "pricingquantity"])?,
            cost: Some(number(row, &["contractedcost", "billedcost"])?.unwrap_or(0)),
            resource: String::new(),
            day,
            last: last_day(row.first(&["chargeperiodend", "billingperiodend"])),
            is_peak: false,
        }])
    }
}

/// Answers of the GraphQL interface: `r2OperationsAdaptiveGroups` and `r2StorageAdaptiveGroups`.
pub struct Analytics;

impl Format for Analytics {
    fn fits(&self, columns: &Columns) -> bool {
        columns.has("dimensionsactiontype") && columns.has("sumrequests") || columns.has("maxpayloadsize")
    }

    fn currency<'r>(&self, _: &'r Row<'_>) -> &'r str {
        ""
    }

    fn charges(&self, row: Row<'_>) -> Result<Charges, String> {
        let day = day(row.first(&["dimensionsdate", "dimensionsdatetime", "dimensionsdatetimehour"]));
        let action = row.get("dimensionsactiontype");
        let payload = number(row, &["maxpayloadsize"])?;
        let is_peak = payload.is_some();
        if is_peak && day.is_none() {
            return Err("storage without a date; query it with the dimension date".into());
        }
        let (usage, quantity, unit) = match payload {
            Some(payload) => {
                let metadata = number(row, &["maxmetadatasize"])?.unwrap_or(0);
                // The average of the daily peaks of 30 days is billed.
                let stored = payload.checked_add(metadata).ok_or("the size is too large")?;
                ("storage", Some(stored / 1_000_000_000 / 30), "GB-month")
            }
            None => (action, Some(number(row, &["sumrequests"])?.unwrap_or(0)), "Requests"),
        };
        let class = row.get("dimensionsstorageclass");
        Ok(vec![Charge {
            key: UsageKey {
                biller: Biller::Cloudflare,
                kind: ChargeKind::Usage,
                month: month(day),
                service: "R2".into(),
                usage: usage.to_string(),
                operation: class.to_string(),
                region: String::new(),
                unit: unit.into(),
            },
            quantity: quantity.filter(|amount| *amount < i128::MAX / ONE),
            cost: None,
            resource: row.get("dimensionsbucketname").to_string(),
            day,
            last: day,
            is_peak,
        }])
    }
}
