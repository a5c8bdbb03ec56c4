//! The threads of the backup: one ships the log, and one verifies the backup and deletes what it does not need any
//! more.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_base::clock::now_ns;
use plimsoll_base::net::encode::hex;
use plimsoll_cost::tariff::Tariff;
use tokio::sync::watch;

use super::bodies::Directories;
use super::error::BackupError;
use super::last;
use super::place::Place;
use super::prune_all::{Lookup, prune_all};
use super::running::{Backup, BackupState, Running, Shared};
use super::ship::{Shipper, Step};
use super::verify::verify;
use plimsoll_catalog::Catalog;
use plimsoll_catalog::ambient::{now_ms, pause, steady_ms, utc_text};
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::ending;
use plimsoll_catalog::liveness::{self, keep};
use plimsoll_catalog::threads;
use plimsoll_objects::Store;

/// Longest time between two records of the backup in the catalog, in milliseconds. Each of them is shipped, too.
const RECORD_MS: u64 = 3_600_000;

/// Returns the time between two records of the backup, in milliseconds: nothing is deleted while the last one is older
/// than the time for which garbage is kept.
fn record_ms(retain_ms: u64) -> u64 {
    // Half of the time, so that the next record comes before the last one is too old.
    if retain_ms == 0 { RECORD_MS } else { (retain_ms / 2).clamp(1, RECORD_MS) }
}
/// Time between two looks for pieces to delete, in milliseconds.
const PRUNE_MS: u64 = 86_400_000;
/// Time before the first look, in milliseconds.
const FIRST_PRUNE_MS: u64 = 600_000;
/// Time between two looks whether another process has continued the backup, while there is nothing to ship.
const LOOK_MS: u64 = 10_000;
/// Time for which the end of the process waits for the place.
const LAST_STEP: Duration = Duration::from_secs(4);

/// Settings of the backup.
#[derive(Debug, Clone)]
pub struct BackupSettings {
    /// Place of the backup.
    pub place: Place,
    /// URL of the place, for messages.
    pub url: String,
    /// Prices of the place; `None` if they are not known.
    pub tariff: Option<Tariff>,
    /// Milliseconds between two pieces.
    pub every_ms: u64,
    /// Milliseconds for which states can be restored.
    pub keep_ms: u64,
    /// Maximum number of bytes of the log that are shipped per second.
    pub bytes_per_s: u64,
    /// Milliseconds between two verifications; `None` for none.
    pub verify_every_ms: Option<u64>,
}

/// The threads of the backup.
pub struct BackupThreads {
    stop: watch::Sender<bool>,
    threads: Vec<std::thread::JoinHandle<Option<Shipper>>>,
}

impl BackupThreads {
    /// Starts the backup of a catalog in a directory. `None` for other catalogs. `begun` is the writer of the backup,
    /// if the start has begun it already. `running` gets the backup.
    ///
    /// # Errors
    /// If a thread or its runtime cannot be created.
    pub fn start(
        store: &Arc<Store<AnyCatalog>>,
        running: &Running,
        settings: BackupSettings,
        begun: Option<Shipper>,
    ) -> std::io::Result<Option<BackupThreads>> {
        let Some(engine) = store.catalog.engine().cloned() else { return Ok(None) };
        let state = BackupState { to: settings.url.clone(), ..BackupState::default() };
        let shared =
            Arc::new(Mutex::new(Shared { state, covered_ns: now_ns(), shipped: 0, is_fenced: false }));
        let (place, tariff) = (settings.place.clone(), settings.tariff.clone());
        let backup = Arc::new(Backup { engine, place, tariff, shared });
        let (stop, stopped) = watch::channel(false);
        let mut threads = Vec::new();
        let mut begun = begun;
        // Two threads, because a verification reads the whole backup, and pieces must not wait for it.
        for (name, ships) in [("backup", true), ("backup-check", false)] {
            let runtime = threads::runtime()?;
            let (store, backup, settings) = (Arc::clone(store), Arc::clone(&backup), settings.clone());
            let mut stopped = stopped.clone();
            let begun = if ships { begun.take() } else { None };
            threads.push(threads::spawn(name, move || {
                runtime.block_on(async {
                    if ships {
                        return keep(name, ship(&store, &backup, &settings, begun, &mut stopped)).await;
                    }
                    // It may stop anywhere: deletions and verifications begin again after the next start.
                    tokio::select! {
                        () = keep(name, care(&store, &backup, &settings)) => {}
                        _ = stopped.wait_for(|stop| *stop) => {}
                    }
                    None
                })
            })?);
        }
        // Only this function sets it, once per process.
        let _ = running.set(backup);
        Ok(Some(BackupThreads { stop, threads }))
    }

    /// Ships what is left, and ends the threads. Returns the writer of the backup; `None` if it has none.
    pub fn stop(self) -> Option<Shipper> {
        let _ = self.stop.send(true);
        // All of them, before the result is looked at.
        let joined: Vec<_> = self.threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        joined.into_iter().flatten().next()
    }
}

/// Ships the log until the process ends, and what is left then.
async fn ship(
    store: &Store<AnyCatalog>,
    backup: &Backup,
    settings: &BackupSettings,
    mut begun: Option<Shipper>,
    stopped: &mut watch::Receiver<bool>,
) -> Option<Shipper> {
    let catalog = hex(&store.catalog_id);
    let work = async {
        loop {
            if let Some(shipper) = &mut begun {
                ship_on(store, backup, settings, shipper).await;
            }
            let begin = Shipper::begin(
                settings.place.clone(),
                Arc::clone(&backup.engine),
                &catalog,
                Directories::of(store.blobs.tiers()),
            );
            match begin.await {
                Ok(shipper) => {
                    begun = Some(shipper);
                    continue;
                }
                Err(error) => backup.fail(&error),
            }
            // Each attempt lists the place, so a shorter `every` does not apply.
            pause(settings.every_ms.max(10_000)).await;
        }
    };
    tokio::select! {
        () = work => {}
        _ = stopped.wait_for(|stop| *stop) => {}
    }
    // A piece whose creation was interrupted may exist; the next step finds it.
    let shipper = begun.as_mut().filter(|_| !backup.lock().is_fenced)?;
    let last = async {
        while let Ok(step) = shipper.step().await {
            if step.is_up_to_date {
                return shipper.write_index(true).await.is_ok();
            }
        }
        false
    };
    if !plimsoll_catalog::ambient::in_time(ending::left(LAST_STEP), last).await.unwrap_or(false) {
        plimsoll_catalog::log::warn("the backup does not have the end of the log; the next start ships it");
    }
    begun
}

/// Returns true if this process certainly leads, because it has a journal and a lease.
fn leads(store: &Store<AnyCatalog>) -> bool {
    store.catalog.lease().is_some_and(|lease| lease.left_ms() > 0)
}

/// Ships the log. Returns if another process has ended the epoch and this one leads, so that the caller begins another
/// epoch. A process that does not lead waits for ever.
async fn ship_on(
    store: &Store<AnyCatalog>,
    backup: &Backup,
    settings: &BackupSettings,
    shipper: &mut Shipper,
) {
    let (mut recorded_ns, mut pace): (Option<u64>, Pace) = (None, Pace::default());
    let mut looked_ns = now_ns();
    loop {
        let (start_ns, start_ms) = (now_ns(), now_ms());
        let step = match shipper.step().await {
            Ok(Step { bytes: 0, .. }) if (now_ns() - looked_ns) / 1_000_000 >= LOOK_MS => {
                looked_ns = now_ns();
                shipper.look().await
            }
            step => step,
        };
        match step {
            Ok(step) => {
                advance(backup, shipper, step, start_ns);
                pace.took((now_ns() - start_ns) / 1_000_000);
                if !step.is_up_to_date {
                    let least_ms = 1000 * step.bytes / settings.bytes_per_s.max(1);
                    pause(least_ms.saturating_sub((now_ns() - start_ns) / 1_000_000)).await;
                    continue;
                }
                if recorded_ns.is_none_or(|at_ns| start_ns - at_ns >= record_ms(store.retain_ms) * 1_000_000)
                {
                    // With the time before the step: later writes may not be in the backup.
                    let is_recorded = record(store, backup, shipper, start_ms).await;
                    recorded_ns = is_recorded.then_some(start_ns).or(recorded_ns);
                    if is_recorded {
                        // The record is a group with a time, and makes the state complete.
                        continue;
                    }
                }
            }
            // A start that has failed has ended the epoch.
            Err(error @ BackupError::Fenced(_)) if leads(store) => {
                backup.fail(&error);
                return pause(settings.every_ms).await;
            }
            Err(error @ BackupError::Fenced(_)) => {
                // What this process acknowledges from now on, the other one does not have.
                store.catalog.stop_writes(&error.to_string());
                // Nobody ships copies any more, and segments that wait for them would fill the disk.
                backup.engine.stop_following();
                backup.change(|shared| shared.is_fenced = true);
                backup.fail(&error);
                return liveness::idle(std::future::pending()).await;
            }
            Err(error) => {
                backup.fail(&error);
                if matches!(error, BackupError::Gap) {
                    // No piece can continue what the log has lost. The states that are in the place stay.
                    shipper.start_over();
                    recorded_ns = None;
                }
            }
        }
        if let Err(error) = shipper.write_index(false).await {
            backup.fail(&error);
        }
        let has_failed = backup.lock().state.problem.is_some();
        let left_ms =
            pace.interval_ms(settings.every_ms).saturating_sub((now_ns() - start_ns) / 1_000_000).max(1);
        // `wait` returns at once if a step is wanted, which would only fail again.
        if has_failed { pause(left_ms).await } else { wait(backup, left_ms).await }
    }
}

/// Intervals of the steps. The loss of the disk during a step loses what was written since the step before began, so
/// an interval and a step together must not take longer than `every`.
#[derive(Debug, Default)]
struct Pace {
    /// Length of a long step in milliseconds. It follows longer steps at once, and shorter ones slowly.
    step_ms: u64,
}

impl Pace {
    fn took(&mut self, ms: u64) {
        self.step_ms = ms.max(self.step_ms - self.step_ms / 8);
    }

    /// Returns the time from the beginning of a step to that of the next one: at least half of `every`, because each
    /// step is a request that costs money.
    fn interval_ms(&self, every_ms: u64) -> u64 {
        every_ms.saturating_sub(self.step_ms + self.step_ms / 4).max(every_ms / 2)
    }
}

/// Waits for a time, or until somebody needs the next step.
async fn wait(backup: &Backup, ms: u64) {
    /// Milliseconds between two looks.
    const LOOK_MS: u64 = 100;
    let until_ms = steady_ms() + ms;
    while let left_ms @ 1.. = until_ms.saturating_sub(steady_ms())
        && !backup.engine.is_ship_wanted()
    {
        pause(left_ms.min(LOOK_MS)).await;
    }
}

/// Records in the catalog that the backup has everything until a time, and writes an index. Returns false if this has
/// failed.
async fn record(store: &Store<AnyCatalog>, backup: &Backup, shipper: &mut Shipper, at_ms: u64) -> bool {
    // The record does not depend on an index, which only later starts and `prune` need.
    if let Err(error) = shipper.write_index(true).await {
        backup.fail(&error);
    }
    match last::record(store, at_ms).await {
        Ok(()) => true,
        Err(error) => {
            plimsoll_catalog::log::warn(&format!("the time of the backup was not recorded: {error}"));
            false
        }
    }
}

/// Records the result of a step that began at a monotonic time.
fn advance(backup: &Backup, shipper: &Shipper, step: Step, start_ns: u64) {
    backup.change(|shared| {
        shared.state.problem = None;
        shared.state.log_bytes += step.bytes;
        shared.shipped = shipper.position().group;
        if step.is_up_to_date {
            // The beginning counts: writes during the step may be missing.
            shared.covered_ns = start_ns;
        }
        if shipper.until_ms() > 0 {
            shared.state.newest_ms = Some(shipper.until_ms());
        }
    });
}

/// Verifies the backup from time to time, and deletes what no state of the window needs.
async fn care(store: &Store<AnyCatalog>, backup: &Backup, settings: &BackupSettings) {
    pause(FIRST_PRUNE_MS).await;
    let mut verified_ns: Option<u64> = None;
    loop {
        // As for bytes in tiers: an older catalog or a wrong clock would delete what is needed.
        let may_delete = store.is_leader()
            && store.owns_tiers.load(Ordering::Relaxed)
            && !store.has_wrong_clock.load(Ordering::Relaxed)
            && !backup.lock().is_fenced;
        if !may_delete {
            pause(FIRST_PRUNE_MS).await;
            continue;
        }
        match prune_all(store, &settings.place, settings.keep_ms, Lookup::Catalog).await {
            Ok(0) => {}
            Ok(deleted) => plimsoll_catalog::log::event(&format!(
                "deleted {deleted} objects of the backup that states since {} do not need",
                utc_text(now_ms().saturating_sub(settings.keep_ms))
            )),
            Err(error) => {
                plimsoll_catalog::log::warn(&format!(
                    "the backup keeps what it does not need any more: {error}"
                ));
            }
        }
        let is_due = |every_ms: u64| verified_ns.is_none_or(|at| now_ns() - at >= every_ms * 1_000_000);
        if settings.verify_every_ms.is_some_and(is_due) {
            verified_ns = Some(now_ns());
            let since_ms = now_ms().saturating_sub(settings.keep_ms);
            let problem = match verify(&settings.place, Some(since_ms)).await {
                Ok(found) => found.problems.into_iter().next(),
                Err(error) => Some(error.to_string()),
            };
            if let Some(problem) = &problem {
                plimsoll_catalog::log::warn(&format!("the backup cannot be restored as a whole: {problem}"));
            }
            let at_ms = now_ms();
            backup.change(|shared| {
                (shared.state.verified_ms, shared.state.damage) = (Some(at_ms), problem);
            });
        }
        pause(PRUNE_MS).await;
    }
}

#[cfg(test)]
mod tests {
    use super::{Pace, record_ms};

    /// Regression test: with `retain.deleted` below an hour, nothing was deleted for the rest of each hour.
    #[test]
    fn a_backup_is_recorded_before_its_record_is_older_than_what_is_kept() {
        assert_eq!(
            [0, 15_000, 3_600_000, 604_800_000].map(record_ms),
            [3_600_000, 7500, 1_800_000, 3_600_000]
        );
    }

    /// Regression: the next step began `every` after the last one, so the loss of a disk during the step lost more.
    #[test]
    fn an_interval_and_a_step_take_no_longer_than_every() {
        for step_ms in [0, 1, 80, 400] {
            let mut pace = Pace::default();
            pace.took(step_ms);
            assert!(pace.interval_ms(1000) + step_ms <= 1000, "{step_ms}");
            // It stays careful for a few quick steps, and is never more than twice as frequent as asked.
            pace.took(1);
            assert!(pace.interval_ms(1000) + step_ms / 2 <= 1000, "{step_ms}");
        }
        let mut pace = Pace::default();
        pace.took(60_000);
        assert_eq!(pace.interval_ms(1000), 500);
        (0..100).for_each(|_| pace.took(10));
        assert!(pace.interval_ms(1000) > 970);
    }
}
