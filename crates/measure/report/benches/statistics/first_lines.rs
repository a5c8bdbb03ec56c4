//! First lines of comparisons and of checks that are false about the seconds that they name.
//!
//! A verdict from single runs is about their seconds: what many times as many operations in the same seconds would have
//! shown. The truth is a simulation with the same variation from second to second and 100 times as many operations.

use plimsoll_judge::summary::comparison::{Verdict, compare};
use plimsoll_judge::summary::estimates::{Estimator, Metric};
use plimsoll_judge::summary::objective::Objective;
use plimsoll_judge::summary::objectives::judge;
use plimsoll_judge::summary::series::Series;
use plimsoll_report::text::objectives::sentence;

use super::in_parallel;
use super::processes::{Case, Process, Side, simulate_for};

const KINDS: [(&str, Process); 5] = [
    ("stalls of 1.5 s every 60 s", Process::Stalls { every: 60.0, length: 1.5 }),
    ("long memory, ARFIMA 0.45", Process::LongMemory { d: 0.45, spread: 0.3 }),
    ("drift, level 0.98", Process::Level { phi: 0.98, spread: 0.3 }),
    ("steps of 20 s by a factor of 1.5", Process::Regimes { dwell: 20.0, factor: 1.5 }),
    ("periods of 60 s", Process::Cycle { period: 60.0, amplitude: 0.3 }),
];

/// Counts of first lines.
#[derive(Default, Clone, Copy)]
struct Lines {
    verdicts: u64,
    false_verdicts: u64,
    decided: u64,
    false_decisions: u64,
    contradicted: u64,
}

/// Returns the p50 or another percentile of a series in nanoseconds.
fn value(series: &Series, q: f64) -> f64 {
    let metric = Metric::Percentile(series.clocked(), q);
    Estimator::new(series).estimate(metric).value.unwrap_or(f64::NAN)
}

fn of_run(process: Process, seed: u64, lines: &mut Lines) {
    let case =
        Case { name: "first line", label: "first line", process, seconds: 60, per_s: 200.0, scale_s: 60.0 };
    let run = |seed, per_s: f64, side| simulate_for(&Case { per_s, ..case }, 60, 1.0, seed, side);
    let (a, b) = (run(2 * seed, 200.0, Side::First), run(2 * seed + 1, 200.0, Side::First));
    let (true_a, true_b) = (run(2 * seed, 20_000.0, Side::Second), run(2 * seed + 1, 20_000.0, Side::Second));
    let metric = Metric::Percentile(a.clocked(), 0.5);
    let compared = compare(&mut Estimator::new(&a), &mut Estimator::new(&b), metric, false);
    if let Some((_, low, high)) = compared.change
        && compared.verdict(0.05) != Verdict::Inconclusive
    {
        lines.verdicts += 1;
        let truth = value(&true_b, 0.5) / value(&true_a, 0.5);
        lines.false_verdicts += u64::from(!(low..=high).contains(&truth));
    }
    let truth = value(&true_a, 0.99);
    let bound_ms = truth / 1e6 * if seed.is_multiple_of(2) { 1.1 } else { 1.0 / 1.1 };
    let objective = Objective::parse(&format!("get.p99 < {bound_ms:.3}ms")).expect("the objective is valid");
    let found = judge(std::slice::from_ref(&a), std::slice::from_ref(&objective));
    let text = sentence(&found);
    let interval = Estimator::new(&a).estimate(Metric::Percentile(a.clocked(), 0.99)).confidence;
    // A p99 without an interval, or with one that contains the bound, does not support a pass without a scope.
    let supported = interval.ends().is_some_and(|(_, high)| high <= objective.bound);
    lines.contradicted += u64::from(text.starts_with("pass: ") && !supported);
    if text.starts_with("pass") || text.starts_with("FAIL") {
        lines.decided += 1;
        lines.false_decisions += u64::from(text.starts_with("pass") != (truth < objective.bound));
    }
}

/// Prints the share of false first lines of `n` runs of each kind.
pub fn print(n: u64) {
    println!("\nfirst lines of {n} runs of 60 s of each kind, about the seconds that they name\n");
    println!("| process | verdicts | false | decided checks | false | contradicted by the body |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for (name, process) in KINDS {
        let halves = in_parallel(n, |seeds| {
            let mut lines = Lines::default();
            seeds.for_each(|seed| of_run(process, 31_000_000 + seed, &mut lines));
            lines
        });
        let sum = |of: fn(&Lines) -> u64| halves.iter().map(of).sum::<u64>();
        println!(
            "| {name} | {} | {} | {} | {} | {} |",
            sum(|l| l.verdicts),
            sum(|l| l.false_verdicts),
            sum(|l| l.decided),
            sum(|l| l.false_decisions),
            sum(|l| l.contradicted)
        );
    }
}
