//! Object sizes: a pure function of a stream and a counter.

use std::fmt;
use std::sync::Arc;

use super::cdf::Cdf;
use super::trace::Trace;
use plimsoll_base::rng::{Stream, normal_cdf};

/// A distribution of object sizes, in bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum Size {
    /// Fixed size in bytes.
    Fixed(u64),
    /// Uniform distribution over the whole numbers of bytes between two bounds, both included.
    Uniform(u64, u64),
    /// Lognormal distribution: `median * exp(sigma * z)` with z standard normal, rounded and clamped to `min..=max`.
    Lognormal {
        /// Median of the distribution before it is clamped, in bytes.
        median: u64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
        /// Smallest size, in bytes.
        min: u64,
        /// Largest size, in bytes.
        max: u64,
    },
    /// Listed sizes with their weights, in ascending order of size.
    Weighted(Vec<(u64, u32)>),
    /// Sizes in bytes of the first objects; then they begin again.
    List(Vec<u64>),
    /// Sizes in bytes with a cumulative distribution function.
    Cdf(Cdf),
    /// Sizes in bytes with a cumulative distribution function, whose rank correlation with the number of the object is
    /// the second value (-1 to 1).
    Ordered(Cdf, f64),
    /// Sum of a number of sizes that are drawn independently, such as the fields of a record.
    Sum(u32, Box<Size>),
    /// Sizes of recorded objects.
    Recorded(Arc<Trace>),
}

impl Size {
    /// Returns size number `i` of the stream, in bytes.
    pub fn draw(&self, stream: Stream, i: u64) -> u64 {
        match self {
            Size::Fixed(bytes) => *bytes,
            Size::Uniform(min, max) => min + stream.below(i, max - min + 1),
            Size::Lognormal { median, sigma, min, max } => {
                let bytes = *median as f64 * (sigma * stream.normal(i)).exp();
                (bytes.round() as u64).clamp(*min, *max)
            }
            Size::Weighted(list) => {
                let total: u64 = list.iter().map(|(_, w)| u64::from(*w)).sum();
                let mut rest = stream.below(i, total);
                for (bytes, weight) in list {
                    if rest < u64::from(*weight) {
                        return *bytes;
                    }
                    rest -= u64::from(*weight);
                }
                list.last().map_or(0, |(bytes, _)| *bytes)
            }
            Size::List(list) => list.get(i as usize % list.len().max(1)).copied().unwrap_or(0),
            Size::Cdf(cdf) | Size::Ordered(cdf, _) => cdf.at(stream.unit(i)).round() as u64,
            Size::Recorded(trace) => trace.size(stream.below(i, trace.objects().max(1)), 0),
            Size::Sum(count, of) => {
                (0..u64::from(*count)).map(|j| of.draw(stream, i.wrapping_mul(u64::from(*count)) + j)).sum()
            }
        }
    }

    /// Returns size number `i` of the stream, in bytes, for the object at `position` of its dataset (0 to 1). With the
    /// probability of the rank correlation, the position is the probability of smaller sizes; otherwise, it does not
    /// matter. So the distribution of all sizes stays the same.
    pub fn draw_at(&self, stream: Stream, i: u64, position: f64) -> u64 {
        match self {
            Size::Ordered(cdf, trend) if stream.unit(!i) < trend.abs() => {
                cdf.at(if *trend < 0.0 { 1.0 - position } else { position }).round() as u64
            }
            _ => self.draw(stream, i),
        }
    }

    /// Returns the smallest possible size, in bytes.
    pub fn smallest(&self) -> u64 {
        match self {
            Size::Fixed(bytes) => *bytes,
            Size::Uniform(min, _) | Size::Lognormal { min, .. } => *min,
            Size::Weighted(list) => list.first().map_or(0, |(bytes, _)| *bytes),
            Size::List(list) => list.iter().copied().min().unwrap_or(0),
            Size::Cdf(cdf) | Size::Ordered(cdf, _) => cdf.range().0.round() as u64,
            Size::Recorded(trace) => trace.size_range().0,
            Size::Sum(count, of) => u64::from(*count) * of.smallest(),
        }
    }

    /// Returns the largest possible size, in bytes.
    pub fn largest(&self) -> u64 {
        match self {
            Size::Fixed(bytes) => *bytes,
            Size::Uniform(_, max) | Size::Lognormal { max, .. } => *max,
            Size::Weighted(list) => list.last().map_or(0, |(bytes, _)| *bytes),
            Size::List(list) => list.iter().copied().max().unwrap_or(0),
            Size::Cdf(cdf) | Size::Ordered(cdf, _) => cdf.range().1.round() as u64,
            Size::Recorded(trace) => trace.size_range().1,
            Size::Sum(count, of) => u64::from(*count) * of.largest(),
        }
    }

    /// Returns the expected size in bytes; that of a lognormal distribution takes the clamping into account.
    pub fn mean(&self) -> f64 {
        match self {
            Size::Fixed(bytes) => *bytes as f64,
            Size::Uniform(min, max) => (*min as f64 + *max as f64) / 2.0,
            Size::Lognormal { median, sigma, min, max } => {
                let (median, min, max) = (*median as f64, *min as f64, *max as f64);
                let z = |bytes: f64| (bytes / median).ln() / sigma;
                // Between the bounds: the partial expectation, for which the normal distribution is shifted by sigma.
                let inner = normal_cdf(z(max) - sigma) - normal_cdf(z(min) - sigma);
                min * normal_cdf(z(min))
                    + median * (sigma * sigma / 2.0).exp() * inner
                    + max * (1.0 - normal_cdf(z(max)))
            }
            Size::Weighted(list) => {
                let total: f64 = list.iter().map(|(_, w)| f64::from(*w)).sum();
                list.iter().map(|(bytes, w)| *bytes as f64 * f64::from(*w)).sum::<f64>() / total
            }
            Size::List(list) => {
                list.iter().map(|bytes| *bytes as f64).sum::<f64>() / list.len().max(1) as f64
            }
            Size::Sum(count, of) => f64::from(*count) * of.mean(),
            Size::Cdf(cdf) | Size::Ordered(cdf, _) => cdf.mean(),
            Size::Recorded(trace) => trace.mean_size(),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Fixed(bytes) => write!(f, "{bytes} B"),
            Size::Uniform(min, max) => write!(f, "uniform {min}..{max} B"),
            Size::Lognormal { median, sigma, .. } => write!(f, "lognormal {median} B, sigma {sigma}"),
            Size::Weighted(list) => write!(f, "{} weighted sizes", list.len()),
            Size::List(list) => write!(f, "{} sizes in turn", list.len()),
            Size::Sum(count, of) => write!(f, "{count} times {of}"),
            Size::Cdf(cdf) | Size::Ordered(cdf, _) => write!(f, "sizes of {} points", cdf.points().len()),
            Size::Recorded(_) => write!(f, "recorded sizes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_testing::chi_square::assert_fits;

    const DRAWS: u64 = 200_000;

    fn cells(size: &Size, count: usize, cell: impl Fn(u64) -> usize) -> Vec<u64> {
        let stream = Stream::new(42, "sizes");
        let mut out = vec![0; count];
        (0..DRAWS).for_each(|i| out[cell(size.draw(stream, i))] += 1);
        out
    }

    #[test]
    fn uniform_sizes_fit() {
        let size = Size::Uniform(1000, 1999);
        assert_fits(&cells(&size, 100, |b| (b as usize - 1000) / 10), &[0.01; 100]);
        assert_eq!((size.mean(), size.smallest(), size.largest()), (1499.5, 1000, 1999));
    }

    #[test]
    fn weighted_sizes_fit() {
        let size = Size::Weighted(vec![(4096, 70), (65_536, 25), (1 << 20, 5)]);
        let at = |b: u64| [4096, 65_536, 1 << 20].iter().position(|s| *s == b).unwrap();
        assert_fits(&cells(&size, 3, at), &[0.70, 0.25, 0.05]);
    }

    #[test]
    fn sums_are_of_independent_draws() {
        let size = Size::Sum(10, Box::new(Size::Uniform(1, 100)));
        assert_eq!((size.mean(), size.smallest(), size.largest()), (505.0, 10, 1000));
        let stream = Stream::new(42, "sizes");
        let draws: Vec<f64> = (0..DRAWS).map(|i| size.draw(stream, i) as f64).collect();
        let mean = draws.iter().sum::<f64>() / DRAWS as f64;
        let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / DRAWS as f64;
        // Ten times the variance of one draw, (n^2 - 1) / 12.
        assert!((mean - 505.0).abs() < 1.0 && (variance / 8332.5 - 1.0).abs() < 0.02, "{mean} {variance}");
    }

    #[test]
    fn lognormal_sizes_fit() {
        let size = Size::Lognormal { median: 100_000, sigma: 1.0, min: 10_000, max: 1_000_000 };
        // Edges at the 5th, 10th, ... percentile of the unbounded distribution. The bounds, 2.3 sigma from the
        // median, are in the end cells.
        let edges: Vec<f64> = (1..20)
            .map(|k| 100_000.0 * plimsoll_testing::chi_square::normal_quantile(f64::from(k) / 20.0).exp())
            .collect();
        let cell = |b: u64| edges.iter().filter(|e| b as f64 > **e).count();
        assert_fits(&cells(&size, 20, cell), &[0.05; 20]);
        let bounded = cells(&size, 3, |b| usize::from(b == 10_000) + 2 * usize::from(b == 1_000_000));
        let tail = 1.0 - normal_cdf(10f64.ln());
        assert_fits(&bounded, &[1.0 - 2.0 * tail, tail, tail]);
        let stream = Stream::new(42, "sizes");
        let mean = (0..DRAWS).map(|i| size.draw(stream, i) as f64).sum::<f64>() / DRAWS as f64;
        assert!((mean / size.mean() - 1.0).abs() < 0.01, "{mean} of {DRAWS} draws, {} expected", size.mean());
    }
}
