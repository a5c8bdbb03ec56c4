//! The committing thread of a catalog whose groups a journal makes durable, several at a time.
//!
//! A group is executed, sent to the journal, and applied when the journal has it and all groups before it. Until then
//! only later transactions see its changes. The results are delivered after that, also of transactions that only read:
//! they may have seen what was not durable yet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_base::clock::{SECOND, now_ns};

use super::committer::{Committer, Group, GroupWriter, MAX_BYTES, Queue, Reply, Shared, deliver};
use super::{CatalogError, Work};
use crate::liveness;

/// Maximum number of groups that the journal has not confirmed.
pub const MAX_IN_FLIGHT: u64 = 16;
/// Maximum number of transactions in a group.
const MAX_TRANSACTIONS: usize = 1024;
/// Number of waiting transactions that do not wait for the groups before them. Each group costs a request.
pub const MANY: usize = 128;
/// Longest time for which a group waits for more transactions, in nanoseconds.
const MAX_LINGER_NS: u64 = SECOND / 20;
/// Nanoseconds for which the end of the catalog waits for the journal. After a signal, `ending` ends the process
/// earlier.
const LAST_WAIT_NS: u64 = 10 * SECOND;

/// Writer of groups that a journal makes durable.
pub trait JournaledWriter: GroupWriter {
    /// A group that is not durable yet.
    type Group: Send;

    /// Executes transactions one after the other. Returns the result of each, and the group with their changes; `None`
    /// if there are none.
    fn write(&mut self, works: Vec<Work>) -> (Vec<Result<(), CatalogError>>, Option<Self::Group>);

    /// Shows readers the changes of a group that is durable. Groups are applied in their order.
    fn apply(&mut self, group: Self::Group);

    /// Ends all writes: groups that were written may not be durable.
    fn stop(&mut self, error: &CatalogError);
}

/// Sender of groups to a journal.
pub trait Journal<G>: Send + 'static {
    /// Begins to make a group durable. The journal calls [`Confirmation::confirm`] when this group and all groups
    /// before it are durable.
    fn send(&mut self, group: &G);

    /// Checks that no other process can have made a group durable since the last one of this process.
    ///
    /// # Errors
    /// [`CatalogError::Unavailable`] if another one can.
    fn check(&self) -> Result<(), CatalogError>;
}

/// Receiver of what a journal has made durable.
#[derive(Clone)]
pub struct Confirmation(Arc<Shared>);

impl Confirmation {
    /// Confirms one more group.
    pub fn confirm(&self) {
        self.0.change(|queue| queue.durable += 1);
    }

    /// Ends the journal: no further group will be durable.
    pub fn end(&self, error: CatalogError) {
        self.0.change(|queue| {
            queue.ended.get_or_insert(error);
        });
    }
}

/// A group whose results wait.
struct Flight<G> {
    /// Number of groups that must be durable.
    number: u64,
    group: Option<G>,
    replies: Vec<Reply>,
    results: Vec<Result<(), CatalogError>>,
    sent_ns: u64,
}

/// Decides when a group is sent. It waits for the group before, so that it is larger, but not if many transactions
/// wait. Clients whose writes were acknowledged usually send the next ones at once, and these share a group, too.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    /// Transactions in the last group that was confirmed, and of those that had queued up until then.
    expected: usize,
    /// Time until which they are waited for.
    until_ns: u64,
}

impl Pace {
    /// Returns true if the next group can be sent now.
    fn allows(&self, queued: usize, bytes: usize, in_flight: u64, now_ns: u64) -> bool {
        // The journal sends no further entry either (`has_room` in backup/journal/entry.rs): while a group waits here,
        // more transactions join it.
        if in_flight >= MAX_IN_FLIGHT || queued == 0 {
            return false;
        }
        let is_awaited = in_flight == 0 && (queued >= self.expected || now_ns >= self.until_ns);
        is_awaited || queued >= MANY || bytes >= MAX_BYTES
    }

    /// Learns from a group that was confirmed while others have queued up.
    fn confirmed(&mut self, transactions: usize, queued: usize, sent_ns: u64, now_ns: u64) {
        // At most `MANY`: this number of transactions is sent without a wait.
        self.expected = (transactions + queued).min(MANY);
        // At most half of a request, and with a limit: after one slow request, the next group must not wait long.
        self.until_ns = now_ns + ((now_ns - sent_ns) / 2).min(MAX_LINGER_NS);
    }
}

/// The next step of the thread.
enum Step {
    /// Apply the first group, while this number of transactions waits.
    Apply(usize),
    Send(Group),
    Ended(CatalogError),
    Stop,
}

impl<W: JournaledWriter> Committer<W> {
    /// Starts the thread with a journal.
    ///
    /// # Errors
    /// If the thread or the journal cannot be started.
    pub fn with_journal<J: Journal<W::Group>>(
        writer: W,
        start: impl FnOnce(Confirmation) -> std::io::Result<J>,
    ) -> std::io::Result<Committer<W>> {
        let shared: Arc<Shared> = Arc::default();
        let journal = start(Confirmation(Arc::clone(&shared)))?;
        Committer::spawn(shared, move |shared| Pipeline::new(writer, journal).run(shared))
    }
}

struct Pipeline<W: JournaledWriter, J> {
    writer: W,
    journal: J,
    flights: VecDeque<Flight<W::Group>>,
    /// Number of groups that were sent.
    sent: u64,
    pace: Pace,
    /// Time at which the process stops to wait for the journal; `None` before its end.
    give_up_ns: Option<u64>,
}

impl<W: JournaledWriter, J: Journal<W::Group>> Pipeline<W, J> {
    fn new(writer: W, journal: J) -> Pipeline<W, J> {
        Pipeline {
            writer,
            journal,
            flights: VecDeque::new(),
            sent: 0,
            pace: Pace::default(),
            give_up_ns: None,
        }
    }

    fn run(mut self, shared: &Shared) -> W {
        let _loop = liveness::enter("commit");
        loop {
            liveness::hang_thread_in_tests();
            liveness::at("a confirmation of the journal");
            match self.next(shared) {
                Step::Apply(queued) => self.apply(queued),
                Step::Send(group) => self.send(group),
                Step::Ended(error) => self.end(shared, &error),
                Step::Stop => break,
            }
        }
        // The groups are in the log without a sync. An error stops the engine, and `close` of the catalog reports it.
        let _ = self.writer.sync();
        self.writer
    }

    /// Waits until there is something to do.
    fn next(&mut self, shared: &Shared) -> Step {
        let mut queue = shared.lock();
        loop {
            let front = self.flights.front().map(|flight| flight.number);
            // First: a group that is durable is a success for its clients, also if the journal has ended meanwhile.
            if front.is_some_and(|number| number <= queue.durable) {
                return Step::Apply(queue.len());
            }
            // Only when nothing waits: everything that was queued before the end gets a result.
            if queue.closed && queue.len() == 0 && front.is_none() {
                return Step::Stop;
            }
            // Only if somebody waits for a result. Otherwise, this thread would be busy until the end of the process.
            if let Some(error) = queue.ended.clone().filter(|_| queue.len() > 0 || front.is_some()) {
                return Step::Ended(error);
            }
            let (now, in_flight) = (now_ns(), self.sent - queue.durable);
            // No further transactions come, so a wait for them would only lengthen the end of the process.
            let is_last = queue.closed && queue.len() > 0 && in_flight < MAX_IN_FLIGHT;
            if is_last || self.pace.allows(queue.len(), queue.bytes, in_flight, now) {
                return Step::Send(queue.take(MAX_TRANSACTIONS));
            }
            if queue.closed && now >= *self.give_up_ns.get_or_insert(now + LAST_WAIT_NS) {
                return Step::Ended(CatalogError::Unavailable("the journal does not answer".into()));
            }
            // Not while groups wait: a journal that does not confirm them is a stall.
            if queue.len() == 0 && front.is_none() {
                liveness::rest();
            }
            let time = self.wait_for(&mut queue, in_flight, now);
            queue = shared.wait(queue, time);
        }
    }

    /// Says for how many transactions the thread waits. Returns the time for which it does; `None` without a limit.
    fn wait_for(&self, queue: &mut Queue, in_flight: u64, now: u64) -> Option<Duration> {
        let lingers = in_flight == 0 && queue.len() > 0;
        let is_full = in_flight >= MAX_IN_FLIGHT;
        queue.wanted = match () {
            () if queue.ended.is_some() => 1,
            // A confirmation comes first.
            () if is_full => usize::MAX,
            () if lingers => self.pace.expected,
            () if in_flight == 0 => 1,
            () => MANY,
        };
        let until_ns = if lingers { Some(self.pace.until_ns) } else { self.give_up_ns };
        until_ns.map(|until| Duration::from_nanos(until.saturating_sub(now).max(1)))
    }

    fn send(&mut self, group: Group) {
        let Group { replies, works, reads } = group;
        let count = works.len();
        let (results, group) = match self.writer.prepare(reads) {
            Ok(()) => self.writer.write(works),
            Err(error) => (vec![Err(error); count], None),
        };
        if let Some(group) = &group {
            self.journal.send(group);
            self.sent += 1;
        }
        // A group without changes is not sent. It waits for those before it, whose rows its transactions may have read.
        self.flights.push_back(Flight { number: self.sent, group, replies, results, sent_ns: now_ns() });
    }

    /// Applies the first group, which is durable, and delivers its results.
    fn apply(&mut self, queued: usize) {
        let Some(flight) = self.flights.pop_front() else { return };
        let mut results = flight.results;
        match flight.group {
            Some(group) => {
                // Before the results: a client that has its answer must find what it has written.
                self.writer.apply(group);
                self.pace.confirmed(results.len(), queued, flight.sent_ns, now_ns());
            }
            // Nothing in the journal proves that what the transactions have read was the newest state.
            None => {
                if let Err(error) = self.journal.check() {
                    results = vec![Err(error); results.len()];
                }
            }
        }
        deliver(flight.replies, results);
    }

    /// Fails everything that waits.
    fn end(&mut self, shared: &Shared, error: &CatalogError) {
        // The log has groups that the journal may not have. A later group would rely on their rows.
        self.writer.stop(error);
        for flight in self.flights.drain(..) {
            let count = flight.results.len();
            deliver(flight.replies, vec![Err(error.clone()); count]);
        }
        let mut queue = shared.lock();
        // The reason of the journal stays, if there is one: it says more than the time that is over.
        queue.ended.get_or_insert_with(|| error.clone());
        while queue.len() > 0 {
            let group = queue.take(MAX_TRANSACTIONS);
            deliver(group.replies, vec![Err(error.clone()); group.works.len()]);
        }
    }
}
