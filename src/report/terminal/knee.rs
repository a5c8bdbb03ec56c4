//! The highest rate that meets the objectives, and the latency at each rate tried.

use comfy_table::{CellAlignment, Table, presets};

use super::table::lines;
use crate::report::text::knee::{sentence, verdict};
use crate::report::text::percentile::cell;
use crate::schedule::Role;
use crate::summary::result::{KneeFigures, Window};
use crate::units::format_per_s;

/// Renders the steps in order of their rate, and the result of the search.
pub fn render(knee: &KneeFigures, windows: &[Window]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["step", "offered", "achieved", "operation", "p50", "p90", "p99", "p99.9", ""]);
    let mut steps: Vec<_> = knee.steps.iter().collect();
    steps.sort_by(|a, b| a.offered_per_s.total_cmp(&b.offered_per_s));
    for step in steps {
        for window in windows.iter().filter(|w| w.role == Role::Measure && w.step == Some(step.step)) {
            let latency = window.response_ms.as_ref().unwrap_or(&window.service_ms);
            let mut row = vec![
                (step.step + 1).to_string(),
                format!("{}/s", format_per_s(step.offered_per_s)),
                format!("{}/s", format_per_s(step.achieved_per_s)),
                window.operation.to_string(),
            ];
            row.extend(["p50", "p90", "p99", "p99.9"].map(|name| cell(latency, name)));
            row.push(verdict(step));
            table.add_row(row);
        }
    }
    for column in table.column_iter_mut().take(8) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("\n{}\n{}\n", lines(&table), sentence(knee))
}
