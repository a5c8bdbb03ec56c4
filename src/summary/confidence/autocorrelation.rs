//! Autocorrelation time of a series: the factor by which dependence between its seconds multiplies the variance
//! of its mean.

/// Minimum number of chunks at a scale. Long runs need at least the square root of their seconds, so that noise
/// does not grow with the number of scales.
const MIN_CHUNKS: usize = 16;

/// Correction for the largest of several noisy estimates, which is biased upwards. The factor is that for a series
/// without autocorrelation. It is applied as a constant offset, so longer autocorrelation times are corrected by a
/// smaller share. Found by simulation.
const MAXIMUM_BIAS: f64 = 0.8;

/// Returns the sum of the squares of `x`, and the sum of the products of its neighbours.
fn moments(x: &[f64]) -> (f64, f64) {
    let squares = x.iter().map(|x| x * x).sum();
    let neighbours = x.windows(2).map(|w| w[0] * w[1]).sum();
    (squares, neighbours)
}

/// Returns the integrated autocorrelation time of residuals, in seconds, at least 1.
///
/// Sums the seconds in chunks of 1, 2, 4, 8, ... seconds. At each scale, the estimate is the ratio of the
/// measured variance to that of independent seconds, times `(1 + r) / (1 - r)` for the remaining correlation
/// `r` of neighbouring chunks, modelled as a first-order autoregression with the small-sample bias of `r`
/// removed (Marriott and Pope, Biometrika 41, 1954). Returns the largest estimate: short scales are precise but
/// miss slow changes, long scales are the reverse.
pub fn autocorrelation_time(residuals: &[f64]) -> f64 {
    let n = residuals.len();
    let (squares, _) = moments(residuals);
    if n < 2 || squares <= 0.0 {
        return 1.0;
    }
    let by_second = squares / n as f64;
    let mut best = 1.0_f64;
    let mut length = 1;
    while length == 1 || n / length >= MIN_CHUNKS.max(n.isqrt()) {
        let count = n / length;
        let mut chunks: Vec<f64> = residuals.chunks_exact(length).map(|c| c.iter().sum()).collect();
        let mean = chunks.iter().sum::<f64>() / count as f64;
        chunks.iter_mut().for_each(|x| *x -= mean);
        let (squares, neighbours) = moments(&chunks);
        if squares > 0.0 {
            let r = neighbours / squares;
            let r = (r + (1.0 + 4.0 * r) / count as f64).clamp(0.0, 0.99);
            let growth = squares / (count as f64 - 1.0) / (length as f64 * by_second);
            best = best.max(growth * (1.0 + r) / (1.0 - r));
        }
        length *= 2;
    }
    (best - (1.0 - MAXIMUM_BIAS)).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    fn series(n: u64, phi: f64) -> Vec<f64> {
        let draws = Stream::new(4, "memory");
        let mut x = 0.0;
        (0..n)
            .map(|i| {
                x = phi * x + draws.normal(i);
                x
            })
            .collect()
    }

    #[test]
    fn the_autocorrelation_time_of_an_autoregression_is_estimated() {
        for (phi, actual) in [(0.0, 1.0), (0.5, 3.0), (0.8, 9.0), (0.95, 39.0)] {
            let found = autocorrelation_time(&series(20_000, phi));
            assert!(found > actual * 0.75 && found < actual * 1.5, "phi {phi}: {found}, true value {actual}");
        }
    }

    #[test]
    fn slow_changes_under_fast_noise_are_detected() {
        let noise = Stream::new(5, "noise");
        let mixed: Vec<f64> =
            series(4_000, 0.95).iter().zip(0..).map(|(x, i)| x + 6.0 * noise.normal(i)).collect();
        let (squares, neighbours) = moments(&mixed);
        let lag_one = neighbours / squares;
        let naive = (1.0 + lag_one) / (1.0 - lag_one);
        assert!(
            autocorrelation_time(&mixed) > 2.0 * naive,
            "{} against {naive}",
            autocorrelation_time(&mixed)
        );
    }

    #[test]
    fn a_constant_or_empty_series_has_autocorrelation_time_one() {
        assert_eq!(autocorrelation_time(&[0.0; 50]), 1.0);
        assert_eq!(autocorrelation_time(&[]), 1.0);
    }
}
