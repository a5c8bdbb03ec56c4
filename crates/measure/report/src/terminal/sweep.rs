//! The result of a sweep: a matrix of each figure, or the table of upload settings with the recommended one.

use crate::text::sweep::name;
use plimsoll_base::units::{
    format_bytes, format_count, format_ms, format_per_s, format_throughput, short_names,
};
use plimsoll_document::{Column, Table, terminal};
use plimsoll_judge::summary::result::{RunResult, SweepFigures, SweepPoint};

/// Renders the sweeps of a run; empty if there are none. Each matrix contains all stores.
pub fn render(result: &RunResult) -> String {
    let stores = result.stores();
    let (mut settled, mut swept): (String, Vec<Vec<&SweepFigures>>) = (String::new(), Vec::new());
    for sweep in &result.sweeps {
        if sweep.points.iter().all(|p| p.at.is_empty() || p.at.contains_key("part_size")) {
            let title = if stores.len() > 1 { format!("{}\n", sweep.store) } else { String::new() };
            settled.push_str(&format!("{title}{}", settings(sweep)));
            continue;
        }
        let same = |group: &&mut Vec<&SweepFigures>| {
            group.iter().all(|other| (&other.sweep, other.operation) == (&sweep.sweep, sweep.operation))
        };
        match swept.iter_mut().find(same) {
            Some(group) => group.push(sweep),
            None => swept.push(vec![sweep]),
        }
    }
    let title = |group: &[&SweepFigures]| match swept.len() {
        1 => String::new(),
        _ => format!("{} ", group[0].operation),
    };
    let names: Vec<(&str, String)> = stores.iter().copied().zip(short_names(&stores)).collect();
    settled + &swept.iter().map(|group| matrices(group, &title(group), &names)).collect::<String>()
}

type Figure = (&'static str, fn(&SweepPoint) -> Option<String>);

fn matrices(group: &[&SweepFigures], title: &str, names: &[(&str, String)]) -> String {
    let points = || group.iter().flat_map(|sweep| &sweep.points);
    let moves = points().any(|point| point.throughput_bytes_per_s > 0.0);
    let figures: [Figure; 4] = [
        ("operations/s", |point| Some(format_per_s(point.achieved_per_s))),
        ("throughput", |point| Some(format_throughput(point.throughput_bytes_per_s))),
        ("p50 in ms", |point| point.p50_ms.map(format_ms)),
        ("p99 in ms", |point| point.p99_ms.map(format_ms)),
    ];
    let limited = points().any(|point| point.client_limited);
    let failed = points().any(|point| point.failed > 0);
    let notes = [("; *: limited by this client", limited), ("; !: with failures", failed)];
    let note: String = notes.iter().filter(|(_, holds)| *holds).map(|(text, _)| *text).collect();
    let shown = figures.iter().filter(|(name, _)| moves || *name != "throughput");
    shown.map(|(name, figure)| matrix(group, names, &format!("{title}{name}"), &note, *figure)).collect()
}

/// Renders a matrix with the load, or the only swept field, in its columns, and with a row for each store and value of
/// the other field.
fn matrix(
    group: &[&SweepFigures],
    names: &[(&str, String)],
    title: &str,
    note: &str,
    figure: fn(&SweepPoint) -> Option<String>,
) -> String {
    let fields = group[0].fields();
    let (rows, columns) = match &fields[..] {
        [rows, columns] => (Some(rows), columns),
        [columns] => (None, columns),
        _ => return String::new(),
    };
    let corner = rows.map_or(String::new(), |(field, _)| name(field));
    let by = if rows.is_some() { format!("{corner} and ") } else { String::new() };
    let store = (names.len() > 1).then(String::new);
    let label = if rows.is_some() { Some(corner) } else { None };
    let labels = store.into_iter().chain(label).map(|name| Column { name, number: false });
    let values = columns.1.iter().map(|name| Column { name: name.clone(), number: true });
    let mut table = Table { columns: labels.chain(values).collect(), ..Table::default() };
    let none = [String::new()];
    for row in rows.map_or(&none[..], |(_, values)| values) {
        for sweep in group {
            let cell = |column: &String| {
                let here = |point: &&SweepPoint| {
                    point.at.get(&columns.0) == Some(column)
                        && rows.is_none_or(|(field, _)| point.at.get(field) == Some(row))
                };
                let Some(point) = sweep.points.iter().find(here) else { return "refused".into() };
                let limited = if point.client_limited { "*" } else { "" };
                let failed = if point.failed > 0 { "!" } else { "" };
                figure(point).map_or("-".into(), |text| format!("{text}{limited}{failed}"))
            };
            let named = names.iter().find(|(url, _)| *url == sweep.store).map(|(_, name)| name.clone());
            let store = named.filter(|_| names.len() > 1);
            let label = rows.map(|_| row.clone());
            table.row(store.into_iter().chain(label).chain(columns.1.iter().map(cell)));
        }
    }
    format!("{title} by {by}{}{note}\n{}\n", name(&columns.0), terminal::plain(&table))
}

/// Renders the table of upload settings and the recommended one.
fn settings(sweep: &SweepFigures) -> String {
    let columns = [
        "part size#",
        "in flight#",
        "uploads#",
        "failed#",
        "retries#",
        "requests#",
        "seconds#",
        "throughput#",
    ];
    let mut table = Table::new("", &columns);
    for point in &sweep.points {
        table.row([
            format_bytes(point.part_bytes),
            point.parts_in_flight.to_string(),
            point.operations.to_string(),
            point.failed.to_string(),
            point.retries.to_string(),
            format_count(point.requests),
            point.median_s.map_or("-".into(), |s| format!("{s:.2}")),
            point.bytes_per_s.map_or("-".into(), format_throughput),
        ]);
    }
    let mut out = format!(
        "sweep {} (seconds: median of at least 20 uploads, else the mean)\n{}",
        sweep.sweep,
        terminal::plain(&table)
    );
    match &sweep.recommended {
        Some(best) => {
            let cap = format_bytes(best.part_bytes.saturating_mul(10_000));
            out.push_str(&format!(
                "recommended: parts of {}, {} in flight: within 5% of the fastest, with the fewest bytes in flight (10,000 parts allow objects up to {cap})\n\n",
                format_bytes(best.part_bytes),
                best.parts_in_flight,
            ));
        }
        None => out.push_str("no recommendation: uploads failed with every setting\n\n"),
    }
    out
}
