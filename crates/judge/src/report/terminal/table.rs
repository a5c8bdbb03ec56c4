//! The table of windows, with blocks and repeats merged into one row.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};

use crate::report::text::percentile::cell;
use crate::summary::result::{Percentiles, Window};
use plimsoll_base::units::{format_count, format_per_s, format_throughput};
use plimsoll_document::terminal::{lines, terminal_width};

const COLUMNS: [&str; 14] = [
    "phase",
    "operation",
    "load",
    "count",
    "failed",
    "per second",
    "throughput",
    "Gbit/s",
    "mean",
    "p50",
    "p90",
    "p99",
    "p99.9",
    "max",
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

/// Columns that are left out of a narrow terminal, the least important first.
const OPTIONAL: [&str; 8] = ["Gbit/s", "mean", "p99.9", "p90", "max", "failed", "count", "throughput"];

/// Hides columns until the table is at most `width` characters wide. The column of failures stays if there are any.
fn fit(table: &mut Table, width: usize, failures: bool) {
    let too_wide = |table: &Table| lines(table).lines().any(|line| line.chars().count() > width);
    for name in OPTIONAL.iter().filter(|name| **name != "failed" || !failures) {
        if !too_wide(table) {
            return;
        }
        let at = COLUMNS.iter().position(|column| column == name);
        if let Some(column) = at.and_then(|at| table.column_mut(at)) {
            column.set_constraint(ColumnConstraint::Hidden);
        }
    }
}

/// Returns the table of these windows, as wide as the terminal or without a limit.
pub fn table(windows: &[&Window]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(COLUMNS);
    let mut previous = "";
    for window in windows {
        let phase = if window.phase == previous { "" } else { &window.phase };
        previous = &window.phase;
        let (operation, latencies) = match &window.response_ms {
            None => (window.operation.to_string(), &window.service_ms),
            Some(response) => (format!("{} response", window.operation), response),
        };
        table.add_row(figures(window, phase, operation).into_iter().chain(latency_cells(latencies)));
        if window.response_ms.is_some() {
            let blank = [String::new(), format!("{} service", window.operation)];
            let rest = std::iter::repeat_n(String::new(), 6);
            table.add_row(blank.into_iter().chain(rest).chain(latency_cells(&window.service_ms)));
        }
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    if let Some(width) = terminal_width() {
        fit(&mut table, width.into(), windows.iter().any(|w| !w.errors.is_empty()));
    }
    table
}
