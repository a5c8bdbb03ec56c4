//! The embedded catalog with its threads: one commits, one writes memtables to tables, and one merges tables and
//! compacts the log.

use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use plimsoll_base::clock::{SECOND, now_ns};

use super::compaction::Step;
use super::recovery::{Recovery, open};
use super::writer::{Writer, WrittenGroup};
use super::{CatalogLimits, Engine};
use crate::committer::{Committer, Durability, GroupWriter};
use crate::disk::ballast::Ballast;
use crate::disk::real::RealDisk;
use crate::format;
use crate::keys;
use crate::lease::{Lease, LeaseKeeper, Over};
use crate::liveness;
use crate::pipeline::JournaledWriter;
use crate::threads;
use crate::{Catalog, CatalogError, Expected, KnownReads, Row, Scan, Value, Work};

/// Settings of an embedded catalog.
#[derive(Debug, Clone, Copy)]
pub struct CatalogSettings {
    /// Limits that trigger the work of the engine.
    pub limits: CatalogLimits,
    /// Time at which acknowledged transactions are durable.
    pub durability: Durability,
    /// Maximum rate of compaction in bytes per second.
    pub compaction_bytes_per_s: u64,
    /// True if a backup follows the log: from the start, groups have the time, and segments wait for it.
    pub is_followed: bool,
}

impl Default for CatalogSettings {
    fn default() -> CatalogSettings {
        CatalogSettings {
            limits: CatalogLimits::default(),
            durability: Durability::Sync,
            compaction_bytes_per_s: 64 << 20,
            is_followed: false,
        }
    }
}

/// The lock of a data directory. It ends with the process.
pub struct DirectoryLock {
    _directory: std::fs::File,
}

/// An open embedded catalog.
pub struct EmbeddedCatalog {
    engine: Arc<Engine>,
    committer: Arc<Committer<Writer>>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
    stop: Arc<Stop>,
    durability: Durability,
    /// Lease without which nothing is read; `None` if no other process can lead.
    lease: Option<Arc<Lease>>,
    /// Keeper of the lease; `None` if a journal keeps it, or without a lease. Groups are then acknowledged without it.
    keeper: Mutex<Option<Box<dyn LeaseKeeper>>>,
    /// True if a group that is durable on this disk is acknowledged only while this process leads.
    confirms: bool,
    _lock: DirectoryLock,
}

/// An open catalog without its threads.
pub struct Parts {
    /// The log and its index.
    pub engine: Arc<Engine>,
    /// The committing thread.
    pub committer: Committer<Writer>,
    /// Space for deletes on a full disk.
    pub ballast: Arc<Ballast>,
    /// Lease without which nothing is read; `None` if no other process can lead.
    pub lease: Option<Arc<Lease>>,
    /// Keeper of the lease; `None` if a journal keeps it, or without a lease.
    pub keeper: Option<Box<dyn LeaseKeeper>>,
    /// Lock of the directory.
    pub lock: DirectoryLock,
}

/// Signal that ends the maintenance.
#[derive(Default)]
struct Stop {
    is_set: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Stop {
    /// Waits for a time; returns true if the signal is set.
    fn wait(&self, time: Duration) -> bool {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_set.load(Ordering::Acquire) {
            drop(self.changed.wait_timeout(guard, time));
        }
        self.is_set.load(Ordering::Acquire)
    }

    fn set(&self) {
        let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_set.store(true, Ordering::Release);
        self.changed.notify_all();
    }
}

/// Locks a data directory for this process.
///
/// # Errors
/// If another process uses it.
pub fn lock(root: &Path) -> Result<DirectoryLock, CatalogError> {
    // The directory itself: a file in it could be deleted while a process holds its lock.
    let directory = std::fs::File::open(root)?;
    rustix::fs::flock(&directory, rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        CatalogError::Io(format!("{}: another process uses this directory; stop it first", root.display()))
    })?;
    Ok(DirectoryLock { _directory: directory })
}

/// Creates a data directory, if it does not exist, locks it, and checks its format.
///
/// # Errors
/// If another process uses it, or its format is unknown.
pub fn lock_of(root: &Path) -> Result<DirectoryLock, CatalogError> {
    let name = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let unfinished = root.with_file_name(format!("{name}.unfinished"));
    // The copy gets this name when it is complete. A catalog that is created here meanwhile would prevent that.
    if !root.exists() && unfinished.exists() && lock(&unfinished).is_err() {
        return Err(CatalogError::Io(format!(
            "{}: a copy of a catalog is being written for this place; wait for its end",
            root.display()
        )));
    }
    RealDisk::new(root)?;
    let lock = lock(root)?;
    // Under the lock, because this records the format of a new catalog.
    format::of_directory(root)?;
    Ok(lock)
}

/// Rows of a scan that count only while this process leads.
struct LeasedScan<'a> {
    scan: Box<dyn Scan + 'a>,
    lease: &'a Lease,
}

impl Scan for LeasedScan<'_> {
    fn seek(&mut self, from: Bound<&[u8]>) -> Result<(), CatalogError> {
        self.scan.seek(from)
    }

    fn next(&mut self) -> Result<Option<(Vec<u8>, Row)>, CatalogError> {
        let next = self.scan.next()?;
        // After the read: see `EmbeddedCatalog::checked`.
        self.lease.check()?;
        Ok(next)
    }
}

impl EmbeddedCatalog {
    /// Opens the catalog in a directory, creates it if necessary, and starts its threads.
    ///
    /// # Errors
    /// If another process uses the directory, or the disk fails.
    pub fn open(root: &Path, settings: CatalogSettings) -> Result<(EmbeddedCatalog, Recovery), CatalogError> {
        let lock = lock_of(root)?;
        let disk = RealDisk::new(root)?;
        let ballast = Arc::clone(disk.ballast());
        let (engine, writer, recovery) = open(Arc::new(disk), settings.limits)?;
        if settings.is_followed {
            // Before the first group, which then has a time. Nothing counts as shipped until a shipper begins.
            engine.follow(0);
        }
        // Without a follower, the next group must not seem to have the time of the last one. Damage may hide that time.
        if !matches!(engine.get(keys::TIME), Ok(None)) {
            engine.expect_other_time();
        }
        let committer = Committer::start(writer, settings.durability)?;
        let parts = Parts { engine, committer, ballast, lease: None, keeper: None, lock };
        Ok((EmbeddedCatalog::start(parts, settings)?, recovery))
    }

    /// Starts the threads of an open catalog.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(parts: Parts, settings: CatalogSettings) -> Result<EmbeddedCatalog, CatalogError> {
        let Parts { engine, committer, ballast, lease, keeper, lock } = parts;
        let committer = Arc::new(committer);
        hold_ballast(&engine, &ballast);
        let stop = Arc::new(Stop::default());
        let flusher = {
            let (engine, stop) = (Arc::clone(&engine), Arc::clone(&stop));
            threads::spawn("flush", move || flush(&engine, &stop))?
        };
        let maintenance = {
            let (engine, committer, stop) = (Arc::clone(&engine), Arc::clone(&committer), Arc::clone(&stop));
            let rate = settings.compaction_bytes_per_s;
            threads::spawn("maintenance", move || maintain(&engine, &committer, &stop, rate, &ballast))?
        };
        let threads = Mutex::new(vec![flusher, maintenance]);
        let durability = settings.durability;
        let (confirms, keeper) = (keeper.is_some(), Mutex::new(keeper));
        Ok(EmbeddedCatalog {
            engine,
            committer,
            threads,
            stop,
            durability,
            lease,
            keeper,
            confirms,
            _lock: lock,
        })
    }

    /// Returns the lease; `None` if no other process can lead.
    pub fn lease(&self) -> Option<&Arc<Lease>> {
        self.lease.as_ref()
    }

    /// Returns what was read, if no other process can have changed it.
    fn checked<T>(&self, read: T) -> Result<T, CatalogError> {
        // After the read: until now nobody else has written.
        self.lease.as_ref().map_or(Ok(()), |lease| lease.check())?;
        Ok(read)
    }

    /// Returns the engine, for metrics and checks.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Commits the queued transactions, writes the index and ends the threads. The next start is then fast.
    ///
    /// # Errors
    /// If the disk fails; the next start reads the end of the log.
    pub fn close(&self) -> Result<(), CatalogError> {
        let Some(mut writer) = self.committer.stop() else { return Ok(()) };
        // After the last group.
        drop(self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.stop.set();
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // Never an error: a panic in one of these threads has ended the process (threads.rs).
            let _ = thread.join();
        }
        if let Some(reason) = self.engine.stop_reason() {
            let is_journaled = self.lease.is_some();
            return Err(if is_journaled {
                CatalogError::Unavailable(reason)
            } else {
                CatalogError::Stopped(reason)
            });
        }
        writer.freeze();
        self.engine.flush()?;
        let (applied, end) = (self.engine.applied(), writer.end());
        assert_eq!(applied, end, "a clean stop needs tables that contain the whole log");
        if let Some(lease) = self.lease.as_ref().filter(|lease| lease.over() == Some(Over::Lost)) {
            let reason = lease.problem().unwrap_or_default();
            return Err(CatalogError::Unavailable(reason));
        }
        if let Some(problem) = self.lease.as_ref().and_then(|lease| lease.incomplete()) {
            return Err(CatalogError::Io(problem));
        }
        // After a clean stop, a start takes an incomplete end of the log for damage, not for a group that was cut off.
        self.engine.checkpoint(Some(end))
    }
}

/// Time between two looks for work.
const PAUSE: Duration = Duration::from_millis(20);

/// Writes memtables to tables until `stop` is set. A long merge or compaction does not delay this: see `Engine::merge`.
fn flush(engine: &Arc<Engine>, stop: &Stop) {
    let _loop = liveness::enter("flush");
    while !stop.wait(PAUSE) {
        liveness::hang_thread_in_tests();
        liveness::at("the disk of the index");
        // After an error, the memtable stays in memory, and the next look writes it. `Engine::wait_for_flush` says when
        // commits fail meanwhile.
        if let Err(error) = engine.flush() {
            crate::log::warn(&format!("the index was not written: {error}"));
        }
    }
}

/// Allocates the ballast if there is space for it.
fn hold_ballast(engine: &Engine, ballast: &Ballast) {
    let held = engine.free_bytes().and_then(|free| ballast.hold(engine.limits.reserve_bytes, free));
    if let Err(error) = held {
        crate::log::warn(&format!("no space was set aside for deletes on a full disk: {error}"));
    }
}

/// Merges and compacts until `stop` is set.
fn maintain(engine: &Arc<Engine>, committer: &Committer<Writer>, stop: &Stop, rate: u64, ballast: &Ballast) {
    /// Nanoseconds without commits after which tables are merged further.
    const IDLE_NS: u64 = 2 * SECOND;
    /// Nanoseconds without work after an error.
    const RETRY_NS: u64 = 10 * SECOND;
    let (mut groups, mut busy_ns, mut retry_at_ns) = (0, now_ns(), 0);
    let _loop = liveness::enter("maintenance");
    while !stop.wait(PAUSE) {
        liveness::hang_thread_in_tests();
        liveness::at("the merge of tables, or a compaction");
        let now = engine.counters.groups.load(Ordering::Relaxed);
        if now != groups {
            (groups, busy_ns) = (now, now_ns());
            if ballast.is_incomplete() {
                hold_ballast(engine, ballast);
            }
        }
        if now_ns() < retry_at_ns {
            continue;
        }
        let is_idle = now_ns() - busy_ns >= IDLE_NS;
        // A full or failing disk: the work stays, and a later look tries again.
        let mut failed = |what: &str, error: CatalogError| {
            // A command that closes the catalog during a step prints nothing about it.
            if matches!(error, CatalogError::Ended) {
                return;
            }
            crate::log::warn(&format!("{what}: {error}"));
            retry_at_ns = now_ns() + RETRY_NS;
        };
        if engine.should_end_segment() {
            let work: Work = Box::new(|transaction| {
                transaction.end_segment();
                Ok(true)
            });
            // An error is ignored, because the next look finds the same segment again.
            let _ = crate::blocking::block_on(committer.commit(work, 0));
            continue;
        }
        match engine.merge_step(is_idle) {
            Ok(false) => {}
            Ok(true) => continue,
            Err(error) => failed("tables were not merged", error),
        }
        let removed = engine.remove_copied();
        if let Err(error) = removed.and_then(|()| compact(engine, committer, stop, rate, is_idle)) {
            failed("a segment was not compacted", error);
        }
    }
}

/// Compacts one segment, if any has enough garbage, at a bounded rate.
fn compact(
    engine: &Arc<Engine>,
    committer: &Committer<Writer>,
    stop: &Stop,
    rate: u64,
    idle: bool,
) -> Result<(), CatalogError> {
    let Some(mut compaction) = engine.choose_compaction(idle) else { return Ok(()) };
    loop {
        let start_ns = now_ns();
        let copied = compaction.step(engine).and_then(|step| match step {
            Step::Copied => Ok(None),
            Step::Copy(batch, keys) => {
                let bytes = batch.bytes();
                let commit = |work| crate::blocking::block_on(committer.commit(work, bytes));
                compaction.copy(engine, batch, &keys, commit).map(|()| Some(bytes))
            }
        });
        // Without this, each look would choose the same segment again, and read it in vain.
        if matches!(copied, Err(CatalogError::Damaged { .. })) {
            compaction.give_up(engine);
        }
        let Some(bytes) = copied? else { return engine.end_compaction(compaction) };
        let least = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        liveness::at_most("the pause of a slow compaction", least);
        // A later compaction continues: the copies are ordinary records, and the rest is still in use.
        if stop.wait(least.saturating_sub(Duration::from_nanos(now_ns() - start_ns))) {
            return Ok(());
        }
    }
}

impl GroupWriter for Writer {
    fn prepare(&mut self, _: KnownReads) -> Result<(), CatalogError> {
        // While the index is written slowly, commits wait here, so that the memory for memtables is bounded.
        self.engine.wait_for_flush()
    }

    fn commit(&mut self, works: Vec<Work>, sync: bool) -> Vec<Result<(), CatalogError>> {
        Writer::commit(self, works, sync)
    }

    fn sync(&mut self) -> Result<(), CatalogError> {
        Writer::sync(self)
    }
}

impl Catalog for EmbeddedCatalog {
    async fn commit(&self, work: Work, expected: impl Into<Expected>) -> Result<(), CatalogError> {
        self.committer.commit(work, expected).await?;
        // The process may have lost the lead while the group was written. See `Lease::confirm`.
        match &self.lease {
            Some(lease) if self.confirms => lease.confirm().await,
            _ => Ok(()),
        }
    }

    fn is_durable_at_once(&self) -> bool {
        self.durability == Durability::Sync
    }

    fn confirm(&self) -> Result<(), CatalogError> {
        self.checked(())
    }

    fn mark(&self) -> u64 {
        self.engine.written()
    }

    fn is_kept(&self, mark: u64) -> Result<bool, CatalogError> {
        // The sync at the end of the interval also takes time, and it may fail.
        if !self.is_durable_at_once() && self.engine.synced_end().group < mark {
            return self.engine.stop_reason().map_or(Ok(false), |reason| Err(CatalogError::Stopped(reason)));
        }
        // Without a keeper, the journal has each group before its answer, or no other process can lead.
        if !self.confirms {
            return Ok(true);
        }
        self.checked(())?;
        let is_shipped = self.engine.shipped() >= mark;
        if !is_shipped {
            self.engine.want_shipped();
        }
        Ok(is_shipped)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Row>, CatalogError> {
        self.checked(self.engine.get(key)?)
    }

    fn properties(&self, key: &[u8], row: &Row) -> Result<Bytes, CatalogError> {
        self.checked(self.engine.read(key, row, false)?.properties)
    }

    fn value(&self, key: &[u8], row: &Row) -> Result<Value, CatalogError> {
        self.checked(self.engine.read(key, row, true)?)
    }

    fn scan(&self) -> Box<dyn Scan + '_> {
        let scan: Box<dyn Scan + '_> = Box::new(self.engine.scan());
        match &self.lease {
            None => scan,
            Some(lease) => Box::new(LeasedScan { scan, lease }),
        }
    }
}

impl JournaledWriter for Writer {
    type Group = WrittenGroup;

    fn write(&mut self, works: Vec<Work>) -> (Vec<Result<(), CatalogError>>, Option<WrittenGroup>) {
        // Not synced: the entry in the journal makes the group durable.
        self.write_group(works, false)
    }

    fn apply(&mut self, group: WrittenGroup) {
        Writer::apply(self, group);
    }

    fn stop(&mut self, error: &CatalogError) {
        // Only the reason: the errors that quote it later have a text of their own.
        let reason = match error {
            CatalogError::Unavailable(reason) => reason.clone(),
            error => error.to_string(),
        };
        self.engine.stop_for(&reason);
    }
}
