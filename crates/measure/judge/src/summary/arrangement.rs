//! Order in time of windows that are merged.

/// Arrangement of the merged windows in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrangement {
    /// One after another: blocks and repeats.
    Consecutive,
    /// At the same time: shards.
    Parallel,
}
