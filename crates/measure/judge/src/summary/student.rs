//! Student's t, and what follows from it: degrees of freedom and power.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Returns the two-sided quantile of Student's t at [`LEVEL`] with `freedom` degrees of freedom.
pub fn t_quantile(freedom: f64) -> f64 {
    t_quantile_at(LEVEL, freedom)
}

/// Returns the two-sided quantile of Student's t at a confidence level (0 to 1) with `freedom` degrees of freedom.
pub fn t_quantile_at(level: f64, freedom: f64) -> f64 {
    // Bounded, because the quantile grows beyond use below one degree of freedom.
    let freedom = freedom.max(0.25);
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(0.5 + level / 2.0))
}

/// Returns the two-sided probability of a deviation of at least `t` standard errors, with `freedom` degrees of
/// freedom.
pub fn t_probability(t: f64, freedom: f64) -> f64 {
    let freedom = freedom.max(0.25);
    StudentsT::new(0.0, 1.0, freedom).map_or(1.0, |d| 2.0 * d.cdf(-t.abs()))
}

/// Power of the smallest detectable change: the probability that a comparison finds it.
pub const POWER: f64 = 0.8;

/// Returns the ratio of the change that is detected with probability [`POWER`] to the half-width of the interval, with
/// `freedom` degrees of freedom (J. Cohen, "Statistical power analysis", 1988, with Student's t for the normal).
pub fn power_factor(freedom: f64) -> f64 {
    1.0 + t_quantile_at(1.0 - 2.0 * (1.0 - POWER), freedom) / t_quantile(freedom)
}

/// An estimated variance.
#[derive(Debug, Clone, Copy)]
pub struct Variance {
    /// The variance itself.
    pub value: f64,
    /// Degrees of freedom of its estimate.
    pub freedom: f64,
}

/// Returns the degrees of freedom of a sum of two variances (Welch, Biometrika 34, 1947).
pub fn welch_freedom(a: Variance, b: Variance) -> f64 {
    let sum = a.value + b.value;
    if sum <= 0.0 {
        return a.freedom.min(b.freedom);
    }
    sum * sum / (a.value * a.value / a.freedom + b.value * b.value / b.freedom)
}

/// Confidence level of all intervals.
pub const LEVEL: f64 = 0.95;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_quantiles_match_published_tables() {
        for (freedom, value) in [(1.0, 12.7062), (4.0, 2.7764), (30.0, 2.0423), (1e6, 1.96)] {
            assert!((t_quantile(freedom) - value).abs() < 1e-3, "{freedom}: {}", t_quantile(freedom));
        }
        assert!((t_probability(2.7764, 4.0) - 0.05).abs() < 1e-4);
    }
}
