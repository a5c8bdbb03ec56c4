//! Table of compare-and-swap on one object: throughput, latency, conflicts and fairness by number of writers.

use comfy_table::CellAlignment;

use super::table::{lines, plain};
use crate::summary::contention::fairness;
use crate::summary::result::Window;
use crate::units::{format_count, format_ms};

fn row(window: &Window) -> Option<[String; 8]> {
    let commits = &window.commits_by_writer;
    let fairness = fairness(commits)?;
    let succeeded = commits.iter().sum::<u64>().max(1) as f64;
    let ms = |ms: Option<f64>| ms.map_or("-".into(), format_ms);
    Some([
        commits.len().to_string(),
        format!("{:.1}/s", window.achieved_per_s),
        ms(window.service_ms.p50),
        ms(window.service_ms.p99),
        ms(window.service_ms.max),
        format!("{:.2}", window.retries as f64 / succeeded),
        format!("{fairness:.2}"),
        format!(
            "{} to {}",
            format_count(commits.first().copied().unwrap_or(0)),
            format_count(commits.last().copied().unwrap_or(0))
        ),
    ])
}

/// Renders the windows of one store; returns an empty string if none has a compare-and-swap.
pub fn render(merged: &[&Window]) -> String {
    let mut table = plain();
    table.set_header([
        "writers",
        "commits",
        "p50 ms",
        "p99 ms",
        "max ms",
        "conflicts",
        "fairness",
        "per writer",
    ]);
    merged.iter().filter_map(|window| row(window)).for_each(|row| {
        table.add_row(row);
    });
    if table.row_count() == 0 {
        return String::new();
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!(
        "\ncompare-and-swap (conflicts: per commit; fairness: 1 if all writers have the same number of commits, \
         1/writers if one has all)\n{}",
        lines(&table)
    )
}
