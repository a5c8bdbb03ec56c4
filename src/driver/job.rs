//! The work of a run: stores, phase runs, and this process's share of them.

use std::sync::Arc;

use crate::schedule::plan::PhaseRun;
use crate::store::Store;
use crate::store::ownership::KeySpace;
use crate::workload::Dataset;
use crate::workload::payload::Block;

/// Which part of an experiment this process carries out: operations number `index`, `index + of`, `index + 2 of` and so on,
/// and that share of every limit.
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
    /// Connection slots that this shard contributes to a limit of `slots`.
    pub fn share(self, slots: usize) -> usize {
        let (index, of) = (self.index as usize, self.of as usize);
        slots / of + usize::from(index < slots % of)
    }
}

/// A store and where in it the run may write.
#[derive(Clone)]
pub struct Site {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The keys that the run may create and delete.
    pub space: KeySpace,
}

impl Site {
    /// The key space in which the objects of a dataset lie; `None` for objects that were there before.
    pub fn space_of(&self, dataset: &Dataset) -> Option<KeySpace> {
        match &dataset.at {
            _ if dataset.existing.is_some() => None,
            Some(table) => KeySpace::recorded(table),
            None => Some(self.space.clone()),
        }
    }
}

/// Stores and what to do to them.
pub struct Job {
    /// The stores.
    pub sites: Vec<Site>,
    /// Stints in order.
    pub phase_runs: Arc<[PhaseRun]>,
    /// Worker threads.
    pub workers: usize,
    /// Contents.
    pub block: Block,
    /// Whether each request carries its operation's number, for the injecting server's log.
    pub tag: bool,
    /// Whether every operation is logged.
    pub log: bool,
    /// The part of the experiment that is ours.
    pub shard: Shard,
    /// When the first phase run that is not `prepare` begins, at the earliest; further stretches then follow a timetable.
    pub start_at_ns: Option<u64>,
    /// Called once everything is prepared.
    pub prepared: Option<Box<dyn Fn() + Send + Sync>>,
}

/// Worker threads for these phase runs on a machine with `cores` cores: no more than there are cores or connection slots, and never so many that a
/// worker's share of an open loop's in-flight limit becomes too small to act as one limit.
pub fn workers_for(phase_runs: &[PhaseRun], cores: usize, shard: Shard) -> usize {
    let slots = |s: &PhaseRun| shard.share(s.phase.load.slots());
    let useful = phase_runs.iter().map(slots).max().unwrap_or(1);
    let open = phase_runs.iter().filter(|s| s.phase.load.is_open()).map(|s| slots(s).div_ceil(64));
    let most = open.min().unwrap_or(cores);
    useful.min(most).clamp(1, cores.max(1))
}
