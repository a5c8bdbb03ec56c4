//! Pseudo-random permutations that need no memory.

use plimsoll_base::rng::mix;

/// A permutation of `0..n`: four Feistel rounds over the next even number of bits, repeated until the result is
/// below `n` (cycle walking).
#[derive(Debug, Clone, Copy)]
pub struct Scatter {
    n: u64,
    half_bits: u32,
    key: u64,
}

impl Scatter {
    /// Creates the permutation of `0..n` with this key. `n` must be above 0.
    pub fn new(n: u64, key: u64) -> Scatter {
        let bits = 64 - (n - 1).leading_zeros();
        Scatter { n, half_bits: bits.div_ceil(2).max(1), key }
    }

    /// Returns the image of `index`, which must be below `n`.
    pub fn at(&self, index: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let mut x = index;
        loop {
            let (mut left, mut right) = (x >> self.half_bits, x & mask);
            for round in 0..4 {
                (left, right) = (right, left ^ (mix(self.key ^ mix(right + (round << 56))) & mask));
            }
            x = (left << self.half_bits) | right;
            if x < self.n {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scatter_is_a_permutation_of_any_length() {
        for n in [1, 2, 3, 17, 1000, 4096, 10_007] {
            let scatter = Scatter::new(n, 7);
            let mut seen: Vec<u64> = (0..n).map(|i| scatter.at(i)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..n), "{n}");
        }
    }
}
