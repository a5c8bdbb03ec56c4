//! Billing periods and the lengths of days and months.

/// Default number of hours in a month: 24 x 365 / 12.
pub const MONTH_HOURS: u64 = 730;

/// Seconds in a day.
pub const DAY_S: u64 = 86_400;

/// Billing period. It determines which allowances, minimum charges and rounding apply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Period {
    /// One month of the provider's own length. Allowances, minimum charges and rounding apply.
    #[default]
    Month,
    /// A number of seconds, added to whatever else the account does: list prices of the first tier, no
    /// allowances, no monthly minimum charge, no rounding up to whole units.
    Seconds(u64),
}
