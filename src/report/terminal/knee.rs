//! The highest rate that meets the objectives, and the latency at each rate tried.

use comfy_table::{CellAlignment, Table, presets};

use super::table::{cell, lines};
use crate::schedule::Role;
use crate::summary::result::{KneeFigures, KneeStep, Window};
use crate::units::format_per_s;

/// Describes the result of the search in a sentence.
pub fn sentence(knee: &KneeFigures) -> String {
    let objectives = knee.objectives.join(" and ");
    let end = if knee.finished { "" } else { " (the search did not complete)" };
    if let Some(limit) = &knee.client_limit {
        let met = match knee.holds_per_s {
            Some(low) => format!("; {}/s meets {objectives}", format_per_s(low)),
            None => format!("; no rate was shown to meet {objectives}"),
        };
        let (per_s, reason) = (format_per_s(limit.per_s), &limit.reason);
        return format!(
            "knee: not found: the client, not the store, was the bottleneck at {per_s}/s ({reason}){met}"
        );
    }
    match (knee.holds_per_s, knee.breaks_per_s) {
        (Some(low), Some(high)) => format!(
            "knee: {}/s meets {objectives}; {}/s does not{end}",
            format_per_s(low),
            format_per_s(high)
        ),
        (Some(low), None) if knee.finished => format!(
            "knee: not reached: {}/s, the highest rate tried, meets {objectives}; raise --to",
            format_per_s(low)
        ),
        (Some(low), None) => {
            format!("knee: the search did not complete; {}/s meets {objectives}", format_per_s(low))
        }
        (None, Some(high)) => {
            format!("knee: none: {}/s, the lowest rate tried, misses {objectives}{end}", format_per_s(high))
        }
        (None, None) => "knee: not found: no step was completed".into(),
    }
}

/// Describes the result of a step: `meets`, `misses: 97.20% of operations within the limit of get.p99 < 10ms;
/// limited by the client (cpu: 95% ...)`.
pub fn verdict(step: &KneeStep) -> String {
    let own = step.broke.as_ref().map_or("meets".to_string(), |reason| format!("misses: {reason}"));
    match &step.client_limited {
        Some(why) => format!("{own}; limited by the client ({why})"),
        None => own,
    }
}

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
