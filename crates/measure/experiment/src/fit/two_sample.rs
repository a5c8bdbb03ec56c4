//! The two-sample test of Kolmogorov and Smirnov.

/// Result of a test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Test {
    /// Largest difference between the cumulative distribution functions.
    pub distance: f64,
    /// Probability of at least this distance if both samples have the same distribution. For values that repeat, the
    /// true probability is higher.
    pub p: f64,
}

/// Compares two samples, each in ascending order. Returns `None` if one is empty.
pub fn compare(a: &[f64], b: &[f64]) -> Option<Test> {
    let (n, m) = (a.len() as f64, b.len() as f64);
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let (mut i, mut j, mut distance) = (0, 0, 0.0f64);
    while i < a.len() && j < b.len() {
        let value = a[i].min(b[j]);
        i += a[i..].partition_point(|x| *x <= value);
        j += b[j..].partition_point(|x| *x <= value);
        distance = distance.max((i as f64 / n - j as f64 / m).abs());
    }
    // The approximation of Stephens (1970) for finite samples.
    let root = (n * m / (n + m)).sqrt();
    Some(Test { distance, p: tail((root + 0.12 + 0.11 / root) * distance) })
}

/// Returns the probability that Kolmogorov's distribution exceeds `x`.
fn tail(x: f64) -> f64 {
    if x < 0.2 {
        return 1.0;
    }
    let term = |k: f64| (-2.0 * k * k * x * x).exp();
    let sum: f64 = (1..=100).map(|k| if k % 2 == 1 { term(f64::from(k)) } else { -term(f64::from(k)) }).sum();
    (2.0 * sum).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_base::rng::Stream;

    #[test]
    fn the_tail_has_its_known_quantiles() {
        // Smirnov, "Table for estimating the goodness of fit of empirical distributions", 1948.
        for (x, p) in [(1.224, 0.1), (1.358, 0.05), (1.628, 0.01)] {
            assert!((tail(x) - p).abs() < 2e-4, "{x}: {}", tail(x));
        }
    }

    #[test]
    fn samples_of_one_distribution_are_rejected_as_often_as_the_level_says() {
        let sample = |label: &str, run: u64, power: f64| {
            let stream = Stream::new(run, label);
            let mut values: Vec<f64> = (0..400).map(|i| stream.unit(i).powf(power)).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let rejected = |power: f64| {
            let test = |run| compare(&sample("a", run, 1.0), &sample("b", run, power)).unwrap();
            (0..1_000).filter(|run| test(*run).p < 0.05).count()
        };
        let same = rejected(1.0);
        assert!((30..75).contains(&same), "{same} of 1000 at the level 0.05");
        assert!(rejected(1.4) > 900);
    }

    #[test]
    fn repeated_values_are_compared_at_their_ends() {
        let test = compare(&[1.0, 1.0, 2.0], &[1.0, 1.0, 2.0]).unwrap();
        assert_eq!((test.distance, test.p), (0.0, 1.0));
        assert_eq!(compare(&[1.0, 1.0], &[2.0]).unwrap().distance, 1.0);
        assert_eq!(compare(&[], &[1.0]), None);
    }
}
