//! Limits of what moves cost.

use plimsoll_cost::money::Usd;

/// Limits of the cost of all moves of a day (UTC); `None` for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DayLimits {
    /// Bytes of bodies.
    pub bytes: Option<u64>,
    /// Requests to all tiers.
    pub requests: Option<u64>,
    /// Cost at list prices.
    pub usd: Option<Usd>,
}

impl DayLimits {
    /// Returns true if there is no limit.
    pub fn is_empty(&self) -> bool {
        *self == DayLimits::default()
    }
}
