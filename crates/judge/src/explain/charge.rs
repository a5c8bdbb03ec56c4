//! Charges of a bill, in one form for all providers.

use jiff::civil::Date;

/// Kind of a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChargeKind {
    /// Use of a service.
    Usage,
    /// Credit or refund.
    Credit,
    /// Discount that a line of its own states.
    Discount,
    /// Fee that does not depend on usage.
    Fee,
    /// Tax on the bill.
    Tax,
}

impl ChargeKind {
    /// Returns the name for people.
    pub fn name(self) -> &'static str {
        match self {
            ChargeKind::Usage => "usage",
            ChargeKind::Credit => "credit",
            ChargeKind::Discount => "discount",
            ChargeKind::Fee => "fee",
            ChargeKind::Tax => "tax",
        }
    }
}

/// Provider of a bill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Biller {
    /// Amazon Web Services.
    Aws,
    /// The provider Google Cloud.
    Google,
    /// The provider Cloudflare.
    Cloudflare,
    /// Any other provider.
    Other,
}

/// Names of a usage, by which charges are added up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsageKey {
    /// Provider of the bill.
    pub biller: Biller,
    /// Kind of the charge.
    pub kind: ChargeKind,
    /// First day of the month of the usage; `None` if the bill does not say.
    pub month: Option<Date>,
    /// Service, as on the bill.
    pub service: String,
    /// Usage type, SKU or name of the charge, as on the bill.
    pub usage: String,
    /// Operation of the usage; empty if the bill has none.
    pub operation: String,
    /// Region, as on the bill; empty if it has none.
    pub region: String,
    /// Unit of the quantity; empty if there is none.
    pub unit: String,
}

/// A charge of a bill. Amounts are in units of 10^-12.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// Names of the usage.
    pub key: UsageKey,
    /// Quantity in the unit; `None` if the bill does not have it.
    pub quantity: Option<i128>,
    /// Cost in US dollars; `None` if the file has usage only.
    pub cost: Option<i128>,
    /// Bucket or another resource; empty if the bill does not have it.
    pub resource: String,
    /// Day of the usage; `None` if the bill does not say.
    pub day: Option<Date>,
}

/// Returns the day at the beginning of a time: `2026-05-13`, `2026-05-13T00:00:00Z` or `202605`.
pub fn day(text: &str) -> Option<Date> {
    if text.len() == 6 && text.bytes().all(|digit| digit.is_ascii_digit()) {
        return Date::new(text[..4].parse().ok()?, text[4..].parse().ok()?, 1).ok();
    }
    text.get(..10)?.parse().ok()
}

/// Returns the first day of the month of a day.
pub fn month(day: Option<Date>) -> Option<Date> {
    day.map(|day| day.first_of_month())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_the_forms_of_exports() {
        let date = |text: &str| day(text).map(|day| day.to_string());
        assert_eq!(date("2026-05-13 00:00:00").as_deref(), Some("2026-05-13"));
        assert_eq!(date("2024-09-19T10:00:00.000Z").as_deref(), Some("2024-09-19"));
        assert_eq!(date("202509").as_deref(), Some("2025-09-01"));
        assert_eq!((date("total"), date(""), date("2026-13-01")), (None, None, None));
        assert_eq!(month(day("2026-05-13")).unwrap().to_string(), "2026-05-01");
    }
}
