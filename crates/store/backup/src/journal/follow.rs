//! A standby: keeps a copy of the log of a catalog that another gateway leads, and finds out when it leads no more.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_base::net::encode::hex;

use super::directory::{Directory, LastBytes, Source, newest_tail};
use super::end::JournalEnd;
use super::request;
use super::start::check_owner;
use super::take_over::{Candidate, Look, Watch, end_epoch};
use super::writers::Writers;
use crate::error::BackupError;
use crate::place::Place;
use plimsoll_bodies::name::new_name;
use plimsoll_catalog::ambient::steady_ms;
use plimsoll_catalog::embedded::catalog::{DirectoryLock, lock_of};
use plimsoll_catalog::embedded::replica::Replica;
use plimsoll_catalog::embedded::{CatalogLimits, Engine};
use plimsoll_catalog::following::{Following, Leader};
use plimsoll_objects::keys;

/// The copy of a log that another gateway writes.
pub struct Follower {
    root: PathBuf,
    limits: CatalogLimits,
    place: Place,
    candidate: Candidate,
    /// Ids of the processes that have used the directory.
    own: Vec<String>,
    /// Pieces and entries that were read.
    source: Source,
    /// Writer of the entries that were copied last.
    writer: String,
    replica: Option<Replica>,
    watch: Option<Watch>,
    /// Time before which this gateway does not begin to lead, in milliseconds since the start of the machine.
    not_before_ms: u64,
    /// Number of promotions for which the gateway that leads was asked to end.
    asked: u64,
    following: Arc<Following>,
    _lock: DirectoryLock,
}

/// Settings of a standby.
#[derive(Debug, Clone)]
pub struct FollowSettings {
    /// Place of the backup and of the journal.
    pub place: Place,
    /// Limits of the engine.
    pub limits: CatalogLimits,
    /// Milliseconds of the lease.
    pub lease_ms: u64,
    /// True if this gateway has just led, or could not begin to: it leaves others the time of the lease.
    pub yields: bool,
}

impl Follower {
    /// Opens the copy in a directory.
    ///
    /// # Errors
    /// If another process uses the directory, or the place or the disk fails, or the place belongs to another catalog.
    pub async fn open(
        root: &Path,
        settings: FollowSettings,
        following: Arc<Following>,
    ) -> Result<Follower, BackupError> {
        let lock = lock_of(root)?;
        let FollowSettings { place, limits, lease_ms, yields } = settings;
        let directory = Directory { root, limits, place: &place };
        let open = directory.open()?;
        check_owner(&place, open.as_ref()).await?;
        let mut writers = Writers::load(root);
        // With this file, a start without a journal is refused: the copy may be older than the catalog.
        writers.store(root)?;
        let candidate = Candidate { writer: hex(&new_name()), ended: writers.ended(), lease_ms };
        let own = writers.ids();
        let source = Source::load(place.clone(), None).await?;
        // An empty place has no log to copy, and a new one here would be another catalog.
        let replica = match newest_tail(&source.history, &source.end) {
            Some(_) => Some(directory.bring_up_to_date(open, None, &own).await?),
            None => None,
        };
        Ok(Follower {
            root: root.into(),
            limits,
            place,
            candidate,
            own,
            source,
            writer: String::new(),
            replica,
            watch: None,
            not_before_ms: if yields { steady_ms() + lease_ms } else { 0 },
            asked: 0,
            following,
            _lock: lock,
        })
    }

    /// Returns the copy of the log with its index; `None` while the place has nothing.
    pub fn engine(&self) -> Option<&Arc<Engine>> {
        self.replica.as_ref().map(Replica::engine)
    }

    /// Copies what is new in the place, and looks whether a gateway leads. Returns true if none does, and the next
    /// process in this directory will.
    ///
    /// # Errors
    /// [`BackupError::Gap`] if the copy must be opened again, because it has something else than the place; or if the
    /// place or the disk fails.
    pub async fn step(&mut self) -> Result<bool, BackupError> {
        // Before the place is read, because an entry may appear during the reading.
        let began_ms = steady_ms();
        self.copy().await?;
        let end = self.source.end.clone();
        let newest_ms = self.engine().map(|engine| newest_ms(engine)).transpose()?.flatten();
        let epoch = end.epoch;
        let mut leader = self.look(end, began_ms);
        if leader == Leader::Gone && !self.take_lead().await? {
            (leader, self.watch) = (Leader::Leads, None);
        }
        let promotions = self.following.found(began_ms, leader, newest_ms);
        // Only once for each command: a gateway that comes back by itself would be asked for ever.
        if leader == Leader::Leads && self.asked < promotions {
            request::ask(&self.place, epoch).await?;
            self.asked = promotions;
        }
        Ok(leader == Leader::Gone)
    }

    /// Returns the milliseconds until the next step, at most `most`.
    pub fn pause_ms(&self, most: u64) -> u64 {
        /// Time between two looks of a gateway that is promoted.
        const SOON_MS: u64 = 100;
        let most = if self.following.is_awaited() {
            most.min(SOON_MS)
        } else {
            most.min(self.candidate.lease_ms / 4)
        };
        self.watch.as_ref().map_or(most, |watch| watch.pause_ms(most)).max(1)
    }

    /// Ends the copy, so that its next opening is short.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn close(self) -> Result<(), BackupError> {
        self.replica.map_or(Ok(()), |replica| Ok(replica.close()?))
    }

    /// Ends the epoch of the gateway that led, so that the next process in this directory does not wait for the end of
    /// its lease once more, and others wait for this one. Returns false if another gateway was faster.
    async fn take_lead(&self) -> Result<bool, BackupError> {
        // Before the fence exists, so that the next process here finds its writer in the file.
        Writers::load(&self.root).add(&self.candidate.writer, &self.root)?;
        let taken = end_epoch(&self.place, &self.candidate, self.source.end.clone()).await?;
        Ok(taken.is_some())
    }

    fn look(&mut self, end: JournalEnd, began_ms: u64) -> Leader {
        if end.last.is_none() {
            // Without a journal, nothing says whether a gateway acknowledges writes: this one must not lead.
            return Leader::Unknown;
        }
        let watch = self.watch.get_or_insert_with(|| Watch::new(end.clone(), &self.candidate));
        match watch.look(end.clone(), began_ms, &self.candidate) {
            Look::Free(_) if began_ms >= self.not_before_ms => Leader::Gone,
            Look::Free(_) | Look::Wait => Leader::Leads,
            Look::Led => {
                self.watch = Some(Watch::new(end, &self.candidate));
                Leader::Leads
            }
        }
    }

    async fn copy(&mut self) -> Result<(), BackupError> {
        let pieces = self.source.history.pieces.len();
        self.source.refresh().await?;
        let Some(replica) = &mut self.replica else {
            if newest_tail(&self.source.history, &self.source.end).is_some() {
                let directory = Directory { root: &self.root, limits: self.limits, place: &self.place };
                let open = directory.open()?;
                self.replica = Some(directory.bring_up_to_date(open, None, &self.own).await?);
            }
            return Ok(());
        };
        // Another writer may have continued at an earlier group.
        let writer = self.source.end.last.as_ref().map_or("", |last| &last.header.writer);
        let last_bytes = if self.writer == writer { LastBytes::Trusted } else { LastBytes::Compared };
        let (writer, before) = (writer.to_string(), replica.end());
        self.source.catch_up(replica, &self.own, last_bytes).await?;
        // Only now: after an error, the next copy must compare again.
        self.writer = writer;
        if replica.end() != before {
            replica.merge()?;
        }
        let history = &self.source.history;
        // Only with a new header whose groups the copy has: before, the copy may need other segments.
        let last = history.pieces.len().checked_sub(1).filter(|last| last + 1 > pieces);
        if let Some(last) = last
            && history.pieces[last].header.tail.position.group <= replica.end().group
            && let Some(live) = history.live(last)
        {
            replica.remove_unused(&live)?;
        }
        Ok(())
    }
}

/// Returns the time of the last group of a log in Unix milliseconds; `None` if it has none.
pub fn newest_ms(engine: &Engine) -> Result<Option<u64>, BackupError> {
    let row = engine.get(keys::TIME)?;
    Ok(row
        .and_then(|row| row.head[..].try_into().ok())
        .map(u64::from_be_bytes)
        .filter(|time_ms| *time_ms > 0))
}
