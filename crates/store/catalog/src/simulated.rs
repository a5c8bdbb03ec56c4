//! The time and the random numbers of a simulation, and the guard that it has removed. Each thread has its own.

use std::cell::{Cell, RefCell};

use jiff::Timestamp;
use plimsoll_base::rng::mix;

use crate::guard::{self, Guard};

/// A sequence of pseudo-random numbers.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0)
    }

    /// Returns a number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.draw() % n.max(1)
    }

    /// Returns true in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

thread_local! {
    static NOW_MS: Cell<Option<u64>> = const { Cell::new(None) };
    static AHEAD_MS: Cell<i64> = const { Cell::new(0) };
    static DRIFT: Cell<i64> = const { Cell::new(0) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static NUMBERS: RefCell<Option<Random>> = const { RefCell::new(None) };
}

/// Sets the milliseconds by which the clock of the process that works now is ahead.
pub fn set_ahead_ms(ms: i64) {
    AHEAD_MS.set(ms);
}

/// Returns the simulated time of the process that works now; `None` outside simulations.
pub fn now() -> Option<Timestamp> {
    // Generations of objects need a clock that differs at each call.
    CALLS.set(CALLS.get() + 1);
    let ns = |ms| i128::from(ms) * 1_000_000 + i128::from(CALLS.get() % 1_000_000);
    let now_ms = NOW_MS.get().map(|ms| ms.saturating_add_signed(AHEAD_MS.get()));
    now_ms.map(|ms| Timestamp::from_nanosecond(ns(ms)).unwrap_or_default())
}

/// Returns the simulated milliseconds since the start of the machine; `None` outside simulations.
pub fn steady_ms() -> Option<u64> {
    NOW_MS.get().map(|ms| ms.saturating_add_signed((ms % 1_000_000_000).cast_signed() * DRIFT.get() / 1000))
}

/// Sets by how many thousandths the clock of the machine that works now runs faster than others.
pub fn set_drift(thousandths: i64) {
    DRIFT.set(thousandths);
}

/// Returns a random number of the simulation; `None` outside simulations.
pub fn entropy() -> Option<u64> {
    NUMBERS.with_borrow_mut(|numbers| numbers.as_mut().map(Random::draw))
}

/// Replaces time and random numbers on this thread until it is dropped.
pub struct Replaced;

impl Replaced {
    /// Starts a simulation at a time in Unix milliseconds.
    pub fn start(seed: u64, now_ms: u64, without: Option<Guard>) -> Replaced {
        NOW_MS.set(Some(now_ms));
        CALLS.set(0);
        AHEAD_MS.set(0);
        DRIFT.set(0);
        NUMBERS.set(Some(Random(seed)));
        guard::remove(without);
        Replaced
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        NOW_MS.set(None);
        NUMBERS.set(None);
        // The next test of this thread needs all checks.
        guard::remove(None);
    }
}

/// Returns the time of the simulated catalog's clock in Unix milliseconds.
pub fn now_ms() -> u64 {
    NOW_MS.get().unwrap_or(0)
}

/// Lets time pass.
pub fn advance(ms: u64) {
    NOW_MS.set(NOW_MS.get().map(|now| now + ms));
}
