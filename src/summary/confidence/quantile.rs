//! Intervals of percentiles, and of the share of operations within a limit.

use super::{
    Confidence, LEAST_SECONDS, LEAST_SHARERS, LEAST_STRETCHES, Ratio, freedom, memory, seconds_needed,
    sharers, t_quantile,
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
    let needs =
        |stretches: f64, sharers: f64| Confidence::Needs { seconds: seconds_needed(n, stretches, sharers) };
    let Some(bucket) = latency.bucket(q).filter(|_| n >= LEAST_SECONDS) else {
        return needs(n as f64, n as f64);
    };
    let (below, all) = latency.counts(bucket);
    let ratio = Ratio { above: &below, below: &all };
    let own = memory(&ratio.residuals());
    let memory = own.max((own * median_memory).sqrt());
    let spread = ratio.spread(memory);
    let sharers = sharers(&smaller_part(&below, &all, q));
    if spread.stretches < LEAST_STRETCHES || sharers < LEAST_SHARERS {
        return needs(spread.stretches, sharers);
    }
    let freedom = freedom(spread.stretches, sharers);
    let reach = t_quantile(freedom);
    let (from, to) = log_odds(q, spread.error, latency.len() as f64, reach);
    // Widened to the edges of the buckets that the ends fall into.
    let (Some(from), Some(to)) = (latency.bucket(from), latency.bucket(to)) else {
        return needs(spread.stretches, sharers);
    };
    let to = not_rejected(latency, q, memory, reach, to);
    let (low, high) = (edges_us(from).0 * 1_000, edges_us(to).1 * 1_000);
    Confidence::Between { low: low as f64, high: high as f64, freedom }
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

/// The share of operations (0 to 1) that were answered well within `limit_us`, and its interval; everything else is a miss.
pub fn share(latency: &Latency<'_>, limit_us: u64, median_memory: f64) -> (f64, Confidence) {
    let n = latency.seconds.len();
    let total = latency.len() as f64;
    let bucket = crate::recorder::sparse::bucket_of(limit_us);
    // A bucket that only begins within the limit is not within it.
    let bucket = if edges_us(bucket).1 <= limit_us { Some(bucket) } else { bucket.checked_sub(1) };
    let (below, all) =
        bucket.map_or_else(|| (vec![0.0; n], latency.counts(0).1), |bucket| latency.counts(bucket));
    let ratio = Ratio { above: &below, below: &all };
    let value = ratio.value();
    if n < LEAST_SECONDS || total <= 0.0 {
        return (value, Confidence::Needs { seconds: seconds_needed(n, n as f64, n as f64) });
    }
    let spread = ratio.spread(memory(&ratio.residuals()).max(median_memory));
    if spread.stretches < LEAST_STRETCHES {
        return (value, Confidence::Needs { seconds: seconds_needed(n, spread.stretches, n as f64) });
    }
    // Where (nearly) all or none are within it, there is no spread to measure: then as many operations count as their dependence leaves
    // independent, in Wilson's interval.
    let freedom = freedom(spread.stretches, f64::INFINITY);
    let reach = t_quantile(freedom);
    let plain = value * (1.0 - value) / total;
    let excess = if plain > 0.0 { (spread.error * spread.error / plain).max(1.0) } else { 1.0 };
    let independent = total / excess.max(median_memory);
    let (low, high) = wilson(value, independent, reach);
    (value, Confidence::Between { low, high, freedom })
}

/// Wilson's interval of a share of `n` (JASA 22, 1927), `z` standard errors to each side.
fn wilson(share: f64, n: f64, z: f64) -> (f64, f64) {
    let z2 = z * z / n;
    let centre = (share + z2 / 2.0) / (1.0 + z2);
    let half = (share * (1.0 - share) / n * z * z + z2 * z2 / 4.0).sqrt() / (1.0 + z2);
    (if share <= 0.0 { 0.0 } else { centre - half }, if share >= 1.0 { 1.0 } else { centre + half })
}
