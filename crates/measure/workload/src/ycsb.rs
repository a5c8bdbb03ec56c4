//! YCSB's zipfian generators: the approximation of Gray et al., "Quickly Generating Billion-Record Synthetic
//! Databases" (SIGMOD 1994), with the constants of YCSB's `ZipfianGenerator` and `ScrambledZipfianGenerator`.

use super::naming::RecordOrder;
use plimsoll_base::rng::{Stream, mix};

/// Exponent of YCSB's zipfian distributions.
const THETA: f64 = 0.99;
/// Number of items of `ScrambledZipfianGenerator`, which draws from 0 to 10^10, both included, before it hashes.
const ITEMS: f64 = 10_000_000_001.0;
/// Zeta sum that `ScrambledZipfianGenerator` uses for this number of items.
const ZETA_OF_ITEMS: f64 = 26.469_028_201_783_02;
/// Maximum number of draws for a key that exists. After that, the hash is taken modulo the number of existing keys.
const MAX_REDRAWS: u64 = 10_000;
/// Maximum number of items whose zeta sum is added term by term; the Euler-Maclaurin formula is used for more.
const SUMMED: u64 = 64;

/// Converts a uniform draw `u` into a rank from 0; `zeta` is the sum of `k^-0.99` over the items.
fn rank(u: f64, items: f64, zeta: f64, eta: f64) -> u64 {
    let uz = u * zeta;
    if uz < 1.0 {
        return 0;
    }
    if uz < 1.0 + 0.5f64.powf(THETA) {
        return 1;
    }
    (items * (eta * u - eta + 1.0).powf(1.0 / (1.0 - THETA))) as u64
}

/// Returns the factor eta of Gray's formula.
fn eta(items: f64, zeta: f64) -> f64 {
    let zeta_of_two = 1.0 + 0.5f64.powf(THETA);
    (1.0 - (2.0 / items).powf(1.0 - THETA)) / (1.0 - zeta_of_two / zeta)
}

/// Returns the uniform draw of operation `i` for this attempt; attempt 0 is the first.
fn draw(draws: Stream, i: u64, attempt: u64) -> f64 {
    match attempt {
        0 => draws.unit(i),
        _ => (mix(draws.at(i) ^ mix(attempt)) >> 11) as f64 * (1.0 / (1u64 << 53) as f64),
    }
}

/// `ScrambledZipfianGenerator`: a rank among 10^10 items, hashed modulo the number of keys.
#[derive(Debug, Clone, Copy)]
pub struct Scrambled {
    /// Modulus: the number of existing keys, plus the keys that inserts are expected to add, plus one.
    items: u64,
    order: RecordOrder,
    eta: f64,
}

impl Scrambled {
    /// Creates a generator over `items` keys; `order` selects the hash function of YCSB or of go-ycsb.
    pub fn new(items: u64, order: RecordOrder) -> Scrambled {
        Scrambled { items: items.max(1), order, eta: eta(ITEMS, ZETA_OF_ITEMS) }
    }

    /// Returns the key of operation `i` among the `existing` keys. Other keys are drawn again, as in YCSB.
    pub fn key(&self, draws: Stream, i: u64, existing: u64) -> u64 {
        let hash = |attempt| self.order.number(rank(draw(draws, i, attempt), ITEMS, ZETA_OF_ITEMS, self.eta));
        let found = (0..MAX_REDRAWS).map(|attempt| hash(attempt) % self.items).find(|key| *key < existing);
        found.unwrap_or_else(|| hash(0) % existing.max(1))
    }
}

/// `SkewedLatestGenerator`: the newest key has rank 0. The oldest key is never drawn, because YCSB has one item fewer
/// than keys.
#[derive(Debug, Clone, Copy)]
pub struct Latest {
    count: u64,
    /// Difference between the zeta sum and [`zeta_varying_part`], which does not depend on the number of items.
    constant: f64,
}

/// Returns the part of the zeta sum of `n` items that depends on `n`, by the Euler-Maclaurin formula.
fn zeta_varying_part(n: f64) -> f64 {
    let power = n.powf(-THETA);
    let third = THETA * (THETA + 1.0) * (THETA + 2.0) * power / (n * n * n) / 720.0;
    n * power / (1.0 - THETA) + power / 2.0 - THETA * power / n / 12.0 + third
}

/// Returns the zeta sum of `n` items, added term by term.
fn summed(n: u64) -> f64 {
    (1..=n).map(|k| (k as f64).powf(-THETA)).sum()
}

impl Latest {
    /// Creates a generator over `count` initial keys.
    pub fn new(count: u64) -> Latest {
        Latest { count, constant: summed(SUMMED) - zeta_varying_part(SUMMED as f64) }
    }

    fn zeta(&self, n: u64) -> f64 {
        if n <= SUMMED { summed(n) } else { self.constant + zeta_varying_part(n as f64) }
    }

    /// Returns the key of operation `i` after `added` inserts.
    pub fn key(&self, draws: Stream, i: u64, added: u64) -> u64 {
        let newest = self.count + added - 1;
        if newest == 0 || self.count < 2 {
            return newest;
        }
        // YCSB uses the zeta sum of all current items, but the initial number of items in eta.
        let zeta = self.zeta(newest);
        newest.saturating_sub(rank(draws.unit(i), newest as f64, zeta, eta((self.count - 1) as f64, zeta)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_testing::chi_square::assert_fits;

    const DRAWS: u64 = 300_000;

    /// Returns the share of draws with a rank below `k`, from Gray's formula solved for the uniform draw.
    fn below(k: f64, items: f64, zeta: f64) -> f64 {
        let zeta_of_two = 1.0 + 0.5f64.powf(0.99);
        let eta = (1.0 - (2.0 / items).powf(0.01)) / (1.0 - zeta_of_two / zeta);
        ((((k / items).powf(0.01) - 1.0 + eta) / eta).max(zeta_of_two / zeta)).min(1.0)
    }

    /// Returns the shares of the ranks: the first two exactly, the others by the formula.
    fn shares(ranks: u64, items: f64, zeta: f64) -> Vec<f64> {
        let tail = |k: u64| {
            let low = if k == 0 { (1.0 + 0.5f64.powf(0.99)) / zeta } else { below(k as f64, items, zeta) };
            below(k as f64 + 1.0, items, zeta) - low
        };
        let mut out: Vec<f64> = (0..ranks).map(tail).collect();
        out[0] += 1.0 / zeta;
        out[1] += 0.5f64.powf(0.99) / zeta;
        out
    }

    #[test]
    fn the_zeta_sum_of_ten_billion_items_equals_that_of_ycsb() {
        assert!((Latest::new(2).zeta(10_000_000_000) - ZETA_OF_ITEMS).abs() < 1e-9);
        assert!((Latest::new(2).zeta(50_000) - summed(50_000)).abs() < 1e-10);
    }

    /// Regression test: the most popular of 1,000 keys received 12.98% of the draws, instead of 3.86% as in YCSB.
    #[test]
    fn the_most_popular_of_a_thousand_keys_has_the_share_of_ycsb() {
        let (keys, items) = (1000u64, 1001u64);
        for order in [RecordOrder::Hashed, RecordOrder::HashedGo] {
            // Expected shares: those of the first ranks, hashed; the far tail is spread evenly over all keys.
            let ranks = 200_000;
            let mut expected = vec![0.0; items as usize];
            let head = shares(ranks, ITEMS, ZETA_OF_ITEMS);
            let rest = (1.0 - head.iter().sum::<f64>()) / items as f64;
            for (rank, share) in head.iter().enumerate() {
                expected[(order.number(rank as u64) % items) as usize] += share;
            }
            expected.iter_mut().for_each(|share| *share += rest);
            // The key that does not exist is drawn again.
            let existing = 1.0 - expected.pop().unwrap();
            expected.iter_mut().for_each(|share| *share /= existing);
            let hottest = expected.iter().copied().fold(0.0, f64::max);
            assert!((0.0375..0.0395).contains(&hottest), "{hottest}");
            let scrambled = Scrambled::new(items, order);
            let mut seen = vec![0; keys as usize];
            (0..DRAWS).for_each(|i| seen[scrambled.key(Stream::new(42, "z"), i, keys) as usize] += 1);
            assert_fits(&seen, &expected);
        }
    }

    #[test]
    fn latest_has_the_skew_of_ycsb() {
        let (count, items) = (1000u64, 999.0);
        let latest = Latest::new(count);
        let mut seen = vec![0; count as usize];
        (0..DRAWS).for_each(|i| seen[(count - 1 - latest.key(Stream::new(42, "l"), i, 0)) as usize] += 1);
        let mut expected = shares(999, items, summed(999));
        expected.push(0.0);
        let off = 1.0 - expected.iter().sum::<f64>();
        assert!(off.abs() < 1e-9, "{off}");
        // The oldest key is never drawn.
        assert_eq!(seen.pop(), Some(0));
        expected.pop();
        assert_fits(&seen, &expected);
    }

    #[test]
    fn only_existing_keys_are_drawn() {
        let scrambled = Scrambled::new(1_101, RecordOrder::Hashed);
        let latest = Latest::new(100);
        for i in 0..5_000 {
            assert!(scrambled.key(Stream::new(1, "s"), i, 50) < 50);
            assert!(latest.key(Stream::new(1, "s"), i, i) < 100 + i);
        }
        assert_eq!(Latest::new(1).key(Stream::new(1, "s"), 3, 0), 0);
    }
}
