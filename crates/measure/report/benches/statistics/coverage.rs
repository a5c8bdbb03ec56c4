//! Coverage of 95% intervals, how many runs show one, and how wide it is.

use plimsoll_judge::summary::comparison::{Verdict, compare};
use plimsoll_judge::summary::confidence::IntervalEstimate;
use plimsoll_judge::summary::estimates::{Estimator, Metric};
use plimsoll_judge::summary::series::Series;

use super::cases::{HELD_OUT, LONG_MEMORY, SLOW_AND_RARE, TUNED};
use super::in_parallel;
use super::processes::{Case, long_run, simulate};

/// Returns the metrics of a series, in the order of the table.
fn metrics(series: &Series) -> [Metric; 5] {
    let percentile = |q| Metric::Percentile(series.clocked(), q);
    [percentile(0.5), percentile(0.99), percentile(0.999), Metric::Rate, Metric::Errors]
}

const NAMES: [&str; 5] = ["p50", "p99", "p99.9", "rate", "errors"];

/// Counts of simulated runs for one metric.
#[derive(Default, Clone)]
struct Score {
    /// Runs that show an interval.
    shown: u64,
    /// Runs whose interval covers the true value.
    covered: u64,
    /// Widths of the intervals as shares of the true value.
    widths: Vec<f64>,
}

/// Simulates one run per seed and scores the intervals of each metric.
fn score(case: &Case, true_values: [f64; 5], seeds: std::ops::Range<u64>) -> [Score; 5] {
    let mut out: [Score; 5] = Default::default();
    for seed in seeds {
        let series = simulate(case, seed);
        let mut estimator = Estimator::new(&series);
        for (i, metric) in metrics(&series).iter().enumerate() {
            if let IntervalEstimate::Interval { low, high, .. } = estimator.estimate(*metric).confidence
                && high.is_finite()
            {
                out[i].shown += 1;
                out[i].covered += u64::from((low..=high).contains(&true_values[i]));
                out[i].widths.push((high - low) / true_values[i]);
            }
        }
    }
    out
}

/// Computes the true values of a case from a long run.
fn true_values(case: &Case) -> [f64; 5] {
    let series = long_run(case);
    let mut estimator = Estimator::new(&series);
    let mut out = metrics(&series).map(|metric| estimator.estimate(metric).value.unwrap_or(f64::NAN));
    // The long run has fewer operations per second.
    out[3] *= case.per_s / case.per_s.min(100.0);
    out
}

/// Returns the share of comparisons of a case with itself that find a difference in p50.
fn differences(case: &Case, n: u64) -> f64 {
    let halves = in_parallel(n, |seeds| {
        seeds
            .filter(|seed| {
                let (a, b) = (simulate(case, 1_000_000 + 2 * seed), simulate(case, 1_000_001 + 2 * seed));
                let [metric, ..] = metrics(&a);
                let compared = compare(&mut Estimator::new(&a), &mut Estimator::new(&b), metric, false);
                matches!(compared.verdict(0.05), Verdict::Faster | Verdict::Slower)
            })
            .count()
    });
    halves.iter().sum::<usize>() as f64 / n as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Prints the table of coverage.
pub fn print(n: u64, wanted: impl Fn(&str) -> bool) {
    println!(
        "coverage of the 95% intervals shown (share of {n} runs that show one; median width); T/scale: length of the \
         run over the longest time scale of the process; A/A: share of comparisons of a case with itself that find a \
         difference in p50\n"
    );
    println!("| case | T/scale | p50 | p99 | p99.9 | rate | errors | A/A |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let (mut outside, mut cells) = (Vec::new(), 0);
    for case in
        TUNED.iter().chain(SLOW_AND_RARE).chain(LONG_MEMORY).chain(HELD_OUT).filter(|case| wanted(case.name))
    {
        let true_values = true_values(case);
        let [first, second] = in_parallel(n, |seeds| score(case, true_values, seeds));
        let times = case.seconds as f64 / case.scale_s;
        let mut line = format!("| {} | {times:.1} |", case.name);
        for (i, metric) in NAMES.iter().enumerate() {
            let shown = first[i].shown + second[i].shown;
            let covered = first[i].covered + second[i].covered;
            if shown == 0 {
                line += " not shown |";
                continue;
            }
            let coverage = 100.0 * covered as f64 / shown as f64;
            let width = median([first[i].widths.clone(), second[i].widths.clone()].concat());
            line += &format!(" {coverage:.1}% ({:.0}%; {width:.2}) |", 100.0 * shown as f64 / n as f64);
            cells += 1;
            let right = if times >= 10.0 { (93.0..=97.0).contains(&coverage) } else { coverage >= 90.0 };
            if !right {
                outside.push(format!("{} {metric} {coverage:.1}%", case.name));
            }
        }
        println!("{line} {:.1}% |", 100.0 * differences(case, n));
    }
    println!("\n{} of {cells} within the bars; outside: {}", cells - outside.len(), outside.join("; "));
}
