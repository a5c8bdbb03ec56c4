//! Creates the entries of the journal, several at a time, and confirms them in their order.

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use plimsoll_base::net::encode::hex;
use plimsoll_s3::sign::sha256;
use tokio::sync::{mpsc, watch};

use super::lease::Lease;
use super::request;
use super::take_over::Leadership;
use crate::ambient::{in_time, now_ms, pause, steady_ms};
use crate::backup::error::BackupError;
use crate::backup::header::{EntryHeader, Header, Known, RunHeader, Tail};
use crate::backup::history::{MOST_IN_FLIGHT, read_header};
use crate::backup::place::{Chain, Place};
use crate::backup::ship::BegunShipper;
use crate::catalog::CatalogError;
use crate::catalog::embedded::Engine;
use crate::catalog::embedded::segment::{HEADER, SegmentHeader};
use crate::catalog::embedded::writer::WrittenGroup;
use crate::catalog::pipeline::{Confirmation, Journal};
use crate::guard::{self, Guard};
use crate::threads;

/// Longest time in milliseconds after which the first attempt to create an entry without a group is given up.
const ATTEMPT_MS: u64 = 5000;
/// Longest time in milliseconds for any attempt.
const MOST_ATTEMPT_MS: u64 = 60_000;
/// Bytes per millisecond that the link to the place certainly has.
const LEAST_RATE: u64 = 1000;
/// Longest time between two attempts in milliseconds.
const MOST_PAUSE_MS: u64 = 1000;
/// Time between two deletions of entries that the backup has, and between two looks for a request of a standby, in
/// milliseconds.
const PRUNE_MS: u64 = 2000;
/// Number of the last entries that stay, so that a fence that is created late at the place of a deleted entry has more
/// entries behind it than a writer has in flight.
const STAY: usize = 64;
/// Time for which the end of the process waits for the place.
const LAST_WAIT: Duration = Duration::from_secs(5);
/// Time for which it waits until the rest of the log is shipped.
const LAST_SHIP: Duration = Duration::from_secs(60);

/// Bytes of the log that become an entry.
pub struct Contents {
    run: RunHeader,
    bytes: Bytes,
    tail: Tail,
}

impl Contents {
    /// Returns the bytes of a group. The first group of a segment has the header of the segment.
    pub fn new(engine: &Engine, group: &WrittenGroup) -> Result<Contents, BackupError> {
        let segment = group.end.segment;
        let (mut offset, mut bytes) = (group.offset, group.bytes.clone());
        if offset == HEADER {
            let header = SegmentHeader { salt: engine.salt, id: segment, first_group: group.number };
            bytes = [header.encode(), bytes.to_vec()].concat().into();
            offset = 0;
        }
        let (first_group, length) = (group.first_group, bytes.len() as u64);
        let run = RunHeader { segment, first_group, offset, bytes: length, next_group: group.end.group };
        let tail = Tail::of(engine, group.end).ok_or(BackupError::Gap)?;
        Ok(Contents { run, bytes, tail })
    }
}

/// Writer of an epoch of the journal: knows the last entry that was begun.
pub struct EntryWriter {
    place: Place,
    lease_ms: u64,
    last: Known,
    /// End of the log in the last entry.
    tail: Tail,
    epoch: u64,
    /// Number of the last entry that exists with all entries before it.
    confirmed: u64,
    /// Entries that exist, behind one that may not exist.
    landed: BTreeMap<u64, Flight>,
    /// Entries that exist with all before them: the number of each, and of the group behind its last one.
    entries: VecDeque<(u64, u64)>,
}

/// An entry on its way.
pub struct Flight {
    known: Known,
    sent_ms: u64,
    /// True if the entry has a group.
    pub has_group: bool,
}

impl EntryWriter {
    /// Begins behind a fence, with the log up to a tail.
    pub fn new(place: Place, leadership: &Leadership, tail: Tail) -> EntryWriter {
        let last = leadership.fence.clone();
        let header = &last.header;
        let lease_ms = header.entry.as_ref().map_or(0, |entry| entry.lease_ms);
        let (epoch, confirmed) = (header.fence.unwrap_or(header.epoch + 1), header.number);
        EntryWriter {
            place,
            lease_ms,
            last,
            tail,
            epoch,
            confirmed,
            landed: BTreeMap::new(),
            entries: VecDeque::new(),
        }
    }

    /// Returns the place of the journal.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns true if a further entry may be sent: fewer than [`MOST_IN_FLIGHT`] entries are behind the end of the
    /// journal. Entries that exist behind a missing one count, too.
    pub fn has_room(&self) -> bool {
        self.last.header.number < self.confirmed + MOST_IN_FLIGHT
    }

    /// Returns the epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the next entry and its bytes; without contents, an empty one.
    pub fn next(&mut self, contents: Option<Contents>, is_last: bool) -> (Flight, Bytes) {
        let (runs, bytes, tail) = match contents {
            Some(contents) => (vec![contents.run], contents.bytes, contents.tail),
            None => (Vec::new(), Bytes::new(), self.tail.clone()),
        };
        self.tail = tail.clone();
        let has_group = !runs.is_empty();
        let known = Known::new(Header {
            epoch: self.epoch,
            number: self.last.header.number + 1,
            previous: self.last.digest(),
            writer: self.last.header.writer.clone(),
            written_ms: now_ms(),
            runs,
            tail,
            bytes: bytes.len() as u64,
            sha256: hex(&sha256(&bytes)),
            entry: Some(EntryHeader { lease_ms: self.lease_ms, confirmed: self.confirmed, is_last }),
            ..Header::default()
        });
        self.last = known.clone();
        let object = known.encode(&bytes);
        (Flight { known, sent_ms: steady_ms(), has_group }, object)
    }

    /// Tries to create an entry. Returns false if this must be tried again.
    ///
    /// # Errors
    /// [`BackupError::Fenced`] if another process has ended the epoch, or the error of the place.
    pub async fn attempt(place: &Place, flight: &Flight, object: Bytes) -> Result<bool, BackupError> {
        let known = &flight.known;
        let name = known.header.name();
        if place.create(&name, object).await? {
            return Ok(true);
        }
        // An earlier attempt may have succeeded without an answer.
        match read_header(place, &name).await? {
            Some(found) if found.text == known.text => Ok(true),
            Some(_) if guard::is_made(Guard::Fence) => Err(BackupError::Fenced(known.header.epoch + 1)),
            found => Ok(found.is_some()),
        }
    }

    /// Records that an entry exists. Returns the entries that now exist with all entries before them, in their order.
    pub fn landed(&mut self, flight: Flight, lease: &Lease) -> Vec<Flight> {
        self.landed.insert(flight.known.header.number, flight);
        let mut found = Vec::new();
        while let Some(entry) = self.landed.first_entry()
            && (*entry.key() == self.confirmed + 1 || !guard::is_made(Guard::Order))
        {
            let flight = entry.remove();
            self.confirmed = self.confirmed.max(flight.known.header.number);
            self.entries.push_back((self.confirmed, flight.known.header.tail.position.group));
            lease.extend(flight.sent_ms, self.lease_ms);
            found.push(flight);
        }
        found
    }

    /// Returns the numbers of the entries that are not needed any more, because a backup has the groups before
    /// `shipped`.
    pub fn covered(&mut self, shipped: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        while self.entries.len() > STAY
            && let Some((number, _)) = self.entries.front().filter(|(_, group)| *group <= shipped)
        {
            numbers.push(*number);
            self.entries.pop_front();
        }
        numbers
    }
}

/// Returns the milliseconds after which an attempt to create an entry is given up. A lost request must not cost the
/// lease, and a slow link must get every entry through in the end.
fn patience_ms(lease_ms: u64, bytes: u64, attempt: u32) -> u64 {
    let first = (lease_ms / 3).min(ATTEMPT_MS) + bytes / LEAST_RATE;
    first.saturating_mul(1 << attempt.min(6)).min(MOST_ATTEMPT_MS)
}

/// Creates an entry, with as many attempts as it needs.
async fn create(
    place: Place,
    lease: Arc<Lease>,
    flight: Flight,
    object: Bytes,
) -> Result<Flight, BackupError> {
    let lease_ms = flight.known.header.entry.as_ref().map_or(0, |entry| entry.lease_ms);
    let (mut pause_ms, mut attempts) = (50, 0);
    loop {
        let patience_ms = patience_ms(lease_ms, object.len() as u64, attempts);
        attempts += 1;
        let attempt = EntryWriter::attempt(&place, &flight, object.clone());
        let problem = match in_time(Duration::from_millis(patience_ms), attempt).await {
            Some(Ok(true)) => return Ok(flight),
            Some(Err(error @ BackupError::Fenced(_))) => return Err(error),
            Some(Ok(false)) => "the entry exists, and cannot be read".to_string(),
            Some(Err(error)) => error.to_string(),
            None => format!("no answer in {patience_ms} ms"),
        };
        if lease.fail(problem.clone()) {
            crate::log::warn(&format!("the journal is not written: {problem}"));
        }
        pause(pause_ms).await;
        pause_ms = (2 * pause_ms).min(MOST_PAUSE_MS);
    }
}

/// The thread that creates entries.
struct Sender {
    writer: EntryWriter,
    engine: Arc<Engine>,
    lease: Arc<Lease>,
    /// Receiver of what is durable; `None` if entries have no groups.
    confirmation: Option<Confirmation>,
    /// Writer of the backup, if nothing ships the log while the process runs.
    shipper: BegunShipper,
}

impl Sender {
    async fn run(
        mut self,
        mut contents: mpsc::UnboundedReceiver<Contents>,
        mut closed: watch::Receiver<bool>,
    ) {
        let mut flights = FuturesUnordered::new();
        let mut pruned_ms = steady_ms();
        let result = loop {
            let beat_ms = self.lease.left_ms().saturating_sub(self.writer.lease_ms * 2 / 3);
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

    fn begin(
        &mut self,
        contents: Option<Contents>,
        is_last: bool,
    ) -> impl Future<Output = Result<Flight, BackupError>> + use<> {
        let (flight, object) = self.writer.next(contents, is_last);
        create(self.writer.place.clone(), Arc::clone(&self.lease), flight, object)
    }

    fn landed(&mut self, flight: Flight) {
        for flight in self.writer.landed(flight, &self.lease) {
            if let Some(confirmation) = self.confirmation.as_ref().filter(|_| flight.has_group) {
                confirmation.confirm();
            }
        }
    }

    /// Waits for what is on its way, and ends the lease, so that the next start need not wait for its end.
    async fn end(
        &mut self,
        mut flights: FuturesUnordered<impl Future<Output = Result<Flight, BackupError>>>,
    ) -> Result<(), BackupError> {
        let rest = async {
            while let Some(landed) = flights.next().await {
                self.landed(landed?);
            }
            Ok::<_, BackupError>(())
        };
        in_time(LAST_WAIT, rest).await.unwrap_or(Ok(()))?;
        // A standby that takes over at once must find everything.
        if self.confirmation.is_none() {
            self.ship_rest().await?;
        }
        self.lease.end();
        let last = async { self.begin(None, true).await.map(|_| ()) };
        in_time(LAST_WAIT, last).await.unwrap_or(Ok(()))
    }

    /// Ships what is left, and keeps the lease meanwhile.
    async fn ship_rest(&mut self) -> Result<(), BackupError> {
        let shipper = self.shipper.lock().unwrap_or_else(PoisonError::into_inner).take();
        let shipped = async {
            let Some(mut shipper) = shipper else { return Ok(()) };
            while !shipper.step().await?.is_up_to_date {}
            Ok::<_, BackupError>(())
        };
        let mut shipped = pin!(in_time(LAST_SHIP, shipped));
        let result = loop {
            tokio::select! {
                result = &mut shipped => break result,
                () = pause(self.writer.lease_ms / 3) => {
                    let flight = in_time(LAST_WAIT, self.begin(None, false)).await;
                    if let Some(flight) = flight.transpose()? {
                        self.landed(flight);
                    }
                }
            }
        };
        let problem = match result {
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
        if self.lease.incomplete().is_some() {
            return;
        }
        let text = match error {
            BackupError::Fenced(_) => "another gateway leads this catalog now".to_string(),
            error => format!("the journal cannot continue: {error}"),
        };
        self.lease.fail(text.clone());
        crate::log::warn(&text);
        // First, so that nothing is read after a write has failed.
        self.lease.lose();
        if let Some(confirmation) = &self.confirmation {
            confirmation.end(CatalogError::Unavailable(text));
        }
    }

    /// Ends the process if a standby asks for it.
    fn look_for_request(&self) {
        let (place, epoch, lease) = (self.writer.place.clone(), self.writer.epoch, Arc::clone(&self.lease));
        tokio::spawn(async move {
            if request::epoch(&place).await.is_ok_and(|asked| asked == Some(epoch)) {
                crate::log::event("a standby was promoted, and asks this gateway to end");
                lease.hand_over();
            }
        });
    }

    /// Deletes entries that the backup has. Those that cannot be deleted stay until the next start.
    fn prune(&mut self) {
        let numbers = self.writer.covered(self.engine.restorable());
        if numbers.is_empty() {
            return;
        }
        let (place, epoch) = (self.writer.place.clone(), self.writer.epoch);
        tokio::spawn(async move {
            if let Err(error) = place.delete_numbers(Chain::Journal, epoch, numbers).await {
                crate::log::warn(&format!("entries of the journal stay until the next start: {error}"));
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
        let thread = threads::spawn("journal", move || runtime.block_on(state.run(receiver, is_closed)))?;
        Ok(Handle { contents: Some(contents), closed, thread: Some(thread) })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.contents = None;
        let _ = self.closed.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Keeps the lease of a process whose groups are durable on its own disk. The lease ends when this is dropped.
pub struct LeaseKeeper {
    _handle: Handle,
}

impl LeaseKeeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the thread or its runtime cannot be created.
    pub fn start(
        engine: Arc<Engine>,
        writer: EntryWriter,
        lease: Arc<Lease>,
        shipper: BegunShipper,
    ) -> std::io::Result<LeaseKeeper> {
        let handle = Handle::start(Sender { writer, engine, lease, confirmation: None, shipper })?;
        Ok(LeaseKeeper { _handle: handle })
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
        if !sent {
            self.confirmation.end(CatalogError::Stopped("the journal has ended".into()));
        }
    }

    fn check(&self) -> Result<(), CatalogError> {
        self.lease.check()
    }
}
