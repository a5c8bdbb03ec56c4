//! The HTML report: one self-contained file that opens offline. [`lines`] and [`rows`] reduce runs to the data of the
//! charts. The first screen is plain HTML from `report/template/`; scripts draw the charts from data in the page.

mod headline;
pub mod lines;
pub mod rows;

use std::collections::{BTreeMap, BTreeSet};

use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Serialize;

use super::comparison::Comparison;
use super::text::confidence::needs;
use super::text::{addresses, answer, contention, cost, objectives, sizes, sweep};
use super::{clients, loops};
pub(crate) use headline::measurement;
use headline::{
    FIRST_FIGURES, Facts, Figure, MANY, answers, comparison_context, facts, figure, tally, tiles, warnings,
};
use lines::{Band, OperationCurves, bands, line};
use plimsoll_base::units::short_names;
use plimsoll_cost::published::Published;
use plimsoll_document::Table;
use plimsoll_document::page;
use plimsoll_judge::run_dir::environment::Environment;
use plimsoll_judge::summary::result::{CapacityFigures, RampFigures, RunResult, SweepFigures};
use plimsoll_judge::summary::series::Series;
use plimsoll_workload::schedule::Role;
use rows::{HtmlRow, rows};

/// A store of a run; each has its own colour in the charts.
#[derive(Debug, Clone, Serialize)]
struct Subject {
    name: String,
    store: String,
    run: String,
    #[serde(skip)]
    started_at: String,
    #[serde(skip)]
    labels: BTreeMap<String, String>,
}

impl Subject {
    /// Returns names of the run, the most telling one first: its labels, the time of its start, its identifier.
    fn runs(&self) -> [String; 3] {
        let labels: Vec<String> = self.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let started = self.started_at.trim_end_matches('Z').replacen('T', " ", 1);
        [labels.join(" "), started, self.run.clone()]
    }
}

/// A run's data for the scripts.
#[derive(Debug, Clone, Serialize)]
struct Drawn {
    id: String,
    started_at: String,
    bands: Vec<Band>,
    lines: Vec<OperationCurves>,
    rows: Vec<HtmlRow>,
    ramps: Vec<RampFigures>,
    sweeps: Vec<SweepFigures>,
    capacity: Option<CapacityFigures>,
    cpu_us_per_operation: f64,
    cpu_seconds: f64,
    peak_rss_bytes: u64,
}

/// A published result, drawn as a reference line.
#[derive(Debug, Clone, Serialize)]
struct Reference {
    label: String,
    operation: String,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    per_s: Option<f64>,
    mb_per_s: Option<f64>,
    in_flight: Option<f64>,
}

/// Cost of a run at one store.
#[derive(Debug, Clone, Serialize)]
struct Cost {
    head: String,
    table: Table,
    notes: Vec<String>,
}

/// Builder of the report. Runs are added one by one, so that only one needs to be in memory.
#[derive(Debug, Default)]
pub struct Report {
    subjects: Vec<Subject>,
    runs: Vec<Drawn>,
    figures: Vec<Figure>,
    facts: Vec<Facts>,
    warnings: Vec<String>,
    answers: Vec<String>,
    stamps: Vec<String>,
    comparisons: Vec<Comparison>,
    references: Vec<Reference>,
    sources: Vec<String>,
    costs: Vec<Cost>,
    loops: Vec<Table>,
    clients: Vec<Table>,
    objectives: Vec<Table>,
    contention: Vec<Table>,
    sizes: Vec<Table>,
    addresses: Vec<Table>,
    /// Sentences about the best points of sweeps and the best numbers of writers.
    best: Vec<String>,
    /// Sentences about the objectives of the runs.
    judged: Vec<String>,
    /// Longest time of measurement that a figure without an interval needs, in seconds.
    needed_s: Option<f64>,
    what: Vec<String>,
    /// Options with which the report is made.
    options: serde_json::Value,
    lines_expected: usize,
}

impl Report {
    /// Creates an empty report. `lines_expected` is the approximate number of curves, which limits the points of each.
    pub fn new(lines_expected: usize) -> Report {
        Report { lines_expected: lines_expected.max(1), ..Report::default() }
    }

    /// Adds a run with its environment, its resolved experiment as TOML, and its series.
    pub fn add(
        &mut self,
        result: &RunResult,
        environment: &Environment,
        experiment: &str,
        series: &[Series],
    ) {
        let stores = result.stores();
        let first = self.subjects.len();
        for (store, name) in stores.iter().zip(short_names(&stores)) {
            self.subjects.push(Subject {
                name,
                store: (*store).to_string(),
                run: result.run.id.clone(),
                started_at: result.run.started_at.clone(),
                labels: result.run.labels.clone(),
            });
        }
        let subject = |store: &str| first + stores.iter().position(|s| *s == store).unwrap_or(0);
        let rows = rows(result, subject);
        self.figures.extend(rows.iter().map(|row| figure(row, &stores, first, result)));
        self.stamp(result);
        let needed = result.confidence.iter().filter_map(|figure| figure.duration_needed_s);
        self.needed_s = needed.chain(self.needed_s).reduce(f64::max);
        self.what.push(measurement(result, environment, &stores));
        let names = short_names(&stores);
        let on = |subject: usize| match names.as_slice() {
            [_] => String::new(),
            several => format!(" on {}", several[subject - first].trim_end_matches(':')),
        };
        self.warnings.extend(warnings(&rows, on));
        self.answers.extend(answers(result, &rows));
        self.judged.extend(answer::judged(result));
        self.best.extend(sweep::sentences(result));
        self.best.extend(contention::sentences(result));
        for (store, name) in stores.iter().zip(&names) {
            let headed = |table: Table| Table { head: format!("{name}: {}", table.head), ..table };
            self.contention.extend(contention::table(result, store).map(headed));
            self.sizes.extend(sizes::table(result, store).map(headed));
            self.addresses.extend(addresses::table(result, store).map(headed));
        }
        let paid = short_names(&result.cost.iter().map(|c| c.store.as_str()).collect::<Vec<_>>());
        self.costs.extend(result.cost.iter().zip(paid).map(|(cost, store)| Cost {
            head: format!("{store}, {}: {}", result.run.id, cost::sentence(cost)),
            table: cost::items(cost),
            notes: cost.bill.notes.clone(),
        }));
        self.loops.extend(loops::table(&result.sync));
        self.clients.extend(clients::tables(&result.clients));
        let judged = objectives::table(result);
        self.objectives.extend(judged.map(|table| Table { head: result.run.id.clone(), ..table }));
        let lines = self.lines(series, subject);
        self.runs.push(Drawn {
            id: result.run.id.clone(),
            started_at: result.run.started_at.clone(),
            bands: bands(series, |s| subject(&s.store)),
            lines,
            rows,
            ramps: result.ramps.clone(),
            sweeps: result.sweeps.clone(),
            capacity: result.capacity.clone(),
            cpu_us_per_operation: result.client.cpu_us_per_operation,
            cpu_seconds: result.client.cpu_seconds,
            peak_rss_bytes: result.client.peak_rss_bytes,
        });
        self.facts.push(facts(result, environment, experiment));
    }

    fn lines(&self, series: &[Series], subject: impl Fn(&str) -> usize) -> Vec<OperationCurves> {
        let mut groups: Vec<Vec<&Series>> = Vec::new();
        for s in series.iter().filter(|s| s.role != Role::Prepare) {
            match groups.iter_mut().find(|g| (&g[0].store, &g[0].operation) == (&s.store, &s.operation)) {
                Some(group) => group.push(s),
                None => groups.push(vec![s]),
            }
        }
        let of = self.lines_expected.max(groups.len());
        // Lines are independent, and computing them takes most of the time of a report.
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let subjects: Vec<usize> = groups.iter().map(|group| subject(&group[0].store)).collect();
        let jobs: Vec<_> = groups.iter().zip(subjects).collect();
        let share = jobs.len().div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            let draw = |jobs: &[(&Vec<&Series>, usize)]| {
                jobs.iter().map(|(group, subject)| line(group, *subject, of)).collect::<Vec<_>>()
            };
            let drawn: Vec<_> = jobs.chunks(share).map(|jobs| scope.spawn(move || draw(jobs))).collect();
            drawn.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
        })
    }

    fn stamp(&mut self, result: &RunResult) {
        let run = &result.run;
        if run.partial {
            self.stamps.push(format!("{} is partial: the run did not complete", run.id));
        }
        if let Some(degraded) = &run.degraded {
            self.stamps.push(format!("{} is degraded: {degraded}", run.id));
        }
        if let Some(imported) = &run.imported {
            self.stamps.push(format!("{} was imported, not measured by Plimsoll: {imported}", run.id));
        }
        self.stamps.extend(run.notes.iter().map(|note| format!("note: {note}")));
    }

    /// Adds comparisons between the runs or stores.
    pub fn compare(&mut self, comparisons: Vec<Comparison>) {
        self.comparisons.extend(comparisons);
    }

    /// Adds the results of a published document as reference lines.
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
                in_flight: figure("in_flight"),
                mb_per_s: figure("throughput_mb_per_s").or(figure("throughput_mbit_per_s").map(|m| m / 8.0)),
            };
            let any = [reference.p50_ms, reference.p99_ms, reference.per_s, reference.mb_per_s];
            if any.iter().any(Option::is_some) {
                self.references.push(reference);
            }
        }
    }

    /// Sets the options with which the report is made, which the page contains as data.
    pub fn set_options(&mut self, options: serde_json::Value) {
        self.options = options;
    }

    /// Renders the page.
    ///
    /// # Errors
    /// Fails if the template is invalid; the tests render it.
    pub fn render(mut self) -> Result<String, minijinja::Error> {
        self.make_names_unique();
        let sentences: Vec<String> = match self.comparisons.as_slice() {
            [] => std::mem::take(&mut self.answers),
            many if many.len() > MANY => vec![tally(many)],
            few => few.iter().map(Comparison::sentence).collect(),
        };
        // The answers of one run contain these sentences; the comparison of its stores does not.
        let compared = self.runs.len() == 1 && !self.comparisons.is_empty();
        let judged = self.judged.drain(..).filter(|_| compared);
        let best = self.best.drain(..).filter(|_| compared);
        let sentences: Vec<String> = judged.chain(sentences).chain(best).collect();
        if let [only] = self.objectives.as_mut_slice() {
            only.head.clear();
        }
        let sections = [
            ("Synchronisations", &self.loops),
            ("Clients", &self.clients),
            ("Objectives", &self.objectives),
            ("Writers", &self.contention),
            ("Sizes", &self.sizes),
            ("Addresses", &self.addresses),
        ];
        let mut cautions = std::mem::take(&mut self.warnings);
        let about = self.comparisons.iter().take(MANY).flat_map(Comparison::differences);
        cautions.extend(about);
        cautions.append(&mut self.stamps);
        let mut seen = std::collections::HashSet::new();
        cautions.retain(|caution| seen.insert(caution.clone()));
        let data = serde_json::json!({
            "subjects": self.subjects,
            "runs": self.runs,
            "comparisons": self.comparisons,
            "references": self.references,
            "options": self.options,
        });
        let content = context! {
            title => self.title(),
            what => self.what,
            sentences => sentences,
            stamps => cautions,
            tiles => Value::from(Serde(tiles(&self.figures))),
            needed => self.needed_s.map(needs),
            later => self.figures.iter().filter(|f| f.later).count(),
            many => Some(self.comparisons.len()).filter(|n| *n > MANY),
            figures => Value::from(Serde(&self.figures)),
            comparisons => self.comparisons.iter().map(comparison_context).collect::<Vec<_>>(),
            sources => self.sources,
            sections => Value::from(Serde(sections)),
            costs => Value::from(Serde(&self.costs)),
            facts => Value::from(Serde(&self.facts)),
        };
        page::render(
            include_str!("../template/report.html"),
            content,
            &data,
            &[
                include_str!("../template/judgement.js"),
                include_str!("../template/time.js"),
                include_str!("../template/latency.js"),
                include_str!("../template/load.js"),
                include_str!("../template/client.js"),
            ],
        )
    }

    /// Returns the question that the page answers, or the names of the stores.
    fn title(&self) -> String {
        let mut names: Vec<&str> = self.subjects.iter().map(|s| s.name.trim_end_matches(':')).collect();
        names.dedup();
        let stores = if names.len() > 3 { format!("{} stores", names.len()) } else { names.join(", ") };
        match self.comparisons.as_slice() {
            _ if self.runs.len() == 1 && !self.objectives.is_empty() => match names.len() {
                1 => format!("Does {stores} meet its objectives?"),
                _ => format!("Do {stores} meet their objectives?"),
            },
            [one] => format!("Is {} faster than {}?", one.other.name, one.base.name),
            [] if self.runs.iter().any(|run| run.capacity.is_some()) => {
                format!("How much can {stores} take?")
            }
            [] if self.runs.iter().any(|run| !run.ramps.is_empty()) => {
                format!("Where does {stores} saturate?")
            }
            [] if !self.loops.is_empty() => "Which client synchronizes fastest?".into(),
            [] if !self.clients.is_empty() => "Which client is the fastest?".into(),
            [] if self.contention.iter().any(|table| table.rows.len() > 1) => {
                format!("How many writers can {stores} take?")
            }
            [] => stores,
            _ => format!("Comparison of {stores}"),
        }
    }

    /// Adds the labels, the start or the identifier of the run to the names of subjects that would otherwise be equal.
    fn make_names_unique(&mut self) {
        let before = self.subjects.clone();
        for subject in &mut self.subjects {
            let equal: Vec<[String; 3]> =
                before.iter().filter(|other| other.name == subject.name).map(Subject::runs).collect();
            if equal.len() < 2 {
                continue;
            }
            let tells = |kind: &usize| {
                let names: BTreeSet<&String> = equal.iter().map(|names| &names[*kind]).collect();
                names.len() == equal.len() && names.iter().all(|name| !name.is_empty())
            };
            let kind = (0..3).find(tells).unwrap_or(2);
            subject.name = format!("{} ({})", subject.name, subject.runs()[kind]);
        }
        for (number, figure) in self.figures.iter_mut().enumerate() {
            figure.name.clone_from(&self.subjects[figure.subject].name);
            figure.later |= number >= FIRST_FIGURES;
        }
    }
}
