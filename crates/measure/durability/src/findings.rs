//! Findings of a check.

use std::collections::BTreeMap;

use serde::Serialize;

use super::audit::Audit;
use super::history::{Event, OperationKind};
use super::violation::{Violation, ViolationKind};

/// The fewest operations that show a violation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Proof {
    /// Cut in which it was found.
    pub cut: u64,
    /// The violation, as the last repetition showed it.
    pub violation: Violation,
    /// The operations, in order.
    pub operations: Vec<String>,
    /// Number of the first operations that the disk had written back before the next one; 0 for none.
    pub written_back: u64,
    /// Number of the disk's steps after which the power failed in the middle of the last operation; 0 if it failed
    /// after its acknowledgement.
    pub interrupted: u64,
    /// Fate of what was not synced.
    pub fate: String,
    /// Changes of the disk that were not synced and got lost.
    pub lost: Vec<String>,
    /// Number of repetitions that showed it, and number of all.
    pub repeated: (u32, u32),
}

/// Counts of one kind of operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct KindCounts {
    /// Number of acknowledged operations.
    pub acknowledged: u64,
    /// Acknowledged operations that were the last on their key, whose effect was therefore due after the cut.
    pub due: u64,
    /// Numbers of violations.
    pub violations: BTreeMap<ViolationKind, u64>,
}

/// Result of a check.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Findings {
    /// Name of the server.
    pub server: String,
    /// Its version; `None` if it is unknown.
    pub version: Option<String>,
    /// Rules of the disk; empty on a real machine.
    pub model: String,
    /// Fault of the disk; empty for none.
    pub fault: String,
    /// Syncs of paths with this text did nothing; empty for none.
    pub ignored_syncs: String,
    /// Acknowledged operations before each cut, at most.
    pub operations: u64,
    /// Number of clients.
    pub clients: u64,
    /// Seed of the check.
    pub seed: u64,
    /// Number of cuts.
    pub cuts: u64,
    /// Number of cuts in which the power failed again while the server started.
    pub cuts_during_start: u64,
    /// Acknowledged operations, including those that later ones replaced.
    pub acknowledged: u64,
    /// Operations without an acknowledgement; their effect is not judged.
    pub unanswered: u64,
    /// Cuts of a real machine during which it answered all requests.
    pub answered_throughout: u64,
    /// Longest time between an acknowledgement that was violated and the cut, in milliseconds.
    pub oldest_ms: f64,
    /// True if the store has tags.
    pub tags: bool,
    /// True if a bucket with versions was checked, too.
    pub versions: bool,
    /// True if `sync` and `syncfs` of the server reached the simulated disk.
    pub syncs_whole_disk: bool,
    /// Counts by the kind of the operation.
    pub kinds: BTreeMap<OperationKind, KindCounts>,
    /// Violations; the first 1,000.
    pub violations: Vec<Violation>,
    /// Number of violations that are not listed.
    pub violations_omitted: u64,
    /// Cuts after which the server did not start, or did not answer again, with its last words.
    pub not_starting: Vec<(u64, String)>,
    /// Cuts after which the server started but accepted no write, with the reason.
    pub not_writable: Vec<(u64, String)>,
    /// Bits that were flipped, and objects that the store refused to serve because of that.
    pub flipped: (u64, u64),
    /// Short proofs, at most one for each kind of violation.
    pub proofs: Vec<Proof>,
    /// Duration in seconds.
    pub duration_s: f64,
}

/// Greatest number of violations that findings list.
const MAX_LISTED: usize = 1_000;

impl Findings {
    /// Adds a violation.
    pub fn add(&mut self, violation: Violation) {
        let counts = self.kinds.entry(violation.operation).or_default();
        *counts.violations.entry(violation.kind).or_default() += 1;
        self.oldest_ms = self.oldest_ms.max(violation.age_ms);
        match self.violations.len() < MAX_LISTED {
            true => self.violations.push(violation),
            false => self.violations_omitted += 1,
        }
    }

    /// Adds a cut: its events, and the audit or the last words of a server that did not start. With `tolerant`, an
    /// object may be missing or unreadable, because a bit of it flipped. Returns true if there was a violation.
    pub fn add_cut(
        &mut self,
        number: u64,
        events: &[Event],
        audit: &Result<Audit, String>,
        tolerant: bool,
    ) -> bool {
        for event in events {
            match event.acknowledged_ns {
                Some(_) => {
                    self.acknowledged += 1;
                    self.kinds.entry(event.operation.kind()).or_default().acknowledged += 1;
                }
                None => self.unanswered += 1,
            }
        }
        let audit = match audit {
            Ok(audit) => audit,
            Err(words) => {
                // A server may refuse a damaged disk.
                if !tolerant {
                    self.not_starting.push((number, words.clone()));
                }
                return false;
            }
        };
        for kind in &audit.due {
            self.kinds.entry(*kind).or_default().due += 1;
        }
        let before = self.violation_count();
        for violation in &audit.violations {
            if tolerant && violation.kind != ViolationKind::Damaged {
                self.flipped.1 += 1;
            } else {
                self.add(Violation { cut: number, ..violation.clone() });
            }
        }
        if let Some(reason) = audit.not_writable.as_ref().filter(|_| !tolerant) {
            self.not_writable.push((number, reason.clone()));
        }
        self.violation_count() > before
    }

    /// Returns the number of violations of a kind.
    pub fn count(&self, kind: ViolationKind) -> u64 {
        self.kinds.values().filter_map(|counts| counts.violations.get(&kind)).sum()
    }

    /// Returns the number of all violations, without servers that do not start.
    pub fn violation_count(&self) -> u64 {
        ViolationKind::ALL.into_iter().map(|kind| self.count(kind)).sum()
    }

    /// Returns the number of acknowledged operations whose effect was due after a cut.
    pub fn due(&self) -> u64 {
        self.kinds.values().map(|counts| counts.due).sum()
    }

    /// Returns true if the server kept every promise, and always started.
    pub fn is_durable(&self) -> bool {
        self.violation_count() == 0 && self.not_starting.is_empty() && self.not_writable.is_empty()
    }
}
