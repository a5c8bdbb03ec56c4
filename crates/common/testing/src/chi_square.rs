//! Goodness-of-fit assertions for the tests of all generators.

use plimsoll_base::rng::normal_cdf;

/// Asserts that counts match their expected shares: chi-square test with p > 0.001 (normal approximation of
/// Wilson and Hilferty). Neighbouring cells are merged until each has an expected count of at least ten.
pub fn assert_fits(observed: &[u64], shares: &[f64]) {
    assert_eq!(observed.len(), shares.len());
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "shares must add up to one");
    let n = observed.iter().sum::<u64>() as f64;
    let (mut chi, mut cells) = (0.0, 0);
    let (mut seen, mut expected) = (0.0, 0.0);
    for (i, (count, share)) in observed.iter().zip(shares).enumerate() {
        seen += *count as f64;
        expected += share * n;
        if expected >= 10.0 && shares[i + 1..].iter().sum::<f64>() * n >= 10.0 || i + 1 == shares.len() {
            chi += (seen - expected) * (seen - expected) / expected;
            cells += 1;
            (seen, expected) = (0.0, 0.0);
        }
    }
    assert!(cells > 1, "the test needs at least two cells");
    let df = f64::from(cells - 1);
    let z = ((chi / df).cbrt() - (1.0 - 2.0 / (9.0 * df))) / (2.0 / (9.0 * df)).sqrt();
    assert!(z < 3.09, "chi-square {chi:.1} with {df} degrees of freedom: p < 0.001");
    assert!(z > -3.09, "chi-square {chi:.1} with {df} degrees of freedom is too good to be random");
}

/// Computes the quantile function of the standard normal distribution, by bisection.
pub fn normal_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-10.0, 10.0);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if normal_cdf(middle) < p { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "p < 0.001")]
    fn a_loaded_die_fails_the_test() {
        assert_fits(&[1150, 850, 1000, 1000, 1000, 1000], &[1.0 / 6.0; 6]);
    }
}
