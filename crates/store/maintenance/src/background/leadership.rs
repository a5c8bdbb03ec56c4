//! Keeps the session of this process, and knows whether it is the leader, in a separate thread: a long step of the
//! background work must not delay the renewals.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_base::clock::now_ns;
use plimsoll_server::error::ApiError;
use tokio::sync::watch;

use super::{LAST_WAIT, deletion};
use plimsoll_catalog::Catalog;
use plimsoll_catalog::ambient::{in_time, pause};
use plimsoll_catalog::ending;
use plimsoll_catalog::liveness;
use plimsoll_catalog::threads;
use plimsoll_objects::error::unavailable;
use plimsoll_objects::lease::{self, RENEW_MS, Renewed, SESSION_MS, Session};
use plimsoll_objects::{Store, clock};

/// Thread that keeps the session.
pub struct Leadership {
    stop: watch::Sender<bool>,
    thread: std::thread::JoinHandle<()>,
    /// Epoch that this process leads; `None` while another process is the leader.
    pub epoch: watch::Receiver<Option<u64>>,
}

impl Leadership {
    /// Starts the thread. `may_lead` is false if this process never works in the background.
    ///
    /// # Errors
    /// If the thread or its runtime cannot be created.
    pub fn start<C: Catalog>(store: Arc<Store<C>>, may_lead: bool) -> std::io::Result<Leadership> {
        let (stop, mut stopped) = watch::channel(false);
        let (leads, epoch) = watch::channel(None);
        let runtime = threads::runtime()?;
        let thread = threads::spawn("lease", move || {
            runtime.block_on(async {
                tokio::select! {
                    () = liveness::keep("lease", keep(&store, &leads, may_lead)) => {}
                    _ = stopped.wait_for(|stop| *stop) => {}
                }
                let _ = leads.send(None);
                let session = store.session();
                let ended = store.transact(64, move |t| Ok(Ok(lease::end(t, session)?)));
                // A catalog that does not answer must not delay the end of the process. The session then ends by age.
                if let Some(Err(error)) = in_time(ending::left(LAST_WAIT), ended).await {
                    plimsoll_catalog::log::warn(&format!(
                        "other gateways wait until this session is too old: {error}"
                    ));
                }
            });
        })?;
        Ok(Leadership { stop, thread, epoch })
    }

    /// Ends the session.
    pub fn stop(self) {
        let _ = self.stop.send(true);
        let _ = self.thread.join();
    }
}

/// Renews the session until this process ends.
async fn keep<C: Catalog>(store: &Store<C>, leads: &watch::Sender<Option<u64>>, may_lead: bool) {
    // With a catalog in a directory, a start goes on if its session cannot be begun (gateway/cli/run/mod.rs).
    while store.session() == 0 {
        if let Err(error) = store.begin_session().await {
            plimsoll_catalog::log::warn(&format!("the session was not begun: {error}"));
            pause(RENEW_MS).await;
        }
    }
    let session = store.session();
    let (mut renewed_ns, mut cleanup_due) = (now_ns(), false);
    loop {
        let (asked_ns, mut has_failed) = (now_ns(), false);
        match renew(store, session, may_lead).await {
            Ok(renewed) => {
                // The time before the renewal: the session counts from a clock that was read later.
                renewed_ns = asked_ns;
                cleanup_due |= renewed.has_ended_sessions;
                // Before the loops learn of the epoch, because their transactions take it from the store.
                store.lead(renewed.epoch);
                let has_changed =
                    leads.send_if_modified(|known| std::mem::replace(known, renewed.epoch) != renewed.epoch);
                if has_changed {
                    log_change(session, renewed.epoch);
                }
            }
            Err(error) => {
                has_failed = true;
                plimsoll_catalog::log::warn(&format!("the session was not renewed: {error}"));
            }
        }
        // For other gateways, the session has ended by now, and one of them may lead.
        if Duration::from_nanos(now_ns() - renewed_ns) >= Duration::from_millis(SESSION_MS) {
            store.lead(None);
            if leads.send_if_modified(|known| known.take().is_some()) {
                log_change(session, None);
            }
        }
        // Repeated until it succeeds: renewals report an ended session once, because they remove its row.
        if cleanup_due {
            match deletion::discard_unfinished(store).await {
                Ok(()) => cleanup_due = false,
                Err(error) => {
                    plimsoll_catalog::log::warn(&format!("unfinished blobs were not given up: {error}"))
                }
            }
        }
        if store.catalog.is_shared() || cleanup_due || has_failed {
            pause(RENEW_MS).await;
        } else {
            // A catalog with one process needs no renewals.
            liveness::hang_in_tests().await;
            liveness::idle(std::future::pending::<()>()).await;
        }
    }
}

/// Logs that this process has become the leader, or has stopped being the leader.
fn log_change(session: Session, epoch: Option<u64>) {
    plimsoll_catalog::log::event(&match epoch {
        Some(epoch) => format!("session {session} is the leader of epoch {epoch}"),
        None => format!("session {session} is not the leader any more: it moves and deletes nothing"),
    });
}

/// Renews the session by the shared clock. A process whose own clock is wrong does not lead.
///
/// # Errors
/// Returns the error of the catalog.
async fn renew<C: Catalog>(store: &Store<C>, session: Session, may_lead: bool) -> Result<Renewed, ApiError> {
    let clock = clock::read(store).map_err(|error| unavailable(&error))?;
    let renewal = if clock.is_right && may_lead { lease::keep } else { lease::follow };
    store.transact(64, move |t| Ok(Ok(renewal(t, session, clock.now_ms)?))).await
}
