//! Syncs of inodes.

use std::collections::BTreeSet;

use rustix::io::Errno;

use super::Disk;
use crate::change::{DiskChange, Ino};

impl Disk {
    /// Syncs an inode; with `data_only` as `fdatasync` does.
    ///
    /// # Errors
    /// EIO if the sync fails or the power is off.
    pub fn sync(&mut self, ino: Ino, data_only: bool) -> Result<(), Errno> {
        self.begin_sync(ino)?;
        self.end_sync(ino, data_only, self.pending.len());
        Ok(())
    }

    /// Begins a sync, and returns the number of changes that it may make durable.
    ///
    /// # Errors
    /// EIO if the sync fails or the power is off.
    pub fn begin_sync(&mut self, ino: Ino) -> Result<usize, Errno> {
        self.step()?;
        self.syncs += 1;
        if self.faults.failing_sync.is_some_and(|count| self.syncs == count + 1) {
            self.pending.retain(|change| !(change.is_data() && change.inode() == Some(ino)));
            return Err(Errno::IO);
        }
        Ok(self.pending.len())
    }

    /// Ends a sync of the first `count` pending changes.
    pub fn end_sync(&mut self, ino: Ino, data_only: bool, count: usize) {
        if !self.has_power || self.ignores_sync(ino) {
            return;
        }
        let later = self.pending.split_off(count.min(self.pending.len()));
        self.model.rules().sync(&mut self.pending, &mut self.durable, ino, data_only);
        self.pending.extend(later);
    }

    /// Syncs all inodes, as `syncfs` does.
    ///
    /// # Errors
    /// EIO if the sync fails or the power is off.
    pub fn sync_all(&mut self) -> Result<(), Errno> {
        self.step()?;
        self.syncs += 1;
        if self.faults.failing_sync.is_some_and(|count| self.syncs == count + 1) {
            self.pending.retain(|change| !change.is_data());
            return Err(Errno::IO);
        }
        if self.faults.ignored_syncs.is_empty() {
            self.write_back();
            return Ok(());
        }
        let directories =
            |change: &DiskChange| change.entries().into_iter().map(|entry| entry.parent).collect::<Vec<_>>();
        let changed =
            self.pending.iter().flat_map(|change| change.inode().into_iter().chain(directories(change)));
        for ino in changed.collect::<BTreeSet<Ino>>() {
            self.end_sync(ino, false, self.pending.len());
        }
        Ok(())
    }

    /// Writes everything back, as the kernel does every few seconds.
    pub fn write_back(&mut self) {
        if self.has_power {
            self.durable = self.now.clone();
            self.pending.clear();
        }
    }

    fn ignores_sync(&self, ino: Ino) -> bool {
        let ignored = self.faults.ignored_syncs.as_str();
        if ignored.is_empty() {
            return false;
        }
        let is_directory = self.now.entries(ino).is_some();
        self.path(ino).is_some_and(|path| match ignored.ends_with('/') {
            true => is_directory && format!("/{path}/").ends_with(&format!("/{ignored}")),
            false => path.contains(ignored),
        })
    }
}
