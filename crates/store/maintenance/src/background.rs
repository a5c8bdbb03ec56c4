//! The work of the store in the background: deletes discarded blobs, applies lifecycle rules, moves and packs bodies.

pub mod deletion;
mod leadership;
mod lifecycle;
pub mod retention;
pub mod scrubbing;

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream;
use plimsoll_base::clock::now_ns;
use plimsoll_cost::period::DAY_S;
use tokio::sync::{Semaphore, watch};

use self::leadership::Leadership;
use crate::mover::budget::Budget;
use crate::mover::pack::pack;
use crate::mover::pass::{Batch, Pass};
use crate::mover::rules::Rules;
use crate::mover::scan::all_pack_files;
use crate::mover::survey::LatestSurvey;
use crate::mover::{self, Move};
use crate::plan::{self, Plan, Terms};
use crate::scrub::ScrubRule;
use plimsoll_backup::last;
use plimsoll_bodies::blob::text;
use plimsoll_catalog::ambient::{in_time, now_ms, pause};
use plimsoll_catalog::ending;
use plimsoll_catalog::liveness::{self, keep};
use plimsoll_catalog::threads;
use plimsoll_catalog::{Catalog, CatalogError};
use plimsoll_objects::owner::keeper::Keeper;
use plimsoll_objects::{Store, clock};

/// Time for which the end of the process waits for a catalog that does not answer. Two such waits follow each other.
const LAST_WAIT: std::time::Duration = std::time::Duration::from_secs(2);

/// Settings of the background work.
#[derive(Debug, Clone)]
pub struct BackgroundSettings {
    /// Length of a day of lifecycle rules in milliseconds.
    pub day_ms: u64,
    /// Rules of moves.
    pub rules: Rules,
    /// Milliseconds between two searches for blobs to move.
    pub move_every_ms: u64,
    /// File with the counts of reads; `None` if no rule needs them.
    pub reads_file: Option<PathBuf>,
    /// True if nothing is moved and nothing is deleted, except by clients.
    pub is_idle: bool,
    /// Receives the results of visits.
    pub survey: Arc<LatestSurvey>,
    /// True to visit all objects for metrics even if no rule needs it.
    pub always_visits: bool,
    /// Rule of the verification of all objects; `None` for none.
    pub scrub: Option<ScrubRule>,
}

/// Handle of the background thread.
pub struct Background {
    stop: watch::Sender<bool>,
    thread: std::thread::JoinHandle<()>,
    leadership: Leadership,
}

impl Background {
    /// Starts the thread. It works while this process is the leader.
    ///
    /// # Errors
    /// If the thread or its runtime cannot be created.
    pub fn start<C: Catalog>(
        store: Arc<Store<C>>,
        settings: BackgroundSettings,
    ) -> std::io::Result<Background> {
        let (stop, mut stopped) = watch::channel(false);
        let leadership = Leadership::start(Arc::clone(&store), !settings.is_idle)?;
        let mut epoch = leadership.epoch.clone();
        let runtime = threads::runtime()?;
        let thread = threads::spawn("background", move || {
            runtime.block_on(async {
                let mut keeper = Keeper::default();
                tokio::select! {
                    () = keep("reads", save_reads(&store, &settings)) => {}
                    () = keep("claims", lead(&store, &settings, &mut epoch, &mut keeper)), if !settings.is_idle => {}
                    _ = stopped.wait_for(|stop| *stop) => {}
                }
                // The tiers may have an older position than the catalog, so this last announcement may be left out.
                let _ = in_time(ending::left(LAST_WAIT), keeper.end(&store)).await;
            });
        })?;
        Ok(Background { stop, thread, leadership })
    }

    /// Ends the work after its current step, and the session.
    pub fn stop(self) {
        // Neither error matters: the thread has ended, or its panic has ended the process (catalog/threads.rs).
        let _ = self.stop.send(true);
        let _ = self.thread.join();
        // The session ends last: until then, no other gateway gives up the unfinished blobs of this process.
        self.leadership.stop();
    }
}

/// Works in every epoch that this process leads.
async fn lead<C: Catalog>(
    store: &Store<C>,
    settings: &BackgroundSettings,
    epoch: &mut watch::Receiver<Option<u64>>,
    keeper: &mut Keeper,
) {
    loop {
        let led = liveness::idle(epoch.wait_for(Option::is_some)).await;
        let Ok(leads) = led.map(|leads| *leads) else { return };
        let work = async {
            loop {
                // Nothing is moved or deleted before the tiers have confirmed that they belong to the catalog.
                keeper.claim(store).await;
                tokio::select! {
                    _ = async { tokio::join!(
                        keep("deletions", keep_up(store, settings)),
                        keep("moves", move_bodies(store, settings)),
                        keep("scrub", scrubbing::keep_verified(store, settings.scrub)),
                    ) } => {}
                    // Ends when a tier has bytes that the catalog may not know. The work then waits for another claim.
                    () = keeper.renew(store) => {}
                }
            }
        };
        let has_ended = tokio::select! {
            () = work => false,
            // A later epoch of this process ends the work, too: another process may have led in between.
            ended = epoch.wait_for(|now| *now != leads) => ended.is_err(),
        };
        // Otherwise, the metrics of this process would show the last visit of a former leader for ever.
        settings.survey.set(None);
        if has_ended {
            return;
        }
    }
}

/// Writes the counts of reads to their file from time to time.
async fn save_reads<C: Catalog>(store: &Store<C>, settings: &BackgroundSettings) {
    /// Milliseconds between two writes.
    const SAVE_MS: u64 = 600_000;
    loop {
        // The end of the process writes the file, too (gateway/cli/run/mod.rs), so only a crash loses counts.
        pause(SAVE_MS).await;
        if let (Some(reads), Some(path)) = (&store.reads, &settings.reads_file)
            && let Err(error) = reads.save(path)
        {
            plimsoll_catalog::log::warn(&format!("{}: {error}", path.display()));
        }
    }
}

/// Deletes discarded bytes, and applies lifecycle rules.
async fn keep_up<C: Catalog>(store: &Store<C>, settings: &BackgroundSettings) {
    /// Milliseconds between two looks for bytes to delete.
    const PAUSE_MS: u64 = 1000;
    let day_ms = settings.day_ms;
    // Lifecycle rules are applied ten times a day at least every hour.
    let every_ms = (day_ms / 10).clamp(1000, 3_600_000);
    // Due at once: a process that is restarted often would otherwise never apply the rules.
    let mut since_ms = every_ms;
    loop {
        match clock::read(store) {
            Ok(clock) if clock.is_right => {
                let is_due = since_ms >= every_ms;
                // Whatever the outcome: rules that cannot be applied are not tried again every second.
                since_ms = if is_due { 0 } else { since_ms };
                keep_up_at(store, clock.now_ms, is_due.then_some(day_ms)).await;
            }
            Ok(_) => {}
            Err(error) => plimsoll_catalog::log::warn(&format!("nothing was deleted: {error}")),
        }
        pause(PAUSE_MS).await;
        since_ms += PAUSE_MS;
    }
}

/// Deletes what is due at a time in Unix milliseconds, and applies lifecycle rules if `day_ms` has the length of their
/// day.
async fn keep_up_at<C: Catalog>(store: &Store<C>, now_ms: u64, day_ms: Option<u64>) {
    let backup_ms = last::time_ms(&*store.catalog);
    // A full disk needs the space of what is kept.
    if last::is_outdated(&backup_ms, now_ms, store.retain_ms) && !store.catalog.is_full() {
        // Lifecycle rules are due at least every hour.
        if day_ms.is_some() {
            plimsoll_catalog::log::warn(&match backup_ms {
                Ok(_) => {
                    "nothing is deleted from the tiers: the last backup is older than retain.deleted".into()
                }
                Err(error) => {
                    format!("nothing is deleted from the tiers: the time of the last backup: {error}")
                }
            });
        }
    } else {
        // Before the deletions: the bytes of versions that are let go can be due at once, in the same round.
        if let Err(error) = retention::let_go_due_at(store, now_ms).await {
            plimsoll_catalog::log::warn(&format!(
                "versions that have left their buckets are kept for longer: {error}"
            ));
        }
        if let Err(error) = deletion::delete_due_at(store, now_ms).await {
            plimsoll_catalog::log::warn(&format!("discarded blobs were not deleted: {error}"));
        }
    }
    // Rules are applied also while deletions wait for a backup: versions that expire are kept with their bytes.
    let Some(day_ms) = day_ms else { return };
    match lifecycle::apply(store, day_ms, now_ms).await {
        Ok(0) => {}
        Ok(count) => plimsoll_catalog::log::event(&format!(
            "lifecycle rules have removed {count} versions and uploads"
        )),
        Err(error) => plimsoll_catalog::log::warn(&format!("lifecycle rules were not applied: {error}")),
    }
}

/// Moves and packs bodies as the rules say.
async fn move_bodies<C: Catalog>(store: &Store<C>, settings: &BackgroundSettings) {
    /// Ratio of the pause after a visit of all objects to the length of the visit, at least.
    const PAUSES: u64 = 10;
    /// Half of the pause after the first batch that has failed, in milliseconds.
    const RETRY_MS: u64 = 500;
    /// Maximum number of times that `RETRY_MS` is doubled.
    const MAX_DOUBLINGS: u32 = 7;
    /// Milliseconds between two visits that only serve metrics.
    const SURVEY_MS: u64 = 60_000;
    // The moves of earlier leaders cannot end in this epoch. Their destinations are given up before the first own move.
    if let Err(error) = mover::give_up_unfinished(store).await {
        plimsoll_catalog::log::warn(&format!("unfinished moves were not given up: {error}"));
    }
    // Without rules, only existing pack files need work.
    let needs_nothing = settings.rules.is_empty() && store.classes.is_empty();
    let is_alone = !store.catalog.is_shared() && !settings.always_visits;
    // A catalog that cannot be read may have pack files, so the loop begins then, too.
    if needs_nothing && is_alone && all_pack_files(store).is_ok_and(|pack_files| pack_files.is_empty()) {
        return;
    }
    let pause_ms = settings.move_every_ms.max(if needs_nothing { SURVEY_MS } else { 0 });
    let mut pass = Pass::default();
    let mut budget = None;
    let (mut visited_ns, mut is_useful, mut failures) = (0, false, 0u32);
    loop {
        // With a clock that is ahead, objects would look old enough to move.
        if !clock::read(store).is_ok_and(|clock| clock.is_right) {
            pause(pause_ms).await;
            continue;
        }
        // Without the number, the budget of the day would be spent again.
        let Some(budget) = budget.as_mut() else {
            match Budget::load(store) {
                Ok(spent) => budget = Some(spent),
                Err(error) => {
                    plimsoll_catalog::log::warn(&format!("no bodies were moved: {error}"));
                    pause(pause_ms).await;
                }
            }
            continue;
        };
        let start_ns = now_ns();
        // After an error, `ended` makes the loop pause, and the next visit begins at the start.
        let mut is_whole = true;
        let batch = pass.next(store, &settings.rules).unwrap_or_else(|error| {
            plimsoll_catalog::log::warn(&format!("no bodies were moved: {error}"));
            is_whole = false;
            Batch { ended: true, ..Batch::default() }
        });
        visited_ns += now_ns() - start_ns;
        let ended = batch.ended;
        let batch = within_budget(store, &settings.rules, budget, batch).await;
        let done = execute(store, batch).await;
        done.log();
        let is_done = done.moved + done.packed > 0;
        is_useful |= is_done;
        // A tier that fails is left alone for longer each time.
        failures = if done.failed > 0 && !is_done { failures + 1 } else { 0 };
        if failures > 0 {
            pause(RETRY_MS << failures.min(MAX_DOUBLINGS)).await;
        }
        if !ended {
            continue;
        }
        // Bodies that cannot be moved stay candidates, so a visit without a move is followed by a pause, too.
        let least_ms = if is_useful { 0 } else { pause_ms };
        let survey = pass.take_survey();
        // Else metrics would fall, as if objects were gone.
        if is_whole {
            settings.survey.set(Some(survey));
        }
        // A visit reads the rows of all objects, so visits take at most a tenth of the time (decision 0024).
        pause(least_ms.max(visited_ns * PAUSES / 1_000_000)).await;
        (visited_ns, is_useful) = (0, false);
    }
}

/// Drops the work of a batch that the budget of the day does not cover, and records what the rest costs.
async fn within_budget<C: Catalog>(
    store: &Store<C>,
    rules: &Rules,
    budget: &mut Budget,
    mut batch: Batch,
) -> Batch {
    if rules.budget.is_empty() || batch.moves.is_empty() && batch.packs.is_empty() {
        return batch;
    }
    let now_ms = now_ms();
    let terms = Terms { tariffs: &rules.tariffs, home: rules.home, now_ms };
    let day = now_ms / 1000 / DAY_S;
    let mut covers = |plan: Result<Plan, CatalogError>| {
        plan.is_ok_and(|plan| budget.take(&rules.budget, day, &plan.cost(&rules.tariffs)))
    };
    // A job whose cost cannot be computed is dropped like one that is too expensive. The next visit finds it again.
    batch.moves.retain(|planned| covers(plan::of_move(store, planned, &terms)));
    batch.packs.retain(|job| covers(plan::of_pack(store, job, &terms)));
    // Recorded before the work begins: after a crash, the next leader would otherwise spend the same budget again.
    if let Err(error) = budget.store(store).await {
        plimsoll_catalog::log::warn(&format!("no bodies were moved: {error}"));
        return Batch { ended: batch.ended, ..Batch::default() };
    }
    batch
}

/// Result of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Blobs that were moved.
    pub moved: u64,
    /// Pack files that were written.
    pub packed: u64,
    /// Blobs and pack files for which a tier or the catalog has failed.
    pub failed: u64,
}

impl Done {
    /// Logs what a batch has done.
    fn log(&self) {
        let Done { moved, packed, failed } = self;
        if moved + packed + failed > 0 {
            plimsoll_catalog::log::event(&format!(
                "moved {moved} blobs, wrote {packed} pack files, {failed} failed"
            ));
        }
    }
}

/// Executes the work of a batch.
pub async fn execute<C: Catalog>(store: &Store<C>, batch: Batch) -> Done {
    /// Maximum number of moves in flight.
    const IN_FLIGHT: usize = 192;
    /// Bytes that all moves in flight may hold in memory, in KiB.
    const MEMORY_KIB: u32 = 128 * 1024;
    let memory = Semaphore::new(MEMORY_KIB as usize);
    let moves = stream::iter(batch.moves).map(|planned: Move| async {
        // A writer holds at most two parts (bodies/writer.rs). The limit admits few large moves, or many small ones.
        let held = planned.size.min(2 * store.blobs.part_bytes(planned.to)) / 1024 + 1;
        // The semaphore is never closed.
        let _held = memory.acquire_many(u32::try_from(held).unwrap_or(MEMORY_KIB).min(MEMORY_KIB)).await;
        // Takes the plan by value. `async move` would take the semaphore, too, which all moves share.
        let planned = planned;
        let moved = mover::execute(store, &planned).await;
        if let Err(error) = &moved {
            plimsoll_catalog::log::warn(&format!("blob {} was not moved: {error}", text(&planned.blob)));
        }
        moved
    });
    let mut done = Done::default();
    let mut moves = std::pin::pin!(moves.buffer_unordered(IN_FLIGHT));
    while let Some(moved) = moves.next().await {
        done.moved += u64::from(matches!(moved, Ok(mover::Outcome::Moved)));
        done.failed += u64::from(moved.is_err());
    }
    for job in &batch.packs {
        match pack(store, job).await {
            Ok(packed) => done.packed += u64::from(packed.objects > 0),
            Err(error) => {
                done.failed += 1;
                plimsoll_catalog::log::warn(&format!("a pack file was not written: {error}"));
            }
        }
    }
    done
}
