//! Rows of groups that are in the log and not yet acknowledged: later groups see them, readers do not.

use std::collections::BTreeMap;

use super::table::Slot;

/// Rows of the groups that are not yet acknowledged, by key.
#[derive(Default)]
pub struct PendingRows(BTreeMap<Vec<u8>, (u64, Slot)>);

impl PendingRows {
    /// Returns the newest row of a key; `None` if no such group has changed it.
    pub fn get(&self, key: &[u8]) -> Option<&Slot> {
        self.0.get(key).map(|(_, slot)| slot)
    }

    /// Returns the rows of the keys that start with `prefix`, at or after `from`, in key order.
    pub fn range(&self, prefix: &[u8], from: &[u8]) -> impl Iterator<Item = (&Vec<u8>, &Slot)> {
        let range = self.0.range(from.to_vec()..).take_while(move |(key, _)| key.starts_with(prefix));
        range.map(|(key, (_, slot))| (key, slot))
    }

    /// Adds a row of a group.
    pub fn add(&mut self, group: u64, key: Vec<u8>, slot: Slot) {
        // The row of an earlier group is replaced. When that group is applied, `remove` leaves this one.
        self.0.insert(key, (group, slot));
    }

    /// Removes the row of a key, unless a later group has changed the key.
    pub fn remove(&mut self, group: u64, key: &[u8]) {
        if self.0.get(key).is_some_and(|(newest, _)| *newest == group) {
            self.0.remove(key);
        }
    }
}
