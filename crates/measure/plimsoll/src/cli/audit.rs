//! `plimsoll audit`: judges measurements by the run rules.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::cost::form::FormArguments;
use super::exit::Exit;
use super::inconclusive::Inconclusive;
use super::runs;
use plimsoll_audit::audit::facts::Facts;
use plimsoll_audit::audit::rules::{Outcome, RULES};
use plimsoll_audit::audit::tools::{published, read};
use plimsoll_audit::audit::{Audit, audit, of_runs};
use plimsoll_audit::verify::verify;
use plimsoll_base::units::parse_size;
use plimsoll_cost::published::named;
use plimsoll_document::{Document, Table};
use plimsoll_judge::run_dir::run::{self, Run};
use plimsoll_judge::summary::objective_result::ObjectiveResult;

/// Arguments of `plimsoll audit`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Runs, results of warp, elbencho, k6 or go-ycsb, or names of published documents. Runs of the same experiment are
    /// repeats of it
    #[arg(required_unless_present = "rules", value_name = "RUN")]
    subjects: Vec<PathBuf>,
    /// Print the rules with their sources
    #[arg(long, conflicts_with = "subjects")]
    rules: bool,
    /// Memory of the server, to compare with the objects that were read [default: that of this machine if the server is
    /// on it]
    #[arg(long, value_name = "SIZE")]
    server_memory: Option<String>,
    /// Treatment of rules that the measurement does not show
    #[arg(long, value_enum, default_value = "fail")]
    inconclusive: Inconclusive,
    #[command(flatten)]
    form: FormArguments,
}

/// Audits of all subjects.
#[derive(Debug, Serialize)]
struct Audits {
    audits: Vec<Audit>,
}

/// Audits each subject and prints the findings.
///
/// # Errors
/// Exit code 1 if a rule is violated, or is not shown and counts as a failure; 2 if a subject cannot be read.
pub fn run(arguments: &Arguments) -> Result<(), Exit> {
    arguments.form.check()?;
    if arguments.rules {
        let list: Vec<_> = RULES
            .iter()
            .map(|rule| serde_json::json!({"rule": rule.name, "requirement": rule.text, "source": rule.source}))
            .collect();
        return arguments.form.print(&rules(), &serde_json::json!({ "rules": list }));
    }
    let memory = arguments.server_memory.as_deref().map(parse_size).transpose();
    let memory = memory.map_err(|e| Exit::input(format!("--server-memory: {e}")))?;
    let audits: Vec<Audit> = facts(&arguments.subjects, memory)?.iter().map(audit).collect();
    arguments.form.print(&document(&audits), &Audits { audits: audits.clone() })?;
    let outcomes = audits.iter().flat_map(|one| &one.findings).map(|finding| match finding.outcome {
        Outcome::Met => ObjectiveResult::Pass,
        Outcome::Violated => ObjectiveResult::Fail,
        Outcome::NotShown => ObjectiveResult::Inconclusive,
    });
    let outcomes: Vec<ObjectiveResult> = outcomes.collect();
    let noun = |count: usize| if count == 1 { "run rule is" } else { "run rules are" };
    let failure = |count: usize| format!("{count} {} violated", noun(count));
    arguments.inconclusive.conclude(outcomes.into_iter(), "run rule", failure)
}

/// Runs of one experiment, and the contradictions in them.
type Repeats = (Vec<Run>, Vec<String>);

/// Returns the facts about each subject; runs of one experiment are one subject.
fn facts(subjects: &[PathBuf], memory: Option<u64>) -> Result<Vec<Facts>, Exit> {
    let (mut out, mut groups): (Vec<Facts>, Vec<Repeats>) = (Vec::new(), Vec::new());
    for subject in subjects {
        let name = subject.to_string_lossy();
        if subject.is_file() {
            out.push(Facts { server_memory_bytes: memory, ..read(subject).map_err(Exit::input)? });
        } else if let (false, Ok(document)) = (subject.exists(), named(&name)) {
            out.push(published::facts(&document));
        } else {
            for path in runs::find(std::slice::from_ref(subject))? {
                add(&path, &mut groups)?;
            }
        }
    }
    let of_groups = groups.into_iter().map(|(runs, problems)| of_runs(&runs, problems, memory));
    Ok(of_groups.chain(out).collect())
}

/// Adds a run to the group of runs with the same experiment.
fn add(path: &Path, groups: &mut Vec<Repeats>) -> Result<(), Exit> {
    let problems = verify(path, None).map_err(Exit::input)?.problems;
    let run = run::read(path, &[]).map_err(Exit::input)?;
    let problems = problems.into_iter().map(|problem| format!("{}: {problem}", path.display()));
    let is_repeat = |other: &Run| {
        other.experiment == run.experiment
            && other.result.run.imported.is_none()
            && other.result.run.id != run.result.run.id
    };
    match groups.iter_mut().find(|(runs, _)| runs.iter().all(is_repeat)) {
        Some((runs, all)) => {
            all.extend(problems);
            runs.push(run);
        }
        None => groups.push((vec![run], problems.collect())),
    }
    Ok(())
}

/// Returns the findings as tables.
fn document(audits: &[Audit]) -> Document {
    let table = |one: &Audit, head: String| {
        let mut table = Table::new(head, &["rule", "outcome", "detail"]);
        for finding in &one.findings {
            table.row([finding.rule, finding.outcome.name(), &finding.detail]);
        }
        table
    };
    let mut notes = vec!["The rules and their sources: plimsoll audit --rules, and docs/run-rules.md".into()];
    if let [one] = audits {
        let figures = table(one, String::new());
        notes.insert(0, format!("Measured with: {}", one.tool));
        return Document {
            title: format!("Audit of {}", one.subject),
            answer: one.answer() + ".",
            figures: figures.clone(),
            tables: vec![figures],
            notes,
            ..Document::default()
        };
    }
    let mut figures = Table::new("", &["subject", "rule", "outcome", "detail"]);
    for one in audits {
        for finding in &one.findings {
            figures.row([&one.subject, finding.rule, finding.outcome.name(), &finding.detail]);
        }
    }
    let clean = audits.iter().filter(|one| one.rules(Outcome::Violated).is_empty()).count();
    Document {
        title: "Audit".into(),
        answer: format!("{} of {} measurements violate a run rule.", audits.len() - clean, audits.len()),
        figures,
        tables: audits.iter().map(|one| table(one, format!("{} ({})", one.answer(), one.tool))).collect(),
        notes,
        ..Document::default()
    }
}

/// Returns the rules with their sources.
fn rules() -> Document {
    let mut table = Table::new("", &["rule", "requirement", "source"]);
    for rule in RULES {
        table.row([rule.name, rule.text, rule.source]);
    }
    Document {
        title: "Run rules".into(),
        answer: format!("{} rules for figures that others may rely on.", RULES.len()),
        figures: table.clone(),
        tables: vec![table],
        ..Document::default()
    }
}
