//! Distributions given by points of their cumulative distribution function.

use std::sync::Arc;

/// A distribution whose values between two points are equally likely. Points with the same value are an atom.
#[derive(Debug, Clone, PartialEq)]
pub struct Cdf {
    /// Probabilities of values up to a point, and the values; both ascend.
    points: Arc<[(f64, f64)]>,
}

impl Cdf {
    /// Creates a distribution from pairs of a probability and a value.
    ///
    /// # Errors
    /// A message if the probabilities do not ascend from 0 to 1, or the values do not ascend from 0 or more.
    pub fn new(points: Vec<(f64, f64)>) -> Result<Cdf, String> {
        let ascends = points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1);
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            return Err("it has no points".into());
        };
        if first.0 != 0.0 || last.0 != 1.0 {
            return Err("the first point must have the probability 0 and the last one 1".into());
        }
        if !(ascends && first.1 >= 0.0 && last.1.is_finite()) {
            return Err(
                "the probabilities and the values must ascend, and the values must not be negative".into()
            );
        }
        Ok(Cdf { points: points.into() })
    }

    /// Returns the distribution of samples in ascending order, whose cumulative distribution function differs from
    /// theirs by at most `error`; `None` if there are none. It has as few points as a greedy choice finds (Douglas and
    /// Peucker, "Algorithms for the reduction of the number of points", 1973, with the vertical distance).
    pub fn of(samples: &[f64], error: f64) -> Option<Cdf> {
        let n = samples.len() as f64;
        let mut steps = Vec::new();
        let mut below = 0;
        for same in samples.chunk_by(|a, b| a == b) {
            steps.push((below as f64 / n, same[0]));
            below += same.len();
            steps.push((below as f64 / n, same[0]));
        }
        let last = steps.len().checked_sub(1)?;
        let mut keep = vec![false; steps.len()];
        (keep[0], keep[last]) = (true, true);
        let mut open = vec![(0, last)];
        while let Some((from, to)) = open.pop() {
            let (start, end) = (steps[from], steps[to]);
            let distance = |index: usize| {
                let (p, value) = steps[index];
                let share = if end.1 > start.1 { (value - start.1) / (end.1 - start.1) } else { return 0.0 };
                (start.0 + share * (end.0 - start.0) - p).abs()
            };
            let farthest = (from + 1..to).max_by(|a, b| distance(*a).total_cmp(&distance(*b)));
            if let Some(index) = farthest.filter(|index| distance(*index) > error) {
                keep[index] = true;
                open.extend([(from, index), (index, to)]);
            }
        }
        let points: Vec<(f64, f64)> =
            steps.into_iter().zip(keep).filter(|(_, keep)| *keep).map(|(step, _)| step).collect();
        Cdf::new(points).ok()
    }

    /// Returns the points: probabilities and values.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// Returns the value of a quantile between 0 and 1.
    pub fn at(&self, quantile: f64) -> f64 {
        let next =
            self.points.partition_point(|(p, _)| *p <= quantile).clamp(1, self.points.len().max(2) - 1);
        let (start, end) =
            (self.points[next - 1], self.points.get(next).copied().unwrap_or(self.points[next - 1]));
        let span = end.0 - start.0;
        let share = if span > 0.0 { ((quantile - start.0) / span).clamp(0.0, 1.0) } else { 1.0 };
        start.1 + share * (end.1 - start.1)
    }

    /// Returns the mean.
    pub fn mean(&self) -> f64 {
        self.points.windows(2).map(|pair| (pair[1].0 - pair[0].0) * (pair[0].1 + pair[1].1) / 2.0).sum()
    }

    /// Returns the smallest and the largest value.
    pub fn range(&self) -> (f64, f64) {
        (self.points[0].1, self.points[self.points.len() - 1].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated_between_the_points() {
        let cdf = Cdf::new(vec![(0.0, 10.0), (0.5, 20.0), (0.75, 20.0), (1.0, 40.0)]).unwrap();
        for (quantile, value) in
            [(0.0, 10.0), (0.25, 15.0), (0.5, 20.0), (0.6, 20.0), (0.875, 30.0), (1.0, 40.0)]
        {
            assert_eq!(cdf.at(quantile), value, "{quantile}");
        }
        assert_eq!((cdf.mean(), cdf.range()), (0.5 * 15.0 + 0.25 * 20.0 + 0.25 * 30.0, (10.0, 40.0)));
        assert_eq!(Cdf::new(vec![(0.0, 5.0), (1.0, 5.0)]).unwrap().at(0.3), 5.0);
        for wrong in [
            vec![],
            vec![(0.0, 1.0)],
            vec![(0.0, 2.0), (1.0, 1.0)],
            vec![(0.0, -1.0), (1.0, 1.0)],
            vec![(0.1, 0.0), (1.0, 1.0)],
        ] {
            assert!(Cdf::new(wrong.clone()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_fit_keeps_the_error_with_few_points() {
        let mut samples: Vec<f64> = (1..=20_000).map(|i| -(i as f64 / 20_001.0).ln() * 100.0).collect();
        samples.extend(vec![64.0; 10_000]);
        samples.sort_by(f64::total_cmp);
        let cdf = Cdf::of(&samples, 0.002).unwrap();
        assert!(cdf.points().len() < 100, "{}", cdf.points().len());
        // The share of samples up to each quantile of the fit differs from the quantile by at most the error.
        for i in 1..1_000 {
            let quantile = i as f64 / 1_000.0;
            let value = cdf.at(quantile);
            let (less, up_to) = (
                samples.partition_point(|s| *s < value - 1e-9),
                samples.partition_point(|s| *s <= value + 1e-9),
            );
            let (less, up_to) = (less as f64 / 30_000.0, up_to as f64 / 30_000.0);
            assert!(less - 0.0021 <= quantile && quantile <= up_to + 0.0021, "{quantile}: {less} {up_to}");
        }
        assert_eq!(Cdf::of(&[], 0.1), None);
        assert_eq!(Cdf::of(&[3.0], 0.1).unwrap().at(0.7), 3.0);
    }
}
