//! Operations that overlap a pause of the client.
//!
//! A pause is known only after its end, so the worker remembers its recent operations until all pauses up to their
//! ends are known.

use std::sync::Arc;

use plimsoll_base::machine::pauses::{Pause, PauseLog};

/// Number of remembered operations above which the worker checks them before the end of the second.
const LONG: usize = 32_768;

/// A successful operation that is not yet checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recent {
    /// Number of its tally.
    pub tally: usize,
    /// Intended time; open loops only. In nanoseconds on the monotonic clock, as the other times.
    pub intended_ns: Option<u64>,
    /// Start of the operation.
    pub start_ns: u64,
    /// End of the operation.
    pub end_ns: u64,
}

/// Recent operations of one worker, and the pauses so far.
#[derive(Debug)]
pub struct PausedOperations {
    log: Arc<PauseLog>,
    pauses: Vec<Pause>,
    recent: Vec<Recent>,
}

impl PausedOperations {
    /// Creates an empty memory that learns of pauses from `log`.
    pub fn new(log: Arc<PauseLog>) -> PausedOperations {
        PausedOperations { log, pauses: Vec::new(), recent: Vec::new() }
    }

    /// Remembers an operation. Returns true if the list is long and [`PausedOperations::take`] should be called.
    pub fn push(&mut self, operation: Recent) -> bool {
        self.recent.push(operation);
        self.recent.len().is_multiple_of(LONG)
    }

    /// Forgets the operations whose pauses are all known, or all operations if `all` is true. Returns those that
    /// overlap a pause.
    pub fn take(&mut self, all: bool) -> Vec<Recent> {
        let known = if all { u64::MAX } else { self.log.known_until_ns() };
        let new = self.log.since(self.pauses.len());
        self.pauses.extend(new);
        let pauses = &self.pauses;
        let overlaps = |operation: &Recent| {
            let from = operation.intended_ns.map_or(operation.start_ns, |at| at.min(operation.start_ns));
            // The pauses are in the order of their ends, and most operations are shorter than the time since the
            // last.
            let candidates = pauses.iter().rev().take_while(|pause| pause.end_ns > from);
            candidates.into_iter().any(|pause| pause.overlaps(from, operation.end_ns))
        };
        let mut found = Vec::new();
        self.recent.retain(|operation| {
            let done = operation.end_ns <= known;
            if done && overlaps(operation) {
                found.push(*operation);
            }
            !done
        });
        found
    }
}
