//! Decisions during a run: measure until a question is answered, with the error of repeated looks controlled.
//!
//! Each look may be wrong, so the looks share the error probability of 5%. A look at the share `t` of the maximum
//! time has spent `0.05 ln(1 + (e - 1) t)` of it together with all earlier looks (Lan and DeMets, "Discrete
//! sequential boundaries for clinical trials", Biometrika 70, 1983, in the form of Pocock). What a look may spend is
//! the probability that it is wrong while no earlier look was. It is computed for a sum with independent increments,
//! such as the sum over seconds from which an interval follows, by integration from look to look (Armitage, McPherson
//! and Rowe, "Repeated significance tests on accumulating data", JRSS A 132, 1969).

use std::f64::consts::E;

use statrs::distribution::{Continuous, ContinuousCDF, Normal};

use super::comparison::MetricComparison;
use super::confidence::IntervalEstimate;
use super::estimates::{Estimate, Metric};
use super::student::LEVEL;
use super::student::{t_quantile, t_quantile_at};

/// Returns the measured times at which to look, in seconds: after each of the first repeats of `repeat_s`, then
/// whenever a quarter of the measured time has been added, and at the last repeat that ends by `max_s`.
pub fn looks(repeat_s: f64, max_s: f64) -> Vec<f64> {
    let last = ((max_s / repeat_s * (1.0 + 1e-9)).floor() as u64).max(1);
    let next = |n: &u64| (*n < last).then(|| (n + 1).max(n * 5 / 4).min(last));
    std::iter::successors(Some(1), next).map(|n| n as f64 * repeat_s).collect()
}

/// Returns the two-sided error probability at which each look judges, as if it were the only one.
pub fn errors_of_looks(looks: &[f64]) -> Vec<f64> {
    let max_s = looks.last().copied().unwrap_or(1.0);
    let spent = |share: f64| (1.0 - LEVEL) * (1.0 + (E - 1.0) * share).ln();
    let mut undecided = Undecided { share: 0.0, sums: vec![(0.0, 1.0)] };
    let error = |at: &f64| undecided.look(at / max_s, spent(at / max_s) - spent(undecided.share));
    looks.iter().map(error).collect()
}

/// Distribution of a sum, with variance 1 at the end of the run, in the runs that no look has decided.
struct Undecided {
    /// Share of the maximum time at the last look.
    share: f64,
    /// Values of the sum with their probabilities.
    sums: Vec<(f64, f64)>,
}

/// Number of values by which the distribution of a sum is approximated.
const VALUES: usize = 401;

impl Undecided {
    /// Returns the two-sided error probability of a look at `share` that decides wrongly with probability `spends`.
    fn look(&mut self, share: f64, spends: f64) -> f64 {
        let (normal, step) = (Normal::standard(), (share - self.share).max(1e-9).sqrt());
        let beyond = |bound: f64| -> f64 {
            let tails = |sum: f64| normal.cdf((-bound - sum) / step) + normal.cdf((sum - bound) / step);
            self.sums.iter().map(|(sum, p)| p * tails(*sum)).sum()
        };
        let (mut low, mut high) = (0.0, 10.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if beyond(middle) > spends { low = middle } else { high = middle }
        }
        let width = 2.0 * high / VALUES as f64;
        let density = |value: f64| -> f64 {
            self.sums.iter().map(|(sum, p)| p * normal.pdf((value - sum) / step) / step).sum()
        };
        let values = (0..VALUES).map(|i| (i as f64 + 0.5) * width - high);
        self.sums = values.map(|value| (value, density(value) * width)).collect();
        self.share = share;
        2.0 * normal.cdf(-high / share.sqrt())
    }
}

/// Answer to the question whether two sides differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Difference {
    /// The second side is better.
    SecondIsBetter,
    /// The first side is better.
    FirstIsBetter,
    /// The sides differ by less than the margin.
    BelowMargin,
    /// The question is open.
    Open,
}

/// Returns the interval of a comparison at the error probability `error`: `(ratio, low, high)`.
pub fn change_at(compared: &MetricComparison, error: f64) -> Option<(f64, f64, f64)> {
    let ((value, low, high), freedom) = compared.change.zip(compared.freedom)?;
    let (low, high) = interval_at(value, low, high, freedom, error);
    Some((value, low, high))
}

/// Returns the interval of a ratio at the error probability `error`, from its interval at the level of reports.
fn interval_at(value: f64, low: f64, high: f64, freedom: f64, error: f64) -> (f64, f64) {
    let wider = t_quantile_at(1.0 - error, freedom) / t_quantile(freedom);
    (value * (low / value).powf(wider), value * (high / value).powf(wider))
}

/// Judges a comparison at one look. The answer is that a side is better if the interval at the error probability
/// `error` excludes equality, and that they differ by less than `margin` (a share, such as 0.05) if it lies within
/// the margin.
pub fn judge_difference(compared: &MetricComparison, error: f64, margin: f64) -> Difference {
    let Some((_, low, high)) = change_at(compared, error).filter(|_| compared.metric != Metric::Errors)
    else {
        return Difference::Open;
    };
    if low > 1.0 / (1.0 + margin) && high < 1.0 + margin {
        return Difference::BelowMargin;
    }
    match (high < 1.0, low > 1.0, compared.metric.less_is_better()) {
        (true, _, true) | (_, true, false) => Difference::SecondIsBetter,
        (true, _, false) | (_, true, true) => Difference::FirstIsBetter,
        (false, false, _) => Difference::Open,
    }
}

/// Returns the half-width of the interval of an estimate at the error probability `error`, as a share of its value;
/// `None` without an interval.
pub fn precision(estimate: &Estimate, error: f64) -> Option<f64> {
    let value = estimate.value.filter(|value| *value > 0.0)?;
    let IntervalEstimate::Interval { low, high, freedom } = estimate.confidence else { return None };
    if low <= 0.0 {
        return None;
    }
    let (low, high) = interval_at(value, low, high, freedom, error);
    Some((high / value - 1.0).max(1.0 - low / value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::series::LatencyKind;
    use plimsoll_base::rng::Stream;

    #[test]
    fn looks_are_frequent_at_first_and_end_at_the_maximum() {
        assert_eq!(looks(30.0, 310.0), [30.0, 60.0, 90.0, 120.0, 150.0, 180.0, 210.0, 240.0, 300.0]);
        assert_eq!((looks(9.0, 9.0), looks(9.0, 1.0)), (vec![9.0], vec![9.0]));
        assert!(looks(10.0, 600.0).len() < 20);
    }

    #[test]
    fn the_errors_of_looks_match_published_boundaries() {
        // One look may spend everything. Five equal looks: DeMets and Lan, "Interim analysis: the alpha spending
        // function approach", Statistics in Medicine 13, 1994, boundaries of the form of Pocock.
        assert!((errors_of_looks(&[30.0])[0] - 0.05).abs() < 1e-3);
        let normal = Normal::standard();
        let bounds = errors_of_looks(&[1.0, 2.0, 3.0, 4.0, 5.0]).into_iter();
        let bounds: Vec<f64> = bounds.map(|error| -normal.inverse_cdf(error / 2.0)).collect();
        for (bound, published) in bounds.iter().zip([2.44, 2.43, 2.41, 2.40, 2.39]) {
            assert!((bound - published).abs() < 0.01, "{bounds:?}");
        }
    }

    /// A random walk that is looked at 24 times crosses a boundary in 5% of the cases.
    #[test]
    fn all_looks_together_are_wrong_in_five_percent() {
        let times = looks(10.0, 2_000.0);
        let errors = errors_of_looks(&times);
        let normal = Normal::standard();
        let bounds: Vec<f64> = errors.iter().map(|error| -normal.inverse_cdf(error / 2.0)).collect();
        let crosses = |seed: u64| {
            let draws = Stream::new(seed, "walk");
            let (mut sum, mut before) = (0.0, 0.0);
            times.iter().zip(&bounds).enumerate().any(|(i, (at, bound))| {
                sum += (at - before).sqrt() * draws.normal(i as u64);
                before = *at;
                sum.abs() > bound * at.sqrt()
            })
        };
        let wrong = (0..20_000).filter(|seed| crosses(*seed)).count();
        assert!((850..1150).contains(&wrong), "{wrong} of 20000");
    }

    #[test]
    fn a_look_is_stricter_than_a_single_comparison() {
        let estimate = |value: f64, low: f64, high: f64| Estimate {
            metric: Metric::Percentile(LatencyKind::Service, 0.5),
            value: Some(value),
            confidence: IntervalEstimate::Interval { low, high, freedom: 4.0 },
        };
        let mut compared = MetricComparison {
            metric: Metric::Percentile(LatencyKind::Service, 0.5),
            base: estimate(1.0, 0.9, 1.1),
            other: estimate(1.1, 1.0, 1.2),
            change: Some((1.1, 1.02, 1.19)),
            freedom: Some(8.0),
            probability: Some(0.02),
            smallest: None,
            duration_needed_s: None,
            pairs: 0,
        };
        assert_eq!(judge_difference(&compared, 0.05, 0.05), Difference::FirstIsBetter);
        assert_eq!(judge_difference(&compared, 0.005, 0.05), Difference::Open);
        compared.change = Some((1.001, 0.99, 1.012));
        assert_eq!(judge_difference(&compared, 0.01, 0.05), Difference::BelowMargin);
        let wide = precision(&compared.base, 0.01).unwrap();
        assert!(wide > 0.1 && wide < 0.3, "{wide}");
    }
}
