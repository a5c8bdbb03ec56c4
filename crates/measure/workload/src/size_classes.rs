//! Classes of object sizes, for latencies by size.

use std::sync::Arc;

/// Upper end of the first class by default, in bytes.
const FIRST: u64 = 1 << 10;
/// Factor from one class to the next by default.
const FACTOR: u64 = 4;
/// Number of classes by default; the last one begins at 4 TiB.
const COUNT: usize = 18;
/// Maximum number of classes.
pub const MAX_CLASSES: usize = 32;

/// Classes of object sizes: each begins at a size and ends before the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeClasses(Arc<[u64]>);

/// Reason for rejecting size classes.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SizeClassError {
    /// The sizes are not in ascending order, or one of them is 0 or occurs twice.
    #[error("the sizes must be above 0 and in ascending order, such as [\"64 KiB\", \"1 MiB\"]")]
    Order,
    /// There are no sizes, or more than [`MAX_CLASSES`].
    #[error("there must be 1 to {} sizes", MAX_CLASSES - 1)]
    Count,
}

impl Default for SizeClasses {
    /// Returns the classes below 1 KiB, from 1 KiB to 4 KiB, from 4 KiB to 16 KiB, and so on by powers of four.
    fn default() -> SizeClasses {
        let powers = std::iter::successors(Some(FIRST), |from| Some(from * FACTOR));
        SizeClasses(std::iter::once(0).chain(powers).take(COUNT).collect())
    }
}

impl SizeClasses {
    /// Returns the classes between these sizes in bytes, with one class below the first and one from the last on.
    ///
    /// # Errors
    /// If the sizes are not in ascending order and above 0, or if there are too many.
    pub fn between(sizes: &[u64]) -> Result<SizeClasses, SizeClassError> {
        if sizes.is_empty() || sizes.len() >= MAX_CLASSES {
            return Err(SizeClassError::Count);
        }
        let all: Vec<u64> = std::iter::once(0).chain(sizes.iter().copied()).collect();
        match all.is_sorted_by(|a, b| a < b) {
            true => Ok(SizeClasses(all.into())),
            false => Err(SizeClassError::Order),
        }
    }

    /// Returns the sizes in bytes between the classes.
    pub fn sizes(&self) -> &[u64] {
        &self.0[1..]
    }

    /// Returns the smallest size of the class of an object of `bytes`, in bytes.
    #[inline]
    pub fn from_of(&self, bytes: u64) -> u64 {
        self.0[self.0.partition_point(|from| *from <= bytes) - 1]
    }

    /// Returns the first size above the class that begins at `from`, in bytes; `None` if the class has no end.
    pub fn end_of(&self, from: u64) -> Option<u64> {
        self.0.get(self.0.partition_point(|other| *other <= from)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_begins_at_its_size_and_ends_before_the_next_one() {
        let classes = SizeClasses::default();
        for (bytes, from, end) in [
            (0, 0, Some(1 << 10)),
            (1023, 0, Some(1 << 10)),
            (1024, 1 << 10, Some(4 << 10)),
            (65_535, 16 << 10, Some(64 << 10)),
            (65_536, 64 << 10, Some(256 << 10)),
            (5 << 40, 4 << 40, None),
        ] {
            assert_eq!((classes.from_of(bytes), classes.end_of(from)), (from, end), "{bytes}");
        }
        let two = SizeClasses::between(&[100]).unwrap();
        assert_eq!(
            (two.from_of(99), two.from_of(100), two.end_of(100), two.sizes()),
            (0, 100, None, &[100][..])
        );
    }

    #[test]
    fn sizes_out_of_order_are_refused() {
        for sizes in [&[0, 5][..], &[5, 5], &[9, 5]] {
            assert_eq!(SizeClasses::between(sizes), Err(SizeClassError::Order), "{sizes:?}");
        }
        assert_eq!(SizeClasses::between(&[]), Err(SizeClassError::Count));
        assert_eq!(SizeClasses::between(&vec![1; MAX_CLASSES]), Err(SizeClassError::Count));
    }
}
