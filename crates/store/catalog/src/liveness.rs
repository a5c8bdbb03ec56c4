//! Progress of the loops of the background work: each reports what it waits for, and when it expects to continue. A
//! loop that makes no progress for [`LIMIT_NS`] has stalled: `/readyz`, the log, a metric and an alert report it,
//! because moves, deletions and backups would otherwise stop in silence.
//!
//! A loop is a future ([`keep`]) or a thread ([`enter`]). The code that it calls reports its steps with [`at`], and
//! need not know which loop it works for.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use plimsoll_base::clock::{SECOND, now_ns, sleep_until};

use crate::log::{event, warn};
use crate::threads;

/// Nanoseconds without progress after which a loop has stalled. A request with a timeout is in time until its timeout
/// is over, so that a tier that does not answer is an error of the loop, and not a stall.
pub const LIMIT_NS: u64 = 60 * SECOND;

/// A loop of the background work.
#[derive(Debug)]
struct Loop {
    name: &'static str,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    /// Description of the event that the loop waits for.
    step: &'static str,
    /// Monotonic time at which the loop expects to continue, in nanoseconds; the maximum if nothing is to be done.
    due_ns: u64,
    /// True if the log has its stall.
    is_reported: bool,
}

/// All loops of the process.
static LOOPS: Mutex<Vec<Arc<Loop>>> = Mutex::new(Vec::new());

thread_local! {
    /// Loop for which this thread works now.
    static CURRENT: RefCell<Option<Arc<Loop>>> = const { RefCell::new(None) };
}

/// State of a loop for metrics and pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct LoopState {
    /// Name of the loop.
    pub name: &'static str,
    /// Description of the event that it waits for.
    pub waits_for: &'static str,
    /// Seconds since it should have continued; 0 if it is in time.
    pub late_s: u64,
    /// True if it has stalled.
    pub is_stalled: bool,
}

impl LoopState {
    /// Describes a stall.
    pub fn text(&self) -> String {
        let LoopState { name, waits_for, late_s, .. } = self;
        format!("the loop \"{name}\" has made no progress for {late_s} s; it waits for {waits_for}")
    }
}

impl Loop {
    fn set(&self, step: &'static str, due_ns: u64) {
        let mut state = self.lock();
        // Who has read of the stall in the log must also find its end there.
        if state.is_reported {
            event(&format!("the loop \"{}\" continues", self.name));
        }
        *state = State { step, due_ns, is_reported: false };
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_at(&self, now_ns: u64) -> LoopState {
        let State { step, due_ns, .. } = *self.lock();
        let late_ns = now_ns.saturating_sub(due_ns);
        LoopState {
            name: self.name,
            waits_for: step,
            late_s: late_ns / SECOND,
            is_stalled: late_ns >= testing::limit_ns(),
        }
    }

    /// Logs a stall once.
    fn report_at(&self, now_ns: u64) {
        let found = self.state_at(now_ns);
        if found.is_stalled && !std::mem::replace(&mut self.lock().is_reported, true) {
            warn(&format!("{}; restart the gateway if this does not end", found.text()));
        }
    }
}

fn loops() -> std::sync::MutexGuard<'static, Vec<Arc<Loop>>> {
    LOOPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the states of all loops, by name.
pub fn all() -> Vec<LoopState> {
    let now_ns = now_ns();
    let mut found: Vec<LoopState> = loops().iter().map(|one| one.state_at(now_ns)).collect();
    // Of the threads with one name, the latest comes first and is kept: another one must not hide its stall.
    found.sort_by_key(|state| (state.name, std::cmp::Reverse(state.late_s)));
    // Some loops have several threads.
    found.dedup_by_key(|state| state.name);
    found
}

/// Returns the loops that have stalled.
pub fn stalled() -> Vec<LoopState> {
    all().into_iter().filter(|state| state.is_stalled).collect()
}

/// Starts the thread that logs stalls.
///
/// # Errors
/// If the thread cannot be started.
pub fn start() -> std::io::Result<()> {
    threads::spawn("watch", || {
        loop {
            sleep_until(now_ns() + SECOND);
            // A copy, because a message may block on standard error, and no loop could begin or end under the lock.
            let (all, now_ns) = (loops().clone(), now_ns());
            all.iter().for_each(|one| one.report_at(now_ns));
        }
    })?;
    Ok(())
}

/// A registered loop, which this thread works for until this is dropped.
pub struct Entered {
    own: Arc<Loop>,
    before: Option<Arc<Loop>>,
}

fn register(name: &'static str) -> Arc<Loop> {
    let state = State { step: "its start", due_ns: now_ns(), is_reported: false };
    let own = Arc::new(Loop { name, state: Mutex::new(state) });
    loops().push(Arc::clone(&own));
    own
}

fn unregister(own: &Arc<Loop>) {
    loops().retain(|other| !Arc::ptr_eq(other, own));
}

fn swap(other: Option<Arc<Loop>>) -> Option<Arc<Loop>> {
    CURRENT.with(|current| std::mem::replace(&mut *current.borrow_mut(), other))
}

/// Begins a loop that is a thread.
pub fn enter(name: &'static str) -> Entered {
    let own = register(name);
    // The loop that the thread has worked for is kept: it continues when this one ends.
    Entered { before: swap(Some(Arc::clone(&own))), own }
}

impl Drop for Entered {
    fn drop(&mut self) {
        swap(self.before.take());
        unregister(&self.own);
    }
}

/// Executes a loop that is a future.
pub fn keep<T>(name: &'static str, work: impl Future<Output = T>) -> impl Future<Output = T> {
    Kept { own: register(name), work: Box::pin(work) }
}

/// A loop that is a future.
struct Kept<F> {
    own: Arc<Loop>,
    work: Pin<Box<F>>,
}

impl<F: Future> Future for Kept<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // At each poll, because a thread works for several futures in turn, also for one within another.
        let before = swap(Some(Arc::clone(&self.own)));
        let polled = self.work.as_mut().poll(cx);
        swap(before);
        polled
    }
}

impl<F> Drop for Kept<F> {
    fn drop(&mut self) {
        // Also for a future that is dropped before its end: a loop that has ended would look stalled for ever.
        unregister(&self.own);
    }
}

fn set(step: &'static str, due_ns: u64) {
    CURRENT.with(|current| {
        if let Some(own) = &*current.borrow() {
            own.set(step, due_ns);
        }
    });
}

/// Reports that the current loop makes progress, and what it waits for now.
pub fn at(step: &'static str) {
    set(step, now_ns());
}

/// Reports that the current loop waits for something that takes at most a time, because the wait ends then.
pub fn at_most(step: &'static str, time: std::time::Duration) {
    set(step, now_ns().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)));
}

/// Reports that the current loop waits until a monotonic time in nanoseconds.
pub fn rest_until(due_ns: u64) {
    set("the end of its pause", due_ns);
}

/// Reports that the current loop has nothing to do until something happens outside.
pub fn rest() {
    set("work", u64::MAX);
}

/// Waits for something that may never happen, such as the end of another gateway.
pub async fn idle<T>(future: impl Future<Output = T>) -> T {
    rest();
    let output = future.await;
    at("its next step");
    output
}

/// Stops the current loop for ever if a test wants it: the file that `PLIMSOLL_TEST_HANG` names has the name of the
/// loop. Only debug builds have this.
pub async fn hang_in_tests() {
    if testing::is_hung() {
        std::future::pending::<()>().await;
    }
}

/// Stops the current thread for ever if a test wants it.
pub fn hang_thread_in_tests() {
    while testing::is_hung() {
        std::thread::park();
    }
}

#[cfg(not(debug_assertions))]
mod testing {
    pub fn is_hung() -> bool {
        false
    }

    pub fn limit_ns() -> u64 {
        super::LIMIT_NS
    }
}

#[cfg(debug_assertions)]
mod testing {
    use std::sync::OnceLock;

    pub fn is_hung() -> bool {
        static FILE: OnceLock<Option<String>> = OnceLock::new();
        let Some(file) = FILE.get_or_init(|| std::env::var("PLIMSOLL_TEST_HANG").ok()) else { return false };
        // Read again at each step: a test names the loop while the gateway runs.
        let Ok(hung) = std::fs::read_to_string(file) else { return false };
        super::CURRENT.with(|current| current.borrow().as_ref().is_some_and(|own| own.name == hung))
    }

    /// Tests need not wait for a minute.
    pub fn limit_ns() -> u64 {
        static LIMIT: OnceLock<u64> = OnceLock::new();
        *LIMIT.get_or_init(|| {
            let ms = std::env::var("PLIMSOLL_TEST_STALL_MS").ok().and_then(|ms| ms.parse::<u64>().ok());
            ms.map_or(super::LIMIT_NS, |ms| ms * 1_000_000)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking::block_on;

    fn find(name: &str, later_ns: u64) -> Option<LoopState> {
        let found = loops().iter().find(|one| one.name == name).cloned();
        found.map(|one| one.state_at(now_ns() + later_ns))
    }

    #[test]
    fn a_loop_that_does_not_continue_has_stalled_and_one_that_rests_has_not() {
        block_on(keep("test-loop", async {
            at("an answer");
            assert!(!find("test-loop", LIMIT_NS - SECOND).unwrap().is_stalled);
            let late = find("test-loop", LIMIT_NS + SECOND).unwrap();
            assert!(
                late.is_stalled && late.text().contains("\"test-loop\"") && late.text().contains("an answer")
            );
            rest_until(now_ns() + 600 * SECOND);
            assert!(!find("test-loop", 650 * SECOND).unwrap().is_stalled);
            // Its thread is blocked, so that the pause does not end.
            assert!(find("test-loop", 661 * SECOND).unwrap().is_stalled);
            idle(async { assert!(!find("test-loop", 1_000_000 * SECOND).unwrap().is_stalled) }).await;
            assert!(find("test-loop", LIMIT_NS + SECOND).unwrap().is_stalled);
        }));
        assert_eq!(find("test-loop", 0), None, "it has ended");
    }

    #[test]
    fn loops_within_one_task_are_told_apart() {
        block_on(keep("outer", async {
            at("the inner loop");
            keep("inner", async {
                at("a body");
                std::future::ready(()).await;
            })
            .await;
            assert_eq!(find("outer", 0).unwrap().waits_for, "the inner loop");
            assert_eq!(find("inner", 0), None);
        }));
        let _entered = enter("thread");
        at("the disk");
        assert_eq!(find("thread", 0).unwrap().waits_for, "the disk");
    }
}
