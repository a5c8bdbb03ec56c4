//! Choice of the object that a read addresses: uniform, sequential, zipfian, latest, hotspot or exponential. Each
//! is a pure function of a stream and the number of the operation, so workers need not share their draws. YCSB's
//! own zipfian and latest generators are in [`super::ycsb`].

use super::cdf::Cdf;
use super::naming::RecordOrder;
use super::ycsb;
use crate::scatter::Scatter;
use plimsoll_base::rng::Stream;

/// Default exponent of the zipfian distributions, as in YCSB.
pub const DEFAULT_THETA: f64 = 0.99;

/// Distribution of reads over the objects of a dataset.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Popularity {
    /// All objects with equal probability.
    #[default]
    Uniform,
    /// All objects in order, starting again after the last one.
    Sequential,
    /// All objects from the last to the first, starting again after the first one.
    Reversed,
    /// All objects in a random order, in the same one again after the last.
    Shuffled,
    /// All objects in order from the second one on. If several hosts share a run, each reads those that the next one
    /// has written.
    Shifted,
    /// The ranges of each object in order, one object after the other, starting again after the last one.
    Ranges,
    /// Zipfian: the object of rank k has a weight of `1 / k^theta`. A permutation spreads the ranks over the objects.
    Zipfian {
        /// Exponent of the distribution, above 0.
        theta: f64,
    },
    /// Zipfian by age: the most recently written object has rank 1, the one before it rank 2.
    Latest {
        /// Exponent of the distribution, above 0.
        theta: f64,
    },
    /// YCSB's scrambled zipfian: a rank among 10^10 items, hashed modulo `items`. A key that does not exist is
    /// drawn again.
    YcsbZipfian {
        /// Modulus: the number of existing keys, plus the keys that inserts are expected to add, plus one.
        items: u64,
        /// Hash function: YCSB's or go-ycsb's.
        order: RecordOrder,
    },
    /// YCSB's latest: its approximate zipfian over all records but the oldest, with the newest first.
    YcsbLatest,
    /// Hotspot: a share of the operations addresses the first objects, the rest addresses the others. The number of
    /// hot objects is rounded down, as in YCSB.
    Hotspot {
        /// Share of the objects that are hot, above 0 and below 1.
        objects: f64,
        /// Share of the operations that address the hot objects.
        operations: f64,
    },
    /// Shares of the operations for shares of the objects. Within `operations` operations, the shares are exact, so
    /// that the number of objects that are addressed at least once is, too. A permutation spreads the objects, unless
    /// they are ordered.
    Shares {
        /// Number of operations after which the choices repeat, above 0.
        operations: u64,
        /// Distribution of the operations over the objects, from the most popular object at 0 to the last one at 1.
        shares: Cdf,
        /// True if the objects are in the order of their popularity, and not permuted.
        ordered: bool,
    },
    /// Exponential by age: the most recently written object is the most likely, and each older one is less likely
    /// by a constant factor. The two fields determine that factor.
    Exponential {
        /// Share of the operations that address the most recent `objects`, in percent, above 0 and below 100.
        percentile: f64,
        /// Share of the objects, counted from the most recent, above 0 and at most 1.
        objects: f64,
    },
}

/// Chooses objects out of a dataset according to a popularity.
#[derive(Debug, Clone)]
pub struct Picker {
    popularity: Popularity,
    count: u64,
    zipf: Option<Zipf>,
    scrambled: Option<ycsb::Scrambled>,
    latest: Option<ycsb::Latest>,
    scatter: Scatter,
    /// Permutation of the operations of [`Popularity::Shares`].
    turns: Scatter,
    draws: Stream,
}

/// Number of random draws reserved for each operation. More rejections in a row do not occur in practice, because
/// each has a probability below 1/4.
const DRAWS_PER_OPERATION: u64 = 64;

impl Picker {
    /// Creates a picker for `count` objects; `seed` and `phase` determine its random stream.
    pub fn new(popularity: Popularity, count: u64, seed: u64, phase: &str) -> Picker {
        let zipf = match &popularity {
            Popularity::Zipfian { theta } | Popularity::Latest { theta } => {
                Some(Zipf::new(count.max(1), *theta))
            }
            _ => None,
        };
        let label = |purpose: &str| format!("{purpose}/{phase}");
        let scatter = Scatter::new(count.max(1), Stream::new(seed, &label("scatter")).at(0));
        let scrambled = match &popularity {
            Popularity::YcsbZipfian { items, order } => Some(ycsb::Scrambled::new(*items, *order)),
            _ => None,
        };
        let latest = (popularity == Popularity::YcsbLatest).then(|| ycsb::Latest::new(count.max(1)));
        let turns = match &popularity {
            Popularity::Shares { operations, .. } => *operations,
            _ => 1,
        };
        let turns = Scatter::new(turns.max(1), Stream::new(seed, &label("turns")).at(0));
        let draws = Stream::new(seed, &label("keys"));
        Picker { popularity, count: count.max(1), zipf, scrambled, latest, scatter, turns, draws }
    }

    /// Returns the object that operation `i` addresses. `ordinal` is the number of the operation within its kind, or
    /// with [`Popularity::Shares`], among all reads; `added` is the number of objects added after the first `count`.
    pub fn pick(&self, i: u64, ordinal: u64, added: u64) -> u64 {
        let rank = || self.zipf.as_ref().map_or(0, |zipf| zipf.rank(self.draws, i * DRAWS_PER_OPERATION) - 1);
        match &self.popularity {
            Popularity::Uniform => self.draws.below(i, self.count),
            Popularity::Sequential | Popularity::Ranges => ordinal % self.count,
            Popularity::Reversed => self.count - 1 - ordinal % self.count,
            Popularity::Shuffled => self.scatter.at(ordinal % self.count),
            Popularity::Shifted => (ordinal + 1) % self.count,
            Popularity::Zipfian { .. } => self.scatter.at(rank()),
            Popularity::Latest { .. } => self.count + added - 1 - rank(),
            Popularity::YcsbZipfian { .. } => {
                self.scrambled.as_ref().map_or(0, |s| s.key(self.draws, i, self.count + added))
            }
            Popularity::YcsbLatest => self.latest.as_ref().map_or(0, |l| l.key(self.draws, i, added)),
            Popularity::Exponential { percentile, objects } => {
                // YCSB's generator, truncated at the oldest object.
                let n = (self.count + added) as f64;
                let gamma = -(1.0 - percentile / 100.0).ln() / (self.count as f64 * objects);
                let inside = 1.0 - (-gamma * n).exp();
                let back = -(1.0 - self.draws.unit(i) * inside).ln() / gamma;
                (n as u64 - 1).saturating_sub(back as u64)
            }
            Popularity::Shares { operations, shares, ordered } => {
                let turn = self.turns.at(ordinal % operations) as f64;
                let rank = shares.at((turn + 0.5) / *operations as f64) * self.count as f64;
                let rank = (rank as u64).min(self.count - 1);
                if *ordered { rank } else { self.scatter.at(rank) }
            }
            Popularity::Hotspot { objects, operations } => {
                let hot = ((self.count as f64 * objects) as u64).clamp(1, self.count);
                if hot == self.count || self.draws.unit(2 * i) < *operations {
                    self.draws.below(2 * i + 1, hot)
                } else {
                    hot + self.draws.below(2 * i + 1, self.count - hot)
                }
            }
        }
    }
}

/// Zipf's distribution over `1..=n` by rejection-inversion, which is exact and needs no table (Hörmann and
/// Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", ACM TOMACS 6(3),
/// 1996).
#[derive(Debug, Clone)]
struct Zipf {
    n: f64,
    theta: f64,
    low: f64,
    high: f64,
    squeeze: f64,
}

impl Zipf {
    fn new(n: u64, theta: f64) -> Zipf {
        let mut zipf = Zipf { n: n as f64, theta, low: 0.0, high: 0.0, squeeze: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.n + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// Returns the integral of `x^-theta` from 1 to `x`, which is also exact for theta = 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.theta) * log;
        log * if t.abs() > 1e-8 { t.exp_m1() / t } else { 1.0 + t / 2.0 }
    }

    fn inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.theta)).max(-1.0);
        (y * if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t / 2.0 }).exp()
    }

    /// Returns a rank, from the draws `first..first + DRAWS_PER_OPERATION`.
    fn rank(&self, draws: Stream, first: u64) -> u64 {
        for attempt in 0..DRAWS_PER_OPERATION {
            let u = self.high + draws.unit(first + attempt) * (self.low - self.high);
            let x = self.inverse(u);
            let k = x.round().clamp(1.0, self.n);
            if k - x <= self.squeeze || u >= self.integral(k + 0.5) - self.weight(k) {
                return k as u64;
            }
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_testing::chi_square::assert_fits;

    const DRAWS: u64 = 300_000;

    fn counts(popularity: Popularity, n: u64) -> Vec<u64> {
        let picker = Picker::new(popularity, n, 42, "get");
        let mut out = vec![0; n as usize];
        (0..DRAWS).for_each(|i| out[picker.pick(i, i, 0) as usize] += 1);
        out
    }

    fn zipf_shares(n: u64, theta: f64) -> Vec<f64> {
        let weights: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-theta)).collect();
        let total: f64 = weights.iter().sum();
        weights.iter().map(|w| w / total).collect()
    }

    #[test]
    fn uniform_fits() {
        assert_fits(&counts(Popularity::Uniform, 1000), &[0.001; 1000]);
    }

    #[test]
    fn sequential_reads_every_object_equally_often() {
        for popularity in
            [Popularity::Sequential, Popularity::Reversed, Popularity::Shuffled, Popularity::Shifted]
        {
            assert!(counts(popularity, 1000).iter().all(|c| *c == 300));
        }
    }

    #[test]
    fn latest_fits_at_every_exponent() {
        for theta in [0.5, 0.99, 1.0, 1.5] {
            let mut seen = counts(Popularity::Latest { theta }, 1000);
            seen.reverse();
            assert_fits(&seen, &zipf_shares(1000, theta));
        }
    }

    #[test]
    fn zipfian_fits_after_inverting_the_scatter() {
        let (n, theta) = (1000, DEFAULT_THETA);
        let seen = counts(Popularity::Zipfian { theta }, n);
        let picker = Picker::new(Popularity::Zipfian { theta }, n, 42, "get");
        let by_rank: Vec<u64> = (0..n).map(|rank| seen[picker.scatter.at(rank) as usize]).collect();
        assert_fits(&by_rank, &zipf_shares(n, theta));
        assert_ne!(by_rank, seen, "the popular objects are spread");
    }

    #[test]
    fn hotspot_fits() {
        let seen = counts(Popularity::Hotspot { objects: 0.2, operations: 0.8 }, 100);
        let shares: Vec<f64> = (0..100).map(|i| if i < 20 { 0.04 } else { 0.0025 }).collect();
        assert_fits(&seen, &shares);
    }

    /// YCSB rounds the number of hot keys down: a share of 0.29 of 10 keys is 2 keys.
    #[test]
    fn hot_keys_are_rounded_down() {
        let seen = counts(Popularity::Hotspot { objects: 0.29, operations: 0.8 }, 10);
        let shares: Vec<f64> = (0..10).map(|i| if i < 2 { 0.4 } else { 0.025 }).collect();
        assert_fits(&seen, &shares);
    }

    #[test]
    fn exponential_fits_and_stays_in_range() {
        let (percentile, objects) = (95.0, 0.8571428571);
        let mut seen = counts(Popularity::Exponential { percentile, objects }, 200);
        seen.reverse();
        let gamma = -(1.0f64 - 0.95).ln() / (200.0 * objects);
        let inside = 1.0 - (-gamma * 200.0).exp();
        let below = |k: f64| (1.0 - (-gamma * k).exp()) / inside;
        let shares: Vec<f64> = (0..200).map(|k| below(f64::from(k) + 1.0) - below(f64::from(k))).collect();
        assert_fits(&seen, &shares);
    }

    #[test]
    fn added_objects_are_drawn_and_only_existing_ones() {
        for popularity in
            [Popularity::Latest { theta: 0.99 }, Popularity::Exponential { percentile: 95.0, objects: 0.86 }]
        {
            let picker = Picker::new(popularity.clone(), 100, 42, "get");
            let drawn: Vec<u64> = (0..10_000).map(|i| picker.pick(i, i, 50)).collect();
            assert!(drawn.iter().all(|k| *k < 150) && drawn.contains(&149), "{popularity:?}");
        }
    }

    #[test]
    fn ranks_stay_in_range_for_extreme_parameters() {
        for (n, theta) in [(1, 0.99), (2, 3.0), (u64::from(u32::MAX), 0.99)] {
            let zipf = Zipf::new(n, theta);
            assert!(
                (0..10_000).map(|i| zipf.rank(Stream::new(1, "z"), i * 64)).all(|k| (1..=n).contains(&k))
            );
        }
    }
}
