//! The distribution of a time, as its quantiles at equidistant normal scores.

/// Number of quantiles.
const POINTS: usize = 1025;
/// Normal score of the last quantile; the first has the negative one. About 30 of a million requests are beyond.
pub const LAST: f64 = 4.0;
/// Normal score of the 99th percentile.
pub const P99_SCORE: f64 = 2.326_347_874;

/// Quantile function of a time. Between its points, the logarithm of the time is linear.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    logs: Vec<f64>,
}

impl Curve {
    /// Creates a curve. `quantile_ns` returns the time in nanoseconds at a normal score.
    pub fn new(quantile_ns: impl Fn(f64) -> f64) -> Curve {
        let score = |point: usize| LAST * (2.0 * point as f64 / (POINTS - 1) as f64 - 1.0);
        Curve { logs: (0..POINTS).map(|point| quantile_ns(score(point)).max(1.0).ln()).collect() }
    }

    /// Returns the natural logarithm of the time in nanoseconds at a normal score.
    pub fn log_at(&self, score: f64) -> f64 {
        let place = (score.clamp(-LAST, LAST) / LAST + 1.0) / 2.0 * (POINTS - 1) as f64;
        let point = (place as usize).min(POINTS - 2);
        self.logs[point] + (self.logs[point + 1] - self.logs[point]) * (place - point as f64)
    }
}

/// Returns the index of the last item whose value is at most `value`, and the place of `value` between it and the next
/// one on a logarithmic scale (0 to 1). Outside the items, this is the first or the last one, with 0.
pub fn lower_and_share<T>(items: &[T], of: impl Fn(&T) -> f64, value: f64) -> (usize, f64) {
    let after = items.partition_point(|item| of(item) <= value);
    if after == 0 || after == items.len() {
        return (after.saturating_sub(1), 0.0);
    }
    let [below, above] = [of(&items[after - 1]), of(&items[after])].map(|value| value.max(1e-3).ln());
    let share = (value.max(1e-3).ln() - below) / (above - below).max(f64::MIN_POSITIVE);
    (after - 1, share.clamp(0.0, 1.0))
}

/// Ratio of two loads up to which they are one load. A server counts fewer operations in flight than its client,
/// because requests and responses also wait outside it.
const SAME_LOAD: f64 = 1.3;

/// Returns the index of the last load that is at most `value`, and the place of `value` between it and the next one.
/// Near a measured load, this is the load itself.
pub fn load_and_share<T>(items: &[T], load: impl Fn(&T) -> f64, value: f64) -> (usize, f64) {
    let (lower, share) = lower_and_share(items, &load, value);
    let Some(next) = items.get(lower + 1).filter(|_| share > 0.0) else { return (lower, share) };
    let (from, to) = ((load(&items[lower]) * SAME_LOAD).ln(), (load(next) / SAME_LOAD).ln());
    let is_far = to > from;
    let share = if is_far { (value.ln() - from) / (to - from) } else { share };
    (lower, share.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lognormal_time_is_exact_between_the_points() {
        let curve = Curve::new(|score| (10.0 + 0.5 * score).exp());
        for score in [-3.9, -1.234, 0.0, 0.777, 3.99] {
            assert!((curve.log_at(score) - (10.0 + 0.5 * score)).abs() < 1e-9);
        }
        assert_eq!(curve.log_at(9.0), curve.log_at(4.0));
    }

    #[test]
    fn a_value_is_between_its_neighbours_on_a_logarithmic_scale() {
        let of = |value| lower_and_share(&[1.0, 8.0, 32.0], |item| *item, value);
        assert_eq!([of(0.1), of(1.0), of(99.0)], [(0, 0.0), (0, 0.0), (2, 0.0)]);
        let (lower, share) = of(16.0);
        assert!(lower == 1 && (share - 0.5).abs() < 1e-12);
    }

    #[test]
    fn near_a_measured_load_its_times_apply() {
        let of = |value| load_and_share(&[0.8, 8.0, 9.0], |load| *load, value);
        assert_eq!([of(0.5), of(1.0), of(7.0), of(99.0)], [(0, 0.0), (0, 0.0), (0, 1.0), (2, 0.0)]);
        let middle = of(6.4f64.sqrt());
        assert!(middle.0 == 0 && (middle.1 - 0.5).abs() < 1e-9, "{middle:?}");
        let close = of(72f64.sqrt());
        assert!(close.0 == 1 && (close.1 - 0.5).abs() < 1e-9, "{close:?}");
    }
}
