//! Faults of a disk.

use super::Disk;
use crate::draws::Draws;
use crate::faults::DiskFaults;

impl Disk {
    /// Gives the disk faults, whose numbers of syncs and allocations begin now.
    pub fn set_faults(&mut self, faults: DiskFaults) {
        let (syncs, allocations) = (self.syncs, self.allocations);
        let failing_sync = faults.failing_sync.map(|count| count + syncs);
        let full_after = faults.full_after.map(|count| count + allocations);
        self.faults = DiskFaults { failing_sync, full_after, ..faults };
    }

    /// Returns the duration of a sync.
    pub fn sync_takes(&self) -> std::time::Duration {
        self.faults.sync_takes
    }

    /// Flips one bit in the data of a file, as a decaying medium does. `within` selects the files by their path.
    /// Returns the path and the offset; `None` if no file has data.
    pub fn flip_a_bit(&mut self, seed: u64, within: &dyn Fn(&str) -> bool) -> Option<(String, u64)> {
        let mut draws = Draws::new(seed, "flip");
        let files = self.now.paths().into_iter().filter_map(|(path, ino)| {
            let size = self.now.content(ino)?.size();
            (size > 0 && within(&path)).then_some((path, ino, size))
        });
        let files: Vec<_> = files.collect();
        let total: u64 = files.iter().map(|(_, _, size)| size).sum();
        let mut at = draws.below(total);
        let (path, ino, _) = files.into_iter().find(|(_, _, size)| {
            let is_here = at < *size;
            at -= if is_here { 0 } else { *size };
            is_here
        })?;
        let bit = draws.below(8) as u32;
        self.now.flip(ino, at, bit);
        self.durable.flip(ino, at, bit);
        Some((path, at))
    }
}
