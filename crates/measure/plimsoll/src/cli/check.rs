//! `plimsoll check`: checks runs against objectives, for people and for CI.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::exit::Exit;
use super::inconclusive::Inconclusive;
use super::out::{append, fit, say};
use super::runs::find;
use plimsoll_base::text::outgoing;
use plimsoll_base::units::{counted, format_size};
use plimsoll_document::{Document, Table, terminal};
use plimsoll_judge::run_dir::run::{Run, read};
use plimsoll_judge::summary::objective::Objective;
use plimsoll_judge::summary::objectives::judge;
use plimsoll_judge::summary::result::ObjectiveFigures;
use plimsoll_judge::summary::series::LatencyKind;
use plimsoll_report::junit;
use plimsoll_report::text::objectives::{detail, place, sentence};
use plimsoll_workload::schedule::Role;

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
    inconclusive: Inconclusive,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
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

/// Objectives of a run, with the names of the run and its stores.
struct Suite {
    path: PathBuf,
    /// Labels and id of the run.
    run: String,
    stores: Vec<String>,
    found: Vec<ObjectiveFigures>,
}

impl Suite {
    fn place(&self, figures: &ObjectiveFigures) -> String {
        let stores: Vec<&str> = self.stores.iter().map(String::as_str).collect();
        place(&stores, figures)
    }
}

/// Checks a run against objectives.
///
/// # Errors
/// Exit code 2 if the run is a search for the capacity, or if an objective applies to no measured series.
fn check_run(run: &Run, objectives: &[Objective]) -> Result<Suite, Exit> {
    if run.result.capacity.is_some() {
        return Err(Exit::input(format!(
            "{path} is a search for the capacity, which exceeds it on purpose; its result is in `plimsoll show {id}`; \
             to judge one load, use plimsoll run OPERATION --rate N/s --slo OBJECTIVE",
            path = run.path.display(),
            id = run.result.run.id,
        )));
    }
    if let Some(other) = objectives.iter().find(|objective| run.subjects(objective).is_empty()) {
        let measured = run.series.iter().filter(|s| s.role == Role::Measure);
        let mut known: Vec<String> = measured.map(|s| format!("{}.{}", s.phase, s.operation)).collect();
        if other.target.size.is_some() {
            let classes =
                run.by_size.iter().filter(|s| s.role == Role::Measure).filter_map(|s| Some((s, s.size?)));
            known.extend(classes.map(|(s, size)| {
                format!("{}.{}[{}]", s.phase, s.operation, format_size(size.from_bytes.max(1)))
            }));
        }
        known.sort();
        known.dedup();
        let (text, path, known) = (&other.text, run.path.display(), known.join(", "));
        return Err(Exit::input(format!("--slo '{text}': {path} did not measure this; use one of {known}")));
    }
    Ok(Suite {
        path: run.path.clone(),
        run: run.result.run.name(),
        stores: run.environment.stores.iter().map(|s| s.url.clone()).collect(),
        found: judge(run.all_series(), objectives),
    })
}

fn render(suite: &Suite) -> String {
    let mut table = Table::new("", &["", "", "", ""]);
    for figures in &suite.found {
        let (place, detail) = (suite.place(figures), detail(figures));
        table.row([figures.outcome.describe(), &figures.objective, &place, &detail]);
    }
    format!("{}\n{}", suite.path.display(), terminal::plain(&table))
}

/// Returns the answer for all runs in a sentence.
fn answer(suites: &[Suite]) -> String {
    sentence(&suites.iter().flat_map(|suite| suite.found.clone()).collect::<Vec<_>>())
}

/// Returns the results as Markdown: the answer and a table.
fn markdown(suites: &[Suite]) -> String {
    let mut table = Table::new("", &["result", "objective", "store", "measured", "run"]);
    for suite in suites {
        for figures in &suite.found {
            let (place, detail) = (suite.place(figures), detail(figures));
            table.row([figures.outcome.describe(), &figures.objective, &place, &detail, &suite.run]);
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
    place: String,
    outcome: &'static str,
    detail: &'a str,
    duration_needed_s: Option<f64>,
    client_limited: Option<&'a str>,
}

fn json(suites: &[Suite]) -> String {
    let document = |suite: &Suite, figures: &ObjectiveFigures| {
        serde_json::to_value(CheckResult {
            run: &suite.run,
            objective: &figures.objective,
            place: suite.place(figures),
            outcome: figures.outcome.name(),
            detail: &figures.detail,
            duration_needed_s: figures.duration_needed_s,
            client_limited: figures.client_limited.as_deref(),
        })
        .unwrap_or_default()
    };
    let all = suites.iter().flat_map(|suite| suite.found.iter().map(|figures| document(suite, figures)));
    let all: Vec<serde_json::Value> = all.collect();
    format!("{}\n", serde_json::to_string_pretty(&serde_json::json!({ "checks": all })).unwrap_or_default())
}

/// Checks runs and prints the results.
///
/// # Errors
/// Exit code 1 if an objective is missed, or if a run is too short to tell and `--inconclusive` is `fail`; 2 for
/// invalid input.
pub fn check(arguments: &Arguments) -> Result<(), Exit> {
    let objectives = objectives(arguments)?;
    let (mut suites, mut tables) = (Vec::new(), String::new());
    for path in &find(&arguments.runs)? {
        let run = read(path, &[LatencyKind::Service, LatencyKind::Response, LatencyKind::FirstByte])
            .map_err(Exit::input)?;
        let suite = check_run(&run, &objectives)?;
        tables.push_str(&render(&suite));
        suites.push(suite);
    }
    match arguments.json {
        true => say(&json(&suites))?,
        false => say(&fit(&format!("{}\n\n{tables}", answer(&suites))))?,
    }
    if let Some(path) = &arguments.summary {
        append("--summary", path, &markdown(&suites))?;
    }
    if let Some(path) = &arguments.junit {
        let cases = suites.iter().map(|suite| {
            let cases = suite.found.iter().map(|figures| junit::Case {
                name: figures.objective.clone(),
                place: suite.place(figures),
                outcome: figures.outcome,
                detail: detail(figures),
            });
            (suite.run.clone(), cases.collect::<Vec<_>>())
        });
        let text = junit::document(&cases.collect::<Vec<_>>());
        std::fs::write(path, &*outgoing(&text))
            .map_err(|e| Exit::input(format!("--junit {}: {e}", path.display())))?;
    }
    let outcomes = suites.iter().flat_map(|suite| &suite.found).map(|figures| figures.outcome);
    let missed = |n: usize| format!("{} missed", counted(n as u64, "objective"));
    arguments.inconclusive.conclude(outcomes, "objective", missed)
}
