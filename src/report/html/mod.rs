//! The HTML report: one self-contained file that opens offline. [`lines`] and [`rows`] reduce runs to what is drawn, here it is put on the
//! page of `report/template/`: the first screen as plain HTML, the charts by scripts that find their data in the page.

pub mod lines;
pub mod rows;

use minijinja::value::Serde;
use minijinja::{Environment as Templates, Value, context};
use serde::Serialize;

use super::comparison::Comparison;
use super::directory::Environment;
use super::terminal::{confidence, knee, ramp};
use crate::published::Published;
use crate::summary::result::{Judged, KneeFigures, RampFigures, RunResult, SweepFigures};
use crate::summary::series::Series;
use crate::units::{format_count, format_ms, format_per_s, format_size, format_throughput, short_names};
use lines::{Band, Line, bands, line};
use rows::{Row, rows};

/// Cells of all heatmaps together.
const HEAT_CELLS: usize = 60_000;

/// A store of a run: what the colours of the charts stand for.
#[derive(Debug, Clone, Serialize)]
struct Subject {
    name: String,
    store: String,
    run: String,
}

/// A run as the scripts see it.
#[derive(Debug, Clone, Serialize)]
struct Drawn {
    id: String,
    started_at: String,
    bands: Vec<Band>,
    lines: Vec<Line>,
    rows: Vec<Row>,
    ramps: Vec<RampFigures>,
    sweeps: Vec<SweepFigures>,
    knee: Option<KneeFigures>,
    cpu_us_per_operation: f64,
    cpu_seconds: f64,
    peak_rss_bytes: u64,
}

/// A reference line from elsewhere.
#[derive(Debug, Clone, Serialize)]
struct Reference {
    label: String,
    operation: String,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    per_s: Option<f64>,
    mb_per_s: Option<f64>,
}

/// The report under construction: runs are added one by one, so that no more than one needs to be in memory.
#[derive(Debug, Default)]
pub struct Report {
    subjects: Vec<Subject>,
    runs: Vec<Drawn>,
    figures: Vec<Figure>,
    facts: Vec<Facts>,
    answers: Vec<String>,
    stamps: Vec<String>,
    comparisons: Vec<Comparison>,
    references: Vec<Reference>,
    sources: Vec<String>,
    title: String,
    what: Vec<String>,
    lines_expected: usize,
}

/// A line of the first screen's table.
#[derive(Debug, Serialize)]
struct Figure {
    subject: usize,
    name: String,
    what: String,
    load: String,
    clocked: &'static str,
    step: bool,
    operations: String,
    failed: String,
    rate: Cell,
    throughput: Cell,
    p50: Cell,
    p99: Cell,
    p999: Cell,
    stamps: Vec<String>,
}

/// A figure with its interval, or why there is none.
#[derive(Debug, Default, Serialize)]
struct Cell {
    value: String,
    interval: String,
}

/// The environment of a run.
#[derive(Debug, Serialize)]
struct Facts {
    run: String,
    command: String,
    facts: Vec<(String, String)>,
    experiment: String,
}

impl Report {
    /// A report of about so many runs of so many stores.
    pub fn new(lines_expected: usize) -> Report {
        Report { lines_expected: lines_expected.max(1), ..Report::default() }
    }

    /// Adds a run.
    pub fn add(
        &mut self,
        result: &RunResult,
        environment: &Environment,
        experiment: &str,
        series: &[Series],
    ) {
        let mut stores: Vec<&str> = Vec::new();
        for window in &result.windows {
            if !stores.contains(&window.store.as_str()) {
                stores.push(&window.store);
            }
        }
        let first = self.subjects.len();
        for (store, name) in stores.iter().zip(short_names(&stores)) {
            self.subjects.push(Subject { name, store: (*store).to_string(), run: result.run.id.clone() });
        }
        let subject = |store: &str| first + stores.iter().position(|s| *s == store).unwrap_or(0);
        let rows = rows(result, subject);
        self.figures.extend(rows.iter().map(|row| figure(row, &stores, first, result)));
        self.stamp(result);
        if self.title.is_empty() {
            self.title.clone_from(&result.run.experiment);
        }
        self.what.push(what(result, environment, &stores));
        self.answers.extend(answers(result, &rows));
        let lines = self.lines(series, subject);
        self.runs.push(Drawn {
            id: result.run.id.clone(),
            started_at: result.run.started_at.clone(),
            bands: bands(series, |s| subject(&s.store)),
            lines,
            rows,
            ramps: result.ramps.clone(),
            sweeps: result.sweeps.clone(),
            knee: result.knee.clone(),
            cpu_us_per_operation: result.client.cpu_us_per_operation,
            cpu_seconds: result.client.cpu_seconds,
            peak_rss_bytes: result.client.peak_rss_bytes,
        });
        self.facts.push(facts(result, environment, experiment));
    }

    fn lines(&self, series: &[Series], subject: impl Fn(&str) -> usize) -> Vec<Line> {
        let mut groups: Vec<Vec<&Series>> = Vec::new();
        for s in series.iter().filter(|s| s.role != "prepare") {
            match groups.iter_mut().find(|g| (&g[0].store, &g[0].operation) == (&s.store, &s.operation)) {
                Some(group) => group.push(s),
                None => groups.push(vec![s]),
            }
        }
        let cells = HEAT_CELLS / self.lines_expected.max(groups.len());
        // Lines are independent, and most of a report's time goes into them.
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let subjects: Vec<usize> = groups.iter().map(|group| subject(&group[0].store)).collect();
        let jobs: Vec<_> = groups.iter().zip(subjects).collect();
        let share = jobs.len().div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            let draw = |jobs: &[(&Vec<&Series>, usize)]| {
                jobs.iter().map(|(group, subject)| line(group, *subject, cells)).collect::<Vec<_>>()
            };
            let drawn: Vec<_> = jobs.chunks(share).map(|jobs| scope.spawn(move || draw(jobs))).collect();
            drawn.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
        })
    }

    fn stamp(&mut self, result: &RunResult) {
        let run = &result.run;
        if run.partial {
            self.stamps.push(format!("{} is partial: it did not run to its end", run.id));
        }
        if let Some(degraded) = &run.degraded {
            self.stamps.push(format!("{} is degraded: {degraded}", run.id));
        }
        if let Some(imported) = &run.imported {
            self.stamps.push(format!("{} was imported, not measured by Plimsoll: {imported}", run.id));
        }
        self.stamps.extend(run.notes.iter().map(|note| format!("note: {note}")));
    }

    /// Adds comparisons.
    pub fn compare(&mut self, comparisons: Vec<Comparison>) {
        self.comparisons.extend(comparisons);
    }

    /// Adds what others have published as reference lines.
    pub fn refer(&mut self, document: &Published) {
        self.sources
            .push(format!("{}: {} ({}, {})", document.name, document.title, document.source, document.date));
        for row in &document.rows {
            let figure = |name: &str| row.figures.get(name).copied();
            let reference = Reference {
                label: format!("{} (published, not measured here)", row.label),
                operation: row.operation.clone(),
                p50_ms: figure("p50_ms"),
                p99_ms: figure("p99_ms").or(figure("p99_s").map(|s| s * 1e3)),
                per_s: figure("rate_per_s"),
                mb_per_s: figure("throughput_mb_per_s").or(figure("throughput_mbit_per_s").map(|m| m / 8.0)),
            };
            let any = [reference.p50_ms, reference.p99_ms, reference.per_s, reference.mb_per_s];
            if any.iter().any(Option::is_some) {
                self.references.push(reference);
            }
        }
    }

    /// The page.
    ///
    /// # Errors
    /// When the template is broken, which its test would show.
    pub fn render(mut self) -> Result<String, minijinja::Error> {
        self.name_apart();
        let answer = match self.comparisons.as_slice() {
            [] => self.answers.join(". "),
            comparisons => comparisons.iter().map(Comparison::sentence).collect::<Vec<_>>().join(". "),
        };
        let data = serde_json::json!({
            "subjects": self.subjects,
            "runs": self.runs,
            "comparisons": self.comparisons,
            "references": self.references,
        });
        // What ends a script must not stand in one.
        let data = data.to_string().replace("</", "<\\/").replace("<!--", "<\\u0021--");
        let mut templates = Templates::new();
        templates.add_template("report.html", include_str!("../template/report.html"))?;
        templates.get_template("report.html")?.render(context! {
            title => self.title,
            what => self.what,
            answer => answer,
            stamps => self.stamps,
            steps => self.figures.iter().filter(|f| f.step).count(),
            figures => Value::from(Serde(&self.figures)),
            comparisons => self.comparisons.iter().map(shown).collect::<Vec<_>>(),
            sources => self.sources,
            facts => Value::from(Serde(&self.facts)),
            version => env!("CARGO_PKG_VERSION"),
            style => include_str!("../template/report.css"),
            echarts => include_str!("../template/echarts.min.js"),
            scripts => concat!(
                include_str!("../template/kit.js"),
                include_str!("../template/time.js"),
                include_str!("../template/latency.js"),
                include_str!("../template/load.js"),
                include_str!("../template/judgement.js"),
                include_str!("../template/start.js"),
            ),
            data => data,
        })
    }

    /// Subjects of several runs carry their run's id where their stores do not tell them apart.
    fn name_apart(&mut self) {
        let names: Vec<String> = self.subjects.iter().map(|s| s.name.clone()).collect();
        for subject in &mut self.subjects {
            if names.iter().filter(|n| **n == subject.name).count() > 1 {
                subject.name = format!("{} ({})", subject.name, subject.run);
            }
        }
        for figure in &mut self.figures {
            figure.name.clone_from(&self.subjects[figure.subject].name);
        }
    }
}

/// Rows of a comparison that the first screen shows; the others are a click away.
const FIRST_ROWS: usize = 6;

/// A comparison as the template has it.
fn shown(comparison: &Comparison) -> Value {
    let later = |number: usize, primary: bool| number >= FIRST_ROWS && !primary;
    let rows = comparison.rows.iter().enumerate().map(|(number, row)| {
        context! {
            label => row.label(), primary => row.primary, change => row.change_text(), verdict => row.verdict,
            later => later(number, row.primary),
        }
    });
    context! {
        head => format!("{} against {}", comparison.other.name, comparison.base.name),
        clients => comparison.clients.clone(),
        rows => rows.collect::<Vec<_>>(),
        later => comparison.rows.iter().enumerate().filter(|(n, r)| later(*n, r.primary)).count(),
    }
}

/// What was measured, in a sentence.
fn what(result: &RunResult, environment: &Environment, stores: &[&str]) -> String {
    let measured: u64 = result.windows.iter().filter(|w| w.role == "measure").map(|w| w.operations).sum();
    let seconds: f64 = result.windows.iter().filter(|w| w.role == "measure").map(|w| w.window_s).sum();
    let vantage =
        if environment.vantage.is_empty() { String::new() } else { format!(" from {}", environment.vantage) };
    format!(
        "{} operations in {:.0} s of windows on {}{vantage}, seed {}, {}",
        format_count(measured),
        seconds,
        short_names(stores).join(", "),
        result.run.seed,
        result.run.started_at
    )
}

/// What a run says without being compared.
fn answers(result: &RunResult, rows: &[Row]) -> Vec<String> {
    if let Some(found) = &result.knee {
        return vec![knee::sentence(found)];
    }
    if !result.ramps.is_empty() {
        return result.ramps.iter().map(ramp::summary).collect();
    }
    let settings: Vec<String> = result.sweeps.iter().filter_map(recommended).collect();
    if !settings.is_empty() {
        return settings;
    }
    let of = |metric: &str, row: &Row| {
        let own = |j: &&Judged| j.metric == metric && j.operation == row.operation && j.phase == row.phase;
        result.confidence.iter().find(own).and_then(confidence::figure)
    };
    let sentence = |row: &Row| {
        let figures: Vec<String> = ["p50", "p99", "rate"].iter().filter_map(|m| of(m, row)).collect();
        let figures: Vec<String> = if figures.is_empty() {
            vec![format!("{}/s", format_per_s(row.per_s))]
        } else {
            figures
                .iter()
                .map(|f| if f.starts_with("rate") { format!("{f} per second") } else { format!("{f} ms") })
                .collect()
        };
        format!("{}: {}", row.operation, figures.join(", "))
    };
    rows.iter().take(3).map(sentence).collect()
}

/// The setting that a sweep recommends.
fn recommended(sweep: &SweepFigures) -> Option<String> {
    let point = sweep.recommended.as_ref()?;
    Some(format!(
        "{}: upload in parts of {}, {} in flight: {}",
        sweep.store.split('?').next().unwrap_or(&sweep.store),
        format_size(point.part_bytes),
        point.parts_in_flight,
        point.bytes_per_s.map_or("not measured".into(), format_throughput)
    ))
}

fn figure(row: &Row, stores: &[&str], first: usize, result: &RunResult) -> Figure {
    let store = stores.get(row.subject - first).copied().unwrap_or_default();
    let judged = |metric: &str| {
        result.confidence.iter().find(|j| {
            let label = j.step.map_or_else(|| j.phase.clone(), |step| format!("{}_{}", j.phase, step + 1));
            (j.store.as_str(), label.as_str(), j.operation.as_str(), j.metric.as_str())
                == (store, row.phase.as_str(), row.operation.as_str(), metric)
        })
    };
    let cell = |metric: &str, otherwise: Option<f64>, show: fn(f64) -> String| {
        let judged = judged(metric);
        let value = judged.and_then(|j| j.value).or(otherwise).map_or("–".into(), show);
        let interval = judged.map_or(String::new(), |j| match (j.low, j.high, j.needs_s) {
            (Some(low), Some(high), _) => format!("{} – {}", show(low), show(high)),
            (_, _, Some(seconds)) => confidence::needs(seconds),
            _ => String::new(),
        });
        Cell { value, interval }
    };
    let phase = if row.phase == row.operation { String::new() } else { format!("{} ", row.phase) };
    let percent = 100.0 * row.failed as f64 / row.operations.max(1) as f64;
    Figure {
        subject: row.subject,
        name: String::new(),
        what: format!(
            "{phase}{}{}",
            row.operation,
            row.key_group.as_ref().map_or(String::new(), |g| format!(" {g}"))
        ),
        load: row.offered_per_s.map_or_else(
            || format!("{} in flight", row.concurrency),
            |rate| format!("{}/s offered", format_per_s(rate)),
        ),
        clocked: if row.offered_per_s.is_some() { "response time" } else { "service time" },
        step: row.step.is_some_and(|step| !telling(result, step)),
        operations: format_count(row.operations),
        failed: if row.failed == 0 {
            "0".into()
        } else {
            format!("{} ({percent:.2}%)", format_count(row.failed))
        },
        rate: cell("rate", Some(row.per_s), |x| format!("{}/s", format_per_s(x))),
        throughput: cell("throughput", Some(row.bytes_per_s).filter(|b| *b > 0.0), format_throughput),
        p50: cell("p50", None, |ms| format!("{} ms", format_ms(ms))),
        p99: cell("p99", None, |ms| format!("{} ms", format_ms(ms))),
        p999: cell("p99.9", None, |ms| format!("{} ms", format_ms(ms))),
        stamps: row.stamps.clone(),
    }
}

/// Whether a step of a search is one of its edges, which the first screen shows.
fn telling(result: &RunResult, step: u32) -> bool {
    result.knee.as_ref().is_some_and(|knee| {
        let edges = [knee.holds_per_s, knee.breaks_per_s];
        let first = |rate: f64| {
            knee.steps.iter().find(|s| (s.offered_per_s - rate).abs() < 0.01 * rate).map(|s| s.step)
        };
        edges.into_iter().flatten().any(|rate| first(rate) == Some(step))
    })
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn facts(result: &RunResult, environment: &Environment, experiment: &str) -> Facts {
    let machine = &environment.machine;
    let told = |text: &Option<String>| text.clone().unwrap_or_else(|| "not known".into());
    let mut facts: Vec<(String, String)> = vec![
        ("Plimsoll".into(), environment.version.clone()),
        ("host".into(), format!("{}, {}", machine.hostname, machine.kernel)),
        (
            "processor".into(),
            format!("{}, {} of {} cores usable", machine.cpu, machine.usable_cores, machine.cores),
        ),
        ("instance type".into(), told(&machine.instance_type)),
        ("frequency governor".into(), told(&machine.governor)),
        ("worker threads".into(), environment.workers.to_string()),
        (
            "client".into(),
            format!(
                "{:.1} µs CPU per operation, {:.1} s CPU, at most {:.0} MB",
                result.client.cpu_us_per_operation,
                result.client.cpu_seconds,
                result.client.peak_rss_bytes as f64 / 1e6
            ),
        ),
    ];
    for store in &environment.stores {
        let ms = |x: Option<f64>| x.map_or("not known".into(), |ms| format!("{} ms", format_ms(ms)));
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
    let mut command: Vec<String> = environment.command.iter().map(|w| quoted(w)).collect();
    if let Some(program) = command.first_mut() {
        *program = "plimsoll".into();
    }
    Facts { run: result.run.id.clone(), command: command.join(" "), facts, experiment: experiment.into() }
}
