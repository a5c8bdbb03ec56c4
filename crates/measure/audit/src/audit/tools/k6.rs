//! Summary of k6 as JSON: that of `handleSummary` (`metrics.NAME.values`), or of `--summary-export` (figures directly
//! below `metrics.NAME`). Times are in milliseconds.

use serde_json::Value;

use super::super::facts::{Facts, Measurement};
use super::undisclosed;

/// Reads a summary.
///
/// # Errors
/// A message if it has no HTTP requests.
pub fn facts(summary: &Value) -> Result<Facts, String> {
    let metric = |name: &str| {
        let metric = summary.get("metrics")?.get(name)?;
        Some(metric.get("values").unwrap_or(metric))
    };
    let number =
        |name: &str, key: &str| metric(name).and_then(|values| values.get(key)).and_then(Value::as_f64);
    let requests = number("http_reqs", "count").ok_or("the summary has no http_reqs")?;
    let times = metric("http_req_duration").and_then(Value::as_object);
    let percentiles =
        times.into_iter().flat_map(|times| times.keys()).filter_map(|name| share(name)).collect();
    // http_req_failed counts failed requests as passes.
    let failed = number("http_req_failed", "passes").or_else(|| {
        number("http_req_failed", "rate")
            .or_else(|| number("http_req_failed", "value"))
            .map(|rate| rate * requests)
    });
    let failed = failed.filter(|failed| (0.0..=requests).contains(failed));
    let by_state =
        summary.get("state").and_then(|state| state.get("testRunDurationMs")).and_then(Value::as_f64);
    let by_rate =
        number("iterations", "count").zip(number("iterations", "rate")).map(|(count, rate)| count / rate);
    let measured_s = by_state.map(|ms| ms / 1e3).or(by_rate).filter(|s| s.is_finite() && *s > 0.0);
    let dropped = number("dropped_iterations", "count").unwrap_or(0.0);
    let iterations = number("iterations", "count").unwrap_or(requests);
    let achieved = measured_s.map(|s| iterations / s);
    Ok(Facts {
        tool: "k6".into(),
        measurements: vec![Measurement {
            name: "http requests".into(),
            reads: true,
            figure: "rate".into(),
            values: number("http_reqs", "rate").into_iter().collect(),
            measured_s,
            operations: Some(requests as u64),
            failed: failed.map(|count| count.round() as u64),
            // The time of a request leaves out the waiting for a virtual user, also with an arrival rate.
            open_loop: None,
            missed_rate: achieved
                .zip(measured_s)
                .filter(|_| dropped > 0.0)
                .map(|(rate, s)| (rate + dropped / s, rate)),
            percentiles,
            samples: Some(requests as u64),
            has_times: times.is_some(),
            ..Measurement::default()
        }],
        undisclosed: undisclosed(&["experiment", "version of the tool", "start time"]),
        ..Facts::default()
    })
}

/// Returns the share of a statistic: `med`, or `p(99.9)`.
fn share(name: &str) -> Option<f64> {
    if name == "med" {
        return Some(0.5);
    }
    let percent = name.strip_prefix("p(")?.strip_suffix(')')?.parse::<f64>().ok()?;
    Some(percent / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_failures_are_those_that_k6_calls_passes() {
        let new = serde_json::json!({"state": {"testRunDurationMs": 20_000.0}, "metrics": {
            "http_reqs": {"values": {"count": 4000, "rate": 200.0}},
            "http_req_failed": {"values": {"rate": 0.05, "passes": 200, "fails": 3800}},
            "dropped_iterations": {"values": {"count": 1000, "rate": 50.0}},
            "iterations": {"values": {"count": 4000, "rate": 200.0}},
            "http_req_duration": {"values": {"avg": 3.0, "med": 2.0, "p(99.9)": 8.0}}}});
        let one = facts(&new).unwrap().measurements.remove(0);
        assert_eq!(
            (one.failed, one.measured_s, one.missed_rate),
            (Some(200), Some(20.0), Some((250.0, 200.0)))
        );
        assert!(
            (one.percentiles[1] - 0.999).abs() < 1e-9 && one.percentiles[0] == 0.5,
            "{:?}",
            one.percentiles
        );
        let old = serde_json::json!({"metrics": {
            "http_reqs": {"count": 3000, "rate": 100.0}, "http_req_failed": {"value": 0.0, "passes": 0, "fails": 3000},
            "iterations": {"count": 3000, "rate": 100.0}, "http_req_duration": {"avg": 1.0, "p(95)": 2.0}}});
        let one = facts(&old).unwrap().measurements.remove(0);
        assert_eq!((one.failed, one.measured_s, one.open_loop), (Some(0), Some(30.0), None));
        assert!(facts(&serde_json::json!({"metrics": {}})).is_err());
    }
}
