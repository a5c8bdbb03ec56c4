//! The median of values.

/// Returns the median of the values, which is the mean of the two in the middle if their number is even; `None` without
/// values.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let at = |index: usize| sorted.get(index).copied();
    Some(f64::midpoint(at(sorted.len().checked_sub(1)? / 2)?, at(sorted.len() / 2)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([]), None);
        assert_eq!(median([7.0]), Some(7.0));
        assert_eq!(median([9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 9.0, 2.0]), Some(3.0));
    }
}
