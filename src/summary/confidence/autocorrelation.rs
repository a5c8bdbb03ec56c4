//! How long a series remembers: the factor by which its dependence from second to second multiplies the variance of its mean.

/// Fewest stretches that a scale is judged by; of long runs the square root of their seconds, so that noise does not grow with the
/// number of scales.
const LEAST: usize = 16;

/// The largest of several noisy estimates is too large: by this factor where there is nothing to remember, by less the more there is
/// (found by simulation).
const OF_SEVERAL: f64 = 0.8;

/// Sum of squares of `x`, and of the products of its neighbours.
fn moments(x: &[f64]) -> (f64, f64) {
    let squares = x.iter().map(|x| x * x).sum();
    let neighbours = x.windows(2).map(|w| w[0] * w[1]).sum();
    (squares, neighbours)
}

/// The integrated autocorrelation time of residuals, in seconds, at least 1.
///
/// Seconds are joined to stretches of 1, 2, 4, 8, ... of them. At each scale the growth of the variance over independent seconds is
/// taken as measured, and what still lies between neighbouring stretches as a first-order autoregression, `(1 + r) / (1 - r)`, `r` with
/// its small-sample bias removed (Marriott and Pope, Biometrika 41, 1954). The largest of all scales counts: short ones
/// are precise but blind to slow changes, long ones the other way round.
pub fn memory(residuals: &[f64]) -> f64 {
    let n = residuals.len();
    let (squares, _) = moments(residuals);
    if n < 2 || squares <= 0.0 {
        return 1.0;
    }
    let by_second = squares / n as f64;
    let mut best = 1.0_f64;
    let mut length = 1;
    while length == 1 || n / length >= LEAST.max(n.isqrt()) {
        let count = n / length;
        let mut stretches: Vec<f64> = residuals.chunks_exact(length).map(|c| c.iter().sum()).collect();
        let mean = stretches.iter().sum::<f64>() / count as f64;
        stretches.iter_mut().for_each(|x| *x -= mean);
        let (squares, neighbours) = moments(&stretches);
        if squares > 0.0 {
            let r = neighbours / squares;
            let r = (r + (1.0 + 4.0 * r) / count as f64).clamp(0.0, 0.99);
            let growth = squares / (count as f64 - 1.0) / (length as f64 * by_second);
            best = best.max(growth * (1.0 + r) / (1.0 - r));
        }
        length *= 2;
    }
    (best - (1.0 - OF_SEVERAL)).max(1.0)
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
    fn it_finds_how_long_a_series_remembers() {
        for (phi, truth) in [(0.0, 1.0), (0.5, 3.0), (0.8, 9.0), (0.95, 39.0)] {
            let found = memory(&series(20_000, phi));
            assert!(found > truth * 0.75 && found < truth * 1.5, "phi {phi}: {found}, in truth {truth}");
        }
    }

    #[test]
    fn slow_changes_below_fast_noise_are_found() {
        let noise = Stream::new(5, "noise");
        let mixed: Vec<f64> =
            series(4_000, 0.95).iter().zip(0..).map(|(x, i)| x + 6.0 * noise.normal(i)).collect();
        let (first, _) = (moments(&mixed), ());
        let lag_one = first.1 / first.0;
        let naive = (1.0 + lag_one) / (1.0 - lag_one);
        assert!(memory(&mixed) > 2.0 * naive, "{} against {naive}", memory(&mixed));
    }

    #[test]
    fn nothing_varies() {
        assert_eq!(memory(&[0.0; 50]), 1.0);
        assert_eq!(memory(&[]), 1.0);
    }
}
