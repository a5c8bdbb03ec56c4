//! The only writer of the log: executes transactions, writes their changes as one group, and applies them to the index.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use plimsoll_base::clock::now_ns;

use super::group::{GroupTransaction, Known};
use super::pending::PendingRows;
use super::record::{Change, Group, MAX_RECORDS, hash};
use super::roll::create_segment;
use super::segment::{HEADER, Segment};
use super::segment_list::Position;
use super::synced::SyncedMark;
use super::{Engine, record_len};
use crate::{CatalogError, LogPosition, Row, Work};

/// The state of the end of the log.
pub struct Writer {
    /// Engine that the writer writes for.
    pub engine: Arc<Engine>,
    segment: Arc<Segment>,
    /// Number of the first group of the segment.
    first_group: u64,
    end: Position,
    /// Position behind the last group that the index contains.
    applied: Position,
    /// Rows of the groups that are written and not applied.
    pending: PendingRows,
    /// True if a new memtable begins behind the next group that is applied.
    freezes: bool,
    /// True if a journal makes groups durable: a group is acknowledged when it is applied, not when it is synced.
    is_journaled: bool,
    /// Offset up to which the current segment is synced.
    durable: u64,
    mark: SyncedMark,
    /// True if the end of the current segment may be listed already, because the next one could not be created.
    must_roll: bool,
    log_bytes_since_table: u64,
    space_checked_ns: u64,
    has_space: bool,
}

/// A group in the log that readers do not see yet.
pub struct WrittenGroup {
    /// Number of the group.
    pub number: u64,
    /// Number of the first group of its segment.
    pub first_group: u64,
    changes: Vec<Change>,
    known: BTreeMap<Vec<u8>, Known>,
    /// Place of each change.
    places: Vec<LogPosition>,
    /// Offset of the group in its segment.
    pub offset: u64,
    /// Bytes of the group.
    pub bytes: Bytes,
    /// Position behind the group.
    pub end: Position,
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
        // The replay has synced everything before this position, and the header of the segment is durable.
        engine.set_synced(end);
        Ok(Writer {
            engine,
            segment,
            first_group: end.group,
            end,
            applied: end,
            pending: PendingRows::default(),
            freezes: false,
            is_journaled: false,
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

    /// Lets a journal make groups durable, from now on.
    pub fn set_journaled(&mut self) {
        self.is_journaled = true;
    }

    /// Executes transactions one after the other, writes their changes as one group and, if `sync` is true, makes it
    /// durable. Returns the result of each transaction.
    pub fn commit(&mut self, works: Vec<Work>, sync: bool) -> Vec<Result<(), CatalogError>> {
        let (results, group) = self.write_group(works, sync);
        if let Some(group) = group {
            self.apply(group);
        }
        results
    }

    /// Executes transactions one after the other, and writes their changes as one group, which readers do not see until
    /// it is applied. Returns the result of each transaction, and the group; `None` if there are no changes.
    pub fn write_group(
        &mut self,
        works: Vec<Work>,
        sync: bool,
    ) -> (Vec<Result<(), CatalogError>>, Option<WrittenGroup>) {
        let count = works.len();
        // After a failed sync, a later one may succeed without the lost bytes. So nothing is written until a restart.
        if let Some(reason) = self.engine.stop_reason() {
            return (vec![Err(CatalogError::Stopped(reason)); count], None);
        }
        let engine = Arc::clone(&self.engine);
        let pending = std::mem::take(&mut self.pending);
        let mut group = GroupTransaction::new(&engine, &pending);
        let results = self.execute(works, &mut group);
        // Before the write: a failed read may still reject the group, but no group that is in the log may be rejected.
        let stamped_ms = engine.stamped_ms();
        group.stamp();
        let looked_up = group.look_up_bases();
        let GroupTransaction { known, changes, ends_segment, .. } = group;
        self.pending = pending;
        let written = match looked_up {
            Ok(()) if !changes.is_empty() => self.write(changes, known, sync).map(Some),
            result => result.map(|()| None),
        };
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                // The time is not in the log either, so the next group must write it again. All transactions fail,
                // because each may have read the changes of earlier ones.
                engine.set_stamped_ms(stamped_ms);
                return (vec![Err(error); count], None);
            }
        };
        if ends_segment {
            // The group is in the log. A later group ends the segment if this fails.
            match self.roll() {
                // The rows of the group may not be in the memtable yet.
                Ok(()) if written.is_none() || self.is_journaled => self.freeze(),
                Ok(()) => self.freezes = true,
                Err(error) => crate::log::warn(&format!("a log segment was not ended: {error}")),
            }
        }
        engine.counters.transactions.fetch_add(count as u64, Ordering::Relaxed);
        (results, written)
    }

    /// Executes transactions one after the other. Returns the result of each.
    fn execute(
        &mut self,
        works: Vec<Work>,
        group: &mut GroupTransaction<'_>,
    ) -> Vec<Result<(), CatalogError>> {
        let mut results = Vec::with_capacity(works.len());
        for mut work in works {
            let ends_segment = group.ends_segment;
            // A transaction that helps to free space must not give the reserve to the next one.
            group.uses_reserve = false;
            let mut result = work(group);
            if matches!(result, Ok(true)) {
                result = self.admit(group).map(|()| true);
            }
            match result {
                Ok(true) => group.committed = group.changes.len(),
                _ => {
                    group.roll_back();
                    // A dropped transaction has no effect, so it does not end the segment either.
                    group.ends_segment = ends_segment;
                }
            }
            results.push(result.map(|_| ()));
        }
        let (committed, all) = (group.committed, group.changes.len());
        assert_eq!(committed, all, "a group contains changes of a transaction that was not committed");
        results
    }

    /// Checks that the log can hold the changes of the last transaction of a group. A transaction that it refuses does
    /// not affect the others of its group.
    fn admit(&mut self, group: &GroupTransaction<'_>) -> Result<(), CatalogError> {
        let changes = &group.changes[group.committed..];
        // A record has 16 bits for the length of its key, and the index has 16 bits for that of a head.
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
            // The background keeps less while the disk is full: see `Engine::is_full`.
            self.engine.is_full.store(!self.has_space, Ordering::Relaxed);
        }
        if self.has_space { Ok(()) } else { Err(CatalogError::DiskFull) }
    }

    /// Writes a group to the log.
    fn write(
        &mut self,
        changes: Vec<Change>,
        known: BTreeMap<Vec<u8>, Known>,
        sync: bool,
    ) -> Result<WrittenGroup, CatalogError> {
        // Behind an end that may be listed, a start would ignore the group: see `roll`.
        if self.must_roll || self.end.offset >= self.engine.limits.segment_bytes {
            self.roll()?;
        }
        let base = self.end.offset;
        // A replay takes a gap for damage. A group at an earlier offset would overwrite acknowledged ones.
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
            // The disk is probably full. Until the next look at it, transactions that need space fail without a write.
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
        // The journal confirms the group later. Until then, only later groups may see its rows.
        if self.is_journaled {
            for (key, change) in known.iter().filter_map(|(key, known)| Some((key, known.change?))) {
                let head = changes[change].value.as_ref().map(|value| value.head.clone());
                let row = head.map(|head| Row { head, place: places[change], loaded: None });
                self.pending.add(group.number, key.clone(), row);
            }
        }
        let (number, first_group, bytes, end) = (group.number, self.first_group, buffer.into(), self.end);
        Ok(WrittenGroup { number, first_group, changes, known, places, offset: base, bytes, end })
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
        // The mark follows the sync: a mark ahead of the log would make a group that was cut off look lost.
        let synced = self.segment.sync().and_then(|()| {
            self.mark.set(&self.end).map_err(|e| format!("the disk failed during a sync: {e}"))
        });
        self.engine.counters.sync_ns.fetch_add(now_ns() - start, Ordering::Relaxed);
        if let Err(reason) = synced {
            self.engine.stop(&reason);
            return Err(CatalogError::Stopped(reason));
        }
        self.durable = self.end.offset;
        // With a journal, a synced group may be unconfirmed, and the backup must not get it yet: see `apply`.
        if !self.is_journaled {
            self.engine.set_synced(self.end);
        }
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
        (self.first_group, self.durable) = (self.end.group, HEADER);
        self.must_roll = false;
        // If no group is in flight, the index ends where the log ends, as `close` requires.
        if self.applied.group == self.end.group {
            self.applied = self.end;
        }
        Ok(())
    }

    /// Adds the changes of a group to the index. Groups are applied in their order.
    pub fn apply(&mut self, group: WrittenGroup) {
        let WrittenGroup { number, changes, known, places, end: group_end, .. } = group;
        let engine = &self.engine;
        assert_eq!(number, self.applied.group, "group {number} is applied in the place of another one");
        assert_eq!(places.len(), changes.len(), "every change of a group needs a place in the log");
        let mut live: BTreeMap<u32, i64> = BTreeMap::new();
        let certain: Vec<_> =
            changes.iter().map(|change| (hash(&change.key), change.value.is_some())).collect();
        let mut entries = Vec::with_capacity(known.len());
        let mut changes: Vec<Option<Change>> = changes.into_iter().map(Some).collect();
        for (key, known) in known {
            // Only the last change of a key is in use. Earlier ones of the group count as garbage of their segment.
            let Some(change) = known.change.and_then(|index| Some((index, changes[index].take()?))) else {
                continue;
            };
            let (index, change) = change;
            let place = &places[index];
            let end = u64::from(place.offset) + record_len(place).unsigned_abs();
            assert!(change.key == key, "change {index} of a group belongs to another key");
            assert!(known.base.is_some(), "the row that change {index} of a group replaces is unknown");
            let segment = group_end.segment;
            assert_eq!(place.segment, segment, "change {index} of a group is in another log segment");
            assert!(end <= group_end.offset, "change {index} of a group ends at {end}, behind it");
            self.pending.remove(number, &key);
            if let Some(Some(old)) = known.base {
                *live.entry(old.place.segment).or_default() -= record_len(&old.place);
            }
            let slot = change.value.map(|value| Row { head: value.head, place: places[index], loaded: None });
            if slot.is_some() {
                *live.entry(places[index].segment).or_default() += record_len(&places[index]);
            }
            entries.push((key, slot));
        }
        let changed = engine.changes.of_group(&entries);
        engine.view().active.insert(entries.into_iter());
        // After the insertion: whoever finds no doubt then reads the new row, and not the old one as certain.
        engine.forget_damage(certain.into_iter());
        // After the insertion: whoever takes a key from the list then reads its new row.
        engine.changes.record(changed);
        for (id, bytes) in live {
            if let Some(segment) = engine.segment(id) {
                segment.live.fetch_add(bytes, Ordering::Relaxed);
            }
        }
        // Behind the last group, the log may already continue in a new segment.
        self.applied = if group_end.group == self.end.group { self.end } else { group_end };
        // Confirmed groups may be shipped, also before this disk has synced them.
        if self.is_journaled {
            self.engine.set_synced(self.applied);
        }
        if std::mem::take(&mut self.freezes) {
            self.freeze();
        }
        self.freeze_if_full();
    }

    fn freeze_if_full(&mut self) {
        if self.engine.is_memtable_full(self.log_bytes_since_table) {
            self.freeze();
        }
    }

    /// Starts a new memtable; the next flush writes the current one to a table.
    pub fn freeze(&mut self) {
        self.log_bytes_since_table = 0;
        self.engine.freeze(self.applied);
    }
}
