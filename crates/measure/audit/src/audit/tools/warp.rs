//! Results of warp: the log of operations (`.csv.zst`), the JSON of newer versions (`by_op_type`), and that of `warp
//! analyze --json` of older ones (a list of operations).

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::super::facts::{Facts, Measurement};
use super::{ToolError, closed, undisclosed};
use crate::import::warp;

/// Reads a log of operations, from which exact percentiles follow.
///
/// # Errors
/// [`ToolError::Invalid`] if the file is no such log.
pub fn log(path: &Path) -> Result<Facts, ToolError> {
    let log = warp::read(path)
        .map_err(|e| ToolError::Invalid { file: path.display().to_string(), problem: e.to_string() })?;
    let mut all: BTreeMap<String, (u64, u64, u64, u64)> = BTreeMap::new();
    for record in &log.records {
        let sum = all.entry(record.kind.name().to_string()).or_insert((0, 0, u64::MAX, 0));
        *sum = (
            sum.0 + 1,
            sum.1 + u64::from(record.error.is_some()),
            sum.2.min(record.start_ns),
            sum.3.max(record.end_ns),
        );
    }
    let measurements = all.into_iter().map(|(name, (operations, failed, start_ns, end_ns))| {
        let measured_s = end_ns.saturating_sub(start_ns) as f64 / 1e9;
        let samples = operations - failed;
        let shares =
            [0.5, 0.9, 0.99, 0.999].into_iter().filter(|share| samples as f64 * (1.0 - share) >= 10.0);
        Measurement {
            operations: Some(operations),
            failed: Some(failed),
            measured_s: Some(measured_s),
            values: vec![samples as f64 / measured_s.max(1e-9)],
            percentiles: shares.collect(),
            samples: Some(samples),
            has_times: true,
            ..closed(&name)
        }
    });
    Ok(Facts {
        tool: "warp, log of operations".into(),
        measurements: measurements.collect(),
        // The figures are computed from the log.
        contradictions: Some(Vec::new()),
        undisclosed: undisclosed(&["experiment", "version of the tool"]),
        ..Facts::default()
    })
}

fn number(value: &Value, path: &[&str]) -> Option<f64> {
    path.iter().try_fold(value, |value, key| value.get(key))?.as_f64()
}

/// Reads a JSON document with figures by operation. Its times are of windows of seconds, from which no percentile of
/// the whole follows.
pub fn summary(document: &Value) -> Facts {
    let empty = serde_json::Map::new();
    let all = document.get("by_op_type").and_then(Value::as_object).unwrap_or(&empty);
    let measurements = all.iter().map(|(name, value)| {
        let requests = number(value, &["total_requests"]).map(|n| n as u64);
        let millis = number(value, &["throughput", "measure_duration_millis"]);
        let objects = number(value, &["throughput", "objects"]);
        Measurement {
            operations: requests,
            failed: number(value, &["total_errors"]).map(|n| n as u64),
            measured_s: millis.map(|ms| ms / 1e3),
            values: objects.zip(millis).map(|(count, ms)| count / (ms / 1e3)).into_iter().collect(),
            has_times: value.get("requests_by_client").is_some(),
            samples: requests,
            ..closed(name)
        }
    });
    let has_command = document.get("commandline").is_some();
    Facts {
        tool: "warp".into(),
        measurements: measurements.collect(),
        undisclosed: undisclosed(if has_command {
            &["version of the tool"]
        } else {
            &["version of the tool", "command"]
        }),
        ..Facts::default()
    }
}

/// Reads the JSON of an analysis by an older version.
pub fn analysis(document: &Value) -> Facts {
    let all = document.get("operations").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let measurements = all.iter().enumerate().map(|(index, value)| {
        let name = ["type", "op", "operation"].iter().find_map(|key| value.get(key).and_then(Value::as_str));
        let name = name.map_or_else(|| format!("operation {}", index + 1), str::to_string);
        let operations = number(value, &["throughput", "operations"]).map(|n| n as u64);
        let times = value.get("single_sized_requests").or_else(|| value.get("multi_sized_requests"));
        let shares = [("dur_median_millis", 0.5), ("dur_90_millis", 0.9), ("dur_99_millis", 0.99)];
        let shown = shares.iter().filter(|(key, _)| times.is_some_and(|times| times.get(key).is_some()));
        Measurement {
            operations,
            failed: number(value, &["throughput", "errors"]).or(number(value, &["errors"])).map(|n| n as u64),
            measured_s: number(value, &["throughput", "measure_duration_millis"]).map(|ms| ms / 1e3),
            values: number(value, &["throughput", "average_ops"]).into_iter().collect(),
            percentiles: shown.map(|(_, share)| *share).collect(),
            has_times: times.is_some(),
            samples: operations,
            ..closed(&name)
        }
    });
    Facts {
        tool: "warp analyze".into(),
        measurements: measurements.collect(),
        undisclosed: undisclosed(&["command", "version of the tool"]),
        ..Facts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_json_are_read() {
        let new = serde_json::json!({"v": 2, "commandline": "warp get", "by_op_type": {"GET": {
            "total_requests": 100, "total_errors": 3, "requests_by_client": {},
            "throughput": {"measure_duration_millis": 50_000, "objects": 97}}}});
        let one = summary(&new).measurements.remove(0);
        assert_eq!((one.operations, one.failed, one.measured_s), (Some(100), Some(3), Some(50.0)));
        assert!(one.reads && one.has_times && one.percentiles.is_empty());
        let old = serde_json::json!({"type": "single", "operations": [{"throughput": {
            "errors": 0, "measure_duration_millis": 299_506, "average_ops": 4516.22, "operations": 1_352_343}}]});
        let one = analysis(&old).measurements.remove(0);
        assert_eq!((one.operations, one.failed, &one.values[..]), (Some(1_352_343), Some(0), &[4516.22][..]));
    }
}
