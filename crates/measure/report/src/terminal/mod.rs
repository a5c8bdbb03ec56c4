//! The report in a terminal: one [`table`] per store, [`ramp`] steps and knee, a verdict on key [`groups`], a
//! comparison of several [`stores`], latency [`distribution`]s on request, and remarks on the figures.

pub mod capacity;
pub mod confidence;
pub mod cost;
pub mod distribution;
pub mod groups;
pub mod ramp;
pub mod stores;
pub mod sweep;
pub mod table;
pub mod uploads;

use table::table;

use super::text::percentile::cell;
use super::text::remarks::together;
use super::text::{addresses, answer, contention, objectives, sizes};

use super::clients;
use super::loops::table as table_of_loops;
use plimsoll_document::terminal;

use plimsoll_base::units::format_count;
use plimsoll_judge::summary::merge::overall;
use plimsoll_judge::summary::result::{Percentiles, RunResult, SyncLoop, Window};
use plimsoll_workload::schedule::Role;

/// Maximum number of rows for which intervals are shown by default.
const FEW: usize = 4;

/// Optional parts of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Detail {
    /// True to show the latency distribution of every row.
    pub distribution: bool,
}

/// Renders the whole report as text.
pub fn render(result: &RunResult, detail: Detail) -> String {
    let mut out: String = answer::of(result).iter().map(|line| format!("{line}\n")).collect();
    if let Some(table) = objectives::table(result) {
        out.push_str(&format!("{}\n", terminal::table(&table).trim_start_matches('\n')));
    }
    out.push_str(&sweep::render(result));
    let run = &result.run;
    let partial = if run.partial { "  (partial: the run did not complete)" } else { "" };
    out.push_str(&format!("{}  seed {}  {}{partial}\n", run.experiment, run.seed, run.started_at));
    if let Some(imported) = &run.imported {
        out.push_str(&format!("imported: {imported}\n"));
    }
    if run.shards.len() > 1 {
        out.push_str(&format!("merged from {} shards\n", run.shards.len()));
    }
    if let Some(degraded) = &run.degraded {
        out.push_str(&format!("! DEGRADED: {degraded}\n"));
    }
    out.push_str(&stores::render(result));
    for store in result.stores() {
        out.push_str(&format!("\n{store}\n"));
        out.push_str(&of_store(result, store, detail));
    }
    out.push_str(&loops(&result.sync));
    clients::tables(&result.clients).iter().for_each(|table| out.push_str(&terminal::table(table)));
    for side in &result.background_requests {
        let failed = if side.failed > 0 { format!(", {} failed", side.failed) } else { String::new() };
        out.push_str(&format!(
            "\n{}: background requests: {} x {}{failed}; first {:.1} ms, mean {:.1} ms, longest {:.1} ms\n",
            side.store, side.request, side.calls, side.first_ms, side.mean_ms, side.max_ms
        ));
    }
    for place in &result.places {
        let name = if place.place.is_empty() { "an unknown place" } else { &place.place };
        out.push_str(&format!(
            "\n{}: {} requests executed in {name}, latencies exact to {} ms\n",
            place.store,
            place.requests,
            place.clock_step_us as f64 / 1000.0
        ));
    }
    if let Some(until) = &result.until {
        out.push_str(&format!(
            "\nuntil {}: {:.0} s per store, looked at {}\n",
            until.question,
            until.measured_s,
            if until.looks == 1 { "once".to_string() } else { format!("{} times", until.looks) }
        ));
    }
    out.push_str(&cost::render(&result.cost));
    result.run.notes.iter().for_each(|note| out.push_str(&format!("note: {note}\n")));
    if run.imported.is_none() {
        out.push_str(&client(result));
    }
    out
}

/// Renders the table of `plimsoll run sync` loops; empty if there are none.
pub fn loops(loops: &[SyncLoop]) -> String {
    table_of_loops(loops).map_or_else(String::new, |table| terminal::table(&table))
}

fn of_store(result: &RunResult, store: &str, detail: Detail) -> String {
    let mut out = String::new();
    let own: Vec<Window> = result.windows.iter().filter(|w| w.store == store).cloned().collect();
    let merged = overall(&own);
    let measured: Vec<&Window> = merged.iter().filter(|w| w.role == Role::Measure).collect();
    let single = |w: &&Window| w.step.is_none() && w.sweep.is_none();
    let plain: Vec<&Window> = measured.iter().copied().filter(single).collect();
    if measured.is_empty() {
        return "\nthe run ended before a measured phase\n".into();
    }
    if !plain.is_empty() {
        out.push_str(&format!("\n{}", table(&plain)));
    }
    match &result.capacity {
        Some(found) => out.push_str(&capacity::render(found, &merged)),
        None => out.push_str(&ramp::render(&merged, result.ramps.iter().filter(|r| r.store == store))),
    }
    out.push_str(&uploads::render(&plain));
    out.push_str(&contention::table(result, store).map_or_else(String::new, |table| terminal::table(&table)));
    let parts = [sizes::table(result, store), addresses::table(result, store)];
    parts.iter().flatten().for_each(|part| out.push_str(&terminal::table(part)));
    out.push_str(&groups::render(&own));
    let open = measured.iter().any(|w| w.response_ms.is_some());
    let closed = measured.iter().any(|w| w.response_ms.is_none());
    // The matrices of a sweep contain its latencies, and mark its points.
    if measured.iter().all(|w| w.sweep.is_some()) {
        let failed = measured.iter().filter(|w| !w.errors.is_empty());
        failed.for_each(|window| out.push_str(&cautions(&[window])));
        return out;
    }
    out.push_str("\nlatency in ms");
    if closed {
        out.push_str("; closed loop: service time only");
    }
    if open {
        out.push_str("; open loop: response counts from the intended time");
    }
    out.push_str("; '-': too few samples");
    let (repeats, blocks) = (own.iter().map(|w| w.repeat).max(), own.iter().map(|w| w.block).max());
    for (unit, n) in [("repeats", repeats), ("blocks", blocks)] {
        if let Some(n) = n.filter(|n| *n > 0) {
            out.push_str(&format!("; {} {unit} merged", n + 1));
        }
    }
    out.push('\n');
    if detail.distribution || plain.len() <= FEW {
        plain.iter().for_each(|w| out.push_str(&confidence::render(w, &result.confidence)));
    }
    if detail.distribution {
        plain.iter().for_each(|w| out.push_str(&distribution::render(w)));
    }
    measured.iter().for_each(|window| out.push_str(&caches(window)));
    // A search exceeds the capacity on purpose, and its own table reports the failures.
    if result.capacity.is_none() {
        out.push_str(&cautions(&measured));
    }
    out
}

fn cautions(windows: &[&Window]) -> String {
    together(windows).iter().map(|line| format!("! {line}\n")).collect()
}

/// Renders the hit ratio, and the latency by cache status; empty if no response had one.
fn caches(window: &Window) -> String {
    let Some(ratio) = window.hit_ratio else { return String::new() };
    let part = |(status, p): (&String, &Percentiles)| {
        format!("{status} {} (p50 {} p99 {} ms)", format_count(p.n), cell(p, "p50"), cell(p, "p99"))
    };
    let parts: Vec<String> = window.cache_ms.iter().map(part).collect();
    format!("{}: {:.1}% from the cache: {}\n", window.place(), 100.0 * ratio, parts.join(", "))
}

fn client(result: &RunResult) -> String {
    let client = &result.client;
    if client.cpu_seconds <= 0.0 {
        // The run was killed, or ended in its preparation.
        return "\nclient: its CPU time is not known, because the run did not end by itself\n".into();
    }
    format!(
        "\nclient: {:.1} us CPU per operation, {:.1} s CPU, peak memory {:.0} MB, {} worker{}{}\n",
        client.cpu_us_per_operation,
        client.cpu_seconds,
        client.peak_rss_bytes as f64 / 1e6,
        client.workers,
        if client.workers == 1 { "" } else { "s" },
        if client.vantage.is_empty() { String::new() } else { format!(", vantage {}", client.vantage) },
    )
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
            role: Role::Measure,
            operation: plimsoll_workload::OperationKind::Get,
            loop_: plimsoll_judge::summary::result::LoopKind::Closed,
            concurrency: 16,
            achieved_per_s: 100.0,
            operations: 1000,
            throughput_bytes_per_s: 102_400.0,
            service_ms: service,
            ..Window::default()
        }
    }

    #[test]
    fn a_closed_loop_is_labelled_service_time_only() {
        let text = render(&RunResult { windows: vec![window()], ..RunResult::default() }, Detail::default());
        assert!(text.contains("service time only") && !text.contains("intended time"), "{text}");
        assert!(text.contains("12.3") && text.contains("16 in flight"), "{text}");
        assert!(text.contains("-  101"), "p99.9 has too few samples\n{text}");
    }

    #[test]
    fn an_open_loop_shows_both_times_and_lower_bounds() {
        let mut open = window();
        open.offered_per_s = Some(500.0);
        open.saturated = true;
        open.errors.insert("503 SlowDown".into(), 7);
        let above = [("p99".to_string(), 900.0)].into_iter().collect();
        open.response_ms =
            Some(Percentiles { p50: Some(7.0), lower_bounds: above, ..Percentiles::default() });
        let text = render(&RunResult { windows: vec![open], ..RunResult::default() }, Detail::default());
        for expected in
            ["get response", "get service", "> 900", "503 SlowDown x 7", "500/s offered, 100/s achieved"]
        {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }
}
