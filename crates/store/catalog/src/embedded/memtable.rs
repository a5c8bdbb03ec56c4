//! Index entries that are not yet in a table.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock};

use bytes::Bytes;

use super::table::Slot;

/// Sorted index entries in memory.
#[derive(Default)]
pub struct Memtable {
    entries: RwLock<BTreeMap<Box<[u8]>, Slot>>,
}

impl Memtable {
    /// Adds entries, which replace those of the same keys.
    pub fn insert(&self, entries: impl Iterator<Item = (Vec<u8>, Slot)>) {
        // Under one lock: a reader that sees one row of a group also finds the others.
        let mut map = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        for (key, slot) in entries {
            map.insert(key.into_boxed_slice(), slot);
        }
    }

    /// Returns the entry of a key.
    pub fn get(&self, key: &[u8]) -> Option<Slot> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns up to `most` entries in key order.
    pub fn range(&self, from: Bound<&[u8]>, most: usize) -> Vec<(Bytes, Slot)> {
        let map = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        // Only a part at a time, because the committing thread waits for this lock.
        let range = map.range::<[u8], _>((from, Bound::Unbounded)).take(most);
        range.map(|(key, slot)| (Bytes::copy_from_slice(key), slot.clone())).collect()
    }
}
