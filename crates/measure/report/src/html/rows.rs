//! Rows of the report, one per store, phase, step and operation, with figures and distribution from
//! `result.json` alone.

use serde::Serialize;

use plimsoll_judge::summary::latencies::of_histogram;
use plimsoll_judge::summary::merge::overall;
use plimsoll_judge::summary::percentiles::samples_needed;
use plimsoll_judge::summary::result::{Percentiles, RunResult, Window};
use plimsoll_recorder::histogram::Latencies;
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Role;

/// Number of bars of a histogram per factor of ten.
const BARS_PER_DECADE: f64 = 20.0;

/// A row of the report.
#[derive(Debug, Clone, Serialize)]
pub struct HtmlRow {
    /// Number of the subject (run and store).
    pub subject: usize,
    /// Name of the phase, with the step of a ramp.
    pub phase: String,
    /// Step of a ramp, from 0. `None` outside a ramp.
    pub step: Option<u32>,
    /// Kind of operation.
    pub operation: String,
    /// Group of keys. `None` if the experiment does not distinguish groups.
    pub key_group: Option<String>,
    /// Kind of loop: `open` or `closed`.
    pub load: String,
    /// Operations intended per second; open loops only.
    pub offered_per_s: Option<f64>,
    /// Successful operations per second.
    pub per_s: f64,
    /// Object bytes delivered per second.
    pub bytes_per_s: f64,
    /// Limit of operations in flight.
    pub concurrency: usize,
    /// Operations in flight, averaged over time.
    pub in_flight: f64,
    /// Number of operations, failed ones included.
    pub operations: u64,
    /// Number of failed operations.
    pub failed: u64,
    /// Points of the percentile plot: `[1 / (1 - q), ms]`.
    pub curve: Vec<(f64, f64)>,
    /// Bars of the histogram: lower edge in ms, upper edge in ms, operations.
    pub bars: Vec<(f64, f64, u64)>,
    /// Box plot: 1st, 25th, 50th, 75th and 99th percentile in ms. With too few operations, the ends are the
    /// minimum and maximum.
    pub quartiles: Option<[f64; 5]>,
    /// Parts of an operation: name, samples, p50 in ms, p99 in ms.
    pub parts: Vec<(&'static str, u64, Option<f64>, Option<f64>)>,
    /// 99th percentile of the start lag, in ms.
    pub start_lag_p99: Option<f64>,
    /// Start lag above which the client counts as the bottleneck, in ms.
    pub start_lag_allowed: Option<f64>,
    /// Resource that limited the client; the figures then measure the client. `None` if the client
    /// was not the bottleneck.
    pub client_limited: Option<String>,
    /// Short remarks that qualify the figures.
    pub stamps: Vec<String>,
}

fn round(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { format!("{x:.4e}").parse().unwrap_or(x) }
}

/// Returns the points of the percentile plot, from the minimum to the 99.99th percentile, as far as there are
/// enough operations.
fn curve(latencies: &Latencies) -> Vec<(f64, f64)> {
    let mut steps: Vec<f64> = (0..=80).map(|i| 10f64.powf(f64::from(i) / 20.0)).collect();
    // The median is not on this grid.
    steps.push(2.0);
    steps.sort_by(f64::total_cmp);
    let point = |x: f64| {
        let q = 1.0 - 1.0 / x;
        let known = q <= 0.0 || latencies.len() >= samples_needed(q);
        latencies.quantile_ns(q.max(0.0)).filter(|_| known).map(|ns| (round(x), round(ns as f64 / 1e6)))
    };
    steps.into_iter().filter_map(point).collect()
}

fn bars(latencies: &Latencies) -> Vec<(f64, f64, u64)> {
    let Some(histogram) = latencies.histogram() else { return Vec::new() };
    let mut out: Vec<(i64, u64)> = Vec::new();
    for value in histogram.iter_recorded() {
        let bar = ((value.value_iterated_to() as f64 / 1e3).log10() * BARS_PER_DECADE).floor() as i64;
        match out.last_mut() {
            Some((last, n)) if *last == bar => *n += value.count_at_value(),
            _ => out.push((bar, value.count_at_value())),
        }
    }
    let edge = |bar: i64| round(10f64.powf(bar as f64 / BARS_PER_DECADE));
    out.into_iter().map(|(bar, n)| (edge(bar), edge(bar + 1), n)).collect()
}

fn quartiles(latencies: &Latencies) -> Option<[f64; 5]> {
    let at = |q: f64| latencies.quantile_ns(q).map(|ns| round(ns as f64 / 1e6));
    let ends = latencies.len() >= samples_needed(0.99);
    let low = if ends { at(0.01) } else { at(0.0) };
    let high = if ends { at(0.99) } else { at(1.0) };
    Some([low?, at(0.25)?, at(0.5)?, at(0.75)?, high?])
}

/// Returns short remarks that qualify the figures of a window.
fn stamps(window: &Window) -> Vec<String> {
    let failed: u64 = window.errors.values().sum();
    let mut out = Vec::new();
    if let Some(error) = &window.instrument_error {
        out.push(format!("instrument error: {error}"));
    }
    if let Some(reason) = &window.client_limited {
        out.push(format!("client-limited: {reason}"));
    }
    let found = &window.disturbances;
    if found.paused_operations > 0 {
        let share = 100.0 * found.paused_operations as f64 / window.operations.max(1) as f64;
        out.push(format!("the client paused: {share:.2}% of the operations overlap a pause"));
    }
    if !found.clock_steps_ms.is_empty() {
        out.push("somebody set the client's clock".into());
    }
    if window.saturated {
        out.push("saturated".into());
    }
    if window.errors.contains_key("corrupt") {
        out.push("corrupt content".into());
    } else if failed > 0 {
        out.push(format!("{:.2}% failed", 100.0 * failed as f64 / window.operations.max(1) as f64));
    }
    if window.censored > 0 {
        out.push("unanswered operations".into());
    }
    out
}

/// Returns the measured rows of a run, ordered by phase and then by store. `subject` returns the number of a store.
pub fn rows(result: &RunResult, subject: impl Fn(&str) -> usize) -> Vec<HtmlRow> {
    let mut measured = overall(&result.windows);
    measured.retain(|w| w.role == Role::Measure);
    let mut places: Vec<(String, Option<u32>, OperationKind)> = Vec::new();
    let mut place = |w: &Window| {
        let own = (w.phase.clone(), w.step, w.operation);
        places.iter().position(|p| *p == own).unwrap_or_else(|| {
            places.push(own);
            places.len() - 1
        })
    };
    let mut rows: Vec<(usize, HtmlRow)> =
        measured.iter().map(|w| (place(w), row(w, subject(&w.store)))).collect();
    rows.sort_by_key(|(place, row)| (*place, row.subject));
    rows.into_iter().map(|(_, row)| row).collect()
}

fn row(window: &Window, subject: usize) -> HtmlRow {
    let open = window.response_ms.is_some();
    let shown = window.response_ms.as_ref().unwrap_or(&window.service_ms);
    let latency = of_histogram(window, if open { "response" } else { "service" }, Some(shown));
    let part = |name: &'static str, p: &Percentiles| (p.n > 0).then_some((name, p.n, p.p50, p.p99));
    let parts = [
        part("connect", &window.connect_ms),
        part("TLS", &window.tls_ms),
        part("first byte", &window.first_byte_ms),
        part("body", &window.body_ms),
    ];
    HtmlRow {
        subject,
        phase: window.label(),
        step: window.step,
        operation: window.operation.to_string(),
        key_group: window.key_group.clone(),
        load: window.loop_.name().into(),
        offered_per_s: window.offered_per_s.map(round),
        per_s: round(window.achieved_per_s),
        bytes_per_s: round(window.throughput_bytes_per_s),
        concurrency: window.concurrency,
        in_flight: round(window.in_flight_mean),
        operations: window.operations,
        failed: window.errors.values().sum(),
        curve: curve(&latency),
        bars: bars(&latency),
        quartiles: quartiles(&latency),
        parts: parts.into_iter().flatten().collect(),
        start_lag_p99: window.start_lag_ms.p99,
        start_lag_allowed: window.service_ms.p50.map(|p50| round((0.05 * p50).max(1.0))),
        client_limited: window.client_limited.clone(),
        stamps: stamps(window),
    }
}
