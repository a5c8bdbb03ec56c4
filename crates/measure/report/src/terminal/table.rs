//! The table of windows, with blocks and repeats merged into one row.

use crate::text::percentile::cell;
use plimsoll_base::units::{format_count, format_per_s, format_throughput};
use plimsoll_document::{Table, terminal};
use plimsoll_judge::summary::result::{Percentiles, Window};

const COLUMNS: [&str; 14] = [
    "phase",
    "operation",
    "load",
    "count#",
    "failed#",
    "per second#",
    "throughput#",
    "Gbit/s#",
    "mean#",
    "p50#",
    "p90#",
    "p99#",
    "p99.9#",
    "max#",
];

fn latency_cells(percentiles: &Percentiles) -> [String; 6] {
    ["mean", "p50", "p90", "p99", "p99.9", "max"].map(|name| cell(percentiles, name))
}

fn load(window: &Window) -> String {
    match window.offered_per_s {
        None => format!("{} in flight", window.concurrency),
        Some(rate) => format!("open, {}/s", format_per_s(rate)),
    }
}

/// Returns the cells of the columns before the latencies.
fn figures(window: &Window, phase: &str, operation: String) -> Vec<String> {
    let moves = window.throughput_bytes_per_s > 0.0;
    let failed: u64 = window.errors.values().sum();
    vec![
        phase.to_string(),
        operation,
        load(window),
        format_count(window.operations),
        format_count(failed),
        format_per_s(window.achieved_per_s),
        if moves { format_throughput(window.throughput_bytes_per_s) } else { "-".into() },
        if moves { format!("{:.3}", window.throughput_bytes_per_s * 8.0 / 1e9) } else { "-".into() },
    ]
}

/// Columns that are left out of a narrow terminal, the least important first. The column of failures stays if there are
/// any.
const OPTIONAL: [&str; 8] = ["Gbit/s", "mean", "p99.9", "p90", "max", "failed", "count", "throughput"];

/// Renders the table of these windows, as wide as the terminal or without a limit.
pub fn table(windows: &[&Window]) -> String {
    let mut table = Table::new("", &COLUMNS);
    let mut previous = "";
    for window in windows {
        let phase = if window.phase == previous { "" } else { &window.phase };
        previous = &window.phase;
        let (operation, latencies) = match &window.response_ms {
            None => (window.operation.to_string(), &window.service_ms),
            Some(response) => (format!("{} response", window.operation), response),
        };
        table.row(figures(window, phase, operation).into_iter().chain(latency_cells(latencies)));
        if window.response_ms.is_some() {
            let blank = [String::new(), format!("{} service", window.operation)];
            let rest = std::iter::repeat_n(String::new(), 6);
            table.row(blank.into_iter().chain(rest).chain(latency_cells(&window.service_ms)));
        }
    }
    let failures = windows.iter().any(|w| !w.errors.is_empty());
    let optional: Vec<&str> = OPTIONAL.into_iter().filter(|name| *name != "failed" || !failures).collect();
    terminal::fitted(&table, &optional)
}
