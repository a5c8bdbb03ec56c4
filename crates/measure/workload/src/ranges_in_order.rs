//! The ranges of all objects of a dataset, one after the other.

use super::Dataset;

/// Largest number of objects of different sizes whose ranges are counted in advance.
pub const MAX_COUNTED: u64 = 1_000_000;

/// Ranges of one length that cover each object from its first byte to its last; the last one of an object may be
/// shorter.
#[derive(Debug, Clone)]
pub struct RangesInOrder {
    /// Length of a range in bytes.
    length: u64,
    objects: u64,
    /// Number of ranges of each object, if all have the same size.
    each: u64,
    /// Number of ranges before each object and of all objects; empty if all have the same size.
    before: Vec<u64>,
}

impl RangesInOrder {
    /// Divides a version of the objects of a dataset into ranges of `length` bytes, which is above 0.
    pub fn new(dataset: &Dataset, version: u64, length: u64) -> RangesInOrder {
        let objects = dataset.count.max(1);
        let each = dataset.size_of(0, version).div_ceil(length);
        let mut before = Vec::new();
        if dataset.size.smallest() != dataset.size.largest() {
            before.push(0);
            for index in 0..objects {
                before.push(before[index as usize] + dataset.size_of(index, version).div_ceil(length));
            }
        }
        RangesInOrder { length, objects, each, before }
    }

    /// Returns the number of ranges of all objects.
    pub fn total(&self) -> u64 {
        self.before.last().copied().unwrap_or(self.each * self.objects)
    }

    /// Returns the object and the first byte of range `number`; they begin again after the last range.
    pub fn at(&self, number: u64) -> (u64, u64) {
        let number = number % self.total().max(1);
        if self.before.is_empty() {
            return (number / self.each.max(1), number % self.each.max(1) * self.length);
        }
        // Empty objects have no range; the last object that begins with this range has it.
        let index = self.before.partition_point(|before| *before <= number) as u64 - 1;
        (index, (number - self.before[index as usize]) * self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size::Size;

    fn all(size: Size, count: u64, length: u64) -> Vec<(u64, u64)> {
        let ranges = RangesInOrder::new(&Dataset::new("objects", 42, count, size), 0, length);
        (0..ranges.total() + 1).map(|number| ranges.at(number)).collect()
    }

    #[test]
    fn ranges_cover_each_object_in_order_and_begin_again() {
        assert_eq!(all(Size::Fixed(10), 2, 4), [(0, 0), (0, 4), (0, 8), (1, 0), (1, 4), (1, 8), (0, 0)]);
        let listed = Size::List(vec![5, 0, 9, 4]);
        assert_eq!(all(listed, 4, 4), [(0, 0), (0, 4), (2, 0), (2, 4), (2, 8), (3, 0), (0, 0)]);
        assert_eq!(all(Size::Fixed(3), 1, 4), [(0, 0), (0, 0)]);
    }
}
