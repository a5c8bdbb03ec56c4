//! Opens the catalog: loads the index, and reads the end of the log that the index does not contain.
//!
//! A group that is cut off at the end of the last segment was never acknowledged and is dropped. Any other damage is
//! reported, and its keys answer with an error until they are written again.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use super::manifest::{Damage, Manifest};
use super::record::Salt;
pub use super::replay::Recovery;
use super::replay::Replay;
use super::segment::{DIRECTORY, HEADER, Segment, file_name, header, id_of, read_header};
use super::table::{self, Table};
use super::writer::Writer;
use super::{CatalogLimits, Counters, DamagedKeys, Engine, View};
use crate::catalog::CatalogError;
use crate::disk::{Disk, DiskFile};

/// Opens the catalog on a disk, and creates it if the disk is empty.
///
/// # Errors
/// If the disk fails, or the format is unknown. Damage is not an error; it is in the report.
pub fn open(
    disk: Arc<dyn Disk>,
    limits: CatalogLimits,
) -> Result<(Arc<Engine>, Writer, Recovery), CatalogError> {
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
    let (salt, segments) = open_segments(&*disk, &manifest, &mut recovery)?;
    let engine = Arc::new(Engine {
        disk,
        salt,
        limits,
        view: RwLock::new(Arc::new(View { active: Arc::default(), frozen: Vec::new(), tables })),
        segments: RwLock::new(segments),
        manifest: Mutex::new(Manifest { salt: salt.0, ..manifest.clone() }),
        damaged: RwLock::new(DamagedKeys::default()),
        has_damage: AtomicBool::new(false),
        stopped: RwLock::new(None),
        is_stopped: AtomicBool::new(false),
        unmovable: Mutex::default(),
        flush_error: Mutex::default(),
        is_full: AtomicBool::new(false),
        counters: Counters::default(),
    });
    let end = Replay::new(&engine, &manifest, &mut recovery).run(&manifest)?;
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
        // Damage of a whole file concerns only reads of its records.
        state.unknown.retain(|damage| ![SHORTER, MISSING, HEADER_DAMAGED].contains(&&*damage.problem));
        *engine.damaged.write().unwrap_or_else(std::sync::PoisonError::into_inner) = state;
        engine.has_damage.store(true, Ordering::Release);
    }
    let mut writer = Writer::new(Arc::clone(&engine), end, recovery.replayed_bytes)?;
    let is_partly_written = engine.tables() > manifest.tables.len();
    if is_partly_written || (manifest.format == 0 && engine.entries() > 0) {
        writer.freeze();
        engine.flush_step()?;
        let (applied, end) = (engine.applied(), writer.end());
        assert_eq!(applied, end, "the tables do not contain the whole log after a replay");
    } else {
        engine.checkpoint(None)?;
    }
    Ok((engine, writer, recovery))
}

/// Problem of a segment that is shorter than the manifest says.
const SHORTER: &str = "the file is shorter than it was";
/// Problem of a segment whose salt cannot be read.
const HEADER_DAMAGED: &str = "the header of the segment is damaged";
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

/// Opens the segments, and removes those that compaction had emptied. Returns the salt of the catalog, too.
fn open_segments(
    disk: &dyn Disk,
    manifest: &Manifest,
    recovery: &mut Recovery,
) -> Result<(Salt, BTreeMap<u32, Arc<Segment>>), CatalogError> {
    let mut files = BTreeMap::new();
    for id in disk.list(DIRECTORY)?.iter().filter_map(|name| id_of(name)) {
        let is_known = manifest.segments.iter().any(|info| info.id == id);
        // Newer segments are unknown, too: no manifest is written when a segment is created.
        if manifest.format > 0 && !is_known && id < manifest.applied.segment {
            disk.remove(DIRECTORY, &file_name(id))?;
            continue;
        }
        files.insert(id, disk.open(DIRECTORY, &file_name(id))?);
    }
    let salt = salt(disk, manifest, &files)?;
    let last = files.keys().next_back().copied();
    let mut segments = BTreeMap::new();
    for (id, file) in files {
        let known = manifest.segments.iter().find(|info| info.id == id);
        if read_header(&*file)? != Some(salt) {
            if Some(id) == last && file.len()? <= HEADER && known.is_none_or(|info| info.bytes <= HEADER) {
                // The power failed when the segment was created.
                file.truncate(0)?;
                file.write_at(0, &header(salt))?;
                file.sync()?;
            } else {
                recovery.damage.push(Damage::of_segment(id, 0, HEADER_DAMAGED, None));
            }
        }
        let bytes = file.len()?;
        let live = known.map_or(bytes, |info| info.live);
        let is_complete = id < manifest.applied.segment || manifest.clean_end.is_some();
        let is_applied = id == manifest.applied.segment && bytes < manifest.applied.offset;
        if is_applied || known.is_some_and(|info| bytes < info.bytes && is_complete) {
            recovery.damage.push(Damage::of_segment(id, bytes, SHORTER, None));
        }
        let (bytes, live) = (AtomicU64::new(bytes), AtomicI64::new(live as i64));
        segments.insert(id, Arc::new(Segment { id, salt, file, bytes, live }));
    }
    for info in &manifest.segments {
        if !segments.contains_key(&info.id) {
            recovery.damage.push(Damage::of_segment(info.id, 0, MISSING, None));
        }
    }
    Ok((salt, segments))
}

/// Returns the salt in the manifest or, without a manifest, in the first intact header; a new one for a new catalog.
fn salt(
    disk: &dyn Disk,
    manifest: &Manifest,
    files: &BTreeMap<u32, Arc<dyn DiskFile>>,
) -> Result<Salt, CatalogError> {
    if manifest.format > 0 {
        return Ok(Salt(manifest.salt));
    }
    let mut is_new = true;
    for file in files.values() {
        if let Some(salt) = read_header(&**file)? {
            return Ok(salt);
        }
        is_new &= file.len()? <= HEADER;
    }
    if is_new {
        return Ok(Salt(disk.random()?));
    }
    let file = files.keys().next().copied().unwrap_or_default();
    let problem = "the headers of all segments are damaged, and there is no manifest".into();
    Err(CatalogError::Damaged { file: format!("{DIRECTORY}/{}", file_name(file)), offset: 0, problem })
}
