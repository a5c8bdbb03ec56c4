//! Long-run variance of a series, from its slow cosine components, and detection of structure that is too slow for
//! the run.
//!
//! Seconds of a run are not independent. The variance of their mean over long times is the spectral density at
//! frequency zero. It is estimated by the mean square of the first [`COMPONENTS`] cosine components, whose periods
//! are at least half the run (Müller, "A theory of robust long-run variance estimation", Journal of Econometrics
//! 141, 2007; Lazarus, Lewis, Stock and Watson, "HAR inference", Journal of Business and Economic Statistics 36,
//! 2018). Student's t has as many degrees of freedom as there are components, however long the run is.
//!
//! If the slow components are larger than the faster ones, the density still grows towards zero. The estimate is then
//! extrapolated by [`GROWTH`], which simulations of autoregressions and of switching levels determined: without it,
//! the intervals of runs of ten times their longest time scale cover the true value in 90% of the cases, with it in
//! 94%.

use std::f64::consts::PI;

/// Maximum number of cosine components in the estimate of the variance.
pub const COMPONENTS: usize = 4;

/// Number of components whose periods are at least a third of the run.
const SLOW: usize = 6;

/// Number of faster components to which the slow ones are compared.
const REFERENCE: usize = 12;

/// Growth of the extrapolated variance with the ratio of the mean squares of slow and faster components.
const GROWTH: f64 = 0.35;

/// This ratio of slow to faster components means that the run has slow structure, whose size it cannot show. The
/// ratio of independent seconds exceeds it in less than one of a million runs.
const STRUCTURE: f64 = 50.0;

/// The same for the first two components (periods of twice the run and of the run) against the other slow ones. The
/// ratio of independent seconds exceeds it once in 256 runs.
const DRIFT: f64 = 30.0;

/// Long-run variance of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LongRun {
    /// Long-run variance divided by the variance of a second: the factor by which dependence multiplies the variance
    /// of the mean. Below 1 if fast seconds compensate slow ones.
    pub inflation: f64,
    /// Degrees of freedom of the estimate.
    pub freedom: f64,
    /// True if the run shows structure that lasts longer than a third of it.
    pub structured: bool,
}

/// Maximum number of cosine components in the estimate of the variance of blocks. Blocks depend on each other less than
/// seconds, so faster components tell as much.
const BLOCK_COMPONENTS: usize = 8;

/// Returns the squares of the first `count` cosine components of a series. Their expected value is the variance of a
/// second if the seconds are independent.
fn components(series: &[f64], count: usize) -> Vec<f64> {
    let n = series.len() as f64;
    let mut sums = vec![0.0; count];
    for (t, x) in series.iter().enumerate() {
        // The cosines of the multiples of an angle follow from its cosine (Chebyshev's recurrence).
        let cosine = (PI / n * (t as f64 + 0.5)).cos();
        let (mut before, mut now) = (1.0, cosine);
        for sum in &mut sums {
            *sum += x * now;
            (before, now) = (now, 2.0 * cosine * now - before);
        }
    }
    sums.into_iter().map(|sum| 2.0 / n * sum * sum).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the long-run variance of residuals, which sum to zero.
pub fn long_run(residuals: &[f64]) -> LongRun {
    let n = residuals.len();
    let squares: f64 = residuals.iter().map(|x| x * x).sum();
    let count = COMPONENTS.min(n / 4);
    let by_second = squares / n as f64;
    if squares <= 0.0 || count == 0 {
        // Constant seconds.
        return LongRun {
            inflation: 1.0,
            freedom: COMPONENTS.min(n.saturating_sub(1)) as f64,
            structured: false,
        };
    }
    let freedom = count as f64;
    let all = components(residuals, (SLOW + REFERENCE).min(n - 1));
    let (slow, faster) = all.split_at(SLOW.min(all.len() - 1));
    // Rounding errors of a constant series must not look like structure.
    let floor = 1e-9 * by_second;
    let ratio = mean(slow) / mean(faster).max(floor);
    let drift = mean(&slow[..2]) / mean(&slow[2..]).max(floor);
    let growth = 1.0 + GROWTH * (ratio - 1.0).max(0.0);
    LongRun {
        inflation: mean(&slow[..count]) * growth / by_second,
        freedom,
        structured: ratio > STRUCTURE || drift > DRIFT,
    }
}

/// Returns the long-run variance of the residuals of blocks, which sum to zero.
pub fn long_run_of_blocks(residuals: &[f64]) -> LongRun {
    let n = residuals.len();
    let by_block = residuals.iter().map(|x| x * x).sum::<f64>() / n.max(1) as f64;
    let count = BLOCK_COMPONENTS.min(n / 2);
    if by_block <= 0.0 || count == 0 {
        return LongRun { inflation: 1.0, freedom: count as f64, structured: false };
    }
    let all = components(residuals, n - 1);
    let (slow, faster) = all.split_at(count);
    let ratio = mean(slow) / mean(&faster[..faster.len().min(2 * count)]).max(1e-9 * by_block);
    let growth = 1.0 + GROWTH * (ratio - 1.0).max(0.0);
    LongRun {
        inflation: mean(slow) * growth / by_block,
        freedom: count as f64,
        structured: ratio > STRUCTURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_base::rng::Stream;

    /// Returns an autoregression without its mean.
    fn series(seed: u64, n: u64, phi: f64) -> Vec<f64> {
        let draws = Stream::new(seed, "memory");
        let mut x = 0.0;
        let mut out: Vec<f64> = (0..n)
            .map(|i| {
                x = phi * x + draws.normal(i);
                x
            })
            .collect();
        let centre = mean(&out);
        out.iter_mut().for_each(|x| *x -= centre);
        out
    }

    #[test]
    fn components_are_those_of_the_definition() {
        let values = series(7, 1_000, 0.5);
        let n = values.len() as f64;
        for (k, found) in (1..=values.len() - 1).zip(components(&values, values.len() - 1)) {
            let angle = |t: usize| PI * k as f64 / n * (t as f64 + 0.5);
            let sum: f64 = values.iter().enumerate().map(|(t, x)| x * angle(t).cos()).sum();
            assert!((found - 2.0 / n * sum * sum).abs() < 1e-9, "component {k}");
        }
    }

    #[test]
    fn the_inflation_of_an_autoregression_is_estimated() {
        for (phi, actual) in [(0.0, 1.0), (0.5, 3.0), (0.8, 9.0)] {
            let found =
                mean(&(0..400).map(|i| long_run(&series(i, 1_000, phi)).inflation).collect::<Vec<_>>());
            // The extrapolation adds up to 30% to a flat density.
            assert!((0.95..1.35).contains(&(found / actual)), "phi {phi}: {found}, true value {actual}");
        }
    }

    #[test]
    fn a_fast_cycle_does_not_inflate_and_a_slow_one_is_structure() {
        let noise = Stream::new(5, "noise");
        let cycle = |period: f64| -> Vec<f64> {
            (0..300).map(|i| (2.0 * PI * i as f64 / period).sin() + 0.3 * noise.normal(i)).collect()
        };
        let fast = long_run(&cycle(20.0));
        assert!(fast.inflation < 0.7 && !fast.structured, "{fast:?}");
        assert!(long_run(&cycle(150.0)).structured);
        assert!(long_run(&cycle(900.0)).structured);
    }

    #[test]
    fn independent_seconds_rarely_look_structured() {
        let found = (0..1_000).filter(|i| long_run(&series(*i, 60, 0.0)).structured).count();
        assert!(found <= 5, "{found} of 1000");
    }

    #[test]
    fn a_constant_or_empty_series_has_no_inflation() {
        assert_eq!(long_run(&[0.0; 50]), LongRun { inflation: 1.0, freedom: 4.0, structured: false });
        assert_eq!(long_run(&[]).inflation, 1.0);
    }
}
