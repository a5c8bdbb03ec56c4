//! Holm correction: bounds for the verdicts of several figures together.

use super::student::LEVEL;

/// Returns a bound for each probability, such that the probability of any false difference is at most 5% (Holm,
/// Scandinavian Journal of Statistics 6, 1979). A `None` is not counted.
pub fn holm(probabilities: &[Option<f64>]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).filter(|i| probabilities[*i].is_some()).collect();
    order.sort_by(|a, b| {
        probabilities[*a].partial_cmp(&probabilities[*b]).unwrap_or(std::cmp::Ordering::Equal)
    });
    let mut out = vec![0.0; probabilities.len()];
    let mut open = true;
    for (place, index) in order.iter().enumerate() {
        let bound = (1.0 - LEVEL) / (order.len() - place) as f64;
        open &= probabilities[*index].is_some_and(|p| p <= bound);
        // After the first difference that is not significant, no later one is significant.
        out[*index] = if open { bound } else { 0.0 };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holm_stops_at_the_first_difference_that_is_not_significant() {
        let bounds = holm(&[Some(0.02), Some(0.001), None, Some(0.04)]);
        assert!((bounds[1] - 0.05 / 3.0).abs() < 1e-9 && (bounds[0] - 0.025).abs() < 1e-9);
        assert!((bounds[3] - 0.05).abs() < 1e-9);
        let bounds = holm(&[Some(0.03), Some(0.04)]);
        assert_eq!(bounds, [0.0, 0.0], "0.03 is above 0.05 / 2, so 0.04 is not tested");
    }
}
