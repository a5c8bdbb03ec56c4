//! Output in the formats of YCSB and go-ycsb, for scripts written for those tools: one summary per operation,
//! times in whole microseconds.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use plimsoll_judge::summary::merge::overall;
use plimsoll_judge::summary::result::{RunResult, Window};
use plimsoll_recorder::histogram::Latencies;
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Role;

/// Returns YCSB's name of an operation. YCSB and go-ycsb differ in one name.
fn name(operation: OperationKind, go: bool) -> String {
    match operation {
        OperationKind::Put => "INSERT".into(),
        OperationKind::Get => "READ".into(),
        OperationKind::ReadModifyWrite if !go => "READ-MODIFY-WRITE".into(),
        other => other.name().to_uppercase(),
    }
}

/// Returns the service times of an operation, or in an open loop its response times, which count from the
/// intended time.
fn latencies(window: &Window) -> Latencies {
    let kind = if window.response_ms.is_some() { "response" } else { "service" };
    let bytes = window.histograms.get(kind).and_then(|text| STANDARD.decode(text).ok());
    bytes.and_then(|bytes| Latencies::from_bytes(&bytes)).unwrap_or_default()
}

fn micros(ns: Option<f64>) -> u64 {
    (ns.unwrap_or(0.0) / 1e3).round() as u64
}

/// Returns the measured windows by YCSB's name of their operation.
fn measured(result: &RunResult, go: bool) -> BTreeMap<String, Window> {
    let windows = overall(&result.windows);
    windows.into_iter().filter(|w| w.role == Role::Measure).map(|w| (name(w.operation, go), w)).collect()
}

/// Returns quantile `q` in microseconds: a bucket of the histogram, never interpolated.
fn at(latencies: &Latencies, q: f64) -> u64 {
    latencies.quantile_ns(q).unwrap_or(0).div_ceil(1000)
}

/// Renders a result in go-ycsb's format: the properties, then a line per operation.
pub fn go_ycsb<'a>(result: &RunResult, properties: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut out = String::from("***************** properties *****************\n");
    properties.for_each(|(name, value)| out.push_str(&format!("\"{name}\"=\"{value}\"\n")));
    out.push_str("**********************************************\n");
    let windows = measured(result, true);
    let took = windows.values().map(|w| w.window_s).fold(0.0, f64::max);
    out.push_str(&format!("Run finished, takes {took:.9}s\n"));
    let mut total = Latencies::default();
    let mut line = |name: &str, latencies: &Latencies, window_s: f64| {
        let n = latencies.len();
        let percentiles: Vec<String> = [
            ("50th", 0.5),
            ("90th", 0.9),
            ("95th", 0.95),
            ("99th", 0.99),
            ("99.9th", 0.999),
            ("99.99th", 0.9999),
        ]
        .iter()
        .map(|(name, q)| format!("{name}(us): {}", at(latencies, *q)))
        .collect();
        out.push_str(&format!(
            "{name:<6} - Takes(s): {window_s:.1}, Count: {n}, OPS: {:.1}, Avg(us): {}, Min(us): {}, Max(us): {}, {}\n",
            n as f64 / window_s.max(1e-9),
            micros(latencies.mean_ns()),
            micros(latencies.min_ns().map(|n| n as f64)),
            micros(latencies.max_ns().map(|n| n as f64)),
            percentiles.join(", ")
        ));
    };
    for (name, window) in &windows {
        let of = latencies(window);
        total.merge(&of);
        if !of.is_empty() {
            line(name, &of, window.window_s);
        }
        let bytes = window.histograms.get("failed").and_then(|text| STANDARD.decode(text).ok());
        let failed = bytes.and_then(|bytes| Latencies::from_bytes(&bytes)).unwrap_or_default();
        if !failed.is_empty() {
            line(&format!("{name}_ERROR"), &failed, window.window_s);
        }
    }
    if !total.is_empty() {
        line("TOTAL", &total, took);
    }
    out
}

/// Renders a result in YCSB's format.
pub fn ycsb(result: &RunResult) -> String {
    let windows = measured(result, false);
    let took = windows.values().map(|w| w.window_s).fold(0.0, f64::max);
    let done: u64 = windows.values().map(|w| w.service_ms.n).sum();
    let mut out = format!("[OVERALL], RunTime(ms), {:.0}\n", took * 1e3);
    out.push_str(&format!("[OVERALL], Throughput(ops/sec), {}\n", done as f64 / took.max(1e-9)));
    for (name, window) in &windows {
        let of = latencies(window);
        let mut line = |key: &str, value: String| out.push_str(&format!("[{name}], {key}, {value}\n"));
        line("Operations", of.len().to_string());
        line("AverageLatency(us)", format!("{}", of.mean_ns().unwrap_or(0.0) / 1e3));
        line("MinLatency(us)", micros(of.min_ns().map(|n| n as f64)).to_string());
        line("MaxLatency(us)", micros(of.max_ns().map(|n| n as f64)).to_string());
        for (label, q) in [("50th", 0.5), ("95th", 0.95), ("99th", 0.99)] {
            line(&format!("{label}PercentileLatency(us)"), at(&of, q).to_string());
        }
        line("Return=OK", of.len().to_string());
        let failed: u64 = window.errors.values().sum();
        if failed > 0 {
            line("Return=ERROR", failed.to_string());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result() -> RunResult {
        let mut latencies = Latencies::default();
        (1..=1000u64).for_each(|us| latencies.record(us * 1000));
        let window = |operation: &str| Window {
            store: "s".into(),
            phase: "run".into(),
            role: Role::Measure,
            operation: plimsoll_workload::OperationKind::from_name(operation).unwrap(),
            window_s: 2.0,
            operations: 1000,
            histograms: [("service".to_string(), STANDARD.encode(latencies.to_bytes()))]
                .into_iter()
                .collect(),
            service_ms: plimsoll_judge::summary::result::Percentiles { n: 1000, ..Default::default() },
            ..Window::default()
        };
        RunResult { windows: vec![window("get"), window("read_modify_write")], ..RunResult::default() }
    }

    #[test]
    fn go_ycsb_lines_have_every_field_in_order() {
        let text = go_ycsb(&result(), [("recordcount", "1000")].into_iter());
        assert!(text.contains("\"recordcount\"=\"1000\"\n*****"));
        let read = text.lines().find(|l| l.starts_with("READ ")).unwrap();
        assert!(read.starts_with("READ   - Takes(s): 2.0, Count: 1000, OPS: 500.0, Avg(us): 50"), "{read}");
        for field in ["Min(us): 1,", "50th(us): 500,", "99.99th(us): 1000"] {
            assert!(read.contains(field), "{field}: {read}");
        }
        assert!(
            text.contains("READ_MODIFY_WRITE - ") && text.contains("TOTAL  - Takes(s): 2.0, Count: 2000")
        );
    }

    #[test]
    fn ycsb_lines_have_bracketed_names() {
        let text = ycsb(&result());
        assert!(
            text.starts_with("[OVERALL], RunTime(ms), 2000\n[OVERALL], Throughput(ops/sec), 1000\n"),
            "{text}"
        );
        assert!(text.contains("[READ], 99thPercentileLatency(us), 990\n"), "{text}");
        assert!(text.contains("[READ-MODIFY-WRITE], Return=OK, 1000\n"));
    }
}
