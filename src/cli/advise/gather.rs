//! What is known of each store: its runs held against the objectives, its bill, and what was not measured.

use std::collections::{BTreeMap, BTreeSet};

use super::Arguments;
use crate::advise::{Candidate, Evidence, Figure, Held, recommended};
use crate::cli::check::subjects;
use crate::cli::cost::request::CostRequest;
use crate::cli::exit::Exit;
use crate::cost::bill::bill;
use crate::cost::book::StoreTariff;
use crate::cost::of_run::MONTH_S;
use crate::cost::tariff::Tariff;
use crate::cost::usage::Usage;
use crate::provider::calls::Call;
use crate::provider::is_home;
use crate::published::{Published, named};
use crate::run_dir::directory::StoreFacts;
use crate::run_dir::run::Run;
use crate::schedule::Role;
use crate::summary::estimates::{Estimator, Metric};
use crate::summary::objective::{Finding, Objective, ObjectiveResult};
use crate::summary::result::Window;
use crate::summary::series::Clocked;
use crate::units::{format_bytes, format_per_s, short_names};
use crate::workload::OperationKind;

/// Operations of a workload that runs measure.
const OPERATIONS: [(Call, &str); 5] = [
    (Call::PutObject, "put"),
    (Call::GetObject, "get"),
    (Call::HeadObject, "head"),
    (Call::ListObjects, "list"),
    (Call::DeleteObject, "delete"),
];

/// The latency that stores are ranked by: that of the first objective about one, else the 99th percentile of reads.
pub fn ranking(objectives: &[Objective], runs: &[Run]) -> Result<Objective, Exit> {
    let is_latency = |o: &&Objective| {
        matches!(Metric::from_name(&o.target.metric, Clocked::Service), Some(Metric::Percentile(..)))
    };
    if let Some(objective) = objectives.iter().find(is_latency) {
        return Ok(objective.clone());
    }
    let measured: Vec<&str> = runs
        .iter()
        .flat_map(|r| r.series.iter().filter(|s| s.role == Role::Measure).map(|s| s.operation.name()))
        .collect();
    let operation = if measured.is_empty() || measured.contains(&"get") { "get" } else { measured[0] };
    Objective::parse(&format!("{operation}.p99 < 1h")).map_err(Exit::input)
}

/// What the ranking's latency is at a store: the worst of its phases.
fn latency(run: &Run, store: &str, ranking: &Objective) -> Option<Figure> {
    let figures = subjects(run, ranking).into_iter().filter(|s| s.store == store).filter_map(|series| {
        let metric = Metric::from_name(&ranking.target.metric, series.clocked())?;
        let estimate = Estimator::new(&series).estimate(metric);
        let (_, scale) = metric.unit();
        let ends = estimate.confidence.ends();
        Some(Figure {
            value: estimate.value? * scale,
            low: ends.map(|(low, _)| low * scale),
            high: ends.map(|(_, high)| high * scale),
        })
    });
    figures.max_by(|a, b| a.value.total_cmp(&b.value))
}

/// The worst that an objective came to at a store.
fn held(run: &Run, store: &str, objective: &Objective) -> Held {
    let rank = |f: &Finding| match f.outcome {
        ObjectiveResult::Fail => 2,
        ObjectiveResult::CannotTell => 1,
        ObjectiveResult::Pass => 0,
    };
    let findings = subjects(run, objective).into_iter().filter(|s| s.store == store);
    let finding = findings.map(|series| objective.judge(&series)).max_by_key(rank);
    Held { objective: objective.text.clone(), finding }
}

/// Whether a store is where its provider is.
pub fn at_home(facts: &StoreFacts) -> bool {
    let host = facts.endpoint.split_once("://").map_or(facts.endpoint.as_str(), |(_, rest)| rest);
    is_home(&facts.provider, host.split(':').next().unwrap_or_default())
}

/// The prices of a measured store, whether it was measured at home, and what must be said of the prices.
fn tariff(
    asked: &CostRequest,
    arguments: &Arguments,
    facts: &StoreFacts,
    (name, short): (&str, &str),
) -> Result<(Tariff, bool, Option<String>), Exit> {
    for text in &arguments.price {
        let wrong = || Exit::input(format!("--price '{text}' is not STORE=NAME; write it as {name}=aws-s3"));
        let (store, offer) = text.rsplit_once('=').ok_or_else(wrong)?;
        if store == name || store == short || store == facts.url {
            let tariff = asked.tariff("--price", offer)?;
            let own = asked.prices.offer(&tariff.offer).and_then(|o| o.provider.as_deref());
            return Ok((tariff, at_home(facts) && own == Some(facts.provider.as_str()), None));
        }
    }
    let (region, class) = (facts.region.as_deref(), facts.storage_class.as_deref());
    let found = asked.prices.of_store(&facts.provider, region, class, asked.date).map_err(Exit::input)?;
    let StoreTariff { tariff, note, .. } = found.ok_or_else(|| {
        Exit::input(format!(
            "nothing is known of what {name} costs (provider {}); say whose prices hold with --price '{name}=aws-s3' (`plimsoll list prices`)",
            facts.provider
        ))
    })?;
    Ok((tariff, at_home(facts), note))
}

/// What must be said where windows are of objects less than half or more than twice as large as those of a workload.
pub fn other_size(what: &str, windows: &[&Window], wanted: u64) -> Option<String> {
    let sum = |of: fn(&Window) -> u64| windows.iter().map(|w| of(w)).sum::<u64>();
    let mean = sum(|w| w.bytes).checked_div(sum(|w| w.operations)).unwrap_or(0);
    let far = mean > 0 && wanted > 0 && !(mean / 2..=mean * 2).contains(&wanted);
    let (mean, wanted) = (format_bytes(mean), format_bytes(wanted));
    far.then(|| format!("{what} was measured with objects of {mean}, the workload has {wanted}"))
}

/// Where what a run measured of a store is not what the workload asks.
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
        out.push(format!("{} was not measured there", unmeasured.join(", ")));
    }
    let sum = |value: fn(&Window) -> u64| windows.iter().map(|w| value(w)).sum::<u64>();
    let failed = sum(|w| w.errors.values().sum()) as f64 / sum(|w| w.operations).max(1) as f64;
    if failed >= 0.001 {
        out.push(format!("{:.1}% of its operations failed", 100.0 * failed));
    }
    out
}

/// What must be known of a store's figures.
fn remarks(windows: &[&Window], partial: bool, usage: &Usage) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    if let Some(why) = windows.iter().find_map(|w| w.client_limited.as_ref()) {
        out.push(format!("the client was the limit ({why}); the store may be faster"));
    }
    if partial {
        out.push("its run did not go to its end".into());
    }
    let mut rates: BTreeMap<_, f64> = BTreeMap::new();
    for w in windows {
        *rates.entry((w.phase.as_str(), w.repeat, w.block, w.step)).or_default() += w.achieved_per_s;
    }
    let most = rates.values().copied().fold(0.0, f64::max);
    let needed = usage.calls.total() as f64 / MONTH_S;
    if needed > most {
        out.push(format!(
            "the workload needs {}/s on average, no more than {}/s was measured",
            format_per_s(needed),
            format_per_s(most)
        ));
    }
    out
}

/// A store's name that tells it from one of the same name in another run.
fn apart(short: &str, run: &Run) -> String {
    format!("{short} ({})", run.result.run.id)
}

/// Short names that stores of several runs have: they are told apart by their run.
pub fn repeated(runs: &[Run]) -> BTreeSet<String> {
    // A run that is named twice is one.
    let ids: BTreeMap<&str, &Run> = runs.iter().map(|run| (run.result.run.id.as_str(), run)).collect();
    let mut seen = BTreeSet::new();
    let names = ids.values().flat_map(|run| short_names(&run.measured()));
    names.filter(|name| !seen.insert(name.clone())).collect()
}

/// The stores that a run measured; those without a bill for the workload are left out, and why.
///
/// # Errors
/// 2 when nothing is known of what a store costs.
pub fn of_run(
    run: &Run,
    asked: &CostRequest,
    arguments: &Arguments,
    objectives: &[Objective],
    ranking: &Objective,
    (repeated, left_out): (&BTreeSet<String>, &mut Vec<String>),
) -> Result<Vec<Candidate>, Exit> {
    let stores = run.measured();
    let mut out = Vec::new();
    for (store, short) in stores.iter().zip(short_names(&stores)) {
        let name = match repeated.contains(&short) {
            true => apart(&short, run),
            false => short.clone(),
        };
        let windows: Vec<&Window> =
            run.result.windows.iter().filter(|w| w.role == Role::Measure && w.store == **store).collect();
        let facts = run.environment.stores.iter().find(|f| f.url == **store).cloned().unwrap_or_default();
        let (tariff, home, note) = tariff(asked, arguments, &facts, (&name, &short))?;
        let bill = match bill(&tariff, &asked.usage) {
            Ok(bill) => bill,
            Err(why) => {
                left_out.push(format!("{name} has no bill and is left out: {why}"));
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
            held: objectives.iter().map(|o| held(run, store, o)).collect(),
            latency: latency(run, store, ranking),
            gaps: gaps(&windows, &asked.usage),
            remarks: remarks(&windows, run.result.run.partial, &asked.usage)
                .into_iter()
                .chain(note)
                .collect(),
        });
    }
    Ok(out)
}

/// A published figure held against an objective: its value alone decides, because nobody says what it lies between.
fn published_held(document: &Published, store: &str, objective: &Objective) -> Held {
    let operation = objective.target.operation.as_deref().unwrap_or("get");
    let known = document.percentiles(store, operation);
    let Some(Metric::Percentile(_, q)) = Metric::from_name(&objective.target.metric, Clocked::Service) else {
        return Held { objective: objective.text.clone(), finding: None };
    };
    let value = known.iter().find(|(share, _)| (share - q).abs() < 1e-9).map(|(_, ms)| *ms);
    let finding = value.map(|ms| Finding {
        outcome: if ms * 1e6 < objective.bound { ObjectiveResult::Pass } else { ObjectiveResult::Fail },
        detail: format!("{ms} ms as printed"),
        needs_s: None,
        as_measured: Some(ms * 1e6 < objective.bound),
        client_limited: None,
    });
    Held { objective: objective.text.clone(), finding }
}

/// The stores of a published document that have the latency they are ranked by.
///
/// # Errors
/// 2 when there is no such document, or none of its stores has it.
pub fn of_document(
    name: &str,
    asked: &CostRequest,
    objectives: &[Objective],
    ranking: &Objective,
    left_out: &mut Vec<String>,
) -> Result<Vec<Candidate>, Exit> {
    let wrong = |e: &dyn std::fmt::Display| Exit::input(format!("--published {name}: {e}"));
    let document = named(name).map_err(|e| wrong(&e))?;
    let operation = ranking.target.operation.as_deref().unwrap_or("get");
    let Some(Metric::Percentile(_, q)) = Metric::from_name(&ranking.target.metric, Clocked::Service) else {
        return Ok(Vec::new());
    };
    let mut out = Vec::new();
    for (store, offer) in &document.stores {
        let known = document.percentiles(store, operation);
        let Some((_, value)) = known.iter().find(|(share, _)| (share - q).abs() < 1e-9) else { continue };
        let tariff = asked.prices.tariff(offer, None, asked.date).map_err(|e| wrong(&e))?;
        let name = format!("{store} in {}", document.name);
        let bill = match bill(&tariff, &asked.usage) {
            Ok(bill) => bill,
            Err(why) => {
                left_out.push(format!("{name} has no bill and is left out: {why}"));
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
            held: objectives.iter().map(|o| published_held(&document, store, o)).collect(),
            latency: Some(Figure { value: *value, low: None, high: None }),
            gaps: workload
                .filter(|w| !w.is_empty())
                .map(|w| format!("published for {w}"))
                .into_iter()
                .collect(),
            remarks: Vec::new(),
        });
    }
    if out.is_empty() && left_out.is_empty() {
        return Err(wrong(&format!(
            "it has no {operation}.{}; `plimsoll published show {name}` shows what it has",
            ranking.target.metric
        )));
    }
    Ok(out)
}

/// What nobody measured: operations of the workload, and stores that would be cheaper.
pub fn missing(asked: &CostRequest, candidates: &[Candidate], runs: &[Run]) -> Vec<String> {
    let mut out = Vec::new();
    let measured = |operation: &str| {
        runs.iter()
            .any(|r| r.series.iter().any(|s| s.role == Role::Measure && s.operation.name().starts_with(operation)))
    };
    for (call, operation) in OPERATIONS {
        if !runs.is_empty() && asked.usage.calls.get(call) > 0 && !measured(operation) {
            out.push(format!("{operation}, which the workload has"));
        }
    }
    let best = recommended(candidates).map(|at| candidates[at].bill.total_usd);
    let mut others: Vec<(crate::cost::money::Usd, String)> = Vec::new();
    let mut refused = Vec::new();
    for name in asked.prices.stores() {
        if candidates.iter().any(|c| c.tariff.offer == name) {
            continue;
        }
        let priced = asked.prices.tariff(name, None, asked.date).map_err(|e| e.to_string());
        match priced.and_then(|tariff| bill(&tariff, &asked.usage).map_err(|e| e.to_string())) {
            Ok(bill) => others.push((bill.total_usd, name.to_string())),
            Err(why) => refused.push(format!("{name}; it has no bill: {why}")),
        }
    }
    others.sort();
    for (usd, name) in others {
        let cheaper = if best.is_some_and(|b| usd < b) { ", which is less" } else { "" };
        out.push(format!("{name}; it would ask {} a month{cheaper}", usd.shown()));
    }
    out.extend(refused);
    out
}

/// Whether every objective is about something that some run measured, and every --price about a store that there is.
pub fn measured_at_all(objectives: &[Objective], runs: &[Run], arguments: &Arguments) -> Result<(), Exit> {
    let measured = || runs.iter().flat_map(|r| r.series.iter().filter(|s| s.role == Role::Measure));
    let known = |names: Vec<String>| {
        let names: BTreeSet<String> = names.into_iter().collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    let missing = |o: &&Objective| !runs.iter().any(|run| !subjects(run, o).is_empty());
    if let Some(objective) = objectives.iter().find(missing).filter(|_| arguments.published.is_empty()) {
        let has = known(measured().map(|s| format!("{}.{}", s.phase, s.operation)).collect());
        return Err(Exit::input(format!(
            "--slo '{}': no run measured such a thing; they have {has}",
            objective.text
        )));
    }
    let mut names: Vec<String> = Vec::new();
    for run in runs {
        let stores = run.measured();
        let short = short_names(&stores);
        names.extend(short.iter().map(|name| apart(name, run)));
        names.extend(short);
        names.extend(stores.iter().map(|s| (*s).to_string()));
    }
    for text in &arguments.price {
        let store = text.rsplit_once('=').map_or(text.as_str(), |(store, _)| store);
        if !names.iter().any(|name| name == store) {
            let names = known(names.iter().filter(|n| !n.contains('?')).cloned().collect());
            return Err(Exit::input(format!("--price {text}: no run measured '{store}'; there are {names}")));
        }
    }
    Ok(())
}
