//! Formats of bills: each takes the charges from the rows of a file.

mod cloudflare;
mod cost_explorer;
mod cur;
mod focus;
mod google;

use std::path::Path;

use super::ExplainError;
use super::charge::Charge;
use super::number::parse;
use super::table::{Columns, Row, read};

/// Charges of a row. A row of Cost Explorer has one for each column.
pub type Charges = Vec<Charge>;

/// Format of a bill.
trait Format {
    /// Returns true if a file with these columns has the format.
    fn fits(&self, columns: &Columns) -> bool;

    /// Returns the charges of a row.
    ///
    /// # Errors
    /// A message about what is wrong with the row.
    fn charges(&self, row: Row<'_>) -> Result<Charges, String>;

    /// Returns the code of the currency of a row; empty if the file does not say.
    fn currency<'r>(&self, row: &'r Row<'_>) -> &'r str;
}

/// Largest cost of a charge, in units of 10^-12 dollars: the sum of all charges of a file remains exact.
const MAX_COST: u128 = 1_000_000_000_000_000_000_000_000_000_000;

/// All formats, in the order in which they are tried.
fn formats() -> [&'static dyn Format; 6] {
    [
        &cur::CostAndUsageReport,
        &cost_explorer::CostExplorer,
        &cloudflare::Analytics,
        &cloudflare::BillableUsage,
        &focus::Focus,
        &google::Google,
    ]
}

/// Returns a number of a row.
///
/// # Errors
/// A message if the cell has something else. An empty cell is `None`.
fn number(row: Row<'_>, names: &[&str]) -> Result<Option<i128>, String> {
    let text = row.first(names);
    if text.is_empty() {
        return Ok(None);
    }
    amount(row, text, names[0]).map(Some)
}

/// Parses a number of a row.
///
/// # Errors
/// A message if the text is something else.
fn amount(row: Row<'_>, text: &str, column: &str) -> Result<i128, String> {
    let shown = || text.chars().take(40).collect::<String>();
    if row.columns.is_comma_decimal && text.contains(',') {
        let what = "has a comma in a file with semicolons; export it with decimal points";
        return Err(format!("'{}' in the column {column} {what}", shown()));
    }
    let plain = text.trim_start_matches('$');
    parse(plain).ok_or_else(|| format!("'{}' in the column {column} is not a number", shown()))
}

/// Reads a bill and passes its charges to `consume`.
///
/// # Errors
/// If the file cannot be read, its format is unknown, or it is in another currency than US dollars.
pub fn charges(file: &Path, consume: &mut dyn FnMut(Charge)) -> Result<(), ExplainError> {
    let mut chosen: Option<&'static dyn Format> = None;
    let mut unknown = None;
    let mut other = None;
    let result = read(file, &mut |row: Row<'_>| {
        let format = match chosen {
            Some(format) => format,
            None => match formats().into_iter().find(|format| format.fits(row.columns)) {
                Some(format) => *chosen.insert(format),
                None => {
                    let names: Vec<&str> = row.columns.names.iter().take(6).map(String::as_str).collect();
                    unknown = Some(names.join(", "));
                    return Err("unknown".into());
                }
            },
        };
        let currency = format.currency(&row);
        if !currency.is_empty() && !currency.eq_ignore_ascii_case("USD") {
            other = Some(currency.to_string());
            return Err("currency".into());
        }
        let found = format.charges(row)?;
        if found.iter().any(|charge| charge.cost.is_some_and(|cost| cost.unsigned_abs() > MAX_COST)) {
            return Err("the cost is too large for a bill".into());
        }
        found.into_iter().for_each(&mut *consume);
        Ok(())
    });
    let name = || file.display().to_string();
    match (unknown, other) {
        (Some(columns), _) => Err(ExplainError::Unknown { file: name(), columns }),
        (_, Some(currency)) => Err(ExplainError::Currency { file: name(), currency }),
        _ => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::charge::{Biller, ChargeKind};

    fn of(text: &str) -> Result<Vec<Charge>, ExplainError> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("plimsoll-bill-{}-{number}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let mut out = Vec::new();
        let result = charges(&path, &mut |charge| out.push(charge));
        std::fs::remove_file(&path).unwrap();
        result.map(|()| out)
    }

    #[test]
    fn the_same_charge_is_read_from_every_export_of_aws() {
        let cur = "line_item_usage_start_date,line_item_line_item_type,line_item_product_code,line_item_usage_type,\
                   line_item_operation,line_item_usage_amount,line_item_unblended_cost,pricing_unit,\
                   product_region_code,line_item_resource_id,line_item_currency_code\n\
                   2026-05-01T00:00:00Z,Usage,AmazonS3,EUC1-Requests-Tier1,PutObject,1000,0.0054,Requests,eu-central-1,b,USD\n";
        let legacy = "lineItem/UsageStartDate,lineItem/LineItemType,lineItem/ProductCode,lineItem/UsageType,\
                      lineItem/Operation,lineItem/UsageAmount,lineItem/UnblendedCost,pricing/unit,product/region,\
                      lineItem/ResourceId\n\
                      2026-05-01 00:00:00,Usage,AmazonS3,EUC1-Requests-Tier1,PutObject,1000,0.0054,Requests,eu-central-1,b\n";
        let focus = "ProviderName,ChargeCategory,ChargePeriodStart,ServiceName,x_UsageType,x_Operation,ConsumedQuantity,\
                     ConsumedUnit,BilledCost,BillingCurrency,RegionId,ResourceId\n\
                     AWS,Usage,2026-05-01T00:00:00Z,Amazon Simple Storage Service,EUC1-Requests-Tier1,PutObject,1000,\
                     Requests,0.0054,USD,eu-central-1,b\n";
        let expected = of(cur).unwrap();
        assert_eq!(
            (expected.len(), expected[0].cost, expected[0].resource.as_str()),
            (1, Some(5_400_000_000), "b")
        );
        assert_eq!(of(legacy).unwrap(), expected);
        let from_focus = of(focus).unwrap();
        assert_eq!(from_focus[0].key.usage, expected[0].key.usage);
        assert_eq!((from_focus[0].cost, from_focus[0].quantity), (expected[0].cost, expected[0].quantity));
    }

    #[test]
    fn a_pivot_of_cost_explorer_has_a_charge_in_each_cell() {
        let charges = of("Usage type,TimedStorage-ByteHrs($),EUC1-Requests-Tier1 ($),Total costs($)\n\
                          Usage type total,3.5,1.5,5\n2026-05-13,1.25,1.5,2.75\n2026-05-14,2.25,,2.25\n")
        .unwrap();
        let dated = charges.iter().filter(|c| c.day.is_some());
        let found: Vec<_> = dated.map(|c| (c.key.usage.as_str(), c.cost.unwrap() / 10_000_000_000)).collect();
        let expected =
            [("TimedStorage-ByteHrs", 125), ("EUC1-Requests-Tier1", 150), ("TimedStorage-ByteHrs", 225)];
        assert_eq!((found.as_slice(), charges.len()), (&expected[..], 5));
        // A table that has only its totals is a bill, too.
        let only = of("Usage type,A($),B($),Total costs($)\nUsage type total,3,4,7\n").unwrap();
        assert_eq!(only.iter().map(|c| c.cost.unwrap()).sum::<i128>(), 7_000_000_000_000);
    }

    #[test]
    fn credits_of_google_are_charges_of_their_own() {
        let nested = "{\"service\":{\"description\":\"Cloud Storage\"},\"sku\":{\"description\":\"Standard Storage US \
                      Multi-region\"},\"usage_start_time\":\"2026-05-01T00:00:00Z\",\"location\":{\"location\":\"us\"},\
                      \"cost\":1.5,\"currency\":\"USD\",\"usage\":{\"amount_in_pricing_units\":60,\"pricing_unit\":\
                      \"gibibyte month\"},\"credits\":[{\"name\":\"Sustained\",\"amount\":-0.25},{\"name\":\"Trial\",\
                      \"amount\":-0.5}],\"cost_type\":\"regular\"}";
        let charges = of(&format!("{nested}\n{nested}\n")).unwrap();
        let kinds: Vec<_> = charges.iter().map(|c| (c.key.kind, c.key.usage.as_str())).collect();
        assert_eq!(charges.len(), 6);
        assert_eq!(kinds[1..3], [(ChargeKind::Credit, "Sustained"), (ChargeKind::Credit, "Trial")]);
        assert_eq!(charges.iter().map(|c| c.cost.unwrap()).sum::<i128>(), 1_500_000_000_000);
    }

    #[test]
    fn totals_in_google_s_cost_table_do_not_count_twice() {
        let charges = of("Invoice number,1\nCurrency,USD\n\
                          Service description,SKU description,Cost type,Usage start date,Usage amount,Usage unit,Cost ($)\n\
                          Cloud Storage,Nearline Data Retrieval,Usage,2026-05-01,10,gibibyte,0.10\n\
                          ,,Rounding error,,,,0.01\n,,Total,,,,0.11\n")
            .unwrap();
        assert_eq!(charges.iter().map(|c| c.cost.unwrap()).sum::<i128>(), 110_000_000_000);
    }

    #[test]
    fn usage_of_r2_has_no_cost_or_the_one_of_its_bill() {
        let analytics = "{\"data\":{\"viewer\":{\"accounts\":[{\"r2OperationsAdaptiveGroups\":[{\"dimensions\":\
                         {\"actionType\":\"PutObject\"},\"sum\":{\"requests\":30}}],\"r2StorageAdaptiveGroups\":[{\
                         \"dimensions\":{\"date\":\"2026-09-29\"},\"max\":{\"payloadSize\":3000000000,\
                         \"metadataSize\":0}}]}]}}}";
        let charges = of(analytics).unwrap();
        assert_eq!(
            charges.iter().map(|c| c.key.usage.as_str()).collect::<Vec<_>>(),
            ["PutObject", "storage"]
        );
        assert!(charges.iter().all(|c| c.cost.is_none() && c.key.biller == Biller::Cloudflare));
        let billed = "{\"result\":[{\"ServiceName\":\"R2 Storage Class A Operations (First 1M included)\",\
                      \"ChargePeriodStart\":\"2026-09-01T00:00:00Z\",\"PricingQuantity\":0,\"ConsumedQuantity\":29,\
                      \"PricingUnit\":\"Requests\",\"ContractedCost\":0,\"BillingCurrency\":\"USD\"}],\"success\":true}";
        let charges = of(billed).unwrap();
        assert_eq!((charges[0].quantity, charges[0].cost), (Some(29_000_000_000_000), Some(0)));
    }

    #[test]
    fn what_is_no_bill_is_refused() {
        assert!(matches!(of("a,b,c\n1,2,3\n"), Err(ExplainError::Unknown { .. })));
        let euros = "ProviderName,ChargeCategory,BilledCost,BillingCurrency\nAWS,Usage,1,EUR\n";
        assert!(matches!(of(euros), Err(ExplainError::Currency { currency, .. }) if currency == "EUR"));
        let wrong =
            of("ProviderName,ChargeCategory,BilledCost,BillingCurrency\nAWS,Usage,one,USD\n").unwrap_err();
        assert!(wrong.to_string().ends_with(":2: 'one' in the column billedcost is not a number"), "{wrong}");
        assert!(of("{\"result\":").is_err());
        assert_eq!(of("").unwrap(), []);
    }
}
