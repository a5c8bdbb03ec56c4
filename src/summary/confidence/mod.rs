//! Intervals that hold the true value in 95 of 100 runs, from figures that depend on each other from second to second.
//!
//! Seconds of a run are not independent: a store that is slow now is slow in a second. So an interval that takes each operation, or
//! each second, for a fresh draw is far too narrow. Here the spread of a figure comes from its residuals by second, widened by how
//! long they remember ([`memory`]), with Student's t for as many degrees of freedom as there are independent stretches. Percentiles
//! are found by inverting the interval of the share of operations below them (Woodruff, "Confidence intervals for medians and other
//! position measures", JASA 47, 1952). `make bench-statistics` holds the method, and a plain block bootstrap beside it,
//! against simulated runs whose truth is known; see docs/decisions/0012-confidence.md.

mod autocorrelation;
mod quantile;

pub use autocorrelation::memory;
pub use quantile::{LEAST_INDEPENDENT, Share, quantile, share};

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Confidence of all intervals.
pub const LEVEL: f64 = 0.95;

/// Degrees of freedom below which there is no interval: Student's t makes it wider than anything that was measured.
pub const LEAST_FREEDOM: f64 = 2.0;

/// Independent stretches that an interval needs; see [`freedom`].
pub const LEAST_STRETCHES: f64 = 2.0 * (LEAST_FREEDOM + 1.0);

/// Seconds (not in a row) that must share in what makes a percentile, for an interval of it; see [`freedom`].
pub const LEAST_EFFECTIVE_SAMPLE_SIZE: f64 = LEAST_FREEDOM + 1.0;

/// Ratio of the ends of an interval beyond which it says nothing.
pub const WIDEST: f64 = 10.0;

/// Upper end of the interval of a share up to which its lower end may be anything: "at most 1%" says enough.
const SMALL_SHARE: f64 = 0.01;

/// Seconds below which nothing can be said of how long they remember.
pub const LEAST_SECONDS: usize = 8;

/// A figure with what is known of its truth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Confidence {
    /// The truth lies between `low` and `high`, with the confidence [`LEVEL`].
    Between {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
        /// Degrees of freedom behind it.
        freedom: f64,
    },
    /// Too few independent seconds to say; that many in all would be enough if they went on as they did.
    Needs {
        /// Seconds of measurement.
        seconds: f64,
    },
}

impl Confidence {
    /// Returns the interval of a positive figure, or what it needs if it is too wide or has too few degrees of freedom. Every interval
    /// is made here. `n` is the number of seconds behind it.
    pub fn between(low: f64, high: f64, freedom: f64, n: usize) -> Confidence {
        let narrow = low > 0.0 && high <= WIDEST * low;
        if freedom >= LEAST_FREEDOM && narrow {
            return Confidence::Between { low, high, freedom };
        }
        // The logarithm of the width shrinks with the square root of the time.
        let wider = (high / low).ln() / WIDEST.ln();
        let wider = if wider.is_finite() { wider.max(1.0) } else { 10.0 };
        let short = (LEAST_FREEDOM + 1.0) / (freedom + 1.0).max(0.1);
        Confidence::Needs { seconds: (n.max(LEAST_SECONDS) as f64 * 2.0 * wider.powi(2).max(short)).ceil() }
    }

    /// Returns the interval of a share. As [`Confidence::between`], but a share of at most 1% needs no lower end.
    fn of_share(low: f64, high: f64, freedom: f64, n: usize) -> Confidence {
        if freedom >= LEAST_FREEDOM && high <= SMALL_SHARE {
            return Confidence::Between { low, high, freedom };
        }
        Confidence::between(low, high, freedom, n)
    }

    /// The ends, where there are any.
    pub fn ends(&self) -> Option<(f64, f64)> {
        match self {
            Confidence::Between { low, high, .. } => Some((*low, *high)),
            Confidence::Needs { .. } => None,
        }
    }

    /// Seconds of measurement that would be enough, where there are no ends.
    pub fn needs_s(&self) -> Option<f64> {
        match self {
            Confidence::Needs { seconds } => Some(*seconds),
            Confidence::Between { .. } => None,
        }
    }
}

/// Two-sided quantile of Student's t at [`LEVEL`] with `freedom` degrees of freedom.
pub fn t_quantile(freedom: f64) -> f64 {
    // Below one degree the quantile grows beyond use.
    let freedom = freedom.max(0.25);
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(0.5 + LEVEL / 2.0))
}

/// Two-sided probability of a value at least `t` standard errors off, with `freedom` degrees of freedom.
pub fn t_probability(t: f64, freedom: f64) -> f64 {
    let freedom = freedom.max(0.25);
    StudentsT::new(0.0, 1.0, freedom).map_or(1.0, |d| 2.0 * d.cdf(-t.abs()))
}

/// Sums of two quantities second by second, whose ratio is the figure: completed operations and time, or operations below a
/// latency and all of them.
#[derive(Debug, Clone, Copy)]
pub struct Ratio<'a> {
    /// What is counted.
    pub above: &'a [f64],
    /// What it is counted against.
    pub below: &'a [f64],
}

/// How far a ratio of sums may be off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The ratio.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
    /// Independent stretches that the seconds amount to.
    pub stretches: f64,
}

impl Ratio<'_> {
    /// The ratio of all sums.
    pub fn value(&self) -> f64 {
        self.above.iter().sum::<f64>() / self.below.iter().sum::<f64>()
    }

    /// What each second has too much, were the ratio the same in all.
    pub fn residuals(&self) -> Vec<f64> {
        let ratio = self.value();
        self.above.iter().zip(self.below).map(|(a, b)| a - ratio * b).collect()
    }

    /// Standard error of the ratio (linearised: Cochran, "Sampling Techniques", 1977, section 6), its residuals remembering
    /// `memory` seconds.
    pub fn spread(&self, memory: f64) -> Spread {
        let n = self.above.len() as f64;
        let squares: f64 = self.residuals().iter().map(|e| e * e).sum();
        let total: f64 = self.below.iter().sum();
        let error = (squares * n / (n - 1.0).max(1.0) * memory).sqrt() / total;
        Spread { value: self.value(), error, stretches: n / memory }
    }
}

/// Degrees of freedom: half the independent stretches, because how many there are was found from the same seconds; and no more than the
/// seconds that share in the figure.
pub fn freedom(stretches: f64, effective_sample_size: f64) -> f64 {
    (stretches / 2.0).min(effective_sample_size) - 1.0
}

/// Seconds that would do, where `n` do not.
pub fn seconds_needed(n: usize, stretches: f64, effective_sample_size: f64) -> f64 {
    let n = n.max(1) as f64;
    let short = (LEAST_STRETCHES / stretches.max(1e-9))
        .max(LEAST_EFFECTIVE_SAMPLE_SIZE / effective_sample_size.max(1e-9))
        .max(1.0);
    // Twice what would just do: at the edge it is luck.
    (n * short.min(1e4) * 2.0).max(2.0 * LEAST_SECONDS as f64).ceil()
}

/// The interval of a rate: what was counted by second, over the time of each second. On a logarithmic scale, so that it is never below 0.
pub fn rate(counted: &[f64], time_s: &[f64]) -> Confidence {
    let ratio = Ratio { above: counted, below: time_s };
    let n = counted.len();
    let value = ratio.value();
    if n < LEAST_SECONDS || value.is_nan() || value <= 0.0 {
        return Confidence::Needs { seconds: seconds_needed(n, n as f64, n as f64) };
    }
    let spread = ratio.spread(memory(&ratio.residuals()));
    let effective_sample_size = effective_sample_size(counted);
    if spread.stretches < LEAST_STRETCHES || effective_sample_size < LEAST_EFFECTIVE_SAMPLE_SIZE {
        return Confidence::Needs { seconds: seconds_needed(n, spread.stretches, effective_sample_size) };
    }
    let freedom = freedom(spread.stretches, effective_sample_size);
    let reach = (t_quantile(freedom) * spread.error / value).exp();
    Confidence::between(value / reach, value * reach, freedom, n)
}

/// How many seconds share in a total: all of them when they have equal parts, one when one has it all (Kish, "Survey Sampling", 1965).
pub fn effective_sample_size(parts: &[f64]) -> f64 {
    let (sum, squares) = parts.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    if squares > 0.0 { sum * sum / squares } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_quantiles_are_those_of_the_tables() {
        for (freedom, value) in [(1.0, 12.7062), (4.0, 2.7764), (30.0, 2.0423), (1e6, 1.96)] {
            assert!((t_quantile(freedom) - value).abs() < 1e-3, "{freedom}: {}", t_quantile(freedom));
        }
        assert!((t_probability(2.7764, 4.0) - 0.05).abs() < 1e-4);
    }

    #[test]
    fn sharers_of_a_total() {
        assert_eq!(effective_sample_size(&[2.0; 10]), 10.0);
        assert_eq!(effective_sample_size(&[0.0, 7.0, 0.0]), 1.0);
        assert_eq!(effective_sample_size(&[]), 0.0);
    }

    #[test]
    fn steady_seconds_have_a_narrow_interval_and_few_have_none() {
        let counted: Vec<f64> = (0..60).map(|i| 100.0 + f64::from(i % 3)).collect();
        let (low, high) = rate(&counted, &[1.0; 60]).ends().unwrap();
        assert!(low > 100.0 && low < 101.0 && high > 101.0 && high < 102.0, "{low} {high}");
        assert!(matches!(rate(&counted[..5], &[1.0; 5]), Confidence::Needs { seconds } if seconds >= 8.0));
        assert!(matches!(rate(&[0.0; 30], &[1.0; 30]), Confidence::Needs { .. }), "nothing was counted");
    }

    #[test]
    fn a_run_that_drifts_all_along_has_no_interval() {
        let counted: Vec<f64> = (0..60).map(|i| 100.0 + f64::from(i)).collect();
        assert!(matches!(rate(&counted, &[1.0; 60]), Confidence::Needs { seconds } if seconds > 60.0));
    }

    #[test]
    fn an_interval_wider_than_a_factor_of_ten_is_none() {
        assert!(Confidence::between(1.0, 9.9, 5.0, 30).ends().is_some());
        assert!(Confidence::between(1.0, 10.1, 5.0, 30).needs_s().unwrap() > 60.0);
        assert!(Confidence::between(0.0, 1.0, 5.0, 30).ends().is_none());
        assert!(Confidence::of_share(0.0, 0.001, 5.0, 30).ends().is_some(), "at most 0.1%");
        assert!(Confidence::of_share(0.0, 0.5, 5.0, 30).ends().is_none());
    }

    #[test]
    fn below_two_degrees_of_freedom_there_is_no_interval() {
        assert!(Confidence::between(1.0, 1.1, 1.9, 30).needs_s().is_some_and(f64::is_finite));
        assert!(Confidence::between(1.0, 1.1, 2.0, 30).ends().is_some());
        // Eight seconds of which each resembles the next are worth fewer than six.
        let rising: Vec<f64> = (0..10).map(|i| 100.0 + f64::from(i / 2)).collect();
        assert!(rate(&rising, &[1.0; 10]).ends().is_none());
    }
}
