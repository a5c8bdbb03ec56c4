//! The index that a reading of the log builds: tables, and the newest entries in memory.

use std::sync::Arc;

use super::Engine;
use super::memtable::Memtable;
use super::table::{Slot, Table};
use crate::CatalogError;

/// An index under construction.
pub struct IndexBuilder<'a> {
    engine: &'a Engine,
    /// From the newest to the oldest.
    tables: Vec<Arc<Table>>,
    active: Memtable,
    has_written: bool,
}

impl<'a> IndexBuilder<'a> {
    /// Creates the builder of an index that continues the tables, from the newest to the oldest.
    pub fn new(engine: &'a Engine, tables: Vec<Arc<Table>>) -> IndexBuilder<'a> {
        IndexBuilder { engine, tables, active: Memtable::default(), has_written: false }
    }

    /// Returns the entry of a key, whose hash is `hash`.
    ///
    /// # Errors
    /// If a table is damaged or cannot be read.
    pub fn get(&self, key: &[u8], hash: u64) -> Result<Slot, CatalogError> {
        if let Some(slot) = self.active.get(key) {
            return Ok(slot);
        }
        for table in &self.tables {
            if let Some(slot) = table.get(key, hash)? {
                return Ok(slot);
            }
        }
        Ok(None)
    }

    /// Adds an entry. An earlier entry of the same key is replaced.
    ///
    /// # Errors
    /// If the entries in memory are written to a table, and the disk fails.
    pub fn insert(&mut self, key: Vec<u8>, slot: Slot) -> Result<(), CatalogError> {
        self.active.insert(std::iter::once((key, slot)));
        // The entries of a whole log need not fit in memory.
        if self.active.len() >= self.engine.limits.memtable_entries { self.write() } else { Ok(()) }
    }

    /// Writes the entries in memory to a table.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn write(&mut self) -> Result<(), CatalogError> {
        let memtable = Arc::new(std::mem::take(&mut self.active));
        if memtable.len() > 0 {
            // The oldest table needs no removals. The log is synced before a manifest names the table.
            let table = self.engine.write_memtable(&memtable, self.tables.is_empty())?;
            self.tables.insert(0, Arc::new(table));
            self.has_written = true;
        }
        Ok(())
    }

    /// Returns true if a table was written.
    pub fn has_written(&self) -> bool {
        self.has_written
    }

    /// Returns the tables, from the newest to the oldest, and the entries that are not in a table.
    pub fn finish(self) -> (Vec<Arc<Table>>, Memtable) {
        (self.tables, self.active)
    }
}
