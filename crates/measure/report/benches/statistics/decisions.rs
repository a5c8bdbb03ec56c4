//! Wrong verdicts of comparisons and of runs that measure until a question is answered, and the power of designs.

use plimsoll_judge::summary::comparison::{Verdict, compare};
use plimsoll_judge::summary::estimates::{Estimator, Metric};
use plimsoll_judge::summary::power::detectable;
use plimsoll_judge::summary::primary_figure::{Choice, SeriesPair};
use plimsoll_judge::summary::sequential::{Difference, errors_of_looks, judge_difference, looks, precision};
use plimsoll_judge::summary::series::{LatencyKind, Series};
use plimsoll_report::comparison::rows;

use super::in_parallel;
use super::processes::{Case, Process, Side, simulate_for};

const P50: Metric = Metric::Percentile(LatencyKind::Service, 0.5);

/// A store whose level varies by 10% and is autocorrelated.
const STORE: Case = Case {
    name: "level 0.5, spread 0.1",
    label: "decisions",
    process: Process::Level { phi: 0.5, spread: 0.1 },
    seconds: 60,
    per_s: 100.0,
    scale_s: 3.0,
};

fn simulated(case: &Case, seconds: u64, factor: f64, seed: u64, side: Side) -> Series {
    simulate_for(case, seconds, factor, seed, side)
}

/// Returns the first `seconds` seconds of a series.
fn prefix(series: &Series, seconds: f64) -> Series {
    let seconds = series.seconds.iter().take_while(|s| (s.second as f64) < seconds).cloned().collect();
    Series { seconds, ..series.clone() }
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Prints the wrong verdicts of comparisons of a store with itself, paired and with all figures.
pub fn print_comparisons(n: u64) {
    println!("\nfalse differences in {n} comparisons of a store with itself\n");
    println!("| comparison | primary figure (p50) | any other figure, after Holm |");
    println!("| --- | --- | --- |");
    let drifting = Case { process: Process::Level { phi: 0.9, spread: 0.3 }, seconds: 240, ..STORE };
    let stepping = Case { process: Process::Regimes { dwell: 30.0, factor: 1.5 }, seconds: 80, ..STORE };
    for (name, case, paired, common) in [
        ("two runs", Case { seconds: 120, ..STORE }, false, false),
        ("one run, interleaved, each store with its own level", Case { seconds: 240, ..STORE }, true, false),
        ("the same, own level 0.9, spread 0.3", drifting, true, false),
        ("one run, interleaved, with a common level", drifting, true, true),
        ("the same, common steps, 80 s", stepping, true, true),
    ] {
        let halves = in_parallel(n, |seeds| {
            let mut wrong = (0, 0);
            for seed in seeds {
                let (first, second) = if common { (seed, seed) } else { (2 * seed, 2 * seed + 1) };
                let a = simulated(&case, case.seconds, 1.0, 5_000_000 + first, Side::First);
                let b = simulated(&case, case.seconds, 1.0, 5_000_000 + second, Side::Second);
                let found =
                    rows(&[SeriesPair { base: &a, other: &b }], Choice { primary: None, also: &[] }, paired);
                let differs = |v: Verdict| matches!(v, Verdict::Faster | Verdict::Slower);
                wrong.0 += u64::from(found.iter().any(|r| r.primary && differs(r.verdict)));
                wrong.1 += u64::from(found.iter().any(|r| !r.primary && differs(r.verdict)));
            }
            wrong
        });
        let sum = |f: fn(&(u64, u64)) -> u64| halves.iter().map(f).sum::<u64>();
        println!("| {name} | {:.1}% | {:.1}% |", percent(sum(|w| w.0), n), percent(sum(|w| w.1), n));
    }
}

/// Measured time and answer of a simulated `--until conclusive`.
fn until(factor: f64, margin: f64, seed: u64) -> (f64, Difference) {
    let looks = looks(30.0, 960.0);
    let max_s = looks.last().copied().unwrap_or(30.0);
    let a = simulated(&STORE, max_s as u64, 1.0, 9_000_000 + 2 * seed, Side::First);
    let b = simulated(&STORE, max_s as u64, factor, 9_000_001 + 2 * seed, Side::Second);
    let errors = errors_of_looks(&looks);
    for (at, error) in looks.into_iter().zip(errors) {
        let (x, y) = (prefix(&a, at), prefix(&b, at));
        let compared = compare(&mut Estimator::new(&x), &mut Estimator::new(&y), P50, true);
        let found = judge_difference(&compared, error, margin);
        if found != Difference::Open {
            return (at, found);
        }
    }
    (max_s, Difference::Open)
}

/// Prints the wrong verdicts of `--until conclusive` and the time that it needs.
pub fn print_until(n: u64) {
    println!(
        "\n`--until conclusive` with a margin of 5%, first look after 30 s, last after 960 s: {n} runs for each true difference \
         of p50\n"
    );
    println!(
        "| true difference | wrong | found faster or slower | below the margin | open | median time, s | 90% time, s |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for share in [0.0, 0.02, 0.05, 0.2] {
        let halves =
            in_parallel(n, |seeds| seeds.map(|seed| until(1.0 + share, 0.05, seed)).collect::<Vec<_>>());
        let all: Vec<(f64, Difference)> = halves.concat();
        let count = |of: &[Difference]| all.iter().filter(|(_, found)| of.contains(found)).count() as u64;
        let (faster, slower) = (Difference::FirstIsBetter, Difference::SecondIsBetter);
        let mut wrong = vec![slower];
        if share == 0.0 {
            wrong.push(faster);
        }
        if share >= 0.05 {
            wrong.push(Difference::BelowMargin);
        }
        let mut times: Vec<f64> = all.iter().map(|(at, _)| *at).collect();
        times.sort_by(f64::total_cmp);
        println!(
            "| {:.0}% | {:.1}% | {:.1}% | {:.1}% | {:.1}% | {:.0} | {:.0} |",
            100.0 * share,
            percent(count(&wrong), n),
            percent(count(&[faster, slower]), n),
            percent(count(&[Difference::BelowMargin]), n),
            percent(count(&[Difference::Open]), n),
            median(times.clone()),
            times[times.len() * 9 / 10]
        );
    }
}

/// Prints the coverage of the interval at the end of `--until 'p50 +-2%'`.
pub fn print_until_precision(n: u64) {
    let actual = {
        let long = simulated(&STORE, 40_000, 1.0, 77, Side::First);
        Estimator::new(&long).estimate(P50).value.unwrap_or(f64::NAN)
    };
    let looks = looks(30.0, 1_920.0);
    let errors = errors_of_looks(&looks);
    let max_s = looks.last().copied().unwrap_or(30.0);
    let halves = in_parallel(n, |seeds| {
        let mut out = Vec::new();
        for seed in seeds {
            let series = simulated(&STORE, max_s as u64, 1.0, 13_000_000 + seed, Side::First);
            for (at, error) in looks.iter().zip(&errors) {
                let part = prefix(&series, *at);
                let estimate = Estimator::new(&part).estimate(P50);
                let width = precision(&estimate, *error);
                if let (Some(width), Some(value)) = (width, estimate.value)
                    && width <= 0.02
                {
                    out.push((*at, (actual / value - 1.0).abs() <= width));
                    break;
                }
            }
        }
        out
    });
    let all = halves.concat();
    let covered = all.iter().filter(|(_, covered)| *covered).count() as u64;
    println!(
        "\n`--until 'p50 +-2%'`: {:.1}% of {n} runs end; {:.1}% of their intervals cover the true value; median time \
         {:.0} s",
        percent(all.len() as u64, n),
        percent(covered, all.len() as u64),
        median(all.iter().map(|(at, _)| *at).collect())
    );
}

/// Prints the share of designs called sufficient for a difference of 3% that find it.
pub fn print_power(n: u64) {
    println!(
        "\npower: {n} designs, each with a pilot of 120 s, long enough to detect 3% of p50 as predicted"
    );
    println!("| store | designs that find the difference | median length, s |");
    println!("| --- | --- | --- |");
    for (name, phi, spread) in
        [("independent seconds", 0.0, 0.05), ("level 0.5", 0.5, 0.1), ("level 0.8", 0.8, 0.1)]
    {
        let case = Case { name, process: Process::Level { phi, spread }, ..STORE };
        let halves = in_parallel(n, |seeds| {
            let mut out = Vec::new();
            for seed in seeds {
                let pilot = simulated(&case, 120, 1.0, 17_000_000 + seed, Side::First);
                let length = (0..60).map(|k| (30.0 * 1.15f64.powi(k)).round());
                let mut enough =
                    length.filter(|t| detectable(&pilot, P50, *t).is_some_and(|share| share <= 0.03));
                let Some(seconds) = enough.next().filter(|t| *t <= 20_000.0) else { continue };
                let a = simulated(&case, seconds as u64, 1.0, 19_000_000 + 2 * seed, Side::First);
                let b = simulated(&case, seconds as u64, 1.03, 19_000_001 + 2 * seed, Side::Second);
                let compared = compare(&mut Estimator::new(&a), &mut Estimator::new(&b), P50, false);
                out.push((seconds, compared.verdict(0.05) == Verdict::Slower));
            }
            out
        });
        let all = halves.concat();
        let found = all.iter().filter(|(_, found)| *found).count() as u64;
        println!(
            "| {name} | {:.1}% of {} | {:.0} |",
            percent(found, all.len() as u64),
            all.len(),
            median(all.iter().map(|(t, _)| *t).collect())
        );
    }
}
