//! Latency of reads that are split between two stores: percentiles of the mixture of two distributions, never a
//! mean of percentiles.
//!
//! The percentile q of the mixture is the least x with `w1 F1(x) + w2 F2(x) >= q`. For a measured distribution,
//! F is known. If only some percentiles are known, F is between two step functions, so the percentile of the
//! mixture is an interval.

use serde::Serialize;

/// Latency distribution, as far as it is known.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// Values in milliseconds, ascending, each with its number of occurrences.
    Counted(Vec<(f64, u64)>),
    /// Percentiles (0 to 1) and their values in milliseconds, both ascending.
    Percentiles(Vec<(f64, f64)>),
}

impl Distribution {
    /// Returns a lower and an upper bound of the share of values up to `ms`. The flag is true if the share is
    /// strictly below the upper bound, because the value of that percentile is greater than `ms`.
    fn share(&self, ms: f64) -> (f64, f64, bool) {
        match self {
            Distribution::Counted(values) => {
                let all: u64 = values.iter().map(|(_, n)| n).sum();
                let within: u64 = values.iter().take_while(|(v, _)| *v <= ms).map(|(_, n)| n).sum();
                let share = if all == 0 { 0.0 } else { within as f64 / all as f64 };
                (share, share, false)
            }
            Distribution::Percentiles(known) => {
                let low = known.iter().rev().find(|(_, v)| *v <= ms).map_or(0.0, |(q, _)| *q);
                let next = known.iter().find(|(_, v)| *v > ms);
                (low, next.map_or(1.0, |(q, _)| *q), next.is_some())
            }
        }
    }

    /// Returns the values at which the distribution function, or one of its bounds, has a step.
    fn values(&self) -> Vec<f64> {
        match self {
            Distribution::Counted(values) => values.iter().map(|(v, _)| *v).collect(),
            Distribution::Percentiles(known) => known.iter().map(|(_, v)| *v).collect(),
        }
    }
}

/// Interval that contains a percentile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bounds {
    /// Lower bound, in milliseconds.
    pub low_ms: f64,
    /// Upper bound, in milliseconds. `None` if no known percentile is high enough to give one.
    pub high_ms: Option<f64>,
}

/// Returns the percentile `q` (0 to 1) of a mixture: the share `first` comes from `one`, the rest from `other`.
pub fn percentile(one: &Distribution, other: &Distribution, first: f64, q: f64) -> Bounds {
    let mut values: Vec<f64> = Vec::new();
    for (share, distribution) in [(first, one), (1.0 - first, other)] {
        if share > 0.0 {
            values.extend(distribution.values());
        }
    }
    values.sort_by(f64::total_cmp);
    // Sums of shares have rounding errors; the tolerance accepts a percentile that is reached exactly.
    let mixed = |a: f64, b: f64| first * a + (1.0 - first) * b;
    let surely = |ms: f64| mixed(one.share(ms).0, other.share(ms).0) >= q - 1e-12;
    let possibly = |ms: f64| {
        let ((_, high1, below1), (_, high2, below2)) = (one.share(ms), other.share(ms));
        let below = (first > 0.0 && below1) || (first < 1.0 && below2);
        mixed(high1, high2) >= if below { q + 1e-12 } else { q - 1e-12 }
    };
    let low_ms =
        if possibly(0.0) { 0.0 } else { values.iter().copied().find(|v| possibly(*v)).unwrap_or(0.0) };
    let high = values.iter().copied().find(|v| surely(*v));
    Bounds { low_ms, high_ms: high.filter(|ms| ms.is_finite()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mixture_of_counted_values_has_the_percentiles_of_all_values() {
        // 80 of 100 reads take 1..8 ms evenly, 20 take 11..30 ms.
        let hot = Distribution::Counted((1..=8).map(|ms| (f64::from(ms), 10)).collect());
        let cold = Distribution::Counted((11..=30).map(|ms| (f64::from(ms), 1)).collect());
        let all: Vec<f64> =
            (1..=8).flat_map(|ms| [f64::from(ms); 10]).chain((11..=30).map(f64::from)).collect();
        for q in [0.1, 0.5, 0.8, 0.81, 0.95, 0.99, 1.0] {
            let expected = all[((q * 100.0_f64).round() as usize).max(1) - 1];
            let found = percentile(&hot, &cold, 0.8, q);
            assert_eq!((found.low_ms, found.high_ms), (expected, Some(expected)), "{q}");
        }
    }

    /// If 80% of reads have a p99 of 8 ms and 20% one of 26 ms, the p99 of all reads is not the mean, 11.6 ms.
    /// It is between the median and the p99 of the cold store.
    #[test]
    fn a_mixture_of_known_percentiles_has_bounds() {
        let hot = Distribution::Percentiles(vec![(0.5, 5.0), (0.99, 8.0)]);
        let cold = Distribution::Percentiles(vec![(0.5, 18.0), (0.99, 26.0)]);
        assert_eq!(percentile(&hot, &cold, 0.8, 0.99), Bounds { low_ms: 18.0, high_ms: Some(26.0) });
        assert_eq!(percentile(&hot, &cold, 0.8, 0.5), Bounds { low_ms: 5.0, high_ms: Some(8.0) });
        assert_eq!(percentile(&hot, &cold, 1.0, 0.99), Bounds { low_ms: 8.0, high_ms: Some(8.0) });
        assert_eq!(percentile(&hot, &cold, 0.8, 0.999).high_ms, None);
    }
}
