//! The work on the index in the background: writes memtables to tables, and merges tables.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use plimsoll_base::clock::{SECOND, now_ns, sleep_until};

use super::manifest::{FORMAT, Manifest};
use super::merge::Merge;
use super::segment_list::{Position, SegmentList};
use super::table::{DIRECTORY, Table, TableId, TableWriter, file_name};
use super::{Engine, Frozen, View};
use crate::CatalogError;
use crate::liveness;

impl Engine {
    /// Returns true if a new memtable is due, `log_bytes` bytes of the log after the last one.
    pub(super) fn is_memtable_full(&self, log_bytes: u64) -> bool {
        let entries = self.view().active.len();
        let limits = &self.limits;
        // An empty memtable would only add an empty table.
        entries >= limits.memtable_entries || (entries > 0 && log_bytes >= limits.log_bytes_per_table)
    }

    /// Starts a new memtable; the next flush writes the current one, which contains the log up to a position, to a
    /// table.
    pub(super) fn freeze(&self, end: Position) {
        self.change_view(|view| {
            let newest = view.frozen.first().map(|newest| newest.end);
            assert!(newest <= Some(end), "a memtable ends at {end:?}, before an older one: {newest:?}");
            let frozen = Arc::new(Frozen { memtable: Arc::clone(&view.active), end });
            View {
                active: Arc::default(),
                frozen: std::iter::once(frozen).chain(view.frozen.iter().cloned()).collect(),
                tables: view.tables.clone(),
            }
        });
    }

    /// Waits while too many memtables wait to be written to tables.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn wait_for_flush(&self) -> Result<(), CatalogError> {
        /// Maximum number of memtables that wait to be written.
        const MAX_FROZEN: usize = 3;
        // After a stop, nothing waits: `write_group` refuses the transactions with the reason.
        while self.view().frozen.len() >= MAX_FROZEN && self.stop_reason().is_none() {
            // The client gets the reason instead of waiting. The flushing thread tries again.
            if let Some(error) = self.flush_error.lock().unwrap_or_else(PoisonError::into_inner).clone() {
                return Err(error);
            }
            sleep_until(now_ns() + SECOND / 1000);
        }
        Ok(())
    }

    /// Writes frozen memtables to tables until none is left, or one of them fails, which then stays in memory.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn flush(&self) -> Result<(), CatalogError> {
        let result = loop {
            match self.flush_step() {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        *self.flush_error.lock().unwrap_or_else(PoisonError::into_inner) = result.clone().err();
        result
    }

    /// Makes the segments up to a position durable, so that no index entry points to unsynced bytes.
    fn sync_log(&self, last: u32, from: u32) -> Result<(), CatalogError> {
        for segment in self.segments().iter().filter(|s| (from..=last).contains(&s.id)) {
            if let Err(reason) = segment.sync() {
                // As after a failed sync of the writer: a second one may succeed without the lost bytes.
                self.stop(&reason);
                return Err(CatalogError::Stopped(reason));
            }
        }
        Ok(())
    }

    /// Writes the oldest frozen memtable to a table. Returns false if there is none.
    ///
    /// # Errors
    /// If the disk fails; the memtable then stays in memory.
    pub fn flush_step(&self) -> Result<bool, CatalogError> {
        let _work = self.index_work.lock().unwrap_or_else(PoisonError::into_inner);
        let view = self.view();
        // The oldest first: the manifest says that everything before `applied` is in tables.
        let Some(frozen) = view.frozen.last().cloned() else { return Ok(false) };
        let id = self.take_table_id();
        // Before the table: a table must not refer to records that a power loss may remove.
        self.sync_log(frozen.end.segment, self.applied().segment)?;
        let table = self.write_table(id, &[Arc::clone(&frozen.memtable)], &[], view.tables.is_empty())?;
        let is_done = |other: &Arc<Frozen>| Arc::ptr_eq(other, &frozen);
        self.change_manifest(None, |manifest| {
            manifest.applied = frozen.end;
            manifest.tables.insert(0, id);
        })?;
        // After the manifest: if its write fails, the memtable stays and is written again.
        self.change_view(|view| {
            let is_oldest = view.frozen.last().is_some_and(is_done);
            assert!(is_oldest, "table {id} replaces a memtable that is not the oldest");
            View {
                active: Arc::clone(&view.active),
                frozen: view.frozen.iter().filter(|other| !is_done(other)).cloned().collect(),
                tables: std::iter::once(Arc::new(table)).chain(view.tables.iter().cloned()).collect(),
            }
        });
        self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Writes a memtable to a table that no manifest names yet, without removed keys if `oldest` is true.
    ///
    /// # Errors
    /// If the disk fails.
    pub(super) fn write_memtable(
        &self,
        memtable: &Arc<super::Memtable>,
        oldest: bool,
    ) -> Result<Table, CatalogError> {
        self.write_table(self.take_table_id(), &[Arc::clone(memtable)], &[], oldest)
    }

    fn take_table_id(&self) -> u64 {
        let mut manifest = self.lock_manifest();
        manifest.next_table += 1;
        manifest.next_table - 1
    }

    /// Writes the entries of memtables and tables to a new table, without removed keys if `oldest` is true.
    fn write_table(
        &self,
        id: u64,
        memtables: &[Arc<super::Memtable>],
        tables: &[Arc<Table>],
        oldest: bool,
    ) -> Result<Table, CatalogError> {
        let in_memory: usize = memtables.iter().map(|memtable| memtable.len()).sum();
        let entries = in_memory as u64 + tables.iter().map(|table| table.entries).sum::<u64>();
        let identity = TableId { index: self.lock_manifest().index, table: id };
        let mut writer = TableWriter::new(&*self.disk, identity, entries)?;
        let mut write = || {
            let mut merge = Merge::new(memtables, tables, &[])?;
            let mut last: Option<bytes::Bytes> = None;
            while let Some((key, slot)) = merge.next()? {
                liveness::at("the disk of the index");
                // A damaged table may have any order, so only entries from memory are certain to be sorted.
                let is_sorted = !tables.is_empty() || last.as_ref() < Some(&key);
                assert!(is_sorted, "the entries of table {id} are not in key order");
                last = Some(key.clone());
                if slot.is_some() || !oldest {
                    writer.add(&key, &slot)?;
                }
            }
            Ok(())
        };
        let table = write().and_then(|()| writer.finish(&*self.disk));
        if table.is_err() {
            // A part of a table is of no use. If it cannot be removed, the next start removes it.
            let _ = self.disk.remove(DIRECTORY, &file_name(id));
        }
        table
    }

    /// Changes the manifest and writes it with the current segments and damage. If the write fails, the manifest in
    /// memory stays as it was.
    pub(super) fn change_manifest(
        &self,
        clean_end: Option<Position>,
        change: impl FnOnce(&mut Manifest),
    ) -> Result<(), CatalogError> {
        let mut manifest = self.lock_manifest();
        let mut next = manifest.clone();
        change(&mut next);
        let (before, after) = (manifest.applied, next.applied);
        assert!(before <= after, "the tables end at {before:?}, and a change moves this back to {after:?}");
        next.format = FORMAT;
        next.segments = self.segment_uses();
        next.clean_end = clean_end;
        let (damage, removed) = (self.damage(), self.removed_keys());
        if damage != next.list.damage || removed != next.list.removed {
            (next.list.damage, next.list.removed) = (damage, removed);
            next.list.version += 1;
            next.list.store(&*self.disk)?;
        }
        next.store(&*self.disk)?;
        *manifest = next;
        Ok(())
    }

    /// Changes the list of segments and writes it. If the write fails, the list in memory stays as it was.
    ///
    /// # Errors
    /// If the disk fails.
    pub(super) fn change_list(&self, change: impl FnOnce(&mut SegmentList)) -> Result<(), CatalogError> {
        let mut manifest = self.lock_manifest();
        let mut list = manifest.list.clone();
        change(&mut list);
        list.version += 1;
        list.salt = self.salt.0;
        list.damage = self.damage();
        list.removed = self.removed_keys();
        list.store(&*self.disk)?;
        manifest.list = list;
        Ok(())
    }

    /// Writes the manifest, after a start or after a change of the segments.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn checkpoint(&self, clean_end: Option<Position>) -> Result<(), CatalogError> {
        self.change_manifest(clean_end, |_| {})
    }

    /// Returns the number of newest tables to merge: at least `fan_in` of similar size. With `idle`, two suffice.
    fn tables_to_merge(&self, idle: bool) -> usize {
        let view = self.view();
        let least = if idle { 2 } else { self.limits.fan_in };
        let mut sum = 0;
        let mut count = 0;
        for (index, table) in view.tables.iter().enumerate() {
            // A table joins the merge if it is not much larger than all newer ones together.
            if index > 0 && table.bytes > sum * if idle { 2 } else { 1 } + (1 << 20) && index + 1 > least {
                break;
            }
            sum += table.bytes;
            let similar = index == 0 || table.bytes <= 2 * sum;
            if !similar {
                break;
            }
            count = index + 1;
        }
        if count >= least { count } else { 0 }
    }

    /// Merges the newest tables if enough of them have a similar size. With `idle`, two suffice, so that reads have
    /// fewer tables to search. Returns false if there is nothing to merge.
    ///
    /// # Errors
    /// If a table is damaged or the disk fails; the tables then stay as they are.
    pub fn merge_step(&self, idle: bool) -> Result<bool, CatalogError> {
        match self.merge(idle) {
            Err(CatalogError::Damaged { .. }) if self.repair_index()? => Ok(true),
            merged => merged,
        }
    }

    fn merge(&self, idle: bool) -> Result<bool, CatalogError> {
        let _merge = self.merging.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.tables_to_merge(idle);
        if count == 0 {
            return Ok(false);
        }
        let view = self.view();
        // Removed keys disappear only in a merge that includes the oldest table. Else an older entry would return.
        let (newest, rest) = view.tables.split_at(count);
        let id = self.take_table_id();
        // Without the lock of the index: large tables take minutes, and commits wait for flushes, which need it.
        let merged = Arc::new(self.write_table(id, &[], newest, rest.is_empty())?);
        let replaced: Vec<u64> = newest.iter().map(|table| table.id).collect();
        let _work = self.index_work.lock().unwrap_or_else(PoisonError::into_inner);
        // A repair has built all tables again meanwhile.
        if !self.view().tables.iter().any(|table| table.id == replaced[0]) {
            self.remove_tables(std::iter::once(id));
            return Ok(true);
        }
        self.change_manifest(None, |manifest| {
            // Flushed tables may precede the merged ones meanwhile.
            let at = manifest.tables.iter().position(|id| *id == replaced[0]).unwrap_or(0);
            let is_run = manifest.tables[at..].starts_with(&replaced);
            assert!(is_run, "the merged tables {replaced:?} are not adjacent in the manifest");
            manifest.tables.retain(|id| !replaced.contains(id));
            manifest.tables.insert(at, id);
        })?;
        self.change_view(|view| {
            let at = view.tables.iter().position(|table| table.id == replaced[0]).unwrap_or(0);
            let found = view.tables[at..].iter().map(|table| table.id).take(replaced.len());
            assert!(found.eq(replaced.iter().copied()), "the merged tables {replaced:?} are not adjacent");
            let mut tables: Vec<_> =
                view.tables.iter().filter(|table| !replaced.contains(&table.id)).cloned().collect();
            tables.insert(at, Arc::clone(&merged));
            View { active: Arc::clone(&view.active), frozen: view.frozen.clone(), tables }
        });
        for id in replaced {
            // A leftover is removed at the next start.
            let _ = self.disk.remove(DIRECTORY, &file_name(id));
        }
        self.counters.merges.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Syncs the log, which contains the copies of the moved records, and removes their old segment.
    ///
    /// # Errors
    /// If the disk fails; the next start then removes the file.
    pub fn remove_segment(&self, id: u32) -> Result<(), CatalogError> {
        let _work = self.index_work.lock().unwrap_or_else(PoisonError::into_inner);
        // A start reads the log from this segment on.
        let applied = self.applied().segment;
        assert!(id < applied, "log segment {id} is removed, but a start reads from segment {applied}");
        // The copies must be durable before the originals disappear. Copies in older segments are, since the tables
        // contain them.
        self.sync_log(u32::MAX, applied)?;
        // Before the removal of the file: a listed segment whose file is missing is taken for lost, and a file that is
        // not listed for a leftover.
        self.change_list(|list| list.segments.retain(|listed| listed.id != id))?;
        // Also in the copy of the list: if the list is damaged later, a start would take the removed segment for lost.
        self.checkpoint(None)?;
        // Readers that have opened the file go on with it. Others find the new places of the records.
        let removed = self.segments.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
        assert!(removed.is_some(), "log segment {id} is removed twice");
        self.disk.remove(super::segment::DIRECTORY, &super::segment::file_name(id))?;
        self.disk.sync_directory(super::segment::DIRECTORY)?;
        Ok(())
    }

    /// Returns the position up to which the tables contain all changes.
    pub fn applied(&self) -> Position {
        self.lock_manifest().applied
    }
}
