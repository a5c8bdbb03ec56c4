//! Repairs the index while the catalog is in use: builds it again from the log, of which it is derived.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::builder::IndexBuilder;
use super::replay::{Purpose, Replay, Replayed};
use super::segment_list::{Damage, Position};
use super::table::{DIRECTORY, file_name};
use super::{Engine, View};
use crate::CatalogError;

/// Result of building the index again.
#[derive(Debug)]
pub struct Rebuilt {
    /// Bytes of the log that were read.
    pub read_bytes: u64,
    /// Damage of the log that was not known before; the index stays as it was if there is any.
    pub damage: Vec<Damage>,
}

impl Engine {
    /// Reads the index. If a table turns out to be damaged, builds the index again and repeats the read.
    pub(super) fn read_index<T>(
        &self,
        read: impl Fn(&View) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let error = match read(&self.view()) {
            Err(error @ CatalogError::Damaged { .. }) => error,
            result => return result,
        };
        if self.repair_index()? { read(&self.view()) } else { Err(error) }
    }

    /// Reads all tables and verifies them. Damaged ones are built again. Returns the number of repairs.
    ///
    /// # Errors
    /// If the disk fails, or the log is damaged, too.
    pub fn verify_index(&self) -> Result<u64, CatalogError> {
        let before = self.counters.repairs.load(Ordering::Relaxed);
        self.read_index(|view| view.tables.iter().try_for_each(|table| table.verify()))?;
        Ok(self.counters.repairs.load(Ordering::Relaxed) - before)
    }

    /// Builds the tables again from the log if one of them is damaged. Returns false if this is not possible, because
    /// the log is damaged, too. The threads that read the index wait meanwhile; those that write do so if they read a
    /// damaged part.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn repair_index(&self) -> Result<bool, CatalogError> {
        let work = self.index_work.lock().unwrap_or_else(PoisonError::into_inner);
        let damaged: Vec<u64> =
            self.view().tables.iter().filter(|table| table.is_damaged()).map(|table| table.id).collect();
        // Another thread may have repaired the index while this one waited.
        if damaged.is_empty() {
            return Ok(true);
        }
        // Damage of the log stays. Without this mark, each read of the table would go through the whole log in vain.
        if self.is_beyond_repair.load(Ordering::Acquire) {
            return Ok(false);
        }
        crate::log::warn(&format!(
            "the index tables {damaged:?} are damaged; the index is built from the log"
        ));
        let rebuilt = self.build_tables(&work)?;
        if rebuilt.damage.is_empty() {
            self.counters.repairs.fetch_add(1, Ordering::Relaxed);
            crate::log::warn("the index was built from the log");
            return Ok(true);
        }
        self.is_beyond_repair.store(true, Ordering::Release);
        crate::log::warn("the index stays as it is, because the log is damaged, too");
        Ok(false)
    }

    /// Builds all tables again from the log. If the log is damaged, the tables stay, because they may know what the log
    /// has lost.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn rebuild_index(&self) -> Result<Rebuilt, CatalogError> {
        self.build_tables(&self.index_work.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn build_tables(&self, _work: &MutexGuard<'_, ()>) -> Result<Rebuilt, CatalogError> {
        // Everything behind this position is in memory.
        let (list, until) = {
            let manifest = self.lock_manifest();
            (manifest.list.clone(), manifest.applied)
        };
        let known = self.damage();
        let mut replay =
            Replay::new(self, IndexBuilder::new(self, Vec::new()), Purpose::Repair { until }, &known);
        replay.run(&list, Position::default())?;
        let read_bytes = replay.read_bytes;
        let Replayed { mut builder, mut damage, .. } = replay.finish();
        damage.retain(|damage| !known.contains(damage));
        // All of it, because the memtables of the view have only what is behind `until`.
        builder.write()?;
        let (tables, _) = builder.finish();
        if !damage.is_empty() {
            self.remove_tables(tables.iter().map(|table| table.id));
            return Ok(Rebuilt { read_bytes, damage });
        }
        let old: Vec<u64> = self.view().tables.iter().map(|table| table.id).collect();
        self.change_manifest(None, |manifest| {
            manifest.tables = tables.iter().map(|table| table.id).collect();
        })?;
        self.change_view(|view| View {
            active: Arc::clone(&view.active),
            frozen: view.frozen.clone(),
            tables: tables.clone(),
        });
        // After the manifest: the one before needs these files.
        self.remove_tables(old.into_iter());
        Ok(Rebuilt { read_bytes, damage })
    }

    pub(super) fn remove_tables(&self, ids: impl Iterator<Item = u64>) {
        for id in ids {
            // A leftover is removed at the next start.
            let _ = self.disk.remove(DIRECTORY, &file_name(id));
        }
    }
}
