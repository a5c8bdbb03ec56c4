//! Lowest rate of a transfer: finds clients that read a response, or send a body, too slowly.
//!
//! The thread that sweeps the connections observes each of them in every tick. While the server waits for the client,
//! a window is open. It starts again whenever the client has transferred enough, so its length is the time in which
//! the client has not.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes that a client transferred, and the window in which too few of them were.
#[derive(Debug, Default)]
pub struct Pace {
    moved: AtomicU64,
    /// Tick at which the window opened; 0 while the server does not wait for the client.
    opened: AtomicU32,
    /// Number of bytes at that tick.
    moved_then: AtomicU64,
}

impl Pace {
    /// Adds transferred bytes. Only the thread of the connection calls it.
    pub fn add(&self, bytes: u64) {
        let moved = self.moved.load(Ordering::Relaxed);
        self.moved.store(moved.wrapping_add(bytes), Ordering::Relaxed);
    }

    /// Observes the connection at a tick. Returns the number of ticks for which the server has waited without receiving
    /// or sending `least` bytes.
    pub fn observe(&self, tick: u32, waits: bool, least: u64) -> u32 {
        if !waits {
            self.opened.store(0, Ordering::Relaxed);
            return 0;
        }
        let moved = self.moved.load(Ordering::Relaxed);
        let enough = moved.wrapping_sub(self.moved_then.load(Ordering::Relaxed)) >= least;
        if self.opened.load(Ordering::Relaxed) == 0 || enough {
            self.moved_then.store(moved, Ordering::Relaxed);
            self.opened.store(tick, Ordering::Relaxed);
        }
        self.slow_ticks(tick)
    }

    /// Returns the length of the window in ticks; 0 if the server does not wait.
    pub fn slow_ticks(&self, tick: u32) -> u32 {
        match self.opened.load(Ordering::Relaxed) {
            0 => 0,
            opened => tick.saturating_sub(opened),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_below_the_lowest_rate_becomes_slow() {
        let pace = Pace::default();
        for tick in 1..=20 {
            pace.add(9);
            assert_eq!(pace.observe(tick, true, 1000), tick - 1);
        }
    }

    #[test]
    fn enough_bytes_or_a_pause_of_the_server_start_the_window_again() {
        let pace = Pace::default();
        for tick in 1..=20 {
            pace.add(1000);
            assert_eq!(pace.observe(tick, true, 1000), 0, "a fast client");
        }
        assert_eq!(pace.observe(25, true, 1000), 5);
        assert_eq!(pace.observe(26, false, 1000), 0, "the server has nothing to wait for");
        assert_eq!(pace.observe(30, true, 1000), 0);
        assert_eq!((pace.observe(31, true, 1000), pace.slow_ticks(33)), (1, 3));
    }
}
