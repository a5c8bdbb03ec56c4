//! `plimsoll compare`: compares runs, or the stores of one run.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::exit::Exit;
use super::inconclusive::Inconclusive;
use super::out::{append, fit, say};
use super::runs::find;
use plimsoll_base::units::format_size;
use plimsoll_judge::run_dir::run::{Run, read};
use plimsoll_judge::summary::figure_selector::FigureSelector;
use plimsoll_judge::summary::objective::ChangeBound;
use plimsoll_judge::summary::objective_result::ObjectiveResult;
use plimsoll_judge::summary::primary_figure::{Choice, SeriesPair};
use plimsoll_judge::summary::series::{LatencyKind, Series};
use plimsoll_judge::summary::unit::Unit;
use plimsoll_report::comparison::{Comparison, ComparisonRow, failures, rows};

use plimsoll_judge::run_dir::comparable;
mod groups;
mod sides;

use sides::{Side, pairs};

/// Arguments of `plimsoll compare`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Run directories; the first run is the base. If there is only one run, its first store is the base. With
    /// `A1 A2 A3 -- B1 B2 B3`, the runs before `--` are the base group
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Run directories of the other group; the variation between the runs of a group then decides
    #[arg(last = true, value_name = "RUN")]
    others: Vec<PathBuf>,
    /// Primary metric, such as get.p99 or put.rate; choose it before you see the results [default: p50 of the
    /// first operation]
    #[arg(long, value_name = "METRIC")]
    primary: Option<String>,
    /// Exit with code 1 if a change exceeds this bound: 'get.p99 > +5%'; may be repeated
    #[arg(long, value_name = "CHANGE")]
    fail_if: Vec<String>,
    /// Also append the verdicts to this file as Markdown, such as "$GITHUB_STEP_SUMMARY"
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// If a run is too short to tell whether a bound is exceeded, fail (exit code 1) or pass (exit code 0)
    #[arg(long, value_enum, default_value = "fail")]
    inconclusive: Inconclusive,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// The JSON output of `plimsoll compare`.
#[derive(Serialize)]
struct Document {
    comparisons: Vec<Comparison>,
    checks: Vec<Check>,
}

/// The result of one `--fail-if` for one figure.
#[derive(Serialize)]
struct Check {
    fail_if: String,
    base: String,
    other: String,
    figure: String,
    outcome: ObjectiveResult,
}

/// Returns the pairs of series with the same phase, step and operation.
fn matching<'a>(base: &'a Side<'_>, other: &'a Side<'_>) -> Vec<SeriesPair<'a>> {
    let key = |s: &Series| (s.phase.clone(), s.step, s.operation, s.size);
    let same = |a: &Series, b: &Series| key(a) == key(b);
    base.series()
        .filter_map(|a| other.series().find(|b| same(a, b)).map(|other| SeriesPair { base: a, other }))
        .collect()
}

/// Compares two sides.
///
/// # Errors
/// Exit code 2 if they are not comparable, or if one of them did not measure `primary`.
fn compare_pair(
    base: &Side<'_>,
    other: &Side<'_>,
    primary: Option<&FigureSelector>,
    also: &[FigureSelector],
) -> Result<Comparison, Exit> {
    let within = std::ptr::eq(base.run, other.run);
    if !within
        && let Some(difference) =
            comparable::difference(&base.run.experiment_table(), &other.run.experiment_table())
    {
        return Err(Exit::input(format!(
            "{} and {} are not comparable: {difference}; compare runs with the same operations, objects and \
             load",
            base.run.path.display(),
            other.run.path.display()
        )));
    }
    let series = matching(base, other);
    if series.is_empty() {
        return Err(Exit::input(format!(
            "{} and {} have no measured phase in common; compare runs of the same experiment",
            base.subject.name, other.subject.name
        )));
    }
    let rows = rows(&series, Choice { primary, also }, within);
    check_primary(primary, &rows)?;
    Ok(Comparison {
        failures: failures(&series),
        base: base.subject.clone(),
        other: other.subject.clone(),
        runs: (1, 1),
        measured_s: series
            .first()
            .map_or((0.0, 0.0), |pair| (pair.base.measured_s(), pair.other.measured_s())),
        clients: if within { Vec::new() } else { comparable::clients(base.run, other.run) },
        loads: if within {
            Vec::new()
        } else {
            comparable::loads(&base.run.result, &other.run.result, &series)
        },
        rows,
    })
}

/// Checks that the primary figure was compared.
///
/// # Errors
/// Exit code 2 if at least one side did not measure it.
fn check_primary(primary: Option<&FigureSelector>, rows: &[ComparisonRow]) -> Result<(), Exit> {
    match primary.filter(|_| rows.iter().all(|r| !r.primary)) {
        Some(target) => Err(Exit::input(format!(
            "--primary {}: at least one of the runs did not measure this; \
             use a phase or operation that both measured",
            show(target)
        ))),
        None => Ok(()),
    }
}

fn show(target: &FigureSelector) -> String {
    let size = target.size.map_or_else(String::new, |bytes| format!("[{}]", format_size(bytes)));
    let operation = target.operation.as_ref().map(|operation| format!("{operation}{size}"));
    [target.phase.as_deref(), operation.as_deref(), Some(&target.metric)]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(".")
}

/// Compares runs. The HTML report also uses this function.
///
/// # Errors
/// Exit code 2 if the runs are not comparable.
pub fn comparisons(
    runs: &[&Run],
    primary: Option<&FigureSelector>,
    also: &[FigureSelector],
) -> Result<Vec<Comparison>, Exit> {
    pairs(runs)?.iter().map(|(base, other)| compare_pair(base, other, primary, also)).collect()
}

/// Returns the name of a metric without the prefix that all figures of a size class may omit.
fn name<'a>(row: &ComparisonRow, metric: &'a str) -> &'a str {
    match row.size {
        Some(_) => metric.trim_start_matches("service."),
        None => metric,
    }
}

/// Judges the comparisons by the bounds.
///
/// # Errors
/// Exit code 2 if no comparison contains the figure of a bound.
fn check(comparisons: &[Comparison], bounds: &[ChangeBound]) -> Result<Vec<Check>, Exit> {
    let mut out = Vec::new();
    for bound in bounds {
        let before = out.len();
        for comparison in comparisons {
            let target = &bound.target;
            let matching = comparison.rows.iter().filter(|row| {
                target.phase.as_ref().is_none_or(|p| *p == row.phase)
                    && target.operation.as_ref().is_none_or(|o| *o == row.operation)
                    && target.is_about(row.size)
                    && name(row, &target.metric) == name(row, &row.metric)
            });
            for row in matching {
                let change = row.change.zip(row.change_low).zip(row.change_high).map(|((c, l), h)| (c, l, h));
                // What a store answers fast does not make up for what it does not answer.
                let fails_more = row.unit != Unit::Share && comparison.fails_more(&row.place());
                let (outcome, note) = match bound.met(change) {
                    ObjectiveResult::Pass if fails_more => {
                        (ObjectiveResult::Fail, "; more operations failed")
                    }
                    outcome => (outcome, ""),
                };
                out.push(Check {
                    fail_if: bound.text.clone(),
                    base: comparison.base.name.clone(),
                    other: comparison.other.name.clone(),
                    figure: format!("{} {}{}{note}", row.label(), row.change_text(), row.bound_text()),
                    outcome,
                });
            }
        }
        if out.len() == before {
            return Err(Exit::input(format!(
                "--fail-if '{}': at least one of the runs did not measure this; \
                 use a metric that both measured",
                bound.text
            )));
        }
    }
    Ok(out)
}

/// Compares runs and prints the comparisons.
///
/// # Errors
/// Exit code 1 if a bound is exceeded, or if a run is too short to tell and `--inconclusive` is `fail`; 2 if the
/// runs are not comparable.
pub fn compare(arguments: &Arguments) -> Result<(), Exit> {
    let primary = arguments.primary.as_deref().map(FigureSelector::parse).transpose();
    let primary = primary.map_err(|e| Exit::input(format!("--primary {e}")))?;
    let bounds: Vec<ChangeBound> = arguments
        .fail_if
        .iter()
        .map(|text| ChangeBound::parse(text).map_err(|e| Exit::input(format!("--fail-if {e}"))))
        .collect::<Result<_, _>>()?;
    let also: Vec<FigureSelector> = bounds.iter().map(|b| b.target.clone()).collect();
    let clocks = [LatencyKind::Service, LatencyKind::Response, LatencyKind::FirstByte];
    let used = if also.iter().chain(&primary).any(|t| t.metric.starts_with("first_byte")) { 3 } else { 2 };
    let read_all = |paths: &[PathBuf]| -> Result<Vec<Run>, Exit> {
        paths.iter().map(|run| read(run, &clocks[..used]).map_err(Exit::input)).collect()
    };
    let (runs, others) = (read_all(&find(&arguments.runs)?)?, read_all(&find(&arguments.others)?)?);
    let comparisons = if others.is_empty() {
        comparisons(&runs.iter().collect::<Vec<_>>(), primary.as_ref(), &also)?
    } else {
        vec![groups::compare_groups(&runs, &others, primary.as_ref(), &also)?]
    };
    let checks = check(&comparisons, &bounds)?;
    let outcomes: Vec<ObjectiveResult> = checks.iter().map(|c| c.outcome).collect();
    if let Some(path) = &arguments.summary {
        let text: String = comparisons.iter().map(|comparison| comparison.document().markdown()).collect();
        append("--summary", path, &text)?;
    }
    let text = if arguments.json {
        let document = Document { comparisons, checks };
        format!("{}\n", serde_json::to_string_pretty(&document).unwrap_or_default())
    } else {
        let tables: Vec<String> = comparisons.iter().map(Comparison::render).collect();
        let lines = checks
            .iter()
            .map(|c| format!("{:<11} --fail-if '{}': {}\n", c.outcome.name(), c.fail_if, c.figure));
        fit(&format!("{}{}", tables.join("\n"), lines.collect::<String>()))
    };
    say(&text)?;
    let exceeded = |failed: usize| format!("{failed} of {} bounds exceeded", outcomes.len());
    arguments.inconclusive.conclude(outcomes.iter().copied(), "bound", exceeded)
}
