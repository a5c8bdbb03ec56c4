//! The time for which this process leads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::ambient::steady_ms;
use crate::catalog::CatalogError;
use crate::guard::{self, Guard};

/// The lease of this process. Times are in milliseconds since the start of the machine.
#[derive(Debug, Default)]
pub struct Lease {
    /// Time at which another process may begin to lead; 0 if this process does not lead.
    until_ms: AtomicU64,
    /// Reason why the journal was not written; `None` if it was.
    problem: Mutex<Option<String>>,
    /// True if another process leads.
    is_lost: Mutex<bool>,
    lost: Condvar,
}

impl Lease {
    /// Extends the lease: the writer began to send an entry at `sent_ms`, and it is in the journal.
    pub fn extend(&self, sent_ms: u64, lease_ms: u64) {
        self.until_ms.fetch_max(sent_ms.saturating_add(lease_ms), Ordering::AcqRel);
        *self.lock() = None;
    }

    /// Ends the lease for ever.
    pub fn end(&self) {
        self.until_ms.store(0, Ordering::Release);
    }

    /// Ends the lease, because another process leads.
    pub fn lose(&self) {
        self.end();
        *self.is_lost.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.lost.notify_all();
    }

    /// Waits until another process leads.
    pub fn wait_until_lost(&self) {
        let mut is_lost = self.is_lost.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_lost {
            is_lost = self.lost.wait(is_lost).unwrap_or_else(PoisonError::into_inner);
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
