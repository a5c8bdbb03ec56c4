//! Power of a planned comparison: the smallest difference that it finds in 80% of the cases, predicted from a pilot.

use super::confidence::IntervalEstimate;
use super::estimates::{Estimator, Metric};
use super::series::Series;
use super::student::power_factor;
use super::student::t_quantile;

/// Factor by which a design must be able to detect more than the pilot predicts. The pilot's standard error has few
/// degrees of freedom, and a design from a pilot that varies too little by chance is too short. Found by simulation:
/// without the factor, 70% of the designs find the difference.
const PILOT: f64 = 1.25;

/// Returns the smallest relative difference between two sides that a comparison of `planned_s` seconds per side
/// detects in 80% of the cases, if both sides vary like the pilot. `None` if the pilot is too short for an interval.
///
/// The variance of a figure shrinks with the measured time, so the half-width of the pilot's interval, on a
/// logarithmic scale, shrinks with its square root.
pub fn detectable(pilot: &Series, metric: Metric, planned_s: f64) -> Option<f64> {
    let estimate = Estimator::new(pilot).estimate(metric);
    let value = estimate.value.filter(|value| *value > 0.0)?;
    let IntervalEstimate::Interval { low, high, freedom } = estimate.confidence else { return None };
    let measured_s: f64 = pilot.time_s().iter().sum();
    let reach = (high / value).max(value / low).ln();
    let both = 2.0 * freedom;
    let planned =
        reach * (measured_s / planned_s).sqrt() * 2.0_f64.sqrt() * t_quantile(both) / t_quantile(freedom);
    Some((PILOT * planned * power_factor(both)).exp() - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::series::Second;
    use plimsoll_base::rng::Stream;

    #[test]
    fn four_times_the_time_halves_the_detectable_difference() {
        let draws = Stream::new(3, "pilot");
        let second = |s| Second {
            second: s,
            time_s: 1.0,
            completed: (1_000.0 + 50.0 * draws.normal(s)) as u64,
            operations: 1_000,
            ..Second::default()
        };
        let pilot = Series { seconds: (0..60).map(second).collect(), ..Series::default() };
        let at = |planned_s| detectable(&pilot, Metric::Rate, planned_s).unwrap();
        assert!((at(60.0) / at(240.0) - 2.0).abs() < 0.1, "{} {}", at(60.0), at(240.0));
        assert!(at(60.0) > 0.005 && at(60.0) < 0.08, "{}", at(60.0));
        let short = Series { seconds: (0..5).map(second).collect(), ..Series::default() };
        assert_eq!(detectable(&short, Metric::Rate, 60.0), None);
    }
}
