//! Confidence intervals of percentiles, of the share of operations within a limit, and of the share of failures.

use statrs::function::beta::beta_reg;

use super::{
    IntervalEstimate, LEVEL, MIN_EFFECTIVE_SAMPLE_SIZE, MIN_SECONDS, Ratio, effective_sample_size, structure,
    too_few,
};
use crate::summary::series::Latency;
use crate::summary::student::t_quantile;
use plimsoll_recorder::sparse::edges_us;

/// Returns the ends of the interval of a share of `n` operations, computed on its log odds: `reach` standard
/// errors to each side.
///
/// The standard error is at least half of that of independent operations.
fn log_odds(share: f64, error: f64, n: f64, reach: f64) -> (f64, f64) {
    let least = 0.5 * (share * (1.0 - share) / n).sqrt();
    let step = reach * error.max(least) / (share * (1.0 - share));
    let odds = (share / (1.0 - share)).ln();
    let back = |x: f64| 1.0 / (1.0 + (-x).exp());
    (back(odds - step), back(odds + step))
}

/// Returns the interval of percentile `q` (0 to 1), in nanoseconds. `structured` is true if the median of the run shows
/// structure that lasts longer than a third of it: such structure also shifts the tail, where it is harder to detect.
/// `missed` is the share of slow operations (0 to 1) that the upper end allows for although the run has not seen them.
pub fn quantile(latency: &Latency<'_>, q: f64, structured: bool, missed: f64) -> IntervalEstimate {
    let n = latency.seconds.len();
    let Some(bucket) = latency.bucket(q).filter(|_| n >= MIN_SECONDS) else {
        return too_few(n, n as f64);
    };
    let (below, all) = latency.counts(bucket);
    let ratio = Ratio { above: &below, below: &all };
    let spread = ratio.spread();
    let effective_sample_size = effective_sample_size(&smaller_part(&below, &all, q));
    if structured || spread.structured {
        return structure(n);
    }
    if effective_sample_size < MIN_EFFECTIVE_SAMPLE_SIZE {
        return too_few(n, effective_sample_size);
    }
    let freedom = spread.freedom.min(effective_sample_size - 1.0);
    let reach = t_quantile(freedom);
    let (from, to) = log_odds(q, spread.error, latency.len() as f64, reach);
    // The interval is widened to the edges of the buckets that contain its ends.
    let (Some(from), Some(to)) = (latency.bucket(from), latency.bucket((to / (1.0 - missed)).min(1.0)))
    else {
        return too_few(n, effective_sample_size);
    };
    let to = not_rejected(latency, q, reach, to);
    let (low, high) = (edges_us(from).0 * 1_000, edges_us(to).1 * 1_000);
    IntervalEstimate::between(low as f64, high as f64, freedom, n)
}

/// Returns each second's count of operations on the smaller side of percentile `q`: below it for `q < 0.5`,
/// else above it.
fn smaller_part(below: &[f64], all: &[f64], q: f64) -> Vec<f64> {
    if q < 0.5 { below.to_vec() } else { all.iter().zip(below).map(|(a, b)| a - b).collect() }
}

/// Returns the highest bucket, from `at` on, that a test would not reject as percentile `q`.
///
/// A run with few slow seconds shows neither their operations nor their variance at its own percentile, but it
/// shows both further out in the tail. The standard error at a candidate bucket is scaled by the fourth root of
/// `(1 - q) / beyond`, towards its value if the share beyond the candidate were `1 - q`.
fn not_rejected(latency: &Latency<'_>, q: f64, reach: f64, at: usize) -> usize {
    let accepted = |bucket: usize| {
        let (below, all) = latency.counts(bucket);
        let ratio = Ratio { above: &below, below: &all };
        let beyond = 1.0 - ratio.value();
        beyond > 0.0 && beyond + reach * ratio.spread().error * ((1.0 - q) / beyond).powf(0.25) >= 1.0 - q
    };
    let (mut inside, mut outside) = (at, latency.highest().unwrap_or(at) + 1);
    while outside > inside + 1 {
        let middle = inside.midpoint(outside);
        if accepted(middle) { inside = middle } else { outside = middle }
    }
    inside
}

/// A share of operations with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Measured share (0 to 1).
    pub value: f64,
    /// Interval to report.
    pub confidence: IntervalEstimate,
    /// Ends of the interval that objectives are judged by, present even if the interval is too wide to report.
    /// `None` if there are fewer than [`MIN_INDEPENDENT`] operations.
    pub bounds: Option<(f64, f64)>,
}

/// Minimum number of independent operations that a run counts as, however correlated its operations are. A run
/// with fewer operations decides no objective.
pub const MIN_INDEPENDENT: f64 = 10.0;

/// Returns the share of operations that succeeded within `limit_us`; every other operation is a miss. With
/// `None`, returns the share of misses, regardless of latency. `median_inflation` is the inflation of the run's median;
/// see [`super::LongRun`].
pub fn share(latency: &Latency<'_>, limit_us: Option<u64>, median_inflation: f64) -> Share {
    let n = latency.seconds.len();
    let total = latency.len() as f64;
    let (counted, all) = match limit_us {
        Some(limit_us) => {
            let bucket = plimsoll_recorder::sparse::bucket_of(limit_us);
            // A bucket counts only if it lies entirely within the limit.
            let bucket = if edges_us(bucket).1 <= limit_us { Some(bucket) } else { bucket.checked_sub(1) };
            bucket.map_or_else(|| (vec![0.0; n], latency.counts(0).1), |bucket| latency.counts(bucket))
        }
        None => (latency.beyond.iter().map(|n| *n as f64).collect(), latency.counts(0).1),
    };
    let ratio = Ratio { above: &counted, below: &all };
    let value = ratio.value();
    if total < MIN_INDEPENDENT {
        return Share { value, confidence: too_few(n, n as f64), bounds: None };
    }
    let widest = exact(value, MIN_INDEPENDENT);
    let spread = ratio.spread();
    if n < MIN_SECONDS {
        return Share { value, confidence: too_few(n, n as f64), bounds: Some(widest) };
    }
    if spread.structured {
        return Share { value, confidence: structure(n), bounds: Some(widest) };
    }
    // If nearly all or no operations are counted, their variance cannot be measured. Wilson's interval then
    // uses the effective number of independent operations.
    let plain = value * (1.0 - value) / total;
    let excess = if plain > 0.0 { (spread.error * spread.error / plain).max(0.25) } else { 1.0 };
    let (low, high) = wilson(value, total / excess.max(median_inflation), t_quantile(spread.freedom));
    let bounds = Some((low.max(widest.0), high.min(widest.1)));
    Share { value, confidence: IntervalEstimate::of_share(low, high, spread.freedom, n), bounds }
}

/// Returns the exact binomial interval of a share of `n` independent operations (Clopper and Pearson,
/// Biometrika 26, 1934).
fn exact(share: f64, n: f64) -> (f64, f64) {
    let tail = (1.0 - LEVEL) / 2.0;
    let (hits, misses) = (share * n, (1.0 - share) * n);
    // The incomplete beta function is undefined if one of its parameters is 0.
    let low = if hits > 1e-9 { beta_quantile(hits, misses + 1.0, tail) } else { 0.0 };
    let high = if misses > 1e-9 { beta_quantile(hits + 1.0, misses, 1.0 - tail) } else { 1.0 };
    (low, high)
}

/// Returns quantile `q` of the beta distribution, by bisection because it terminates for all parameters.
fn beta_quantile(a: f64, b: f64, q: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if beta_reg(a, b, middle) < q { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// Returns Wilson's interval of a share of `n` (JASA 22, 1927), `z` standard errors to each side.
fn wilson(share: f64, n: f64, z: f64) -> (f64, f64) {
    let z2 = z * z / n;
    let centre = (share + z2 / 2.0) / (1.0 + z2);
    let half = (share * (1.0 - share) / n * z * z + z2 * z2 / 4.0).sqrt() / (1.0 + z2);
    (if share <= 0.0 { 0.0 } else { centre - half }, if share >= 1.0 { 1.0 } else { centre + half })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_base::rng::Stream;
    use plimsoll_recorder::sparse::{Sparse, bucket_of};

    /// Returns the share for a run with `per_s` operations in each second, of which `misses` missed and the
    /// others took 1 ms.
    fn judged(misses: &[u64], per_s: u64, limit_us: Option<u64>) -> Share {
        let second = |missed: &u64| {
            let answered = per_s - missed;
            (answered > 0).then(|| (bucket_of(1000) as u16, answered as u32)).into_iter().collect()
        };
        let histograms: Vec<Sparse> = misses.iter().map(second).collect();
        let mut latency = Latency::of(&histograms);
        latency.miss(misses);
        share(&latency, limit_us, 1.0)
    }

    #[test]
    fn three_quarters_of_failures_are_certain_despite_autocorrelation() {
        // The store breaks after a quarter of the run. With a single change, no second is independent of the next.
        let broken: Vec<u64> = (0..60).map(|s| if s < 15 { 0 } else { 1000 }).collect();
        let found = judged(&broken, 1000, None);
        assert!(found.confidence.ends().is_none(), "{found:?}");
        assert!(found.bounds.unwrap().0 > 0.05, "{found:?}");
    }

    #[test]
    fn the_exact_interval_matches_published_tables() {
        for (share, low, high) in [(0.0, 0.0, 0.3085), (1.0, 0.6915, 1.0), (0.3, 0.0667, 0.6525)] {
            let found = exact(share, 10.0);
            assert!((found.0 - low).abs() < 1e-4 && (found.1 - high).abs() < 1e-4, "{share}: {found:?}");
        }
    }

    #[test]
    fn one_second_decides_an_extreme_share_and_three_operations_decide_nothing() {
        assert!(judged(&[1_000_000], 1_000_000, None).bounds.unwrap().0 > 0.6, "all failed");
        assert!(judged(&[0], 1_000_000, Some(10)).bounds.unwrap().1 < 0.35, "none in time");
        assert!(judged(&[0], 1_000_000, None).bounds.unwrap().1 > 0.05, "one good second proves nothing");
        assert_eq!(judged(&[3], 3, None).bounds, None);
    }

    #[test]
    fn zero_failures_among_millions_are_certainly_below_a_hundredth_of_a_percent() {
        let found = judged(&[0; 60], 50_000, None);
        let (low, high) = found.confidence.ends().unwrap();
        assert!(low == 0.0 && high < 1e-4, "{found:?}");
    }

    #[test]
    fn a_share_known_only_roughly_has_no_interval() {
        let draws = Stream::new(9, "rare");
        let bursts: Vec<u64> = (0..60).map(|s| if draws.unit(s) < 0.05 { 900 } else { 0 }).collect();
        let found = judged(&bursts, 1000, None);
        if let Some((low, high)) = found.confidence.ends() {
            assert!(high <= 10.0 * low || high <= 0.01, "{found:?}");
        }
        assert!(found.value > 0.0);
    }
}
