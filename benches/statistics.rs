//! Measures the coverage of confidence intervals, and how often a comparison of a store with itself finds a difference.
//!
//!     make bench-statistics                  # about five minutes
//!     make bench-statistics | PERFORMANCE=write python3 benches/performance.py statistics
//!
//! The second command also writes the table into docs/calibration.md.
//!
//! The bench simulates runs with known true values. The number and latencies of the operations in each second
//! depend on an autocorrelated level, on bursts, or on a tail of varying weight. The coverage of a plain
//! percentile bootstrap over 5-second blocks is printed for comparison. Arguments: the number of simulations
//! (default 2000), and substrings of case names, of which at least one must match.

use std::collections::BTreeMap;

use plimsoll::recorder::sparse::{Sparse, bucket_of};
use plimsoll::rng::Stream;
use plimsoll::summary::comparison::{Verdict, compare};
use plimsoll::summary::confidence::Confidence;
use plimsoll::summary::estimates::{Estimator, Metric};
use plimsoll::summary::series::{Latency, LatencyKind, Second, Series};

/// Process that varies the latencies from second to second.
#[derive(Clone, Copy)]
enum Process {
    /// A common level of all latencies, with first-order autocorrelation `phi` and standard deviation `spread` of its
    /// logarithm.
    Level { phi: f64, spread: f64 },
    /// In a share of the seconds, a share of the operations takes ten times as long. `phi` is the
    /// autocorrelation of the underlying level.
    Bursts { phi: f64, seconds: f64, operations: f64 },
    /// A share of the operations, 2% in the median, takes five times as long. The share has autocorrelation `phi` and
    /// standard deviation `spread` of its logarithm.
    Tail { phi: f64, spread: f64 },
}

/// A kind of simulated run.
struct Case {
    name: &'static str,
    /// Label of the random stream. Fixed, so that a new name does not change the simulated values.
    label: &'static str,
    process: Process,
    /// Length of a run in seconds.
    seconds: u64,
    /// Mean operations per second without slow operations, at the median level.
    per_s: f64,
}

/// Creates a case with an autocorrelated level.
const fn level(name: &'static str, phi: f64, spread: f64, seconds: u64, per_s: f64) -> Case {
    Case { name, label: name, process: Process::Level { phi, spread }, seconds, per_s }
}

const CASES: &[Case] = &[
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
    },
    Case {
        name: "bursts, 300 s",
        label: "bursts, 300 s",
        process: Process::Bursts { phi: 0.0, seconds: 0.05, operations: 0.3 },
        seconds: 300,
        per_s: 100.0,
    },
    Case {
        name: "correlated bursts, 300 s",
        label: "bursts that remember, 300 s",
        process: Process::Bursts { phi: 0.7, seconds: 0.12, operations: 0.2 },
        seconds: 300,
        per_s: 100.0,
    },
    Case {
        name: "varying tail, 60 s",
        label: "tail comes and goes, 60 s",
        process: Process::Tail { phi: 0.0, spread: 0.7 },
        seconds: 60,
        per_s: 200.0,
    },
    Case {
        name: "correlated tail, 120 s",
        label: "tail remembers, 120 s",
        process: Process::Tail { phi: 0.6, spread: 0.7 },
        seconds: 120,
        per_s: 200.0,
    },
    Case {
        name: "correlated tail, 600 s",
        label: "tail remembers, 600 s",
        process: Process::Tail { phi: 0.6, spread: 0.7 },
        seconds: 600,
        per_s: 50.0,
    },
];

/// A sequence of random draws from one stream.
struct Draws {
    stream: Stream,
    at: u64,
}

impl Draws {
    fn new(seed: u64, label: &str) -> Draws {
        Draws { stream: Stream::new(seed, label), at: 0 }
    }

    fn unit(&mut self) -> f64 {
        self.at += 1;
        self.stream.unit(self.at)
    }

    fn normal(&mut self) -> f64 {
        self.at += 1;
        self.stream.normal(self.at)
    }
}

/// Simulates one second at a standard-normal `level` and returns the latencies of its operations in microseconds.
fn second(case: &Case, level: f64, draws: &mut Draws) -> Vec<u64> {
    let (factor, tail, times) = match case.process {
        Process::Level { spread, .. } => ((spread * level).exp(), 0.0, 1.0),
        Process::Bursts { seconds, operations, .. } => {
            (1.0, if upper(level) < seconds { operations } else { 0.0 }, 10.0)
        }
        Process::Tail { spread, .. } => (1.0, (0.02 * (spread * level).exp()).min(1.0), 5.0),
    };
    // In a closed loop, slower operations mean fewer operations. Their number varies like a Poisson count.
    let mean = case.per_s / (factor * (1.0 + tail * (times - 1.0)));
    let count = (mean + mean.sqrt() * draws.normal()).round().max(1.0) as u64;
    (0..count)
        .map(|_| {
            let slow = if tail > 0.0 && draws.unit() < tail { times } else { 1.0 };
            (10_000.0 * factor * slow * (0.5 * draws.normal()).exp()) as u64
        })
        .collect()
}

/// Returns the probability that a standard normal variable exceeds `x`.
fn upper(x: f64) -> f64 {
    1.0 - plimsoll::rng::normal_cdf(x)
}

/// Returns the first-order autocorrelation of a case.
fn phi(case: &Case) -> f64 {
    match case.process {
        Process::Level { phi, .. } | Process::Bursts { phi, .. } | Process::Tail { phi, .. } => phi,
    }
}

/// Returns the histogram of latencies in microseconds.
fn histogram(latencies: &[u64]) -> Sparse {
    let mut buckets = BTreeMap::new();
    for us in latencies {
        *buckets.entry(bucket_of(*us) as u16).or_insert(0u32) += 1;
    }
    buckets.into_iter().collect()
}

/// Simulates a run.
fn simulate(case: &Case, seed: u64) -> Series {
    let mut draws = Draws::new(seed, case.label);
    let phi = phi(case);
    let mut level = draws.normal();
    let seconds = (0..case.seconds).map(|s| {
        let latencies = second(case, level, &mut draws);
        level = phi * level + (1.0 - phi * phi).sqrt() * draws.normal();
        let n = latencies.len() as u64;
        Second {
            second: s,
            time_s: 1.0,
            completed: n,
            operations: n,
            service: histogram(&latencies),
            ..Second::default()
        }
    });
    Series {
        operation: plimsoll::workload::OperationKind::Get,
        seconds: seconds.collect(),
        ..Series::default()
    }
}

/// Returns the true values of a case, computed from 40,000 independent seconds: p50 and p99 in nanoseconds,
/// and the rate.
fn true_values(case: &Case) -> [f64; 3] {
    let mut draws = Draws::new(77, case.label);
    let (mut seconds, mut count) = (Vec::new(), 0);
    let n = 40_000;
    for _ in 0..n {
        let level = draws.normal();
        let latencies = second(case, level, &mut draws);
        count += latencies.len();
        seconds.push(histogram(&latencies));
    }
    let all = Latency::of(&seconds);
    [all.quantile_ns(0.5).unwrap(), all.quantile_ns(0.99).unwrap(), count as f64 / f64::from(n)]
}

/// Returns true if the interval of a percentile bootstrap over 5-second blocks covers the true value. The
/// percentile of a resample is at most `x` exactly if its share of operations up to `x` is at least `q`.
fn bootstrap_covers(above: &[f64], below: &[f64], q: f64, seed: u64) -> bool {
    let stream = Stream::new(seed, "bootstrap");
    let sum = |x: &[f64]| x.chunks(5).map(|c| c.iter().sum()).collect::<Vec<f64>>();
    let (above, below) = (sum(above), sum(below));
    let blocks = above.len() as u64;
    let resamples = 400;
    let at_least = (0..resamples)
        .filter(|r| {
            let (mut a, mut b) = (0.0, 0.0);
            for i in 0..blocks {
                let pick = stream.below(r * blocks + i, blocks) as usize;
                a += above[pick];
                b += below[pick];
            }
            a >= q * b
        })
        .count() as f64;
    (0.025..=0.975).contains(&(at_least / resamples as f64))
}

/// Counts of simulated runs.
#[derive(Default, Clone, Copy)]
struct Score {
    /// Runs that have an interval.
    with_interval: u64,
    /// Runs whose interval covers the true value.
    covered: u64,
    /// Runs in which the interval of the bootstrap covers the true value.
    bootstrap: u64,
}

const METRICS: [(&str, Metric); 3] = [
    ("p50", Metric::Percentile(LatencyKind::Service, 0.5)),
    ("p99", Metric::Percentile(LatencyKind::Service, 0.99)),
    ("rate", Metric::Rate),
];

/// Simulates one run per seed and scores the intervals of each metric.
fn score(case: &Case, true_values: [f64; 3], seeds: std::ops::Range<u64>) -> [Score; 3] {
    let mut out = [Score::default(); 3];
    for seed in seeds {
        let series = simulate(case, seed);
        let mut estimator = Estimator::new(&series);
        for (i, (_, metric)) in METRICS.iter().enumerate() {
            if let Confidence::Between { low, high, .. } = estimator.estimate(*metric).confidence {
                out[i].with_interval += 1;
                out[i].covered += u64::from((low..=high).contains(&true_values[i]));
            }
            let covers = match metric {
                Metric::Percentile(_, q) => {
                    let bucket = bucket_of((true_values[i] / 1e3) as u64);
                    let below = series.counts(|s| s.service.up_to(bucket) as f64);
                    bootstrap_covers(&below, &series.counts(|s| s.operations as f64), *q, seed)
                }
                _ => {
                    let completed = series.counts(|s| s.completed as f64);
                    bootstrap_covers(&completed, &series.time_s(), true_values[i], seed)
                }
            };
            out[i].bootstrap += u64::from(covers);
        }
    }
    out
}

/// Runs `work` on two threads, each with one half of the seeds.
fn in_parallel<T: Send>(n: u64, work: impl Fn(std::ops::Range<u64>) -> T + Sync) -> [T; 2] {
    std::thread::scope(|scope| {
        let first = scope.spawn(|| work(0..n / 2));
        let second = work(n / 2..n);
        [first.join().expect("the simulation thread panicked"), second]
    })
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let n: u64 = arguments.first().and_then(|a| a.parse().ok()).unwrap_or(2000);
    let words = arguments.iter().filter(|a| a.parse::<u64>().is_err()).collect::<Vec<_>>();
    let cases = CASES.iter().filter(|c| words.is_empty() || words.iter().any(|w| c.name.contains(*w)));
    println!(
        "coverage of 95% intervals in {n} simulated runs (share of runs that have an interval); A/A: comparisons, of {n}, \
         that find a difference between two runs of one store (primary metric p50)"
    );
    println!("| case | p50 | p99 | rate | bootstrap: p50, p99, rate | A/A |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let (mut outside, mut cells) = (Vec::new(), 0);
    for case in cases {
        let true_values = true_values(case);
        let halves = in_parallel(n, |seeds| score(case, true_values, seeds));
        let mut line = format!("| {:<24} |", case.name);
        let mut bootstrap = Vec::new();
        for (i, (metric, _)) in METRICS.iter().enumerate() {
            let sum = |f: fn(&Score) -> u64| halves.iter().map(|h| f(&h[i])).sum::<u64>() as f64;
            let (with_interval, covered) = (sum(|s| s.with_interval), sum(|s| s.covered));
            let coverage = 100.0 * covered / with_interval.max(1.0);
            line += &format!(" {coverage:.1}% ({:.0}%) |", 100.0 * with_interval / n as f64);
            bootstrap.push(format!("{:.1}%", 100.0 * sum(|s| s.bootstrap) / n as f64));
            cells += 1;
            if !(92.0..=98.0).contains(&coverage) {
                outside.push(format!("{} {metric} {coverage:.1}%", case.name));
            }
        }
        println!("{line} {} | {:.1}% |", bootstrap.join(", "), 100.0 * differences(case, n));
    }
    println!("{} of {cells} within 92..98%; outside: {}", cells - outside.len(), outside.join(", "));
}

/// Returns the share of comparisons of a case with itself that find a difference in the primary metric.
fn differences(case: &Case, n: u64) -> f64 {
    let halves = in_parallel(n, |seeds| {
        seeds
            .filter(|seed| {
                let (a, b) = (simulate(case, 1_000_000 + 2 * seed), simulate(case, 1_000_001 + 2 * seed));
                let metric = Metric::Percentile(LatencyKind::Service, 0.5);
                let compared = compare(&mut Estimator::new(&a), &mut Estimator::new(&b), metric, false);
                matches!(compared.verdict(0.05), Verdict::Faster | Verdict::Slower)
            })
            .count()
    });
    halves.iter().sum::<usize>() as f64 / n as f64
}
