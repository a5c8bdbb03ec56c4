//! Change points in a series of values, one per run.
//!
//! The values are divided into segments of constant level by optimal partitioning (B. Jackson et al., "An algorithm
//! for optimal partitioning of data on an interval", IEEE Signal Processing Letters 12(2), 2005). The cost of a
//! segment is its sum of squared deviations from its mean, in units of the noise variance. The penalty of a change is
//! `4 ln(n)`: `3 ln(n)` for one level and one position (the modified Schwarz criterion of N. Zhang and D. Siegmund,
//! Biometrics 63, 2007), and one more because the noise is estimated too. Single outliers are replaced before. The
//! noise is estimated from the median absolute difference of neighbours, which changes do not affect.

use plimsoll_base::median::median;

/// Minimum number of values in a segment, so that a single outlier is not a change.
const MIN_SEGMENT: usize = 2;
/// Penalty of a change, in multiples of the logarithm of the number of values.
const PENALTY: f64 = 4.0;
/// Minimum relative change that is reported.
const MIN_CHANGE: f64 = 0.01;
/// Ratio of the standard deviation of a normal distribution to the median absolute difference of two of its values.
const NORMAL: f64 = 1.0 / (0.674_49 * std::f64::consts::SQRT_2);

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct LevelChange {
    /// Index of the first value at the new level.
    pub at: usize,
    /// Geometric mean of the values from the previous change to this one.
    pub before: f64,
    /// Geometric mean of the values from this change to the next one.
    pub after: f64,
}

/// Returns the standard deviation of the noise of logarithms, at least a tenth of a percent.
fn noise(logs: &[f64]) -> f64 {
    let steps = logs.windows(2).map(|pair| (pair[1] - pair[0]).abs());
    (NORMAL * median(steps).unwrap_or(0.0)).max(0.001)
}

/// Replaces single outliers by the median of the five values around them (F. Hampel, "The influence curve and its role
/// in robust estimation", Journal of the American Statistical Association 69, 1974). A change of level stays as it is.
fn without_outliers(logs: &[f64]) -> Vec<f64> {
    let limit = 3.0 * noise(logs);
    let filtered = |at: usize| {
        let from = at.saturating_sub(2).min(logs.len().saturating_sub(5));
        let middle = median(logs[from..logs.len().min(from + 5)].iter().copied()).unwrap_or(0.0);
        if (logs[at] - middle).abs() > limit { middle } else { logs[at] }
    };
    (0..logs.len()).map(filtered).collect()
}

/// Returns the first index of each segment of the best division of `logs`, except the first segment.
fn divide(logs: &[f64]) -> Vec<usize> {
    let n = logs.len();
    let variance = noise(logs).powi(2);
    let penalty = PENALTY * (n as f64).ln();
    let (mut sum, mut square) = (vec![0.0; n + 1], vec![0.0; n + 1]);
    for (i, x) in logs.iter().enumerate() {
        (sum[i + 1], square[i + 1]) = (sum[i] + x, square[i] + x * x);
    }
    let cost = |from: usize, to: usize| {
        let (s, q) = (sum[to] - sum[from], square[to] - square[from]);
        (q - s * s / (to - from) as f64).max(0.0) / variance
    };
    let mut best = vec![f64::INFINITY; n + 1];
    let mut start = vec![0; n + 1];
    best[0] = -penalty;
    for to in MIN_SEGMENT..=n {
        for from in 0..=to - MIN_SEGMENT {
            let total = best[from] + cost(from, to) + penalty;
            if total < best[to] {
                (best[to], start[to]) = (total, from);
            }
        }
    }
    let mut out = Vec::new();
    let mut to = n;
    while to > 0 && start[to] > 0 {
        to = start[to];
        out.push(to);
    }
    out.reverse();
    out
}

/// Returns the changes of level in positive values, in order. Fewer than four values have none.
pub fn changes(values: &[f64]) -> Vec<LevelChange> {
    if values.len() < 2 * MIN_SEGMENT || values.iter().any(|v| v.is_nan() || *v <= 0.0) {
        return Vec::new();
    }
    let logs = without_outliers(&values.iter().map(|v| v.ln()).collect::<Vec<f64>>());
    let mut starts = divide(&logs);
    let level = |from: usize, to: usize| (logs[from..to].iter().sum::<f64>() / (to - from) as f64).exp();
    // A change too small to matter is removed, and its segments are joined.
    let levels = |starts: &[usize]| {
        let edges: Vec<usize> = [0].into_iter().chain(starts.iter().copied()).chain([logs.len()]).collect();
        edges.windows(2).map(|pair| level(pair[0], pair[1])).collect::<Vec<_>>()
    };
    loop {
        let found = levels(&starts);
        let small = found.windows(2).position(|pair| (pair[1] / pair[0]).ln().abs() < MIN_CHANGE);
        let Some(small) = small else {
            let change =
                |(i, at): (usize, &usize)| LevelChange { at: *at, before: found[i], after: found[i + 1] };
            return starts.iter().enumerate().map(change).collect();
        };
        starts.remove(small);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_base::rng::Stream;

    /// Returns values with a noise of 3% around the levels, each for `each` runs.
    fn values(levels: &[f64], each: usize, seed: u64) -> Vec<f64> {
        let draws = Stream::new(seed, "changes");
        let normal = |i: u64| (0..12).map(|k| draws.unit(12 * i + k)).sum::<f64>() - 6.0;
        (0..levels.len() * each).map(|i| levels[i / each] * (0.03 * normal(i as u64)).exp()).collect()
    }

    #[test]
    fn known_changes_are_found_at_their_place() {
        let found = changes(&values(&[10.0, 12.5, 8.0], 20, 1));
        let places: Vec<usize> = found.iter().map(|c| c.at).collect();
        assert_eq!(places, [20, 40]);
        assert!((found[0].before / 10.0 - 1.0).abs() < 0.02 && (found[1].after / 8.0 - 1.0).abs() < 0.02);
    }

    #[test]
    fn noise_and_outliers_are_not_changes() {
        let false_alarms = (0..200).filter(|seed| !changes(&values(&[10.0], 50, *seed)).is_empty()).count();
        assert!(false_alarms <= 10, "at most 5% of series without a change: {false_alarms}");
        let mut outlier = values(&[10.0], 30, 3);
        outlier[15] = 30.0;
        assert!(changes(&outlier).is_empty());
        assert!(changes(&[1.0, 2.0, 3.0]).is_empty() && changes(&[0.0; 10]).is_empty());
    }

    #[test]
    fn a_thousand_equal_values_have_no_change() {
        assert!(changes(&[5.0; 1000]).is_empty());
    }
}
