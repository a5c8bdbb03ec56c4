//! The work of the store in the background: deletes discarded blobs, applies lifecycle rules, and moves blobs between
//! tiers.

mod lifecycle;
mod reaper;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use tokio::sync::watch;

use crate::body::blob::text;
use crate::catalog::Catalog;
use crate::mover::{self, Rule};
use crate::object::Store;

/// Settings of the background work.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Length of a day of lifecycle rules in milliseconds.
    pub day_ms: u64,
    /// Rules of moves.
    pub rules: Vec<Rule>,
    /// Milliseconds between two searches for blobs to move.
    pub move_every_ms: u64,
}

/// Handle of the background thread.
pub struct Background {
    stop: watch::Sender<bool>,
    thread: std::thread::JoinHandle<()>,
}

impl Background {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the thread or its runtime cannot be created.
    pub fn start<C: Catalog>(store: Arc<Store<C>>, settings: Settings) -> std::io::Result<Background> {
        let (stop, mut stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("background".into());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                let work =
                    async { tokio::join!(keep_up(&store, settings.day_ms), move_blobs(&store, &settings)) };
                tokio::select! {
                    _ = work => {}
                    _ = stopped.wait_for(|stop| *stop) => {}
                }
            });
        })?;
        Ok(Background { stop, thread })
    }

    /// Ends the work after its current step.
    pub fn stop(self) {
        let _ = self.stop.send(true);
        let _ = self.thread.join();
    }
}

/// Waits. The error of up to a millisecond does not matter here.
async fn pause(ms: u64) {
    #[allow(clippy::disallowed_methods)]
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// Deletes discarded bytes, and applies lifecycle rules.
async fn keep_up<C: Catalog>(store: &Store<C>, day_ms: u64) {
    /// Milliseconds between two looks for bytes to delete.
    const PAUSE_MS: u64 = 1000;
    if let Err(error) = reaper::discard_unfinished(store).await {
        crate::log::warn(&format!("unfinished blobs were not given up: {error}"));
    }
    // Lifecycle rules are applied ten times a day at least every hour.
    let every_ms = (day_ms / 10).clamp(1000, 3_600_000);
    let mut since_ms = every_ms;
    loop {
        if let Err(error) = reaper::reap(store).await {
            crate::log::warn(&format!("discarded blobs were not deleted: {error}"));
        }
        if since_ms >= every_ms {
            since_ms = 0;
            if let Err(error) = lifecycle::apply(store, day_ms).await {
                crate::log::warn(&format!("lifecycle rules were not applied: {error}"));
            }
        }
        pause(PAUSE_MS).await;
        since_ms += PAUSE_MS;
    }
}

/// Moves blobs as the rules say.
async fn move_blobs<C: Catalog>(store: &Store<C>, settings: &Settings) {
    /// Number of moves that are planned at a time.
    const BATCH: usize = 1000;
    /// Number of moves in flight.
    const IN_FLIGHT: usize = 4;
    if let Err(error) = mover::give_up_unfinished(store).await {
        crate::log::warn(&format!("unfinished moves were not given up: {error}"));
    }
    if settings.rules.is_empty() {
        return;
    }
    loop {
        let mut batch = Vec::new();
        let found = mover::candidates(store, &settings.rules, &mut |planned| {
            batch.push(planned);
            batch.len() < BATCH
        });
        if let Err(error) = found {
            crate::log::warn(&format!("no blobs were moved: {error}"));
        }
        let is_full = batch.len() == BATCH;
        let moves = stream::iter(batch).map(|planned| async move {
            let moved = mover::execute(store, &planned).await;
            if let Err(error) = &moved {
                crate::log::warn(&format!("blob {} was not moved: {error}", text(&planned.blob)));
            }
            matches!(moved, Ok(mover::Outcome::Moved))
        });
        let moved =
            moves.buffer_unordered(IN_FLIGHT).fold(0, |sum, moved| async move { sum + usize::from(moved) });
        // Blobs that cannot be moved stay candidates, so a full batch without a move waits, too.
        if moved.await == 0 || !is_full {
            pause(settings.move_every_ms).await;
        }
    }
}
