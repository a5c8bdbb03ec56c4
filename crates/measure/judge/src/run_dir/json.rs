//! `result.json`, written to a temporary file and renamed, so that a reader never sees a partial file.

use std::io;
use std::path::Path;

use plimsoll_base::files::{read_named_text, read_text};

use super::MAX_TEXT;
use super::environment::read_environment;
use crate::summary::result::RunResult;

/// Serializes a result as indented JSON with a final newline.
pub fn to_string(result: &RunResult) -> String {
    let mut text = serde_json::to_string_pretty(result).unwrap_or_default();
    text.push('\n');
    text
}

/// Error while reading a result.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("{path}: {source}; specify a run directory, such as plimsoll-runs/<run-id>")]
    Io {
        /// Path of the file.
        path: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file is not a result, or has another schema.
    #[error("{path} is not a result file of schema version 1 to {expected}: {reason}")]
    Shape {
        /// Path of the file.
        path: String,
        /// Schema number that this version reads.
        expected: u32,
        /// Reason why the file was rejected.
        reason: String,
    },
}

/// Reads a result, given the path of its run directory or of the file itself.
///
/// # Errors
/// See [`ReadError`].
pub fn read(path: &Path) -> Result<RunResult, ReadError> {
    let (file, text) = if path.is_dir() {
        let file = path.join("result.json");
        let text = read_text(&file, MAX_TEXT);
        (file, text)
    } else {
        (path.to_path_buf(), read_named_text(path, MAX_TEXT))
    };
    let shown = file.display().to_string();
    let text = text.map_err(|source| ReadError::Io { path: shown.clone(), source })?;
    let expected = crate::summary::result::SCHEMA;
    let shape = |reason: String| ReadError::Shape { path: shown.clone(), expected, reason };
    let mut result: RunResult = serde_json::from_str(&text).map_err(|e| shape(e.to_string()))?;
    if !(1..=expected).contains(&result.schema) {
        return Err(shape(format!("its schema version is {}", result.schema)));
    }
    // Serde aliases have read the field names of schema 1. Those of schema 2 are current.
    result.schema = result.schema.max(2);
    // Results of earlier versions do not list their stores.
    if result.run.stores.is_empty()
        && let Some(environment) = file.parent().and_then(|run| read_environment(run).ok())
    {
        result.run.stores = environment.stores.into_iter().map(|store| store.url).collect();
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A result of schema 1, shortened, with every field whose name schema 2 changed.
    const SCHEMA_1: &str = r#"{
        "schema": 1,
        "run": { "id": "r", "experiment": "get", "seed": 1, "stores": ["s3://b"], "started_at": "", "version": "0.1.0",
                 "partial": false },
        "client": { "vantage": "", "workers": 1, "cpu_seconds": 1.0, "cpu_us_per_operation": 1.0, "peak_rss_bytes": 1 },
        "windows": [],
        "ramps": [{ "store": "s3://b", "phase": "get", "repeat": 0, "operation": "get", "steps": 3, "ended": "plateau",
                    "plateau_bytes_per_s": null, "plateau_per_s": 5.0, "knee_in_flight": null }],
        "side_calls": [{ "store": "s3://b", "what": "CreateSession", "calls": 2, "failed": 0, "first_ms": 1.0,
                         "mean_ms": 1.0, "max_ms": 1.0 }],
        "knee": { "objectives": [], "holds_per_s": 100.0, "breaks_per_s": 200.0, "finished": true,
                  "steps": [{ "step": 0, "offered_per_s": 100.0, "achieved_per_s": 100.0, "held": false, "broke": "p99" }] },
        "cost": [{ "store": "s3://b", "provider": "aws-s3", "region": "us-east-1", "as_of": "2026-11-21",
                   "emulated": false, "estimated_usd": "1.50", "total_usd": "2.00", "notes": ["n"],
                   "lines": [{ "item": "PUT", "quantity": "1", "unit": "request", "unit_price_usd": "2.00",
                               "amount_usd": "2.00", "source": "u", "as_of": "2026-11-01", "confidence": "high" }] }],
        "confidence": [{ "store": "s3://b", "phase": "get", "operation": "get", "metric": "p99", "unit": "ms",
                         "value": null, "low": null, "high": null, "needs_s": 30.0 }]
    }"#;

    #[test]
    fn results_of_schema_1_are_read_with_the_names_of_schema_2() {
        let file = std::env::temp_dir().join(format!("plimsoll-schema-1-{}.json", std::process::id()));
        fs::write(&file, SCHEMA_1).unwrap();
        let result = read(&file);
        fs::remove_file(&file).unwrap();
        let result = result.unwrap();
        assert_eq!(result.schema, 2);
        assert_eq!(result.ramps[0].end_reason, "plateau");
        assert_eq!(result.background_requests[0].request, "CreateSession");
        let found = result.capacity.as_ref().unwrap();
        assert_eq!((found.highest_met_per_s, found.lowest_missed_per_s), (Some(100.0), Some(200.0)));
        assert_eq!((found.steps[0].met, found.steps[0].missed.as_deref()), (false, Some("p99")));
        let bill = &result.cost[0].bill;
        assert_eq!((bill.total_usd.to_string().as_str(), bill.lines[0].part), ("2.00", None));
        assert_eq!(result.confidence[0].duration_needed_s, Some(30.0));
        assert_eq!(serde_json::from_str::<RunResult>(&to_string(&result)).unwrap(), result);
    }

    #[test]
    fn results_of_an_unknown_schema_are_refused() {
        let file = std::env::temp_dir().join(format!("plimsoll-schema-9-{}.json", std::process::id()));
        fs::write(&file, SCHEMA_1.replace("\"schema\": 1", "\"schema\": 9")).unwrap();
        let refused = read(&file).unwrap_err().to_string();
        fs::remove_file(&file).unwrap();
        assert!(refused.contains("schema version is 9"), "{refused}");
    }
}
