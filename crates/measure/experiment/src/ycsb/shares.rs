//! Conversion of YCSB's proportions into the integer weights of a mix.

/// Maximum number of operations in a block, in which the shares of a mix are exact.
const BLOCK: u64 = 10_000;
/// Maximum relative error of a share that a block cannot represent exactly.
const MAX_ERROR: f64 = 0.01;

/// Returns weights whose sum is at most 10,000. They have exactly the given proportions if possible, and are
/// otherwise within 1% of each.
///
/// # Errors
/// Returns the index of the first proportion that would be off by more than 1%, because it is too small.
pub fn weights(proportions: &[f64]) -> Result<Vec<u32>, usize> {
    match exact(proportions) {
        Some(weights) => Ok(weights),
        None => rounded(proportions),
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Scales proportions of up to nine decimal places to whole numbers without a common divisor. Returns `None` if there
/// are more places, or if the sum exceeds a block.
fn exact(proportions: &[f64]) -> Option<Vec<u32>> {
    let whole = |scale: f64| -> Option<Vec<u64>> {
        let scaled = |p: &f64| {
            let n = (p * scale).round();
            ((p * scale - n).abs() < 1e-9 * n.max(1.0) && n < 1e15).then_some(n as u64)
        };
        proportions.iter().map(scaled).collect()
    };
    let numbers = (0..=9).find_map(|places| whole(10f64.powi(places)))?;
    let divisor = numbers.iter().fold(0, |d, n| gcd(d, *n)).max(1);
    let weights: Vec<u64> = numbers.iter().map(|n| n / divisor).collect();
    (weights.iter().sum::<u64>() <= BLOCK).then(|| weights.iter().map(|w| *w as u32).collect())
}

/// Returns weights that add up to a block, rounded by the largest-remainder method. The error is the index of the
/// first weight that is off by more than [`MAX_ERROR`].
fn rounded(proportions: &[f64]) -> Result<Vec<u32>, usize> {
    let sum: f64 = proportions.iter().sum();
    let ideal: Vec<f64> = proportions.iter().map(|p| p / sum * BLOCK as f64).collect();
    let mut weights: Vec<u32> = ideal.iter().map(|w| *w as u32).collect();
    let mut order: Vec<usize> = (0..ideal.len()).collect();
    order.sort_by(|a, b| ideal[*b].fract().total_cmp(&ideal[*a].fract()));
    let short = (BLOCK as u32).saturating_sub(weights.iter().sum());
    order.iter().take(short as usize).for_each(|at| weights[*at] += 1);
    let off = |at: &usize| (f64::from(weights[*at]) - ideal[*at]).abs() > MAX_ERROR * ideal[*at];
    match (0..ideal.len()).find(off) {
        Some(at) => Err(at),
        None => Ok(weights),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: proportions below half of 1/10,000 were dropped silently, and 0.00015 became 0.0002.
    #[test]
    fn small_proportions_are_kept_or_rejected() {
        assert_eq!(weights(&[0.95, 0.05]), Ok(vec![19, 1]));
        assert_eq!(weights(&[0.9999, 0.0001]), Ok(vec![9999, 1]));
        assert_eq!(weights(&[0.5, 0.5, 0.0001]), Ok(vec![5000, 4999, 1]));
        assert_eq!(weights(&[1.0, 0.0001]), Ok(vec![9999, 1]));
        assert_eq!(weights(&[1.0, 1.0, 1.0]), Ok(vec![1, 1, 1]));
        assert_eq!(weights(&[0.333_333, 0.666_667]), Ok(vec![3333, 6667]));
        assert_eq!(weights(&[1.0, 0.000_01]), Err(1));
        assert_eq!(weights(&[0.999_85, 0.000_15]), Err(1));
        assert_eq!(weights(&[1.0, 0.0]), Ok(vec![1, 0]));
    }
}
