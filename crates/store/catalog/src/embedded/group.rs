//! The transactions of one group.

use std::collections::BTreeMap;

use super::merge::Merge;
use super::pending::PendingRows;
use super::record::{Change, hash};
use super::table::Slot;
use super::{Engine, head_only};
use crate::keys;
use crate::{CatalogError, LogPosition, Row, Transaction, Value};

/// Segment number of a row that the current group has written.
const PENDING: u32 = u32::MAX;

/// Knowledge of a group about a key: its row before the group, and its last change in the group.
#[derive(Default)]
pub struct Known {
    /// Row before the group; `None` if it was not read.
    pub base: Option<Slot>,
    /// Index of the last change in the group.
    pub change: Option<usize>,
}

/// The transactions of one group.
pub struct GroupTransaction<'a> {
    engine: &'a Engine,
    /// Rows of earlier groups that readers do not see yet.
    pending: &'a PendingRows,
    /// Keys that the group has read or changed.
    pub known: BTreeMap<Vec<u8>, Known>,
    /// Changes in their order.
    pub changes: Vec<Change>,
    /// Number of changes of committed transactions.
    pub committed: usize,
    /// True if the transaction may use the reserve of a full disk.
    pub uses_reserve: bool,
    /// True if the segment ends behind the group.
    pub ends_segment: bool,
}

impl<'a> GroupTransaction<'a> {
    /// Begins a group.
    pub fn new(engine: &'a Engine, pending: &'a PendingRows) -> GroupTransaction<'a> {
        GroupTransaction {
            engine,
            pending,
            known: BTreeMap::new(),
            changes: Vec::new(),
            committed: 0,
            uses_reserve: false,
            ends_segment: false,
        }
    }

    fn written(&self, change: usize) -> Option<Row> {
        let value = self.changes[change].value.as_ref()?;
        // No segment has this number: see `MAX_ID`.
        let place = LogPosition { segment: PENDING, offset: change as u32, ..LogPosition::default() };
        Some(Row { head: value.head.clone(), place, loaded: None })
    }

    /// Returns true if this transaction or an earlier one that readers do not see yet has changed a key.
    fn is_changed(&self, key: &[u8]) -> bool {
        self.known.get(key).is_some_and(|known| known.change.is_some()) || self.pending.get(key).is_some()
    }

    /// Returns the row of a key before the group. A key whose record is damaged can be written again, so damage is no
    /// error here.
    fn before(&self, key: &[u8]) -> Result<Slot, CatalogError> {
        // A group in flight is newer than the index.
        match self.pending.get(key) {
            Some(slot) => Ok(slot.clone()),
            None => self.engine.read_index(|view| view.get(key, hash(key))),
        }
    }

    fn base(&mut self, key: &[u8]) -> Result<Slot, CatalogError> {
        if let Some(Known { base: Some(base), .. }) = self.known.get(key) {
            return Ok(base.clone());
        }
        let base = self.before(key)?;
        self.known.entry(key.to_vec()).or_default().base = Some(base.clone());
        Ok(base)
    }

    fn push(&mut self, key: Vec<u8>, value: Option<Value>) {
        self.known.entry(key.clone()).or_default().change = Some(self.changes.len());
        self.changes.push(Change { key, value });
    }

    /// Adds the time, if a backup follows the log. It is the last record of its group, so that the time of a copied row
    /// is not taken for that of the group.
    pub fn stamp(&mut self) {
        if self.changes.is_empty() {
            return;
        }
        if let Some(now_ms) = self.engine.next_stamp() {
            self.push(keys::TIME.to_vec(), Some(head_only(now_ms.to_be_bytes().to_vec())));
        }
    }

    /// Reads the rows of changed keys that no transaction has read. Nothing may fail after the group is written.
    pub fn look_up_bases(&mut self) -> Result<(), CatalogError> {
        let mut known = std::mem::take(&mut self.known);
        for (key, known) in &mut known {
            if known.change.is_some() && known.base.is_none() {
                known.base = Some(self.before(key)?);
            }
        }
        self.known = known;
        Ok(())
    }

    /// Drops the changes of a transaction that is not committed.
    pub fn roll_back(&mut self) {
        self.changes.truncate(self.committed);
        // The rows before the group stay known, because they do not depend on a dropped change.
        for known in self.known.values_mut() {
            if known.change.is_some_and(|change| change >= self.committed) {
                known.change = None;
            }
        }
        // A dropped change may have hidden an earlier one of the same group.
        for (index, change) in self.changes.iter().enumerate() {
            if let Some(known) = self.known.get_mut(&change.key) {
                known.change = Some(index);
            }
        }
    }
}

impl Transaction for GroupTransaction<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Row>, CatalogError> {
        let row = self.last_known(key)?;
        match &row {
            // A change of this group or of one in flight is newer than all damage.
            _ if self.is_changed(key) => {}
            Some(row) => self.engine.check_damage(hash(key), Some(row))?,
            // Whether there is no row because of damage is a matter of `check_absent`.
            None => self.engine.check_known_damage(key)?,
        }
        Ok(row)
    }

    fn last_known(&mut self, key: &[u8]) -> Result<Option<Row>, CatalogError> {
        if let Some(Known { change: Some(change), .. }) = self.known.get(key) {
            return Ok(self.written(*change));
        }
        self.base(key)
    }

    fn check_absent(&self, key: &[u8]) -> Result<(), CatalogError> {
        if self.is_changed(key) { Ok(()) } else { self.engine.check_damage(hash(key), None) }
    }

    fn value(&mut self, row: &Row) -> Result<Value, CatalogError> {
        if row.place.segment == PENDING {
            let change = self.changes.get(row.place.offset as usize);
            return Ok(change.and_then(|change| change.value.clone()).unwrap_or_default());
        }
        // A segment is removed only after a later group, so the record cannot move meanwhile.
        self.engine.read(&[], row, true)
    }

    fn first(&mut self, prefix: &[u8], from: &[u8]) -> Result<Option<(Vec<u8>, Row)>, CatalogError> {
        let stored = self.engine.read_index(|view| {
            let mut merge = Merge::new(&view.memtables(), &view.tables, from)?;
            loop {
                match merge.next()? {
                    Some((key, _)) if !key.starts_with(prefix) => return Ok(None),
                    Some((key, Some(row))) => {
                        // The newest change of the other keys is in the group or in flight: see below.
                        if !self.is_changed(&key) {
                            return Ok(Some((Vec::from(key), row)));
                        }
                    }
                    Some((_, None)) => {}
                    None => return Ok(None),
                }
            }
        })?;
        let written = self.known.range(from.to_vec()..).take_while(|(key, _)| key.starts_with(prefix));
        let written = written.filter_map(|(key, known)| Some((key.clone(), self.written(known.change?)?)));
        // A change of this group hides one in flight.
        let is_own = |key: &[u8]| self.known.get(key).is_some_and(|known| known.change.is_some());
        let pending = self.pending.range(prefix, from).filter(|(key, _)| !is_own(key));
        let pending = pending.filter_map(|(key, slot)| Some((key.clone(), slot.clone()?)));
        let first = [stored, written.into_iter().next(), pending.into_iter().next()];
        Ok(first.into_iter().flatten().min_by(|a, b| a.0.cmp(&b.0)))
    }

    fn put(&mut self, key: Vec<u8>, value: Value) {
        self.push(key, Some(value));
    }

    fn delete(&mut self, key: Vec<u8>) {
        self.push(key, None);
    }

    fn use_reserve(&mut self) {
        self.uses_reserve = true;
    }

    fn is_full(&self) -> bool {
        self.engine.is_full()
    }

    fn end_segment(&mut self) {
        self.ends_segment = true;
    }
}
