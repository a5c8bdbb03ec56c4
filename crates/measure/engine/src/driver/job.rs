//! The work of a run: its stores, its phase runs, and the share of them that this process executes.

use std::sync::Arc;

use crate::store::Store;
use crate::store::ownership::KeySpace;
use plimsoll_workload::Dataset;
use plimsoll_workload::payload::Block;
use plimsoll_workload::schedule::plan::PhaseRun;

/// The part of an experiment that this process executes: operations `index`, `index + of`, `index + 2 of` and
/// so on, and one `of`-th of every limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Number of the shard, from 0.
    pub index: u64,
    /// Number of shards.
    pub of: u64,
}

impl Default for Shard {
    fn default() -> Shard {
        Shard { index: 0, of: 1 }
    }
}

impl Shard {
    /// Returns the number of connection slots that this shard contributes to a limit of `slots` for all
    /// shards.
    pub fn share(self, slots: usize) -> usize {
        let (index, of) = (self.index as usize, self.of as usize);
        slots / of + usize::from(index < slots % of)
    }
}

/// A store and the keys in it that the run may write.
#[derive(Clone)]
pub struct Site {
    /// Store that the run measures.
    pub store: Arc<dyn Store>,
    /// Key space in which the run may create and delete objects.
    pub space: KeySpace,
}

impl Site {
    /// Returns the key space that contains the objects of a dataset; `None` for objects that existed before
    /// the run.
    pub fn space_of(&self, dataset: &Dataset) -> Option<KeySpace> {
        match &dataset.at {
            _ if dataset.existing.is_some() => None,
            Some(table) => KeySpace::recorded(table),
            None => Some(self.space.clone()),
        }
    }
}

/// The stores of a run and the phase runs to execute on them.
pub struct Job {
    /// Stores, each with its key space.
    pub sites: Vec<Site>,
    /// Phase runs, in order of execution.
    pub phase_runs: Arc<[PhaseRun]>,
    /// Number of worker threads.
    pub workers: usize,
    /// Block from which object contents are cut.
    pub block: Block,
    /// True if each request carries the number of its operation into the server's timing log.
    pub tag: bool,
    /// True if every operation is logged.
    pub log: bool,
    /// Part of the experiment that this process executes.
    pub shard: Shard,
    /// Function that is called once, before the first phase run that is not `prepare`. It returns the earliest start of
    /// that phase run, in nanoseconds on the monotonic clock. Each later segment then starts 1 s after the planned end
    /// of the previous one, if that end is known in advance. `None` starts each segment as soon as the previous one is
    /// finished.
    pub prepared: Option<Box<dyn Fn() -> u64 + Send + Sync>>,
}

/// Returns the number of worker threads for these phase runs on a machine with `cores` cores: at most one per
/// core, one per connection slot, and one per 64 connection slots of any open loop (rounded up). An in-flight
/// limit that is divided into smaller shares no longer acts as one limit.
pub fn workers_for(phase_runs: &[PhaseRun], cores: usize, shard: Shard) -> usize {
    let slots = |s: &PhaseRun| shard.share(s.phase.load.slots());
    let useful = phase_runs.iter().map(slots).max().unwrap_or(1);
    let open = phase_runs.iter().filter(|s| s.phase.load.is_open()).map(|s| slots(s).div_ceil(64));
    let most = open.min().unwrap_or(cores);
    useful.min(most).clamp(1, cores.max(1))
}
