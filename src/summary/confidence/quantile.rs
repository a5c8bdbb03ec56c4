//! Intervals of percentiles, of the share of operations within a limit, and of the share that failed.

use statrs::function::beta::beta_reg;

use super::{
    Confidence, LEAST_EFFECTIVE_SAMPLE_SIZE, LEAST_SECONDS, LEAST_STRETCHES, LEVEL, Ratio,
    effective_sample_size, freedom, memory, seconds_needed, t_quantile,
};
use crate::recorder::sparse::edges_us;
use crate::summary::series::Latency;

/// Ends of the interval of a share of `n` operations, by its log odds: `reach` standard errors either way.
///
/// Hardly narrower than that of independent operations.
fn log_odds(share: f64, error: f64, n: f64, reach: f64) -> (f64, f64) {
    let least = 0.75 * (share * (1.0 - share) / n).sqrt();
    let step = reach * error.max(least) / (share * (1.0 - share));
    let odds = (share / (1.0 - share)).ln();
    let back = |x: f64| 1.0 / (1.0 + (-x).exp());
    (back(odds - step), back(odds + step))
}

/// The interval of percentile `q` (0 to 1), in nanoseconds. `median_memory` is how long the run's median remembers: what moves the
/// median moves the tail, where it is harder to see.
pub fn quantile(latency: &Latency<'_>, q: f64, median_memory: f64) -> Confidence {
    let n = latency.seconds.len();
    let needs = |stretches: f64, effective_sample_size: f64| Confidence::Needs {
        seconds: seconds_needed(n, stretches, effective_sample_size),
    };
    let Some(bucket) = latency.bucket(q).filter(|_| n >= LEAST_SECONDS) else {
        return needs(n as f64, n as f64);
    };
    let (below, all) = latency.counts(bucket);
    let ratio = Ratio { above: &below, below: &all };
    let own = memory(&ratio.residuals());
    let memory = own.max((own * median_memory).sqrt());
    let spread = ratio.spread(memory);
    let effective_sample_size = effective_sample_size(&smaller_part(&below, &all, q));
    if spread.stretches < LEAST_STRETCHES || effective_sample_size < LEAST_EFFECTIVE_SAMPLE_SIZE {
        return needs(spread.stretches, effective_sample_size);
    }
    let freedom = freedom(spread.stretches, effective_sample_size);
    let reach = t_quantile(freedom);
    let (from, to) = log_odds(q, spread.error, latency.len() as f64, reach);
    // Widened to the edges of the buckets that the ends fall into.
    let (Some(from), Some(to)) = (latency.bucket(from), latency.bucket(to)) else {
        return needs(spread.stretches, effective_sample_size);
    };
    let to = not_rejected(latency, q, memory, reach, to);
    let (low, high) = (edges_us(from).0 * 1_000, edges_us(to).1 * 1_000);
    Confidence::between(low as f64, high as f64, freedom, n)
}

/// What each second contributes to the smaller of the two parts that a percentile makes of all operations.
fn smaller_part(below: &[f64], all: &[f64], q: f64) -> Vec<f64> {
    if q < 0.5 { below.to_vec() } else { all.iter().zip(below).map(|(a, b)| a - b).collect() }
}

/// The highest bucket, from `at` on, that a test would not reject as percentile `q`.
///
/// A run that met few of the slow seconds sees neither their operations nor their spread at its own percentile; further out it sees
/// both. The spread at a candidate is taken a little as it would be, were the share beyond it `1 - q`.
fn not_rejected(latency: &Latency<'_>, q: f64, memory: f64, reach: f64, at: usize) -> usize {
    let accepted = |bucket: usize| {
        let (below, all) = latency.counts(bucket);
        let ratio = Ratio { above: &below, below: &all };
        let beyond = 1.0 - ratio.value();
        beyond > 0.0
            && beyond + reach * ratio.spread(memory).error * ((1.0 - q) / beyond).powf(0.25) >= 1.0 - q
    };
    let (mut inside, mut outside) = (at, latency.highest().unwrap_or(at) + 1);
    while outside > inside + 1 {
        let middle = inside.midpoint(outside);
        if accepted(middle) { inside = middle } else { outside = middle }
    }
    inside
}

/// A share of operations, with what is certain of its true value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// The measured share (0 to 1).
    pub value: f64,
    /// The interval as it is shown.
    pub confidence: Confidence,
    /// What the share is decided by, also if there is too little for an interval that can be shown. `None` for so few operations that
    /// nothing is certain.
    pub bounds: Option<(f64, f64)>,
}

/// Independent operations that all operations of a run are worth at least, however much they depend on each other; and the number
/// of operations below which a run decides nothing.
pub const LEAST_INDEPENDENT: f64 = 10.0;

/// Degrees of freedom below which Student's t decides nothing.
const LEAST_TO_DECIDE: f64 = 0.25;

/// Returns the share of operations that were answered well within `limit_us`; every other operation is a miss. `None` counts the
/// misses themselves, with any latency.
pub fn share(latency: &Latency<'_>, limit_us: Option<u64>, median_memory: f64) -> Share {
    let n = latency.seconds.len();
    let total = latency.len() as f64;
    let (counted, all) = match limit_us {
        Some(limit_us) => {
            let bucket = crate::recorder::sparse::bucket_of(limit_us);
            // A bucket that only begins within the limit is not within it.
            let bucket = if edges_us(bucket).1 <= limit_us { Some(bucket) } else { bucket.checked_sub(1) };
            bucket.map_or_else(|| (vec![0.0; n], latency.counts(0).1), |bucket| latency.counts(bucket))
        }
        None => (latency.beyond.iter().map(|n| *n as f64).collect(), latency.counts(0).1),
    };
    let ratio = Ratio { above: &counted, below: &all };
    let value = ratio.value();
    if total < LEAST_INDEPENDENT {
        return Share { value, confidence: needs(n, n as f64), bounds: None };
    }
    let widest = exact(value, LEAST_INDEPENDENT);
    let spread = ratio.spread(memory(&ratio.residuals()).max(median_memory));
    let freedom = freedom(spread.stretches, f64::INFINITY);
    if n < LEAST_SECONDS || freedom < LEAST_TO_DECIDE {
        return Share { value, confidence: needs(n, spread.stretches), bounds: Some(widest) };
    }
    // If (nearly) all or none are counted, there is no spread to measure: then as many operations count as their dependence leaves
    // independent, in Wilson's interval.
    let plain = value * (1.0 - value) / total;
    let excess = if plain > 0.0 { (spread.error * spread.error / plain).max(1.0) } else { 1.0 };
    let (low, high) = wilson(value, total / excess.max(median_memory), t_quantile(freedom));
    let bounds = Some((low.max(widest.0), high.min(widest.1)));
    Share { value, confidence: Confidence::of_share(low, high, freedom, n), bounds }
}

fn needs(n: usize, stretches: f64) -> Confidence {
    Confidence::Needs { seconds: seconds_needed(n, stretches, n as f64) }
}

/// The exact binomial interval of a share of `n` independent operations (Clopper and Pearson, Biometrika 26, 1934).
fn exact(share: f64, n: f64) -> (f64, f64) {
    let tail = (1.0 - LEVEL) / 2.0;
    let (hits, misses) = (share * n, (1.0 - share) * n);
    // The incomplete beta function has no value at the ends.
    let low = if hits > 1e-9 { beta_quantile(hits, misses + 1.0, tail) } else { 0.0 };
    let high = if misses > 1e-9 { beta_quantile(hits + 1.0, misses, 1.0 - tail) } else { 1.0 };
    (low, high)
}

/// Quantile `q` of the beta distribution, by bisection: it ends for any parameters.
fn beta_quantile(a: f64, b: f64, q: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if beta_reg(a, b, middle) < q { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// Wilson's interval of a share of `n` (JASA 22, 1927), `z` standard errors to each side.
fn wilson(share: f64, n: f64, z: f64) -> (f64, f64) {
    let z2 = z * z / n;
    let centre = (share + z2 / 2.0) / (1.0 + z2);
    let half = (share * (1.0 - share) / n * z * z + z2 * z2 / 4.0).sqrt() / (1.0 + z2);
    (if share <= 0.0 { 0.0 } else { centre - half }, if share >= 1.0 { 1.0 } else { centre + half })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::sparse::{Sparse, bucket_of};
    use crate::rng::Stream;

    /// `(seconds, latency, misses)`: `per_s` operations each second, all at 1 ms or missed.
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
    fn three_quarters_failed_are_beyond_doubt_however_they_depend() {
        // A store that breaks after a quarter of the run: one change, so no second is independent of the next.
        let broken: Vec<u64> = (0..60).map(|s| if s < 15 { 0 } else { 1000 }).collect();
        let found = judged(&broken, 1000, None);
        assert!(found.confidence.ends().is_none(), "{found:?}");
        assert!(found.bounds.unwrap().0 > 0.05, "{found:?}");
    }

    #[test]
    fn the_exact_interval_is_that_of_the_tables() {
        for (share, low, high) in [(0.0, 0.0, 0.3085), (1.0, 0.6915, 1.0), (0.3, 0.0667, 0.6525)] {
            let found = exact(share, 10.0);
            assert!((found.0 - low).abs() < 1e-4 && (found.1 - high).abs() < 1e-4, "{share}: {found:?}");
        }
    }

    #[test]
    fn one_second_decides_what_is_overwhelming_and_three_operations_nothing() {
        assert!(judged(&[1_000_000], 1_000_000, None).bounds.unwrap().0 > 0.6, "all failed");
        assert!(judged(&[0], 1_000_000, Some(10)).bounds.unwrap().1 < 0.35, "none in time");
        assert!(judged(&[0], 1_000_000, None).bounds.unwrap().1 > 0.05, "one good second promises nothing");
        assert_eq!(judged(&[3], 3, None).bounds, None);
    }

    #[test]
    fn no_failure_among_millions_is_less_than_a_hundredth_of_a_percent() {
        let found = judged(&[0; 60], 50_000, None);
        let (low, high) = found.confidence.ends().unwrap();
        assert!(low == 0.0 && high < 1e-4, "{found:?}");
    }

    #[test]
    fn a_share_that_is_hardly_known_has_no_interval() {
        let draws = Stream::new(9, "rare");
        let bursts: Vec<u64> = (0..60).map(|s| if draws.unit(s) < 0.05 { 900 } else { 0 }).collect();
        let found = judged(&bursts, 1000, None);
        if let Some((low, high)) = found.confidence.ends() {
            assert!(high <= 10.0 * low || high <= 0.01, "{found:?}");
        }
        assert!(found.value > 0.0);
    }
}
