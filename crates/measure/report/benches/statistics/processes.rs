//! Processes that simulate a store from second to second, with known true values.

use std::collections::BTreeMap;

use plimsoll_base::rng::Stream;
use plimsoll_judge::summary::series::{Block, Second, Series};
use plimsoll_recorder::sparse::{Sparse, bucket_of};

/// Process that varies the latencies from second to second.
#[derive(Clone, Copy)]
pub enum Process {
    /// A common level of all latencies, with first-order autocorrelation `phi` and standard deviation `spread` of its
    /// logarithm.
    Level { phi: f64, spread: f64 },
    /// In a share of the seconds, a share of the operations takes ten times as long. `phi` is the
    /// autocorrelation of the underlying level.
    Bursts { phi: f64, seconds: f64, operations: f64 },
    /// A share of the operations, 2% in the median, takes five times as long. The share has autocorrelation `phi` and
    /// standard deviation `spread` of its logarithm.
    Tail { phi: f64, spread: f64 },
    /// An open loop against a store that stalls for `length` seconds. The time between two stalls is exponential,
    /// with mean `every` in seconds.
    Stalls { every: f64, length: f64 },
    /// A level that follows a sine of this period in seconds; its logarithm has this amplitude.
    Cycle { period: f64, amplitude: f64 },
    /// A level that switches between 1 and `factor`. The time between two switches is exponential, with mean `dwell`
    /// in seconds.
    Regimes { dwell: f64, factor: f64 },
    /// A level whose variance is autocorrelated: GARCH(1,1) (T. Bollerslev, "Generalized autoregressive conditional
    /// heteroskedasticity", Journal of Econometrics 31, 1986) with these coefficients. `spread` is the standard
    /// deviation of its logarithm.
    Garch { alpha: f64, beta: f64, spread: f64 },
    /// A level with long memory: ARFIMA(0, d, 0) (J. Hosking, "Fractional differencing", Biometrika 68, 1981), cut off
    /// after [`MEMORY`] seconds. `spread` is the standard deviation of its logarithm.
    LongMemory { d: f64, spread: f64 },
    /// Independent latencies with a Pareto distribution of this exponent.
    Pareto { exponent: f64 },
}

/// A kind of simulated run.
#[derive(Clone, Copy)]
pub struct Case {
    /// Name in the table.
    pub name: &'static str,
    /// Label of the random stream. Fixed, so that a new name does not change the simulated values.
    pub label: &'static str,
    /// Variation from second to second.
    pub process: Process,
    /// Length of a run in seconds.
    pub seconds: u64,
    /// Mean operations per second without slow operations, at the median level.
    pub per_s: f64,
    /// Longest time scale of the process in seconds: a period, a mean dwell time, an autocorrelation time.
    pub scale_s: f64,
}

/// Share of operations that fail while the process is at its median level; it grows with the level.
const FAILURES: f64 = 0.005;

/// Side of a comparison. Both sides have the same process if they have the same seed, but their own operations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Base of the comparison.
    First,
    /// Side that is compared with the base.
    Second,
}

/// A sequence of random draws from one stream.
pub struct Draws {
    stream: Stream,
    at: u64,
}

impl Draws {
    /// Creates the sequence of a seed and a label.
    pub fn new(seed: u64, label: &str) -> Draws {
        Draws { stream: Stream::new(seed, label), at: 0 }
    }

    /// Returns a number between 0 and 1.
    pub fn unit(&mut self) -> f64 {
        self.at += 1;
        self.stream.unit(self.at)
    }

    /// Returns a standard-normal number.
    pub fn normal(&mut self) -> f64 {
        self.at += 1;
        self.stream.normal(self.at)
    }

    /// Returns a Poisson number with this mean.
    pub fn poisson(&mut self, mean: f64) -> u64 {
        let (mut n, mut left) = (0, self.exponential(1.0));
        while left < mean {
            n += 1;
            left += self.exponential(1.0);
        }
        n
    }

    /// Returns an exponential number with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// Seconds after which a process with long memory forgets.
const MEMORY: usize = 2_000;

/// Innovations of a process with long memory, the newest last, and their weights, the newest first.
struct LongMemory {
    innovations: std::collections::VecDeque<f64>,
    weights: Vec<f64>,
}

impl LongMemory {
    /// Creates the memory of a process with parameter `d`. The level has variance 1.
    fn new(d: f64, draws: &mut Draws) -> LongMemory {
        let weight = |last: &mut f64, j: usize| {
            let weight = *last;
            *last *= (j as f64 + d) / (j as f64 + 1.0);
            Some(weight)
        };
        let mut weights: Vec<f64> = (0..MEMORY).scan(1.0, weight).collect();
        let scale = weights.iter().map(|w| w * w).sum::<f64>().sqrt();
        weights.iter_mut().for_each(|w| *w /= scale);
        LongMemory { innovations: (0..MEMORY).map(|_| draws.normal()).collect(), weights }
    }

    fn next(&mut self, draws: &mut Draws) -> f64 {
        self.innovations.pop_front();
        self.innovations.push_back(draws.normal());
        self.innovations.iter().rev().zip(&self.weights).map(|(x, w)| x * w).sum()
    }
}

/// State of a process at the current second.
struct State {
    /// Standard-normal level of an autoregression.
    level: f64,
    /// Time since an origin in seconds; the phase of a cycle.
    at_s: f64,
    /// Start of the current or next stall, or time of the next switch, in the same unit.
    next_s: f64,
    /// True in the slow regime.
    slow: bool,
    /// Variance of the level; 1 on average.
    variance: f64,
    memory: Option<LongMemory>,
}

impl State {
    fn begin(process: Process, draws: &mut Draws) -> State {
        let level = draws.normal();
        let mut state = State { level, at_s: 0.0, next_s: 0.0, slow: false, variance: 1.0, memory: None };
        match process {
            // After these seconds, the variance does not depend on its first value.
            Process::Garch { .. } => (0..200).for_each(|_| state.advance(process, draws)),
            Process::LongMemory { d, .. } => {
                state.memory = Some(LongMemory::new(d, draws));
                state.advance(process, draws);
            }
            Process::Stalls { every, .. } => state.next_s = draws.exponential(every),
            Process::Cycle { period, .. } => state.at_s = period * draws.unit(),
            Process::Regimes { dwell, .. } => {
                state.slow = draws.unit() < 0.5;
                state.next_s = draws.exponential(dwell);
            }
            _ => {}
        }
        state
    }

    /// Advances the state by one second.
    fn advance(&mut self, process: Process, draws: &mut Draws) {
        self.at_s += 1.0;
        match process {
            Process::Level { phi, .. } | Process::Bursts { phi, .. } | Process::Tail { phi, .. } => {
                self.level = phi * self.level + (1.0 - phi * phi).sqrt() * draws.normal();
            }
            Process::Garch { alpha, beta, .. } => {
                let before = self.level * self.level;
                self.variance = (1.0 - alpha - beta) + alpha * before + beta * self.variance;
                self.level = self.variance.sqrt() * draws.normal();
            }
            Process::LongMemory { .. } => {
                self.level = self.memory.as_mut().map_or(0.0, |memory| memory.next(draws));
            }
            Process::Stalls { every, length } => {
                while self.next_s + length < self.at_s {
                    self.next_s += length + draws.exponential(every - length);
                }
            }
            Process::Regimes { dwell, .. } => {
                while self.next_s < self.at_s {
                    self.slow = !self.slow;
                    self.next_s += draws.exponential(dwell);
                }
            }
            Process::Cycle { .. } | Process::Pareto { .. } => {}
        }
    }
}

/// Returns the probability that a standard normal variable exceeds `x`.
fn upper(x: f64) -> f64 {
    1.0 - plimsoll_base::rng::normal_cdf(x)
}

/// Simulates one second and returns the latencies of its operations in microseconds.
fn second(case: &Case, state: &State, draws: &mut Draws) -> Vec<u64> {
    use std::f64::consts::TAU;
    let (factor, tail, times) = match case.process {
        Process::Level { spread, .. }
        | Process::Garch { spread, .. }
        | Process::LongMemory { spread, .. } => ((spread * state.level).exp(), 0.0, 1.0),
        Process::Bursts { seconds, operations, .. } => {
            (1.0, if upper(state.level) < seconds { operations } else { 0.0 }, 10.0)
        }
        Process::Tail { spread, .. } => (1.0, (0.02 * (spread * state.level).exp()).min(1.0), 5.0),
        Process::Cycle { period, amplitude } => {
            ((amplitude * (TAU * state.at_s / period).sin()).exp(), 0.0, 1.0)
        }
        Process::Regimes { factor, .. } => (if state.slow { factor } else { 1.0 }, 0.0, 1.0),
        Process::Stalls { .. } | Process::Pareto { .. } => (1.0, 0.0, 1.0),
    };
    // In a closed loop, slower operations mean fewer operations. Their number varies like a Poisson count. In an open
    // loop, their number does not depend on their latency.
    let open = matches!(case.process, Process::Stalls { .. });
    let mean = if open { case.per_s } else { case.per_s / (factor * (1.0 + tail * (times - 1.0))) };
    let count = (mean + mean.sqrt() * draws.normal()).round().max(1.0) as u64;
    let body = |draws: &mut Draws| match case.process {
        Process::Pareto { exponent } => (1.0 - draws.unit()).powf(-1.0 / exponent),
        _ => (0.5 * draws.normal()).exp(),
    };
    (0..count)
        .map(|i| {
            let slow = if tail > 0.0 && draws.unit() < tail { times } else { 1.0 };
            let wait_s = match case.process {
                Process::Stalls { length, .. } => {
                    let at = state.at_s + i as f64 / count as f64;
                    let end = state.next_s + length;
                    if at >= state.next_s && at < end { end - at } else { 0.0 }
                }
                _ => 0.0,
            };
            (10_000.0 * factor * slow * body(draws) + 1e6 * wait_s).min(3.6e9) as u64
        })
        .collect()
}

/// Returns the histogram of latencies in microseconds.
fn histogram(latencies: &[u64]) -> Sparse {
    let mut buckets = BTreeMap::new();
    for us in latencies {
        *buckets.entry(bucket_of(*us) as u16).or_insert(0u32) += 1;
    }
    buckets.into_iter().collect()
}

/// Returns the share of operations that fail in a second with these latencies: more in slow seconds.
fn failing(latencies: &[u64]) -> f64 {
    let slow = latencies.iter().filter(|us| **us > 30_000).count() as f64 / latencies.len().max(1) as f64;
    FAILURES * (1.0 + 10.0 * slow)
}

/// Simulates a run of `seconds` seconds. `factor` multiplies all latencies. The first second of the clock is only
/// partly inside the window, as in a run that begins between two seconds.
pub fn simulate_for(case: &Case, seconds: u64, factor: f64, seed: u64, side: Side) -> Series {
    let mut process = Draws::new(seed, case.label);
    let mut draws = Draws::new(seed, if side == Side::First { "first" } else { "second" });
    let mut state = State::begin(case.process, &mut process);
    let open = matches!(case.process, Process::Stalls { .. });
    let mut out = Vec::new();
    let part = draws.unit().max(0.05);
    for s in 0..=seconds {
        let mut latencies = second(case, &state, &mut draws);
        let time_s = if s == 0 {
            part
        } else if s == seconds {
            1.0 - part
        } else {
            1.0
        };
        latencies.truncate((latencies.len() as f64 * time_s).round() as usize);
        if (factor - 1.0).abs() > 1e-12 {
            latencies.iter_mut().for_each(|us| *us = (*us as f64 * factor).round() as u64);
        }
        let failed = draws.poisson(failing(&latencies) * latencies.len() as f64);
        state.advance(case.process, &mut process);
        let n = latencies.len() as u64;
        out.push(Second {
            second: s,
            block: Block { repeat: 0, number: (s / 10) as u32 },
            time_s,
            completed: n,
            operations: n + failed,
            failed,
            service: if open { Sparse::default() } else { histogram(&latencies) },
            response: if open { histogram(&latencies) } else { Sparse::default() },
            ..Second::default()
        });
    }
    Series { operation: plimsoll_workload::OperationKind::Get, open, seconds: out, ..Series::default() }
}

/// Simulates a run of the case's length.
pub fn simulate(case: &Case, seed: u64) -> Series {
    simulate_for(case, case.seconds, 1.0, seed, Side::First)
}

/// Simulates a run long enough that its figures are the true values of the case.
pub fn long_run(case: &Case) -> Series {
    // Independent stretches of a long time scale: at least 2,000 of them.
    let seconds = (2_000.0 * case.scale_s).clamp(40_000.0, 400_000.0) as u64;
    let thinned = Case { per_s: case.per_s.min(100.0), ..*case };
    simulate_for(&thinned, seconds, 1.0, 77, Side::First)
}
