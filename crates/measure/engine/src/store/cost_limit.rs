//! A limit on the cost of requests, which the shards of a fleet can shift between each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plimsoll_base::provider::calls::Call;

/// A function that returns the price of a request in picodollars, from its kind and the object bytes that it
/// transfers.
pub type Charge = Arc<dyn Fn(Call, u64) -> u64 + Send + Sync>;

/// A limit on the total cost of the requests to all stores. The maximum cost of a request is reserved before
/// the request is sent; a request that would exceed the limit is withheld.
pub struct Limit {
    /// Maximum cost in picodollars.
    most: AtomicU64,
    /// Cost of finished requests, time-based cost and reservations for requests in flight, in picodollars.
    committed: AtomicU64,
    /// Time-based cost so far in picodollars, as last reported.
    timed: AtomicU64,
    /// Size of the largest object in bytes; assumed for an object of unknown size.
    pub(super) largest: u64,
    /// True if the limit is no longer enforced. Clean-up may exceed the limit, because skipping it would leave
    /// objects behind.
    lifted: AtomicBool,
    reached: Box<dyn Fn() + Send + Sync>,
}

impl Limit {
    /// Creates a limit of `most` picodollars that assumes `largest` bytes for an object of unknown size.
    /// Once the limit is reached, `reached` is called, possibly many times.
    pub fn new(most: u64, largest: u64, reached: Box<dyn Fn() + Send + Sync>) -> Limit {
        Limit {
            most: AtomicU64::new(most),
            committed: AtomicU64::new(0),
            timed: AtomicU64::new(0),
            largest,
            lifted: AtomicBool::new(false),
            reached,
        }
    }

    /// Returns the maximum cost in picodollars.
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    /// Returns the picodollars that are neither spent nor reserved.
    pub fn remaining(&self) -> u64 {
        self.most().saturating_sub(self.committed())
    }

    /// Returns the picodollars that are spent or reserved.
    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    /// Raises the limit by picodollars.
    pub fn raise(&self, by: u64) {
        self.most.fetch_add(by, Ordering::Relaxed);
    }

    /// Lowers the limit by the remaining cost divided by `divisor`, and returns the difference in picodollars.
    /// Returns 0 and changes nothing if requests have reserved it in the meantime.
    pub fn give_back(&self, divisor: u64) -> u64 {
        let given = self.remaining() / divisor;
        self.most.fetch_sub(given, Ordering::SeqCst);
        if self.committed.load(Ordering::SeqCst) <= self.most() {
            return given;
        }
        self.most.fetch_add(given, Ordering::SeqCst);
        0
    }

    /// Stops enforcing the limit.
    pub fn lift(&self) {
        self.lifted.store(true, Ordering::Relaxed);
    }

    /// Sets the time-based cost since the start, in picodollars.
    pub fn took(&self, timed: u64) {
        let before = self.timed.swap(timed, Ordering::Relaxed);
        self.committed.fetch_add(timed.saturating_sub(before), Ordering::Relaxed);
        if !self.fits() {
            (self.reached)();
        }
    }

    /// Returns true if the committed cost is within the limit or the limit was lifted.
    fn fits(&self) -> bool {
        self.lifted.load(Ordering::Relaxed) || self.committed.load(Ordering::Relaxed) <= self.most()
    }

    /// Reserves `cost`; returns false if it would exceed the limit.
    pub(super) fn reserve(&self, cost: u64) -> bool {
        self.committed.fetch_add(cost, Ordering::Relaxed);
        if self.fits() {
            return true;
        }
        self.committed.fetch_sub(cost, Ordering::Relaxed);
        (self.reached)();
        false
    }

    /// Replaces a reservation with the actual cost.
    pub(super) fn settle(&self, reserved: u64, spent: u64) {
        self.committed.fetch_add(spent, Ordering::Relaxed);
        self.committed.fetch_sub(reserved, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unspent_money_is_given_back_and_received() {
        let limit = Limit::new(100, 1, Box::new(|| ()));
        assert!(limit.reserve(40));
        assert_eq!((limit.remaining(), limit.give_back(2)), (60, 30));
        assert!(!limit.reserve(31), "what was given back cannot be spent");
        limit.raise(1);
        assert!(limit.reserve(31));
        assert_eq!((limit.give_back(1), limit.most(), limit.committed()), (0, 71, 71));
    }
}
