//! The latency of reads that go partly to one store and partly to another: the mixture of two distributions, never a mean of
//! percentiles.
//!
//! A percentile q of the mixture is the least x with `w1 F1(x) + w2 F2(x) >= q`. Where a distribution was measured, F is known; where
//! only some percentiles are known, F lies between two steps, and so does the percentile of the mixture.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::summary::merge::latencies;
use crate::summary::result::Window;

/// What is known of a distribution.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// Values in milliseconds, rising, with how often each came up.
    Counted(Vec<(f64, u64)>),
    /// Percentiles as shares of 1, with their values in milliseconds, both rising.
    Percentiles(Vec<(f64, f64)>),
}

impl Distribution {
    /// The latencies of windows together: response times of open loops, service times of closed ones. Operations that failed or were not
    /// answered in time are beyond every value.
    pub fn of_windows(windows: &[&Window]) -> Distribution {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        let mut missed = 0;
        for window in windows {
            let name = if window.response_ms.is_some() { "response" } else { "service" };
            let all = latencies(window, name, None);
            missed += window.censored + window.errors.values().sum::<u64>();
            for value in all.histogram().into_iter().flat_map(|h| h.iter_recorded()) {
                *counts.entry(value.value_iterated_to()).or_default() += value.count_at_value();
            }
        }
        let mut values: Vec<(f64, u64)> = counts.into_iter().map(|(us, n)| (us as f64 / 1e3, n)).collect();
        if missed > 0 {
            values.push((f64::INFINITY, missed));
        }
        Distribution::Counted(values)
    }

    /// What the share of values up to `ms` lies between, and whether it is surely below the upper bound: below the percentile's value
    /// its share is not reached.
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

    /// The values at which something happens.
    fn values(&self) -> Vec<f64> {
        match self {
            Distribution::Counted(values) => values.iter().map(|(v, _)| *v).collect(),
            Distribution::Percentiles(known) => known.iter().map(|(_, v)| *v).collect(),
        }
    }
}

/// What a percentile lies between, in milliseconds; `high` is unknown where no known percentile reaches so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bounds {
    /// It is not below.
    pub low_ms: f64,
    /// It is not above.
    pub high_ms: Option<f64>,
}

/// The percentile `q` (a share of 1) of a mixture, `first` share of which comes from `one` and the rest from `other`.
pub fn percentile(one: &Distribution, other: &Distribution, first: f64, q: f64) -> Bounds {
    let mut values: Vec<f64> = Vec::new();
    for (share, distribution) in [(first, one), (1.0 - first, other)] {
        if share > 0.0 {
            values.extend(distribution.values());
        }
    }
    values.sort_by(f64::total_cmp);
    // Sums of shares are not exact; a percentile that is reached must not be missed for it.
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
    fn a_mixture_of_counted_values_is_that_of_all_values_together() {
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

    /// p99 of 8 and 26 ms, mixed 80 to 20: not 11.6, the mean, but between the cold store's median and its p99.
    #[test]
    fn of_percentiles_alone_bounds_are_known() {
        let hot = Distribution::Percentiles(vec![(0.5, 5.0), (0.99, 8.0)]);
        let cold = Distribution::Percentiles(vec![(0.5, 18.0), (0.99, 26.0)]);
        assert_eq!(percentile(&hot, &cold, 0.8, 0.99), Bounds { low_ms: 18.0, high_ms: Some(26.0) });
        assert_eq!(percentile(&hot, &cold, 0.8, 0.5), Bounds { low_ms: 5.0, high_ms: Some(8.0) });
        assert_eq!(percentile(&hot, &cold, 1.0, 0.99), Bounds { low_ms: 8.0, high_ms: Some(8.0) });
        assert_eq!(percentile(&hot, &cold, 0.8, 0.999).high_ms, None);
    }
}
