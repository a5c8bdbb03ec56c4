//! The changes of a group of transactions over the state before the group, for catalogs that keep them in memory until
//! they are written together.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::{CatalogError, LogPosition, Row, Transaction, Value};

/// Reader of the state before a group.
pub trait Base {
    /// Returns the row of a key.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    fn get(&mut self, key: &[u8]) -> Result<Option<Row>, CatalogError>;

    /// Returns the value of a row that `get` or `first` has returned for a key.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    fn value(&mut self, key: &[u8], row: &Row) -> Result<Value, CatalogError>;

    /// Returns the first row that satisfies the bound and whose key starts with `prefix`.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    fn first(&mut self, prefix: &[u8], from: Bound<&[u8]>) -> Result<Option<(Vec<u8>, Row)>, CatalogError>;

    /// Returns true if other processes use the catalog at the same time.
    fn is_shared(&self) -> bool {
        false
    }
}

/// Changes by key; `None` removes the key.
pub type Changes = BTreeMap<Vec<u8>, Option<Value>>;

/// Row that a transaction has read.
enum Read {
    /// Value that the group has written.
    Written(Value),
    /// Row of the state before the group.
    Before(Vec<u8>, Row),
}

/// The transactions of a group.
pub struct Overlay<B> {
    base: B,
    /// Changes of the committed transactions of the group.
    committed: Changes,
    /// Changes of the current transaction.
    own: Changes,
    read: Vec<Read>,
}

impl<B: Base> Overlay<B> {
    /// Starts a group.
    pub fn new(base: B) -> Overlay<B> {
        Overlay { base, committed: Changes::new(), own: Changes::new(), read: Vec::new() }
    }

    /// Executes a transaction.
    ///
    /// # Errors
    /// Returns the error of the transaction, whose changes are dropped.
    pub fn execute(&mut self, work: &mut super::Work) -> Result<(), CatalogError> {
        let left = self.own.len();
        assert_eq!(left, 0, "a transaction begins with {left} changes of an earlier one");
        let result = work(self);
        // Taken after an error as well: the next transaction of the group must not commit these changes.
        let own = std::mem::take(&mut self.own);
        // Places of rows are valid in one transaction. Otherwise, the values would stay in memory until the group ends.
        self.read.clear();
        if matches!(result, Ok(true)) {
            self.committed.extend(own);
        }
        result.map(|_| ())
    }

    /// Returns the changes of the committed transactions, and the reader.
    pub fn finish(self) -> (Changes, B) {
        (self.committed, self.base)
    }

    /// Returns the change of a key in the group.
    fn changed(&self, key: &[u8]) -> Option<&Option<Value>> {
        // The own change first: it is newer than those of the transactions before it.
        self.own.get(key).or_else(|| self.committed.get(key))
    }

    fn written(&mut self, value: Value) -> Row {
        let place = LogPosition {
            properties: value.properties.len() as u32,
            body: value.body.len() as u32,
            ..LogPosition::default()
        };
        let head = value.head.clone();
        self.remember(Read::Written(value), Row { head, place, loaded: None })
    }

    fn before(&mut self, key: &[u8], row: Row) -> Row {
        self.remember(Read::Before(key.to_vec(), row.clone()), row)
    }

    /// Returns the row with the index under which its value is found.
    fn remember(&mut self, read: Read, row: Row) -> Row {
        let place = LogPosition { offset: self.read.len() as u32, ..row.place };
        self.read.push(read);
        Row { place, ..row }
    }

    /// Returns the first value that the group has written and whose key satisfies the bound.
    fn first_written(&self, prefix: &[u8], from: &[u8]) -> Option<(Vec<u8>, Value)> {
        let mut from = Bound::Included(from);
        loop {
            let range = (from, Bound::Unbounded);
            let own = self.own.range::<[u8], _>(range).next();
            let committed = self.committed.range::<[u8], _>(range).next();
            let (key, value) = match (own, committed) {
                // For the same key, the own change counts: it may remove a value of an earlier transaction.
                (Some(own), Some(committed)) => {
                    if own.0 <= committed.0 {
                        own
                    } else {
                        committed
                    }
                }
                (found, None) | (None, found) => found?,
            };
            match value {
                // `from` begins with the prefix, so no later key has it if this one does not.
                _ if !key.starts_with(prefix) => return None,
                Some(value) => return Some((key.clone(), value.clone())),
                // A removed key has no value, but the ones behind it may.
                None => from = Bound::Excluded(key),
            }
        }
    }
}

impl<B: Base> Transaction for Overlay<B> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Row>, CatalogError> {
        if let Some(change) = self.changed(key) {
            let value = change.clone();
            return Ok(value.map(|value| self.written(value)));
        }
        Ok(self.base.get(key)?.map(|row| self.before(key, row)))
    }

    fn value(&mut self, row: &Row) -> Result<Value, CatalogError> {
        match self.read.get(row.place.offset as usize) {
            None => Ok(Value::default()),
            Some(Read::Written(value)) => Ok(value.clone()),
            Some(Read::Before(key, row)) => self.base.value(key, row),
        }
    }

    fn first(&mut self, prefix: &[u8], from: &[u8]) -> Result<Option<(Vec<u8>, Row)>, CatalogError> {
        let mut found = self.base.first(prefix, Bound::Included(from))?;
        // A row that the group has changed is not the stored one. If it still exists, `first_written` finds it.
        while let Some((key, _)) = &found
            && self.changed(key).is_some()
        {
            found = self.base.first(prefix, Bound::Excluded(key))?;
        }
        Ok(match (found, self.first_written(prefix, from)) {
            (Some((key, _)), Some((written, value))) if written < key => Some((written, self.written(value))),
            (Some((key, row)), _) => {
                let row = self.before(&key, row);
                Some((key, row))
            }
            (None, written) => written.map(|(key, value)| (key, self.written(value))),
        })
    }

    fn put(&mut self, key: Vec<u8>, value: Value) {
        self.own.insert(key, Some(value));
    }

    fn delete(&mut self, key: Vec<u8>) {
        self.own.insert(key, None);
    }

    fn is_shared(&self) -> bool {
        self.base.is_shared()
    }
}
