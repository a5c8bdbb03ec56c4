//! DuckDB's cache of the ranges of a file, which decides which bytes a read requests: see `CachingFileHandle::Read` in
//! `src/storage/caching_file_system.cpp` of version 1.5.

use std::collections::BTreeMap;
use std::ops::Range;

/// Largest gap to the next known range that a read fills.
const MAX_FILLED_BYTES: u64 = 1 << 20;

/// Ranges of a file that have been read, by their first byte. No range contains another one.
#[derive(Debug, Default)]
pub struct Cache {
    ranges: BTreeMap<u64, u64>,
}

impl Cache {
    /// Reads a range. Returns the ranges that are requested from the store.
    pub fn read(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        if range.is_empty() || self.contains(&range) {
            return Vec::new();
        }
        let mut wanted = range.clone();
        if let Some((next, _)) = self.ranges.range(range.end..).next() {
            let gap = next - range.end;
            if gap <= MAX_FILLED_BYTES.min(range.end - range.start) {
                wanted.end = *next;
            }
        }
        let mut requested = self.missing(&wanted);
        // A single request for all bytes is cheaper than several for the missing ones.
        if requested.len() > 1 {
            requested = vec![wanted.clone()];
        }
        self.ranges.retain(|start, end| !(wanted.start <= *start && *end <= wanted.end));
        self.ranges.insert(wanted.start, wanted.end);
        requested
    }

    /// Returns whether one known range has all bytes.
    fn contains(&self, range: &Range<u64>) -> bool {
        self.ranges.range(..=range.start).next_back().is_some_and(|(_, end)| *end >= range.end)
    }

    /// Returns the bytes of a range that no known range has.
    fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut at = range.start;
        for (start, end) in self.ranges.range(..range.end).filter(|(_, end)| **end > range.start) {
            if *start > at {
                missing.push(at..*start);
            }
            at = at.max(*end);
        }
        if at < range.end {
            missing.push(at..range.end);
        }
        missing
    }
}
