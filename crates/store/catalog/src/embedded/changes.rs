//! Keys whose rows have changed, for somebody who copies the catalog meanwhile.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keys that were changed since somebody asked for them.
#[derive(Debug, Default)]
pub struct ChangedKeys {
    is_recorded: AtomicBool,
    keys: Mutex<BTreeSet<Vec<u8>>>,
}

impl ChangedKeys {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<Vec<u8>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to record keys. The changes of transactions that have ended before are not recorded, and those of all
    /// that begin later are: so a transaction between this call and a reading of the catalog misses nothing. Returns
    /// false if somebody else records them.
    pub fn begin(&self) -> bool {
        !self.is_recorded.swap(true, Ordering::AcqRel)
    }

    /// Returns the keys of a group that readers do not see yet; none if nobody asks for them.
    pub fn of_group<T>(&self, entries: &[(Vec<u8>, T)]) -> Vec<Vec<u8>> {
        if !self.is_recorded.load(Ordering::Acquire) {
            return Vec::new();
        }
        entries.iter().map(|(key, _)| key.clone()).collect()
    }

    /// Records keys whose changes readers see now. Whoever takes a key therefore reads the change.
    pub fn record(&self, keys: Vec<Vec<u8>>) {
        if !keys.is_empty() {
            self.lock().extend(keys);
        }
    }

    /// Returns the keys since the last call.
    pub fn take(&self) -> BTreeSet<Vec<u8>> {
        std::mem::take(&mut *self.lock())
    }

    /// Ends the recording.
    pub fn end(&self) {
        self.is_recorded.store(false, Ordering::Release);
        // A group that is being applied may still add keys. They only cost a later copy superfluous reads.
        self.lock().clear();
    }
}
