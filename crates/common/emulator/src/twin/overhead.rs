//! The time that a client on this host measures beyond a delay that the server adds. It depends on the delay: a
//! processor that slept for longer takes longer to wake up.

use super::curve::{Curve, P99_SCORE};
use super::model::{Model, Point};

/// The overhead of one delay, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Delayed {
    /// Median of the measured times: the delay and the overhead.
    pub median_ns: f64,
    /// Measured time beyond the delay, of the median.
    pub overhead_ns: f64,
    /// Distance of the 99th percentile from the median.
    pub spread_ns: f64,
}

/// Overheads of some delays, in ascending order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overhead(Vec<Delayed>);

impl Overhead {
    /// Creates the overhead from those of some delays.
    pub fn new(mut delays: Vec<Delayed>) -> Overhead {
        delays.sort_by(|a, b| a.median_ns.total_cmp(&b.median_ns));
        Overhead(delays)
    }

    /// Returns the median overhead in a measured time, in nanoseconds.
    pub fn in_time(&self, ns: f64) -> f64 {
        self.between(ns, |delay| delay.overhead_ns)
    }

    /// Returns a value of the delay with a measured time: linear between the known times, constant outside the known
    /// range.
    fn between(&self, ns: f64, of: fn(&Delayed) -> f64) -> f64 {
        let after = self.0.partition_point(|delay| delay.median_ns <= ns);
        match (after.checked_sub(1).map(|before| &self.0[before]), self.0.get(after)) {
            (Some(low), Some(high)) => {
                let share = (ns - low.median_ns) / (high.median_ns - low.median_ns);
                of(low) + (of(high) - of(low)) * share
            }
            (Some(one), None) | (None, Some(one)) => of(one),
            (None, None) => 0.0,
        }
    }

    /// Takes the spread of the overhead out of all times of a model, because the host adds it again.
    pub fn narrow(&self, model: &mut Model) {
        let points = model.kinds.values_mut().flatten().flat_map(|size| &mut size.loads);
        for Point { total, first, failed, .. } in points {
            let curves = std::iter::once(total).chain(first).chain(failed);
            curves.for_each(|curve| *curve = self.narrowed(curve));
        }
    }

    /// Returns a curve whose times above the median are nearer to it. Delay and overhead are independent, so the
    /// squares of the two spreads add up to the square of the measured spread, exactly for normal times.
    fn narrowed(&self, curve: &Curve) -> Curve {
        let at = |score: f64| curve.log_at(score).exp();
        let median = at(0.0);
        let measured = at(P99_SCORE) - median;
        let own = self.between(median, |delay| delay.spread_ns);
        if own <= 0.0 || measured <= 0.0 {
            return curve.clone();
        }
        let factor = (1.0 - (own / measured).powi(2)).max(0.0).sqrt();
        Curve::new(|score| if score > 0.0 { median + (at(score) - median) * factor } else { at(score) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overhead_is_linear_between_the_measured_times() {
        let of = |median_ns, overhead_ns| Delayed { median_ns, overhead_ns, spread_ns: 0.0 };
        let overhead = Overhead::new(vec![of(1_050.0, 50.0), of(20.0, 20.0)]);
        assert_eq!([5.0, 20.0, 535.0, 9_999.0].map(|ns| overhead.in_time(ns)), [20.0, 20.0, 35.0, 50.0]);
        assert_eq!(Overhead::default().in_time(7.0), 0.0);
    }

    /// Regression test: the 99th percentile of the twin of a store with a constant time contained the lateness of the
    /// host twice.
    #[test]
    fn the_spread_of_the_host_is_not_imitated() {
        let overhead =
            |spread_ns| Overhead::new(vec![Delayed { median_ns: 1.0, overhead_ns: 0.0, spread_ns }]);
        let curve = Curve::new(|score| 1e6 + 1e5 * score.max(-2.0));
        let p99 = |spread: f64| overhead(spread).narrowed(&curve).log_at(P99_SCORE).exp() - 1e6;
        let spread = 1e5 * P99_SCORE;
        let expected = [(0.0, 1.0), (0.6, 0.8), (1.0, 0.0), (3.0, 0.0)];
        for (own, left) in expected {
            assert!((p99(own * spread) - left * spread).abs() < 20.0, "{own}: {}", p99(own * spread));
        }
        let below = overhead(spread).narrowed(&curve).log_at(-1.0).exp();
        assert!((below - 9e5).abs() < 1.0, "times below the median remain: {below}");
    }
}
