//! The price of a journal by load.

use plimsoll_base::provider::calls::{Call, Calls};
use plimsoll_cost::charge::BillError;
use plimsoll_cost::money::Usd;
use plimsoll_cost::tariff::Tariff;
use serde::Serialize;

use plimsoll_bodies::pricing::Work;
use plimsoll_catalog::pipeline::MANY;

/// Loads for which a plan names the price, in writes per second.
const LOADS: [u64; 5] = [0, 10, 100, 1000, 10_000];
/// Fewest milliseconds that a request of an object store takes. Entries wait for the entry before unless [`MANY`]
/// transactions wait, so a slower store gets fewer of them.
const LEAST_REQUEST_MS: u64 = 5;
/// Seconds of a month of 730 hours.
const MONTH_S: u64 = 730 * 3600;

/// Price of a journal at a load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JournalCost {
    /// Writes per second.
    pub writes_per_s: u64,
    /// Entries per second, at most.
    pub entries_per_s: f64,
    /// Price of the entries of a month of 730 hours, at most.
    pub month_usd: Usd,
}

/// Returns the largest number of entries per second.
fn entries_per_s(writes_per_s: u64, lease_ms: u64) -> f64 {
    // An idle writer creates an entry each third of its lease (`Sender::run`).
    let idle = 3000.0 / lease_ms as f64;
    let one_by_one = 1000.0 / LEAST_REQUEST_MS as f64;
    let grouped = one_by_one.max(writes_per_s as f64 / MANY as f64);
    idle.max(grouped.min(writes_per_s as f64))
}

/// Returns the prices of the entries of a journal.
///
/// # Errors
/// If the place has no price for a PUT.
pub fn prices(tariff: &Tariff, lease_ms: u64, is_durable: bool) -> Result<Vec<JournalCost>, BillError> {
    // Without groups, the load does not matter.
    let loads = LOADS.iter().copied().take(if is_durable { LOADS.len() } else { 1 });
    let price = |writes_per_s| {
        let entries_per_s = entries_per_s(writes_per_s, lease_ms);
        let mut calls = Calls::default();
        calls.set(Call::PutObject, (entries_per_s * MONTH_S as f64).ceil() as u64);
        let month_usd = Work { calls, ..Work::default() }.cost(tariff)?;
        Ok(JournalCost { writes_per_s, entries_per_s, month_usd })
    };
    loads.map(price).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_limited_by_writes_by_requests_and_by_groups() {
        let rounded = |writes| entries_per_s(writes, 10_000).round();
        assert_eq!(entries_per_s(0, 10_000), 0.3, "one each third of the lease");
        assert_eq!((rounded(10), rounded(100)), (10.0, 100.0), "one per write");
        assert_eq!((rounded(1000), rounded(25_600)), (200.0, 200.0), "one after the other");
        assert_eq!(rounded(256_000), 2000.0, "one per 128 writes");
    }
}
