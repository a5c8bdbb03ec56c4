//! The directory of a catalog with a journal: brings its log up to date with what other processes have written, or
//! restores the whole log.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use serde::{Deserialize, Serialize};

use super::end::{Headers, JournalEnd};
use crate::error::BackupError;
use crate::header::{RunHeader, Tail};
use crate::history::History;
use crate::place::Place;
use crate::plan::time_of;
use crate::restore::{find, groups_of, read_pieces, write_log};
use plimsoll_catalog::CatalogError;
use plimsoll_catalog::ambient::{now_ms, pause};
use plimsoll_catalog::disk::real::RealDisk;
use plimsoll_catalog::embedded::recovery::{OpenLog, open_log};
use plimsoll_catalog::embedded::replica::{Part, Replica, ReplicaError};
use plimsoll_catalog::embedded::segment::DIRECTORY;
use plimsoll_catalog::embedded::segment_list::Position;
use plimsoll_catalog::embedded::{CatalogLimits, Engine, INDEX_DIRECTORY};
use plimsoll_catalog::log::note;

/// Number of attempts to read what another process may still delete.
const ATTEMPTS: usize = 10;
/// Milliseconds between two of them.
const RETRY_MS: u64 = 200;
/// Name of the file in the directory of a replaced log with the end of what others have of it.
pub const SHIPPED: &str = "SHIPPED";
/// Directory in which a log is restored.
const UNFINISHED: &str = "restoring";

/// End of the part of a log that was shipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shipped {
    /// Position behind it.
    pub position: Position,
    /// Unix time in milliseconds of its last group; 0 if it is unknown.
    pub until_ms: u64,
}

impl Shipped {
    /// Finds the last piece of a backup, or the last entry of a journal, that a log contains.
    fn of(log: &OpenLog, source: &Source) -> Shipped {
        let pieces = source.history.pieces.iter().chain(source.end.last.as_ref());
        let known = pieces.filter(|known| !known.header.tail.sha256.is_empty());
        let last = known.filter(|known| known.header.tail.is_in(&log.engine));
        let last = last.max_by_key(|known| known.header.tail.position.group);
        let unknown = Shipped { position: Position::default(), until_ms: 0 };
        last.map_or(unknown, |known| Shipped {
            position: known.header.tail.position,
            until_ms: known.header.until_ms,
        })
    }
}

/// A directory and how it is opened.
pub struct Directory<'a> {
    /// Path of the directory.
    pub root: &'a Path,
    /// Limits of the engine.
    pub limits: CatalogLimits,
    /// Place of the backup and of the journal.
    pub place: &'a Place,
}

impl Directory<'_> {
    /// Opens the log; `None` if the directory has none.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn open(&self) -> Result<Option<OpenLog>, CatalogError> {
        // What a restore has left that did not end.
        remove(&self.root.join(UNFINISHED))?;
        let names = std::fs::read_dir(self.root.join(DIRECTORY));
        let has_log = names.is_ok_and(|mut names| names.next().is_some());
        if has_log { self.create().map(Some) } else { Ok(None) }
    }

    fn create(&self) -> Result<OpenLog, CatalogError> {
        let log = open_log(Arc::new(RealDisk::new(self.root)?), self.limits)?;
        // From the start, groups have the time, and segments stay until the backup has them.
        log.engine.follow(0);
        Ok(log)
    }

    /// Brings the directory up to date with what is durable in the place: `before` is the end of the journal if it does
    /// not change any more; otherwise, another process may go on meanwhile. `open` is the log that the directory has,
    /// and `own` are the processes that have used it.
    ///
    /// # Errors
    /// If the place or the disk fails, or the place does not have the whole log.
    pub async fn bring_up_to_date(
        &self,
        open: Option<OpenLog>,
        before: Option<&JournalEnd>,
        own: &[String],
    ) -> Result<Replica, BackupError> {
        let mut source = Source::load(self.place.clone(), before.cloned()).await?;
        if newest_tail(&source.history, &source.end).is_none() {
            return Ok(Replica::new(open.map_or_else(|| self.create(), Ok)?));
        }
        // The place has what a power loss has damaged in a copy. A log of this process's own may have more.
        let is_own = source.end.is_by(own);
        let shipped = open.as_ref().map(|log| Shipped::of(log, &source));
        if let Some(log) = open.filter(|log| is_own || log.recovery.damage.is_empty()) {
            let mut replica = Replica::new(log);
            match source.catch_up(&mut replica, own, LastBytes::Compared).await {
                // The log here is not a part of the one in the place, and does not count any more.
                Err(BackupError::Gap) => {}
                caught_up => return caught_up.map(|()| replica),
            }
        }
        self.restore(&mut source, shipped).await?;
        Ok(Replica::new(self.create()?))
    }

    /// Writes the log to a new directory, which replaces the old one. The old one is kept.
    async fn restore(&self, source: &mut Source, shipped: Option<Shipped>) -> Result<(), BackupError> {
        // The entries that another copy has are those that this one needs.
        source.read_epoch = 0;
        // In the directory, which may be the root of a file system.
        let unfinished = self.root.join(UNFINISHED);
        remove(&unfinished)?;
        let disk = Arc::new(RealDisk::new(&unfinished)?);
        let cut = find(self.place, &source.history, None).await?;
        write_log(self.place, &source.history, &cut, &*disk).await?;
        let mut replica = Replica::new(open_log(disk, self.limits)?);
        // The bytes are those of the place, so nothing is compared, and no process here has written them.
        source.catch_up(&mut replica, &[], LastBytes::Trusted).await?;
        // Durable before it gets its name: a start takes the log that it finds there.
        replica.close()?;
        // A log without an index is read again, but an index must not be that of another log.
        let aside = self.root.join(format!("replaced-{}", now_ms()));
        for name in [INDEX_DIRECTORY, DIRECTORY].into_iter().filter(|name| self.root.join(name).exists()) {
            std::fs::create_dir_all(&aside)?;
            std::fs::rename(self.root.join(name), aside.join(name))?;
        }
        if let Some(shipped) = shipped.filter(|_| aside.exists()) {
            let text = serde_json::to_string(&shipped).map_err(std::io::Error::other)?;
            std::fs::write(aside.join(SHIPPED), text + "\n")?;
        }
        if aside.exists() {
            note(&format!(
                "the catalog on this disk was not what the gateways after it have continued, and was replaced; only {0} has \
                 what was acknowledged here and not shipped, if anything was: `plimsoll-gateway unshipped FILE --from {0}` \
                 beside the gateway that leads lists it, and brings it back with --apply",
                aside.display()
            ));
        }
        // The log first, so that an index is never there without its log.
        for name in [DIRECTORY, INDEX_DIRECTORY] {
            let new = unfinished.join(name);
            if new.exists() {
                std::fs::rename(new, self.root.join(name))?;
            }
        }
        remove(&unfinished)?;
        // A group that is synced later is durable only if the name of its directory is.
        std::fs::File::open(self.root)?.sync_all()?;
        Ok(())
    }
}

/// Finds the end of the journal, with several attempts: entries may be deleted between two requests.
async fn find_end(place: &Place, headers: &mut Headers) -> Result<JournalEnd, BackupError> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match JournalEnd::find_again(place, headers).await {
            Err(BackupError::Damaged { .. }) if attempt < ATTEMPTS => pause(RETRY_MS).await,
            found => return found,
        }
    }
}

/// Treatment of the bytes at the end of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastBytes {
    /// The last bytes are compared with the bytes of the place.
    Compared,
    /// The last bytes were compared before.
    Trusted,
}

/// A backup and a journal, as they were read last.
pub struct Source {
    place: Place,
    /// Pieces of the backup.
    pub history: History,
    /// End of the journal.
    pub end: JournalEnd,
    /// True if the end of the journal does not change any more.
    is_final: bool,
    headers: Headers,
    /// Epoch of the last entry that was read as a whole.
    read_epoch: u64,
    /// Number of this entry.
    read_number: u64,
}

impl Source {
    /// Reads the headers. `before` is the end of the journal if it does not change any more.
    ///
    /// # Errors
    /// If the place fails, or something is damaged.
    pub async fn load(place: Place, before: Option<JournalEnd>) -> Result<Source, BackupError> {
        let history = History::load(&place).await?;
        let mut headers = Headers::default();
        let (end, is_final) = match before {
            Some(end) => (end, true),
            None => (find_end(&place, &mut headers).await?, false),
        };
        Ok(Source { place, history, end, is_final, headers, read_epoch: 0, read_number: 0 })
    }

    /// Reads what is new.
    ///
    /// # Errors
    /// If the place fails, or something is damaged.
    pub async fn refresh(&mut self) -> Result<(), BackupError> {
        self.history.refresh(&self.place).await?;
        let now = find_end(&self.place, &mut self.headers).await?;
        // Behind the fence of this process, nothing counts; only deleted entries are left out.
        self.end = if self.is_final { std::mem::take(&mut self.end).with_entries_of(now) } else { now };
        Ok(())
    }

    /// Adds to a copy of the log what it does not have, until it has everything that was in the place at one moment.
    ///
    /// # Errors
    /// [`BackupError::Gap`] if the copy has something else, or the place does not have what follows the copy; or if the
    /// place or the disk fails.
    pub async fn catch_up(
        &mut self,
        replica: &mut Replica,
        own: &[String],
        mut last_bytes: LastBytes,
    ) -> Result<(), BackupError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let Some(tail) = newest_tail(&self.history, &self.end) else { return Ok(()) };
            let found = |replica: &Replica| compare(replica.engine(), replica.end(), &tail, &self.end, own);
            match found(replica) {
                Local::Newest => return Ok(()),
                Local::Other => return Err(BackupError::Gap),
                Local::Older => {}
            }
            // Entries are read once, because a standby looks several times during a lease.
            let new = self.end.clone().behind(self.read_epoch, self.read_number);
            let appended = append(replica, &self.place, &self.history, &new, last_bytes).await;
            match appended {
                Ok(()) => {
                    // Before the comparison: `Tail::is_in` counts only what is synced.
                    replica.sync()?;
                    last_bytes = LastBytes::Trusted;
                    let last = self.end.numbers.last().copied();
                    (self.read_epoch, self.read_number) = (self.end.groups_epoch, last.unwrap_or(0));
                    if found(replica) == Local::Newest {
                        return Ok(());
                    }
                }
                // The process that leads deletes entries that its backup has.
                Err(BackupError::Gap | BackupError::Damaged { .. }) if attempt < ATTEMPTS => {
                    replica.sync()?;
                    pause(RETRY_MS).await;
                    // The groups of the deleted entries are in newer pieces.
                    self.history = History::load(&self.place).await?;
                }
                Err(error) => return Err(error),
            }
            if attempt == ATTEMPTS {
                return Err(BackupError::Gap);
            }
            self.refresh().await?;
        }
    }
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
    /// All of what is durable in the place.
    Newest,
    /// A part of it, or something else.
    Older,
    /// All of it, and groups that only this log has, whose writer was not the last one: since then, others may have
    /// read that they do not exist. Without groups in the journal, they may have been acknowledged.
    Other,
}

/// Compares a log, which ends at `end`, with the end of what is durable in the place. `own` are the ids of the
/// processes that have written the log.
pub fn compare(engine: &Engine, end: Position, tail: &Tail, before: &JournalEnd, own: &[String]) -> Local {
    let is_own = before.is_by(own);
    // Without any entry, this directory may have acknowledged the groups behind the tail before it had a journal.
    match tail.is_in(engine) {
        false => Local::Older,
        true if is_own || end.group == tail.position.group || before.writer.is_none() => Local::Newest,
        true => Local::Other,
    }
}

/// Returns the end of what is durable in the place; `None` if nothing is.
pub fn newest_tail(history: &History, before: &JournalEnd) -> Option<Tail> {
    // A log that is shipped again from its start has no state until it is complete.
    let complete = history.pieces.iter().rev().find(|known| known.header.is_complete);
    let shipped = complete.map(|known| known.header.tail.clone());
    let sent = before.last.as_ref().map(|known| known.header.tail.clone());
    let known = shipped.into_iter().chain(sent).filter(|tail| !tail.sha256.is_empty());
    // Either may be ahead: entries with groups are before the pieces, and entries without groups repeat an old end.
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
pub async fn append(
    replica: &mut Replica,
    place: &Place,
    history: &History,
    before: &JournalEnd,
    last_bytes: LastBytes,
) -> Result<(), BackupError> {
    // A comparison also needs the piece with the last bytes of the copy.
    let has_groups = replica.end().group > 0;
    if last_bytes == LastBytes::Compared {
        replica.begin_comparison();
    }
    let group = replica.end().group + u64::from(last_bytes == LastBytes::Trusted);
    let last = history.pieces.len().saturating_sub(1);
    let first = if history.pieces.is_empty() { 0 } else { history.first_of(last) };
    let wanted = (first..history.pieces.len()).filter(|index| {
        let header = &history.pieces[*index].header;
        header.tail.position.group >= group && !header.runs.is_empty()
    });
    let pieces = read_pieces(place, history, wanted);
    let pieces = pieces.map_ok(|(index, bytes)| (history.pieces[index].header.runs.clone(), bytes));
    append_runs(replica, pieces).await?;
    append_runs(replica, before.runs(place)).await?;
    // Without this comparison, the end of the copy could have other groups than the place.
    let is_unknown = has_groups && last_bytes == LastBytes::Compared && !replica.is_compared();
    if is_unknown { Err(BackupError::Gap) } else { Ok(()) }
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
