//! `plimsoll advise`: which of the measured stores fits a workload, what each costs, and what would change the answer.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::check::subjects;
use super::cost::asked::{Asked, WorkloadArguments};
use super::cost::form::FormArguments;
use super::cost::from_run::FromRun;
use super::exit::Exit;
use super::runs::{Run, read};
use crate::advise::sensitivity::{Change, changes};
use crate::advise::{
    BoundChange, Candidate, Evidence, Figure, Held, UnitCost, bound_changes, front, recommended, unit_cost,
};
use crate::cost::bill::{Bill, bill};
use crate::cost::of_run::MONTH_S;
use crate::cost::tariff::Tariff;
use crate::provider::calls::Call;
use crate::provider::of_host;
use crate::published::{Published, named};
use crate::report::decisions::advice::{Advice, document};
use crate::report::directory::StoreFacts;
use crate::summary::estimates::{Estimator, Metric};
use crate::summary::objective::{Finding, Objective, Outcome};
use crate::summary::result::Window;
use crate::summary::series::Clocked;
use crate::units::{format_per_s, format_size, short_names};

/// Arguments of `plimsoll advise`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Runs that measured the stores
    #[arg(value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// What must hold: 'get.p99 < 20ms', 'errors < 0.1%'; may be repeated
    #[arg(long, value_name = "OBJECTIVE")]
    slo: Vec<String>,
    /// Take a store's bill from these prices: STORE=NAME, with a name from `plimsoll list prices`; may be repeated
    #[arg(long, value_name = "STORE=NAME")]
    price: Vec<String>,
    /// Also consider what others published (`plimsoll list published`); may be repeated
    #[arg(long, value_name = "DOCUMENT")]
    published: Vec<String>,
    #[command(flatten)]
    workload: WorkloadArguments,
    #[command(flatten)]
    from_run: FromRun,
    #[command(flatten)]
    form: FormArguments,
}

/// What it came to, for programs.
#[derive(Serialize)]
struct Told<'a> {
    recommended: Option<&'a str>,
    /// What must be said in the same line.
    caveat: Option<&'static str>,
    objectives: &'a [String],
    ranked_by: &'a str,
    candidates: Vec<ToldCandidate<'a>>,
    sensitivity: Vec<ToldChange<'a>>,
    bounds: Vec<ToldBound<'a>>,
    not_measured: &'a [String],
    assumptions: &'a [String],
}

#[derive(Serialize)]
struct ToldCandidate<'a> {
    store: &'a str,
    from: &'a str,
    known_by: Evidence,
    bill: &'a Bill,
    cost: UnitCost,
    latency_ms: Option<Figure>,
    outcome: &'static str,
    objectives: Vec<ToldObjective<'a>>,
    front: bool,
    remarks: &'a [String],
}

#[derive(Serialize)]
struct ToldObjective<'a> {
    objective: &'a str,
    outcome: &'static str,
    detail: Option<&'a str>,
}

#[derive(Serialize)]
struct ToldChange<'a> {
    #[serde(flatten)]
    change: &'a Change,
    to_store: Option<&'a str>,
}

#[derive(Serialize)]
struct ToldBound<'a> {
    #[serde(flatten)]
    change: &'a BoundChange,
    to_store: Option<&'a str>,
}

/// The latency that stores are ranked by: that of the first objective about one, else the 99th percentile of reads.
fn ranking(objectives: &[Objective], runs: &[Run]) -> Result<Objective, Exit> {
    let is_latency = |o: &&Objective| {
        matches!(Metric::from_name(&o.target.metric, Clocked::Service), Some(Metric::Percentile(..)))
    };
    if let Some(objective) = objectives.iter().find(is_latency) {
        return Ok(objective.clone());
    }
    let measured: Vec<&str> = runs
        .iter()
        .flat_map(|r| r.series.iter().filter(|s| s.role == "measure").map(|s| s.operation.as_str()))
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
        Outcome::Fail => 2,
        Outcome::CannotTell => 1,
        Outcome::Pass => 0,
    };
    let findings = subjects(run, objective).into_iter().filter(|s| s.store == store);
    let finding = findings.map(|series| objective.judge(&series)).max_by_key(rank);
    Held { objective: objective.text.clone(), finding }
}

/// Whether a store is where its provider is.
fn at_home(facts: &StoreFacts) -> bool {
    let host = facts.endpoint.split_once("://").map_or(facts.endpoint.as_str(), |(_, rest)| rest);
    let host = host.split(':').next().unwrap_or_default();
    let dynamo = facts.provider == "aws-dynamodb" && host.ends_with(".amazonaws.com");
    dynamo || of_host(host).is_some_and(|profile| profile.name == facts.provider)
}

/// The value of a parameter of a store's URL.
fn parameter<'a>(url: &'a str, name: &str) -> Option<&'a str> {
    let query = url.split_once('?')?.1;
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// The prices of a measured store.
fn tariff(
    asked: &Asked,
    arguments: &Arguments,
    facts: &StoreFacts,
    name: &str,
) -> Result<(Tariff, bool), Exit> {
    for text in &arguments.price {
        let wrong = || Exit::input(format!("--price '{text}' is not STORE=NAME; write it as {name}=aws-s3"));
        let (store, offer) = text.rsplit_once('=').ok_or_else(wrong)?;
        if store == name || store == facts.url {
            let tariff = asked.tariff("--price", offer)?;
            let own = asked.prices.offer(&tariff.offer).and_then(|o| o.provider.as_deref());
            return Ok((tariff, at_home(facts) && own == Some(facts.provider.as_str())));
        }
    }
    let class = parameter(&facts.url, "storage_class").filter(|c| *c != "STANDARD");
    let offer = asked.prices.offer_of(&facts.provider, class).ok_or_else(|| {
        Exit::input(format!(
            "nothing is known of what {name} costs (provider {}); say whose prices hold with --price '{name}=aws-s3' (`plimsoll list prices`)",
            facts.provider
        ))
    })?;
    let region = parameter(&facts.url, "region");
    let there = asked.prices.tariff(offer, region, asked.date);
    let tariff = there.or_else(|_| asked.prices.tariff(offer, None, asked.date)).map_err(Exit::input)?;
    Ok((tariff, at_home(facts)))
}

/// What must be known of a store's figures.
fn remarks(run: &Run, store: &str, asked: &Asked) -> Vec<String> {
    let windows: Vec<&Window> =
        run.result.windows.iter().filter(|w| w.role == "measure" && w.store == store).collect();
    let mut out: Vec<String> = Vec::new();
    if let Some(why) = windows.iter().find_map(|w| w.client_limited.as_ref()) {
        out.push(format!("the client was the limit ({why}); the store may be faster"));
    }
    if run.result.run.partial {
        out.push("its run did not go to its end".into());
    }
    let usage = &asked.usage;
    for operation in ["get", "put"] {
        let of = |value: fn(&Window) -> u64| -> u64 {
            windows.iter().filter(|w| w.operation == operation).map(|w| value(w)).sum()
        };
        let mean = of(|w| w.bytes).checked_div(of(|w| w.operations)).unwrap_or(0);
        let far = mean > 0 && usage.object_bytes > 0 && !(mean / 2..=mean * 2).contains(&usage.object_bytes);
        if far {
            out.push(format!(
                "{operation} was measured with objects of {}, the workload has {}",
                format_size(mean),
                format_size(usage.object_bytes)
            ));
        }
    }
    let mut rates: BTreeMap<_, f64> = BTreeMap::new();
    for w in &windows {
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

fn of_run(
    run: &Run,
    asked: &Asked,
    arguments: &Arguments,
    objectives: &[Objective],
    ranking: &Objective,
) -> Result<Vec<Candidate>, Exit> {
    let mut stores: Vec<&str> = Vec::new();
    for series in run.series.iter().filter(|s| s.role == "measure") {
        if !stores.contains(&series.store.as_str()) {
            stores.push(&series.store);
        }
    }
    let mut out = Vec::new();
    for (store, name) in stores.iter().zip(short_names(&stores)) {
        let facts = run.environment.stores.iter().find(|f| f.url == **store).cloned().unwrap_or_default();
        let (tariff, home) = tariff(asked, arguments, &facts, &name)?;
        let bill = bill(&tariff, &asked.usage).map_err(|e| Exit::input(format!("{name}: {e}")))?;
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
            remarks: remarks(run, store, asked),
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
        outcome: if ms * 1e6 < objective.bound { Outcome::Pass } else { Outcome::Fail },
        detail: format!("{ms} ms as printed"),
        needs_s: None,
    });
    Held { objective: objective.text.clone(), finding }
}

fn of_document(
    name: &str,
    asked: &Asked,
    objectives: &[Objective],
    ranking: &Objective,
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
        let bill = bill(&tariff, &asked.usage).map_err(|e| wrong(&e))?;
        out.push(Candidate {
            name: format!("{store} in {}", document.name),
            from: document.name.clone(),
            evidence: Evidence::Published,
            tariff,
            bill,
            held: objectives.iter().map(|o| published_held(&document, store, o)).collect(),
            latency: Some(Figure { value: *value, low: None, high: None }),
            remarks: Vec::new(),
        });
    }
    if out.is_empty() {
        return Err(wrong(&format!(
            "it has no {operation}.{}; `plimsoll published show {name}` shows what it has",
            ranking.target.metric
        )));
    }
    Ok(out)
}

/// What nobody measured: operations of the workload, and stores that would be cheaper.
fn missing(asked: &Asked, candidates: &[Candidate], runs: &[Run]) -> Vec<String> {
    let mut out = Vec::new();
    let measured = |operation: &str| {
        runs.iter()
            .any(|r| r.series.iter().any(|s| s.role == "measure" && s.operation.starts_with(operation)))
    };
    for (call, operation) in [
        (Call::PutObject, "put"),
        (Call::GetObject, "get"),
        (Call::HeadObject, "head"),
        (Call::ListObjects, "list"),
        (Call::DeleteObject, "delete"),
    ] {
        if !runs.is_empty() && asked.usage.calls.get(call) > 0 && !measured(operation) {
            out.push(format!("{operation}, which the workload has"));
        }
    }
    let best = recommended(candidates).map(|at| candidates[at].bill.total_usd);
    let mut others: Vec<(crate::cost::money::Usd, String)> = Vec::new();
    for name in asked.prices.stores() {
        if candidates.iter().any(|c| c.tariff.offer == name) {
            continue;
        }
        let Ok(tariff) = asked.prices.tariff(name, None, asked.date) else { continue };
        let Ok(bill) = bill(&tariff, &asked.usage) else { continue };
        others.push((bill.total_usd, name.to_string()));
    }
    others.sort();
    for (usd, name) in others {
        let cheaper = if best.is_some_and(|b| usd < b) { ", which is less" } else { "" };
        out.push(format!("{name}; it would ask {} a month{cheaper}", usd.shown()));
    }
    out
}

/// Advises.
///
/// # Errors
/// 2 when a run, document, workload or objective is wrong, or nothing is known of what a store costs.
pub fn advise(arguments: &Arguments) -> Result<(), Exit> {
    if arguments.runs.is_empty() && arguments.published.is_empty() {
        return Err(Exit::input(
            "name the runs that measured the stores: plimsoll advise RUN... --storage 10TB --get 50M --slo 'get.p99 < 20ms'; --published NAME considers what others printed",
        ));
    }
    let parse = |text: &String| Objective::parse(text).map_err(|e| Exit::input(format!("--slo {e}")));
    let objectives: Vec<Objective> = arguments.slo.iter().map(parse).collect::<Result<_, _>>()?;
    let asked = Asked::read(&arguments.workload, &arguments.from_run)?;
    let latencies = [Clocked::Service, Clocked::Response, Clocked::FirstByte];
    let runs: Vec<Run> =
        arguments.runs.iter().map(|path| read(path, &latencies)).collect::<Result<_, _>>()?;
    let ranking = ranking(&objectives, &runs)?;
    let mut candidates: Vec<Candidate> = Vec::new();
    for run in &runs {
        candidates.extend(of_run(run, &asked, arguments, &objectives, &ranking)?);
    }
    for name in &arguments.published {
        candidates.extend(of_document(name, &asked, &objectives, &ranking)?);
    }
    if candidates.is_empty() {
        return Err(Exit::input("the runs measured nothing; only phases of role measure count"));
    }
    tell(arguments, &asked, &runs, &candidates, &ranking)
}

fn tell(
    arguments: &Arguments,
    asked: &Asked,
    runs: &[Run],
    candidates: &[Candidate],
    ranking: &Objective,
) -> Result<(), Exit> {
    // The answer is chosen among those that hold, else among those that may.
    let of = |outcome: Outcome| -> Vec<usize> {
        (0..candidates.len()).filter(|at| candidates[*at].outcome() == outcome).collect()
    };
    let sure = of(Outcome::Pass);
    let choice = if sure.is_empty() { of(Outcome::CannotTell) } else { sure };
    let chosen: Vec<&Candidate> = choice.iter().map(|at| &candidates[*at]).collect();
    let changes = if chosen.is_empty() { Vec::new() } else { changes(&chosen, &asked.usage) };
    let missing = missing(asked, candidates, runs);
    let operation = ranking.target.operation.as_deref().map(|o| format!("{o}.")).unwrap_or_default();
    let ranked_by = format!("{operation}{}", ranking.target.metric);
    let latency_objective =
        Some(ranking.text.as_str()).filter(|text| arguments.slo.iter().any(|s| s.trim() == *text));
    let bounds = recommended(candidates)
        .zip(latency_objective)
        .map_or(Vec::new(), |(best, objective)| bound_changes(candidates, best, objective));
    let advice = Advice {
        candidates,
        usage: &asked.usage,
        objectives: &arguments.slo,
        ranked_by: &ranked_by,
        latency_objective,
        choice: &choice,
        changes: &changes,
        missing: &missing,
    };
    let on_front = front(candidates);
    let best = recommended(candidates).map(|at| &candidates[at]);
    let told = Told {
        recommended: best.map(|c| c.name.as_str()),
        caveat: best.and_then(|c| c.evidence.caveat()),
        objectives: &arguments.slo,
        ranked_by: &ranked_by,
        candidates: candidates
            .iter()
            .enumerate()
            .map(|(at, c)| told_of(c, asked, on_front.contains(&at)))
            .collect(),
        sensitivity: changes
            .iter()
            .map(|change| ToldChange { change, to_store: change.to.map(|at| chosen[at].name.as_str()) })
            .collect(),
        bounds: bounds
            .iter()
            .map(|change| ToldBound { change, to_store: change.to.map(|at| candidates[at].name.as_str()) })
            .collect(),
        not_measured: &missing,
        assumptions: &asked.assumptions,
    };
    let notes = asked.assumptions.iter().map(|a| format!("assumed: {a}")).collect();
    arguments.form.print(&document(&advice, asked.what(), notes), &told)
}

fn told_of<'a>(c: &'a Candidate, asked: &Asked, front: bool) -> ToldCandidate<'a> {
    let objective = |h: &'a Held| ToldObjective {
        objective: &h.objective,
        outcome: h.finding.as_ref().map_or("not measured", |f| f.outcome.describe()),
        detail: h.finding.as_ref().map(|f| f.detail.as_str()),
    };
    ToldCandidate {
        store: &c.name,
        from: &c.from,
        known_by: c.evidence,
        bill: &c.bill,
        cost: unit_cost(&c.bill, &asked.usage),
        latency_ms: c.latency,
        outcome: c.outcome().describe(),
        objectives: c.held.iter().map(objective).collect(),
        front,
        remarks: &c.remarks,
    }
}
