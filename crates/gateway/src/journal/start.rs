//! Opens a catalog whose groups are durable in the journal: brings its directory up to date with what other processes
//! have written, from nothing if necessary, and begins an epoch.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;

use futures_util::{Stream, TryStreamExt};
use plimsoll_base::net::encode::hex;
use serde::{Deserialize, Serialize};

use super::end::JournalEnd;
use super::lease::Lease;
use super::sender::{EntryWriter, TierJournal};
use super::take_over::{Candidate, take_over};
use crate::ambient::{now_ms, pause};
use crate::backup::bodies::Directories;
use crate::backup::error::BackupError;
use crate::backup::header::{RunHeader, Tail};
use crate::backup::history::History;
use crate::backup::last;
use crate::backup::place::{Chain, Place};
use crate::backup::plan::time_of;
use crate::backup::restore::{find, groups_of, read_pieces, write_log};
use crate::backup::ship::Shipper;
use crate::body::blob::new_name;
use crate::catalog::committer::Committer;
use crate::catalog::embedded::catalog::{CatalogSettings, EmbeddedCatalog, Parts, lock_of};
use crate::catalog::embedded::recovery::{OpenLog, Recovery, open_log};
use crate::catalog::embedded::replica::{Part, Replica, ReplicaError};
use crate::catalog::embedded::segment::DIRECTORY;
use crate::catalog::embedded::writer::Writer;
use crate::catalog::embedded::{CatalogLimits, Engine, INDEX_DIRECTORY};
use crate::catalog::{CatalogError, Transaction, Work, intact};
use crate::disk::real::RealDisk;
use crate::log::note;
use crate::owner::{self, Identity};
use bytes::Bytes;

/// File with the ids of the processes that have used a directory.
const WRITERS: &str = "WRITERS";
/// Number of attempts to read what another process may still delete.
const ATTEMPTS: usize = 10;
/// Milliseconds between two attempts to create the first entry.
const RETRY_MS: u64 = 200;

/// Settings of the journal.
#[derive(Debug, Clone)]
pub struct JournalSettings {
    /// Place of the journal and of the backup.
    pub place: Place,
    /// Milliseconds for which a process leads after each entry.
    pub lease_ms: u64,
}

/// An open catalog with its journal.
pub struct Started {
    /// Catalog in the directory.
    pub catalog: EmbeddedCatalog,
    /// Findings of the start.
    pub recovery: Recovery,
    /// Writer of the backup, which has everything up to the start.
    pub shipper: Shipper,
}

/// A process that has used a directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct WriterId {
    id: String,
    /// Random number of the start of its machine, with the device and the inode of the directory: a copy of the
    /// directory is another one, and the process may use the original.
    place: String,
}

/// The processes that have used a directory, from the oldest to the newest.
#[derive(Debug, Default)]
struct Writers {
    known: Vec<WriterId>,
    place: String,
}

impl Writers {
    /// Number of processes that are remembered: those that have failed to start count, too.
    const MOST: usize = 64;

    fn load(root: &Path) -> Writers {
        let machine_start = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let place = match std::fs::metadata(root) {
            Ok(found) if !machine_start.trim().is_empty() => {
                format!("{} {} {}", machine_start.trim(), found.dev(), found.ino())
            }
            _ => String::new(),
        };
        let text = std::fs::read_to_string(root.join(WRITERS)).unwrap_or_default();
        let known = serde_json::from_str(&text).unwrap_or_default();
        Writers { known, place }
    }

    fn ids(&self) -> Vec<String> {
        self.known.iter().map(|known| known.id.clone()).collect()
    }

    /// Returns the ids of processes that do not live any more, because the directory is locked. After a restart of the
    /// machine, nothing is known: a copy of its disk may be in use elsewhere.
    fn ended(&self) -> Vec<String> {
        let is_here = |known: &&WriterId| !known.place.is_empty() && known.place == self.place;
        self.known.iter().filter(is_here).map(|known| known.id.clone()).collect()
    }

    fn add(&mut self, id: &str, root: &Path) -> std::io::Result<()> {
        self.known.push(WriterId { id: id.into(), place: self.place.clone() });
        self.known.drain(..self.known.len().saturating_sub(Writers::MOST));
        let (path, new) = (root.join(WRITERS), root.join("WRITERS.new"));
        let text = serde_json::to_string(&self.known).unwrap_or_default() + "\n";
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path));
        // On a full disk, an older file does: the next start may then wait for the end of the lease.
        if path.exists() { Ok(()) } else { written }
    }
}

/// A directory and how it is opened.
struct Directory<'a> {
    root: &'a Path,
    settings: CatalogSettings,
    place: &'a Place,
}

impl Directory<'_> {
    /// Opens the log; `None` if the directory has none.
    fn open(&self) -> Result<Option<OpenLog>, CatalogError> {
        let names = std::fs::read_dir(self.root.join(DIRECTORY));
        let has_log = names.is_ok_and(|mut names| names.next().is_some());
        if has_log { self.create().map(Some) } else { Ok(None) }
    }

    fn create(&self) -> Result<OpenLog, CatalogError> {
        let log = open_log(Arc::new(RealDisk::new(self.root)?), self.settings.limits)?;
        // From the start, groups have the time, and segments stay until the backup has them.
        log.engine.follow(0);
        Ok(log)
    }

    /// Brings the directory up to date with what is durable in the place. `open` is the log that it has, and `own` are
    /// the processes that have used it.
    async fn bring_up_to_date(
        &self,
        mut open: Option<OpenLog>,
        before: &JournalEnd,
        own: &[String],
    ) -> Result<OpenLog, BackupError> {
        let mut before = before.clone();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let history = History::load(self.place).await?;
            let Some(tail) = newest_tail(&history, &before) else {
                return open.map_or_else(|| Ok(self.create()?), Ok);
            };
            let copied = match open {
                Some(log) => match compare(&log, &tail, &before, own) {
                    Local::Newest => return Ok(log),
                    // As after the loss of the power.
                    Local::Older if attempt == 1 => {
                        append_all(Replica::new(log), self.place, &history, &before).await
                    }
                    Local::Older | Local::Other => Err(BackupError::Gap),
                },
                None => Err(BackupError::Gap),
            };
            let copied = match copied {
                Err(BackupError::Gap) => self.restore(&history, &before).await,
                copied => copied,
            };
            match copied {
                Ok(()) if attempt < ATTEMPTS => open = self.open()?,
                Ok(()) => return Err(BackupError::Gap),
                // The process before may still delete entries that its backup has.
                Err(BackupError::Damaged { .. } | BackupError::Gap) if attempt < ATTEMPTS => {
                    pause(RETRY_MS).await;
                    before = before.with_entries_of(JournalEnd::find(self.place).await?);
                    open = self.open()?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes the log to a new directory, which replaces the old one. The old one is kept.
    async fn restore(&self, history: &History, before: &JournalEnd) -> Result<(), BackupError> {
        let unfinished = beside(self.root, ".unfinished");
        remove(&unfinished)?;
        let disk = Arc::new(RealDisk::new(&unfinished)?);
        let cut = find(self.place, history, None).await?;
        write_log(self.place, history, &cut, &*disk).await?;
        let replica = Replica::new(open_log(disk, self.settings.limits)?);
        append_all(replica, self.place, history, before).await?;
        // A log without an index is read again, but an index must not be that of another log.
        for name in [INDEX_DIRECTORY, DIRECTORY] {
            let old = self.root.join(name);
            if old.exists() {
                let aside = beside(self.root, &format!(".{name}-{}", now_ms()));
                std::fs::rename(&old, &aside)?;
                note(&format!(
                    "the directory of the catalog did not have what another gateway has written; its {name} is now \
                     {}, and can be deleted",
                    aside.display()
                ));
            }
        }
        for name in [DIRECTORY, INDEX_DIRECTORY] {
            let new = unfinished.join(name);
            if new.exists() {
                std::fs::rename(new, self.root.join(name))?;
            }
        }
        remove(&unfinished)?;
        std::fs::File::open(self.root)?.sync_all()?;
        Ok(())
    }
}

fn beside(root: &Path, suffix: &str) -> PathBuf {
    let mut name = root.file_name().unwrap_or_default().to_os_string();
    name.push(suffix);
    root.with_file_name(name)
}

fn remove(directory: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Part of the durable log that a directory has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Local {
    /// All of what is durable.
    Newest,
    /// A part of it, or something else.
    Older,
    /// All of it, and groups that were never acknowledged, whose writer was not the last one: since then, others may
    /// have read that they do not exist.
    Other,
}

/// Compares a log with the end of what is durable. `own` are the processes that have written the log.
pub fn compare(log: &OpenLog, tail: &Tail, before: &JournalEnd, own: &[String]) -> Local {
    let is_own = before.last.as_ref().is_some_and(|last| own.contains(&last.header.writer));
    match tail.is_in(&log.engine) {
        false => Local::Older,
        true if is_own || log.end.group == tail.position.group || before.last.is_none() => Local::Newest,
        true => Local::Other,
    }
}

/// Returns the end of what is durable; `None` if nothing is.
pub fn newest_tail(history: &History, before: &JournalEnd) -> Option<Tail> {
    let shipped = history.pieces.last().map(|known| known.header.tail.clone());
    let sent = before.last.as_ref().map(|known| known.header.tail.clone());
    let known = shipped.into_iter().chain(sent).filter(|tail| !tail.sha256.is_empty());
    known.max_by_key(|tail| tail.position.group)
}

/// Adds what the journal has until a Unix time in milliseconds to the restored log of the newest state of a backup.
/// Returns the time of the last group; `None` if there is none.
///
/// # Errors
/// If the place or the disk fails, or the journal does not continue the log.
pub async fn append_journal(
    place: &Place,
    root: &Path,
    limits: CatalogLimits,
    at_ms: Option<u64>,
) -> Result<Option<u64>, BackupError> {
    let end = JournalEnd::find(place).await?;
    let mut replica = Replica::new(open_log(Arc::new(RealDisk::new(root)?), limits)?);
    let (salt, mut last_ms) = (replica.engine().salt, None);
    let entries = end.runs(place).try_take_while(|(headers, runs)| {
        let groups = headers.iter().zip(runs).flat_map(|(run, bytes)| {
            groups_of(run.segment, run.offset, bytes, salt).filter_map(|group| time_of(&group))
        });
        let time = groups.max().or(last_ms);
        let is_before = at_ms.is_none_or(|at_ms| time.is_none_or(|time| time <= at_ms));
        if is_before {
            last_ms = time;
        }
        std::future::ready(Ok(is_before))
    });
    append_runs(&mut replica, entries).await?;
    replica.into_writer()?;
    Ok(last_ms)
}

/// Adds everything that a backup and a journal have to a copy of the log.
///
/// # Errors
/// [`BackupError::Gap`] if the copy has other bytes, or the backup does not have what follows the copy.
pub async fn append_all(
    mut replica: Replica,
    place: &Place,
    history: &History,
    before: &JournalEnd,
) -> Result<(), BackupError> {
    let group = replica.end().group;
    let last = history.pieces.len().saturating_sub(1);
    let first = if history.pieces.is_empty() { 0 } else { history.first_of(last) };
    // Also the piece with the last bytes of the copy, to compare them.
    let wanted = (first..history.pieces.len()).filter(|index| {
        let header = &history.pieces[*index].header;
        header.tail.position.group >= group && !header.runs.is_empty()
    });
    let pieces = read_pieces(place, history, wanted);
    let pieces = pieces.map_ok(|(index, bytes)| (history.pieces[index].header.runs.clone(), bytes));
    append_runs(&mut replica, pieces).await?;
    append_runs(&mut replica, before.runs(place)).await?;
    // With a table, the next reading of the log is short.
    let (engine, mut writer, _) = replica.into_writer()?;
    writer.freeze();
    Ok(engine.flush()?)
}

/// Adds runs to a copy of the log, in their order.
async fn append_runs(
    replica: &mut Replica,
    runs: impl Stream<Item = Result<(Vec<RunHeader>, Vec<Bytes>), BackupError>>,
) -> Result<(), BackupError> {
    let mut runs = pin!(runs);
    while let Some((headers, bytes)) = runs.try_next().await? {
        for (run, bytes) in headers.iter().zip(bytes) {
            let RunHeader { segment, first_group, next_group, offset, .. } = *run;
            let part = Part { segment, first_group, next_group, offset, bytes };
            replica.append(&part).map_err(|error| match error {
                ReplicaError::Differs { .. } | ReplicaError::Gap(_) => BackupError::Gap,
                ReplicaError::Damaged(group) => {
                    BackupError::damaged(format!("group {group} of the log"), "it is not intact")
                }
                ReplicaError::Catalog(error) => BackupError::Catalog(error),
            })?;
        }
    }
    Ok(())
}

/// Returns the identity of a catalog; `None` before it has one.
fn identity(engine: &Engine) -> Result<Option<Identity>, CatalogError> {
    let row = engine.get(crate::object::keys::IDENTITY)?;
    row.map(|row| intact(Identity::decode(&row.head))).transpose()
}

/// Returns the identity of a catalog, which gets one if it has none.
fn identify(writer: &mut Writer) -> Result<Identity, CatalogError> {
    if let Some(known) = identity(&writer.engine)? {
        return Ok(known);
    }
    let new = Identity { id: new_name(), position: 0, at_ms: 0 };
    let work: Work = Box::new(move |t: &mut dyn Transaction| {
        t.check_absent(crate::object::keys::IDENTITY)?;
        owner::put(t, new);
        Ok(true)
    });
    writer.commit(vec![work], true).into_iter().next().unwrap_or(Ok(()))?;
    Ok(new)
}

/// Checks that a place belongs to the catalog in a directory, before anything is written to the place.
async fn check_owner(place: &Place, open: Option<&OpenLog>) -> Result<(), BackupError> {
    let found = place.catalog().await?;
    let own = open.map(|open| identity(&open.engine)).transpose()?.flatten();
    match (found, own) {
        (Some(found), Some(own)) if found != hex(&own.id) => {
            Err(BackupError::Foreign { found, own: hex(&own.id) })
        }
        _ => Ok(()),
    }
}

/// Opens the catalog in a directory with its journal.
///
/// # Errors
/// [`BackupError::Led`] if another process leads; or if the place or the disk fails, or the place belongs to another
/// catalog.
pub fn open(
    root: &Path,
    settings: CatalogSettings,
    journal: &JournalSettings,
) -> Result<Started, BackupError> {
    let lock = lock_of(root)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let place = &journal.place;
        let directory = Directory { root, settings, place };
        let open = directory.open()?;
        check_owner(place, open.as_ref()).await?;
        let mut writers = Writers::load(root);
        let (writer, own) = (hex(&new_name()), writers.ids());
        let candidate = Candidate { writer, ended: writers.ended(), lease_ms: journal.lease_ms };
        writers.add(&candidate.writer, root)?;
        let leadership = take_over(place, &candidate).await?;
        let log = directory.bring_up_to_date(open, &leadership.before, &own).await?;
        let (engine, mut writer, recovery) = log.into_writer()?;
        let id = hex(&identify(&mut writer)?.id);
        // The start may have taken longer than the lease.
        let now = JournalEnd::find(place).await?;
        if now.last.as_ref() != Some(&leadership.fence) {
            return Err(BackupError::Led);
        }
        let shipper = ship(place, &mut writer, &id).await?;
        let lease = Arc::new(Lease::default());
        // The end of the last group: the segment behind it has no bytes that anybody ships.
        let tail = Tail::of(&engine, shipper.position()).ok_or(BackupError::Gap)?;
        let entries = first_entry(EntryWriter::new(place.clone(), &leadership, tail), &lease).await?;
        writer.set_journaled();
        let (of_journal, of_lease) = (Arc::clone(&engine), Arc::clone(&lease));
        let committer = Committer::with_journal(writer, |confirmation| {
            TierJournal::start(of_journal, entries, of_lease, confirmation)
        })?;
        let ballast = Arc::clone(RealDisk::new(root)?.ballast());
        let parts = Parts { engine, committer, ballast, lease: Some(lease), lock };
        let catalog = EmbeddedCatalog::start(parts, settings)?;
        // The thread of the journal keeps the lease meanwhile.
        delete_old(place, &leadership.before).await;
        Ok(Started { catalog, recovery, shipper })
    })
}

/// Ends the use of the journal: brings the directory up to date, and lets nobody wait for it.
///
/// # Errors
/// As [`open`].
pub fn leave(root: &Path, settings: CatalogSettings, journal: &JournalSettings) -> Result<(), BackupError> {
    open(root, settings, journal)?.catalog.close()?;
    std::fs::remove_file(root.join(WRITERS))?;
    Ok(())
}

/// Returns true if the groups of the catalog in a directory were durable in a journal: the directory may be older.
pub fn has_journal(root: &Path) -> bool {
    root.join(WRITERS).exists()
}

/// Ships everything that the log has, so that its state can be restored.
///
/// # Errors
/// If the place or the disk fails.
pub async fn ship(place: &Place, writer: &mut Writer, id: &str) -> Result<Shipper, BackupError> {
    let engine = Arc::clone(&writer.engine);
    let mut shipper = Shipper::begin(place.clone(), engine, id, Directories::default()).await?;
    while !shipper.step().await?.is_up_to_date {}
    if !shipper.has_state {
        let at_ms = now_ms();
        let work: Work = Box::new(move |t: &mut dyn Transaction| {
            last::put(t, at_ms);
            Ok(true)
        });
        writer.commit(vec![work], true).into_iter().next().unwrap_or(Ok(()))?;
        while !shipper.step().await?.is_up_to_date {}
    }
    if shipper.has_state { Ok(shipper) } else { Err(BackupError::Incomplete) }
}

/// Creates the first entry of the epoch, without which nobody may read or write.
async fn first_entry(mut entries: EntryWriter, lease: &Lease) -> Result<EntryWriter, BackupError> {
    let (flight, object) = entries.next(None, false);
    let mut attempt = 0;
    loop {
        match EntryWriter::attempt(entries.place(), &flight, object.clone()).await {
            Ok(true) => break,
            Err(error @ BackupError::Fenced(_)) => return Err(error),
            Err(error) if attempt == ATTEMPTS => return Err(error),
            Ok(false) | Err(_) => pause(RETRY_MS).await,
        }
        attempt += 1;
    }
    entries.landed(flight, lease);
    Ok(entries)
}

/// Deletes the entries of the epoch before: the backup has all of their groups. The fence stays.
async fn delete_old(place: &Place, before: &JournalEnd) {
    let deleted =
        place.delete_numbers(Chain::Journal, before.groups_epoch, before.numbers.iter().copied()).await;
    if let Err(error) = deleted {
        note(&format!("entries of the journal that nothing needs were not deleted: {error}"));
    }
}
