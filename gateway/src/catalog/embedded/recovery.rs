//! Opens the catalog: loads the index, and reads the end of the log that the index does not contain.
//!
//! A group that is cut off at the end of the last segment was never acknowledged and is dropped. Any other damage is
//! reported, and its keys answer with an error until they are written again.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use super::manifest::{Damage, Manifest, Position};
use super::record::{
    GROUP_HEADER, Group, RECORD_HEADER, Record, announced_header_len, hash, may_begin_group,
};
use super::segment::{DIRECTORY, Segment, file_name, id_of};
use super::table::{self, Slot, Table};
use super::writer::Writer;
use super::{Counters, DamagedKeys, Engine, Limits, View, record_len};
use crate::catalog::{CatalogError, Row};
use crate::disk::{Disk, DiskFile};

/// Findings of an opening of the catalog.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Damage of the log, including that of earlier starts.
    pub damage: Vec<Damage>,
    /// Reason why the index was built from the log; `None` if it was loaded.
    pub rebuilt: Option<String>,
    /// Bytes of the log that were read because the index did not contain them.
    pub replayed_bytes: u64,
    /// Bytes of a group at the end of the log that was never acknowledged.
    pub dropped_bytes: u64,
}

/// Opens the catalog on a disk, and creates it if the disk is empty.
///
/// # Errors
/// If the disk fails, or the format is unknown. Damage is not an error; it is in the report.
pub fn open(disk: Arc<dyn Disk>, limits: Limits) -> Result<(Arc<Engine>, Writer, Recovery), CatalogError> {
    let mut recovery = Recovery::default();
    let (manifest, tables) = match load_index(&*disk) {
        Ok(Some(loaded)) => loaded,
        Ok(None) => {
            if !disk.list(DIRECTORY)?.is_empty() {
                recovery.rebuilt = Some("there is no manifest".into());
            }
            (Manifest::default(), Vec::new())
        }
        Err(error @ CatalogError::Damaged { .. }) => {
            recovery.rebuilt = Some(error.to_string());
            Manifest::discard_index(&*disk)?;
            (Manifest::default(), Vec::new())
        }
        Err(error) => return Err(error),
    };
    remove_unused_tables(&*disk, &manifest)?;
    let segments = open_segments(&*disk, &manifest, &mut recovery)?;
    let engine = Arc::new(Engine {
        disk,
        limits,
        view: RwLock::new(Arc::new(View { active: Arc::default(), frozen: Vec::new(), tables })),
        segments: RwLock::new(segments),
        manifest: Mutex::new(manifest.clone()),
        damaged: RwLock::new(DamagedKeys::default()),
        has_damage: AtomicBool::new(false),
        stopped: RwLock::new(None),
        is_stopped: AtomicBool::new(false),
        unmovable: Mutex::default(),
        is_full: AtomicBool::new(false),
        counters: Counters::default(),
    });
    let mut replay = Replay {
        engine: &engine,
        expected: manifest.applied.group,
        damaged: BTreeMap::new(),
        end: manifest.applied,
        recovery: &mut recovery,
        is_rebuild: manifest.format == 0,
        is_first: manifest.format == 0,
    };
    for damage in &manifest.damage {
        replay.add_damage(damage.clone());
    }
    replay.run(&manifest)?;
    let end = replay.end;
    let damaged = std::mem::take(&mut replay.damaged);
    let replayed = replay.recovery.replayed_bytes;
    recovery.damage.extend(damaged.into_values());
    if !recovery.damage.is_empty() {
        let mut state = DamagedKeys { known: HashMap::new(), unknown: Vec::new() };
        for damage in &recovery.damage {
            match damage.key_hash {
                Some(hash) => {
                    state.known.insert(hash, damage.clone());
                }
                None => state.unknown.push(damage.clone()),
            }
        }
        // Damage of sealed segments concerns only reads of these segments.
        state.unknown.retain(|damage| damage.problem != SHORTER && damage.problem != MISSING);
        *engine.damaged.write().unwrap_or_else(std::sync::PoisonError::into_inner) = state;
        engine.has_damage.store(true, Ordering::Release);
    }
    let mut writer = Writer::new(Arc::clone(&engine), end, replayed)?;
    let is_partly_written = engine.tables() > manifest.tables.len();
    if is_partly_written || (manifest.format == 0 && engine.entries() > 0) {
        writer.freeze();
        engine.flush_step()?;
    } else {
        engine.checkpoint(None)?;
    }
    Ok((engine, writer, recovery))
}

/// Problem of a segment that is shorter than the manifest says.
const SHORTER: &str = "the file is shorter than it was";
/// Problem of a segment that does not exist.
const MISSING: &str = "the file is missing";

/// A manifest and its tables.
type Index = (Manifest, Vec<Arc<Table>>);

/// Returns the manifest and its tables, from the newest to the oldest.
fn load_index(disk: &dyn Disk) -> Result<Option<Index>, CatalogError> {
    let Some(manifest) = Manifest::load(disk)? else { return Ok(None) };
    let open = |id: &u64| {
        Table::open(disk, *id).map(Arc::new).map_err(|error| match error {
            CatalogError::Io(problem) => CatalogError::Damaged {
                file: format!("{}/{}", table::DIRECTORY, table::file_name(*id)),
                offset: 0,
                problem,
            },
            other => other,
        })
    };
    let tables: Result<Vec<_>, _> = manifest.tables.iter().map(open).collect();
    Ok(Some((manifest, tables?)))
}

fn remove_unused_tables(disk: &dyn Disk, manifest: &Manifest) -> Result<(), CatalogError> {
    let used: Vec<String> = manifest.tables.iter().map(|id| table::file_name(*id)).collect();
    for name in disk.list(table::DIRECTORY)? {
        if name.ends_with(".table") && !used.contains(&name) {
            disk.remove(table::DIRECTORY, &name)?;
        }
    }
    Ok(())
}

/// Opens the segments, and removes those that compaction had emptied.
fn open_segments(
    disk: &dyn Disk,
    manifest: &Manifest,
    recovery: &mut Recovery,
) -> Result<BTreeMap<u32, Arc<Segment>>, CatalogError> {
    let mut segments = BTreeMap::new();
    for id in disk.list(DIRECTORY)?.iter().filter_map(|name| id_of(name)) {
        let known = manifest.segments.iter().find(|info| info.id == id);
        if manifest.format > 0 && known.is_none() && id < manifest.applied.segment {
            disk.remove(DIRECTORY, &file_name(id))?;
            continue;
        }
        let file = disk.open(DIRECTORY, &file_name(id))?;
        let bytes = file.len()?;
        let live = known.map_or(bytes, |info| info.live);
        let is_complete = id < manifest.applied.segment || manifest.clean_end.is_some();
        let is_applied = id == manifest.applied.segment && bytes < manifest.applied.offset;
        if is_applied || known.is_some_and(|info| bytes < info.bytes && is_complete) {
            recovery.damage.push(damage(id, bytes, SHORTER, None));
        }
        let segment = Segment { id, file, bytes: AtomicU64::new(bytes), live: AtomicI64::new(live as i64) };
        segments.insert(id, Arc::new(segment));
    }
    for info in &manifest.segments {
        if !segments.contains_key(&info.id) {
            recovery.damage.push(damage(info.id, 0, MISSING, None));
        }
    }
    Ok(segments)
}

fn damage(segment: u32, offset: u64, problem: &str, key_hash: Option<u64>) -> Damage {
    Damage {
        file: format!("{DIRECTORY}/{}", file_name(segment)),
        segment,
        offset,
        problem: problem.into(),
        key_hash,
    }
}

/// Reads the groups of a segment one after the other.
pub struct GroupReader<'a> {
    file: &'a dyn DiskFile,
    /// Number of the segment.
    pub segment: u32,
    /// Offset of the next group.
    pub offset: u64,
    /// Length of the file.
    pub length: u64,
}

/// A group with the bytes of its records.
pub struct ReadGroup {
    /// Header of the group.
    pub group: Group,
    /// Offset of the first record in the segment.
    pub records_at: u64,
    /// Records, one after the other.
    pub bytes: Vec<u8>,
}

impl ReadGroup {
    /// Returns each record with its bytes and its table entry; the record is `None` if its header is damaged.
    pub fn records(&self, segment: u32) -> impl Iterator<Item = (Option<Record>, &[u8], u64, u64)> {
        let mut at = 0;
        self.group.table.iter().map(move |(length, hash)| {
            let bytes = &self.bytes[at..at + *length as usize];
            let offset = self.records_at + at as u64;
            at += *length as usize;
            (Record::parse(bytes, segment, offset), bytes, offset, *hash)
        })
    }
}

impl<'a> GroupReader<'a> {
    /// Creates a reader that starts at an offset.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn new(file: &'a dyn DiskFile, segment: u32, offset: u64) -> Result<GroupReader<'a>, CatalogError> {
        Ok(GroupReader { file, segment, offset, length: file.len()? })
    }

    /// Returns the group at an offset; `None` if there is no complete group with an intact header.
    fn group_at(&self, offset: u64) -> Result<Option<ReadGroup>, CatalogError> {
        if offset + GROUP_HEADER as u64 > self.length {
            return Ok(None);
        }
        let mut head = vec![0; GROUP_HEADER];
        self.file.read_at(offset, &mut head)?;
        let Some(length) = announced_header_len(&head) else { return Ok(None) };
        if offset + length as u64 > self.length {
            return Ok(None);
        }
        head.resize(length, 0);
        self.file.read_at(offset, &mut head)?;
        let Some(group) = Group::parse(&head) else { return Ok(None) };
        let records_at = offset + length as u64;
        if records_at + group.records_len() > self.length {
            return Ok(None);
        }
        let mut bytes = vec![0; group.records_len() as usize];
        self.file.read_at(records_at, &mut bytes)?;
        Ok(Some(ReadGroup { group, records_at, bytes }))
    }

    /// Returns the next group and moves behind it; `None` if none begins at the offset.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn next_group(&mut self) -> Result<Option<ReadGroup>, CatalogError> {
        let group = self.group_at(self.offset)?;
        if let Some(group) = &group {
            self.offset = group.records_at + group.bytes.len() as u64;
        }
        Ok(group)
    }

    /// Moves to the next intact group behind the offset. Returns false if there is none.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn skip_damage(&mut self) -> Result<bool, CatalogError> {
        const WINDOW: usize = 1 << 20;
        let mut at = self.offset + 1;
        while at + GROUP_HEADER as u64 <= self.length {
            let mut window = vec![0; WINDOW.min((self.length - at) as usize)];
            self.file.read_at(at, &mut window)?;
            for index in 0..window.len().saturating_sub(3) {
                let candidate = at + index as u64;
                if may_begin_group(&window[index..]) && self.group_at(candidate)?.is_some() {
                    self.offset = candidate;
                    return Ok(true);
                }
            }
            at += window.len().saturating_sub(3).max(1) as u64;
        }
        Ok(false)
    }
}

/// The reading of the end of the log.
struct Replay<'a> {
    engine: &'a Arc<Engine>,
    /// Number of the next group.
    expected: u64,
    /// Damage by hash of the key, or by position if the keys are unknown.
    damaged: BTreeMap<(Option<u64>, u64), Damage>,
    end: Position,
    recovery: &'a mut Recovery,
    /// True if the whole log is read.
    is_rebuild: bool,
    /// True before the first group of a rebuild, whose number is unknown.
    is_first: bool,
}

impl Replay<'_> {
    fn add_damage(&mut self, damage: Damage) {
        self.damaged.insert((damage.key_hash, damage.key_hash.map_or(damage.offset, |_| 0)), damage);
    }

    fn run(&mut self, manifest: &Manifest) -> Result<(), CatalogError> {
        let start = manifest.applied;
        let segments: Vec<_> = self.engine.segments().into_iter().filter(|s| s.id >= start.segment).collect();
        for (index, segment) in segments.iter().enumerate() {
            let from = if segment.id == start.segment { start.offset } else { 0 };
            self.segment(segment, from, index + 1 == segments.len(), manifest.clean_end)?;
        }
        if let Some(end) = manifest.clean_end
            && self.end < end
        {
            self.add_damage(damage(end.segment, self.end.offset, "the end of the log is missing", None));
        }
        if self.end.segment < start.segment {
            self.end = start;
        }
        // A group that was written but never synced is visible from now on, so it must be durable.
        for segment in &segments {
            segment.file.sync()?;
        }
        if let Some(last) = segments.last() {
            self.end.segment = self.end.segment.max(last.id);
        }
        self.end.group = self.expected;
        Ok(())
    }

    fn segment(
        &mut self,
        segment: &Arc<Segment>,
        from: u64,
        is_last: bool,
        clean_end: Option<Position>,
    ) -> Result<(), CatalogError> {
        if self.is_rebuild {
            segment.live.store(0, Ordering::Relaxed);
        }
        let mut reader = GroupReader::new(&*segment.file, segment.id, from)?;
        let mut torn_at = None;
        loop {
            let at = reader.offset;
            let Some(group) = reader.next_group()? else {
                if at >= reader.length {
                    break;
                }
                if !reader.skip_damage()? {
                    torn_at = Some(at);
                    break;
                }
                self.unreadable(&reader, at, reader.offset)?;
                continue;
            };
            let is_damaged = group.records(segment.id).any(|(record, ..)| record.is_none_or(|r| !r.intact));
            if is_damaged && is_last && reader.offset >= reader.length && clean_end.is_none() {
                // The last group was never acknowledged.
                torn_at = Some(at);
                break;
            }
            self.apply(segment, &group)?;
            self.end = Position { segment: segment.id, offset: reader.offset, group: self.expected };
            self.recovery.replayed_bytes += reader.offset - at;
        }
        let Some(at) = torn_at else { return Ok(()) };
        if is_last && clean_end.is_none() {
            self.recovery.dropped_bytes += reader.length - at;
            segment.file.truncate(at)?;
            segment.file.sync()?;
            segment.bytes.store(at, Ordering::Relaxed);
        } else if is_last {
            self.add_damage(damage(segment.id, at, "the end of the segment is damaged", None));
        } else {
            // The next segment begins with a later group, which shows whether a group was lost here.
            self.recovery.dropped_bytes += reader.length - at;
        }
        Ok(())
    }

    /// Handles bytes between two offsets whose group header is damaged: applies the records that are intact.
    fn unreadable(&mut self, reader: &GroupReader<'_>, from: u64, to: u64) -> Result<(), CatalogError> {
        let mut bytes = vec![0; (to - from) as usize];
        reader.file.read_at(from, &mut bytes)?;
        let mut found = Vec::new();
        let mut at = 0;
        let (mut first, mut covered) = (None, 0);
        while at + RECORD_HEADER <= bytes.len() {
            let length = record_length(&bytes[at..]);
            let record = length.and_then(|length| {
                Record::parse(bytes.get(at..at + length)?, reader.segment, from + at as u64)
            });
            let Some(record) = record else {
                at += 1;
                continue;
            };
            first = first.or(Some(at));
            let length = length.unwrap_or(1);
            covered += length;
            at += length;
            found.push(record);
        }
        let segment = self.engine.segment(reader.segment);
        let count = found.len();
        for record in found {
            if let Some(segment) = &segment {
                self.apply_record(segment, &record)?;
            }
        }
        // The table of the group tells how many records there were, if all of them were found.
        let header = super::record::GROUP_HEADER + super::record::TABLE_ENTRY * count;
        let complete = first == Some(header) && header + covered == bytes.len();
        if complete {
            self.expected += 1;
        } else {
            self.add_damage(damage(reader.segment, from, "the header of a group is damaged", None));
            self.is_first = true;
        }
        Ok(())
    }

    fn apply(&mut self, segment: &Arc<Segment>, group: &ReadGroup) -> Result<(), CatalogError> {
        if group.group.number != self.expected && !self.is_first {
            let problem = "groups before this offset are missing";
            self.add_damage(damage(segment.id, group.records_at, problem, None));
        }
        self.is_first = false;
        self.expected = group.group.number + 1;
        for (record, _, offset, hash) in group.records(segment.id) {
            match record {
                Some(record) => self.apply_record(segment, &record)?,
                None => self.add_damage(damage(segment.id, offset, "a record is damaged", Some(hash))),
            }
        }
        Ok(())
    }

    fn apply_record(&mut self, segment: &Arc<Segment>, record: &Record) -> Result<(), CatalogError> {
        let key_hash = hash(&record.key);
        if record.intact {
            self.damaged.remove(&(Some(key_hash), 0));
        }
        // The row of a damaged body is intact, so the object is known and its reads fail.
        let slot: Slot = record.head.as_ref().map(|head| Row { head: head.clone(), place: record.place });
        let engine = self.engine;
        let old = engine.view().get(&record.key, key_hash).ok().flatten();
        if let Some(old) = old
            && let Some(segment) = engine.segment(old.place.segment)
        {
            segment.live.fetch_sub(record_len(&old.place), Ordering::Relaxed);
        }
        if slot.is_some() {
            segment.live.fetch_add(record_len(&record.place), Ordering::Relaxed);
        }
        let active = Arc::clone(&engine.view().active);
        active.insert(std::iter::once((record.key.clone(), slot)));
        if active.len() >= engine.limits.memtable_entries {
            engine.flush_replayed(&active)?;
        }
        Ok(())
    }
}

/// Returns the length that the record at the start of `bytes` announces; `None` if no record begins here.
fn record_length(bytes: &[u8]) -> Option<usize> {
    let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize);
    let key = usize::from(u16::from_le_bytes([*bytes.get(6)?, *bytes.get(7)?]));
    if number(0)? != 0x3152_4c50 {
        return None;
    }
    RECORD_HEADER
        .checked_add(key)?
        .checked_add(number(8)?)?
        .checked_add(number(12)?)?
        .checked_add(number(16)?)
}
