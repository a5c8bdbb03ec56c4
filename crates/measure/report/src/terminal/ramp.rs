//! A ramp in the format of R2-bench: one row per step, then plateau and knee.

use crate::text::ramp::summary;
use plimsoll_base::units::format_count;
use plimsoll_document::{Table, terminal};
use plimsoll_judge::summary::arrangement::Arrangement;
use plimsoll_judge::summary::merge::merge;
use plimsoll_judge::summary::result::{RampFigures, Window};
use plimsoll_workload::schedule::Role;

const COLUMNS: [&str; 8] = [
    "Phase",
    "Duration#",
    "Requests#",
    "Data(GiB)#",
    "Throughput(Mbit/s)#",
    "Req/s#",
    "Latency(ms)#",
    "Concurrency#",
];

/// Returns one row: seconds, requests, GiB and Mbit/s of payload, requests per second, mean latency, average
/// operations in flight.
fn row(name: String, windows: &[&Window]) -> Vec<String> {
    let window_s: f64 = windows.iter().map(|w| w.window_s).fold(0.0, f64::max);
    let sum = |value: fn(&Window) -> f64| windows.iter().map(|w| value(w)).sum::<f64>();
    let operations: u64 = windows.iter().map(|w| w.operations).sum();
    let (n, total_ms) = windows.iter().fold((0u64, 0.0), |(n, total), w| {
        (n + w.service_ms.n, total + w.service_ms.mean.unwrap_or(0.0) * w.service_ms.n as f64)
    });
    vec![
        name,
        format!("{window_s:.1}"),
        format_count(operations),
        format!("{:.3}", sum(|w| w.bytes as f64) / (1u64 << 30) as f64),
        format!("{:.2}", sum(|w| w.throughput_bytes_per_s) * 8.0 / 1e6),
        format!("{:.2}", sum(|w| w.achieved_per_s)),
        if n > 0 { format!("{:.1}", total_ms / n as f64) } else { "-".into() },
        format!("{:.1}", sum(|w| w.in_flight_mean)),
    ]
}

/// Returns the row that merges warm-up and steps; none if there are several kinds of operation.
fn all(windows: &[Window], first_step: usize) -> Vec<Vec<String>> {
    let counts = |(i, w): &(usize, &Window)| w.step.is_some() || (w.role == Role::Warmup && *i < first_step);
    let counted: Vec<&Window> = windows.iter().enumerate().filter(counts).map(|(_, w)| w).collect();
    // Windows of several kinds of operation are parallel, so they cannot be merged as consecutive ones.
    let one = counted.iter().all(|w| w.operation == counted[0].operation);
    match merge(&counted, Arrangement::Consecutive).filter(|_| one) {
        Some(window) => vec![row("ALL".into(), &[&window])],
        None => Vec::new(),
    }
}

/// Renders the table of the warm-up and all steps, followed by the plateau and the knee. Returns an empty string if
/// there is no ramp.
pub fn render<'a>(windows: &[Window], ramps: impl Iterator<Item = &'a RampFigures>) -> String {
    let Some(first) = windows.iter().position(|w| w.step.is_some()) else { return String::new() };
    let mut table = Table::new("", &COLUMNS);
    let mut at = 0;
    while at < windows.len() {
        let window = &windows[at];
        // Operations of one phase and step are summed in one row.
        let same = |w: &&Window| (&w.phase, w.step) == (&window.phase, window.step);
        let group: Vec<&Window> = windows[at..].iter().take_while(same).collect();
        at += group.len();
        let warms = window.role == Role::Warmup && at <= first;
        if window.step.is_some() || warms {
            table.row(row(window.label(), &group));
        }
    }
    all(windows, first).into_iter().for_each(|cells| table.row(cells));
    let mut out = format!("\n{}", terminal::plain(&table));
    let named: Vec<Window> = windows
        .iter()
        .filter(|w| w.step.is_some())
        .map(|w| Window { phase: w.label(), ..w.clone() })
        .collect();
    out.push_str(&format!("\n{}", super::table::table(&named.iter().collect::<Vec<_>>())));
    for figures in ramps {
        out.push_str(&format!("\n{}\n", summary(figures)));
    }
    out.push_str(
        "\nConcurrency is the time-averaged number of operations in flight; Mbit/s are decimal, GiB binary\n",
    );
    out
}
