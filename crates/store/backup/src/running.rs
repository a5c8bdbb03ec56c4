//! The state of the backup of a running gateway.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use plimsoll_base::clock::{SECOND, now_ns};
use plimsoll_base::provider::calls::{Call, Calls};
use plimsoll_cost::tariff::Tariff;
use serde::Serialize;

use super::error::BackupError;
use super::place::Place;
use plimsoll_bodies::pricing::Work;
use plimsoll_bodies::tier::Tier;
use plimsoll_catalog::embedded::Engine;

/// State of the backup of a running gateway.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BackupState {
    /// URL of the place.
    pub to: String,
    /// Time of the newest group in the backup, in Unix milliseconds; `None` before the first one.
    pub newest_ms: Option<u64>,
    /// Seconds since the backup had everything; 0 while nothing is missing.
    pub lag_seconds: f64,
    /// Bytes of the log that were shipped since the start.
    pub log_bytes: u64,
    /// Bytes that were sent since the start.
    pub sent_bytes: u64,
    /// Requests to the place since the start.
    pub requests: u64,
    /// Cost at list prices of these requests and bytes; `None` if the place has no known price.
    pub dollars: Option<f64>,
    /// Reason why the last attempt failed; `None` if it did not.
    pub problem: Option<String>,
    /// Time of the last verification in Unix milliseconds; `None` before the first one since the start.
    pub verified_ms: Option<u64>,
    /// Problem that the last verification has found; `None` if there is none.
    pub damage: Option<String>,
}

/// State that the threads and the pages share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) state: BackupState,
    /// Monotonic time at which the backup had everything.
    pub(super) covered_ns: u64,
    /// Number of the group behind the last one in the backup.
    pub(super) shipped: u64,
    /// True if another process continues the backup.
    pub(super) is_fenced: bool,
}

/// The backup of this process, once it has begun; empty if it makes none. Metrics and pages observe it.
pub type Running = Arc<OnceLock<Arc<Backup>>>;

/// The backup of a running gateway.
pub struct Backup {
    pub(super) engine: Arc<Engine>,
    pub(super) place: Place,
    pub(super) tariff: Option<Tariff>,
    pub(super) shared: Arc<Mutex<Shared>>,
}

impl Backup {
    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Shared)) {
        change(&mut self.lock());
    }

    /// Returns the state.
    pub fn state(&self) -> BackupState {
        let shared = self.lock();
        let is_behind = shared.shipped < self.engine.synced_end().group || shared.state.newest_ms.is_none();
        let lag_ns = if is_behind { now_ns().saturating_sub(shared.covered_ns) } else { 0 };
        let usage = &self.place.tier.usage;
        let count = |call| usage.of(call).requests.load(Ordering::Relaxed);
        let mut calls = Calls::default();
        Call::ALL.into_iter().for_each(|call| calls.set(call, count(call)));
        let (uploaded, downloaded) =
            (usage.uploaded.load(Ordering::Relaxed), usage.downloaded.load(Ordering::Relaxed));
        let work = Work { calls, uploaded, downloaded, ..Work::default() };
        let cost = self.tariff.as_ref().and_then(|tariff| work.cost(tariff).ok());
        BackupState {
            lag_seconds: lag_ns as f64 / SECOND as f64,
            sent_bytes: uploaded,
            requests: Call::ALL.into_iter().map(count).sum(),
            dollars: cost.map(|usd| usd.dollars()),
            ..shared.state.clone()
        }
    }

    /// Returns the place as a tier, for its metrics.
    pub fn tier(&self) -> &Tier {
        &self.place.tier
    }

    /// Returns the prices of the place; `None` if they are not known.
    pub fn tariff(&self) -> Option<&Tariff> {
        self.tariff.as_ref()
    }

    pub(super) fn fail(&self, error: &BackupError) {
        let text = error.to_string();
        // Each attempt fails while the place does not answer, and one line of the log is enough.
        let is_new = self.lock().state.problem.as_ref() != Some(&text);
        self.change(|shared| shared.state.problem = Some(text));
        if is_new {
            plimsoll_catalog::log::warn(&format!("the backup does not continue: {error}"));
        }
    }
}
