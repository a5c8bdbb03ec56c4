//! Does an interval hold the truth as often as it says, and how often is a difference called where there is none?
//!
//!     make bench-statistics                  # about a minute
//!
//! Runs are simulated whose truth is known: operations by second, their latencies and their number moved by a level that remembers
//! from second to second, by bursts, by a tail that comes and goes. Beside Plimsoll's intervals stand those of a plain
//! percentile bootstrap of 5-second blocks. Arguments: number of simulations (2000), and words that a case's name must contain.

use std::collections::BTreeMap;

use plimsoll::recorder::sparse::{Sparse, bucket_of};
use plimsoll::rng::Stream;
use plimsoll::summary::comparison::{Verdict, compare};
use plimsoll::summary::confidence::Confidence;
use plimsoll::summary::estimates::{Estimator, Metric};
use plimsoll::summary::series::{Clocked, Latency, Second, Series};

/// What moves the latencies of a second.
#[derive(Clone, Copy)]
enum Moved {
    /// A level with this memory (first-order autoregression) and spread (of its logarithm).
    Level { phi: f64, spread: f64 },
    /// In this share of seconds, this share of operations takes ten times as long; the bursts remember.
    Bursts { phi: f64, seconds: f64, operations: f64 },
    /// The share of operations that take five times as long, 2% in the middle, has this memory and spread.
    Tail { phi: f64, spread: f64 },
}

struct Case {
    name: &'static str,
    moved: Moved,
    seconds: u64,
    per_s: f64,
}

const fn level(name: &'static str, phi: f64, spread: f64, seconds: u64, per_s: f64) -> Case {
    Case { name, moved: Moved::Level { phi, spread }, seconds, per_s }
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
        moved: Moved::Bursts { phi: 0.0, seconds: 0.05, operations: 0.3 },
        seconds: 60,
        per_s: 200.0,
    },
    Case {
        name: "bursts, 300 s",
        moved: Moved::Bursts { phi: 0.0, seconds: 0.05, operations: 0.3 },
        seconds: 300,
        per_s: 100.0,
    },
    Case {
        name: "bursts that remember, 300 s",
        moved: Moved::Bursts { phi: 0.7, seconds: 0.12, operations: 0.2 },
        seconds: 300,
        per_s: 100.0,
    },
    Case {
        name: "tail comes and goes, 60 s",
        moved: Moved::Tail { phi: 0.0, spread: 0.7 },
        seconds: 60,
        per_s: 200.0,
    },
    Case {
        name: "tail remembers, 120 s",
        moved: Moved::Tail { phi: 0.6, spread: 0.7 },
        seconds: 120,
        per_s: 200.0,
    },
    Case {
        name: "tail remembers, 600 s",
        moved: Moved::Tail { phi: 0.6, spread: 0.7 },
        seconds: 600,
        per_s: 50.0,
    },
];

/// Draws one after another.
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

/// Operations of one second, given the standard-normal level behind it: latencies in microseconds.
fn second(case: &Case, level: f64, draws: &mut Draws) -> Vec<u64> {
    let (factor, tail, times) = match case.moved {
        Moved::Level { spread, .. } => ((spread * level).exp(), 0.0, 1.0),
        Moved::Bursts { seconds, operations, .. } => {
            (1.0, if upper(level) < seconds { operations } else { 0.0 }, 10.0)
        }
        Moved::Tail { spread, .. } => (1.0, (0.02 * (spread * level).exp()).min(1.0), 5.0),
    };
    // A closed loop: the slower, the fewer. The number of a second varies like a Poisson count.
    let mean = case.per_s / (factor * (1.0 + tail * (times - 1.0)));
    let count = (mean + mean.sqrt() * draws.normal()).round().max(1.0) as u64;
    (0..count)
        .map(|_| {
            let slow = if tail > 0.0 && draws.unit() < tail { times } else { 1.0 };
            (10_000.0 * factor * slow * (0.5 * draws.normal()).exp()) as u64
        })
        .collect()
}

/// Probability that a standard normal exceeds `x`.
fn upper(x: f64) -> f64 {
    1.0 - plimsoll::rng::normal_cdf(x)
}

fn phi(case: &Case) -> f64 {
    match case.moved {
        Moved::Level { phi, .. } | Moved::Bursts { phi, .. } | Moved::Tail { phi, .. } => phi,
    }
}

fn histogram(latencies: &[u64]) -> Sparse {
    let mut buckets = BTreeMap::new();
    for us in latencies {
        *buckets.entry(bucket_of(*us) as u16).or_insert(0u32) += 1;
    }
    buckets.into_iter().collect()
}

fn simulate(case: &Case, seed: u64) -> Series {
    let mut draws = Draws::new(seed, case.name);
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
    Series { operation: "get".into(), seconds: seconds.collect(), ..Series::default() }
}

/// The truth of a case: p50, p99 (nanoseconds) and rate, from forty thousand independent seconds.
fn truth(case: &Case) -> [f64; 3] {
    let mut draws = Draws::new(77, case.name);
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

/// Whether a percentile bootstrap of blocks of 5 seconds holds the truth. A resample's percentile is at most `x` exactly when its share
/// of operations up to `x` is at least `q`.
fn bootstrap_holds(above: &[f64], below: &[f64], q: f64, seed: u64) -> bool {
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

#[derive(Default, Clone, Copy)]
struct Score {
    shown: u64,
    held: u64,
    bootstrap: u64,
}

const METRICS: [(&str, Metric); 3] = [
    ("p50", Metric::Percentile(Clocked::Service, 0.5)),
    ("p99", Metric::Percentile(Clocked::Service, 0.99)),
    ("rate", Metric::Rate),
];

fn score(case: &Case, truth: [f64; 3], seeds: std::ops::Range<u64>) -> [Score; 3] {
    let mut out = [Score::default(); 3];
    for seed in seeds {
        let series = simulate(case, seed);
        let mut estimator = Estimator::new(&series);
        for (i, (_, metric)) in METRICS.iter().enumerate() {
            if let Confidence::Between { low, high, .. } = estimator.estimate(*metric).confidence {
                out[i].shown += 1;
                out[i].held += u64::from((low..=high).contains(&truth[i]));
            }
            let holds = match metric {
                Metric::Percentile(_, q) => {
                    let bucket = bucket_of((truth[i] / 1e3) as u64);
                    let below = series.counts(|s| s.service.up_to(bucket) as f64);
                    bootstrap_holds(&below, &series.counts(|s| s.operations as f64), *q, seed)
                }
                _ => {
                    bootstrap_holds(&series.counts(|s| s.completed as f64), &series.time_s(), truth[i], seed)
                }
            };
            out[i].bootstrap += u64::from(holds);
        }
    }
    out
}

/// Splits the seeds over two threads.
fn in_parallel<T: Send>(n: u64, work: impl Fn(std::ops::Range<u64>) -> T + Sync) -> [T; 2] {
    std::thread::scope(|scope| {
        let first = scope.spawn(|| work(0..n / 2));
        let second = work(n / 2..n);
        [first.join().expect("a simulation panicked"), second]
    })
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let n: u64 = arguments.first().and_then(|a| a.parse().ok()).unwrap_or(2000);
    let words = arguments.iter().filter(|a| a.parse::<u64>().is_err()).collect::<Vec<_>>();
    let cases = CASES.iter().filter(|c| words.is_empty() || words.iter().any(|w| c.name.contains(*w)));
    println!("coverage of 95% intervals in {n} simulated runs (share of runs that show one)");
    println!("{:<30} {:>16} {:>16} {:>16}   plain bootstrap", "", "p50", "p99", "rate");
    let (mut worst, mut cells) = (Vec::new(), 0);
    let mut called = Vec::new();
    for case in cases {
        let truth = truth(case);
        let halves = in_parallel(n, |seeds| score(case, truth, seeds));
        let mut line = format!("{:<30}", case.name);
        let mut plain = String::new();
        for (i, (metric, _)) in METRICS.iter().enumerate() {
            let sum = |f: fn(&Score) -> u64| halves.iter().map(|h| f(&h[i])).sum::<u64>() as f64;
            let (shown, held) = (sum(|s| s.shown), sum(|s| s.held));
            let coverage = 100.0 * held / shown.max(1.0);
            line += &format!(" {coverage:>7.1}% ({:>4.0}%)", 100.0 * shown / n as f64);
            plain += &format!(" {:>5.1}%", 100.0 * sum(|s| s.bootstrap) / n as f64);
            cells += 1;
            if !(92.0..=98.0).contains(&coverage) {
                worst.push(format!("{} {metric} {coverage:.1}%", case.name));
            }
        }
        println!("{line}  {plain}");
        called.push((case.name, differences(case, n)));
    }
    println!("\n{} of {cells} within 92..98%; outside: {}", cells - worst.len(), worst.join(", "));
    println!(
        "\nA/A: differences called in {n} comparisons of two runs of one store, one primary metric (p50)"
    );
    for (name, share) in called {
        println!("{name:<30} {:>5.1}%", 100.0 * share);
    }
}

/// Share of comparisons of a case with itself in which the primary metric is called different.
fn differences(case: &Case, n: u64) -> f64 {
    let halves = in_parallel(n, |seeds| {
        seeds
            .filter(|seed| {
                let (a, b) = (simulate(case, 1_000_000 + 2 * seed), simulate(case, 1_000_001 + 2 * seed));
                let metric = Metric::Percentile(Clocked::Service, 0.5);
                let compared = compare(&mut Estimator::new(&a), &mut Estimator::new(&b), metric, false);
                matches!(compared.verdict(0.05), Verdict::Faster | Verdict::Slower)
            })
            .count()
    });
    halves.iter().sum::<usize>() as f64 / n as f64
}
