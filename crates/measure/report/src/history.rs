//! Documents of a history: a list of runs, and the trend of a figure with its change points.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use plimsoll_audit::history::changes::{LevelChange, changes};
use plimsoll_audit::history::entry::RunEntry;
use plimsoll_base::units::{format_per_s, short_names};
use plimsoll_document::{Document, Table};
use plimsoll_judge::run_dir::comparable::difference;
use plimsoll_judge::summary::figure_selector::FigureSelector;
use plimsoll_judge::summary::result::ConfidenceInterval;
use plimsoll_judge::summary::unit::Unit;

/// Formats a figure in its unit.
fn value(figure: &ConfidenceInterval) -> String {
    figure.value.map_or("-".into(), |value| amount(&figure.unit, value))
}

fn amount(unit: &str, value: f64) -> String {
    Unit::of(unit).unwrap_or(Unit::Share).text(value)
}

/// Returns the start without fractions and with a space, which fits narrow terminals.
fn time(entry: &RunEntry) -> String {
    entry.started_at.get(..16).unwrap_or(&entry.started_at).replace('T', " ")
}

fn labels(entry: &RunEntry) -> String {
    entry.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

/// Returns the part of the URL of a store that names it: all except parameters other than the endpoint.
fn place(store: &str) -> String {
    let (path, parameters) = store.split_once('?').unwrap_or((store, ""));
    let endpoint = parameters.split('&').find(|parameter| parameter.starts_with("endpoint="));
    endpoint.map_or_else(|| path.to_string(), |endpoint| format!("{path}?{endpoint}"))
}

/// Returns a name for each place of the runs, so that equal buckets of different servers have different names.
fn names_of_places(entries: &[RunEntry]) -> BTreeMap<String, String> {
    let all: BTreeSet<String> = entries.iter().flat_map(|e| &e.stores).map(|store| place(store)).collect();
    let names = short_names(&all.iter().map(String::as_str).collect::<Vec<_>>());
    all.into_iter().zip(names).collect()
}

/// Returns the list of runs, the latest last.
pub fn list(entries: &[RunEntry]) -> Document {
    let target =
        |metric: &str| FigureSelector { phase: None, operation: None, size: None, metric: metric.into() };
    let metrics = ["rate", "p50", "p99"].map(target);
    // The id starts with the start time.
    let columns = ["id", "experiment", "stores", "labels", "rate#", "p50#", "p99#"];
    let mut table = Table::new("", &columns);
    let names = names_of_places(entries);
    let named = |store: &String| names.get(&place(store)).cloned().unwrap_or_else(|| store.clone());
    for entry in entries {
        let capacity = entry.capacity_per_s.map(|per_s| format!("{}/s (capacity)", format_per_s(per_s)));
        let figures = metrics.iter().enumerate().map(|(column, m)| match (&capacity, column) {
            (Some(capacity), 0) => capacity.clone(),
            _ => entry.figure(m, None).map_or("-".into(), value),
        });
        let partial = if entry.partial { " (partial)" } else { "" };
        let texts = [
            entry.id.clone(),
            format!("{}{partial}", entry.experiment),
            entry.stores.iter().map(named).collect::<Vec<_>>().join(", "),
            labels(entry),
        ];
        table.row(texts.into_iter().chain(figures));
    }
    Document {
        title: "Runs".into(),
        answer: match entries {
            [] => "no runs".into(),
            [.., last] => format!("{} runs; the latest is {}", entries.len(), last.id),
        },
        figures: table.clone(),
        tables: vec![table],
        notes: vec![
            "Figures of the first operation; plimsoll history --figure get.p99 shows a trend.".into(),
        ],
        ..Document::default()
    }
}

/// Values of one store over time, of runs that are comparable with each other.
struct Trend<'a> {
    /// Name of the store; with the id of the latest run if the runs of the store are not all comparable.
    store: String,
    points: Vec<(&'a RunEntry, &'a ConfidenceInterval)>,
    changes: Vec<LevelChange>,
}

/// A run with the value of the figure.
type Point<'a> = (&'a RunEntry, &'a ConfidenceInterval);

/// Divides the points of one store into groups of comparable runs, in the order of their first runs.
fn comparable_groups<'a>(points: Vec<Point<'a>>) -> Vec<Vec<Point<'a>>> {
    let mut groups: Vec<(toml::Table, Vec<Point<'a>>)> = Vec::new();
    for point in points {
        let settings = point.0.settings();
        match groups.iter_mut().find(|(first, _)| difference(first, &settings).is_none()) {
            Some((_, group)) => group.push(point),
            None => groups.push((settings, vec![point])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Returns the values of each store that has the figure. Only comparable runs are in one trend.
fn trends<'a>(entries: &'a [RunEntry], target: &FigureSelector) -> Vec<Trend<'a>> {
    let mut stores: Vec<&str> = Vec::new();
    for store in entries.iter().flat_map(|entry| &entry.stores) {
        if !stores.contains(&store.as_str()) {
            stores.push(store);
        }
    }
    let names = short_names(&stores);
    let of = |(store, name): (&&str, String)| {
        let name = name.trim_end_matches(':').to_string();
        let found = |entry: &'a RunEntry| entry.figure(target, Some(store)).map(|figure| (entry, figure));
        let points: Vec<_> = entries.iter().filter(|e| !e.partial).filter_map(found).collect();
        let points: Vec<_> = points.into_iter().filter(|(_, figure)| figure.value.is_some()).collect();
        let groups = comparable_groups(points);
        let several = groups.len() > 1;
        let trend = move |points: Vec<Point<'a>>| {
            let latest = points.last().map_or("", |(entry, _)| entry.id.as_str());
            let store = if several { format!("{name}, runs like {latest}") } else { name.clone() };
            let values: Vec<f64> = points.iter().filter_map(|(_, figure)| figure.value).collect();
            Trend { store, changes: changes(&values), points }
        };
        groups.into_iter().map(trend).collect::<Vec<_>>()
    };
    stores.iter().zip(names).flat_map(of).collect()
}

/// Describes the last change of a trend, or that there is none.
fn sentence(trend: &Trend<'_>, figure: &str) -> String {
    let count = trend.points.len();
    let unit = trend.points.first().map_or("", |(_, figure)| figure.unit.as_str());
    match trend.changes.last() {
        None if count == 1 => format!("{figure} of {}: one run", trend.store),
        None => format!("{figure} of {}: no change in {count} runs", trend.store),
        Some(change) => {
            let entry = trend.points[change.at].0;
            format!(
                "{figure} of {}: changed from {} to {} ({:+.0}%) at {} (run {}); {} in {count} runs",
                trend.store,
                amount(unit, change.before),
                amount(unit, change.after),
                100.0 * (change.after / change.before - 1.0),
                time(entry),
                entry.id,
                match trend.changes.len() {
                    1 => "one change".to_string(),
                    several => format!("{several} changes"),
                }
            )
        }
    }
}

/// Returns the trend of a figure at each store; `None` if no run has the figure.
pub fn trend(entries: &[RunEntry], target: &FigureSelector, text: &str) -> Option<Document> {
    let trends = trends(entries, target);
    let mut table =
        Table::new("", &["started", "run", "store", &format!("{text}#"), "low#", "high#", "change#"]);
    for trend in &trends {
        for (at, (entry, figure)) in trend.points.iter().enumerate().rev() {
            let end = |end: Option<f64>| end.map_or("-".into(), |end| amount(&figure.unit, end));
            let change = trend.changes.iter().find(|change| change.at == at);
            let change =
                change.map_or(String::new(), |c| format!("{:+.0}%", 100.0 * (c.after / c.before - 1.0)));
            let cells = [time(entry), entry.id.clone(), trend.store.clone(), value(figure)];
            table.row(cells.into_iter().chain([end(figure.low), end(figure.high), change]));
        }
    }
    let lines: Vec<_> = trends.iter().map(|trend| line(trend)).collect();
    let subjects: Vec<_> =
        trends.iter().map(|t| json!({ "name": t.store, "store": t.store, "run": "" })).collect();
    let unit = trends.first()?.points.first()?.1.unit.clone();
    Some(Document {
        title: format!("{text} over time"),
        answer: trends.iter().map(|trend| sentence(trend, text)).collect::<Vec<_>>().join(". "),
        figures: table.clone(),
        tables: vec![table],
        notes: vec![
            "Only runs with the same operations, objects and load are in one trend. The newest run is first. Low and high are the ends of the 95% confidence interval of a run. A change is a change of the level of \
             several runs; partial runs are left out."
                .into(),
        ],
        charts: json!({ "subjects": subjects, "trend": { "figure": text, "unit": unit, "lines": lines } }),
        ..Document::default()
    })
}

/// Returns a trend as the script of the page needs it.
fn line(trend: &Trend<'_>) -> serde_json::Value {
    let point = |(entry, figure): &(&RunEntry, &ConfidenceInterval)| {
        json!([entry.started_at, figure.value, figure.low, figure.high, entry.id])
    };
    let change = |change: &LevelChange| {
        let percent = 100.0 * (change.after / change.before - 1.0);
        json!({ "at": trend.points[change.at].0.started_at, "percent": percent })
    };
    json!({
        "points": trend.points.iter().map(point).collect::<Vec<_>>(),
        "changes": trend.changes.iter().map(change).collect::<Vec<_>>(),
    })
}
