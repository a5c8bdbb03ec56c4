//! Violations of consistency that `plimsoll run consistency --json` found, as faults that a server injects.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::{Likeness, TwinError};
use plimsoll_server::inject::{Lag, Spec};

/// Normal score of the 99th percentile.
const SCORE_P99: f64 = 2.326_348;
/// Largest size of a file with findings, in bytes.
const MOST_BYTES: u64 = 64 << 20;

/// The part of the findings that can be imitated.
#[derive(Debug, Deserialize)]
struct FindingsFile {
    guarantees: BTreeMap<String, Counts>,
    lag: LagFile,
    list_lag: LagFile,
}

#[derive(Debug, Deserialize)]
struct Counts {
    checked: u64,
    violations: u64,
}

#[derive(Debug, Deserialize)]
struct LagFile {
    writes: u64,
    late: u64,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

impl LagFile {
    /// Returns the time from a write until it is visible: lognormal with these percentiles.
    fn lag(&self) -> Lag {
        if self.late == 0 || self.p50_ms <= 0.0 {
            return Lag::default();
        }
        Lag {
            share: self.late as f64 / self.writes.max(self.late) as f64,
            median_ns: self.p50_ms * 1e6,
            sigma: ((self.p99_ms / self.p50_ms).max(1.0)).ln() / SCORE_P99,
            most_ns: (self.max_ms * 1e6).max(0.0) as u64,
        }
    }
}

/// Describes a lag; `None` if there is none.
fn describe(of: &str, lag: &LagFile) -> Option<String> {
    let share = 100.0 * lag.late as f64 / lag.writes.max(1) as f64;
    (lag.late > 0).then(|| {
        let (p50, p99) = (lag.p50_ms, lag.p99_ms);
        format!("{of}: {share:.1}% of the writes are not visible at once, but after {p50:.1} ms (p50), {p99:.1} ms (p99)")
    })
}

/// Returns the violations in a file with findings.
///
/// # Errors
/// [`TwinError::Findings`] if the file cannot be read or has no findings.
pub fn of_file(path: &Path) -> Result<Likeness, TwinError> {
    let fault = |text: String| TwinError::Findings { path: path.display().to_string(), text };
    let length = std::fs::metadata(path).map_err(|e| fault(e.to_string()))?.len();
    if length > MOST_BYTES {
        return Err(fault("the file is larger than 64 MiB".into()));
    }
    let text = std::fs::read_to_string(path).map_err(|e| fault(e.to_string()))?;
    let found: FindingsFile = serde_json::from_str(&text).map_err(|e| fault(e.to_string()))?;
    let conditional = ["put_if_absent", "put_if_unchanged"].map(|name| found.guarantees.get(name));
    let sum = |of: fn(&Counts) -> u64| conditional.iter().flatten().map(|counts| of(counts)).sum::<u64>();
    // A key with a violation has lost at least one write.
    let lost = sum(|counts| counts.violations) as f64 / sum(|counts| counts.checked).max(1) as f64;
    let mut lines: Vec<String> = [("reads", &found.lag), ("listings", &found.list_lag)]
        .iter()
        .filter_map(|(of, lag)| describe(of, lag))
        .collect();
    if lost > 0.0 {
        lines
            .push(format!("{:.2}% of the conditional writes are acknowledged, but not stored", 100.0 * lost));
    }
    if lines.is_empty() {
        lines.push("no violation of consistency was found, so there is none".into());
    }
    let faults = Spec {
        stale: found.lag.lag(),
        stale_list: found.list_lag.lag(),
        lost_conditional: lost.min(1.0),
        ..Spec::default()
    };
    Ok(Likeness { model: None, faults, store: format!("the consistency in {}", path.display()), lines })
}
