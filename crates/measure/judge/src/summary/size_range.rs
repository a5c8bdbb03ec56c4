//! Range of the sizes of objects: a size class of a window.

use std::fmt;

use serde::{Deserialize, Serialize};

use plimsoll_base::units::format_size;

/// Sizes from one size up to another one, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizeRange {
    /// Smallest size in bytes.
    pub from_bytes: u64,
    /// First size above the range in bytes. Null if the range has no end.
    pub to_bytes: Option<u64>,
}

impl SizeRange {
    /// Returns whether a size is within the range.
    pub fn contains(&self, bytes: u64) -> bool {
        bytes >= self.from_bytes && self.to_bytes.is_none_or(|to| bytes < to)
    }
}

impl fmt::Display for SizeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.from_bytes, self.to_bytes) {
            (0, Some(to)) => write!(f, "below {}", format_size(to)),
            (from, Some(to)) => write!(f, "{} to {}", format_size(from), format_size(to)),
            (from, None) => write!(f, "from {}", format_size(from)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_begins_at_its_size_and_ends_before_the_next() {
        let range = SizeRange { from_bytes: 1024, to_bytes: Some(4096) };
        assert_eq!([1023, 1024, 4095, 4096].map(|bytes| range.contains(bytes)), [false, true, true, false]);
        assert_eq!(range.to_string(), "1 KiB to 4 KiB");
        let ends = [(0, Some(1024)), (4096, None)];
        let named = ends.map(|(from_bytes, to_bytes)| SizeRange { from_bytes, to_bytes }.to_string());
        assert_eq!(named, ["below 1 KiB", "from 4 KiB"]);
    }
}
