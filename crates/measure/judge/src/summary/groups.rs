//! Comparison of two groups of runs. The run is the unit: its figure is one value, and the variation between the runs
//! of a group, such as between days, decides how certain the difference is.

use super::comparison::MetricComparison;
use super::confidence::{IntervalEstimate, MIN_FREEDOM};
use super::estimates::{Estimate, Estimator, Metric};
use super::series::Series;
use super::student::{Variance, power_factor, t_probability, t_quantile, welch_freedom};

/// Mean of one figure over the runs of a group, on the scale of the comparison.
struct GroupMean {
    mean: f64,
    /// Squared standard error of the mean.
    variance: f64,
    /// Number of runs.
    n: f64,
}

impl GroupMean {
    /// Returns the mean of a group; `None` if it has fewer than two values.
    fn of(values: &[f64]) -> Option<GroupMean> {
        let n = values.len() as f64;
        if values.len() < 2 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        Some(GroupMean { mean, variance: squares / (n - 1.0) / n, n })
    }
}

/// Compares one metric between two groups of series, one per run: the ratio of the geometric means (for errors, the
/// difference of the means) with its interval from Welch's t-test on the runs' figures.
pub fn compare_groups(base: &[&Series], other: &[&Series], metric: Metric) -> MetricComparison {
    let scale = |x: f64| if metric == Metric::Errors { x } else { x.max(f64::MIN_POSITIVE).ln() };
    let back = |x: f64| if metric == Metric::Errors { x } else { x.exp() };
    let values = |group: &[&Series]| -> Vec<f64> {
        group.iter().filter_map(|s| Estimator::new(s).estimate(metric).value).map(scale).collect()
    };
    let (a, b) = (GroupMean::of(&values(base)), GroupMean::of(&values(other)));
    let estimate = |group: Option<&GroupMean>| {
        let reach = group.map(|g| t_quantile(g.n - 1.0) * g.variance.sqrt());
        Estimate {
            metric,
            value: group.map(|g| back(g.mean)),
            confidence: match (group, reach) {
                (Some(g), Some(reach)) => IntervalEstimate::Interval {
                    low: back(g.mean - reach),
                    high: back(g.mean + reach),
                    freedom: g.n - 1.0,
                },
                _ => IntervalEstimate::TooShort { seconds: 0.0 },
            },
        }
    };
    let mut out = MetricComparison {
        metric,
        base: estimate(a.as_ref()),
        other: estimate(b.as_ref()),
        change: None,
        probability: None,
        freedom: None,
        smallest: None,
        duration_needed_s: None,
        pairs: 0,
    };
    let (Some(a), Some(b)) = (a, b) else { return out };
    let variance = |g: &GroupMean| Variance { value: g.variance, freedom: g.n - 1.0 };
    let freedom = welch_freedom(variance(&a), variance(&b));
    if freedom < MIN_FREEDOM {
        return out;
    }
    let (change, error) = (b.mean - a.mean, (a.variance + b.variance).sqrt());
    let reach = t_quantile(freedom) * error;
    out.change = Some((back(change), back(change - reach), back(change + reach)));
    out.freedom = Some(freedom);
    let same = f64::from(u8::from(change == 0.0));
    out.probability = Some(if error > 0.0 { t_probability(change / error, freedom) } else { same });
    let detectable = reach * power_factor(freedom);
    out.smallest = Some(if metric == Metric::Errors { detectable } else { detectable.exp() - 1.0 });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::comparison::Verdict;
    use crate::summary::series::Second;

    /// Returns a run of 10 s with this rate.
    fn run(per_s: u64) -> Series {
        let second =
            |s| Second { second: s, time_s: 1.0, completed: per_s, operations: per_s, ..Second::default() };
        Series { seconds: (0..10).map(second).collect(), ..Series::default() }
    }

    fn verdict(a: &[u64], b: &[u64]) -> (Verdict, MetricComparison) {
        let (a, b): (Vec<Series>, Vec<Series>) =
            (a.iter().map(|r| run(*r)).collect(), b.iter().map(|r| run(*r)).collect());
        let compared =
            compare_groups(&a.iter().collect::<Vec<_>>(), &b.iter().collect::<Vec<_>>(), Metric::Rate);
        (compared.verdict(0.05), compared)
    }

    #[test]
    fn the_variation_between_runs_decides() {
        assert_eq!(verdict(&[100, 101, 99], &[120, 121, 119]).0, Verdict::Faster);
        assert_eq!(verdict(&[100, 150, 60], &[120, 180, 70]).0, Verdict::NoDifference);
        assert_eq!(verdict(&[100], &[120]).0, Verdict::Inconclusive, "one run each");
    }

    #[test]
    fn the_interval_is_that_of_welchs_t_test() {
        // Reference: scipy.stats.ttest_ind(ln b, ln a, equal_var=False), and its confidence interval.
        let (_, compared) = verdict(&[100, 104, 98, 101], &[110, 113, 108]);
        let (ratio, low, high) = compared.change.unwrap();
        let expected = [1.0951823368195164, 1.0444865571337711, 1.1483387150265085, 0.004803559488710558];
        for (found, expected) in [ratio, low, high, compared.probability.unwrap()].into_iter().zip(expected) {
            assert!((found / expected - 1.0).abs() < 1e-4, "{found} instead of {expected}");
        }
    }
}
