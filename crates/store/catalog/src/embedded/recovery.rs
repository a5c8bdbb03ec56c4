//! Opens the catalog: loads the index, and reads the end of the log that the index does not contain.
//!
//! A group that is cut off at the end of the last segment was never acknowledged and is dropped. Any other damage is
//! reported, and its keys answer with an error until they are written again. The index is derived: if a part of it is
//! damaged, it is built again from the log. An error of the disk is never taken for damage, and ends the start.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::builder::IndexBuilder;
use super::changes::ChangedKeys;
use super::follow::Followed;
use super::manifest::Manifest;
use super::reader::GroupReader;
use super::record::Salt;
pub use super::replay::Recovery;
use super::replay::{MISSING, Purpose, Replay, Replayed};
use super::segment::{DIRECTORY, HEADER, Segment, SegmentHeader, file_name, id_of};
use super::segment_list::{AffectedKeys, Damage, ListedSegment, Position, SegmentEnd, SegmentList};
use super::table::{self, Table, TableId};
use super::writer::Writer;
use super::{CatalogLimits, Counters, DamagedKeys, Engine, View, document, synced};
use crate::CatalogError;
use crate::disk::{Disk, DiskFile};

/// Problem of a segment that is shorter than the list says.
const SHORTER: &str = "the file is shorter than it was";
/// Problem of a log without a list of segments and without an intact header.
const NO_HEADER: &str = "no header of a log segment is intact, and both lists of the segments are lost";
/// Problem of a segment whose file has the header of another segment.
const FOREIGN: &str = "the file is that of another segment";

/// A log that is open, and whose index has been read.
pub struct OpenLog {
    /// The log and its index.
    pub engine: Arc<Engine>,
    /// End of the log.
    pub end: Position,
    /// Greatest number of a segment that was found.
    newest: u32,
    /// True if a part of the index was built, and is in no manifest.
    is_partly_written: bool,
    /// Findings of the start.
    pub recovery: Recovery,
}

/// Opens the catalog on a disk, and creates it if the disk is empty.
///
/// # Errors
/// If the disk fails, or the format is unknown. Damage is not an error; it is in the report.
pub fn open(
    disk: Arc<dyn Disk>,
    limits: CatalogLimits,
) -> Result<(Arc<Engine>, Writer, Recovery), CatalogError> {
    open_log(disk, limits)?.into_writer()
}

impl OpenLog {
    /// Continues the log in a new segment.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn into_writer(self) -> Result<(Arc<Engine>, Writer, Recovery), CatalogError> {
        let OpenLog { engine, end, newest, is_partly_written, recovery } = self;
        let mut writer = Writer::new(Arc::clone(&engine), end, newest, recovery.replayed_bytes)?;
        if is_partly_written {
            // No manifest names the tables of the replay yet. Otherwise a start after a crash would build them again.
            writer.freeze();
            engine.flush()?;
            let (applied, end) = (engine.applied(), writer.end());
            assert_eq!(applied, end, "the tables do not contain the whole log after a replay");
        } else {
            // The manifest gets the new segment, and loses the end of a clean stop: groups may follow behind it now.
            engine.checkpoint(None)?;
        }
        // After the manifest: the one before may name tables that are not in use any more.
        remove_leftovers(&engine);
        Ok((engine, writer, recovery))
    }
}

/// Opens the log on a disk without a writer.
///
/// # Errors
/// As [`open`].
pub fn open_log(disk: Arc<dyn Disk>, limits: CatalogLimits) -> Result<OpenLog, CatalogError> {
    let mut recovery = Recovery::default();
    let stored = StoredIndex::load(&*disk, &mut recovery)?;
    let is_rebuild = stored.tables.is_none();
    let list = load_list(&*disk, &stored, &mut recovery)?;
    let (manifest, tables) = (stored.manifest, stored.tables.unwrap_or_default());
    let mut damage = Vec::new();
    let segments = open_segments(&*disk, &list, &manifest, &mut damage, &mut recovery)?;
    let engine = Arc::new(Engine {
        salt: Salt(list.salt),
        disk,
        limits,
        view: RwLock::new(Arc::new(View { active: Arc::default(), frozen: Vec::new(), tables: Vec::new() })),
        segments: RwLock::new(segments),
        manifest: Mutex::new(Manifest { list: list.clone(), ..manifest.clone() }),
        damaged: RwLock::new(DamagedKeys::default()),
        has_damage: AtomicBool::new(false),
        stopped: RwLock::new(None),
        is_stopped: AtomicBool::new(false),
        unmovable: Mutex::default(),
        index_work: Mutex::default(),
        merging: Mutex::default(),
        is_beyond_repair: AtomicBool::new(false),
        flush_error: Mutex::default(),
        is_full: AtomicBool::new(false),
        followed: Followed::default(),
        changes: ChangedKeys::default(),
        counters: Counters::default(),
    });
    // The replay begins behind the tables, and may not find this damage again.
    damage.extend(list.damage.iter().cloned());
    let mark = synced::load(&*engine.disk)?;
    // A power loss may have removed the mark, which is never synced. The end of a clean stop is durable.
    let synced = manifest.clean_end.unwrap_or_default().max(mark);
    // An old copy of the manifest may say that the catalog was closed, but a later start has changed the list.
    let is_end = manifest.clean_end == Some(synced) && manifest.list.version == list.version;
    let purpose = Purpose::Start { synced, is_end };
    let builder = IndexBuilder::new(&engine, tables);
    let mut replay = Replay::new(&engine, builder, purpose, &damage);
    if is_rebuild {
        // The replay reads the whole log, and counts every record.
        engine.segments().iter().for_each(|segment| segment.live.store(0, Ordering::Relaxed));
    }
    replay.run(&list, manifest.applied)?;
    recovery.replayed_bytes = replay.read_bytes;
    recovery.dropped_bytes = replay.dropped_bytes;
    let Replayed { builder, end, damage, removed } = replay.finish();
    // A new index is written even if memory holds all of it. Otherwise each start after a crash would build it again.
    let is_partly_written = builder.has_written() || (is_rebuild && !list.segments.is_empty());
    let (tables, active) = builder.finish();
    engine.lock_manifest().tables = tables.iter().map(|table| table.id).collect();
    engine.change_view(|_| View { active: Arc::new(active), frozen: Vec::new(), tables });
    // A removal before new damage does not tell whether the key was written again.
    let is_new = |d: &Damage| d.keys == AffectedKeys::Unknown && !list.damage.contains(d);
    let known = if damage.iter().any(is_new) { &[][..] } else { &list.removed[..] };
    let removed = known.iter().copied().chain(removed).collect();
    engine.set_damage(&damage, removed);
    recovery.damage = damage;
    // A file that is not listed stays as it is, too.
    let newest = engine.disk.list(DIRECTORY)?.iter().filter_map(|name| id_of(name)).max().unwrap_or(0);
    engine.set_written(&end);
    engine.set_synced(end);
    Ok(OpenLog { engine, end, newest, is_partly_written, recovery })
}

impl Engine {
    /// Replaces the damage that affects keys. `removed` has the hashes of the keys that were removed after damage.
    fn set_damage(&self, damage: &[Damage], removed: BTreeSet<u64>) {
        let mut state = DamagedKeys { removed, ..DamagedKeys::default() };
        for damage in damage {
            match damage.keys {
                AffectedKeys::Hash(hash) => {
                    state.known.insert(hash, damage.clone());
                }
                AffectedKeys::Unknown => state.unknown.push(damage.clone()),
                AffectedKeys::Indexed => state.indexed.push(damage.clone()),
            }
        }
        *self.damaged.write().unwrap_or_else(PoisonError::into_inner) = state;
        self.has_damage.store(!damage.is_empty(), Ordering::Release);
    }
}

/// The index as stored.
struct StoredIndex {
    /// Manifest of the tables; that of an empty index if the index must be built.
    manifest: Manifest,
    /// Copy of the list of segments in the manifest; `None` if the manifest is missing or damaged.
    list: Option<SegmentList>,
    /// Tables from the newest to the oldest; `None` if the index must be built.
    tables: Option<Vec<Arc<Table>>>,
}

impl StoredIndex {
    /// Loads the manifest and opens the tables. If one of them is damaged, the index must be built; no file changes.
    fn load(disk: &dyn Disk, recovery: &mut Recovery) -> Result<StoredIndex, CatalogError> {
        let (stored, problem) = document::or_damage(Manifest::load(disk))?;
        let stored = stored.flatten();
        let list = stored.as_ref().map(|manifest| manifest.list.clone());
        // New tables do not replace the file of a table that is still in use.
        let names = disk.list(table::DIRECTORY)?;
        let next_table = names.iter().filter_map(|name| table::id_of(name)).max().map_or(0, |id| id + 1);
        let empty = |index: u64| Manifest { index, next_table, ..Manifest::default() };
        let Some(manifest) = stored else {
            // Without a log, the catalog is new, and no index is missing.
            if problem.is_some() || !disk.list(DIRECTORY)?.is_empty() {
                recovery.rebuilt = Some(problem.unwrap_or_else(|| "there is no manifest".into()));
            }
            return Ok(StoredIndex { manifest: empty(disk.random()?), list, tables: None });
        };
        let open = |id: &u64| Table::open(disk, TableId { index: manifest.index, table: *id }).map(Arc::new);
        let (tables, problem) =
            document::or_damage(manifest.tables.iter().map(open).collect::<Result<Vec<_>, _>>())?;
        let manifest = match problem {
            None => Manifest { next_table: next_table.max(manifest.next_table), ..manifest },
            Some(problem) => {
                recovery.rebuilt = Some(problem);
                // The list of segments and the end of the log do not depend on the tables.
                let Manifest { clean_end, list, index, .. } = manifest;
                Manifest { clean_end, list, ..empty(index) }
            }
        };
        Ok(StoredIndex { manifest, list, tables })
    }
}

/// Returns the newer one of the list of segments and its copy in the manifest, with the segments that were added since.
fn load_list(
    disk: &dyn Disk,
    stored: &StoredIndex,
    recovery: &mut Recovery,
) -> Result<SegmentList, CatalogError> {
    let (own, problem) = document::or_damage(SegmentList::load(disk))?;
    let own = own.flatten();
    let copy = stored.list.clone();
    let mut ids = BTreeSet::new();
    ids.extend(disk.list(DIRECTORY)?.iter().filter_map(|name| id_of(name)));
    if own.is_none() && (copy.is_some() || !ids.is_empty()) {
        let text = "the list of the log segments is missing".to_string();
        recovery.repaired.push(problem.unwrap_or(text));
    }
    let newer = |list: &SegmentList, copy: &SegmentList| list.version >= copy.version;
    let mut list = match (own, copy) {
        (Some(own), Some(copy)) if !newer(&own, &copy) => copy,
        (Some(list), _) | (None, Some(list)) => list,
        (None, None) => SegmentList::default(),
    };
    let mut unlisted = Vec::new();
    for id in ids {
        // A smaller number that is not listed is a leftover of compaction or of a failed start.
        if list.segments.last().is_none_or(|last| id > last.id) {
            let file = disk.open(DIRECTORY, &file_name(id))?;
            unlisted.push((id, SegmentHeader::read(&*file)?.filter(|header| header.id == id), file));
        }
    }
    let known = (list.version > 0).then_some(Salt(list.salt));
    let found = unlisted.iter().find_map(|(_, header, _)| header.map(|header| header.salt));
    let Some(salt) = known.or(found) else {
        for (id, _, file) in &unlisted {
            // A first start that has failed may leave a file without groups.
            if file.len()? > HEADER {
                // A new catalog beside these files would answer that no object exists.
                return Err(Damage::of_segment(*id, 0, NO_HEADER, AffectedKeys::Unknown).error());
            }
        }
        list.salt = disk.random()?;
        return Ok(list);
    };
    list.salt = salt.0;
    let mut last_file = list.segments.last().map(|last| file_name(last.id));
    for (id, header, file) in unlisted {
        let Some(groups) = groups_of(id, salt, file)? else { continue };
        if header.is_some_and(|header| header.salt != salt) {
            continue;
        }
        let first_group = header.map_or(groups.start, |header| header.first_group);
        // Compaction removes a segment from a stored list, so none is missing between those that were added since.
        // Without a list, nobody knows.
        if let Some(last) = list.segments.last_mut().filter(|last| last.end.is_none()) {
            let bytes = match last_file.map(|name| disk.open(DIRECTORY, &name)) {
                Some(Ok(file)) => file.len()?,
                Some(Err(e)) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.into()),
                _ => HEADER,
            };
            last.end = Some(SegmentEnd { bytes, group: first_group });
        }
        let end = match known {
            Some(_) => None,
            None => {
                Some(SegmentEnd { bytes: disk.open(DIRECTORY, &file_name(id))?.len()?, group: groups.end })
            }
        };
        list.segments.push(ListedSegment { id, first_group, end });
        last_file = Some(file_name(id));
    }
    // The last segment may end with a group that was cut off.
    if let Some(last) = list.segments.last_mut() {
        last.end = None;
    }
    Ok(list)
}

/// Returns the numbers of the intact groups of a segment; `None` if there are none. A segment without groups may have
/// been created by a start that failed.
fn groups_of(id: u32, salt: Salt, file: Arc<dyn DiskFile>) -> Result<Option<Range<u64>>, CatalogError> {
    let segment = Segment::new(id, salt, file, 0, 0);
    let mut reader = GroupReader::new(&segment, HEADER)?;
    let mut found: Option<Range<u64>> = None;
    loop {
        match reader.next_group()? {
            Some(group) => {
                let number = group.group.number;
                found = Some(found.map_or(number, |range| range.start)..number + 1);
            }
            None if reader.skip_damage()? => {}
            None => return Ok(found),
        }
    }
}

/// Opens the listed segments. Adds the damage of the part that the tables contain; the replay finds the damage of the
/// rest.
fn open_segments(
    disk: &dyn Disk,
    list: &SegmentList,
    manifest: &Manifest,
    damage: &mut Vec<Damage>,
    recovery: &mut Recovery,
) -> Result<BTreeMap<u32, Arc<Segment>>, CatalogError> {
    let mut segments = BTreeMap::new();
    for listed in &list.segments {
        let applied = match listed.id.cmp(&manifest.applied.segment) {
            std::cmp::Ordering::Less => listed.end.map_or(0, |end| end.bytes),
            std::cmp::Ordering::Equal => manifest.applied.offset,
            std::cmp::Ordering::Greater => 0,
        };
        let has_rows = applied > HEADER;
        let mut lost = |offset: u64, problem: &str| {
            if has_rows {
                damage.push(Damage::of_segment(listed.id, offset, problem, AffectedKeys::Indexed));
            }
        };
        let file = match disk.open(DIRECTORY, &file_name(listed.id)) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                lost(0, MISSING);
                continue;
            }
            file => file?,
        };
        let header = SegmentHeader { salt: Salt(list.salt), id: listed.id, first_group: listed.first_group };
        let found = SegmentHeader::read(&*file)?;
        match found {
            Some(found) if found == header => {}
            Some(_) => {
                // Not opened: the replay could cut off bytes that belong to the other segment.
                lost(0, FOREIGN);
                continue;
            }
            None => {
                // The groups say themselves where they belong, so the header can be written again.
                file.write_at(0, &header.encode())?;
                file.sync()?;
                let name = file_name(listed.id);
                recovery.repaired.push(format!("the header of {DIRECTORY}/{name} was damaged"));
            }
        }
        let bytes = file.len()?;
        if bytes < applied {
            lost(bytes, SHORTER);
        }
        let bytes = listed.end.map_or(bytes, |end| bytes.min(end.bytes.max(HEADER)));
        let live = manifest.segments.iter().find(|segment| segment.id == listed.id);
        // The replay counts the records behind the tables. Counted twice, they would be in use for ever, and compaction
        // would never remove the segment.
        let live = live.map_or(bytes, |segment| segment.live).min(applied.saturating_sub(HEADER));
        let mut segment = Segment::new(listed.id, header.salt, file, bytes, live);
        segment.had_damaged_header = found.is_none();
        segments.insert(listed.id, Arc::new(segment));
    }
    Ok(segments)
}

/// Removes the tables and segments that are not in use. A file that cannot be removed stays until the next start.
fn remove_leftovers(engine: &Engine) {
    let disk = &*engine.disk;
    let (tables, list) = {
        let manifest = engine.lock_manifest();
        (manifest.tables.clone(), manifest.list.clone())
    };
    for name in disk.list(table::DIRECTORY).unwrap_or_default() {
        if table::id_of(&name).is_some_and(|id| !tables.contains(&id)) {
            let _ = disk.remove(table::DIRECTORY, &name);
        }
    }
    for id in disk.list(DIRECTORY).unwrap_or_default().iter().filter_map(|name| id_of(name)) {
        if list.get(id).is_some() {
            continue;
        }
        // Only a file of this catalog under its own number: compaction has emptied it.
        let header = disk.open(DIRECTORY, &file_name(id)).and_then(|file| SegmentHeader::read(&*file));
        if header.is_ok_and(|h| h.is_some_and(|h| h.id == id && h.salt == engine.salt)) {
            let _ = disk.remove(DIRECTORY, &file_name(id));
        }
    }
}
