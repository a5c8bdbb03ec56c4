//! Decisions during a run: measure until a question is answered, with the error of repeated looks controlled.
//!
//! Each look may be wrong, so the looks share the error probability of 5%. A look at the share `t` of the maximum
//! time has spent `0.05 ln(1 + (e - 1) t)` of it together with all earlier looks (Lan and DeMets, "Discrete
//! sequential boundaries for clinical trials", Biometrika 70, 1983, in the form of Pocock). A look uses the
//! difference to the previous one, so the probability that any look is wrong is at most 5% however the looks depend
//! on each other (Boole).

use std::f64::consts::E;

use super::comparison::MetricComparison;
use super::confidence::IntervalEstimate;
use super::estimates::{Estimate, Metric};
use super::student::LEVEL;
use super::student::{t_quantile, t_quantile_at};

/// Returns the error probability that a look at `measured_s` seconds may use, after one at `previous_s` (0 for the
/// first), if the run ends at `max_s` seconds.
pub fn error_of_look(measured_s: f64, previous_s: f64, max_s: f64) -> f64 {
    let spent = |at: f64| (1.0 - LEVEL) * (1.0 + (E - 1.0) * (at / max_s).clamp(0.0, 1.0)).ln();
    (spent(measured_s) - spent(previous_s)).max(1e-6)
}

/// Returns the measured times at which to look, in seconds: `first_s`, then twice as long each time, up to `max_s`.
pub fn looks(first_s: f64, max_s: f64) -> Vec<f64> {
    let mut out = vec![first_s];
    while let Some(next) = out.last().map(|last| 2.0 * last).filter(|next| *next <= max_s * (1.0 + 1e-9)) {
        out.push(next);
    }
    out
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

/// Returns the interval of a ratio at the error probability `error`, from its interval at the level of reports.
fn interval_at(value: f64, low: f64, high: f64, freedom: f64, error: f64) -> (f64, f64) {
    let wider = t_quantile_at(1.0 - error, freedom) / t_quantile(freedom);
    (value * (low / value).powf(wider), value * (high / value).powf(wider))
}

/// Judges a comparison at one look. The answer is that a side is better if the interval at the error probability
/// `error` excludes equality, and that they differ by less than `margin` (a share, such as 0.05) if it lies within
/// the margin.
pub fn judge_difference(compared: &MetricComparison, error: f64, margin: f64) -> Difference {
    let (Some((value, low, high)), Some(freedom)) = (compared.change, compared.freedom) else {
        return Difference::Open;
    };
    if compared.metric == Metric::Errors {
        return Difference::Open;
    }
    let (low, high) = interval_at(value, low, high, freedom, error);
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

    #[test]
    fn all_looks_together_spend_five_percent() {
        let looks = looks(30.0, 1_000.0);
        assert_eq!(looks, [30.0, 60.0, 120.0, 240.0, 480.0, 960.0]);
        let mut previous = 0.0;
        let spent: f64 = looks
            .iter()
            .map(|at| {
                let error = error_of_look(*at, previous, 960.0);
                previous = *at;
                error
            })
            .sum();
        assert!((spent - 0.05).abs() < 1e-6, "{spent}");
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
