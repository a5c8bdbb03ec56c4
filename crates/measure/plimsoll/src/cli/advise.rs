//! `plimsoll advise`: recommends one of the measured stores for a workload, and shows what would change the
//! recommendation.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::cost::form::FormArguments;
use super::cost::from_run::FromRun;
use super::cost::request::WorkloadArguments;
use super::exit::Exit;
use super::runs::find;
use plimsoll_bills::advise::sensitivity::{AssumptionChange, changes};
use plimsoll_bills::advise::sizes::of_runs;
use plimsoll_bills::advise::{
    BoundChange, Candidate, Evidence, MeasuredFigure, ObjectiveFinding, UnitCost, bound_changes,
    bounds_to_pass, mark_failing, pareto_front, recommended, unit_cost,
};
use plimsoll_cost::bill::Bill;
use plimsoll_cost::request::CostRequest;
use plimsoll_cost::workload::Workload;
use plimsoll_judge::run_dir::run::{Run, read};
use plimsoll_judge::summary::objective::Objective;
use plimsoll_judge::summary::objective_result::ObjectiveResult;
use plimsoll_judge::summary::series::LatencyKind;
use plimsoll_report::decisions::advice::{Advice, document};

use plimsoll_bills::advise::candidates::{
    Sources, measured_at_all, missing, of_document, of_run, ranking, repeated,
};

/// Arguments of `plimsoll advise`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Run directories of runs that measured the stores
    #[arg(value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Objective: 'get.p99 < 20ms', 'errors < 0.1%'; may be repeated
    #[arg(long, value_name = "OBJECTIVE")]
    slo: Vec<String>,
    /// Compute the bill of a store from other prices: STORE=NAME, with a name from `plimsoll list prices`;
    /// may be repeated
    #[arg(long, value_name = "STORE=NAME")]
    price: Vec<String>,
    /// Also consider the stores of a published document (`plimsoll list published`); may be repeated
    #[arg(long, value_name = "DOCUMENT")]
    published: Vec<String>,
    #[command(flatten)]
    workload: WorkloadArguments,
    #[command(flatten)]
    from_run: FromRun,
    #[command(flatten)]
    form: FormArguments,
}

/// The JSON output of `plimsoll advise`.
#[derive(Serialize)]
struct AdviceReport<'a> {
    recommended: Option<&'a str>,
    /// Caveat to show next to the recommendation; `None` if the store was measured at its provider.
    caveat: Option<&'static str>,
    objectives: &'a [String],
    ranked_by: &'a str,
    candidates: Vec<CandidateReport<'a>>,
    sensitivity: Vec<ChangeReport<'a>>,
    bounds: Vec<BoundReport<'a>>,
    not_measured: &'a [String],
    assumptions: &'a [String],
}

#[derive(Serialize)]
struct CandidateReport<'a> {
    store: &'a str,
    from: &'a str,
    known_by: Evidence,
    bill: &'a Bill,
    cost: UnitCost,
    latency_ms: Option<MeasuredFigure>,
    outcome: &'static str,
    objectives: Vec<ObjectiveReport<'a>>,
    front: bool,
    gaps: &'a [String],
    remarks: &'a [String],
}

#[derive(Serialize)]
struct ObjectiveReport<'a> {
    objective: &'a str,
    outcome: &'static str,
    detail: Option<&'a str>,
}

#[derive(Serialize)]
struct ChangeReport<'a> {
    #[serde(flatten)]
    change: &'a AssumptionChange,
    to_store: Option<&'a str>,
}

#[derive(Serialize)]
struct BoundReport<'a> {
    #[serde(flatten)]
    change: &'a BoundChange,
    to_store: Option<&'a str>,
}

/// Recommends a store and prints the reasons.
///
/// # Errors
/// Exit code 2 if a run, document, workload or objective is invalid, or no prices are known for a store.
pub fn advise(arguments: &Arguments) -> Result<(), Exit> {
    if arguments.runs.is_empty() && arguments.published.is_empty() {
        return Err(Exit::input(
            "RUN is missing; specify runs that measured the stores (plimsoll advise RUN... --storage 10TB \
             --get 50M --slo 'get.p99 < 20ms'), or a document with --published NAME",
        ));
    }
    let parse = |text: &String| Objective::parse(text).map_err(|e| Exit::input(format!("--slo {e}")));
    let objectives: Vec<Objective> = arguments.slo.iter().map(parse).collect::<Result<_, _>>()?;
    let latencies = [LatencyKind::Service, LatencyKind::Response, LatencyKind::FirstByte];
    let runs: Vec<Run> = find(&arguments.runs)?
        .iter()
        .map(|path| read(path, &latencies))
        .collect::<Result<_, _>>()
        .map_err(Exit::input)?;
    let size = of_runs(&runs);
    let from_runs = |workload: &Workload| Workload {
        object_size: workload.object_size.clone().or(size.as_ref().map(|(bytes, _)| format!("{bytes}B"))),
        ..workload.clone()
    };
    let mut request = arguments.workload.request_with(&arguments.from_run, from_runs)?;
    let (given, _) = arguments.workload.given()?;
    if given.object_size.is_none() && !arguments.from_run.is_given() {
        request.assumptions.extend(size.map(|(_, assumption)| assumption));
    }
    let sources = Sources { price: arguments.price.clone(), published: arguments.published.clone() };
    measured_at_all(&objectives, &runs, &sources)?;
    let ranking = ranking(&objectives, &runs)?;
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut left_out = Vec::new();
    let repeated = repeated(&runs);
    for run in &runs {
        let found = of_run(run, &request, &sources, &objectives, &ranking, &repeated, &mut left_out)?;
        let known = |c: &Candidate| candidates.iter().any(|o| (&o.from, &o.name) == (&c.from, &c.name));
        let new: Vec<Candidate> = found.into_iter().filter(|c| !known(c)).collect();
        candidates.extend(new);
    }
    for name in &arguments.published {
        let found = of_document(name, &request, &objectives, &ranking, &mut left_out);
        candidates.extend(found?);
    }
    if let Some(reason) = left_out.first().filter(|_| candidates.is_empty()) {
        return Err(Exit::input(reason));
    }
    if candidates.is_empty() {
        return Err(Exit::input("the runs measured nothing; use runs that contain phases with role measure"));
    }
    mark_failing(&mut candidates);
    let premise = request.assume(candidates.iter().map(|c| &c.tariff));
    print_advice(arguments, &request, &runs, &candidates, &ranking, left_out, premise)
}

fn print_advice(
    arguments: &Arguments,
    request: &CostRequest,
    runs: &[Run],
    candidates: &[Candidate],
    ranking: &Objective,
    left_out: Vec<String>,
    premise: Option<String>,
) -> Result<(), Exit> {
    // Considers the stores that meet all objectives or, if there are none, the stores that may meet them.
    let with_result = |result: ObjectiveResult| -> Vec<usize> {
        (0..candidates.len()).filter(|at| candidates[*at].outcome() == result).collect()
    };
    let passed = with_result(ObjectiveResult::Pass);
    let choice = if passed.is_empty() { with_result(ObjectiveResult::Inconclusive) } else { passed };
    let chosen: Vec<&Candidate> = choice.iter().map(|at| &candidates[*at]).collect();
    let changes = if chosen.is_empty() { Vec::new() } else { changes(&chosen, &request.usage) };
    let mut missing = missing(request, candidates, runs);
    missing.extend(left_out);
    let operation = ranking.target.operation.as_deref().map(|o| format!("{o}.")).unwrap_or_default();
    let ranked_by = format!("{operation}{}", ranking.target.metric);
    let latency_objective =
        Some(ranking.text.as_str()).filter(|text| arguments.slo.iter().any(|s| s.trim() == *text));
    let bounds = latency_objective.map_or(Vec::new(), |objective| match recommended(candidates) {
        Some(best) => bound_changes(candidates, best, objective),
        None => bounds_to_pass(candidates, objective),
    });
    let advice = Advice {
        candidates,
        usage: &request.usage,
        objectives: &arguments.slo,
        ranked_by: &ranked_by,
        latency_objective,
        choice: &choice,
        changes: &changes,
        missing: &missing,
    };
    let on_front = pareto_front(candidates);
    let best = recommended(candidates).map(|at| &candidates[at]);
    let report = AdviceReport {
        recommended: best.map(|c| c.name.as_str()),
        caveat: best.and_then(|c| c.evidence.caveat()),
        objectives: &arguments.slo,
        ranked_by: &ranked_by,
        candidates: candidates
            .iter()
            .enumerate()
            .map(|(at, c)| candidate_report(c, request, on_front.contains(&at)))
            .collect(),
        sensitivity: changes
            .iter()
            .map(|change| ChangeReport { change, to_store: change.to.map(|at| chosen[at].name.as_str()) })
            .collect(),
        bounds: bounds
            .iter()
            .map(|change| BoundReport { change, to_store: change.to.map(|at| candidates[at].name.as_str()) })
            .collect(),
        not_measured: &missing,
        assumptions: &request.assumptions,
    };
    let notes = request.notes();
    let document = document(&advice, request.what(), notes).warned(request.warnings());
    arguments.form.print(&document.resting_on(premise), &report)
}

fn candidate_report<'a>(c: &'a Candidate, request: &CostRequest, front: bool) -> CandidateReport<'a> {
    let objective = |h: &'a ObjectiveFinding| ObjectiveReport {
        objective: &h.objective,
        outcome: h.finding.as_ref().map_or("not measured", |f| f.outcome.describe()),
        detail: h.finding.as_ref().map(|f| f.detail.as_str()),
    };
    CandidateReport {
        store: &c.name,
        from: &c.from,
        known_by: c.evidence,
        bill: &c.bill,
        cost: unit_cost(&c.bill, &request.usage),
        latency_ms: c.latency,
        outcome: c.outcome().describe(),
        objectives: c.held.iter().map(objective).collect(),
        front,
        gaps: &c.gaps,
        remarks: &c.remarks,
    }
}
