//! Fits an experiment to a trace: operations, sizes, popularity, gaps and working set; and compares both.

mod features;
pub mod two_sample;

use std::collections::BTreeMap;

use self::features::Features;
use self::two_sample::{Test, compare};
use crate::Problem;
use crate::field_specs::{PaceSpec, SharesSpec};
use crate::resolve::resolve;
use crate::spec::{
    ArrivalSpec, ExperimentSpec, NamingSpec, ObjectsSpec, PhaseSpec, PopularitySpec, RateSpec, SizeSpec,
};
use plimsoll_base::units::{format_duration, format_rate, format_size, parse_duration};
use plimsoll_workload::OperationKind;
use plimsoll_workload::cdf::Cdf;
use plimsoll_workload::schedule::pace::Pace;
use plimsoll_workload::trace::Trace;

/// Largest difference between a cumulative distribution function of the trace and that of the experiment.
const ERROR: f64 = 0.0005;

/// One property of the trace and of the experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Name of the property.
    pub name: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// Values of the trace, ascending.
    pub trace: Vec<f64>,
    /// Values of the experiment, ascending.
    pub model: Vec<f64>,
    /// Two-sample test; `None` if there are no values.
    pub test: Option<Test>,
}

/// A number of the trace and of the experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct FittedNumber {
    /// Name of the figure, with its unit.
    pub name: String,
    /// Value of the trace.
    pub trace: f64,
    /// Value of the experiment.
    pub model: f64,
}

/// An experiment that was fitted to a trace.
#[derive(Debug, Clone)]
pub struct Fit {
    /// Experiment as a file.
    pub experiment: ExperimentSpec,
    /// Distributions of both.
    pub comparisons: Vec<Comparison>,
    /// Numbers of both.
    pub figures: Vec<FittedNumber>,
    /// Properties besides the distributions that were compared, such as `how soon an object is read again`.
    pub compared: Vec<&'static str>,
    /// Dependences of the trace that the experiment does not have, such as `how soon an object is read again`.
    pub missed: Vec<String>,
    /// Properties of the trace that the experiment does not have.
    pub notes: Vec<String>,
}

/// Returns the weights of the operations, at most 10,000 in all, and a remark if there are more deletes than puts.
fn weights(features: &Features) -> (BTreeMap<String, u32>, Option<String>) {
    let total: u64 = features.counts.values().sum();
    let scaled = |n: u64| (n * 9_000).div_ceil(total.max(1)) as u32;
    let mut weights: BTreeMap<String, u32> =
        features.counts.iter().map(|(kind, n)| (kind.name().to_string(), scaled(*n))).collect();
    let of = |kind: OperationKind| weights.get(kind.name()).copied().unwrap_or(0);
    let (puts, deletes) = (of(OperationKind::Put), of(OperationKind::Delete));
    let too_many = deletes > puts && deletes != weights.values().sum::<u32>();
    let note = too_many.then(|| {
        weights.insert(OperationKind::Delete.name().into(), puts);
        "the trace deletes more objects than it writes; the experiment deletes as many as it writes"
            .to_string()
    });
    weights.retain(|_, weight| *weight > 0);
    (weights, note)
}

fn size(sizes: &[f64], trend: Option<f64>) -> Option<SizeSpec> {
    let cdf = Cdf::of(sizes, ERROR)?;
    let point = |(p, bytes): &(f64, f64)| (*p, format_size(*bytes as u64));
    Some(SizeSpec::Cdf { cdf: cdf.points().iter().map(point).collect(), trend })
}

/// Returns the shares of the reads for shares of the objects, from the numbers of reads of each object.
fn popularity(reads: &[f64], ordered: bool) -> Option<PopularitySpec> {
    let total: f64 = reads.iter().sum();
    let mut below = 0.0;
    let mut points = vec![(0.0, 0.0)];
    for (rank, count) in reads.iter().rev().enumerate() {
        below += count;
        points.push((below / total, (rank + 1) as f64 / reads.len() as f64));
    }
    points.last_mut()?.0 = 1.0;
    // Between two objects with the same number of reads, the points are on a line.
    let is_corner = |index: usize| {
        let slope = |a: (f64, f64), b: (f64, f64)| (b.0 - a.0) / (b.1 - a.1);
        let [before, here, after] = [points[index - 1], points[index], points[index + 1]];
        (slope(before, here) - slope(here, after)).abs() > 1e-9 * slope(before, here).abs()
    };
    let last = points.len() - 1;
    let kept = (0..=last).filter(|index| *index == 0 || *index == last || is_corner(*index));
    let points = kept.map(|index| points[index]).collect();
    Some(PopularitySpec::Shares { shares: SharesSpec { period: total as u64, points, ordered } })
}

/// Parts of an experiment that describe how its properties depend on each other.
#[derive(Debug, Clone, Default)]
struct Dependence {
    /// Rate over time; `None` if it is constant.
    pace: Option<PaceSpec>,
    /// Rank correlation between the size of an object and its place in the order of popularity; `None` if they are
    /// independent.
    trend: Option<f64>,
}

fn experiment(
    trace: &Trace,
    features: &Features,
    seed: u64,
    dependence: &Dependence,
) -> (ExperimentSpec, Vec<String>) {
    let (operations, note) = weights(features);
    let mut notes: Vec<String> = note.into_iter().collect();
    let reads = features.read_counts.iter().sum::<f64>() > 0.0 || operations.contains_key("list");
    let mut phases = Vec::new();
    if reads {
        phases.push(PhaseSpec {
            name: "objects".into(),
            role: Some("prepare".into()),
            operations: BTreeMap::from([("put".to_string(), 1)]),
            objects: ObjectsSpec {
                count: Some(features.read_counts.len().max(1) as u64),
                size: size(&features.read_sizes, dependence.trend),
                // Hashed names, because the first objects may be the most popular.
                naming: dependence.trend.map(|_| NamingSpec::Name("hex".into())),
                ..ObjectsSpec::default()
            },
            ..PhaseSpec::default()
        });
    }
    if features.range_lengths.first() != features.range_lengths.last() {
        let text = "the lengths of the range reads differ; the experiment uses their mean";
        notes.push(text.into());
    }
    let range = features.mean_range().unwrap_or(0);
    if features.read_sizes.first().is_some_and(|smallest| (*smallest as u64) < range) {
        let text =
            "range reads are those of all objects; objects that are smaller than the range are read whole";
        notes.push(text.into());
    }
    let writes = operations.contains_key("put") || operations.contains_key("delete");
    let pace = dependence.pace.as_ref();
    let gaps = match pace.and_then(pace_of) {
        Some(pace) => Cdf::of(&gaps_at(&features.times, &pace), ERROR),
        None => Cdf::of(&features.gaps, ERROR),
    };
    let gaps = gaps.filter(|cdf| cdf.mean() > 0.0);
    phases.push(PhaseSpec {
        name: "fitted".into(),
        objects: ObjectsSpec {
            from: reads.then(|| "objects".into()),
            popularity: popularity(&features.read_counts, dependence.trend.is_some())
                .filter(|_| reads && !features.read_counts.is_empty()),
            count: writes.then_some(features.written.max(1)),
            size: size(&features.written_sizes, None).filter(|_| writes),
            range: features.mean_range().map(format_size),
            ..ObjectsSpec::default()
        },
        operations,
        rate: Some(RateSpec::Fixed(format_rate(trace.rate_per_s()))),
        arrival: gaps.map(|cdf| {
            let mean = cdf.mean();
            let gaps = cdf.points().iter().map(|(p, gap)| (*p, gap / mean)).collect();
            ArrivalSpec::Gaps { gaps, pace: pace.cloned() }
        }),
        duration: Some(format_duration(trace.length_ns().max(1_000_000))),
        ..PhaseSpec::default()
    });
    let experiment = ExperimentSpec {
        name: "fitted".into(),
        description: format!("fitted to a trace of {} requests", trace.requests().len()),
        seed,
        phase: phases,
        ..ExperimentSpec::default()
    };
    (experiment, notes)
}

/// Smallest number of reads whose order is compared.
const MIN_READS: f64 = 25.0;
/// Maximum number of slices of a pace.
const MAX_SLICES: u64 = 4_000;
/// Smallest mean number of operations in a slice of a pace.
const MIN_IN_SLICE: u64 = 10;
/// Ratio of two dispersions above which they differ.
const SAME_DISPERSION: f64 = 1.25;
/// Difference of two means, as a share of the first, above which they differ.
const SAME_MEAN: f64 = 0.2;
/// Difference of two rank correlations, or of two shares of repeated reads, above which they differ.
const SAME_SHARE: f64 = 0.05;

/// Returns the rates of a trace in slices of its time; `None` if it has too few requests.
fn pace(trace: &Trace, times: &[u64]) -> Option<PaceSpec> {
    let slices = (times.len() as u64 / MIN_IN_SLICE).min(MAX_SLICES);
    let every_ns = trace.length_ns().div_ceil(slices.max(1)).next_multiple_of(1_000);
    let mut counts = vec![0.0; slices as usize];
    for time in times {
        *counts.get_mut((time / every_ns) as usize)? += 1.0;
    }
    let mean = times.len() as f64 / slices as f64;
    let rates = counts.iter().map(|count| (count / mean * 1e4).round() / 1e4).collect();
    (slices >= 2).then(|| PaceSpec { every: format_duration(every_ns), rates })
}

fn pace_of(written: &PaceSpec) -> Option<Pace> {
    Pace::new(parse_duration(&written.every).ok()?, &written.rates).ok()
}

/// Returns the gaps in the work that passes at a pace, in ascending order.
fn gaps_at(times: &[u64], pace: &Pace) -> Vec<f64> {
    let work: Vec<f64> = times.iter().map(|at| pace.work_at(*at as f64)).collect();
    let mut gaps: Vec<f64> = work.windows(2).map(|pair| (pair[1] - pair[0]).max(0.0) / 1e9).collect();
    gaps.sort_by(f64::total_cmp);
    gaps
}

/// Returns the properties of the operations that an experiment would execute.
///
/// # Errors
/// If the experiment is invalid.
fn model_of(experiment: &ExperimentSpec) -> Result<Features, Problem> {
    let resolved = resolve(experiment.clone())?;
    Ok(Features::of_phase(&resolved.phases[resolved.phases.len() - 1]))
}

/// Returns the windows, as indices, in which the numbers of operations of two sides vary differently.
fn different_windows(trace: &Features, model: &Features) -> Vec<usize> {
    let differs = |index: &usize| match (trace.dispersion[*index], model.dispersion[*index]) {
        (Some(a), Some(b)) => a.max(b) > SAME_DISPERSION * a.min(b),
        _ => false,
    };
    (0..features::WINDOWS_MS.len()).filter(differs).collect()
}

/// Fits an experiment to a trace, and compares what it would do with the trace. Starts with independent properties, and
/// adds a pace if the requests come in bursts, and a trend if the size of an object depends on its popularity.
///
/// # Errors
/// If the experiment is invalid, such as one whose objects are larger than a request may be.
pub fn fit(trace: &Trace, seed: u64) -> Result<Fit, Problem> {
    if trace.length_ns() == 0 {
        let text = "the logs have fewer than two requests at different times, so that there is no rate";
        return Err(Problem::new("rate", text));
    }
    let features = Features::of_trace(trace);
    let mut dependence = Dependence::default();
    let (mut experiment, mut notes) = self::experiment(trace, &features, seed, &dependence);
    let mut model = model_of(&experiment)?;
    // Ties in the numbers of reads weaken the correlation, so that the trend needs a correction.
    for _ in 0..3 {
        if !different_windows(&features, &model).is_empty() {
            dependence.pace = dependence.pace.take().or_else(|| pace(trace, &features.times));
        }
        let (wanted, found) = (features.size_and_reads.unwrap_or(0.0), model.size_and_reads.unwrap_or(0.0));
        if (wanted - found).abs() > SAME_SHARE {
            let ratio = if dependence.trend.is_some() && found * wanted > 0.0 { wanted / found } else { 1.0 };
            // The most popular object is the first.
            let trend = dependence.trend.unwrap_or(-wanted) * ratio;
            dependence.trend = Some((trend.clamp(-1.0, 1.0) * 1e4).round() / 1e4);
        }
        (experiment, notes) = self::experiment(trace, &features, seed, &dependence);
        model = model_of(&experiment)?;
    }
    let property = |name, unit, of: fn(&Features) -> &Vec<f64>| {
        let (trace, model) = (of(&features).clone(), of(&model).clone());
        let test = compare(&trace, &model);
        Comparison { name, unit, trace, model, test }
    };
    let comparisons = vec![
        property("sizes of objects that are read", "bytes", |f| &f.read_sizes),
        property("sizes of objects that are written", "bytes", |f| &f.written_sizes),
        property("lengths of range reads", "bytes", |f| &f.range_lengths),
        property("reads per object", "reads", |f| &f.read_counts),
        property("gaps between requests", "seconds", |f| &f.gaps),
    ];
    let comparisons = comparisons.into_iter().filter(|c| c.test.is_some()).collect();
    let missed = missed(&features, &model);
    let compared = compared(&features);
    Ok(Fit { experiment, comparisons, figures: figures(&features, &model), compared, missed, notes })
}

/// Returns the dependences that a trace of this length and these operations shows.
fn compared(trace: &Features) -> Vec<&'static str> {
    let names = [
        (trace.dispersion.iter().any(Option::is_some), "bursts"),
        (trace.size_and_reads.is_some(), "the dependence of size and popularity"),
        (trace.read_counts.iter().sum::<f64>() >= MIN_READS, "how soon an object is read again"),
    ];
    names.into_iter().filter(|(is_known, _)| *is_known).map(|(_, name)| name).collect()
}

/// Returns the dependences of a trace that an experiment does not have, for the sentence that names them.
fn missed(trace: &Features, model: &Features) -> Vec<String> {
    let mut out = Vec::new();
    let windows = different_windows(trace, model);
    if let Some((first, last)) = windows.first().zip(windows.last()) {
        let time = |index: usize| format_duration(features::WINDOWS_MS[index] * 1_000_000);
        out.push(match first == last {
            true => format!("the bursts within {}", time(*first)),
            false => format!("the bursts within {} to {}", time(*first), time(*last)),
        });
    }
    let correlation = |f: &Features| f.size_and_reads.unwrap_or(0.0);
    if (correlation(trace) - correlation(model)).abs() > SAME_SHARE {
        out.push("the dependence of size and popularity".into());
    }
    let mean = |f: &Features| f.read_bytes / f.whole_reads.max(1.0);
    if (mean(trace) - mean(model)).abs() > SAME_MEAN * mean(trace) {
        out.push("the mean size of a get".into());
    }
    if (trace.repeated_reads - model.repeated_reads).abs() > SAME_SHARE {
        out.push("how soon an object is read again".into());
    }
    out
}

/// Returns the numbers of the trace and of the experiment.
fn figures(trace: &Features, model: &Features) -> Vec<FittedNumber> {
    let mut figures = Vec::new();
    let mut add = |name: String, trace: f64, model: f64| figures.push(FittedNumber { name, trace, model });
    let kinds: std::collections::BTreeSet<_> = trace.counts.keys().chain(model.counts.keys()).collect();
    for kind in kinds {
        let share = |f: &Features| {
            let total: u64 = f.counts.values().sum();
            f.counts.get(kind).copied().unwrap_or(0) as f64 / total.max(1) as f64 * 100.0
        };
        add(format!("{kind}, % of operations"), share(trace), share(model));
    }
    let rate = |f: &Features| f.gaps.len() as f64 / f.gaps.iter().sum::<f64>().max(1e-9);
    add("operations per second".into(), rate(trace), rate(model));
    add("objects that are read".into(), trace.read_counts.len() as f64, model.read_counts.len() as f64);
    let bytes = |f: &Features| f.read_sizes.iter().sum::<f64>() / 1e6;
    add("working set, MB".into(), bytes(trace), bytes(model));
    let mean = |f: &Features| f.read_bytes / f.whole_reads.max(1.0) / 1e3;
    add("mean bytes of a get, kB".into(), mean(trace), mean(model));
    let percent = |share: f64| 100.0 * share;
    let repeated = format!("reads of one of the last {} objects, % of reads", features::RECENT);
    add(repeated, percent(trace.repeated_reads), percent(model.repeated_reads));
    if let Some(of_trace) = trace.size_and_reads {
        let name = "rank correlation of size and reads of an object";
        add(name.into(), of_trace, model.size_and_reads.unwrap_or(0.0));
    }
    for (index, ms) in features::WINDOWS_MS.iter().enumerate() {
        if let (Some(trace), Some(model)) = (trace.dispersion[index], model.dispersion[index]) {
            add(format!("variance / mean of operations in {} s", *ms as f64 / 1e3), trace, model);
        }
    }
    figures
}
