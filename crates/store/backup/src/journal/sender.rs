//! The thread that creates the entries of the journal, several at a time, and confirms them in their order.

use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::{mpsc, watch};

use super::entry::{Contents, EntryWriter, Flight, create};
use super::request;
use crate::error::BackupError;
use crate::place::Chain;
use crate::ship::BegunShipper;
use plimsoll_catalog::CatalogError;
use plimsoll_catalog::ambient::{in_time, pause, steady_ms};
use plimsoll_catalog::embedded::Engine;
use plimsoll_catalog::embedded::writer::WrittenGroup;
use plimsoll_catalog::ending;
use plimsoll_catalog::lease::{Lease, LeaseKeeper};
use plimsoll_catalog::liveness;
use plimsoll_catalog::pipeline::{Confirmation, Journal};
use plimsoll_catalog::threads;

/// Least time between two deletions of entries that the backup has, and between two looks for a request of a standby,
/// in milliseconds. An idle writer looks only when it creates an entry.
const PRUNE_MS: u64 = 2000;
/// Time for which the end of the process waits for the place.
const LAST_WAIT: Duration = Duration::from_secs(2);
/// Time for which it waits until the rest of the log is shipped.
const LAST_SHIP: Duration = Duration::from_secs(5);

/// The creation of an entry.
type Creation = BoxFuture<'static, Result<Flight, BackupError>>;
/// Entries on their way.
type Flights = FuturesUnordered<Creation>;

/// The thread that creates entries.
struct Sender {
    writer: EntryWriter,
    engine: Arc<Engine>,
    lease: Arc<Lease>,
    /// Receiver of what is durable; `None` if entries have no groups.
    confirmation: Option<Confirmation>,
    /// Writer of the backup, unless the threads of the backup have it.
    shipper: BegunShipper,
}

impl Sender {
    async fn run(
        mut self,
        mut contents: mpsc::UnboundedReceiver<Contents>,
        mut closed: watch::Receiver<bool>,
    ) {
        let mut flights = Flights::new();
        let mut pruned_ms = steady_ms();
        let result = loop {
            liveness::hang_in_tests().await;
            liveness::at("an entry of the journal");
            // After a third of the lease: the rest is enough for a lost request and another attempt.
            let beat_ms = self.lease.left_ms().saturating_sub(self.writer.lease_ms() * 2 / 3);
            // Confirmations come first: clients wait for them, and they make room for further entries.
            tokio::select! {
                biased;
                Some(landed) = flights.next(), if !flights.is_empty() => match landed {
                    Ok(flight) => self.landed(flight),
                    Err(error) => break Err(error),
                },
                _ = closed.wait_for(|closed| *closed) => break Ok(()),
                next = contents.recv(), if self.writer.has_room() => match next {
                    Some(contents) => flights.push(self.begin(Some(contents), false)),
                    None => break Ok(()),
                },
                () = pause(beat_ms), if flights.is_empty() => {
                    // A process that cannot write must let another one lead.
                    if let Some(reason) = self.engine.stop_reason() {
                        break Err(CatalogError::Stopped(reason).into());
                    }
                    flights.push(self.begin(None, false));
                }
            }
            if steady_ms() >= pruned_ms + PRUNE_MS {
                pruned_ms = steady_ms();
                self.prune();
                self.look_for_request();
            }
        };
        let result = match result {
            Ok(()) => self.end(flights).await,
            error => error,
        };
        if let Err(error) = result {
            self.fail(&error);
        }
    }

    fn begin(&mut self, contents: Option<Contents>, is_last: bool) -> Creation {
        let (flight, object) = self.writer.next(contents, is_last);
        create(self.writer.place().clone(), Arc::clone(&self.lease), flight, object).boxed()
    }

    fn landed(&mut self, flight: Flight) {
        for flight in self.writer.landed(flight, &self.lease) {
            if let Some(confirmation) = self.confirmation.as_ref().filter(|_| flight.has_group) {
                confirmation.confirm();
            }
        }
    }

    /// Waits for what is on its way, and ends the lease, so that the next start need not wait for its end.
    async fn end(&mut self, mut flights: Flights) -> Result<(), BackupError> {
        // A standby that takes over at once must find everything.
        if self.confirmation.is_none() {
            self.ship_rest(&mut flights).await?;
        }
        let rest = async {
            while let Some(landed) = flights.next().await {
                self.landed(landed?);
            }
            Ok::<_, BackupError>(())
        };
        // Too late is no error: if one of these entries is missing, the last one does not count, and others wait.
        in_time(ending::left(LAST_WAIT), rest).await.unwrap_or(Ok(()))?;
        // Before the last entry, because with it another process may lead at once.
        self.lease.end();
        let last = async { self.begin(None, true).await.map(|_| ()) };
        // Without the last entry, the next process waits for the end of the lease.
        in_time(ending::left(LAST_WAIT), last).await.unwrap_or(Ok(()))
    }

    /// Ships what is left, and keeps the lease meanwhile.
    async fn ship_rest(&mut self, flights: &mut Flights) -> Result<(), BackupError> {
        // In a gateway, `end_work` (gateway/cli/run/mod.rs) has put it back when the threads of the backup had ended.
        let shipper = self.shipper.lock().unwrap_or_else(PoisonError::into_inner).take();
        let shipped = async {
            let Some(mut shipper) = shipper else { return Ok(()) };
            while !shipper.step().await?.is_up_to_date {}
            Ok::<_, BackupError>(())
        };
        let mut shipped = pin!(in_time(ending::left(LAST_SHIP), shipped));
        let result = loop {
            tokio::select! {
                result = &mut shipped => break result,
                Some(landed) = flights.next(), if !flights.is_empty() => self.landed(landed?),
                () = pause(self.writer.lease_ms() / 3), if flights.is_empty() => {
                    flights.push(self.begin(None, false));
                }
            }
        };
        let problem = match result {
            // The result alone proves nothing: without a writer of the backup, no step was made.
            Some(Ok(())) if self.engine.shipped() >= self.engine.synced_end().group => return Ok(()),
            Some(Ok(())) => "nothing ships it".to_string(),
            Some(Err(error)) => error.to_string(),
            None => format!("not within {} s", LAST_SHIP.as_secs()),
        };
        self.lease.set_incomplete(format!(
            "the backup does not have the last writes, which only this disk has ({problem}); start this gateway again \
             before another one leads"
        ));
        // Nobody takes over at once.
        self.lease.end();
        Err(BackupError::Incomplete)
    }

    fn fail(&self, error: &BackupError) {
        // The end of the catalog reports this. No other gateway has taken the lead.
        if self.lease.incomplete().is_some() {
            return;
        }
        let text = match error {
            BackupError::Fenced(_) => "another gateway leads this catalog now".to_string(),
            error => format!("the journal cannot continue: {error}"),
        };
        self.lease.fail(text.clone());
        plimsoll_catalog::log::warn(&text);
        // First, so that nothing is read after a write has failed.
        self.lease.lose();
        if let Some(confirmation) = &self.confirmation {
            confirmation.end(CatalogError::Unavailable(text));
        }
    }

    /// Ends the process if a standby asks for it.
    fn look_for_request(&self) {
        let (place, epoch, lease) =
            (self.writer.place().clone(), self.writer.epoch(), Arc::clone(&self.lease));
        // Not awaited: a slow answer must not delay entries and the lease.
        tokio::spawn(async move {
            // A failed look is repeated. The request for an earlier epoch stays in the place, and was for another
            // process.
            if request::epoch(&place).await.is_ok_and(|asked| asked == Some(epoch)) {
                plimsoll_catalog::log::event("a standby was promoted, and asks this gateway to end");
                lease.hand_over();
            }
        });
    }

    /// Deletes entries that the backup has. Those that cannot be deleted stay at least until the next start.
    fn prune(&mut self) {
        // Not `shipped`: while a log is shipped from its start, older pieces need these entries for the newest state.
        let numbers = self.writer.covered(self.engine.restorable());
        if numbers.is_empty() {
            return;
        }
        let (place, epoch) = (self.writer.place().clone(), self.writer.epoch());
        tokio::spawn(async move {
            if let Err(error) = place.delete_numbers(Chain::Journal, epoch, numbers).await {
                plimsoll_catalog::log::warn(&format!(
                    "entries of the journal stay at least until the next start: {error}"
                ));
            }
        });
    }
}

/// The running thread. It ends when this is dropped.
struct Handle {
    contents: Option<mpsc::UnboundedSender<Contents>>,
    /// True at the end of the process, also if no further entry can be sent.
    closed: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Handle {
    fn start(state: Sender) -> std::io::Result<Handle> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (contents, receiver) = mpsc::unbounded_channel();
        let (closed, is_closed) = watch::channel(false);
        let thread = threads::spawn("journal", move || {
            runtime.block_on(liveness::keep("journal", state.run(receiver, is_closed)));
        })?;
        Ok(Handle { contents: Some(contents), closed, thread: Some(thread) })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.contents = None;
        let _ = self.closed.send(true);
        if let Some(thread) = self.thread.take() {
            // The end of the process must not cut off the last entry.
            let _ = thread.join();
        }
    }
}

/// Keeps the lease of a process whose groups are durable on its own disk. The lease ends when this is dropped.
pub struct ExtendingThread {
    _handle: Handle,
}

impl LeaseKeeper for ExtendingThread {}

impl ExtendingThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the thread or its runtime cannot be created.
    pub fn start(
        engine: Arc<Engine>,
        writer: EntryWriter,
        lease: Arc<Lease>,
        shipper: BegunShipper,
    ) -> std::io::Result<ExtendingThread> {
        let handle = Handle::start(Sender { writer, engine, lease, confirmation: None, shipper })?;
        Ok(ExtendingThread { _handle: handle })
    }
}

/// A journal in an object store.
pub struct TierJournal {
    engine: Arc<Engine>,
    lease: Arc<Lease>,
    confirmation: Confirmation,
    handle: Handle,
}

impl TierJournal {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the thread or its runtime cannot be created.
    pub fn start(
        engine: Arc<Engine>,
        writer: EntryWriter,
        lease: Arc<Lease>,
        confirmation: Confirmation,
    ) -> std::io::Result<TierJournal> {
        let handle = Handle::start(Sender {
            writer,
            engine: Arc::clone(&engine),
            lease: Arc::clone(&lease),
            confirmation: Some(confirmation.clone()),
            shipper: BegunShipper::default(),
        })?;
        Ok(TierJournal { engine, lease, confirmation, handle })
    }
}

impl Journal<WrittenGroup> for TierJournal {
    fn send(&mut self, group: &WrittenGroup) {
        let contents = Contents::new(&self.engine, group);
        let sent = match (contents, &self.handle.contents) {
            (Ok(contents), Some(sender)) => sender.send(contents).is_ok(),
            _ => false,
        };
        // Later groups rely on this one, so none of them may be confirmed.
        if !sent {
            self.confirmation.end(CatalogError::Stopped("the journal has ended".into()));
        }
    }

    fn check(&self) -> Result<(), CatalogError> {
        self.lease.check()
    }
}
