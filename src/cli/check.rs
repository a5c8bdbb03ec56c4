//! `plimsoll check`: checks runs against objectives, for people and for CI.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::cannot_tell::CannotTell;
use super::exit::Exit;
use super::out::{append, say};
use super::runs::find;
use crate::report::document::{Document, Table};
use crate::report::junit;
use crate::report::terminal::table::{lines, plain};
use crate::run_dir::run::{Run, read};
use crate::schedule::Role;
use crate::summary::objective::{Finding, Objective, ObjectiveResult};
use crate::summary::series::{LatencyKind, Series};
use crate::text::outgoing;
use crate::units::short_names;

/// Arguments of `plimsoll check`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Run directories to check
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Objective: 'get.p99 < 10ms', 'errors < 0.1%', 'throughput > 5 Gbit/s'; may be repeated
    #[arg(long, value_name = "OBJECTIVE")]
    slo: Vec<String>,
    /// File with objectives, one per line; # begins a comment
    #[arg(long, value_name = "FILE")]
    slo_file: Option<PathBuf>,
    /// Also write the results to this file as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Also append the results to this file as Markdown, such as "$GITHUB_STEP_SUMMARY"
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// If a run is too short to tell whether an objective is met, fail (exit code 1) or pass (exit code 0)
    #[arg(long, value_enum, default_value = "fail")]
    cannot_tell: CannotTell,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// An objective and its result for one series.
pub struct Checked {
    /// The objective as the user wrote it.
    pub objective: String,
    /// Store, phase and operation of the series.
    pub place: String,
    /// The result of judging the series.
    pub finding: Finding,
}

fn objectives(arguments: &Arguments) -> Result<Vec<Objective>, Exit> {
    let mut out = Vec::new();
    for text in &arguments.slo {
        out.push(Objective::parse(text).map_err(|e| Exit::input(format!("--slo {e}")))?);
    }
    if let Some(path) = &arguments.slo_file {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|e| Exit::input(format!("--slo-file {}: {e}", path.display())))?;
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                let parsed = Objective::parse(line);
                out.push(parsed.map_err(|e| Exit::input(format!("{}:{}: {e}", path.display(), number + 1)))?);
            }
        }
    }
    if out.is_empty() {
        return Err(Exit::input("--slo is missing; specify an objective, such as --slo 'get.p99 < 10ms'"));
    }
    Ok(out)
}

/// Returns the short name of the store, the phase and the operation of a series; once, if these two have one name.
fn place(run: &Run, series: &Series) -> String {
    let stores: Vec<&str> = run.environment.stores.iter().map(|s| s.url.as_str()).collect();
    let names = short_names(&stores);
    let store =
        stores.iter().position(|s| *s == series.store).map_or(series.store.clone(), |at| names[at].clone());
    let phase =
        series.step.map_or_else(|| series.phase.clone(), |step| format!("{}_{}", series.phase, step + 1));
    let operation = series.operation.name();
    if phase == operation { format!("{store} {phase}") } else { format!("{store} {phase} {operation}") }
}

/// Checks a run against objectives.
///
/// # Errors
/// Exit code 2 if an objective applies to no measured series.
fn check_run(run: &Run, objectives: &[Objective]) -> Result<Vec<Checked>, Exit> {
    let mut out = Vec::new();
    for objective in objectives {
        let subjects = run.subjects(objective);
        if subjects.is_empty() {
            let mut known: Vec<String> = run
                .series
                .iter()
                .filter(|s| s.role == Role::Measure)
                .map(|s| format!("{}.{}", s.phase, s.operation))
                .collect();
            known.sort();
            known.dedup();
            return Err(Exit::input(format!(
                "--slo '{}': {} did not measure this; use one of {}",
                objective.text,
                run.path.display(),
                known.join(", ")
            )));
        }
        for series in subjects {
            out.push(Checked {
                objective: objective.text.clone(),
                place: place(run, &series),
                finding: objective.judge(&series),
            });
        }
    }
    Ok(out)
}

fn render(path: &Path, checked: &[Checked]) -> String {
    let mut table = plain();
    for c in checked {
        table.add_row([c.finding.outcome.describe(), &c.objective, &c.place, &c.finding.text()]);
    }
    format!("{}\n{}", path.display(), lines(&table))
}

/// Returns the answer for all runs in a sentence.
fn answer(suites: &[(String, Vec<Checked>)]) -> String {
    let outcomes = || suites.iter().flat_map(|(_, checked)| checked).map(|c| c.finding.outcome);
    let count = |outcome: ObjectiveResult| outcomes().filter(|found| *found == outcome).count();
    let (all, missed, open) =
        (outcomes().count(), count(ObjectiveResult::Fail), count(ObjectiveResult::CannotTell));
    match (missed, open) {
        (0, 0) => format!("pass: {all} of {all} objectives met"),
        (0, open) => format!("cannot tell: the measurement is too short for {open} of {all} objectives"),
        (missed, 0) => format!("FAIL: {missed} of {all} objectives missed"),
        (missed, open) => format!("FAIL: {missed} of {all} objectives missed, {open} undecided"),
    }
}

/// Returns the results as Markdown: the answer and a table.
fn markdown(suites: &[(String, Vec<Checked>)]) -> String {
    let mut table = Table::new("", &["result", "objective", "store", "measured", "run"]);
    for (run, checked) in suites {
        for c in checked {
            table.row([c.finding.outcome.describe(), &c.objective, &c.place, &c.finding.text(), run]);
        }
    }
    let (title, answer) = ("Objectives".into(), answer(suites));
    Document { title, answer, tables: vec![table], ..Document::default() }.markdown()
}

/// The JSON output for an objective and one series.
#[derive(Serialize)]
struct CheckResult<'a> {
    run: &'a str,
    objective: &'a str,
    place: &'a str,
    outcome: &'static str,
    detail: &'a str,
    duration_needed_s: Option<f64>,
    client_limited: Option<&'a str>,
}

fn json(suites: &[(String, Vec<Checked>)]) -> String {
    let document = |run: &str, c: &Checked| {
        serde_json::to_value(CheckResult {
            run,
            objective: &c.objective,
            place: &c.place,
            outcome: c.finding.outcome.name(),
            detail: &c.finding.detail,
            duration_needed_s: c.finding.duration_needed_s,
            client_limited: c.finding.client_limited.as_deref(),
        })
        .unwrap_or_default()
    };
    let all = suites.iter().flat_map(|(run, checked)| checked.iter().map(|c| document(run, c)));
    let all: Vec<serde_json::Value> = all.collect();
    format!("{}\n", serde_json::to_string_pretty(&serde_json::json!({ "checks": all })).unwrap_or_default())
}

/// Checks runs and prints the results.
///
/// # Errors
/// Exit code 1 if an objective is missed, or if a run is too short to tell and `--cannot-tell` is `fail`; 2 for
/// invalid input.
pub fn check(arguments: &Arguments) -> Result<(), Exit> {
    let objectives = objectives(arguments)?;
    let (mut suites, mut tables) = (Vec::new(), String::new());
    for path in &find(&arguments.runs)? {
        let run = read(path, &[LatencyKind::Service, LatencyKind::Response, LatencyKind::FirstByte])
            .map_err(Exit::input)?;
        let checked = check_run(&run, &objectives)?;
        tables.push_str(&render(path, &checked));
        suites.push((run.result.run.id.clone(), checked));
    }
    match arguments.json {
        true => say(&json(&suites))?,
        false => say(&format!("{}\n\n{tables}", answer(&suites)))?,
    }
    if let Some(path) = &arguments.summary {
        append("--summary", path, &markdown(&suites))?;
    }
    if let Some(path) = &arguments.junit {
        let cases = suites.iter().map(|(id, checked)| {
            let cases = checked.iter().map(|c| junit::Case {
                name: c.objective.clone(),
                place: c.place.clone(),
                outcome: c.finding.outcome,
                detail: c.finding.text(),
            });
            (id.clone(), cases.collect::<Vec<_>>())
        });
        let text = junit::document(&cases.collect::<Vec<_>>());
        std::fs::write(path, &*outgoing(&text))
            .map_err(|e| Exit::input(format!("--junit {}: {e}", path.display())))?;
    }
    let outcomes = suites.iter().flat_map(|(_, checked)| checked).map(|c| c.finding.outcome);
    let missed = |n: usize| format!("{n} objective{} missed", if n == 1 { "" } else { "s" });
    arguments.cannot_tell.conclude(outcomes, "objective", missed)
}
