//! First screen of the HTML report: the subject, the headline sentence ([`answers`], or [`tally`] of several
//! comparisons), the figures with their intervals, and the command that repeats the run. `report::text` has the
//! sentences that the terminal prints too; `report::comparison` words the verdict of one comparison.

use std::collections::BTreeMap;

use minijinja::{Value, context};
use serde::Serialize;

use super::rows::HtmlRow;
use crate::comparison::Comparison;
use crate::shell::command_line;
use crate::text::{answer, confidence, ramp};
use plimsoll_base::units::{format_count, format_ms, format_per_s, format_throughput, short_names};
use plimsoll_judge::run_dir::environment::Environment;
use plimsoll_judge::summary::comparison::Verdict;
use plimsoll_judge::summary::failures::FailurePair;
use plimsoll_judge::summary::result::{ConfidenceInterval, RunResult, Window};
use plimsoll_workload::schedule::Role;

/// Number of rows of the table of figures that are shown at first.
pub(super) const FIRST_FIGURES: usize = 12;

/// Maximum number of comparisons or warnings that are listed one by one.
pub(super) const MANY: usize = 3;

/// Number of rows of a comparison that are shown at first; a button shows the others.
const FIRST_ROWS: usize = 6;

/// A row of the table of figures.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    pub(super) subject: usize,
    pub(super) name: String,
    operation: String,
    load: String,
    clocked: &'static str,
    pub(super) later: bool,
    operations: String,
    failed: String,
    rate: Cell,
    throughput: Cell,
    p50: Cell,
    p99: Cell,
    p999: Cell,
    stamps: Vec<String>,
}

/// A figure with its interval, or the reason why there is none.
#[derive(Debug, Default, Serialize)]
struct Cell {
    value: String,
    interval: String,
}

/// Key figures of a store and operation: name, value and interval of each.
#[derive(Debug, Serialize)]
pub(super) struct Tile {
    subject: usize,
    name: String,
    figures: Vec<(&'static str, String, String)>,
}

/// Maximum number of rows whose key figures are shown as tiles.
const MAX_TILES: usize = 4;

/// Returns the key figures; none if there are many rows.
pub(super) fn tiles(figures: &[Figure]) -> Vec<Tile> {
    let shown: Vec<&Figure> = figures.iter().filter(|figure| !figure.later).collect();
    if shown.len() > MAX_TILES {
        return Vec::new();
    }
    let tile = |figure: &&Figure| {
        let cells = [("rate", &figure.rate), ("p50", &figure.p50), ("p99", &figure.p99)];
        let key = |(name, cell): (&'static str, &Cell)| (name, cell.value.clone(), cell.interval.clone());
        let mut figures: Vec<_> = cells.into_iter().map(key).collect();
        if figure.failed != "0" {
            figures.push(("failed", figure.failed.clone(), String::new()));
        }
        Tile {
            subject: figure.subject,
            name: format!("{} {}, {}", figure.name, figure.operation, figure.load),
            figures,
        }
    };
    shown.iter().map(tile).collect()
}

/// Environment and command of a run.
#[derive(Debug, Serialize)]
pub(super) struct Facts {
    run: String,
    command: String,
    facts: Vec<(String, String)>,
    experiment: String,
}

/// Returns the number of comparisons for each verdict on the primary figure, in a sentence.
pub(super) fn tally(comparisons: &[Comparison]) -> String {
    let primary = |c: &Comparison| c.rows.iter().find(|r| r.primary).map(|r| (r.verdict, r.label()));
    let verdicts: Vec<_> = comparisons.iter().filter_map(primary).collect();
    let count = |verdict: Verdict| verdicts.iter().filter(|(v, _)| *v == verdict).count();
    let counts = Verdict::ALL.map(|verdict| (count(verdict), verdict.describe()));
    let more = comparisons.iter().filter(|c| c.failures.iter().any(FailurePair::differs)).count();
    let failures = match more {
        0 => String::new(),
        n => format!("{n} with different shares of failures; "),
    };
    let parts = counts.iter().filter(|(n, _)| *n > 0).map(|(n, verdict)| format!("{n} {verdict}"));
    let figure = verdicts.first().map_or(String::new(), |(_, label)| format!(" in {label}"));
    let bounds = comparisons.iter().filter(|c| !c.limits().is_empty()).count();
    let bounds = match bounds {
        0 => String::new(),
        n => format!("; {n} of them are only bounds, because the client was the bottleneck"),
    };
    format!(
        "{} comparisons{figure}: {failures}{}{bounds}",
        verdicts.len(),
        parts.collect::<Vec<_>>().join(", ")
    )
}

/// Returns a comparison as the template needs it.
pub(super) fn comparison_context(comparison: &Comparison) -> Value {
    let later = |number: usize, primary: bool| number >= FIRST_ROWS && !primary;
    let rows = comparison.rows.iter().enumerate().map(|(number, row)| {
        context! {
            label => row.label(), primary => row.primary, change => row.change_text(),
            verdict => format!("{}{}", row.word, row.bound_text()),
            later => later(number, row.primary),
        }
    });
    context! {
        head => format!("{} compared with {}", comparison.other.name, comparison.base.name),
        clients => comparison.clients.clone(),
        loads => comparison.loads.clone(),
        limits => comparison.limits(),
        rows => rows.collect::<Vec<_>>(),
        later => comparison.rows.iter().enumerate().filter(|(n, r)| later(*n, r.primary)).count(),
    }
}

/// Describes the measurement of a run in a sentence.
pub(crate) fn measurement(result: &RunResult, environment: &Environment, stores: &[&str]) -> String {
    let measured = || result.windows.iter().filter(|w| w.role == Role::Measure);
    let operations: u64 = measured().map(|w| w.operations).sum();
    // The operations of a mix share one window of time.
    let time = |w: &Window| (w.store.clone(), w.phase.clone(), w.repeat, w.block, w.step);
    let times: BTreeMap<_, f64> = measured().map(|w| (time(w), w.window_s)).collect();
    let seconds: f64 = times.values().sum();
    let vantage =
        if environment.vantage.is_empty() { String::new() } else { format!(" from {}", environment.vantage) };
    format!(
        "{}: {} operations in {:.0} s of measurement on {}{vantage}, seed {}, {}",
        result.run.experiment,
        format_count(operations),
        seconds,
        short_names(stores).join(", "),
        result.run.seed,
        result.run.started_at
    )
}

/// Returns the warnings at the start of the headline: failed operations, the largest share first, then rows in
/// which the client was the bottleneck.
pub(super) fn warnings(rows: &[HtmlRow], name: impl Fn(usize) -> String) -> Vec<String> {
    let mut failed: Vec<(f64, String)> = Vec::new();
    let mut limited: Vec<String> = Vec::new();
    for row in rows {
        let phase = if row.phase == row.operation { String::new() } else { format!("{} ", row.phase) };
        let place = format!("{phase}{}{}", row.operation, name(row.subject));
        if row.failed > 0 {
            let share = row.failed as f64 / row.operations.max(1) as f64;
            let (n, of) = (format_count(row.failed), format_count(row.operations));
            failed.push((share, format!("{place}: {:.2}% failed, {n} of {of} operations", 100.0 * share)));
        }
        if let Some(why) = &row.client_limited {
            limited.push(format!("{place}: limited by the client, not by the store ({why})"));
        }
    }
    failed.sort_by(|a, b| b.0.total_cmp(&a.0));
    let failed: Vec<String> = failed.into_iter().map(|(_, text)| text).collect();
    [first_of(failed, "with failures"), first_of(limited, "limited by the client")].concat()
}

/// Returns the first few of `lines`, which are about rows, followed by the number of the others.
fn first_of(mut lines: Vec<String>, kind: &str) -> Vec<String> {
    let more = lines.len().saturating_sub(MANY);
    lines.truncate(MANY);
    if more > 0 {
        lines.push(format!("{more} more row{} {kind}", if more == 1 { "" } else { "s" }));
    }
    lines
}

/// Returns the results of a run in sentences, for a report without a comparison.
pub(super) fn answers(result: &RunResult, rows: &[HtmlRow]) -> Vec<String> {
    let answers = answer::of(result);
    if !answers.is_empty() {
        return answers;
    }
    if !result.ramps.is_empty() {
        return result.ramps.iter().map(ramp::summary).collect();
    }
    let of = |metric: &str, row: &HtmlRow| {
        let own = |j: &&ConfidenceInterval| {
            j.metric == metric && j.operation.name() == row.operation && j.phase == row.phase
        };
        result.confidence.iter().find(own).and_then(confidence::figure)
    };
    let sentence = |row: &HtmlRow| {
        let figures: Vec<String> = ["p50", "p99", "rate"].iter().filter_map(|m| of(m, row)).collect();
        if figures.is_empty() {
            return format!("{}: {}/s", row.operation, format_per_s(row.per_s));
        }
        format!("{}: {}", row.operation, figures.join(", "))
    };
    rows.iter().take(3).map(sentence).collect()
}

/// Returns true if a step of the search for the capacity is the highest rate that met the objectives, the lowest that
/// did not, or the first one at the lowest concurrency that reached the capacity. Without a search, every step is
/// shown.
fn is_edge(result: &RunResult, step: u32) -> bool {
    result.capacity.as_ref().is_none_or(|found| {
        let edges = [found.highest_met_per_s, found.lowest_missed_per_s];
        let at = |rate: f64| {
            let close = |offered: f64| (offered - rate).abs() < 0.01 * rate;
            found.steps.iter().find(|s| s.offered_per_s.is_some_and(close)).map(|s| s.step)
        };
        let reached = found.steps.iter().find(|s| s.in_flight.is_some() && s.in_flight == found.in_flight);
        edges.into_iter().flatten().any(|rate| at(rate) == Some(step))
            || reached.is_some_and(|s| s.step == step)
    })
}

/// Joins the ends of an interval. A common unit is written once.
fn range(low: &str, high: &str) -> String {
    let unit = |text: &str| text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, end) = low.split_at(unit(low));
    if high.split_at(unit(high)).1 == end {
        format!("{number} – {high}")
    } else {
        format!("{low} – {high}")
    }
}

/// Returns a row of the table of figures. Its name is set later, when all runs are known.
pub(super) fn figure(row: &HtmlRow, stores: &[&str], first: usize, result: &RunResult) -> Figure {
    let store = stores.get(row.subject - first).copied().unwrap_or_default();
    let judged = |metric: &str| {
        result.confidence.iter().find(|j| {
            let label = j.step.map_or_else(|| j.phase.clone(), |step| format!("{}_{}", j.phase, step + 1));
            (j.store.as_str(), label.as_str(), j.operation.name(), j.metric.as_str())
                == (store, row.phase.as_str(), row.operation.as_str(), metric)
        })
    };
    let cell = |metric: &str, otherwise: Option<f64>, show: fn(f64) -> String| {
        let judged = judged(metric);
        let value = judged.and_then(|j| j.value).or(otherwise).map_or("–".into(), show);
        let interval = judged.map_or(String::new(), |j| match (j.low, j.high) {
            (Some(low), Some(high)) => range(&show(low), &show(high)),
            _ => String::new(),
        });
        Cell { value, interval }
    };
    // An older run without intervals gets its percentiles from its histograms.
    let at = |x: f64| row.curve.iter().rfind(|p| p.0 <= x * 1.01 && p.0 >= x * 0.99).map(|p| p.1);
    let phase = if row.phase == row.operation { String::new() } else { format!("{} ", row.phase) };
    let percent = 100.0 * row.failed as f64 / row.operations.max(1) as f64;
    Figure {
        subject: row.subject,
        name: String::new(),
        operation: format!(
            "{phase}{}{}",
            row.operation,
            row.key_group.as_ref().map_or(String::new(), |g| format!(" {g}"))
        ),
        load: row.offered_per_s.map_or_else(
            || format!("{} in flight", row.concurrency),
            |rate| format!("{}/s offered", format_per_s(rate)),
        ),
        clocked: if row.offered_per_s.is_some() { "response time" } else { "service time" },
        later: row.step.is_some_and(|step| !is_edge(result, step)),
        operations: format_count(row.operations),
        failed: if row.failed == 0 {
            "0".into()
        } else {
            format!("{} ({percent:.2}%)", format_count(row.failed))
        },
        rate: cell("rate", Some(row.per_s), |x| format!("{}/s", format_per_s(x))),
        throughput: cell("throughput", Some(row.bytes_per_s).filter(|b| *b > 0.0), format_throughput),
        p50: cell("p50", at(2.0), |ms| format!("{} ms", format_ms(ms))),
        p99: cell("p99", at(100.0), |ms| format!("{} ms", format_ms(ms))),
        p999: cell("p99.9", at(1000.0), |ms| format!("{} ms", format_ms(ms))),
        stamps: row.stamps.clone(),
    }
}

pub(super) fn facts(result: &RunResult, environment: &Environment, experiment: &str) -> Facts {
    let machine = &environment.machine;
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".into());
    let mut facts: Vec<(String, String)> = vec![
        ("Plimsoll".into(), environment.version.clone()),
        ("host".into(), format!("{}, {}", machine.hostname, machine.kernel)),
        (
            "processor".into(),
            format!("{}, {} of {} cores usable", machine.cpu, machine.usable_cores, machine.cores),
        ),
        ("instance type".into(), known(&machine.instance_type)),
        ("frequency governor".into(), known(&machine.governor)),
        ("worker threads".into(), environment.workers.to_string()),
        (
            "client".into(),
            format!(
                "{:.1} µs CPU per operation, {:.1} s CPU, peak memory {:.0} MB",
                result.client.cpu_us_per_operation,
                result.client.cpu_seconds,
                result.client.peak_rss_bytes as f64 / 1e6
            ),
        ),
    ];
    for store in &environment.stores {
        let ms = |x: Option<f64>| x.map_or("unknown".into(), |ms| format!("{} ms", format_ms(ms)));
        facts.push((
            store.url.clone(),
            format!(
                "{} at {} ({}), round trip {}, TLS {}, signing {}",
                store.provider,
                store.endpoint,
                store.addresses.join(", "),
                ms(store.rtt_ms),
                store.tls_ms.map_or("none".into(), |t| ms(Some(t))),
                store.signing
            ),
        ));
    }
    let command = command_line(&environment.command);
    Facts { run: result.run.id.clone(), command, facts, experiment: experiment.into() }
}
