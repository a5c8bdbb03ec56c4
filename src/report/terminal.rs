//! The table that a person reads.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::summary::result::{Percentiles, RunResult, Window};
use crate::units::{format_count, format_ms, format_throughput};

const COLUMNS: [&str; 11] =
    ["phase", "operation", "load", "count", "per second", "throughput", "p50", "p90", "p99", "p99.9", "max"];

/// A latency cell: the value, `> X` among censored ones, `-` without enough samples.
fn cell(percentiles: &Percentiles, name: &str) -> String {
    match (percentiles.get(name), percentiles.above.get(name)) {
        (Some(ms), _) => format_ms(ms),
        (None, Some(ms)) => format!("> {}", format_ms(*ms)),
        (None, None) => "-".into(),
    }
}

fn latency_cells(percentiles: &Percentiles) -> [String; 5] {
    ["p50", "p90", "p99", "p99.9", "max"].map(|name| cell(percentiles, name))
}

fn load(window: &Window) -> String {
    match window.offered_per_s {
        None => format!("closed, {} in flight", window.concurrency),
        Some(rate) => format!("open, {rate:.0}/s"),
    }
}

fn row(table: &mut Table, head: [String; 6], latencies: &Percentiles) {
    table.add_row(head.into_iter().chain(latency_cells(latencies)));
}

fn table(windows: &[&Window]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(COLUMNS);
    let mut previous = "";
    for window in windows {
        let phase = if window.phase == previous { "" } else { &window.phase };
        previous = &window.phase;
        let throughput = if window.throughput_bytes_per_s > 0.0 {
            format_throughput(window.throughput_bytes_per_s)
        } else {
            "-".into()
        };
        let head = |what: String| {
            [
                phase.to_string(),
                what,
                load(window),
                format_count(window.operations),
                format!("{:.0}", window.achieved_per_s),
                throughput.clone(),
            ]
        };
        match &window.response_ms {
            None => row(&mut table, head(window.operation.clone()), &window.service_ms),
            Some(response) => {
                row(&mut table, head(format!("{} response", window.operation)), response);
                let blank = [String::new(), format!("{} service", window.operation)];
                let rest = std::iter::repeat_n(String::new(), 4);
                let cells = blank.into_iter().chain(rest).chain(latency_cells(&window.service_ms));
                table.add_row(cells);
            }
        }
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// What is wrong with a window, one line each.
fn remarks(window: &Window) -> Vec<String> {
    let place = format!("{} {}", window.phase, window.operation);
    let mut out = Vec::new();
    if !window.errors.is_empty() {
        let failed: u64 = window.errors.values().sum();
        let classes: Vec<String> =
            window.errors.iter().map(|(c, n)| format!("{c} x {}", format_count(*n))).collect();
        let of = format_count(window.operations);
        out.push(format!(
            "{place}: {} of {of} operations failed: {}",
            format_count(failed),
            classes.join(", ")
        ));
    }
    if window.saturated {
        out.push(format!(
            "{place}: saturated; {:.0}/s offered, {:.0}/s achieved",
            window.offered_per_s.unwrap_or(0.0),
            window.achieved_per_s
        ));
    }
    if window.censored > 0 {
        let text = format!(
            "{place}: {} operations were not answered in time; '> X' means beyond X",
            format_count(window.censored)
        );
        out.push(text);
    }
    if window.reconnects > 0 {
        out.push(format!(
            "{place}: {} requests were sent again on a new connection",
            format_count(window.reconnects)
        ));
    }
    if let Some(why) = &window.client_limited {
        out.push(format!("{place}: limited by this client, not by the store ({why})"));
    }
    if let Some(why) = &window.instrument_error {
        out.push(format!("{place}: INSTRUMENT ERROR: {why}"));
    }
    out
}

/// The whole report as text.
pub fn render(result: &RunResult) -> String {
    let mut out = String::new();
    let partial = if result.run.partial { "  (partial: it did not run to its end)" } else { "" };
    out.push_str(&format!(
        "{}  seed {}  {}{partial}\n",
        result.run.experiment, result.run.seed, result.run.started_at
    ));
    let mut stores: Vec<&str> = Vec::new();
    for window in &result.windows {
        if !stores.contains(&window.store.as_str()) {
            stores.push(&window.store);
        }
    }
    for store in stores {
        let measured = |w: &&Window| w.store == store && w.role == "measure";
        let windows: Vec<&Window> = result.windows.iter().filter(measured).collect();
        out.push_str(&format!("\n{store}\n\n"));
        if windows.is_empty() {
            out.push_str("no measured phase was reached\n");
            continue;
        }
        let lines = table(&windows).to_string();
        lines.lines().for_each(|line| out.push_str(&format!("{}\n", line.trim_end())));
        let open = windows.iter().any(|w| w.response_ms.is_some());
        let closed = windows.iter().any(|w| w.response_ms.is_none());
        out.push_str("\nlatency in ms");
        if closed {
            out.push_str("; closed loop: service time only");
        }
        if open {
            out.push_str("; open loop: response counts from the intended time");
        }
        out.push_str("; '-': too few samples\n");
        for window in &windows {
            remarks(window).iter().for_each(|line| out.push_str(&format!("! {line}\n")));
        }
    }
    let client = &result.client;
    out.push_str(&format!(
        "\nclient: {:.1} us CPU per operation, {:.1} s CPU, peak memory {:.0} MB, {} worker{}{}\n",
        client.cpu_us_per_operation,
        client.cpu_seconds,
        client.peak_rss_bytes as f64 / 1e6,
        client.workers,
        if client.workers == 1 { "" } else { "s" },
        if client.vantage.is_empty() { String::new() } else { format!(", vantage {}", client.vantage) },
    ));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> Window {
        let service = Percentiles {
            n: 1000,
            p50: Some(5.1),
            p90: Some(6.0),
            p99: Some(12.34),
            max: Some(101.0),
            ..Percentiles::default()
        };
        Window {
            store: "s3://bucket".into(),
            phase: "get".into(),
            role: "measure".into(),
            operation: "get".into(),
            loop_: "closed".into(),
            concurrency: 16,
            achieved_per_s: 100.0,
            operations: 1000,
            throughput_bytes_per_s: 102_400.0,
            service_ms: service,
            ..Window::default()
        }
    }

    #[test]
    fn a_closed_loop_says_service_time_only() {
        let text = render(&RunResult { windows: vec![window()], ..RunResult::default() });
        assert!(text.contains("service time only") && !text.contains("intended time"), "{text}");
        assert!(text.contains("12.3") && text.contains("closed, 16 in flight"), "{text}");
        assert!(text.contains("-  101"), "p99.9 has too few samples\n{text}");
    }

    #[test]
    fn an_open_loop_shows_both_times_and_what_is_beyond() {
        let mut open = window();
        open.offered_per_s = Some(500.0);
        open.saturated = true;
        open.errors.insert("503 SlowDown".into(), 7);
        let above = [("p99".to_string(), 900.0)].into_iter().collect();
        open.response_ms = Some(Percentiles { p50: Some(7.0), above, ..Percentiles::default() });
        let text = render(&RunResult { windows: vec![open], ..RunResult::default() });
        for expected in
            ["get response", "get service", "> 900", "503 SlowDown x 7", "500/s offered, 100/s achieved"]
        {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }
}
