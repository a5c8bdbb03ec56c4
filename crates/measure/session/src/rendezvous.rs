//! Coordination of the shards of a fleet.

use plimsoll_engine::driver::Control;
use plimsoll_engine::driver::Shard;
use plimsoll_workload::schedule::plan::{EndedRamp, RampId, RampStep};

/// Coordinator of the shards of a fleet.
pub trait Rendezvous: Send + Sync {
    /// Reports that this shard has prepared its objects. Returns when the start is known or the run is stopped: the
    /// start on this host's clock, and this host's clock minus the reference clock in seconds. `None` starts now.
    fn start(&self, control: &Control) -> Option<(jiff::Timestamp, f64)>;

    /// Reports that this shard has ended its measurement. Returns when all shards have, and no shard reads objects any
    /// more. The result is true if this shard must also delete the objects of shards that were lost.
    fn wait_for_the_others(&self, control: &Control) -> bool;

    /// Reports a finished step of a ramp, which ends at the plateau of all shards together.
    fn step(&self, step: RampStep);

    /// Returns the end of a ramp, if the shards together have reached their plateau.
    fn ramp_end(&self, ramp: RampId) -> Option<EndedRamp>;

    /// Asks for a part of the cost limit that other shards do not need.
    fn needs_budget(&self);

    /// Returns what has happened to this shard's part of the cost limit since the last call.
    fn budget(&self) -> BudgetChange;

    /// Returns a part of this shard's cost limit to the others, in picodollars.
    fn give_budget(&self, pico_usd: u64);
}

/// Values of `--shard`, `--start-at` and `--clock-offset`.
#[derive(Debug, Clone)]
pub struct Sharding {
    /// Shard that this host executes.
    pub shard: Shard,
    /// Start of the measurement, from which the run id is derived.
    pub start_at: jiff::Timestamp,
    /// This host's clock minus the reference clock, in seconds; `None` if unknown.
    pub host_offset_s: Option<f64>,
}

/// Changes of a shard's part of the cost limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BudgetChange {
    /// Picodollars that other shards have returned to this one.
    pub granted: u64,
    /// True if another shard needs a part of what this one has not spent.
    pub asked: bool,
}
