//! A sequence of reproducible random draws.

use plimsoll_base::rng::Stream;

/// Draws that depend only on the seed and on their order.
#[derive(Debug, Clone)]
pub struct Draws {
    stream: Stream,
    next: u64,
}

impl Draws {
    /// Returns the draws called `label` for `seed`.
    pub fn new(seed: u64, label: &str) -> Draws {
        Draws { stream: Stream::new(seed, label), next: 0 }
    }

    /// Returns a number below `n`, or 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next += 1;
        if n == 0 { 0 } else { self.stream.below(self.next, n) }
    }

    /// Returns true in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
