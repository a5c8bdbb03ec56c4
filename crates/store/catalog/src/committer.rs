//! The thread that commits: collects the transactions of all threads and writes them in groups.
//!
//! While a group is being synced, the next transactions queue up and become the next group. The results for one thread
//! are delivered together, and only one of its tasks is woken from outside; that task wakes the others. So a group
//! costs one wake-up per thread, not one per transaction.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use plimsoll_base::clock::now_ns;

use super::{CatalogError, Expected, KnownReads, Work};
use crate::liveness;
use crate::threads;

/// Writer of groups of transactions. Only the committing thread uses it.
pub trait GroupWriter: Send + 'static {
    /// Waits until a group can be written, of whose transactions the reads are partly known. On an error, no
    /// transaction of the group is executed, and the error is the result of each.
    ///
    /// # Errors
    /// If the catalog cannot be written.
    fn prepare(&mut self, reads: KnownReads) -> Result<(), CatalogError>;

    /// Executes transactions one after the other, writes their changes as one group and, if `sync` is true, makes it
    /// durable. Returns the result of each transaction.
    fn commit(&mut self, works: Vec<Work>, sync: bool) -> Vec<Result<(), CatalogError>>;

    /// Makes all groups durable.
    ///
    /// # Errors
    /// If the disk fails.
    fn sync(&mut self) -> Result<(), CatalogError>;
}

/// Maximum number of transactions in a group that is synced.
const MAX_TRANSACTIONS: usize = 256;
/// Maximum number of bytes in a group, unless a single transaction has more.
pub(super) const MAX_BYTES: usize = 4 << 20;

/// Time at which acknowledged transactions are durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Before they are acknowledged.
    Sync,
    /// At most this long after they are acknowledged. A crash of the machine loses the transactions since then; a
    /// crash of the process loses none.
    Interval(Duration),
}

/// Results for the tasks of one thread.
#[derive(Default)]
struct Mailbox {
    state: Mutex<MailboxState>,
}

/// State of a transaction.
enum Answer {
    /// It has no result yet. The task waits if there is a waker.
    Awaited(Option<Waker>),
    /// Its result, which the task has not taken.
    Known(Result<(), CatalogError>),
}

#[derive(Default)]
struct MailboxState {
    /// Transactions whose result somebody waits for.
    answers: HashMap<u64, Answer>,
    /// Tasks whose results are known, and which nobody has woken.
    asleep: Vec<Waker>,
}

impl Mailbox {
    fn lock(&self) -> std::sync::MutexGuard<'_, MailboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Number of the next transaction, of all catalogs of the process: a thread has one mailbox for all of them.
static IDS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static MAILBOX: Arc<Mailbox> = Arc::default();
}

/// A queued transaction.
struct Job {
    reply: Reply,
    work: Work,
    expected: Expected,
}

/// The transactions of a group.
#[derive(Default)]
pub(super) struct Group {
    pub(super) replies: Vec<Reply>,
    pub(super) works: Vec<Work>,
    /// Keys that they read.
    pub(super) reads: KnownReads,
}

/// Address of the result of a transaction: its number and the results of its thread.
pub(super) struct Reply(u64, Arc<Mailbox>);

/// Transactions that wait, and what the committing thread must know.
#[derive(Default)]
pub(super) struct Queue {
    jobs: Vec<Job>,
    /// Bytes of the transactions that wait.
    pub(super) bytes: usize,
    /// Number of transactions for which the committing thread waits; 0 and 1 for any.
    pub(super) wanted: usize,
    /// True if no further transaction is accepted.
    pub(super) closed: bool,
    /// Number of groups that the journal has made durable.
    pub(super) durable: u64,
    /// Reason why the journal makes no further group durable.
    pub(super) ended: Option<CatalogError>,
}

impl Queue {
    /// Returns the number of transactions that wait.
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Takes the transactions of the next group, at most `most`.
    pub(super) fn take(&mut self, most: usize) -> Group {
        let mut bytes = 0;
        let fits = |job: &Job| {
            bytes += job.expected.bytes;
            bytes <= MAX_BYTES
        };
        // At least one: a transaction that is larger than the limit would never be taken.
        let count = self.jobs.iter().take(most).map(fits).take_while(|fits| *fits).count().max(1);
        let jobs: Vec<Job> = self.jobs.drain(..count.min(self.jobs.len())).collect();
        self.bytes -= jobs.iter().map(|job| job.expected.bytes).sum::<usize>();
        let mut group = Group::default();
        // One transaction with unknown reads makes its whole group need the lock: see `commit` in postgres/group.rs.
        group.reads.is_complete = jobs.iter().all(|job| job.expected.reads.is_complete);
        for job in jobs {
            group.replies.push(job.reply);
            group.works.push(job.work);
            group.reads.keys.extend(job.expected.reads.keys);
        }
        group
    }
}

/// Handle of the committing thread.
pub struct Committer<W> {
    shared: Arc<Shared>,
    threads: Mutex<Vec<std::thread::JoinHandle<W>>>,
}

/// State that the committing thread shares with all others.
#[derive(Default)]
pub(super) struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    /// Locks the queue.
    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change of the queue, at most for a time.
    pub(super) fn wait<'a>(
        &self,
        queue: MutexGuard<'a, Queue>,
        time: Option<Duration>,
    ) -> MutexGuard<'a, Queue> {
        match time {
            None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            Some(time) => {
                let waited = self.changed.wait_timeout(queue, time);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// Changes the queue, and wakes the committing thread.
    pub(super) fn change(&self, change: impl FnOnce(&mut Queue)) {
        change(&mut self.lock());
        self.changed.notify_one();
    }
}

impl<W: GroupWriter> Committer<W> {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(writer: W, durability: Durability) -> std::io::Result<Committer<W>> {
        let interval = match durability {
            Durability::Sync => None,
            Durability::Interval(interval) => Some(interval),
        };
        Committer::spawn(Arc::default(), move |shared| run(writer, shared, interval))
    }

    /// Starts the thread with its work, which returns the writer.
    pub(super) fn spawn(
        shared: Arc<Shared>,
        work: impl FnOnce(&Shared) -> W + Send + 'static,
    ) -> std::io::Result<Committer<W>> {
        let of_thread = Arc::clone(&shared);
        let thread = threads::spawn("commit", move || work(&of_thread))?;
        Ok(Committer { shared, threads: Mutex::new(vec![thread]) })
    }

    /// Starts a thread for each of several writers, which write groups at the same time.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn concurrent(writers: impl IntoIterator<Item = W>) -> std::io::Result<Committer<W>> {
        let shared: Arc<Shared> = Arc::default();
        let start = |writer| {
            let shared = Arc::clone(&shared);
            // Without an interval of syncs: a database makes each group durable when it commits.
            threads::spawn("commit", move || run(writer, &shared, None))
        };
        let threads = writers.into_iter().map(start).collect::<Result<_, _>>()?;
        Ok(Committer { shared, threads: Mutex::new(threads) })
    }

    /// Queues a transaction. The future returns its result.
    pub fn commit(&self, work: Work, expected: impl Into<Expected>) -> Committed {
        let expected = expected.into();
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        let mailbox = MAILBOX.with(Arc::clone);
        // Before the transaction is queued: `deliver` drops the result of a transaction that has no entry here.
        mailbox.lock().answers.insert(id, Answer::Awaited(None));
        let mut queue = self.shared.lock();
        if queue.closed {
            // The thread may have ended already, and nobody would answer.
            let error = CatalogError::Ended;
            mailbox.lock().answers.insert(id, Answer::Known(Err(error)));
        } else {
            let had_enough = queue.bytes >= MAX_BYTES;
            queue.bytes += expected.bytes;
            queue.jobs.push(Job { reply: Reply(id, Arc::clone(&mailbox)), work, expected });
            // Only when the number or the bytes that the thread waits for are reached: after any other wake-up, it
            // would wait again.
            if queue.jobs.len() == queue.wanted.max(1) || !had_enough && queue.bytes >= MAX_BYTES {
                self.shared.changed.notify_one();
            }
        }
        Committed { id, mailbox, done: false }
    }

    /// Commits the queued transactions, ends the threads and returns a writer; `None` after the first call.
    pub fn stop(&self) -> Option<W> {
        // Set under the lock: a thread that has just seen an open queue would otherwise miss the notification.
        self.shared.lock().closed = true;
        // All, because `concurrent` has several threads on one queue.
        self.shared.changed.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        // All of them: a lazy iterator would not wait for the others.
        let writers: Vec<W> = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        writers.into_iter().next()
    }
}

/// Result of a queued transaction. Dropping it does not cancel the transaction.
pub struct Committed {
    id: u64,
    mailbox: Arc<Mailbox>,
    done: bool,
}

impl Future for Committed {
    type Output = Result<(), CatalogError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mailbox = Arc::clone(&self.mailbox);
        let mut state = mailbox.lock();
        let Some(Answer::Known(result)) = state.answers.remove(&self.id) else {
            // The waker of the last poll counts: another task may poll the future next.
            state.answers.insert(self.id, Answer::Awaited(Some(cx.waker().clone())));
            return Poll::Pending;
        };
        self.done = true;
        wake_others(state);
        Poll::Ready(result)
    }
}

impl Drop for Committed {
    fn drop(&mut self) {
        if !self.done {
            // This task may be the one that was woken for all of its thread: the others would sleep for ever.
            let mut state = self.mailbox.lock();
            state.answers.remove(&self.id);
            wake_others(state);
        }
    }
}

/// Wakes all tasks of the thread that have results.
fn wake_others(mut state: std::sync::MutexGuard<'_, MailboxState>) {
    let asleep = std::mem::take(&mut state.asleep);
    // Before the wake-ups: one of them may drop a task with its `Committed`, which takes this lock.
    drop(state);
    asleep.into_iter().for_each(Waker::wake);
}

/// Takes the next group; `None` if the queue is closed and empty. The group is empty after the time `wait`.
fn next_group(shared: &Shared, wait: Option<Duration>) -> Option<Group> {
    liveness::hang_thread_in_tests();
    // A thread without transactions is not stalled.
    liveness::rest();
    let mut queue = shared.lock();
    while queue.len() == 0 {
        // Looked at only while the queue is empty: what was queued before the end is still committed.
        if queue.closed {
            return None;
        }
        queue = shared.wait(queue, wait);
        // The time is over. The caller syncs what earlier groups have written.
        if wait.is_some() && queue.len() == 0 && !queue.closed {
            return Some(Group::default());
        }
    }
    let group = queue.take(MAX_TRANSACTIONS);
    // For another thread, if there is one.
    if queue.len() > 0 {
        shared.changed.notify_one();
    }
    Some(group)
}

fn run<W: GroupWriter>(mut writer: W, shared: &Shared, interval: Option<Duration>) -> W {
    // Time of the first group that no sync has made durable.
    let mut unsynced_ns = None;
    let _loop = liveness::enter("commit");
    while let Some(Group { replies, works, reads }) = next_group(shared, until_sync(interval, unsynced_ns)) {
        liveness::at("the end of a group of transactions");
        if !works.is_empty() {
            // Before the answers: with a later time, these writes would be durable later than the interval promises.
            unsynced_ns = unsynced_ns.or_else(|| interval.map(|_| now_ns()));
            let results = match writer.prepare(reads) {
                Ok(()) => writer.commit(works, interval.is_none()),
                Err(error) => vec![Err(error); works.len()],
            };
            deliver(replies, results);
        }
        if until_sync(interval, unsynced_ns) == Some(Duration::ZERO) {
            // An error stops all later writes.
            let _ = writer.sync();
            unsynced_ns = None;
        }
    }
    // The last groups of an interval. An error stops the engine, and `close` of the catalog returns its reason.
    let _ = writer.sync();
    writer
}

/// Returns the time until the next sync; `None` without an interval, or if everything is durable.
fn until_sync(interval: Option<Duration>, unsynced_ns: Option<u64>) -> Option<Duration> {
    let since = Duration::from_nanos(now_ns().saturating_sub(unsynced_ns?));
    Some(interval?.saturating_sub(since))
}

/// Delivers the results of a group, and wakes one task of each thread.
pub(super) fn deliver(replies: Vec<Reply>, results: Vec<Result<(), CatalogError>>) {
    // A transaction without a result would wait forever.
    let (count, all) = (results.len(), replies.len());
    assert_eq!(count, all, "a group of {all} transactions has {count} results");
    let mut threads: Vec<Arc<Mailbox>> = Vec::new();
    for (Reply(id, mailbox), result) in replies.into_iter().zip(results) {
        let mut state = mailbox.lock();
        // Nobody waits for a future that was dropped. Its transaction is committed nevertheless.
        let Some(answer) = state.answers.get_mut(&id) else { continue };
        // A task without a waker has not been polled yet, and finds the result when it is.
        if let Answer::Awaited(Some(waker)) = std::mem::replace(answer, Answer::Known(result)) {
            state.asleep.push(waker);
        }
        drop(state);
        if !threads.iter().any(|known| Arc::ptr_eq(known, &mailbox)) {
            threads.push(mailbox);
        }
    }
    // Only after all results are known: the woken task wakes the others once, and would miss those with later results.
    for mailbox in threads {
        let mut state = mailbox.lock();
        let waker = state.asleep.pop();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking::block_on;

    /// A writer whose transactions all have the same result.
    struct Always(bool);

    impl GroupWriter for Always {
        fn prepare(&mut self, _: KnownReads) -> Result<(), CatalogError> {
            Ok(())
        }

        fn commit(&mut self, works: Vec<Work>, _: bool) -> Vec<Result<(), CatalogError>> {
            works.iter().map(|_| if self.0 { Ok(()) } else { Err(CatalogError::Ended) }).collect()
        }

        fn sync(&mut self) -> Result<(), CatalogError> {
            Ok(())
        }
    }

    /// Regression test: the transactions of two catalogs had the same numbers, and a thread one mailbox for both.
    #[test]
    fn a_thread_may_use_two_catalogs() {
        let committers = [true, false].map(|result| Committer::concurrent([Always(result)]).unwrap());
        let queued: Vec<Committed> =
            (0..20).map(|number| committers[number % 2].commit(Box::new(|_| Ok(true)), 0)).collect();
        let results: Vec<bool> = queued.into_iter().map(|committed| block_on(committed).is_ok()).collect();
        assert_eq!(results, [true, false].repeat(10));
        assert!(committers.iter().all(|committer| committer.stop().is_some()));
    }

    /// Regression test: each group began the interval of syncs again, so the first one was durable after up to twice
    /// the interval.
    #[test]
    fn the_interval_of_syncs_begins_with_the_first_group() {
        let (short, long) = (Duration::from_nanos(1), Duration::from_secs(3600));
        let began_ns = now_ns();
        while now_ns() == began_ns {}
        assert_eq!(until_sync(Some(short), Some(began_ns)), Some(Duration::ZERO));
        let left = until_sync(Some(long), Some(began_ns)).unwrap();
        assert!(left < long && !left.is_zero(), "{left:?}");
        assert_eq!((until_sync(Some(long), None), until_sync(None, None)), (None, None));
    }

    #[derive(Default)]
    struct Wakes(AtomicU64);

    impl std::task::Wake for Wakes {
        fn wake(self: Arc<Wakes>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Regression test: each task looked at the results of all others.
    #[test]
    fn each_task_of_a_group_is_woken_once() {
        let mailbox: Arc<Mailbox> = Arc::default();
        let wakes: Vec<Arc<Wakes>> = (0..10).map(|_| Arc::default()).collect();
        let mut tasks: Vec<Committed> =
            (0..10).map(|id| Committed { id, mailbox: Arc::clone(&mailbox), done: false }).collect();
        let poll = |tasks: &mut [Committed], number: usize| {
            let waker = Waker::from(Arc::clone(&wakes[number]));
            Pin::new(&mut tasks[number]).poll(&mut Context::from_waker(&waker)).is_ready()
        };
        assert!((0..10).all(|number| !poll(&mut tasks, number)));
        let replies = (0..10).map(|id| Reply(id, Arc::clone(&mailbox))).collect();
        deliver(replies, (0..10).map(|_| Ok(())).collect());
        let woken = |number: &usize| wakes[*number].0.load(Ordering::Relaxed) == 1;
        let first: Vec<usize> = (0..10).filter(woken).collect();
        assert_eq!(first.len(), 1, "one task is woken from outside");
        assert!(poll(&mut tasks, first[0]) && (0..10).all(|number| woken(&number)));
        assert!((0..10).filter(|number| *number != first[0]).all(|number| poll(&mut tasks, number)));
        assert!((0..10).all(|number| woken(&number)) && mailbox.lock().answers.is_empty());
    }
}
