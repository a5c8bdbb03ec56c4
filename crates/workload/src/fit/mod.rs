//! Fits an experiment to a trace: operations, sizes, popularity, gaps and working set; and compares both.

mod features;
pub mod two_sample;

use std::collections::BTreeMap;

use self::features::Features;
use self::two_sample::{Test, compare};
use crate::OperationKind;
use crate::cdf::Cdf;
use crate::experiment::Problem;
use crate::experiment::field_specs::SharesSpec;
use crate::experiment::resolve::resolve;
use crate::experiment::spec::{
    ArrivalSpec, ExperimentSpec, ObjectsSpec, PhaseSpec, PopularitySpec, RateSpec, SizeSpec,
};
use crate::trace::Trace;
use plimsoll_base::units::{format_duration, format_rate, format_size};

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
pub struct Figure {
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
    pub figures: Vec<Figure>,
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

fn size(sizes: &[f64]) -> Option<SizeSpec> {
    let cdf = Cdf::of(sizes, ERROR)?;
    let point = |(p, bytes): &(f64, f64)| (*p, format_size(*bytes as u64));
    Some(SizeSpec::Cdf { cdf: cdf.points().iter().map(point).collect() })
}

/// Returns the shares of the reads for shares of the objects, from the numbers of reads of each object.
fn popularity(reads: &[f64]) -> Option<PopularitySpec> {
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
    Some(PopularitySpec::Shares { shares: SharesSpec { period: total as u64, points } })
}

fn experiment(trace: &Trace, features: &Features, seed: u64) -> (ExperimentSpec, Vec<String>) {
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
                size: size(&features.read_sizes),
                ..ObjectsSpec::default()
            },
            ..PhaseSpec::default()
        });
    }
    let range = features.median_range;
    if features.ranges_differ {
        let text = "the lengths of the range reads differ; the experiment uses their median";
        notes.push(text.into());
    }
    let writes = operations.contains_key("put") || operations.contains_key("delete");
    let gaps = Cdf::of(&features.gaps, ERROR).filter(|cdf| cdf.mean() > 0.0);
    phases.push(PhaseSpec {
        name: "fitted".into(),
        objects: ObjectsSpec {
            from: reads.then(|| "objects".into()),
            popularity: popularity(&features.read_counts)
                .filter(|_| reads && !features.read_counts.is_empty()),
            count: writes.then_some(features.written.max(1)),
            size: size(&features.written_sizes).filter(|_| writes),
            range: (range > 0).then(|| format_size(range)),
            ..ObjectsSpec::default()
        },
        operations,
        rate: Some(RateSpec::Fixed(format_rate(trace.rate_per_s()))),
        arrival: gaps.map(|cdf| {
            let mean = cdf.mean();
            ArrivalSpec::Gaps { gaps: cdf.points().iter().map(|(p, gap)| (*p, gap / mean)).collect() }
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

/// Fits an experiment to a trace, and compares what it would do with the trace.
///
/// # Errors
/// If the experiment is invalid, such as one whose objects are larger than a request may be.
pub fn fit(trace: &Trace, seed: u64) -> Result<Fit, Problem> {
    let features = Features::of_trace(trace);
    let (experiment, notes) = experiment(trace, &features, seed);
    let resolved = resolve(experiment.clone())?;
    let model = Features::of_phase(&resolved.phases[resolved.phases.len() - 1]);
    let property = |name, unit, of: fn(&Features) -> &Vec<f64>| {
        let (trace, model) = (of(&features).clone(), of(&model).clone());
        let test = compare(&trace, &model);
        Comparison { name, unit, trace, model, test }
    };
    let comparisons = vec![
        property("sizes of objects that are read", "bytes", |f| &f.read_sizes),
        property("sizes of objects that are written", "bytes", |f| &f.written_sizes),
        property("reads per object", "reads", |f| &f.read_counts),
        property("gaps between requests", "seconds", |f| &f.gaps),
    ];
    let comparisons = comparisons.into_iter().filter(|c| c.test.is_some()).collect();
    Ok(Fit { experiment, comparisons, figures: figures(&features, &model), notes })
}

/// Returns the numbers of the trace and of the experiment.
fn figures(trace: &Features, model: &Features) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut add = |name: String, trace: f64, model: f64| figures.push(Figure { name, trace, model });
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
    for (index, seconds) in features::WINDOWS_S.iter().enumerate() {
        if let (Some(trace), Some(model)) = (trace.dispersion[index], model.dispersion[index]) {
            add(format!("variance / mean of operations in {seconds} s"), trace, model);
        }
    }
    figures
}
