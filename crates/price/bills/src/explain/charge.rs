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
    /// Discount on a separate line.
    Discount,
    /// Fee that does not depend on usage.
    Fee,
    /// Tax on the bill.
    Tax,
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
    /// First day of the usage; `None` if the bill does not say.
    pub day: Option<Date>,
    /// Last day of the usage; `None` if the bill does not say.
    pub last: Option<Date>,
    /// True if the quantity is a maximum: of several for a resource and a day, only the largest counts.
    pub is_peak: bool,
}

/// Returns the day at the beginning of a time, such as `2026-05-13T00:00:00Z`, or the first day of a month, such as
/// `202605` or `2026-05`.
pub fn day(text: &str) -> Option<Date> {
    let is_number = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    let month = match text.len() {
        6 => text.split_at_checked(4),
        7 => text.split_once('-'),
        _ => None,
    };
    match month {
        Some((year, month)) if year.len() == 4 && is_number(year) && is_number(month) => {
            Date::new(year.parse().ok()?, month.parse().ok()?, 1).ok()
        }
        _ => text.get(..10)?.parse().ok(),
    }
}

/// Returns the last day before the end of a period: the day before, if the end is midnight.
pub fn last_day(end: &str) -> Option<Date> {
    let date = day(end)?;
    let time = end.get(11..19).unwrap_or("00:00:00");
    if time == "00:00:00" { date.yesterday().ok() } else { Some(date) }
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
        assert_eq!(date("2025-09").as_deref(), Some("2025-09-01"));
        assert_eq!((date("total"), date(""), date("2026-13-01")), (None, None, None));
        let last = |text: &str| last_day(text).map(|day| day.to_string());
        assert_eq!(last("2026-06-01T00:00:00Z").as_deref(), Some("2026-05-31"));
        assert_eq!(last("2026-05-31 23:59:59").as_deref(), Some("2026-05-31"));
        assert_eq!(last("2026-06-01").as_deref(), Some("2026-05-31"));
        assert_eq!(month(day("2026-05-13")).unwrap().to_string(), "2026-05-01");
    }
}
