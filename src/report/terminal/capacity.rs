//! The throughput-latency curve of the steps that found the capacity of a store.

use comfy_table::CellAlignment;

use super::table::{lines, plain};
use crate::report::text::capacity::{load, verdict};
use crate::report::text::percentile::cell;
use crate::schedule::Role;
use crate::summary::result::{CapacityFigures, Window};
use crate::units::format_per_s;

/// Maximum length of a bar, in characters.
const BAR: f64 = 12.0;

/// Renders the steps in order of their throughput.
pub fn render(found: &CapacityFigures, windows: &[Window]) -> String {
    let mut table = plain();
    table.set_header(["load", "achieved", "", "p50", "p99", ""]);
    let mut steps: Vec<_> = found.steps.iter().collect();
    steps.sort_by(|a, b| a.achieved_per_s.total_cmp(&b.achieved_per_s));
    let most = steps.last().map_or(1.0, |step| step.achieved_per_s.max(1e-9));
    let several = |w: &&Window| w.role == Role::Measure && w.step == Some(0);
    let mixed = windows.iter().filter(several).count() > 1;
    for step in steps {
        for window in windows.iter().filter(|w| w.role == Role::Measure && w.step == Some(step.step)) {
            let latency = window.response_ms.as_ref().unwrap_or(&window.service_ms);
            let kind = if mixed { format!(" {}", window.operation) } else { String::new() };
            let bar = (step.achieved_per_s / most * BAR).round() as usize;
            table.add_row(vec![
                load(step),
                format!("{}/s{kind}", format_per_s(window.achieved_per_s)),
                "#".repeat(bar),
                cell(latency, "p50"),
                cell(latency, "p99"),
                verdict(step),
            ]);
        }
    }
    for column in [0, 1, 3, 4] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("\n{}\n", lines(&table))
}
