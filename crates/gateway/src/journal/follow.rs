//! A standby: keeps a copy of the log of a catalog that another gateway leads, and finds out when it leads no more.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use plimsoll_base::net::encode::hex;
use tokio::sync::Notify;

use super::directory::{Directory, Local, append_new, compare, newest_tail};
use super::end::{Headers, JournalEnd};
use super::request;
use super::start::check_owner;
use super::take_over::{Candidate, Look, Watch};
use super::writers::Writers;
use crate::ambient::{pause, steady_ms};
use crate::backup::error::BackupError;
use crate::backup::history::History;
use crate::backup::place::Place;
use crate::body::blob::new_name;
use crate::catalog::embedded::catalog::{DirectoryLock, lock_of};
use crate::catalog::embedded::replica::Replica;
use crate::catalog::embedded::{CatalogLimits, Engine};
use crate::object::keys;

/// Number of attempts to read what the gateway that leads may still delete.
const ATTEMPTS: usize = 5;
/// Milliseconds between two of them.
const RETRY_MS: u64 = 200;

/// The gateway that leads the catalog, as a standby sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Leader {
    /// The place has no journal: no gateway with a lease has used it.
    #[default]
    Unknown,
    /// It leads, or its lease has not ended.
    Leads,
    /// It does not lead any more.
    Gone,
}

/// State of a standby.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct FollowState {
    /// URL of the place.
    pub of: String,
    /// Gateway that leads.
    pub leader: Leader,
    /// Time of the newest write in the copy, in Unix milliseconds; `None` if it has none.
    pub newest_ms: Option<u64>,
    /// Time since the copy had everything that was in the place, in seconds.
    pub lag_seconds: f64,
    /// Last problem; `None` if the last look has succeeded.
    pub problem: Option<String>,
    /// True if this gateway begins to lead as soon as it can.
    pub is_promoted: bool,
}

/// State of a standby that its threads share.
#[derive(Debug, Default)]
pub struct Following {
    shared: Mutex<Shared>,
    changed: Condvar,
    promoted: Notify,
}

#[derive(Debug, Default)]
struct Shared {
    state: FollowState,
    /// Time at which the last complete look began, in milliseconds since the start of the machine.
    complete_ms: u64,
    /// Number of commands that wait for the result of a promotion.
    waiting: usize,
}

impl Following {
    /// Begins with the URL of a place.
    pub fn new(url: &str) -> Arc<Following> {
        let following = Following::default();
        following.change(|shared| {
            shared.state.of = url.into();
            shared.complete_ms = steady_ms();
        });
        Arc::new(following)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Shared) -> T) -> T {
        let changed = change(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
        changed
    }

    /// Returns the state.
    pub fn state(&self) -> FollowState {
        self.change(|shared| FollowState {
            lag_seconds: steady_ms().saturating_sub(shared.complete_ms) as f64 / 1000.0,
            ..shared.state.clone()
        })
    }

    /// Records why a look has failed. Returns true if this is new.
    pub fn fail(&self, problem: String) -> bool {
        self.change(|shared| shared.state.problem.replace(problem.clone()) != Some(problem))
    }

    /// Lets this gateway lead as soon as it can, and waits until it can. Returns the time of the newest write in the
    /// copy, in Unix milliseconds.
    pub fn promote(&self) -> Option<u64> {
        self.change(|shared| {
            shared.state.is_promoted = true;
            shared.waiting += 1;
        });
        self.promoted.notify_one();
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        while shared.state.leader != Leader::Gone {
            shared = self.changed.wait(shared).unwrap_or_else(PoisonError::into_inner);
        }
        shared.state.newest_ms
    }

    /// Waits for a time, or until this gateway is promoted.
    pub async fn pause(&self, ms: u64) {
        tokio::select! {
            () = pause(ms) => {}
            () = self.promoted.notified() => {}
        }
    }

    /// Records that a command has told the result of a promotion.
    pub fn has_told(&self) {
        self.change(|shared| shared.waiting -= 1);
    }

    /// Waits until all commands have told the result of a promotion, at most for a time.
    pub fn wait_until_told(&self, most: std::time::Duration) {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_timeout_while(shared, most, |shared| shared.waiting > 0));
    }
}

/// The copy of a log that another gateway writes.
pub struct Follower {
    root: PathBuf,
    limits: CatalogLimits,
    place: Place,
    candidate: Candidate,
    /// Ids of the processes that have used the directory.
    own: Vec<String>,
    history: History,
    headers: Headers,
    /// Epoch of the last entry whose group the copy has.
    copied_epoch: u64,
    /// Number of this entry.
    copied: u64,
    replica: Option<Replica>,
    watch: Option<Watch>,
    /// Time before which this gateway does not begin to lead, in milliseconds since the start of the machine.
    not_before_ms: u64,
    asked: Option<u64>,
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
    /// True if this gateway has just led, and another one was promoted: it leaves it the time of the lease.
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
        let writers = Writers::load(root);
        let candidate = Candidate { writer: hex(&new_name()), ended: writers.ended(), lease_ms };
        let mut headers = Headers::default();
        let (history, end) =
            (History::load(&place).await?, JournalEnd::find_again(&place, &mut headers).await?);
        let own = writers.ids();
        let replica = match newest_tail(&history, &end) {
            Some(_) => Some(Replica::new(directory.bring_up_to_date(open, &end, &own).await?)),
            None => None,
        };
        Ok(Follower {
            root: root.into(),
            limits,
            place,
            candidate,
            own,
            history,
            headers,
            copied_epoch: 0,
            copied: 0,
            replica,
            watch: None,
            not_before_ms: if yields { steady_ms() + lease_ms } else { 0 },
            asked: None,
            following,
            _lock: lock,
        })
    }

    /// Returns the copy of the log with its index; `None` while the place has nothing.
    pub fn engine(&self) -> Option<&Arc<Engine>> {
        self.replica.as_ref().map(Replica::engine)
    }

    /// Copies what is new in the place, and looks whether a gateway leads. Returns true if none does.
    ///
    /// # Errors
    /// [`BackupError::Gap`] if the copy must be opened again, because it has something else than the place; or if the
    /// place or the disk fails.
    pub async fn step(&mut self) -> Result<bool, BackupError> {
        let began_ms = steady_ms();
        let end = self.copy().await?;
        let newest_ms = self.engine().map(|engine| newest_ms(engine)).transpose()?.flatten();
        let epoch = end.epoch;
        let leader = self.look(end, began_ms);
        let is_promoted = self.following.change(|shared| {
            shared.complete_ms = began_ms;
            (shared.state.leader, shared.state.newest_ms, shared.state.problem) = (leader, newest_ms, None);
            shared.state.is_promoted
        });
        if is_promoted && leader == Leader::Leads && self.asked != Some(epoch) {
            request::ask(&self.place, epoch).await?;
            self.asked = Some(epoch);
        }
        Ok(leader == Leader::Gone)
    }

    /// Returns the milliseconds until the next step, at most `most`.
    pub fn pause_ms(&self, most: u64) -> u64 {
        /// Time between two looks of a gateway that is promoted.
        const SOON_MS: u64 = 100;
        let most =
            if self.asked.is_some() { most.min(SOON_MS) } else { most.min(self.candidate.lease_ms / 4) };
        self.watch.as_ref().map_or(most, |watch| watch.pause_ms(most)).max(1)
    }

    /// Ends the copy, so that its next opening is short.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn close(self) -> Result<(), BackupError> {
        self.replica.map_or(Ok(()), |replica| Ok(replica.close()?))
    }

    fn look(&mut self, end: JournalEnd, began_ms: u64) -> Leader {
        if end.last.is_none() {
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

    /// Copies what is new, with several attempts, because entries and pieces may be deleted meanwhile.
    async fn copy(&mut self) -> Result<JournalEnd, BackupError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.try_copy().await {
                Err(BackupError::Gap | BackupError::Damaged { .. }) if attempt < ATTEMPTS => {
                    pause(RETRY_MS).await;
                    self.history = History::load(&self.place).await?;
                    (self.headers, self.copied_epoch) = (Headers::default(), 0);
                }
                copied => return copied,
            }
        }
    }

    async fn try_copy(&mut self) -> Result<JournalEnd, BackupError> {
        let pieces = self.history.pieces.len();
        self.history.refresh(&self.place).await?;
        let end = JournalEnd::find_again(&self.place, &mut self.headers).await?;
        let Some(tail) = newest_tail(&self.history, &end) else { return Ok(end) };
        let Some(replica) = &mut self.replica else {
            let directory = Directory { root: &self.root, limits: self.limits, place: &self.place };
            let log = directory.bring_up_to_date(directory.open()?, &end, &self.own).await?;
            self.replica = Some(Replica::new(log));
            return Ok(end);
        };
        let found = |replica: &Replica| compare(replica.engine(), replica.end(), &tail, &end, &self.own);
        if found(replica) != Local::Newest {
            let new = end.clone().behind(self.copied_epoch, self.copied);
            append_new(replica, &self.place, &self.history, &new).await?;
            replica.sync()?;
            if found(replica) != Local::Newest {
                return Err(BackupError::Gap);
            }
            replica.merge()?;
        }
        (self.copied_epoch, self.copied) = (end.groups_epoch, end.numbers.last().copied().unwrap_or(0));
        let last = self.history.pieces.len().checked_sub(1).filter(|last| last + 1 > pieces);
        if let Some(last) = last
            && self.history.pieces[last].header.tail.position.group <= replica.end().group
            && let Some(live) = self.history.live(last)
        {
            replica.remove_unused(&live)?;
        }
        Ok(end)
    }
}

/// Returns the time of the last group of a log in Unix milliseconds; `None` if it has none.
pub fn newest_ms(engine: &Engine) -> Result<Option<u64>, BackupError> {
    let row = engine.get(keys::TIME)?;
    Ok(row.and_then(|row| row.head[..].try_into().ok()).map(u64::from_be_bytes))
}
