//! `plimsoll run --dry-run`: prints the resolved plan with operations, bytes and time, without contacting a
//! store.

use std::collections::BTreeMap;

use plimsoll_base::units::{format_bytes, format_count, format_size, short_names, show_duration};
use plimsoll_document::{Table, terminal};
use plimsoll_experiment::Experiment;
use plimsoll_experiment::estimate::{PhaseEstimate, duration_ns, of_phase};
use plimsoll_judge::run_dir::run::Run;
use plimsoll_judge::summary::estimates::Metric;
use plimsoll_judge::summary::power::detectable;
use plimsoll_workload::popularity::Popularity;
use plimsoll_workload::schedule::plan::{Order, plan};
use plimsoll_workload::schedule::ramp::Stop;
use plimsoll_workload::schedule::{Load, Phase, Role};
use plimsoll_workload::size::Size;
use plimsoll_workload::trace::Trace;
use plimsoll_workload::{Dataset, OperationKind, Workload};

fn load(phase: &Phase) -> String {
    let Some(ramp) = phase.ramp else {
        return match phase.load {
            Load::Open { arrival, in_flight, .. } => {
                format!("{} {}, at most {in_flight} in flight", phase.load.describe(), arrival.name())
            }
            Load::Closed { .. } => phase.load.describe(),
        };
    };
    let unit = if phase.load.is_open() { "/s" } else { " in flight" };
    let every = show_duration(ramp.every_ns);
    format!("{}..{}{unit} by {}, {every} each, stop: {}", ramp.from, ramp.to, ramp.step, ramp.stop.name())
}

/// Describes the objects of a phase; with reads and puts, also the sizes of the puts.
fn objects(phase: &Phase) -> String {
    let w = &phase.workload;
    let reads = w.mix.shares().iter().any(|(kind, _)| kind.reads());
    let puts = w.mix.share(OperationKind::Put) > 0 && w.recording.is_none();
    let written = if reads && puts {
        format!("; puts of {}{}", sizes(&w.written), reduction(&w.written))
    } else {
        String::new()
    };
    format!("{}{written}", addressed(phase))
}

/// Describes the sizes of the objects of a dataset.
fn sizes(dataset: &Dataset) -> String {
    match &dataset.size {
        Size::Fixed(bytes) => format_size(*bytes),
        other => format!("{other}"),
    }
}

/// Describes what compression and deduplication can save of a dataset; empty if nothing is known of it.
fn reduction(dataset: &Dataset) -> String {
    let Some(reduction) = &dataset.reduction else { return String::new() };
    let copies = match reduction.dedup {
        1.0 => "all different".to_string(),
        copies => format!("{copies} with the same content"),
    };
    format!(" ({:.0}% compressible, {copies})", reduction.compressible * 100.0)
}

/// Describes the objects that a phase reads, deletes or, without reads and deletes, writes.
fn addressed(phase: &Phase) -> String {
    let w = &phase.workload;
    let reads = w.mix.shares().iter().any(|(kind, _)| kind.reads());
    let spare = w.spare.as_ref().filter(|_| w.only_deletes());
    let dataset = w.read.as_ref().filter(|_| reads).or(spare).unwrap_or(&w.written);
    match &dataset.existing {
        Some(existing) => {
            format!("{} (existing objects, at most {})", existing.location, format_count(dataset.count))
        }
        None => {
            let upload = &dataset.upload;
            let parts = if upload.part_size > 0 {
                format!(" in parts of {}, {} in flight", format_size(upload.part_size), upload.in_flight)
            } else {
                String::new()
            };
            let size = sizes(dataset) + &reduction(dataset);
            let range =
                if w.range > 0 { format!(", {} at a time", format_size(w.range)) } else { String::new() };
            let count = format_count(dataset.count);
            format!("{count} x {size}{parts} in {}/{}{range}{}", dataset.name, dataset.naming, popularity(w))
        }
    }
}

/// Describes the popularity of the objects that are read; empty if it is uniform.
fn popularity(w: &Workload) -> String {
    match w.popularity {
        Popularity::Uniform => String::new(),
        Popularity::Sequential => ", sequential".into(),
        Popularity::Reversed => ", reversed".into(),
        Popularity::Shuffled => ", shuffled".into(),
        Popularity::Shifted => ", shifted".into(),
        Popularity::Ranges => ", ranges in order".into(),
        Popularity::Zipfian { theta } => format!(", zipfian {theta}"),
        Popularity::Latest { theta } => format!(", latest {theta}"),
        Popularity::YcsbZipfian { .. } => ", zipfian as in YCSB".into(),
        Popularity::YcsbLatest => ", latest as in YCSB".into(),
        Popularity::Shares { .. } => ", by shares".into(),
        Popularity::Exponential { percentile, objects } => {
            format!(", exponential: {percentile}% of operations on the last {:.0}%", objects * 100.0)
        }
        Popularity::Hotspot { objects, operations } => {
            format!(", {:.0}% of operations on {:.0}% of objects", operations * 100.0, objects * 100.0)
        }
    }
}

/// Returns the numbers of the recorded requests by their kinds.
fn recorded_mix(trace: &Trace) -> Vec<String> {
    let count = |kind| trace.requests().iter().filter(|request| request.kind == kind).count();
    let counts = OperationKind::ALL.map(|kind| (kind, count(kind)));
    counts.iter().filter(|(_, n)| *n > 0).map(|(kind, n)| format!("{kind} {n}")).collect()
}

/// Renders the plan as text.
pub fn render(experiment: &Experiment) -> String {
    let mut out = format!("{}  seed {}\n", experiment.name, experiment.seed);
    if !experiment.description.is_empty() {
        out.push_str(&format!("{}\n", experiment.description));
    }
    let columns = ["phase", "role", "operations", "load", "objects", "count#", "written#", "read#", "time#"];
    let mut table = Table::new("", &columns);
    for phase in &experiment.phases {
        let estimate = of_phase(phase, experiment.repeats);
        let replayed = phase.workload.recording.as_ref().filter(|recording| recording.repeats);
        let mix: Vec<String> = match replayed {
            Some(recording) => recorded_mix(&recording.trace),
            None => phase.workload.mix.shares().iter().map(|(kind, n)| format!("{kind} {n}")).collect(),
        };
        let known = |n: Option<u64>, format: fn(u64) -> String| n.map_or("unknown".into(), format);
        table.row([
            phase.name.clone(),
            phase.role.name().into(),
            mix.join(" "),
            load(phase),
            objects(phase),
            known(estimate.operations, format_count),
            known(estimate.bytes_written, format_bytes),
            known(estimate.bytes_read, format_bytes),
            estimate.duration_ns.map_or("until done".into(), show_duration),
        ]);
    }
    out.push('\n');
    out.push_str(&terminal::plain(&table));
    out.push('\n');
    out.push_str(&format!(
        "{} repeat{} on {} store{}: {} of timed phases per store",
        experiment.repeats,
        if experiment.repeats == 1 { "" } else { "s" },
        experiment.stores.len().max(1),
        if experiment.stores.len() > 1 { "s" } else { "" },
        show_duration(duration_ns(experiment))
    ));
    if experiment.phases.iter().any(|p| p.ramp.is_some_and(|ramp| ramp.stop == Stop::Plateau)) {
        out.push_str(" (less if a ramp reaches its plateau early)");
    }
    out.push_str(&format!("; {}", totals(experiment)));
    if experiment.stores.len() > 1 {
        out.push_str(&format!(", {}\n\n", order(experiment)));
        out.push_str(&sequence(experiment));
    } else {
        out.push('\n');
    }
    out
}

/// Describes the object bytes that all phases write and read on one store.
fn totals(experiment: &Experiment) -> String {
    let estimates: Vec<_> = experiment.phases.iter().map(|p| of_phase(p, experiment.repeats)).collect();
    let total = |of: fn(&PhaseEstimate) -> Option<u64>| {
        let known: u64 = estimates.iter().filter_map(of).sum();
        let all = estimates.iter().all(|estimate| of(estimate).is_some());
        format!("{}{}", if all { "" } else { "at least " }, format_bytes(known))
    };
    format!("{} written and {} read on each store", total(|e| e.bytes_written), total(|e| e.bytes_read))
}

fn order(experiment: &Experiment) -> String {
    match experiment.order {
        Order::Sequential => "one store after another".into(),
        Order::Interleaved => format!(
            "in turns of at most {}, {} of unrecorded warm-up after each change of store",
            show_duration(experiment.block_ns),
            show_duration(experiment.rewarm_ns)
        ),
    }
}

/// Renders the order of the stores in each phase, one letter per recorded phase run.
fn sequence(experiment: &Experiment) -> String {
    let letter = |store: usize| char::from(b'A' + (store % 26) as u8);
    let mut out = String::new();
    let names = short_names(&experiment.stores.iter().map(String::as_str).collect::<Vec<_>>());
    for (number, store) in names.iter().enumerate() {
        out.push_str(&format!("{} = {store}\n", letter(number)));
    }
    let phase_runs = plan(&experiment.phases, experiment.layout(), experiment.stores.len());
    for (number, phase) in experiment.phases.iter().enumerate() {
        let turns: String =
            phase_runs.iter().filter(|s| s.number == number && s.recorded).map(|s| letter(s.store)).collect();
        out.push_str(&format!("{}: {turns}\n", phase.name));
    }
    out
}

/// Describes the smallest difference between two stores that a plan detects in 80% of the cases, predicted from an
/// earlier run; without one, how to obtain the prediction.
pub fn power(experiment: &Experiment, pilot: Option<&Run>) -> String {
    let Some(pilot) = pilot else {
        return "detectable difference: depends on the store; use --pilot RUN with an earlier run to predict it\n".into();
    };
    let mut out = String::new();
    let mut stores: Vec<&str> = pilot.series.iter().map(|series| series.store.as_str()).collect();
    stores.dedup();
    let names = if stores.len() > 1 { short_names(&stores) } else { Vec::new() };
    let names: BTreeMap<&str, String> = stores.iter().copied().zip(names).collect();
    for phase in experiment.phases.iter().filter(|p| p.role == Role::Measure) {
        let Some(length_ns) = phase.limit.duration_ns else { continue };
        let planned_s = length_ns as f64 / 1e9 * f64::from(experiment.repeats);
        for series in pilot.series.iter().filter(|s| s.role == Role::Measure && s.phase == phase.name) {
            let metrics = [0.5, 0.99].map(|q| Metric::Percentile(series.clocked(), q));
            let rate = (!series.open).then_some(Metric::Rate);
            for metric in metrics.into_iter().chain(rate) {
                let metric_name = metric.name(series.clocked());
                let own = if phase.name == series.operation.to_string() {
                    format!("{} {metric_name}", series.operation)
                } else {
                    format!("{} {} {metric_name}", phase.name, series.operation)
                };
                let store = names.get(series.store.as_str());
                let store = store.map_or(String::new(), |name| format!(" of {}", name.trim_end_matches(':')));
                let name = format!("{own}{store}");
                out += &match detectable(series, metric, planned_s) {
                    Some(share) => format!(
                        "detectable difference in {name}: {:.1}% in 80% of the cases\n",
                        100.0 * share
                    ),
                    None => format!(
                        "detectable difference in {name}: unknown, because the pilot has no interval\n"
                    ),
                };
            }
        }
    }
    if out.is_empty() {
        return "detectable difference: the pilot did not measure a phase of this plan\n".into();
    }
    out
}
