//! Interval of a change between two stores that one run measured in interleaved blocks.
//!
//! Whatever slows both stores by the same factor, such as a busy network or client, drifts and steps included, moves
//! both figures of a pair of blocks alike. The difference of their influences on the logarithms of the two figures
//! does not contain it, so the variance of a change follows from these differences, even where each figure alone has
//! no interval. The influence of a block on a percentile is its excess of operations below the percentile, divided by
//! the density there (Bahadur, "A note on quantiles in large samples", Annals of Mathematical Statistics 37, 1966).

use super::confidence::{
    LongRun, MIN_EFFECTIVE_SAMPLE_SIZE, Ratio, effective_sample_size, long_run_of_blocks,
};
use super::estimates::{Estimator, Metric};
use super::series::{Block, Latency};
use super::student::LEVEL;
use plimsoll_recorder::sparse::edges_us;
use statrs::distribution::{Continuous, ContinuousCDF, Normal};

/// Smallest number of pairs of blocks from which a variance is computed.
pub const MIN_PAIRS: usize = 8;

/// Spread of the logarithm of a ratio of two figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedSpread {
    /// Standard error of the logarithm.
    pub error: f64,
    /// Degrees of freedom of the standard error.
    pub freedom: f64,
    /// Number of pairs of blocks.
    pub pairs: usize,
    /// True if the stores' difference itself changed for longer than a third of the run; the standard error is then
    /// too small.
    pub structured: bool,
}

/// Returns the spread of the ratio of a figure of two series; `None` without at least [`MIN_PAIRS`] common blocks, or
/// if only a few blocks contribute to the figure.
pub fn spread(base: &mut Estimator<'_>, other: &mut Estimator<'_>, metric: Metric) -> Option<PairedSpread> {
    let slopes = match metric {
        Metric::Percentile(clocked, q) => {
            pooled([slope(base.latency(clocked).0, q)?, slope(other.latency(clocked).0, q)?])
        }
        Metric::Rate | Metric::Throughput | Metric::Errors => [1.0; 2],
    };
    let (a, b) = (influences(base, metric, slopes[0])?, influences(other, metric, slopes[1])?);
    let same = a.len() == b.len() && a.iter().zip(&b).all(|((one, _), (two, _))| one == two);
    if !same || a.len() < MIN_PAIRS {
        return None;
    }
    let differences: Vec<f64> = a.iter().zip(&b).map(|((_, x), (_, y))| y - x).collect();
    let (n, squares) = (a.len() as f64, differences.iter().map(|d| d * d).sum::<f64>());
    let LongRun { inflation, freedom, structured } = long_run_of_blocks(&differences);
    let error = (squares * n / (n - 1.0) * inflation).sqrt();
    Some(PairedSpread { error, freedom, pairs: a.len(), structured })
}

/// Returns the sums of `values`, one per second of the series, by block.
fn by_block(estimator: &Estimator<'_>, values: &[f64]) -> Vec<(Block, f64)> {
    let mut out: Vec<(Block, f64)> = Vec::new();
    for (second, value) in estimator.series.seconds.iter().zip(values) {
        match out.last_mut() {
            Some((block, sum)) if *block == second.block => *sum += value,
            _ => out.push((second.block, *value)),
        }
    }
    out
}

/// Ratio of two slopes up to which both are replaced by their mean.
const SAME_SLOPE: f64 = 1.25;

/// Returns two slopes, or their mean for both if they differ by less than their own errors. The influences of a change
/// that is common to two similar distributions then cancel exactly.
fn pooled([a, b]: [f64; 2]) -> [f64; 2] {
    let similar = a.max(b) <= SAME_SLOPE * a.min(b);
    if similar { [f64::midpoint(a * a, b * b).sqrt(); 2] } else { [a, b] }
}

/// Returns the influence of each block on the logarithm of a figure. The influences sum to zero. `slope` is that of the
/// logarithm of the quantile function.
fn influences(estimator: &mut Estimator<'_>, metric: Metric, slope: f64) -> Option<Vec<(Block, f64)>> {
    let series = estimator.series;
    let (above, below, scale) = match metric {
        Metric::Percentile(clocked, q) => {
            let (latency, _) = estimator.latency(clocked);
            let (below, all) = latency.counts(latency.bucket(q)?);
            // Fewer operations below the percentile than expected mean a higher percentile.
            (below, all, -slope / latency.len() as f64)
        }
        Metric::Rate | Metric::Throughput => {
            let counted =
                series.counts(|s| if metric == Metric::Rate { s.completed as f64 } else { s.bytes });
            let total: f64 = counted.iter().sum();
            (counted, series.time_s(), 1.0 / total)
        }
        Metric::Errors => return None,
    };
    let residuals = Ratio { above: &above, below: &below }.residuals();
    let scaled: Vec<f64> = residuals.iter().map(|residual| residual * scale).collect();
    let contributing = match metric {
        Metric::Percentile(_, q) if q >= 0.5 => below.iter().zip(&above).map(|(all, b)| all - b).collect(),
        _ => above,
    };
    let contributing: Vec<f64> = by_block(estimator, &contributing).iter().map(|(_, n)| *n).collect();
    let enough = effective_sample_size(&contributing) >= MIN_EFFECTIVE_SAMPLE_SIZE;
    (enough && scale.is_finite()).then(|| by_block(estimator, &scaled))
}

/// Returns the slope of the logarithm of the quantile function at `q`: the inverse of the density of the logarithm. The
/// bandwidth is that of Hall and Sheather, "On the distribution of a studentized quantile", JRSS B 50, 1988.
fn slope(latency: &Latency<'_>, q: f64) -> Option<f64> {
    let normal = Normal::standard();
    let (z, reach) = (normal.inverse_cdf(q), normal.inverse_cdf(0.5 + LEVEL / 2.0));
    let density = normal.pdf(z);
    let width = reach.powf(2.0 / 3.0) * (1.5 * density * density / (2.0 * z * z + 1.0)).cbrt();
    let width = (width * (latency.len() as f64).powf(-1.0 / 3.0)).min(0.5 * q.min(1.0 - q));
    let at = |q: f64| {
        let (low, high) = edges_us(latency.bucket(q)?);
        Some((low.max(1) as f64 * high.max(1) as f64).ln() / 2.0)
    };
    let bucket = {
        let (low, high) = edges_us(latency.bucket(q)?);
        ((high + 1) as f64 / low.max(1) as f64).ln()
    };
    // Latencies are known within one bucket.
    Some((at(q + width)? - at(q - width)?).max(bucket) / (2.0 * width))
}
