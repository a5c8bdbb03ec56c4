//! `report.md`: tables and remarks, for example for a comment on a pull request.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Exporter, Run, named};
use crate::terminal::{groups, stores};
use crate::text::percentile::cell;
use crate::text::ramp::summary;
use crate::text::remarks::remarks;
use plimsoll_base::files;
use plimsoll_base::text::outgoing;
use plimsoll_base::units::{format_count, format_per_s, format_throughput};
use plimsoll_judge::summary::merge::overall;
use plimsoll_judge::summary::result::{RunResult, Window};
use plimsoll_workload::schedule::Role;

/// Exporter of GitHub-flavoured Markdown.
pub struct Markdown;

/// Escapes text so that it cannot end a table cell or start markup.
fn plain(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace('`', "'")
}

fn row(window: &Window) -> String {
    let (latencies, suffix) = match &window.response_ms {
        Some(response) => (response, " (response)"),
        None => (&window.service_ms, ""),
    };
    let load = match window.offered_per_s {
        Some(rate) => format!("{}/s offered", format_per_s(rate)),
        None => format!("{} in flight", window.concurrency),
    };
    let throughput = if window.throughput_bytes_per_s > 0.0 {
        format_throughput(window.throughput_bytes_per_s)
    } else {
        "–".into()
    };
    format!(
        "| {} | {}{suffix} | {load} | {} | {} | {} | {throughput} | {} | {} | {} | {} |\n",
        plain(&window.label()),
        window.operation,
        format_count(window.operations),
        format_count(window.errors.values().sum()),
        format_per_s(window.achieved_per_s),
        cell(latencies, "p50"),
        cell(latencies, "p99"),
        cell(latencies, "p99.9"),
        cell(latencies, "max"),
    )
}

/// Returns a terminal table as a fenced code block, or an empty string for an empty table.
fn fenced(table: &str) -> String {
    if table.is_empty() { String::new() } else { format!("\n```\n{}\n```\n", table.trim_matches('\n')) }
}

/// Returns the report of a run as Markdown.
pub fn render(result: &RunResult) -> String {
    let run = &result.run;
    let mut out =
        format!("### Plimsoll: {} (seed {}, {})\n", plain(&run.experiment), run.seed, run.started_at);
    for (label, text) in [("imported", &run.imported), ("**degraded**", &run.degraded)] {
        if let Some(text) = text {
            out.push_str(&format!("\n{label}: {}\n", plain(text)));
        }
    }
    if run.partial {
        out.push_str("\n**partial**: the run did not complete\n");
    }
    let merged = overall(&result.windows);
    for store in result.stores() {
        let windows: Vec<&Window> =
            merged.iter().filter(|w| w.store == store && w.role == Role::Measure).collect();
        out.push_str(&format!("\n**{}**\n\n", plain(store)));
        out.push_str("| phase | operation | load | count | failed | per second | throughput | p50 ms | p99 ms | p99.9 ms | max ms |\n");
        out.push_str("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
        windows.iter().for_each(|w| out.push_str(&row(w)));
        let notes: Vec<String> = windows.iter().flat_map(|w| remarks(w)).collect();
        if !notes.is_empty() {
            out.push('\n');
            notes.iter().for_each(|note| out.push_str(&format!("- {}\n", plain(note))));
        }
        for figures in result.ramps.iter().filter(|r| r.store == store) {
            out.push_str(&format!("- {}\n", plain(&summary(figures))));
        }
        let own: Vec<Window> = result.windows.iter().filter(|w| w.store == store).cloned().collect();
        out.push_str(&fenced(&groups::render(&own)));
    }
    out.push_str(&fenced(&stores::render(result)));
    if merged.iter().any(|w| w.response_ms.is_none()) {
        out.push_str("\nClosed loops show service time only. ");
    }
    out.push_str("-: too few samples.\n");
    out
}

impl Exporter for Markdown {
    fn export(&self, run: &Run, to: &Path) -> io::Result<Vec<PathBuf>> {
        let file = to.join("report.md");
        let text = outgoing(&render(&run.result)).into_owned();
        files::create(&file).and_then(|mut out| out.write_all(text.as_bytes())).map_err(named(&file))?;
        Ok(vec![file])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_the_table() {
        let window = Window {
            store: "s3://b|<script>".into(),
            phase: "get".into(),
            role: Role::Measure,
            operation: plimsoll_workload::OperationKind::Get,
            ..Window::default()
        };
        let text = render(&RunResult { windows: vec![window], ..RunResult::default() });
        assert!(text.contains("s3://b\\|&lt;script>") && text.contains("service time only"), "{text}");
        let columns = |line: &str| line.matches(" | ").count();
        let rows: Vec<&str> = text.lines().filter(|l| l.starts_with('|')).collect();
        assert!(rows.len() == 3 && columns(rows[0]) == columns(rows[2]), "{text}");
    }
}
