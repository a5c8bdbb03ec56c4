//! The embedded catalog: a log of segments, which is the truth, and an index of sorted tables derived from it.
//!
//! A transaction is durable when its group of records is synced to the log. The index maps keys to places in the log.
//! Its newest entries are in memory; a crash loses only entries that the next start reads from the end of the log.

mod bloom;
mod builder;
pub mod catalog;
pub mod changes;
pub mod compaction;
pub mod document;
pub mod follow;
mod group;
pub mod maintenance;
pub mod manifest;
mod memtable;
mod merge;
mod pending;
pub mod reader;
pub mod record;
pub mod recovery;
mod repair;
mod replay;
pub mod replica;
mod roll;
pub mod segment;
pub mod segment_list;
pub mod snapshot;
mod synced;
mod table;
pub mod writer;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;

use self::changes::ChangedKeys;
use self::follow::Followed;
use self::manifest::{Manifest, SegmentUse};
use self::memtable::Memtable;
use self::merge::Merge;
use self::record::{Salt, hash};
use self::segment::Segment;
use self::segment_list::{Damage, Position};
use self::table::{Slot, Table};
use super::{CatalogError, LogPosition, Row, Scan, Value};
use crate::disk::Disk;

/// Directory of the index.
pub const INDEX_DIRECTORY: &str = table::DIRECTORY;

/// Limits that trigger the work of the engine.
#[derive(Debug, Clone, Copy)]
pub struct CatalogLimits {
    /// Length in bytes at which a segment is complete.
    pub segment_bytes: u64,
    /// Number of entries at which the memtable is written to a table.
    pub memtable_entries: usize,
    /// Bytes of the log after which the memtable is written to a table in any case. It bounds the time of a start.
    pub log_bytes_per_table: u64,
    /// Number of tables of similar size that are merged.
    pub fan_in: usize,
    /// Free space in bytes below which writes are refused.
    pub reserve_bytes: u64,
    /// Nanoseconds between two checks of the free space.
    pub space_check_ns: u64,
    /// Share of garbage from which a segment is compacted.
    pub garbage_share: f64,
    /// The same while nothing else writes.
    pub idle_garbage_share: f64,
}

impl Default for CatalogLimits {
    fn default() -> CatalogLimits {
        CatalogLimits {
            // The index stores offsets with 32 bits, and a segment exceeds this length by at most one group.
            segment_bytes: 256 << 20,
            // The size of the ballast assumes tables of about 10 MB, which this limit gives: see disk/ballast.rs.
            memtable_entries: 64 * 1024,
            log_bytes_per_table: 256 << 20,
            fan_in: 4,
            reserve_bytes: 128 << 20,
            space_check_ns: 100_000_000,
            garbage_share: 0.3,
            idle_garbage_share: 0.05,
        }
    }
}

/// A memtable that no longer changes, and the position in the log behind its last change.
struct Frozen {
    memtable: Arc<Memtable>,
    end: Position,
}

/// The parts of the index. The active memtable gets further rows.
struct View {
    active: Arc<Memtable>,
    /// From the newest to the oldest.
    frozen: Vec<Arc<Frozen>>,
    /// From the newest to the oldest.
    tables: Vec<Arc<Table>>,
}

impl View {
    fn memtables(&self) -> Vec<Arc<Memtable>> {
        let frozen = self.frozen.iter().map(|frozen| Arc::clone(&frozen.memtable));
        std::iter::once(Arc::clone(&self.active)).chain(frozen).collect()
    }

    fn get(&self, key: &[u8], hash: u64) -> Result<Slot, CatalogError> {
        // From the newest to the oldest. A removal ends the search, too, because older entries have the removed row.
        if let Some(slot) = self.active.get(key) {
            return Ok(slot);
        }
        for frozen in &self.frozen {
            if let Some(slot) = frozen.memtable.get(key) {
                return Ok(slot);
            }
        }
        for table in &self.tables {
            if let Some(slot) = table.get(key, hash)? {
                return Ok(slot);
            }
        }
        Ok(None)
    }
}

/// Damage that affects keys until they are written again.
#[derive(Default)]
struct DamagedKeys {
    /// Damage by hash of the key.
    known: HashMap<u64, Damage>,
    /// Damage whose keys are unknown.
    unknown: Vec<Damage>,
    /// Damage of bytes that the index knows, so that only reads of them fail.
    indexed: Vec<Damage>,
    /// Hashes of keys that were removed after the damage whose keys are unknown.
    removed: BTreeSet<u64>,
}

/// Counters of the engine, for metrics.
#[derive(Debug, Default)]
pub struct Counters {
    /// Groups written to the log.
    pub groups: AtomicU64,
    /// Transactions in these groups.
    pub transactions: AtomicU64,
    /// Bytes written to the log.
    pub log_bytes: AtomicU64,
    /// Time spent in syncs of the log, in nanoseconds.
    pub sync_ns: AtomicU64,
    /// Tables written from memtables.
    pub flushes: AtomicU64,
    /// Merges of tables.
    pub merges: AtomicU64,
    /// Segments removed by compaction.
    pub compacted_segments: AtomicU64,
    /// Bytes copied by compaction.
    pub compacted_bytes: AtomicU64,
    /// Number of times that the index was built again because a table was damaged.
    pub repairs: AtomicU64,
}

/// The log and its index, without the thread that writes.
pub struct Engine {
    disk: Arc<dyn Disk>,
    /// Secret number of the catalog.
    pub salt: Salt,
    /// Limits that trigger the work of the engine.
    pub limits: CatalogLimits,
    view: RwLock<Arc<View>>,
    segments: RwLock<BTreeMap<u32, Arc<Segment>>>,
    /// State of the manifest except for the use of the segments. The lock covers writes of the manifest and of the list
    /// of segments.
    manifest: Mutex<Manifest>,
    damaged: RwLock<DamagedKeys>,
    has_damage: AtomicBool,
    stopped: RwLock<Option<String>>,
    is_stopped: AtomicBool,
    /// Segments that compaction cannot move, because a record in them is damaged.
    unmovable: Mutex<BTreeSet<u32>>,
    /// Held by every change of the tables and every removal of a segment.
    index_work: Mutex<()>,
    /// Held by a merge of tables while it writes the new one.
    merging: Mutex<()>,
    /// True if a damaged table could not be repaired, because the log is damaged, too.
    is_beyond_repair: AtomicBool,
    /// Reason why the oldest memtable was not written to a table; `None` after a success.
    flush_error: Mutex<Option<CatalogError>>,
    /// True if the last check found too little free space.
    is_full: AtomicBool,
    /// State that a backup of the log needs.
    followed: Followed,
    /// Keys that were changed, for somebody who copies the catalog.
    pub changes: ChangedKeys,
    /// Counters for metrics.
    pub counters: Counters,
}

impl Engine {
    fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change_view(&self, change: impl FnOnce(&View) -> View) {
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        *view = Arc::new(change(&view));
    }

    fn lock_manifest(&self) -> std::sync::MutexGuard<'_, Manifest> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the segments in the order of their numbers.
    pub fn segments(&self) -> Vec<Arc<Segment>> {
        self.segments.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Returns a segment; `None` if the log has none of this number.
    pub fn segment(&self, id: u32) -> Option<Arc<Segment>> {
        self.segments.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    fn segment_uses(&self) -> Vec<SegmentUse> {
        let usage = |s: &Arc<Segment>| SegmentUse {
            id: s.id,
            bytes: s.bytes.load(Ordering::Relaxed),
            // After a crash, a replay subtracts some records a second time, so the estimate may be below zero.
            live: s.live.load(Ordering::Relaxed).max(0) as u64,
        };
        self.segments().iter().map(usage).collect()
    }

    /// Stops all writes until the next start.
    fn stop(&self, reason: &str) {
        self.stop_for(&format!("{reason}; check the disk and restart"));
    }

    /// Stops all writes for ever.
    pub fn stop_for(&self, reason: &str) {
        // Before the flag: whoever finds the flag must also find the reason, without which writes would go on.
        *self.stopped.write().unwrap_or_else(PoisonError::into_inner) = Some(reason.to_string());
        self.is_stopped.store(true, Ordering::Release);
    }

    /// Returns the reason for which writes are stopped; `None` if they are not.
    pub fn stop_reason(&self) -> Option<String> {
        if !self.is_stopped.load(Ordering::Acquire) {
            return None;
        }
        self.stopped.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the damage that affects keys.
    pub fn damage(&self) -> Vec<Damage> {
        let damaged = self.damaged.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Damage> =
            damaged.known.values().chain(&damaged.unknown).chain(&damaged.indexed).cloned().collect();
        all.sort_by_key(|damage| (damage.segment, damage.offset, damage.keys));
        all
    }

    /// Returns the hashes of the keys that were removed after the damage whose keys are unknown.
    fn removed_keys(&self) -> Vec<u64> {
        let damaged = self.damaged.read().unwrap_or_else(PoisonError::into_inner);
        damaged.removed.iter().copied().collect()
    }

    /// Checks that damage leaves no doubt about the row of a key. A lost record may have replaced or removed every row
    /// before it in the log, but none behind it.
    fn check_damage(&self, hash: u64, row: Option<&Row>) -> Result<(), CatalogError> {
        if !self.has_damage.load(Ordering::Acquire) {
            return Ok(());
        }
        let damaged = self.damaged.read().unwrap_or_else(PoisonError::into_inner);
        let is_newer = |damage: &&Damage| {
            row.is_none_or(|row| {
                (row.place.segment, u64::from(row.place.offset)) < (damage.segment, damage.offset)
            })
        };
        // Without a row, only a removal behind the damage makes it certain that the key does not exist.
        let is_removed = row.is_none() && damaged.removed.contains(&hash);
        let unknown = damaged.unknown.iter().filter(|_| !is_removed).find(is_newer);
        damaged.known.get(&hash).or(unknown).map_or(Ok(()), |damage| Err(damage.error()))
    }

    /// Checks that the last record of a key is not lost. The rows of a scan are not checked.
    fn check_known_damage(&self, key: &[u8]) -> Result<(), CatalogError> {
        if !self.has_damage.load(Ordering::Acquire) {
            return Ok(());
        }
        let damaged = self.damaged.read().unwrap_or_else(PoisonError::into_inner);
        damaged.known.get(&hash(key)).map_or(Ok(()), |damage| Err(damage.error()))
    }

    /// Forgets the damage whose keys are unknown, and the segments that are missing: an operator accepts that some keys
    /// may be missing or have an older value.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn accept_unknown_damage(&self) -> Result<(), CatalogError> {
        {
            let mut damaged = self.damaged.write().unwrap_or_else(PoisonError::into_inner);
            damaged.unknown.clear();
            damaged.removed.clear();
            damaged.indexed.clear();
        }
        // Compaction has left these segments because of rows in doubt, which are certain now. Damage is found again.
        self.unmovable.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let open: BTreeSet<u32> = self.segments().iter().map(|segment| segment.id).collect();
        // Otherwise each start would report the segments without a file as lost again.
        self.change_list(|list| list.segments.retain(|listed| open.contains(&listed.id)))?;
        self.checkpoint(None)
    }

    /// Forgets the damage of keys that have been written again or removed. Each key is given by its hash, and true if
    /// it was written.
    fn forget_damage(&self, keys: impl Iterator<Item = (u64, bool)>) {
        if !self.has_damage.load(Ordering::Acquire) {
            return;
        }
        let mut damaged = self.damaged.write().unwrap_or_else(PoisonError::into_inner);
        let has_unknown = !damaged.unknown.is_empty();
        for (hash, is_written) in keys {
            damaged.known.remove(&hash);
            // Damage with unknown keys also puts keys without a row in doubt. This removal ends the doubt.
            if has_unknown && !is_written {
                damaged.removed.insert(hash);
            }
        }
    }

    /// Returns the row of a key.
    ///
    /// # Errors
    /// If the index or the record of the key is damaged.
    pub fn get(&self, key: &[u8]) -> Result<Slot, CatalogError> {
        // Before the index: a row that ends the doubt is inserted first, so without doubt the index has it.
        self.check_known_damage(key)?;
        let hash = hash(key);
        let slot = self.read_index(|view| view.get(key, hash))?;
        self.check_damage(hash, slot.as_ref())?;
        Ok(slot)
    }

    /// Reads the properties of a row and, if `with_body` is true, its body.
    ///
    /// # Errors
    /// If they are damaged or cannot be read; [`CatalogError::Changed`] if the row was replaced or removed since it was
    /// read, and its record is gone.
    pub fn read(&self, key: &[u8], row: &Row, with_body: bool) -> Result<Value, CatalogError> {
        // A row of a scan was not checked, and the lost record may have replaced it.
        self.check_known_damage(key)?;
        let mut place = row.place;
        loop {
            if let Some(segment) = self.segment(place.segment) {
                let (properties, body) = segment.read(&place, with_body)?;
                return Ok(Value { head: row.head.clone(), properties, body });
            }
            // Compaction has moved the record since the row was read, or has removed it, because the key has a newer
            // one.
            let now = self.get(key)?.filter(|now| now.head == row.head).ok_or(CatalogError::Changed)?.place;
            match now != place {
                true => place = now,
                false => {
                    return Err(CatalogError::Damaged {
                        file: format!("{}/{}", segment::DIRECTORY, segment::file_name(place.segment)),
                        offset: u64::from(place.offset),
                        problem: "the file is missing".into(),
                    });
                }
            }
        }
    }

    /// Returns all rows in key order.
    pub fn scan(&self) -> EngineScan<'_> {
        EngineScan { engine: self, view: self.view(), merge: None, next: Vec::new() }
    }

    /// Returns the number of entries in the tables and memtables; keys in several of them count several times.
    pub fn entries(&self) -> u64 {
        let view = self.view();
        let memory: usize = view.memtables().iter().map(|memtable| memtable.len()).sum();
        view.tables.iter().map(|table| table.entries).sum::<u64>() + memory as u64
    }

    /// Returns the bytes of the tables.
    pub fn index_bytes(&self) -> u64 {
        self.view().tables.iter().map(|table| table.bytes).sum()
    }

    /// Returns the free bytes of the disk.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn free_bytes(&self) -> std::io::Result<u64> {
        self.disk.free_bytes()
    }

    /// Checks that writes are possible.
    ///
    /// # Errors
    /// Describes why they are not: an earlier error of the disk, or too little free space.
    pub fn check_writes(&self) -> Result<(), CatalogError> {
        if let Some(reason) = self.stop_reason() {
            return Err(CatalogError::Stopped(reason));
        }
        if self.disk.free_bytes()? < self.limits.reserve_bytes {
            return Err(CatalogError::DiskFull);
        }
        Ok(())
    }

    /// Returns the number of tables.
    pub fn tables(&self) -> usize {
        self.view().tables.len()
    }
}

/// Rows of an engine in key order. Rows that are written meanwhile may be among them.
pub struct EngineScan<'a> {
    engine: &'a Engine,
    view: Arc<View>,
    merge: Option<Merge>,
    /// Key at which the scan continues after a repair of the index.
    next: Vec<u8>,
}

impl EngineScan<'_> {
    /// Builds the index again if a table is damaged, and continues in the new index. Returns the error if this is not
    /// possible.
    fn recover(&mut self, error: CatalogError) -> Result<(), CatalogError> {
        let is_damaged = matches!(error, CatalogError::Damaged { .. });
        if !is_damaged || !self.engine.repair_index()? {
            return Err(error);
        }
        // A new view, because the old one still has the damaged table.
        self.view = self.engine.view();
        self.merge = Some(Merge::new(&self.view.memtables(), &self.view.tables, &self.next)?);
        Ok(())
    }
}

impl Scan for EngineScan<'_> {
    fn seek(&mut self, from: Bound<&[u8]>) -> Result<(), CatalogError> {
        let start = match from {
            Bound::Included(key) => key.to_vec(),
            // The next possible key in the order of byte strings.
            Bound::Excluded(key) => [key, &[0]].concat(),
            Bound::Unbounded => Vec::new(),
        };
        self.next = start;
        match Merge::new(&self.view.memtables(), &self.view.tables, &self.next) {
            Ok(merge) => {
                self.merge = Some(merge);
                Ok(())
            }
            Err(error) => self.recover(error),
        }
    }

    fn next(&mut self) -> Result<Option<(Vec<u8>, Row)>, CatalogError> {
        if self.merge.is_none() {
            self.seek(Bound::Unbounded)?;
        }
        loop {
            let Some(merge) = &mut self.merge else { return Ok(None) };
            match merge.next() {
                Ok(None) => return Ok(None),
                Ok(Some((key, slot))) => {
                    self.next.clear();
                    self.next.extend_from_slice(&key);
                    self.next.push(0);
                    if let Some(row) = slot {
                        return Ok(Some((Vec::from(key), row)));
                    }
                }
                Err(error) => self.recover(error)?,
            }
        }
    }
}

/// Returns the length in bytes of the record at a place.
fn record_len(place: &LogPosition) -> i64 {
    i64::from(place.skip) + i64::from(place.properties) + i64::from(place.body)
}

/// Returns an empty value with this head, whose properties and body are not needed.
#[must_use]
pub fn head_only(head: impl Into<Bytes>) -> Value {
    Value { head: head.into(), ..Value::default() }
}
