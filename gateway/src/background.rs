//! The work of the store in the background: deletes discarded blobs, and applies lifecycle rules.

mod lifecycle;
mod reaper;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::catalog::Catalog;
use crate::object::Store;

/// Settings of the background work.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Length of a day of lifecycle rules in milliseconds.
    pub day_ms: u64,
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
                let work = run(&store, settings);
                tokio::select! {
                    () = work => {}
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

async fn run<C: Catalog>(store: &Store<C>, settings: Settings) {
    /// Time between two looks for blobs to delete.
    const PAUSE: Duration = Duration::from_secs(1);
    if let Err(error) = reaper::remove_unfinished(store).await {
        crate::log::warn(&format!("unfinished blobs were not removed: {error}"));
    }
    // Lifecycle rules are applied ten times a day at least every hour.
    let every_ms = (settings.day_ms / 10).clamp(1000, 3_600_000);
    let mut since_ms = every_ms;
    loop {
        if let Err(error) = reaper::reap(store).await {
            crate::log::warn(&format!("discarded blobs were not deleted: {error}"));
        }
        if since_ms >= every_ms {
            since_ms = 0;
            if let Err(error) = lifecycle::apply(store, settings.day_ms).await {
                crate::log::warn(&format!("lifecycle rules were not applied: {error}"));
            }
        }
        // Its error of up to a millisecond does not matter here.
        #[allow(clippy::disallowed_methods)]
        tokio::time::sleep(PAUSE).await;
        since_ms += PAUSE.as_millis() as u64;
    }
}
