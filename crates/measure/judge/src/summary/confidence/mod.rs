//! 95% confidence intervals for figures whose seconds are autocorrelated.
//!
//! Seconds of a run are not independent: a store that is slow now is still slow a second later. An interval that
//! treats each operation, or each second, as an independent sample is therefore far too narrow. This module computes
//! the standard error of a figure from the slow components of its residuals by second ([`long_run`]), and uses
//! Student's t with as many degrees of freedom as there are components. It shows no interval if the run has structure
//! that lasts longer than a third of it. The interval of a percentile inverts that of the share of operations below
//! it (Woodruff, "Confidence intervals for medians and other position measures", JASA 47, 1952). `make
//! bench-statistics` tests the method on simulated runs with known true values; see
//! docs/decisions/0020-slow-structure.md.

mod quantile;
mod spectrum;

pub use quantile::{MIN_INDEPENDENT, Share, quantile, share};
pub use spectrum::{LongRun, long_run, long_run_of_blocks};

use super::student::{LEVEL, t_quantile};

/// Degrees of freedom below which there is no interval, because Student's t makes it too wide to be useful.
pub const MIN_FREEDOM: f64 = 2.0;

/// Minimum effective sample size for an interval, in seconds that contribute to the figure (not necessarily
/// consecutive).
pub const MIN_EFFECTIVE_SAMPLE_SIZE: f64 = MIN_FREEDOM + 1.0;

/// Ratio of the ends of an interval above which the interval is too wide to report.
pub const WIDEST: f64 = 10.0;

/// Upper end of the interval of a share up to which its lower end does not matter, because "at most 1%" is
/// informative.
const SMALL_SHARE: f64 = 0.01;

/// Minimum number of seconds for an interval.
pub const MIN_SECONDS: usize = 8;

/// Confidence interval of a figure, or the measurement time that one would need.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum IntervalEstimate {
    /// Interval that covers the true value at confidence level [`LEVEL`].
    Interval {
        /// Lower end of the interval.
        low: f64,
        /// Upper end of the interval.
        high: f64,
        /// Degrees of freedom of the estimate.
        freedom: f64,
    },
    /// No interval: the run is too short.
    TooShort {
        /// Total seconds of measurement that would be enough if the store behaves as before.
        seconds: f64,
    },
    /// No interval: the run shows structure that lasts longer than a third of it.
    SlowStructure {
        /// Total seconds of measurement of which the structure would last at most a third.
        seconds: f64,
    },
    /// No interval, whatever the length of the run: no operation succeeded.
    NoneSucceeded,
}

impl IntervalEstimate {
    /// Returns the interval of a positive figure, or the seconds it needs if it is too wide or has too few
    /// degrees of freedom. `n` is the number of measured seconds. All intervals are created here, except those
    /// of shares of at most 1%.
    pub fn between(low: f64, high: f64, freedom: f64, n: usize) -> IntervalEstimate {
        let narrow = low > 0.0 && high <= WIDEST * low;
        if freedom >= MIN_FREEDOM && narrow {
            return IntervalEstimate::Interval { low, high, freedom };
        }
        // The logarithm of the width shrinks with the square root of the time.
        let wider = (high / low).ln() / WIDEST.ln();
        let wider = if wider.is_finite() { wider.max(1.0) } else { 10.0 };
        let short = (MIN_FREEDOM + 1.0) / (freedom + 1.0).max(0.1);
        IntervalEstimate::TooShort {
            seconds: (n.max(MIN_SECONDS) as f64 * 2.0 * wider.powi(2).max(short)).ceil(),
        }
    }

    /// Returns the interval of a share. Like [`IntervalEstimate::between`], but a share whose upper end is at most 1%
    /// may have any lower end.
    fn of_share(low: f64, high: f64, freedom: f64, n: usize) -> IntervalEstimate {
        if freedom >= MIN_FREEDOM && high <= SMALL_SHARE {
            return IntervalEstimate::Interval { low, high, freedom };
        }
        IntervalEstimate::between(low, high, freedom, n)
    }

    /// Returns the ends of the interval, `None` if there is no interval.
    pub fn ends(&self) -> Option<(f64, f64)> {
        match self {
            IntervalEstimate::Interval { low, high, .. } => Some((*low, *high)),
            _ => None,
        }
    }

    /// Returns the seconds of measurement that would be enough; `None` if there is an interval, or no time is enough.
    pub fn duration_needed_s(&self) -> Option<f64> {
        match self {
            IntervalEstimate::TooShort { seconds } | IntervalEstimate::SlowStructure { seconds } => {
                Some(*seconds)
            }
            IntervalEstimate::Interval { .. } | IntervalEstimate::NoneSucceeded => None,
        }
    }
}

/// Two quantities by second; the ratio of their sums is the figure. Examples: completed operations over time,
/// or operations below a latency over all operations.
#[derive(Debug, Clone, Copy)]
pub struct Ratio<'a> {
    /// Numerator for each second.
    pub above: &'a [f64],
    /// Denominator for each second.
    pub below: &'a [f64],
}

/// A ratio of sums with its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Ratio of the sums.
    pub value: f64,
    /// Standard error of the ratio.
    pub error: f64,
    /// Degrees of freedom of the standard error.
    pub freedom: f64,
    /// True if the run shows structure that lasts longer than a third of it; the standard error is then too small.
    pub structured: bool,
}

impl Ratio<'_> {
    /// Returns the ratio of the sums.
    pub fn value(&self) -> f64 {
        self.above.iter().sum::<f64>() / self.below.iter().sum::<f64>()
    }

    /// Returns the excess of each second's numerator over its expected value, which is the overall ratio times
    /// its denominator.
    pub fn residuals(&self) -> Vec<f64> {
        let ratio = self.value();
        self.above.iter().zip(self.below).map(|(a, b)| a - ratio * b).collect()
    }

    /// Returns the ratio with its standard error (linearised: Cochran, "Sampling Techniques", 1977, section 6).
    pub fn spread(&self) -> Spread {
        let n = self.above.len() as f64;
        let residuals = self.residuals();
        let squares: f64 = residuals.iter().map(|e| e * e).sum();
        let total: f64 = self.below.iter().sum();
        let LongRun { inflation, freedom, structured } = long_run(&residuals);
        let error = (squares * n / (n - 1.0).max(1.0) * inflation).sqrt() / total;
        Spread { value: self.value(), error, freedom, structured }
    }
}

/// Returns the answer for a run of `n` seconds with slow structure. A structure of its length lasts a third of a run
/// that is three times as long.
pub fn structure(n: usize) -> IntervalEstimate {
    IntervalEstimate::SlowStructure { seconds: 3.0 * n as f64 }
}

/// Returns the answer for `n` seconds that are too few for an interval.
pub fn too_few(n: usize, effective_sample_size: f64) -> IntervalEstimate {
    IntervalEstimate::TooShort { seconds: seconds_needed(n, effective_sample_size) }
}

/// Returns the seconds that an interval would need, if `n` seconds are too few.
fn seconds_needed(n: usize, effective_sample_size: f64) -> f64 {
    let n = n.max(1) as f64;
    let short = (MIN_EFFECTIVE_SAMPLE_SIZE / effective_sample_size.max(1e-9)).max(1.0);
    // Doubled, because at the threshold itself only some runs get an interval.
    (n * short.min(1e4) * 2.0).max(2.0 * MIN_SECONDS as f64).ceil()
}

/// Returns the interval of a rate: the count of each second over its time. Computed on a logarithmic scale, so
/// it never reaches below 0.
pub fn rate(counted: &[f64], time_s: &[f64]) -> IntervalEstimate {
    let ratio = Ratio { above: counted, below: time_s };
    let n = counted.len();
    let value = ratio.value();
    if n < MIN_SECONDS || value.is_nan() || value <= 0.0 {
        return too_few(n, n as f64);
    }
    let spread = ratio.spread();
    let effective_sample_size = effective_sample_size(counted);
    if spread.structured {
        return structure(n);
    }
    if effective_sample_size < MIN_EFFECTIVE_SAMPLE_SIZE {
        return too_few(n, effective_sample_size);
    }
    let freedom = spread.freedom.min(effective_sample_size - 1.0);
    let reach = (t_quantile(freedom) * spread.error / value).exp();
    IntervalEstimate::between(value / reach, value * reach, freedom, n)
}

/// Returns the effective sample size of a total by second: the number of seconds if all contribute equally, 1
/// if one second contributes everything (Kish, "Survey Sampling", 1965).
pub fn effective_sample_size(parts: &[f64]) -> f64 {
    let (sum, squares) = parts.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    if squares > 0.0 { sum * sum / squares } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_sample_size_counts_equal_contributions() {
        assert_eq!(effective_sample_size(&[2.0; 10]), 10.0);
        assert_eq!(effective_sample_size(&[0.0, 7.0, 0.0]), 1.0);
        assert_eq!(effective_sample_size(&[]), 0.0);
    }

    #[test]
    fn steady_seconds_have_a_narrow_interval_and_too_few_seconds_have_none() {
        let counted: Vec<f64> = (0..60).map(|i| 100.0 + f64::from(i % 3)).collect();
        let (low, high) = rate(&counted, &[1.0; 60]).ends().unwrap();
        assert!(low > 100.0 && low < 101.0 && high > 101.0 && high < 102.0, "{low} {high}");
        assert!(
            matches!(rate(&counted[..5], &[1.0; 5]), IntervalEstimate::TooShort { seconds } if seconds >= 8.0)
        );
        assert!(matches!(rate(&[0.0; 30], &[1.0; 30]), IntervalEstimate::TooShort { .. }), "a rate of zero");
    }

    #[test]
    fn a_run_that_drifts_throughout_has_no_interval() {
        let counted: Vec<f64> = (0..60).map(|i| 100.0 + f64::from(i)).collect();
        assert!(
            matches!(rate(&counted, &[1.0; 60]), IntervalEstimate::SlowStructure { seconds } if seconds > 60.0)
        );
    }

    #[test]
    fn an_interval_wider_than_a_factor_of_ten_is_not_reported() {
        assert!(IntervalEstimate::between(1.0, 9.9, 5.0, 30).ends().is_some());
        assert!(IntervalEstimate::between(1.0, 10.1, 5.0, 30).duration_needed_s().unwrap() > 60.0);
        assert!(IntervalEstimate::between(0.0, 1.0, 5.0, 30).ends().is_none());
        assert!(IntervalEstimate::of_share(0.0, 0.001, 5.0, 30).ends().is_some(), "at most 0.1%");
        assert!(IntervalEstimate::of_share(0.0, 0.5, 5.0, 30).ends().is_none());
    }

    #[test]
    fn below_two_degrees_of_freedom_there_is_no_interval() {
        assert!(IntervalEstimate::between(1.0, 1.1, 1.9, 30).duration_needed_s().is_some_and(f64::is_finite));
        assert!(IntervalEstimate::between(1.0, 1.1, 2.0, 30).ends().is_some());
        // Ten seconds that resemble their neighbours count as fewer than six independent ones.
        let rising: Vec<f64> = (0..10).map(|i| 100.0 + f64::from(i / 2)).collect();
        assert!(rate(&rising, &[1.0; 10]).ends().is_none());
    }
}
