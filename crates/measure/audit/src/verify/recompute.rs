//! Computes the figures of a run again: those of windows from the interval log and from the histograms of the result,
//! the confidence intervals and the objectives from the log.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plimsoll_recorder::histogram::Latencies;
use plimsoll_recorder::latency::Latency;
use plimsoll_recorder::sparse::{MAX_US, bucket_of, edges_us};
use plimsoll_recorder::tally::Tally;
use serde_json::json;

use super::differences::count;
use plimsoll_judge::run_dir::merge::LogTotal;
use plimsoll_judge::run_dir::run::Run;
use plimsoll_judge::run_dir::size_log;
use plimsoll_judge::summary::addresses;
use plimsoll_judge::summary::caches::caches;
use plimsoll_judge::summary::estimates::confidence_intervals;
use plimsoll_judge::summary::latencies::{of_histogram, set, sums};
use plimsoll_judge::summary::merge::overall;
use plimsoll_judge::summary::objective::Objective;
use plimsoll_judge::summary::objectives::judge;
use plimsoll_judge::summary::percentiles::PERCENTILES;
use plimsoll_judge::summary::result::{LoopKind, OWN_WINDOWS, Percentiles, RunResult, Window};
use plimsoll_judge::summary::saturation::saturated;
use plimsoll_judge::summary::size_classes;
use plimsoll_judge::summary::sweeps::sweeps;

/// Figures that were computed again.
pub struct Recomputed {
    /// The result with these figures in the place of the stated ones.
    pub result: RunResult,
    /// Number of figures.
    pub figures: usize,
    /// Contradictions within a histogram or the text of an objective.
    pub problems: Vec<String>,
}

/// Sums of the logs of a run.
#[derive(Clone, Copy)]
pub struct Logs<'a> {
    /// Sums of the interval log.
    pub totals: &'a [LogTotal],
    /// Sums of the log of size classes; none if the log does not exist.
    pub sizes: &'a [LogTotal],
}

/// Computes the figures of a run again. `logs` is `None` if the run has not finished, because a run that was killed has
/// written its logs further than its result.
pub fn recompute(run: &Run, logs: Option<Logs<'_>>) -> Recomputed {
    let has_finished = logs.is_some();
    let none = Tally::default();
    let mut out = Recomputed { result: run.result.clone(), figures: 0, problems: Vec::new() };
    if let Some(Logs { totals, sizes }) = logs {
        // The rates of a merged run are sums of those of its shards, whose windows differ in length.
        let is_merged = run.result.run.shards.len() > 1;
        for window in &mut out.result.windows {
            let total = totals.iter().find(|total| is_of(window, total)).map(|total| &total.tally);
            let tally = total.unwrap_or(&none);
            out.figures += counts(window, tally) + if is_merged { 0 } else { rates(window, tally) };
            if !is_merged && run.result.schema >= OWN_WINDOWS {
                out.figures += in_flight(window, tally);
            }
            set_classes(window, sizes);
        }
    }
    for (number, window) in out.result.windows.iter_mut().enumerate() {
        let parts = [size_classes::contradiction(window), addresses::contradiction(window)];
        let problems = ends(window).into_iter().chain(parts.into_iter().flatten());
        out.problems.extend(problems.map(|problem| format!("windows[{number}]: {problem}")));
        out.figures +=
            from_histograms(window) + size_classes::recompute(window) + addresses::recompute(window);
    }
    // Otherwise nobody would find that all of them were removed.
    if has_finished || !run.result.confidence.is_empty() {
        out.result.confidence = confidence_intervals(&run.series);
        out.figures += count(&json!(out.result.confidence));
    }
    // Merged runs have no sweeps.
    if has_finished && run.result.run.shards.len() < 2 {
        let merged = overall(&out.result.windows);
        (out.result.sweeps, out.result.caches) = (sweeps(&merged), caches(&merged));
        out.figures += count(&json!([&out.result.sweeps, &out.result.caches]));
    }
    objectives(run, &mut out);
    out
}

fn is_of(window: &Window, total: &LogTotal) -> bool {
    is_of_class(window, total, window.operation.name())
}

/// Returns whether a sum belongs to the operations with this name in the phase run of a window.
fn is_of_class(window: &Window, total: &LogTotal, operation: &str) -> bool {
    let place = (&*total.store, &*total.phase, total.repeat, total.block, total.step, &*total.operation);
    place == (&window.store, &window.phase, window.repeat, window.block, window.step, operation)
}

/// Sets the histograms of the size classes of a window to the sums of their log.
fn set_classes(window: &mut Window, sizes: &[LogTotal]) {
    for class in window.size_classes.clone() {
        let name = size_log::name(window.operation, class.from_bytes);
        let total = sizes.iter().find(|total| is_of_class(window, total, &name));
        let histogram =
            total.map_or_else(Latencies::default, |total| total.tally.latencies[Latency::Service].clone());
        window.histograms.insert(class.histogram(), STANDARD.encode(histogram.to_bytes()));
    }
}

/// Sets the counts and histograms of a window to the sums of the log. Returns the number of figures.
fn counts(window: &mut Window, tally: &Tally) -> usize {
    window.operations = tally.operations;
    window.censored = tally.censored;
    window.errors.clone_from(&tally.errors);
    for kind in Latency::LOGGED {
        let latencies = &tally.latencies[kind];
        if latencies.is_empty() {
            window.histograms.remove(kind.name());
        } else {
            window.histograms.insert(kind.name().into(), STANDARD.encode(latencies.to_bytes()));
        }
    }
    2 + window.errors.len() + Latency::LOGGED.len()
}

/// Sets the rates and the bytes of a window to the sums of the log. Returns the number of figures.
fn rates(window: &mut Window, tally: &Tally) -> usize {
    let per_s = |count: f64| count / window.window_s;
    window.achieved_per_s = per_s(tally.completed as f64);
    window.offered_per_s = window.offered_per_s.map(|_| per_s(tally.intended as f64));
    window.throughput_bytes_per_s = per_s(tally.bytes);
    window.bytes = tally.bytes.round() as u64;
    4
}

/// Sets the operations in flight, and what follows from them, to the sums of the log. Returns the number of figures.
fn in_flight(window: &mut Window, tally: &Tally) -> usize {
    window.in_flight_mean = tally.in_flight_ns as f64 / 1e9 / window.window_s;
    window.saturated = window.loop_ == LoopKind::Open && saturated(tally, window.in_flight_mean);
    2
}

/// Sets the percentiles of a window to what its histograms say. Returns the number of figures.
fn from_histograms(window: &mut Window) -> usize {
    let stated = window.clone();
    set(window, &sums(&[&stated]), window.loop_ == LoopKind::Open);
    // The exact ends of both parts of these are not known.
    let (out, before) = (&mut window.disturbances, &stated.disturbances);
    out.service_without_pauses_ms.clone_from(&before.service_without_pauses_ms);
    out.response_without_pauses_ms.clone_from(&before.response_without_pauses_ms);
    if let (Some(computed), Some(stated)) = (&mut window.response_ms, &stated.response_ms)
        && window.censored > 0
    {
        accept_ends(computed, stated);
    }
    let all =
        [&window.service_ms, &window.first_byte_ms, &window.body_ms, &window.connect_ms, &window.tls_ms];
    let more = [&window.failed_ms, &window.attempt_ms, &window.start_lag_ms];
    let all = all.into_iter().chain(more).chain(&window.response_ms);
    all.map(|percentiles| count(&json!(percentiles))).sum()
}

fn bucket(ms: f64) -> usize {
    bucket_of((ms * 1e3).round() as u64)
}

/// Keeps the stated values that lie in the bucket of the computed ones. Among censored operations, the exact minimum
/// and maximum of those that ended are not known, and a percentile may be the maximum.
fn accept_ends(computed: &mut Percentiles, stated: &Percentiles) {
    let is_same = |a: f64, b: f64| bucket(a) == bucket(b);
    let keep = |mine: &mut Option<f64>, theirs: Option<f64>| {
        if let (Some(a), Some(b)) = (*mine, theirs)
            && is_same(a, b)
        {
            *mine = theirs;
        }
    };
    keep(&mut computed.min, stated.min);
    keep(&mut computed.p50, stated.p50);
    keep(&mut computed.p90, stated.p90);
    keep(&mut computed.p95, stated.p95);
    keep(&mut computed.p99, stated.p99);
    keep(&mut computed.p99_9, stated.p99_9);
    for name in PERCENTILES.map(|(name, _)| name).into_iter().chain(["max"]) {
        if let (Some(mine), Some(theirs)) =
            (computed.lower_bounds.get_mut(name), stated.lower_bounds.get(name))
            && is_same(*mine, *theirs)
        {
            *mine = *theirs;
        }
    }
}

/// Returns each exact minimum, mean or maximum that does not fit the buckets of its histogram.
fn ends(window: &Window) -> Vec<String> {
    let kinds = [
        (Latency::Service, &window.service_ms),
        (Latency::FirstByte, &window.first_byte_ms),
        (Latency::Body, &window.body_ms),
        (Latency::Connect, &window.connect_ms),
        (Latency::Tls, &window.tls_ms),
        (Latency::Failed, &window.failed_ms),
        (Latency::Attempt, &window.attempt_ms),
        (Latency::StartLag, &window.start_lag_ms),
    ];
    let problem = |(kind, stated): (Latency, &Percentiles)| {
        let own = of_histogram(window, kind.name(), None);
        let name = misfit(&own, stated)?;
        Some(format!("the {name} of {} does not fit its histogram", kind.name()))
    };
    let classes = window.size_classes.iter().map(|class| (class.histogram(), &class.service_ms));
    let addresses = window.addresses.iter().map(|address| (address.histogram(), &address.service_ms));
    let of_part = |(histogram, stated): (String, &Percentiles)| {
        let name = misfit(&of_histogram(window, &histogram, None), stated)?;
        Some(format!("the {name} of {histogram} does not fit its histogram"))
    };
    kinds.into_iter().filter_map(problem).chain(classes.chain(addresses).filter_map(of_part)).collect()
}

/// Returns the name of the first value that lies outside the buckets.
fn misfit(own: &Latencies, stated: &Percentiles) -> Option<&'static str> {
    let histogram = own.histogram()?;
    let (mut low, mut high, mut n) = (0.0, 0.0, 0.0);
    let mut at_ends = [None, None];
    for value in histogram.iter_recorded() {
        let bucket = bucket_of(value.value_iterated_to());
        let (from, to) = edges_us(bucket);
        let times = value.count_at_value() as f64;
        // Values are rounded to whole microseconds, and counted as at least one and at most an hour.
        low += if from > 1 { times * (from as f64 - 0.5) } else { 0.0 };
        high += if to < MAX_US { times * (to as f64 + 0.5) } else { f64::INFINITY };
        n += times;
        at_ends = [at_ends[0].or(Some(bucket)), Some(bucket)];
    }
    let outside = |stated: Option<f64>, at: Option<usize>| {
        stated.zip(at).is_some_and(|(ms, at)| bucket(ms.max(0.001)) != at)
    };
    let mean_us = stated.mean.map(|ms| ms * 1e3);
    if mean_us.is_some_and(|mean| mean < low / n * (1.0 - 1e-9) || mean > high / n * (1.0 + 1e-9)) {
        return Some("mean");
    }
    if outside(stated.min, at_ends[0]) {
        return Some("minimum");
    }
    outside(stated.max, at_ends[1]).then_some("maximum")
}

/// Judges the objectives of the result again.
fn objectives(run: &Run, out: &mut Recomputed) {
    let mut texts: Vec<&str> = Vec::new();
    for figures in &run.result.objectives {
        if !texts.contains(&&*figures.objective) {
            texts.push(&figures.objective);
        }
    }
    let parsed: Result<Vec<Objective>, _> = texts.into_iter().map(Objective::parse).collect();
    match parsed {
        Ok(parsed) => {
            out.result.objectives = judge(run.all_series(), &parsed);
            out.figures += count(&json!(out.result.objectives));
        }
        Err(error) => out.problems.push(error.to_string()),
    }
}
