//! Faults of a disk.

use std::time::Duration;

/// Faults that a disk shows. The default has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskFaults {
    /// Number of syncs after which one fails with EIO; `None` if none does. The data that it should have written is
    /// lost, and later syncs do not report this again, as on Linux (P. Rebello et al., "Can Applications Recover from
    /// fsync Failures?", USENIX ATC 2020).
    pub failing_sync: Option<u64>,
    /// Number of allocations after which the disk is full; `None` if it never is.
    pub full_after: Option<u64>,
    /// Duration of each sync; what it syncs is durable at its end.
    pub sync_takes: Duration,
    /// Syncs of files and directories whose path contains this text succeed and do nothing; empty for none. With a
    /// slash at its end, those of directories whose path ends with it.
    pub ignored_syncs: String,
}
