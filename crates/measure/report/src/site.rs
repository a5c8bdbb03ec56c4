//! A static site of many runs: an index, and a page for the trend of each figure.

use std::collections::BTreeSet;

use super::history::{list, trend};
use plimsoll_audit::history::entry::RunEntry;
use plimsoll_judge::summary::figure_selector::FigureSelector;

/// Figures whose trends the site shows, for each operation that was measured.
const FIGURES: [&str; 3] = ["p50", "p99", "rate"];

/// Returns the figures to show: `get.p50`, `get.p99`, `get.rate` and so on.
fn figures(runs: &[RunEntry]) -> BTreeSet<String> {
    let operations: BTreeSet<&str> =
        runs.iter().flat_map(|run| &run.figures).map(|figure| figure.operation.name()).collect();
    operations.iter().flat_map(|name| FIGURES.map(|figure| format!("{name}.{figure}"))).collect()
}

/// Returns the address of the page of a run.
pub fn page_of_run(run: &RunEntry) -> String {
    format!("runs/{}.html", run.id)
}

/// Returns the pages of the site except those of runs: relative addresses and texts. `index.html` is the last one.
///
/// # Errors
/// Fails if a template is invalid; the tests render them.
pub fn pages(runs: &[RunEntry]) -> Result<Vec<(String, String)>, minijinja::Error> {
    let mut index = list(runs);
    let mut out = Vec::new();
    for figure in figures(runs) {
        let Ok(target) = FigureSelector::parse(&figure) else { continue };
        let Some(document) = trend(runs, &target, &figure) else { continue };
        let name = format!("{figure}.html");
        out.push((name.clone(), document.html()?));
        index.links.push((format!("{figure} over time"), name));
    }
    let runs = runs.iter().rev();
    index.links.extend(runs.map(|run| (format!("{} {}", run.id, run.experiment), page_of_run(run))));
    out.push(("index.html".into(), index.html()?));
    Ok(out)
}
