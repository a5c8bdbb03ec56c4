//! The simulated cases. The constants of the method were chosen with [`TUNED`] and [`SLOW_AND_RARE`] in view, and none
//! with [`HELD_OUT`].

use super::processes::{Case, Process};

/// Creates a case with an autocorrelated level.
const fn level(name: &'static str, phi: f64, spread: f64, seconds: u64, per_s: f64) -> Case {
    let scale_s = (1.0 + phi) / (1.0 - phi);
    Case { name, label: name, process: Process::Level { phi, spread }, seconds, per_s, scale_s }
}

const fn other(name: &'static str, process: Process, seconds: u64, scale_s: f64) -> Case {
    Case { name, label: name, process, seconds, per_s: 200.0, scale_s }
}

const fn stalls(name: &'static str, length: f64, every: f64, seconds: u64) -> Case {
    other(name, Process::Stalls { every, length }, seconds, every)
}

const fn cycle(name: &'static str, period: f64, seconds: u64) -> Case {
    other(name, Process::Cycle { period, amplitude: 0.3 }, seconds, period)
}

const fn regimes(name: &'static str, dwell: f64, seconds: u64) -> Case {
    other(name, Process::Regimes { dwell, factor: 1.5 }, seconds, dwell)
}

/// Cases of decision 0012.
pub const TUNED: &[Case] = &[
    level("independent, 30 s", 0.0, 0.0, 30, 200.0),
    level("independent, 60 s", 0.0, 0.0, 60, 200.0),
    level("independent, few, 120 s", 0.0, 0.0, 120, 20.0),
    level("seconds differ, 60 s", 0.0, 0.3, 60, 200.0),
    level("level 0.5, 60 s", 0.5, 0.3, 60, 200.0),
    level("level 0.7, 60 s", 0.7, 0.3, 60, 200.0),
    level("level 0.8, 120 s", 0.8, 0.3, 120, 200.0),
    level("level 0.8, 300 s", 0.8, 0.3, 300, 100.0),
    level("level 0.9, 60 s", 0.9, 0.3, 60, 200.0),
    level("level 0.9, 120 s", 0.9, 0.3, 120, 100.0),
    level("level 0.95, 600 s", 0.95, 0.3, 600, 50.0),
    Case {
        name: "bursts, 60 s",
        label: "bursts, 60 s",
        process: Process::Bursts { phi: 0.0, seconds: 0.05, operations: 0.3 },
        seconds: 60,
        per_s: 200.0,
        scale_s: 20.0,
    },
    Case {
        name: "bursts, 300 s",
        label: "bursts, 300 s",
        process: Process::Bursts { phi: 0.0, seconds: 0.05, operations: 0.3 },
        seconds: 300,
        per_s: 100.0,
        scale_s: 20.0,
    },
    Case {
        name: "correlated bursts, 300 s",
        label: "bursts that remember, 300 s",
        process: Process::Bursts { phi: 0.7, seconds: 0.12, operations: 0.2 },
        seconds: 300,
        per_s: 100.0,
        scale_s: 25.0,
    },
    Case {
        name: "varying tail, 60 s",
        label: "tail comes and goes, 60 s",
        process: Process::Tail { phi: 0.0, spread: 0.7 },
        seconds: 60,
        per_s: 200.0,
        scale_s: 1.0,
    },
    Case {
        name: "correlated tail, 120 s",
        label: "tail remembers, 120 s",
        process: Process::Tail { phi: 0.6, spread: 0.7 },
        seconds: 120,
        per_s: 200.0,
        scale_s: 4.0,
    },
    Case {
        name: "correlated tail, 600 s",
        label: "tail remembers, 600 s",
        process: Process::Tail { phi: 0.6, spread: 0.7 },
        seconds: 600,
        per_s: 50.0,
        scale_s: 4.0,
    },
];

/// Cases of decision 0020: stalls, cycles, changes of level and long tails.
pub const SLOW_AND_RARE: &[Case] = &[
    stalls("stall 1 s every 10 s, 60 s", 1.0, 10.0, 60),
    stalls("stall 1 s every 10 s, 300 s", 1.0, 10.0, 300),
    stalls("stall 2 s every 45 s, 20 s", 2.0, 45.0, 20),
    stalls("stall 2 s every 45 s, 450 s", 2.0, 45.0, 450),
    stalls("stall 2 s every 90 s, 60 s", 2.0, 90.0, 60),
    stalls("stall 2 s every 90 s, 900 s", 2.0, 90.0, 900),
    cycle("cycle of 12 s, 60 s", 12.0, 60),
    cycle("cycle of 60 s, 60 s", 60.0, 60),
    cycle("cycle of 300 s, 60 s", 300.0, 60),
    cycle("cycle of 60 s, 600 s", 60.0, 600),
    regimes("regimes of 6 s, 60 s", 6.0, 60),
    regimes("regimes of 20 s, 60 s", 20.0, 60),
    regimes("regimes of 60 s, 60 s", 60.0, 60),
    regimes("regimes of 30 s, 300 s", 30.0, 300),
    level("level 0.98, 60 s", 0.98, 0.3, 60, 200.0),
    level("level 0.98, 1000 s", 0.98, 0.3, 1_000, 50.0),
    other("Pareto 1.5, 60 s", Process::Pareto { exponent: 1.5 }, 60, 1.0),
    other("Pareto 1.5, 600 s", Process::Pareto { exponent: 1.5 }, 600, 1.0),
];

/// Cases whose variance or level depends on a longer past than a run shows. The scale of ARFIMA is the length of the
/// run, because no length is ten times as long as its memory.
pub const LONG_MEMORY: &[Case] = &[
    other("GARCH 0.2 0.7, 60 s", Process::Garch { alpha: 0.2, beta: 0.7, spread: 0.3 }, 60, 10.0),
    other("GARCH 0.2 0.79, 60 s", Process::Garch { alpha: 0.2, beta: 0.79, spread: 0.3 }, 60, 100.0),
    other("GARCH 0.2 0.79, 600 s", Process::Garch { alpha: 0.2, beta: 0.79, spread: 0.3 }, 600, 100.0),
    other("ARFIMA 0.3, 60 s", Process::LongMemory { d: 0.3, spread: 0.3 }, 60, 60.0),
    other("ARFIMA 0.45, 60 s", Process::LongMemory { d: 0.45, spread: 0.3 }, 60, 60.0),
    other("ARFIMA 0.45, 600 s", Process::LongMemory { d: 0.45, spread: 0.3 }, 600, 600.0),
];

/// Cases that were simulated only after all constants were chosen.
pub const HELD_OUT: &[Case] = &[
    level("held out: level 0.93, spread 0.5, 400 s", 0.93, 0.5, 400, 80.0),
    other(
        "held out: regimes of 15 s, x 2.5, 200 s",
        Process::Regimes { dwell: 15.0, factor: 2.5 },
        200,
        15.0,
    ),
    other("held out: cycle of 35 s, 400 s", Process::Cycle { period: 35.0, amplitude: 0.5 }, 400, 35.0),
    stalls("held out: stall 1.5 s every 30 s, 330 s", 1.5, 30.0, 330),
    other("held out: Pareto 2.5, 90 s", Process::Pareto { exponent: 2.5 }, 90, 1.0),
    other(
        "held out: regimes of 50 s, x 2.5, 100 s",
        Process::Regimes { dwell: 50.0, factor: 2.5 },
        100,
        50.0,
    ),
];
