//! Opens a catalog with a journal: brings its directory up to date, and begins an epoch.

use std::path::Path;
use std::sync::{Arc, Mutex};

use plimsoll_base::net::encode::hex;

use super::directory::Directory;
use super::end::JournalEnd;
use super::entry::EntryWriter;
use super::sender::{ExtendingThread, TierJournal};
use super::take_over::{Candidate, Leadership, take_over};
use super::writers::{WRITERS, Writers};
use crate::bodies::Directories;
use crate::error::BackupError;
use crate::header::Tail;
use crate::last;
use crate::place::{Chain, Place};
use crate::ship::{BegunShipper, Shipper};
use plimsoll_bodies::name::new_name;
use plimsoll_catalog::ambient::{now_ms, pause};
use plimsoll_catalog::committer::Committer;
use plimsoll_catalog::disk::real::RealDisk;
use plimsoll_catalog::embedded::Engine;
use plimsoll_catalog::embedded::catalog::{CatalogSettings, EmbeddedCatalog, Parts, lock_of};
use plimsoll_catalog::embedded::recovery::{OpenLog, Recovery};
use plimsoll_catalog::embedded::writer::Writer;
use plimsoll_catalog::lease::{Lease, LeaseKeeper};
use plimsoll_catalog::log::note;
use plimsoll_catalog::{CatalogError, Transaction, Work, intact};
use plimsoll_objects::owner::{self, Identity};

/// Number of attempts to create the first entry, and to begin the backup.
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
    /// True if each group is an entry before it is acknowledged. Else, entries only extend the lease, and the backup
    /// has the groups later.
    pub has_groups: bool,
}

/// An open catalog with its journal.
pub struct Started {
    /// Catalog in the directory.
    pub catalog: EmbeddedCatalog,
    /// Findings of the start.
    pub recovery: Recovery,
    /// Writer of the backup, which has everything up to the start.
    pub shipper: BegunShipper,
}

/// Returns the identity of a catalog; `None` before it has one.
fn identity(engine: &Engine) -> Result<Option<Identity>, CatalogError> {
    let row = engine.get(plimsoll_objects::keys::IDENTITY)?;
    row.map(|row| intact(Identity::decode(&row.head))).transpose()
}

/// Returns the identity of a catalog, which gets one if it has none.
fn identify(writer: &mut Writer) -> Result<Identity, CatalogError> {
    if let Some(known) = identity(&writer.engine)? {
        return Ok(known);
    }
    let new = Identity { id: new_name(), position: 0, at_ms: 0 };
    let work: Work = Box::new(move |t: &mut dyn Transaction| {
        // The record may be lost, and not missing. With a second identity, all tiers would belong to another catalog.
        t.check_absent(plimsoll_objects::keys::IDENTITY)?;
        owner::put(t, new);
        Ok(true)
    });
    writer.commit(vec![work], true).into_iter().next().unwrap_or(Ok(()))?;
    Ok(new)
}

/// Checks that a place has no backup of another catalog than the one in a directory.
///
/// # Errors
/// [`BackupError::Foreign`] if it belongs to another one, or the error of the place or the disk.
pub async fn check_owner(place: &Place, open: Option<&OpenLog>) -> Result<(), BackupError> {
    let found = place.catalog().await?;
    let own = open.map(|open| identity(&open.engine)).transpose()?.flatten();
    match (found, own) {
        (Some(found), Some(own)) if found != hex(&own.id) => {
            Err(BackupError::Foreign { found, own: hex(&own.id) })
        }
        _ => Ok(()),
    }
}

/// A catalog whose process leads, before it has created an entry.
struct Leader {
    id: String,
    engine: Arc<Engine>,
    writer: Writer,
    recovery: Recovery,
    shipper: Shipper,
}

impl Directory<'_> {
    /// Brings the log up to date behind the fence of this process, and ships it.
    async fn begin(
        &self,
        mut open: Option<OpenLog>,
        leadership: &Leadership,
        own: &[String],
    ) -> Result<Leader, BackupError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            // `take_over` has prepared the directory before the fence, so little is left to read under its lease.
            let replica = self.bring_up_to_date(open.take(), Some(&leadership.before), own).await?;
            let (engine, mut writer, recovery) = replica.into_writer()?;
            let id = hex(&identify(&mut writer)?.id);
            // The start may have taken longer than the lease.
            let now = JournalEnd::find(self.place).await?;
            if now.last.as_ref() != Some(&leadership.fence) {
                return Err(BackupError::Led);
            }
            // Everything is shipped before the first entry, so nobody needs the entries of earlier epochs.
            match ship(self.place, &mut writer, &id).await {
                Ok(shipper) => return Ok(Leader { id, engine, writer, recovery, shipper }),
                // The process before has shipped more meanwhile; its backup has ended now.
                Err(BackupError::Gap) if attempt < ATTEMPTS => open = self.open()?,
                Err(error) => return Err(error),
            }
        }
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
    // First: the processes in WRITERS have ended only if no other one holds the directory.
    let lock = lock_of(root)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let place = &journal.place;
        let directory = Directory { root, limits: settings.limits, place };
        let mut open = directory.open()?;
        // Before anything is created: a fence would end the epoch of another catalog.
        check_owner(place, open.as_ref()).await?;
        let mut writers = Writers::load(root);
        let (writer, own) = (hex(&new_name()), writers.ids());
        let candidate = Candidate { writer, ended: writers.ended(), lease_ms: journal.lease_ms };
        // Before the fence: a later start here must know the writer. Else it waits for the lease, and sets aside the
        // groups that only this log has.
        writers.add(&candidate.writer, root)?;
        // A restore may take longer than the lease.
        let leadership = take_over(place, &candidate, async |before| {
            let replica = directory.bring_up_to_date(open.take(), Some(before), &own).await?;
            open = Some(replica.into_log()?);
            Ok(())
        });
        let leadership = leadership.await?;
        let Leader { id, engine, mut writer, recovery, shipper } =
            directory.begin(open.take(), &leadership, &own).await?;
        // Before the first entry: a program that ignores journals would restore an older state.
        place.require_journal(&id).await?;
        let lease = Arc::new(Lease::default());
        // The end of the last group: the segment behind it has no bytes that anybody ships.
        let tail = Tail::of(&engine, shipper.position()).ok_or(BackupError::Gap)?;
        let entries = first_entry(EntryWriter::new(place.clone(), &leadership, tail), &lease).await?;
        // Before the first write, so that failed starts never displace this process (`Writers::forget`).
        writers.lead(root)?;
        let (of_journal, of_lease) = (Arc::clone(&engine), Arc::clone(&lease));
        let mut keeper: Option<Box<dyn LeaseKeeper>> = None;
        let shipper = Arc::new(Mutex::new(Some(shipper)));
        let committer = if journal.has_groups {
            // From now on, the synced end is that of the groups with entries: pieces must not have others.
            writer.set_journaled();
            Committer::with_journal(writer, |confirmation| {
                TierJournal::start(of_journal, entries, of_lease, confirmation)
            })?
        } else {
            keeper =
                Some(Box::new(ExtendingThread::start(of_journal, entries, of_lease, Arc::clone(&shipper))?));
            Committer::start(writer, settings.durability)?
        };
        let ballast = Arc::clone(RealDisk::new(root)?.ballast());
        let parts = Parts { engine, committer, ballast, lease: Some(lease), keeper, lock };
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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // The directory alone has the next groups. An entry would say later that somebody else may have them.
        let end = JournalEnd::find(&journal.place).await?;
        journal.place.delete_numbers(Chain::Journal, end.groups_epoch, end.numbers.iter().copied()).await
    })?;
    // Last: until then, a start without the place is refused, because it could lack writes.
    std::fs::remove_file(root.join(WRITERS))?;
    Ok(())
}

/// Returns true if processes with a journal have used a directory: others may have newer groups than it.
pub fn has_journal(root: &Path) -> bool {
    root.join(WRITERS).exists()
}

/// Ships everything that the log has, so that its state can be restored.
///
/// # Errors
/// If the place or the disk fails. [`BackupError::Gap`] if the place has a part of the log that this one does not have.
pub async fn ship(place: &Place, writer: &mut Writer, id: &str) -> Result<Shipper, BackupError> {
    let engine = Arc::clone(&writer.engine);
    let mut shipper = Shipper::begin(place.clone(), engine, id, Directories::default()).await?;
    if shipper.is_other {
        // Shipped from its start, this log would replace what only the place has.
        return Err(BackupError::Gap);
    }
    while !shipper.step().await?.is_up_to_date {}
    // What the log had before its backup has no complete state; only a further group makes one.
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
    // The lease begins only now: another process could have ended the epoch before this entry.
    entries.landed(flight, lease);
    Ok(entries)
}

/// Deletes the entries of the epoch before: the backup has all of their groups. The fence stays.
async fn delete_old(place: &Place, before: &JournalEnd) {
    let deleted =
        place.delete_numbers(Chain::Journal, before.groups_epoch, before.numbers.iter().copied()).await;
    // They only cost space, so the start goes on.
    if let Err(error) = deleted {
        note(&format!("entries of the journal that nothing needs were not deleted: {error}"));
    }
}
