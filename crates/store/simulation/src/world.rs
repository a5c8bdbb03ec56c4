//! The world of one seed of the simulation of moves: gateways, tiers and clients.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::Random;
use super::backend::{Shared, SimulatedTier};
use super::history::History;
use super::process::SimulatedStore;
use plimsoll_bodies::location::Location;
use plimsoll_catalog::Value;
use plimsoll_catalog::memory::MemoryCatalog;
use plimsoll_maintenance::mover::rules::Rules;

pub(super) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A process. When it is killed, its tasks are dropped.
pub(super) struct Gateway {
    pub(super) store: SimulatedStore,
    pub(super) tasks: Vec<Task>,
    /// True while the process does not run.
    pub(super) is_silent: bool,
    /// Milliseconds by which the clock of its machine is ahead.
    pub(super) ahead_ms: i64,
}

/// A copy of the catalog, and the requests until then.
pub(super) struct Backup {
    pub(super) rows: BTreeMap<Vec<u8>, Value>,
    pub(super) history: History,
    /// Times before which the sources of its moves must not be deleted.
    pub(super) kept_until_ms: BTreeMap<(usize, String), u64>,
    pub(super) at_ms: u64,
}

/// Gateways, tiers and clients of one seed.
pub(super) struct World {
    pub(super) random: Random,
    pub(super) shared: Arc<Mutex<Shared>>,
    pub(super) history: Arc<Mutex<History>>,
    pub(super) catalog: Arc<MemoryCatalog>,
    pub(super) tiers: [SimulatedTier; 2],
    pub(super) gateways: Vec<Gateway>,
    pub(super) rules: Rules,
    pub(super) step: Arc<Mutex<u64>>,
    /// Time for which garbage is kept. A catalog that is not older may be restored.
    pub(super) retain_ms: u64,
    pub(super) backup: Option<Backup>,
    pub(super) is_restored: bool,
    /// Places that a later state of the catalog reads, while an older one is in use without them.
    pub(super) newer: Option<BTreeSet<(usize, String)>>,
    /// Copies of blobs that a tier has lost, with their bytes.
    pub(super) lost: Vec<(Location, Bytes)>,
}

/// Executes a future to its end, while nothing else works.
pub(super) fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}
