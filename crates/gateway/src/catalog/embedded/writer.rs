//! The only writer of the log: executes transactions, writes their changes as one group, and applies them to the index.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_base::clock::now_ns;

use super::memtable::Memtable;
use super::merge::Merge;
use super::record::{Change, Group, MAX_RECORDS, hash};
use super::roll::create_segment;
use super::segment::{HEADER, Segment};
use super::segment_list::Position;
use super::synced::SyncedMark;
use super::table::Slot;
use super::{Engine, Frozen, View, head_only, record_len};
use crate::catalog::{CatalogError, LogPosition, Row, Transaction, Value, Work};
use crate::object::keys;

/// Segment number of a row that the current group has written.
const PENDING: u32 = u32::MAX;

/// The state of the end of the log.
pub struct Writer {
    /// Engine that the writer writes for.
    pub engine: Arc<Engine>,
    segment: Arc<Segment>,
    end: Position,
    /// Offset up to which the current segment is synced.
    durable: u64,
    mark: SyncedMark,
    /// True if the end of the current segment may be listed already, because the next one could not be created.
    must_roll: bool,
    log_bytes_since_table: u64,
    space_checked_ns: u64,
    has_space: bool,
}

/// Knowledge of a group about a key: its row before the group, and its last change in the group.
#[derive(Default)]
struct Known {
    base: Option<Slot>,
    /// Index of the last change in the group.
    change: Option<usize>,
}

/// The transactions of one group.
struct GroupTransaction<'a> {
    engine: &'a Engine,
    known: BTreeMap<Vec<u8>, Known>,
    changes: Vec<Change>,
    /// Number of changes of committed transactions.
    committed: usize,
    uses_reserve: bool,
    ends_segment: bool,
}

impl GroupTransaction<'_> {
    fn pending(&self, change: usize) -> Option<Row> {
        let value = self.changes[change].value.as_ref()?;
        let place = LogPosition { segment: PENDING, offset: change as u32, ..LogPosition::default() };
        Some(Row { head: value.head.clone(), place, loaded: None })
    }

    /// Returns true if an earlier transaction of the group, or this one, has changed a key.
    fn is_changed(&self, key: &[u8]) -> bool {
        self.known.get(key).is_some_and(|known| known.change.is_some())
    }

    fn base(&mut self, key: &[u8]) -> Result<Slot, CatalogError> {
        if let Some(Known { base: Some(base), .. }) = self.known.get(key) {
            return Ok(base.clone());
        }
        // A key whose record is damaged can be written again, so damage is no error here.
        let base = self.engine.read_index(|view| view.get(key, hash(key)))?;
        self.known.entry(key.to_vec()).or_default().base = Some(base.clone());
        Ok(base)
    }

    fn push(&mut self, key: Vec<u8>, value: Option<Value>) {
        self.known.entry(key.clone()).or_default().change = Some(self.changes.len());
        self.changes.push(Change { key, value });
    }

    /// Adds the time, if a backup follows the log. It is the last record of its group, so that the time of a copied row
    /// is not taken for that of the group.
    fn stamp(&mut self) {
        if self.changes.is_empty() {
            return;
        }
        if let Some(now_ms) = self.engine.next_stamp() {
            self.push(keys::TIME.to_vec(), Some(head_only(now_ms.to_be_bytes().to_vec())));
        }
    }

    /// Reads the rows of changed keys that no transaction has read. Nothing may fail after the group is written.
    fn look_up_bases(&mut self) -> Result<(), CatalogError> {
        for (key, known) in &mut self.known {
            if known.change.is_some() && known.base.is_none() {
                known.base = Some(self.engine.read_index(|view| view.get(key, hash(key)))?);
            }
        }
        Ok(())
    }

    /// Drops the changes of a transaction that is not committed.
    fn roll_back(&mut self) {
        self.changes.truncate(self.committed);
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
            _ if self.is_changed(key) => {}
            Some(row) => self.engine.check_damage(hash(key), Some(row))?,
            // Whether there is no row because of damage is a matter of `check_absent`.
            None => self.engine.check_known_damage(key)?,
        }
        Ok(row)
    }

    fn last_known(&mut self, key: &[u8]) -> Result<Option<Row>, CatalogError> {
        if let Some(Known { change: Some(change), .. }) = self.known.get(key) {
            return Ok(self.pending(*change));
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
        let written = written.filter_map(|(key, known)| Some((key.clone(), self.pending(known.change?)?)));
        let written = written.into_iter().next();
        Ok(match (stored, written) {
            (Some(a), Some(b)) => Some(if a.0 < b.0 { a } else { b }),
            (a, b) => a.or(b),
        })
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
        self.engine.is_full.load(Ordering::Relaxed)
    }

    fn end_segment(&mut self) {
        self.ends_segment = true;
    }
}

impl Writer {
    /// Creates a writer that continues behind `end`, in a new segment with a number greater than `newest`.
    ///
    /// # Errors
    /// If the segment cannot be created.
    pub fn new(
        engine: Arc<Engine>,
        end: Position,
        newest: u32,
        log_bytes_since_table: u64,
    ) -> Result<Writer, CatalogError> {
        let applied = engine.applied();
        assert!(applied.segment <= end.segment, "the log ends at {end:?}, before the tables: {applied:?}");
        let segment = create_segment(&engine, &end, newest)?;
        let end = Position { segment: segment.id, offset: HEADER, group: end.group };
        // After the list of segments: until then, the old mark may be the only proof that the log was longer.
        let mark = SyncedMark::create(&*engine.disk, &end)?;
        engine.set_written(&end);
        engine.set_synced(end);
        Ok(Writer {
            engine,
            segment,
            end,
            durable: HEADER,
            mark,
            must_roll: false,
            log_bytes_since_table,
            space_checked_ns: 0,
            has_space: true,
        })
    }

    /// Returns the end of the log.
    pub fn end(&self) -> Position {
        self.end
    }

    /// Executes transactions one after the other, writes their changes as one group and, if `sync` is true, makes it
    /// durable. Returns the result of each transaction.
    pub fn commit(&mut self, works: Vec<Work>, sync: bool) -> Vec<Result<(), CatalogError>> {
        let count = works.len();
        if let Some(reason) = self.engine.stop_reason() {
            return vec![Err(CatalogError::Stopped(reason)); count];
        }
        let engine = Arc::clone(&self.engine);
        let mut group = GroupTransaction {
            engine: &engine,
            known: BTreeMap::new(),
            changes: Vec::new(),
            committed: 0,
            uses_reserve: false,
            ends_segment: false,
        };
        let mut results = Vec::with_capacity(count);
        for work in works {
            let ends_segment = group.ends_segment;
            group.uses_reserve = false;
            let mut result = work(&mut group);
            if matches!(result, Ok(true)) {
                result = self.admit(&group).map(|()| true);
            }
            match result {
                Ok(true) => group.committed = group.changes.len(),
                _ => {
                    group.roll_back();
                    group.ends_segment = ends_segment;
                }
            }
            results.push(result.map(|_| ()));
        }
        let (committed, all) = (group.committed, group.changes.len());
        assert_eq!(committed, all, "a group contains changes of a transaction that was not committed");
        // Before the write: a failed read may still reject the group, but no group that is in the log may be rejected.
        group.stamp();
        let looked_up = group.look_up_bases();
        let GroupTransaction { known, changes, ends_segment, .. } = group;
        let mut written = looked_up;
        if written.is_ok() && !changes.is_empty() {
            written = self.write(&changes, sync).map(|places| self.apply(changes, &places, known));
        }
        if let Err(error) = written {
            engine.forget_stamp();
            return vec![Err(error); count];
        }
        if ends_segment {
            // The group is in the log. A later group ends the segment if this fails.
            match self.roll() {
                Ok(()) => self.freeze(),
                Err(error) => crate::log::warn(&format!("a log segment was not ended: {error}")),
            }
        }
        self.engine.counters.transactions.fetch_add(count as u64, Ordering::Relaxed);
        results
    }

    /// Checks that the log can hold the changes of the last transaction of a group. A transaction that it refuses does
    /// not affect the others of its group.
    fn admit(&mut self, group: &GroupTransaction<'_>) -> Result<(), CatalogError> {
        let changes = &group.changes[group.committed..];
        let too_long = |change: &&Change| {
            let value = change.value.as_ref();
            change.key.len() > usize::from(u16::MAX)
                || value.is_some_and(|value| value.head.len() > usize::from(u16::MAX))
                || change.record_len() > u32::MAX as usize
        };
        if let Some(change) = changes.iter().find(too_long) {
            let (key, record) = (change.key.len(), change.record_len());
            let text = format!("a key of {key} bytes or its record of {record} bytes is too long");
            return Err(CatalogError::Io(text));
        }
        // The time is one more record.
        if group.changes.len() >= MAX_RECORDS as usize {
            return Err(CatalogError::Io(format!("a transaction has more than {MAX_RECORDS} changes")));
        }
        // A removal frees space, so it may use the reserve.
        let needs_space = !group.uses_reserve && changes.iter().any(|change| change.value.is_some());
        if needs_space { self.check_space() } else { Ok(()) }
    }

    fn check_space(&mut self) -> Result<(), CatalogError> {
        let now = now_ns();
        if now.saturating_sub(self.space_checked_ns) >= self.engine.limits.space_check_ns {
            self.space_checked_ns = now;
            self.has_space = self.engine.disk.free_bytes()? >= self.engine.limits.reserve_bytes;
            self.engine.is_full.store(!self.has_space, Ordering::Relaxed);
        }
        if self.has_space { Ok(()) } else { Err(CatalogError::DiskFull) }
    }

    /// Writes a group to the log. Returns the place of each record.
    fn write(&mut self, changes: &[Change], sync: bool) -> Result<Vec<LogPosition>, CatalogError> {
        if self.must_roll || self.end.offset >= self.engine.limits.segment_bytes {
            self.roll()?;
        }
        let base = self.end.offset;
        let length = self.segment.bytes.load(Ordering::Relaxed);
        assert_eq!(length, base, "log segment {} does not end where the next group begins", self.segment.id);
        // A replay takes damage before this offset for damage, and behind it for a write that was cut off.
        assert!(self.durable <= base, "the log is synced up to {}, behind its end {base}", self.durable);
        let table = changes.iter().map(|change| (change.record_len() as u32, hash(&change.key))).collect();
        let group = Group { number: self.end.group, durable: self.durable, table };
        let mut buffer = Vec::with_capacity(group.header_len() + group.records_len() as usize);
        let salt = self.engine.salt;
        group.encode(salt, &mut buffer, self.segment.id, base);
        let places: Vec<LogPosition> =
            changes.iter().map(|change| change.encode(salt, &mut buffer, self.segment.id, base)).collect();
        let announced = group.header_len() as u64 + group.records_len();
        assert_eq!(buffer.len() as u64, announced, "group {} has an unexpected length", group.number);
        if let Err(error) = self.segment.file.write_at(base, &buffer) {
            // The group is not in the log as long as its bytes are removed again.
            if let Err(second) = self.segment.file.truncate(base) {
                self.engine.stop(&format!("a write failed ({error}), and so did its removal ({second})"));
            }
            self.has_space = false;
            self.space_checked_ns = now_ns();
            return Err(error.into());
        }
        self.end.offset += buffer.len() as u64;
        self.end.group += 1;
        self.engine.set_written(&self.end);
        let next = self.end.group;
        assert_eq!(next, group.number + 1, "group {next} follows group {} in the log", group.number);
        self.segment.bytes.store(self.end.offset, Ordering::Relaxed);
        self.log_bytes_since_table += buffer.len() as u64;
        let counters = &self.engine.counters;
        counters.groups.fetch_add(1, Ordering::Relaxed);
        counters.log_bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        if sync {
            // Before the index shows the group: readers must not see a group that a power loss may remove.
            if let Err(error) = self.sync() {
                // Else the next start could find the group, whose transactions have got an error.
                let _ = self.segment.file.truncate(base);
                return Err(error);
            }
            let (durable, end) = (self.durable, self.end.offset);
            assert_eq!(durable, end, "group {} would be acknowledged before its sync", group.number);
        }
        Ok(places)
    }

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// If the disk reports an error. Writes are then stopped, because a second sync could succeed without the bytes.
    pub fn sync(&mut self) -> Result<(), CatalogError> {
        if self.durable == self.end.offset {
            return Ok(());
        }
        let start = now_ns();
        let synced = self.segment.sync();
        self.engine.counters.sync_ns.fetch_add(now_ns() - start, Ordering::Relaxed);
        if let Err(reason) = synced {
            self.engine.stop(&reason);
            return Err(CatalogError::Stopped(reason));
        }
        self.durable = self.end.offset;
        self.mark.set(&self.end);
        self.engine.set_synced(self.end);
        Ok(())
    }

    /// Ends the current segment and starts the next one.
    fn roll(&mut self) -> Result<(), CatalogError> {
        // A replay drops an incomplete group only from the last segment. So this one must be durable before the next
        // one exists.
        self.sync()?;
        let (durable, end, id) = (self.durable, self.end.offset, self.segment.id);
        assert_eq!(durable, end, "log segment {id} ends before it is durable");
        // A start ignores what is behind the listed end of a segment. If the list fails to be written, it may be on the
        // disk nevertheless.
        self.must_roll = true;
        self.segment = create_segment(&self.engine, &self.end, self.end.segment)?;
        self.end = Position { segment: self.segment.id, offset: HEADER, group: self.end.group };
        self.durable = HEADER;
        self.must_roll = false;
        Ok(())
    }

    /// Adds the changes of a group to the index.
    fn apply(&mut self, changes: Vec<Change>, places: &[LogPosition], known: BTreeMap<Vec<u8>, Known>) {
        let engine = &self.engine;
        assert_eq!(places.len(), changes.len(), "every change of a group needs a place in the log");
        let mut live: BTreeMap<u32, i64> = BTreeMap::new();
        engine.forget_damage(changes.iter().map(|change| (hash(&change.key), change.value.is_some())));
        let mut entries = Vec::with_capacity(known.len());
        let mut changes: Vec<Option<Change>> = changes.into_iter().map(Some).collect();
        for (key, known) in known {
            let Some(change) = known.change.and_then(|index| Some((index, changes[index].take()?))) else {
                continue;
            };
            let (index, change) = change;
            let place = &places[index];
            let end = u64::from(place.offset) + record_len(place).unsigned_abs();
            assert!(change.key == key, "change {index} of a group belongs to another key");
            assert!(known.base.is_some(), "the row that change {index} of a group replaces is unknown");
            assert_eq!(place.segment, self.segment.id, "change {index} of a group is in another log segment");
            assert!(end <= self.end.offset, "change {index} of a group ends at {end}, behind the log");
            if let Some(Some(old)) = known.base {
                *live.entry(old.place.segment).or_default() -= record_len(&old.place);
            }
            let slot = change.value.map(|value| Row { head: value.head, place: places[index], loaded: None });
            if slot.is_some() {
                *live.entry(places[index].segment).or_default() += record_len(&places[index]);
            }
            entries.push((key, slot));
        }
        engine.view().active.insert(entries.into_iter());
        for (id, bytes) in live {
            if let Some(segment) = engine.segment(id) {
                segment.live.fetch_add(bytes, Ordering::Relaxed);
            }
        }
        self.freeze_if_full();
    }

    fn freeze_if_full(&mut self) {
        let limits = &self.engine.limits;
        let entries = self.engine.view().active.len();
        if entries >= limits.memtable_entries
            || (entries > 0 && self.log_bytes_since_table >= limits.log_bytes_per_table)
        {
            self.freeze();
        }
    }

    /// Starts a new memtable; the next flush writes the current one to a table.
    pub fn freeze(&mut self) {
        self.log_bytes_since_table = 0;
        let end = self.end;
        self.engine.change_view(|view| {
            let newest = view.frozen.first().map(|newest| newest.end);
            assert!(newest <= Some(end), "a memtable ends at {end:?}, before an older one: {newest:?}");
            let frozen = Arc::new(Frozen { memtable: Arc::clone(&view.active), end });
            View {
                active: Arc::new(Memtable::default()),
                frozen: std::iter::once(frozen).chain(view.frozen.iter().cloned()).collect(),
                tables: view.tables.clone(),
            }
        });
    }
}
