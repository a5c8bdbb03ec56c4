//! A budget of each day for moves, in bytes, requests and dollars.

use bytes::Bytes;
use plimsoll_cost::money::Usd;

use super::MoveError;
use crate::mover::limits::DayLimits;
use plimsoll_catalog::Catalog;
use plimsoll_catalog::codec::{Reader, put_number};
use plimsoll_catalog::embedded::head_only;
use plimsoll_objects::{Store, keys};

/// Cost of one or several moves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bytes of bodies.
    pub bytes: u64,
    /// Requests to all tiers.
    pub requests: u64,
    /// Cost at list prices.
    pub usd: Usd,
}

/// Cost of the moves of a day so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budget {
    /// Number of the day since 1970.
    pub day: u64,
    /// Cost of the moves of this day.
    pub spent: Cost,
}

/// Returns true if a cost is within the limits of a day.
fn allow(limits: &DayLimits, cost: &Cost) -> bool {
    limits.bytes.is_none_or(|most| cost.bytes <= most)
        && limits.requests.is_none_or(|most| cost.requests <= most)
        && limits.usd.is_none_or(|most| cost.usd <= most)
}

impl Budget {
    /// Spends the cost of a move if the limits of the day allow it. Returns false if they do not.
    pub fn take(&mut self, limits: &DayLimits, day: u64, cost: &Cost) -> bool {
        if day != self.day {
            *self = Budget { day, spent: Cost::default() };
        }
        let spent = Cost {
            bytes: self.spent.bytes.saturating_add(cost.bytes),
            requests: self.spent.requests.saturating_add(cost.requests),
            usd: self.spent.usd + cost.usd,
        };
        let is_allowed = allow(limits, &spent);
        // Work that does not fit is not counted, so that smaller work still fits into the day.
        if is_allowed {
            self.spent = spent;
        }
        is_allowed
    }

    fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        // 64 bits are enough for 18 million dollars. A larger sum is stored as the largest number, not as a small one.
        let pico = u64::try_from(self.spent.usd.pico()).unwrap_or(u64::MAX);
        for number in [self.day, self.spent.bytes, self.spent.requests, pico] {
            put_number(&mut out, number);
        }
        out.into()
    }

    fn decode(bytes: &[u8]) -> Option<Budget> {
        let mut reader = Reader(bytes);
        let (day, bytes, requests) = (reader.number()?, reader.number()?, reader.number()?);
        let usd = Usd::from_pico(i128::from(reader.number()?));
        Some(Budget { day, spent: Cost { bytes, requests, usd } })
    }

    /// Reads what was spent from the catalog.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    pub fn load<C: Catalog>(store: &Store<C>) -> Result<Budget, MoveError> {
        let row = store.catalog.get(keys::BUDGET)?;
        // A malformed row counts as nothing spent; the next `store` replaces it.
        Ok(row.and_then(|row| Budget::decode(&row.head)).unwrap_or_default())
    }

    /// Writes what was spent to the catalog, so that a restart does not spend it again.
    ///
    /// # Errors
    /// If the catalog fails.
    pub async fn store<C: Catalog>(&self, store: &Store<C>) -> Result<(), MoveError> {
        let head = head_only(self.encode());
        // In the epoch: a former leader must not overwrite what the present one has spent.
        let stored = store.transact_in(store.epoch(), 64, move |t| {
            t.put(keys::BUDGET.to_vec(), head.clone());
            Ok(Ok(()))
        });
        stored.await.map_err(MoveError::Catalog)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_store_testing::World;

    fn cost(bytes: u64, requests: u64, usd: &str) -> Cost {
        Cost { bytes, requests, usd: Usd::parse(usd).unwrap() }
    }

    #[test]
    fn each_limit_ends_the_moves_of_a_day() {
        let usd = Some(Usd::parse("1").unwrap());
        for limits in [
            DayLimits { bytes: Some(100), ..DayLimits::default() },
            DayLimits { requests: Some(10), ..DayLimits::default() },
            DayLimits { usd, ..DayLimits::default() },
        ] {
            let mut budget = Budget::default();
            let half = cost(50, 5, "0.5");
            assert!(budget.take(&limits, 1, &half) && budget.take(&limits, 1, &half));
            assert!(!budget.take(&limits, 1, &cost(1, 1, "0.01")), "{limits:?}");
            assert!(budget.take(&limits, 2, &half), "a new day");
        }
        assert!(Budget::default().take(&DayLimits::default(), 1, &cost(u64::MAX, u64::MAX, "1000")));
    }

    #[tokio::test]
    async fn a_restart_knows_what_was_spent() {
        let world = World::new(1, 0).await;
        assert_eq!(Budget::load(&world.store).unwrap(), Budget::default());
        let budget = Budget { day: 20_000, spent: cost(1 << 40, 3, "0.000000000001") };
        budget.store(&world.store).await.unwrap();
        assert_eq!(Budget::load(&world.store).unwrap(), budget);
    }
}
