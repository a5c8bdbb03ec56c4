//! The dependence of the times of a second on each other: the part of their variance that is between the seconds, and
//! the time for which it lasts.

use std::collections::BTreeMap;

use plimsoll_base::rng::normal_cdf;
use plimsoll_judge::summary::series::{Second, Series};
use plimsoll_server::twin::model::Wander;

/// Smallest number of operations of a second whose mean is used.
const FEWEST: u64 = 10;
/// Smallest number of such seconds.
const FEWEST_SECONDS: usize = 10;
/// Share of the variance below which the seconds do not differ.
const NOTHING: f64 = 0.02;

/// Returns the normal score below which a share of the values lies, by bisection.
fn score(share: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if normal_cdf(middle) < share { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Returns the counts of a second by bucket.
fn counts(second: &Second) -> impl Iterator<Item = (u16, f64)> + '_ {
    second.service.iter().map(|(bucket, count)| (bucket, f64::from(count)))
}

/// Returns the normal score of each bucket among all values of a series.
fn scores(seconds: &[Second]) -> BTreeMap<u16, f64> {
    let mut all: BTreeMap<u16, f64> = BTreeMap::new();
    for (bucket, count) in seconds.iter().flat_map(counts) {
        *all.entry(bucket).or_default() += count;
    }
    let total: f64 = all.values().sum();
    let mut below = 0.0;
    let score = |(bucket, count): (u16, f64)| {
        let middle = (below + count / 2.0) / total;
        below += count;
        (bucket, score(middle))
    };
    all.into_iter().map(score).collect()
}

/// Sums over seconds.
#[derive(Default)]
struct Sums {
    seconds: usize,
    /// Squares of the mean scores, without the part that few operations explain.
    squares: f64,
    pairs: usize,
    /// Products of the mean scores of successive seconds.
    products: f64,
}

impl Sums {
    fn add(&mut self, seconds: &[Second]) {
        let scores = scores(seconds);
        let mut before: Option<f64> = None;
        for second in seconds {
            let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
            for (bucket, count) in counts(second) {
                let score = scores.get(&bucket).copied().unwrap_or_default();
                (n, sum, squares) = (n + count, sum + count * score, squares + count * score * score);
            }
            if n < FEWEST as f64 {
                before = None;
                continue;
            }
            let mean = sum / n;
            let noise = (squares / n - mean * mean).max(0.0) / (n - 1.0);
            self.seconds += 1;
            self.squares += mean * mean - noise;
            if let Some(before) = before {
                self.pairs += 1;
                self.products += before * mean;
            }
            before = Some(mean);
        }
    }
}

/// Returns the correlation over time of several series, each of one operation at one load.
pub fn of_series(all: &[&Series]) -> Wander {
    let mut sums = Sums::default();
    all.iter().for_each(|series| sums.add(&series.seconds));
    let share = sums.squares / sums.seconds.max(1) as f64;
    if sums.seconds < FEWEST_SECONDS || share < NOTHING {
        return Wander::default();
    }
    let kept = sums.products / sums.pairs.max(1) as f64 / share;
    Wander { share: share.min(0.95), kept: kept.clamp(0.0, 0.99) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_base::rng::Stream;
    use plimsoll_recorder::histogram::Latencies;
    use plimsoll_recorder::sparse::Sparse;

    /// Returns seconds of lognormal times, whose part in common has this share of the variance and is kept.
    fn series(share: f64, kept: f64) -> Series {
        let draws = Stream::new(3, "wander");
        let mut common = draws.normal(0);
        let second = |number: u64| {
            common = kept * common + (1.0 - kept * kept).sqrt() * draws.normal(number);
            let mut latencies = Latencies::default();
            for i in 0..200 {
                let score = share.sqrt() * common
                    + (1.0 - share).sqrt() * draws.normal(number * 1_000 + i + 1_000_000);
                latencies.record((10e6 * (0.5 * score).exp()) as u64);
            }
            let service = Sparse::from_bytes(&latencies.to_bytes(), &mut Vec::new()).unwrap();
            Second { second: number, completed: 200, service, ..Second::default() }
        };
        Series { seconds: (0..600).map(second).collect(), ..Series::default() }
    }

    #[test]
    fn the_correlation_over_time_is_found() {
        assert_eq!(of_series(&[&series(0.0, 0.0)]), Wander::default());
        let found = of_series(&[&series(0.4, 0.8)]);
        assert!((found.share - 0.4).abs() < 0.12 && (found.kept - 0.8).abs() < 0.12, "{found:?}");
    }

    #[test]
    fn short_runs_have_no_correlation() {
        let mut short = series(0.4, 0.8);
        short.seconds.truncate(5);
        assert_eq!(of_series(&[&short]), Wander::default());
    }
}
