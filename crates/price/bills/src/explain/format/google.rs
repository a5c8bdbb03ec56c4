//! Google Cloud: the export to BigQuery as CSV or JSON, and the tables of the console's billing pages.

use super::{Charges, Format, number};
use crate::explain::charge::{Biller, Charge, ChargeKind, UsageKey, day, last_day, month};
use crate::explain::number::parse;
use crate::explain::table::{Columns, Row};
use plimsoll_inventory::names::plain;

/// An export of Google Cloud billing.
pub struct Google;

/// Columns with the cost, after savings where the table has both, the most exact first.
const COSTS: [&str; 5] = ["unroundedsubtotal", "subtotal", "unroundedcost", "cost", "listcost"];

impl Format for Google {
    fn fits(&self, columns: &Columns) -> bool {
        columns.has("skudescription") && COSTS.iter().any(|name| columns.has(name))
    }

    fn currency<'r>(&self, row: &'r Row<'_>) -> &'r str {
        let in_name = |name: &'r String| {
            let (words, sign) = name.trim().strip_suffix(')')?.split_once('(')?;
            COSTS.contains(&plain(words).as_str()).then_some(sign.trim())
        };
        let columns: &'r Columns = row.columns;
        let stated = columns.names.iter().find_map(in_name).filter(|sign| !["$", "US$"].contains(sign));
        let preamble = || columns.preamble.iter().find(|(name, _)| name == "Currency");
        match (stated, row.get("currency")) {
            (Some("€"), _) => "EUR",
            (Some("£"), _) => "GBP",
            (Some(sign), _) => sign,
            (None, "") => preamble().map_or("", |(_, code)| code.as_str()),
            (None, code) => code,
        }
    }

    fn charges(&self, row: Row<'_>) -> Result<Charges, String> {
        let cost_type = row.get("costtype").to_ascii_lowercase();
        let sku = row.get("skudescription");
        // The last rows of a table repeat its sum.
        if cost_type == "total" || (sku.is_empty() && cost_type.is_empty()) {
            return Ok(Vec::new());
        }
        let kind = match cost_type.as_str() {
            "" | "regular" | "usage" => ChargeKind::Usage,
            "tax" => ChargeKind::Tax,
            "adjustment" | "credit" => ChargeKind::Credit,
            _ => ChargeKind::Fee,
        };
        let day = day(row.first(&["usagestarttime", "usagestartdate", "date", "month", "invoicemonth"]));
        let exact = row.get("usageamountinpricingunits");
        let (quantity, unit) = match exact.is_empty() {
            true => (number(row, &["usageamount"])?, row.get("usageunit")),
            false => (number(row, &["usageamountinpricingunits"])?, row.get("usagepricingunit")),
        };
        let key = UsageKey {
            biller: Biller::Google,
            kind,
            month: month(day),
            service: row.first(&["servicedescription", "serviceid"]).to_string(),
            usage: if sku.is_empty() { row.get("costtype").to_string() } else { sku.to_string() },
            operation: String::new(),
            region: row.first(&["locationregion", "locationlocation"]).to_string(),
            unit: unit.to_string(),
        };
        let cost = number(row, &COSTS)?.unwrap_or(0);
        let resource = row.get("resourcename").to_string();
        let last = last_day(row.first(&["usageendtime", "usageenddate"]));
        let charge = Charge { key, quantity, cost: Some(cost), resource, day, last, is_peak: false };
        let mut out = vec![charge.clone()];
        let names: Vec<&str> = row.first(&["creditsname", "creditsfullname"]).split('\n').collect();
        for (index, amount) in
            row.get("creditsamount").split('\n').filter(|text| !text.is_empty()).enumerate()
        {
            let amount = parse(amount).ok_or_else(|| format!("the credit '{amount}' is not a number"))?;
            let name = names.get(index).copied().filter(|name| !name.is_empty()).unwrap_or("credit");
            let key = UsageKey {
                kind: ChargeKind::Credit,
                usage: name.to_string(),
                unit: String::new(),
                ..charge.key.clone()
            };
            let amount = Some(amount);
            out.push(Charge { key, quantity: None, cost: amount, resource: String::new(), ..charge.clone() });
        }
        Ok(out)
    }
}
