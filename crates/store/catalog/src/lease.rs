//! The time for which this process leads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use plimsoll_base::clock::{now_ns, sleep_until};
use tokio::runtime::Handle;

use crate::CatalogError;
use crate::ambient::{pause, steady_ms};
use crate::guard::{self, Guard};

/// The lease of this process. Times are in milliseconds since the start of the machine.
#[derive(Debug, Default)]
pub struct Lease {
    /// Time at which another process may begin to lead; 0 if this process does not lead.
    until_ms: AtomicU64,
    /// Reason why the journal was not written; `None` if it was.
    problem: Mutex<Option<String>>,
    /// Reason why this process must end; `None` if it need not.
    over: Mutex<Option<Over>>,
    is_over: Condvar,
    /// True if the lease is not extended any more.
    has_ended: AtomicBool,
    /// Message about writes that only this disk has; `None` if there are none.
    incomplete: Mutex<Option<String>>,
}

/// Reason why a process must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Another process leads.
    Lost,
    /// A standby asks for the lead.
    Asked,
}

impl Lease {
    /// Extends the lease: the writer began to send an entry at `sent_ms`, and it is in the journal.
    pub fn extend(&self, sent_ms: u64, lease_ms: u64) {
        if !self.has_ended.load(Ordering::Acquire) {
            // From the begin of the request: others wait for a lease from when they have seen the entry, which is never
            // earlier. Counted from the answer, this process would still read while another one leads.
            self.until_ms.fetch_max(sent_ms.saturating_add(lease_ms), Ordering::AcqRel);
        }
        *self.lock() = None;
    }

    /// Ends the lease for ever.
    pub fn end(&self) {
        // First: an entry that is confirmed later must not extend the lease again.
        self.has_ended.store(true, Ordering::Release);
        self.until_ms.store(0, Ordering::Release);
    }

    /// Ends the lease, because another process leads.
    pub fn lose(&self) {
        // The lease ends first: until then, this process would return rows that the next one has replaced.
        self.end();
        self.is_over_for(Over::Lost);
    }

    /// Lets this process end in order, because a standby asks for the lead.
    pub fn hand_over(&self) {
        // The lease goes on: the end ships the rest of the log first (`end` in backup/journal/sender.rs).
        self.is_over_for(Over::Asked);
    }

    fn is_over_for(&self, reason: Over) {
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        // A loss is final. A request that arrives later must not make it look like an end in order (`close`).
        if *over != Some(Over::Lost) {
            *over = Some(reason);
        }
        self.is_over.notify_all();
    }

    /// Returns the reason why this process must end; `None` if it need not.
    pub fn over(&self) -> Option<Over> {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until this process must end.
    pub fn wait_until_over(&self) {
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        while over.is_none() {
            over = self.is_over.wait(over).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns the milliseconds until the lease ends.
    pub fn left_ms(&self) -> u64 {
        // The time of the clock is rounded down.
        self.until_ms.load(Ordering::Acquire).saturating_sub(steady_ms() + 1)
    }

    /// Checks that no other process can lead. What was read before this check is the newest state.
    ///
    /// # Errors
    /// [`CatalogError::Unavailable`] if another one can.
    pub fn check(&self) -> Result<(), CatalogError> {
        if self.left_ms() > 0 || !guard::is_made(Guard::Lease) {
            return Ok(());
        }
        let problem = self.problem().unwrap_or_else(|| "the journal is late".into());
        Err(CatalogError::Unavailable(format!("another gateway may lead ({problem})")))
    }

    /// Waits until no other process can lead, for a write that is durable on this disk: if the lease is extended,
    /// nobody has led meanwhile.
    ///
    /// # Errors
    /// [`CatalogError::Unavailable`] if the lease is not extended any more.
    pub async fn confirm(&self) -> Result<(), CatalogError> {
        /// Milliseconds between two looks.
        const PAUSE_MS: u64 = 20;
        loop {
            match self.check() {
                // Nothing extends the lease any more, so the wait would never end.
                Err(error) if self.has_ended.load(Ordering::Acquire) => return Err(error),
                // Commands wait for transactions without a runtime.
                Err(_) if Handle::try_current().is_err() => sleep_until(now_ns() + PAUSE_MS * 1_000_000),
                Err(_) => pause(PAUSE_MS).await,
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Records that a standby does not have the last writes.
    pub fn set_incomplete(&self, problem: String) {
        *self.incomplete.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
    }

    /// Returns a message about writes that a standby does not have; `None` if it has all.
    pub fn incomplete(&self) -> Option<String> {
        self.incomplete.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records why the journal is not written. Returns true if this is new.
    pub fn fail(&self, problem: String) -> bool {
        self.lock().replace(problem).is_none()
    }

    /// Returns the reason why the journal was not written; `None` if it was.
    pub fn problem(&self) -> Option<String> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Extends the lease of a process whose groups are durable on its own disk. The lease ends when this is dropped.
pub trait LeaseKeeper: Send {}
