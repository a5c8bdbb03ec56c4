//! Values of a connection that one task at a time reads and writes. They cost as much as a `Cell`, and let a connection
//! move to another thread with its task.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A number, such as a time in nanoseconds.
#[derive(Debug, Default)]
pub struct Number(AtomicU64);

impl Number {
    /// Returns the number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Replaces the number.
    pub fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }
}

/// A truth value.
#[derive(Debug, Default)]
pub struct Flag(AtomicBool);

impl Flag {
    /// Returns the value.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Replaces the value.
    pub fn set(&self, value: bool) {
        self.0.store(value, Ordering::Relaxed);
    }
}
