//! A disk that FUSE, the clients and the one who cuts the power share.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::disk::Disk;

/// A disk that several threads use.
#[derive(Debug, Clone)]
pub struct SharedDisk(Arc<(Mutex<Disk>, Condvar)>);

impl SharedDisk {
    /// Shares a disk.
    pub fn new(disk: Disk) -> SharedDisk {
        SharedDisk(Arc::new((Mutex::new(disk), Condvar::new())))
    }

    /// Locks the disk.
    pub fn lock(&self) -> MutexGuard<'_, Disk> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Turns the power off.
    pub fn fail_power(&self) {
        self.lock().fail_power();
        self.0.1.notify_all();
    }

    /// Wakes those that wait for the power to fail, if it has failed.
    pub(super) fn notice(&self) {
        if !self.lock().has_power() {
            self.0.1.notify_all();
        }
    }

    /// Waits until the power fails, at most for `limit`. Returns true if it failed.
    pub fn wait_for_failure(&self, limit: Duration) -> bool {
        let waited = self.0.1.wait_timeout_while(self.lock(), limit, |disk| disk.has_power());
        waited.map(|(disk, _)| !disk.has_power()).unwrap_or(true)
    }
}
