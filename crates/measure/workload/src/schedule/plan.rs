//! Division of phases into phase runs, with the store, order and length of each. It is a pure function; the driver
//! executes the plan.
//!
//! A [`PhaseRun`] is an uninterrupted execution of a phase on one store: the whole phase, a block of it (several
//! stores, interleaved), or a step of its ramp. With several stores in interleaved order, each measured phase is
//! cut into blocks. The stores take turns, and their order rotates from block to block. A change of store drains
//! the old store and then warms up the new one without recording.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::plateau::Plateau;
use super::ramp::Stop;
use super::{Limit, Load, Phase, Role};
use plimsoll_base::clock::SECOND;
use plimsoll_base::rng::Stream;

/// Order in which several stores are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The stores take turns, block by block.
    Interleaved,
    /// One store runs completely before the next.
    Sequential,
}

impl Order {
    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Order::Interleaved => "interleaved",
            Order::Sequential => "sequential",
        }
    }

    /// Returns the order with this name; `None` if there is none.
    pub fn from_name(name: &str) -> Option<Order> {
        [Order::Interleaved, Order::Sequential].into_iter().find(|o| o.name() == name)
    }
}

/// Settings for the division of phases into phase runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Number of passes through the warm-up and measured phases; prepare phases run once.
    pub repeats: u32,
    /// Order in which several stores are measured.
    pub order: Order,
    /// Maximum length of an interleaved block, in nanoseconds.
    pub block_ns: u64,
    /// Length of the unrecorded warm-up after each change of store, in nanoseconds.
    pub rewarm_ns: u64,
    /// Seed that determines which store begins.
    pub seed: u64,
}

/// One uninterrupted execution of a phase on one store.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseRun {
    /// The phase, with the load and the limit of this phase run.
    pub phase: Phase,
    /// Number of the store, from 0.
    pub store: usize,
    /// Number of the phase in the experiment, from 0. The numbering of operations continues over all phase runs of
    /// a phase on one store.
    pub number: usize,
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Number of the interleaved block, from 0.
    pub block: u32,
    /// Number of the ramp step, from 0; `None` without a ramp.
    pub step: Option<u32>,
    /// True if the results are recorded; false for the warm-up after a change of store.
    pub recorded: bool,
}

impl PhaseRun {
    /// Creates a phase run of a whole phase on one store.
    pub fn of(phase: &Phase, number: usize, store: usize, repeat: u32) -> PhaseRun {
        let phase = phase.clone();
        PhaseRun { phase, store, number, repeat, block: 0, step: None, recorded: true }.in_repeat(repeat)
    }

    /// Returns the phase run in another repeat.
    #[must_use]
    pub fn in_repeat(mut self, repeat: u32) -> PhaseRun {
        self.repeat = repeat;
        let written_in = &mut self.phase.workload.written_in;
        *written_in = written_in.map(|_| repeat);
        self
    }

    /// Returns a name for people: the phase, the load of a ramp step, the repeat, and the store if there are several.
    pub fn label(&self, stores: &[String]) -> String {
        let mut name = self.phase.name.clone();
        if self.step.is_some() {
            name.push_str(&format!(" at {}", self.phase.load.describe()));
        }
        if self.repeat > 0 {
            name.push_str(&format!(", repeat {}", self.repeat + 1));
        }
        if stores.len() > 1 {
            name.push_str(&format!(" on {}", stores[self.store]));
        }
        if self.recorded { name } else { format!("{name} (re-warm)") }
    }

    /// Returns true if the phase run is a step of a ramp that a rule may end early.
    pub fn may_end_early(&self) -> bool {
        self.phase.ramp.is_some_and(|ramp| ramp.stop != Stop::Never)
    }

    /// Returns the identity of the ramp to which the phase run belongs: store, phase and repeat.
    pub fn ramp_id(&self) -> RampId {
        RampId { store: self.store, phase: self.number, repeat: self.repeat }
    }
}

/// Identity of one ramp of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RampId {
    /// Index of the store.
    pub store: usize,
    /// Index of the phase in the experiment.
    pub phase: usize,
    /// Repeat, from 0.
    pub repeat: u32,
}

/// A finished step of a ramp.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RampStep {
    /// Ramp to which the step belongs.
    pub ramp: RampId,
    /// Number of the step, from 0.
    pub step: usize,
    /// Bytes per second, or operations per second if the step transferred no bytes.
    pub throughput: f64,
    /// Share of the network link that the step used (0 to 1); `None` if unknown.
    pub link: Option<f64>,
}

/// End of a ramp at its plateau.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedRamp {
    /// Number of steps that count.
    pub steps: usize,
    /// Reason why the ramp ended.
    pub reason: Plateau,
}

/// Returns the load of one step of a phase's ramp; without a ramp, the load of the phase.
fn step_load(phase: &Phase, step: u32) -> Load {
    let Some(ramp) = phase.ramp else { return phase.load };
    match phase.load {
        Load::Closed { .. } => Load::Closed { concurrency: ramp.load(step).round() as usize },
        Load::Open { arrival, in_flight, .. } => {
            Load::Open { rate_per_s: ramp.load(step), arrival, in_flight }
        }
    }
}

/// Returns the phase runs of a phase on one store without interleaving: one, or one per step of its ramp.
fn whole(phase: &Phase, number: usize, store: usize, repeat: u32) -> Vec<PhaseRun> {
    let Some(ramp) = phase.ramp else { return vec![PhaseRun::of(phase, number, store, repeat)] };
    let step = |step| {
        let mut phase_run = PhaseRun::of(phase, number, store, repeat);
        phase_run.phase.load = step_load(phase, step);
        phase_run.phase.limit = Limit { duration_ns: Some(ramp.every_ns), operations: None };
        phase_run.step = Some(step);
        phase_run
    };
    (0..ramp.steps()).map(step).collect()
}

/// Number of blocks of a measured phase from which a comparison can pair the blocks of two stores.
const MIN_BLOCKS: u64 = 8;

/// Length of a block that is not shortened further for the sake of [`MIN_BLOCKS`], in nanoseconds.
const SHORT_BLOCK_NS: u64 = 2 * SECOND;

/// Returns the blocks of a phase on one store: the steps of its ramp, or pieces of equal length of at most
/// `block_ns`. A phase that is limited by a number of operations is one block. A measured phase has at least
/// [`MIN_BLOCKS`] pieces if each lasts [`SHORT_BLOCK_NS`] or longer; fewer could not be paired. The number of equal
/// pieces is a multiple of the number of stores, so that each store has each place in the order equally often and a
/// steady drift favours none.
fn blocks(
    phase: &Phase,
    number: usize,
    store: usize,
    repeat: u32,
    block_ns: u64,
    stores: usize,
) -> Vec<PhaseRun> {
    let phase_runs = whole(phase, number, store, repeat);
    let (true, None, Some(length)) = (phase.ramp.is_none(), phase.limit.operations, phase.limit.duration_ns)
    else {
        return phase_runs;
    };
    let to_pair = MIN_BLOCKS.next_multiple_of(stores as u64);
    let is_paired = phase.role == Role::Measure && length >= to_pair * SHORT_BLOCK_NS;
    let least = if is_paired { to_pair } else { 1 };
    let count = length.div_ceil(block_ns.max(1)).max(least).next_multiple_of(stores as u64);
    let block = |b: u64| {
        let mut phase_run = PhaseRun::of(phase, number, store, repeat);
        // The first blocks take the remainder, so that the lengths add up to that of the phase.
        let piece = length / count + u64::from(b < length % count);
        phase_run.phase.limit.duration_ns = Some(piece);
        phase_run
    };
    (0..count).map(block).collect()
}

/// Returns an unrecorded warm-up with the same workload under the same load.
pub fn rewarm(phase_run: &PhaseRun, length_ns: u64) -> PhaseRun {
    let mut warm = phase_run.clone();
    warm.phase.role = Role::Warmup;
    warm.phase.limit = Limit { duration_ns: Some(length_ns), operations: None };
    warm.recorded = false;
    warm
}

/// Divides the phases into phase runs over `stores` stores, in the order in which they run.
pub fn plan(phases: &[Phase], layout: Layout, stores: usize) -> Vec<PhaseRun> {
    let numbered = || phases.iter().enumerate();
    let prepare = |store: usize| {
        numbered()
            .filter(|(_, p)| p.role == Role::Prepare)
            .map(move |(number, phase)| PhaseRun::of(phase, number, store, 0))
    };
    let mut out = Vec::new();
    if stores == 1 || layout.order == Order::Sequential {
        for store in 0..stores {
            out.extend(prepare(store));
            for repeat in 0..layout.repeats {
                for (number, phase) in numbered().filter(|(_, p)| p.role != Role::Prepare) {
                    out.extend(whole(phase, number, store, repeat));
                }
            }
        }
        return out;
    }
    (0..stores).for_each(|store| out.extend(prepare(store)));
    let first = Stream::new(layout.seed, "order").below(0, stores as u64) as usize;
    let mut turn = first;
    for repeat in 0..layout.repeats {
        for (number, phase) in numbered().filter(|(_, p)| p.role != Role::Prepare) {
            let of_store: Vec<Vec<PhaseRun>> = (0..stores)
                .map(|store| blocks(phase, number, store, repeat, layout.block_ns, stores))
                .collect();
            let count = of_store.first().map_or(0, Vec::len);
            for block in 0..count {
                for place in 0..stores {
                    let Some(phase_run) = of_store[(turn + place) % stores].get(block) else { continue };
                    let mut phase_run = phase_run.clone();
                    // The steps of a ramp are not numbered as blocks.
                    phase_run.block = if phase_run.step.is_some() { 0 } else { block as u32 };
                    let changed = out.last().is_none_or(|last: &PhaseRun| last.store != phase_run.store);
                    let warms = changed && layout.rewarm_ns > 0 && phase_run.phase.limit.operations.is_none();
                    if warms && phase.role == Role::Measure {
                        out.push(rewarm(&phase_run, layout.rewarm_ns));
                    }
                    out.push(phase_run);
                }
                turn += 1;
            }
        }
    }
    out
}

/// Groups phase runs that run back to back without a drain: neighbouring open loops on one store that are limited only
/// by time. A closed loop waits until the operations before it have ended; otherwise its window would have operations
/// of another load. A ramp that a rule may end closes its group, because its end is not known in advance.
pub fn segments(phase_runs: &[PhaseRun]) -> Vec<Range<usize>> {
    let timed = |s: &PhaseRun| {
        s.phase.load.is_open() && s.phase.limit.operations.is_none() && s.phase.read_after_ns.is_none()
    };
    let mut out: Vec<Range<usize>> = Vec::new();
    for (i, phase_run) in phase_runs.iter().enumerate() {
        let joins = |last: &Range<usize>| {
            let before = &phase_runs[last.end - 1];
            let open_end = before.may_end_early() && before.ramp_id() != phase_run.ramp_id();
            timed(phase_run) && timed(before) && before.store == phase_run.store && !open_end
        };
        match out.last_mut() {
            Some(last) if joins(last) => last.end = i + 1,
            _ => out.push(i..i + 1),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::Mix;
    use crate::popularity::Popularity;
    use crate::schedule::arrival::Arrival;
    use crate::schedule::ramp::Ramp;
    use crate::size::Size;
    use crate::{Dataset, OperationKind, Workload};
    use plimsoll_base::clock::SECOND;

    fn phase(name: &str, role: Role, limit: Limit) -> Phase {
        let workload = Workload {
            seed: 1,
            phase: name.into(),
            mix: Mix::new(&[(OperationKind::Put, 1)]).unwrap(),
            read: None,
            written: Dataset::new(name, 1, 10, Size::Fixed(1)),
            spare: None,
            copies: None,
            range: 0,
            popularity: Popularity::Uniform,
            inserts: None,
            scan: crate::ScanLength::default(),
            sink: None,
            recording: None,
            written_in: None,
        };
        let load = Load::Closed { concurrency: 4 };
        Phase {
            name: name.into(),
            role,
            workload,
            load,
            ramp: None,
            gaps: None,
            limit,
            timeout_ns: 1,
            drain_ns: 1,
            retries: 0,
            verify: crate::schedule::Verify::On,
            think_time_ns: 0,
            read_after_ns: None,
            cache: None,
            working_set: None,
            size_classes: None,
            sweep: None,
        }
    }

    fn timed(name: &str, role: Role, seconds: u64) -> Phase {
        phase(name, role, Limit { duration_ns: Some(seconds * SECOND), operations: None })
    }

    fn phases() -> Vec<Phase> {
        let objects = phase("objects", Role::Prepare, Limit { duration_ns: None, operations: Some(10) });
        vec![objects, timed("warm", Role::Warmup, 2), timed("get", Role::Measure, 40)]
    }

    fn layout(order: Order) -> Layout {
        Layout { repeats: 1, order, block_ns: 10 * SECOND, rewarm_ns: SECOND, seed: 1 }
    }

    fn open(phase: Phase) -> Phase {
        let load = Load::Open { rate_per_s: 10.0, arrival: Arrival::Constant, in_flight: 4 };
        Phase { load, ..phase }
    }

    #[test]
    fn closed_loops_wait_for_what_is_before_them_and_open_loops_run_back_to_back() {
        let mut all = phases();
        all.extend([open(timed("open", Role::Warmup, 2)), open(timed("more", Role::Measure, 2))]);
        let phase_runs = plan(&all, layout(Order::Interleaved), 1);
        assert_eq!(
            phase_runs.iter().map(|s| s.phase.name.as_str()).collect::<Vec<_>>(),
            ["objects", "warm", "get", "open", "more"]
        );
        assert_eq!(segments(&phase_runs), [0..1, 1..2, 2..3, 3..5]);
    }

    #[test]
    fn two_stores_take_turns_in_the_order_abba() {
        let phase_runs = plan(&phases(), layout(Order::Interleaved), 2);
        let measured: Vec<(usize, u32)> = phase_runs
            .iter()
            .filter(|s| s.recorded && s.phase.role == Role::Measure)
            .map(|s| (s.store, s.block))
            .collect();
        let (a, b) = (measured[0].0, measured[1].0);
        assert_ne!(a, b);
        let expected = [(a, 0), (b, 0), (b, 1), (a, 1), (a, 2), (b, 2), (b, 3), (a, 3)];
        assert_eq!(measured[..8], expected);
        assert_eq!(measured.len(), 16, "40 s are enough for eight pairs of blocks");
        let short = plan(&[timed("get", Role::Measure, 10)], layout(Order::Interleaved), 2);
        assert_eq!(short.iter().filter(|s| s.recorded).count(), 4, "10 s are not");
        let length: u64 = phase_runs
            .iter()
            .filter(|s| s.store == 0 && s.recorded && s.phase.role == Role::Measure)
            .filter_map(|s| s.phase.limit.duration_ns)
            .sum();
        assert_eq!(length, 40 * SECOND, "the blocks add up to the phase");
        for pair in phase_runs.windows(2).filter(|w| w[1].phase.role == Role::Measure && w[1].recorded) {
            let rewarmed = !pair[0].recorded && pair[0].store == pair[1].store;
            assert!(rewarmed || pair[0].store == pair[1].store, "a warm-up follows each change of store");
        }
        for segment in segments(&phase_runs) {
            assert!(
                phase_runs[segment].windows(2).all(|w| w[0].store == w[1].store),
                "a segment contains only one store"
            );
        }
    }

    #[test]
    fn every_store_has_every_place_in_the_order_equally_often() {
        for (stores, seconds) in [(2, 30), (3, 25), (4, 10), (5, 60)] {
            let phase_runs =
                plan(&[timed("get", Role::Measure, seconds)], layout(Order::Interleaved), stores);
            let turns: Vec<usize> = phase_runs.iter().filter(|s| s.recorded).map(|s| s.store).collect();
            let places = |store| {
                turns.iter().enumerate().filter(move |(_, s)| **s == store).map(|(i, _)| i).sum::<usize>()
            };
            assert!((1..stores).all(|store| places(store) == places(0)), "{stores} stores: {turns:?}");
        }
    }

    #[test]
    fn sequential_order_finishes_one_store_first() {
        let phase_runs = plan(&phases(), layout(Order::Sequential), 2);
        assert_eq!(phase_runs.iter().map(|s| s.store).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn a_ramp_becomes_steps() {
        let mut ramp = timed("ramp", Role::Measure, 0);
        ramp.ramp = Some(Ramp { from: 8.0, step: 32.0, to: 104.0, every_ns: SECOND, stop: Stop::Plateau });
        let phase_runs = plan(
            &[timed("warm", Role::Warmup, 1), ramp, timed("after", Role::Measure, 1)],
            layout(Order::Interleaved),
            1,
        );
        let slots: Vec<usize> = phase_runs.iter().map(|s| s.phase.load.slots()).collect();
        assert_eq!(slots, [4, 8, 40, 72, 104, 4]);
        assert_eq!(segments(&phase_runs), [0..1, 1..2, 2..3, 3..4, 4..5, 5..6]);
        let ramp = Some(Ramp { from: 8.0, step: 32.0, to: 104.0, every_ns: SECOND, stop: Stop::Plateau });
        let ramp = Phase { ramp, ..open(timed("ramp", Role::Measure, 0)) };
        let phases = [open(timed("warm", Role::Warmup, 1)), ramp, open(timed("after", Role::Measure, 1))];
        let phase_runs = plan(&phases, layout(Order::Interleaved), 1);
        assert_eq!(segments(&phase_runs), [0..5, 5..6], "the next phase waits for the end of the ramp");
    }

    #[test]
    fn repeats_run_all_phases_again_except_prepare() {
        let phase_runs = plan(&phases(), Layout { repeats: 3, ..layout(Order::Interleaved) }, 1);
        let names: Vec<(&str, u32)> = phase_runs.iter().map(|s| (s.phase.name.as_str(), s.repeat)).collect();
        let expected =
            [("objects", 0), ("warm", 0), ("get", 0), ("warm", 1), ("get", 1), ("warm", 2), ("get", 2)];
        assert_eq!(names, expected);
    }
}
