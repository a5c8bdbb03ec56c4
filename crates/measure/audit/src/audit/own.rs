//! Facts about runs of Plimsoll, and about runs that it imported from logs of other tools.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{ClientLoad, Facts, Interval, Measurement};
use plimsoll_judge::run_dir::environment::StoreFacts;
use plimsoll_judge::run_dir::run::Run;
use plimsoll_judge::summary::result::{LoopKind, Percentiles, RunResult, Window};
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Role;

/// Returns the facts about runs of one experiment, which are repeats of it. `contradictions` are those that a
/// verification found in any of them. `server_memory` is the memory of the server in bytes, if the user gave it.
pub fn of_runs(runs: &[Run], contradictions: Vec<String>, server_memory: Option<u64>) -> Facts {
    let Some(first) = runs.first() else { return Facts::default() };
    let results: Vec<&RunResult> = runs.iter().map(|run| &run.result).collect();
    let mut facts = of_results(&results);
    let imported = first.result.run.imported.is_some();
    facts.contradictions = Some(contradictions);
    facts.server_memory_bytes = server_memory.or_else(|| first.environment.memory_of_local_stores());
    let phases = first.experiment_table();
    let phases = phases.get("phase").and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let of_role = |wanted: &str| {
        let wanted = wanted.to_string();
        phases.iter().filter(move |phase| {
            phase.get("role").and_then(toml::Value::as_str).unwrap_or("measure") == wanted
        })
    };
    let declared: BTreeSet<&str> =
        of_role("measure").filter_map(|phase| phase.get("cache").and_then(toml::Value::as_str)).collect();
    if let Some(state) = declared.first().filter(|_| declared.len() == 1) {
        facts.cache = Some((*state).to_string());
    }
    if !imported {
        facts.has_warmup = Some(
            of_role("warmup").count() > 0
                || first.experiment_table().contains_key("rewarm") && facts.stores > 1,
        );
        let unchecked =
            of_role("measure").any(|p| p.get("verify").and_then(toml::Value::as_str) == Some("off"));
        facts.checks_content = Some(!unchecked);
        facts.takes_turns = first
            .experiment_table()
            .get("order")
            .and_then(toml::Value::as_str)
            .map(|order| order != "sequential");
        for one in &mut facts.measurements {
            one.is_service_time = true;
        }
    }
    facts.undisclosed = undisclosed(first);
    facts
}

/// Place of windows: store, phase, step and operation.
type Place = (String, String, Option<u32>, OperationKind);

/// Returns what results show, without their directories.
fn of_results(results: &[&RunResult]) -> Facts {
    let Some(first) = results.first() else { return Facts::default() };
    let mut places: BTreeMap<Place, Vec<(usize, &Window)>> = BTreeMap::new();
    for (number, result) in results.iter().enumerate() {
        for window in result.windows.iter().filter(|window| window.role == Role::Measure) {
            let place = (window.store.clone(), window.phase.clone(), window.step, window.operation);
            places.entry(place).or_default().push((number, window));
        }
    }
    let prepared = first.windows.iter().filter(|window| window.role == Role::Prepare);
    let (bytes, objects) = prepared.fold((0, 0), |sum, w| (sum.0 + w.bytes, sum.1 + w.operations));
    let stores = first.stores().len().max(1) as u64;
    let imported = first.run.imported.as_ref();
    let subject = match results {
        [one] => one.run.id.clone(),
        several => format!("{}, with {} more of its experiment,", first.run.id, several.len() - 1),
    };
    Facts {
        subject,
        tool: imported.cloned().unwrap_or_else(|| format!("Plimsoll {}", first.run.version)),
        measurements: places.values().map(|windows| measurement(results, windows)).collect(),
        is_complete: imported
            .is_none()
            .then(|| results.iter().all(|result| !result.run.partial && result.run.degraded.is_none())),
        cache: first.run.labels.get("cache").cloned(),
        working_set_bytes: (bytes > 0).then_some(bytes / stores),
        working_set_objects: (objects > 0).then_some(objects / stores),
        stores: stores as usize,
        ..Facts::default()
    }
}

/// Returns the figures of one place from its windows, each with the number of its run.
fn measurement(results: &[&RunResult], windows: &[(usize, &Window)]) -> Measurement {
    let first = windows[0].1;
    let open_loop = first.loop_ == LoopKind::Open;
    let metric = if open_loop { "p50" } else { "rate" };
    let sum = |count: &dyn Fn(&Window) -> u64| windows.iter().map(|(_, window)| count(window)).sum::<u64>();
    let measured_s: f64 = windows.iter().map(|(_, window)| window.window_s).sum();
    let times = |window: &Window| -> Percentiles {
        window.response_ms.clone().filter(|_| open_loop).unwrap_or_else(|| window.service_ms.clone())
    };
    let shares = [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];
    let shown = shares.iter().filter(|(name, _)| windows.iter().any(|(_, w)| times(w).get(name).is_some()));
    let figures = results[windows[0].0].confidence.iter().find(|figure| {
        let place = figure.store == first.store && figure.phase == first.phase && figure.step == first.step;
        place && figure.operation == first.operation && figure.metric == metric
    });
    let interval = figures
        .and_then(|figure| Some(Interval { value: figure.value?, low: figure.low?, high: figure.high? }));
    let needed_s = figures.and_then(|figure| figure.duration_needed_s);
    let limited = windows.iter().find_map(|(_, window)| window.client_limited.clone());
    let is_imported = results[windows[0].0].run.imported.is_some();
    let missed = windows.iter().find(|(_, window)| window.saturated);
    let operations = sum(&|window| window.operations);
    Measurement {
        name: format!("{} on {}", first.place(), first.store),
        reads: matches!(first.operation, OperationKind::Get),
        figure: metric.into(),
        values: values(windows, &times, open_loop),
        interval,
        measured_s: Some(measured_s),
        needed_s,
        operations: Some(operations),
        failed: Some(sum(&|window| window.errors.values().sum())),
        open_loop: Some(open_loop),
        is_service_time: false,
        missed_rate: missed
            .map(|(_, window)| (window.offered_per_s.unwrap_or_default(), window.achieved_per_s)),
        percentiles: shown.map(|(_, share)| *share).collect(),
        samples: Some(sum(&|window| times(window).n)),
        has_times: windows.iter().any(|(_, window)| times(window).n > 0),
        client: match (limited, is_imported) {
            (Some(why), _) => ClientLoad::Limited(why),
            (None, true) => ClientLoad::Unknown,
            (None, false) => ClientLoad::Free,
        },
        paused_share: (!is_imported).then(|| {
            windows.iter().map(|(_, window)| window.disturbances.pauses_s).sum::<f64>() / measured_s.max(1e-9)
        }),
    }
}

/// Returns the primary figure of each repeat: the mean of its windows, weighted by their lengths.
fn values(windows: &[(usize, &Window)], times: &dyn Fn(&Window) -> Percentiles, open_loop: bool) -> Vec<f64> {
    let mut repeats: BTreeMap<(usize, u32), (f64, f64)> = BTreeMap::new();
    for (run, window) in windows {
        let value = if open_loop { times(window).p50 } else { Some(window.achieved_per_s) };
        let Some(value) = value else { continue };
        let sum = repeats.entry((*run, window.repeat)).or_default();
        *sum = (sum.0 + value * window.window_s, sum.1 + window.window_s);
    }
    repeats.values().map(|(sum, weight)| sum / weight.max(f64::MIN_POSITIVE)).collect()
}

/// Returns the facts that a repeat needs and that the directory lacks.
fn undisclosed(run: &Run) -> Vec<String> {
    let environment = &run.environment;
    let is_unknown = |store: &StoreFacts| store.provider.is_empty() && store.endpoint.is_empty();
    let missing = [
        ("experiment", run.experiment_table().get("phase").is_none()),
        ("version of the tool", environment.version.is_empty()),
        ("command", environment.command.is_empty()),
        (
            "machine of the client",
            environment.machine.cpu.is_empty() || environment.machine.kernel.is_empty(),
        ),
        ("store", environment.stores.is_empty() || environment.stores.iter().any(is_unknown)),
        ("start time", run.result.run.started_at.is_empty()),
    ];
    missing.into_iter().filter(|(_, is_missing)| *is_missing).map(|(name, _)| name.to_string()).collect()
}
