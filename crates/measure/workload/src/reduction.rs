//! The share of a dataset's contents that compression and deduplication in storage can save.

/// Maximum share of the bytes that compression removes. At this share, every block still has some random bytes.
pub const MAX_COMPRESSIBLE: f64 = 0.99;

/// The savings of compression and deduplication in a dataset's contents.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reduction {
    /// Share of the bytes that compression can remove, from 0 to [`MAX_COMPRESSIBLE`].
    pub compressible: f64,
    /// Number of objects for each distinct content, at least 1.
    pub dedup: f64,
    /// Number of distinct contents.
    distinct: u64,
}

impl Reduction {
    /// Describes `count` objects of which `dedup` on average have the same content.
    pub fn new(compressible: f64, dedup: f64, count: u64) -> Reduction {
        Reduction { compressible, dedup, distinct: ((count as f64 / dedup).round() as u64).max(1) }
    }

    /// Returns the number of distinct contents.
    pub fn distinct(&self) -> u64 {
        self.distinct
    }

    /// Returns the number of the first object that has the content of object `index`. Equal objects are as far apart as
    /// possible, so a store must remember all of its contents to find them.
    pub fn first_like(&self, index: u64) -> u64 {
        index % self.distinct
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::Dataset;
    use crate::payload::Block;
    use crate::size::Size;

    /// Returns the contents of all objects, as one sequence of bytes.
    fn contents(dataset: &Dataset, version: u64) -> Vec<u8> {
        let block = Block::new(dataset.seed);
        let whole = |i| dataset.content(&block, i, version).whole();
        (0..dataset.count).flat_map(whole).collect()
    }

    fn dataset(count: u64, size: Size, compressible: f64, dedup: f64) -> Dataset {
        Dataset::new("objects", 42, count, size).reducible(compressible, dedup)
    }

    fn distinct_blocks(bytes: &[u8]) -> usize {
        bytes.chunks_exact(4096).collect::<HashSet<_>>().len()
    }

    #[test]
    fn compression_removes_the_stated_share() {
        for (size, count) in [(600, 1), (4096, 1), (100_000, 1), (3 << 20, 1), (1024, 2000)] {
            for compressible in [0.0, 0.25, 0.5, 0.9] {
                let content = contents(&dataset(count, Size::Fixed(size), compressible, 1.0), 0);
                let compressed = zstd::bulk::compress(&content, 3).unwrap().len() as f64;
                let removed = 1.0 - compressed / content.len() as f64;
                let tolerance = if size < 4096 { 0.05 } else { 0.01 };
                assert!((removed - compressible).abs() < tolerance, "{count} of {size}: {removed}");
            }
        }
    }

    #[test]
    fn deduplication_finds_the_stated_number_of_copies() {
        for (count, size, dedup) in [
            (300, Size::Fixed(8192), 3.0),
            (300, Size::Fixed(8192), 1.5),
            (6, Size::Fixed(3 << 20), 2.0),
            (300, Size::Weighted(vec![(4096, 1), (65_536, 1)]), 3.0),
            (300, Size::Fixed(8192), 1.0),
        ] {
            let content = contents(&dataset(count, size.clone(), 0.5, dedup), 0);
            let ratio = content.len() as f64 / (distinct_blocks(&content) * 4096) as f64;
            assert!((ratio / dedup - 1.0).abs() < 1e-9, "{size:?}, {dedup}: {ratio}");
        }
    }

    #[test]
    fn versions_and_datasets_share_no_block() {
        let mut objects = dataset(10, Size::Fixed(8192), 0.5, 1.0);
        let mut all = contents(&objects, 0);
        all.extend(contents(&objects, 1));
        objects.name = "others".into();
        all.extend(contents(&objects, 0));
        assert_eq!(distinct_blocks(&all), 60);
    }

    #[test]
    fn equal_objects_have_equal_sizes() {
        let objects = dataset(90, Size::Uniform(1, 1 << 20), 0.0, 3.0);
        let sizes: HashSet<u64> = (0..90).map(|i| objects.size_of(i, 0)).collect();
        assert!(sizes.len() <= 30, "{}", sizes.len());
    }
}
