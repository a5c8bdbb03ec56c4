//! Compares the clock of this machine with the clock that all gateways share.

use std::sync::atomic::Ordering;

use super::Store;
use super::witness::{MAX_MS, Reading};
use plimsoll_catalog::ambient::{now_ms, set_shared_ms, steady_ms};
use plimsoll_catalog::guard::{self, Guard};
use plimsoll_catalog::{Catalog, CatalogError};

/// Reads the clocks. For a catalog without a clock, others are the witnesses. A change between right and wrong is
/// logged.
///
/// # Errors
/// If the catalog does not answer.
pub fn read<C: Catalog>(store: &Store<C>) -> Result<Reading, CatalogError> {
    let before_ms = now_ms();
    let shared_ms = store.catalog.clock_ms()?;
    let after_ms = now_ms();
    // For `shared_now_ms`, whose callers do not ask the database.
    shared_ms.into_iter().for_each(set_shared_ms);
    let reading = match shared_ms {
        Some(shared_ms) => Reading::new(before_ms, shared_ms, after_ms),
        None => store.witnesses.read(after_ms, steady_ms()),
    };
    if !guard::is_made(Guard::Clock) {
        return Ok(Reading { now_ms: after_ms, ahead_ms: 0, is_right: true });
    }
    store.clock_ahead_ms.store(reading.ahead_ms, Ordering::Relaxed);
    if store.has_wrong_clock.swap(!reading.is_right, Ordering::Relaxed) == reading.is_right {
        let seconds = reading.ahead_ms as f64 / 1000.0;
        let nothing = "this gateway moves, expires and deletes nothing";
        plimsoll_catalog::log::warn(&match (reading.is_right, shared_ms, reading.ahead_ms) {
            (true, ..) => "the clock of this machine is right again".to_string(),
            (_, Some(_), _) => format!(
                "the clock of this machine is {seconds:+.1} s from the database's clock; until it is right, {nothing}"
            ),
            (_, _, ahead_ms) if ahead_ms.unsigned_abs() > MAX_MS => format!(
                "the clock of this machine is {seconds:+.1} s from the tiers' clocks or its own earlier time; until it \
                 is right, {nothing}; if it is right, restart the gateway"
            ),
            _ => format!(
                "the catalog was last used more than a day ago or in the future, by the clock of this machine; for a day, \
                 or until the clock of a tier confirms the time, {nothing}; if the time is right, use \
                 --accept-clock"
            ),
        });
    }
    Ok(reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_right_within_five_seconds_and_the_time_of_the_request() {
        let is_right = |before, shared, after| Reading::new(before, shared, after).is_right;
        assert!(is_right(100_000, 105_000, 100_000) && is_right(100_000, 95_000, 100_000));
        assert!(!is_right(100_000, 105_001, 100_000) && !is_right(100_000, 94_999, 100_000));
        assert!(is_right(100_000, 95_000, 102_000), "the request took two seconds");
        assert!(!is_right(100_000, 100_000, 4_000_000_000), "a jump during the request");
        let decade = Reading::new(400_000_000_000, 100_000_000_000, 400_000_000_000);
        assert_eq!(
            (decade.ahead_ms, decade.now_ms, decade.is_right),
            (300_000_000_000, 100_000_000_000, false)
        );
    }
}
