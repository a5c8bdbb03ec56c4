//! Builds the candidates: judges the runs of each store by the objectives, computes its bill, and lists what
//! was not measured.

use std::collections::{BTreeMap, BTreeSet};

use super::projection::MONTH_S;
use super::sizes::{OtherSizes, is_near};
use super::{Candidate, Evidence, MeasuredFigure, ObjectiveFinding, recommended};
use plimsoll_base::provider::calls::Call;
use plimsoll_base::provider::is_own_host;
use plimsoll_base::units::{format_bytes, format_per_s, short_names};
use plimsoll_cost::bill::bill;
use plimsoll_cost::book::StoreTariff;
use plimsoll_cost::published::{Published, named};
use plimsoll_cost::request::CostRequest;
use plimsoll_cost::tariff::Tariff;
use plimsoll_cost::usage::Usage;
use plimsoll_judge::run_dir::environment::StoreFacts;
use plimsoll_judge::run_dir::run::Run;
use plimsoll_judge::summary::estimates::{Estimator, Metric};
use plimsoll_judge::summary::failures::Failures;
use plimsoll_judge::summary::objective::{Finding, Objective};
use plimsoll_judge::summary::objective_result::ObjectiveResult;
use plimsoll_judge::summary::result::Window;
use plimsoll_judge::summary::series::{LatencyKind, Series};
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Role;

/// Error of advice that is asked of runs, documents or prices that do not fit; the message names the flag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AdviceError(String);

impl AdviceError {
    fn new(message: impl std::fmt::Display) -> AdviceError {
        AdviceError(message.to_string())
    }
}

/// Sources of advice besides runs.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Prices of measured stores, as `STORE=NAME`.
    pub price: Vec<String>,
    /// Names of published documents.
    pub published: Vec<String>,
}

/// Requests of a workload that a run can measure, each with the name of its operation.
const OPERATIONS: [(Call, &str); 6] = [
    (Call::PutObject, "put"),
    (Call::GetObject, "get"),
    (Call::HeadObject, "head"),
    (Call::ListObjects, "list"),
    (Call::CopyObject, "copy"),
    (Call::DeleteObject, "delete"),
];

/// Returns an objective about the latency that ranks the stores. It is the first objective about a latency,
/// else the p99 of `get`, or of the first measured operation if `get` was not measured.
///
/// # Errors
/// [`AdviceError`] if the name of the measured operation cannot be used in an objective.
pub fn ranking(objectives: &[Objective], runs: &[Run]) -> Result<Objective, AdviceError> {
    let is_latency = |o: &&Objective| {
        matches!(Metric::from_name(&o.target.metric, LatencyKind::Service), Some(Metric::Percentile(..)))
    };
    if let Some(objective) = objectives.iter().find(is_latency) {
        return Ok(objective.clone());
    }
    let measured: Vec<&str> = runs
        .iter()
        .flat_map(|r| r.series.iter().filter(|s| s.role == Role::Measure).map(|s| s.operation.name()))
        .collect();
    let operation = if measured.is_empty() || measured.contains(&"get") { "get" } else { measured[0] };
    Objective::parse(&format!("{operation}.p99 < 1h")).map_err(AdviceError::new)
}

/// Returns the latency that ranks a store: the highest of its phases; `None` if it was not measured.
fn latency(run: &Run, store: &str, others: &OtherSizes, ranking: &Objective) -> Option<MeasuredFigure> {
    let own = |s: &Series| s.store == store && others.counts(s, ranking);
    let figures = run.subjects(ranking).into_iter().filter(own).filter_map(|series| {
        let metric = Metric::from_name(&ranking.target.metric, series.clocked())?;
        let estimate = Estimator::new(&series).estimate(metric);
        let (_, scale) = metric.unit();
        let ends = estimate.confidence.ends();
        Some(MeasuredFigure {
            value: estimate.value? * scale,
            low: ends.map(|(low, _)| low * scale),
            high: ends.map(|(_, high)| high * scale),
        })
    });
    figures.max_by(|a, b| a.value.total_cmp(&b.value))
}

/// Judges a store by an objective. Returns the worst result of its series, without those of other object sizes.
fn judge(run: &Run, store: &str, others: &OtherSizes, objective: &Objective) -> ObjectiveFinding {
    let rank = |f: &Finding| match f.outcome {
        ObjectiveResult::Fail => 2,
        ObjectiveResult::Inconclusive => 1,
        ObjectiveResult::Pass => 0,
    };
    let own = |s: &Series| s.store == store && others.counts(s, objective);
    let findings = run.subjects(objective).into_iter().filter(own);
    let finding = findings.map(|series| objective.judge(&series)).max_by_key(rank);
    ObjectiveFinding { objective: objective.text.clone(), finding }
}

/// Returns true if the endpoint of a store belongs to its provider.
pub fn at_home(facts: &StoreFacts) -> bool {
    let host = facts.endpoint.split_once("://").map_or(facts.endpoint.as_str(), |(_, rest)| rest);
    is_own_host(&facts.provider, host.split(':').next().unwrap_or_default())
}

/// Returns the prices of a measured store, whether it was measured at the provider whose prices apply, and a
/// remark about the prices.
///
/// # Errors
/// [`AdviceError`] if `--price` is invalid or no prices are known.
fn tariff(
    request: &CostRequest,
    sources: &Sources,
    facts: &StoreFacts,
    name: &str,
    short: &str,
) -> Result<(Tariff, bool, Option<String>), AdviceError> {
    for text in &sources.price {
        let wrong = || {
            AdviceError::new(format!("--price '{text}' is not in the form STORE=NAME, such as {name}=aws-s3"))
        };
        let (store, offer) = text.rsplit_once('=').ok_or_else(wrong)?;
        if store == name || store == short || store == facts.url {
            let tariff = request.tariff("--price", offer).map_err(AdviceError::new)?;
            let own = request.prices.offer(&tariff.offer).and_then(|o| o.provider.as_deref());
            return Ok((tariff, at_home(facts) && own == Some(facts.provider.as_str()), None));
        }
    }
    let (region, class) = (facts.region.as_deref(), facts.storage_class.as_deref());
    let found =
        request.prices.of_store(&facts.provider, region, class, request.date).map_err(AdviceError::new)?;
    let StoreTariff { tariff, note, .. } = found.ok_or_else(|| {
        AdviceError::new(format!(
            "{name}: no prices are known for provider {}; specify prices from `plimsoll list prices`, such \
             as --price '{name}=aws-s3'",
            facts.provider
        ))
    })?;
    Ok((tariff, at_home(facts), note))
}

/// Returns a remark if the mean object size of the windows is less than half or more than twice that of the
/// workload.
pub fn other_size(subject: &str, windows: &[&Window], workload_bytes: u64) -> Option<String> {
    let sum = |of: fn(&Window) -> u64| windows.iter().map(|w| of(w)).sum::<u64>();
    let mean = sum(|w| w.bytes).checked_div(sum(Window::succeeded)).unwrap_or(0);
    let far = mean > 0 && workload_bytes > 0 && !is_near(mean, workload_bytes);
    let (mean, expected) = (format_bytes(mean), format_bytes(workload_bytes));
    far.then(|| {
        format!("{subject} was measured with objects of {mean}, but the workload uses objects of {expected}")
    })
}

/// Returns the differences between the measurement of a store and the workload.
fn gaps(windows: &[&Window], usage: &Usage) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for operation in [OperationKind::Get, OperationKind::Put] {
        let own: Vec<&Window> = windows.iter().copied().filter(|w| w.operation == operation).collect();
        out.extend(other_size(operation.name(), &own, usage.object_bytes));
    }
    let unmeasured: Vec<&str> = OPERATIONS
        .into_iter()
        .filter(|(call, name)| {
            usage.calls.get(*call) > 0 && !windows.iter().any(|w| w.operation.name().starts_with(name))
        })
        .map(|(_, name)| name)
        .collect();
    if !unmeasured.is_empty() {
        out.push(format!("the run did not measure {} on this store", unmeasured.join(", ")));
    }
    let sum = |value: fn(&Window) -> u64| windows.iter().map(|w| value(w)).sum::<u64>();
    let failed = sum(|w| w.errors.values().sum()) as f64 / sum(|w| w.operations).max(1) as f64;
    if failed >= 0.001 {
        out.push(format!("{:.1}% of its operations failed", 100.0 * failed));
    }
    out.extend(rate(windows, usage));
    out
}

/// Returns a remark if the workload needs a higher rate than was measured.
fn rate(windows: &[&Window], usage: &Usage) -> Option<String> {
    let mut rates: BTreeMap<_, f64> = BTreeMap::new();
    for w in windows {
        *rates.entry((w.phase.as_str(), w.repeat, w.block, w.step)).or_default() += w.achieved_per_s;
    }
    let most = rates.values().copied().fold(0.0, f64::max);
    let needed = usage.calls.total() as f64 / MONTH_S;
    (needed > most).then(|| {
        format!(
            "the workload needs {}/s on average, but the highest measured rate is {}/s",
            format_per_s(needed),
            format_per_s(most)
        )
    })
}

/// Returns remarks on the figures of a store: client limits, a partial run.
fn remarks(windows: &[&Window], partial: bool) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    if let Some(reason) = windows.iter().find_map(|w| w.client_limited.as_ref()) {
        out.push(format!("the client was the bottleneck ({reason}); the store may be faster"));
    }
    if partial {
        out.push("its run is partial".into());
    }
    out
}

/// Returns the name of a store with the ID of its run, to distinguish stores of the same name in several runs.
fn with_run(short: &str, run: &Run) -> String {
    format!("{short} ({})", run.result.run.id)
}

/// Returns the short names that stores of several runs share.
pub fn repeated(runs: &[Run]) -> BTreeSet<String> {
    // A run that is given twice counts once.
    let ids: BTreeMap<&str, &Run> = runs.iter().map(|run| (run.result.run.id.as_str(), run)).collect();
    let mut seen = BTreeSet::new();
    let names = ids.values().flat_map(|run| short_names(&run.measured()));
    names.filter(|name| !seen.insert(name.clone())).collect()
}

/// Returns the stores that a run measured. Stores without a bill for the workload are added to `left_out`
/// instead, with the reason.
///
/// # Errors
/// [`AdviceError`] if no prices are known for a store.
pub fn of_run(
    run: &Run,
    request: &CostRequest,
    sources: &Sources,
    objectives: &[Objective],
    ranking: &Objective,
    repeated: &BTreeSet<String>,
    left_out: &mut Vec<String>,
) -> Result<Vec<Candidate>, AdviceError> {
    let stores = run.measured();
    let mut out = Vec::new();
    for (store, short) in stores.iter().zip(short_names(&stores)) {
        let name = match repeated.contains(&short) {
            true => with_run(&short, run),
            false => short.clone(),
        };
        let mut windows: Vec<&Window> =
            run.result.windows.iter().filter(|w| w.role == Role::Measure && w.store == **store).collect();
        let others = OtherSizes::of(&windows, request.usage.object_bytes);
        windows.retain(|window| others.counts_window(window));
        let facts = run.environment.stores.iter().find(|f| f.url == **store).cloned().unwrap_or_default();
        let (tariff, home, note) = tariff(request, sources, &facts, &name, &short)?;
        let bill = match bill(&tariff, &request.usage) {
            Ok(bill) => bill,
            Err(why) => {
                left_out.push(format!("{name} is left out because its bill cannot be computed: {why}"));
                continue;
            }
        };
        out.push(Candidate {
            name,
            from: run.result.run.id.clone(),
            evidence: match (&run.result.run.imported, home) {
                (Some(_), _) => Evidence::Imported,
                (None, true) => Evidence::Measured,
                (None, false) => Evidence::Emulated,
            },
            tariff,
            bill,
            held: objectives.iter().map(|o| judge(run, store, &others, o)).collect(),
            latency: latency(run, store, &others, ranking),
            gaps: gaps(&windows, &request.usage),
            remarks: remarks(&windows, run.result.run.partial).into_iter().chain(note).collect(),
            failures: Failures::of(
                run.series.iter().filter(|s| s.role == Role::Measure && s.store == **store),
            ),
            fails_more: false,
        });
    }
    Ok(out)
}

/// Judges a published figure by an objective. Only the value decides, because its confidence interval is
/// unknown.
fn judge_published(document: &Published, store: &str, objective: &Objective) -> ObjectiveFinding {
    let operation = objective.target.operation.as_deref().unwrap_or("get");
    let known = document.percentiles(store, operation);
    let Some(Metric::Percentile(_, q)) = Metric::from_name(&objective.target.metric, LatencyKind::Service)
    else {
        return ObjectiveFinding { objective: objective.text.clone(), finding: None };
    };
    let value = known.iter().find(|(share, _)| (share - q).abs() < 1e-9).map(|(_, ms)| *ms);
    let finding = value.map(|ms| Finding {
        outcome: if ms * 1e6 < objective.bound { ObjectiveResult::Pass } else { ObjectiveResult::Fail },
        detail: format!("{ms} ms as published"),
        duration_needed_s: None,
        as_measured: Some(ms * 1e6 < objective.bound),
        client_limited: None,
        unseen_stalls: None,
    });
    ObjectiveFinding { objective: objective.text.clone(), finding }
}

/// Returns the stores of a published document for which it states the latency that ranks them.
///
/// # Errors
/// [`AdviceError`] if there is no such document, or it states this latency for none of its stores.
pub fn of_document(
    name: &str,
    request: &CostRequest,
    objectives: &[Objective],
    ranking: &Objective,
    left_out: &mut Vec<String>,
) -> Result<Vec<Candidate>, AdviceError> {
    let wrong = |e: &dyn std::fmt::Display| AdviceError::new(format!("--published {name}: {e}"));
    let document = named(name).map_err(|e| wrong(&e))?;
    let operation = ranking.target.operation.as_deref().unwrap_or("get");
    let Some(Metric::Percentile(_, q)) = Metric::from_name(&ranking.target.metric, LatencyKind::Service)
    else {
        return Ok(Vec::new());
    };
    let mut out = Vec::new();
    for (store, offer) in &document.stores {
        let known = document.percentiles(store, operation);
        let Some((_, value)) = known.iter().find(|(share, _)| (share - q).abs() < 1e-9) else { continue };
        let tariff = request.prices.tariff(offer, None, request.date).map_err(|e| wrong(&e))?;
        let name = format!("{store} in {}", document.name);
        let bill = match bill(&tariff, &request.usage) {
            Ok(bill) => bill,
            Err(why) => {
                left_out.push(format!("{name} is left out because its bill cannot be computed: {why}"));
                continue;
            }
        };
        let rows = document.rows.iter().filter(|r| r.store == *store && r.operation == operation);
        let workload = rows.map(|r| r.workload.clone()).next();
        out.push(Candidate {
            name,
            from: document.name.clone(),
            evidence: Evidence::Published,
            tariff,
            bill,
            held: objectives.iter().map(|o| judge_published(&document, store, o)).collect(),
            latency: Some(MeasuredFigure { value: *value, low: None, high: None }),
            gaps: workload
                .filter(|w| !w.is_empty())
                .map(|w| format!("published for {w}"))
                .into_iter()
                .collect(),
            remarks: Vec::new(),
            failures: Failures::default(),
            fails_more: false,
        });
    }
    if out.is_empty() && left_out.is_empty() {
        return Err(wrong(&format!(
            "the document does not contain {operation}.{}; `plimsoll published show {name}` shows its \
             figures",
            ranking.target.metric
        )));
    }
    Ok(out)
}

/// Returns what was not measured: operations of the workload, then other stores with their bills, cheapest
/// first.
pub fn missing(request: &CostRequest, candidates: &[Candidate], runs: &[Run]) -> Vec<String> {
    let mut out = Vec::new();
    let measured = |operation: &str| {
        runs.iter().any(|r| {
            r.series.iter().any(|s| s.role == Role::Measure && s.operation.name().starts_with(operation))
        })
    };
    for (call, operation) in OPERATIONS {
        if !runs.is_empty() && request.usage.calls.get(call) > 0 && !measured(operation) {
            out.push(format!("{operation}, although the workload contains it"));
        }
    }
    let best = recommended(candidates).map(|at| candidates[at].bill.total_usd);
    let mut others: Vec<(plimsoll_cost::money::Usd, String)> = Vec::new();
    let mut refused = Vec::new();
    for name in request.prices.stores() {
        if candidates.iter().any(|c| c.tariff.offer == name) {
            continue;
        }
        let priced = request.prices.tariff(name, None, request.date).map_err(|e| e.to_string());
        // Reads from an archive class take hours.
        if priced.as_ref().is_ok_and(|tariff| tariff.rules.restore_hours > 0) {
            continue;
        }
        match priced.and_then(|tariff| bill(&tariff, &request.usage).map_err(|e| e.to_string())) {
            Ok(bill) => others.push((bill.total_usd, name.to_string())),
            Err(why) => refused.push(format!("{name}, whose bill cannot be computed: {why}")),
        }
    }
    others.sort();
    for (usd, name) in others {
        let cheaper = if best.is_some_and(|b| usd < b) { ", less than the recommended store" } else { "" };
        out.push(format!("{name}, which would cost {} a month{cheaper}", usd.rounded()));
    }
    out.extend(refused);
    out
}

/// Checks that some run measured each objective, and that each `--price` names a measured store. Skips the
/// objectives if published documents are given.
///
/// # Errors
/// [`AdviceError`] with the first objective or price that fails the check.
pub fn measured_at_all(objectives: &[Objective], runs: &[Run], sources: &Sources) -> Result<(), AdviceError> {
    let measured = || runs.iter().flat_map(|r| r.series.iter().filter(|s| s.role == Role::Measure));
    let known = |names: Vec<String>| {
        let names: BTreeSet<String> = names.into_iter().collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    let missing = |o: &&Objective| !runs.iter().any(|run| !run.subjects(o).is_empty());
    if let Some(objective) = objectives.iter().find(missing).filter(|_| sources.published.is_empty()) {
        let has = known(measured().map(|s| format!("{}.{}", s.phase, s.operation)).collect());
        return Err(AdviceError::new(format!(
            "--slo '{}': no run measured this operation; use one of {has}",
            objective.text
        )));
    }
    let mut names: Vec<String> = Vec::new();
    for run in runs {
        let stores = run.measured();
        let short = short_names(&stores);
        names.extend(short.iter().map(|name| with_run(name, run)));
        names.extend(short);
        names.extend(stores.iter().map(|s| (*s).to_string()));
    }
    for text in &sources.price {
        let store = text.rsplit_once('=').map_or(text.as_str(), |(store, _)| store);
        if !names.iter().any(|name| name == store) {
            let names = known(names.iter().filter(|n| !n.contains('?')).cloned().collect());
            return Err(AdviceError::new(format!(
                "--price {text}: no run measured '{store}'; use one of {names}"
            )));
        }
    }
    Ok(())
}
