//! Violations of consistency that `plimsoll run consistency --json` found, as faults that a server injects.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::{Likeness, TwinError};
use plimsoll_base::files::read_text;
use plimsoll_consistency::guarantee::Guarantee;
use plimsoll_emulator::inject::{Lag, Spec};

/// Normal score of the 99th percentile.
const SCORE_P99: f64 = 2.326_348;
/// Largest size of a file with findings, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Longest time that a twin imitates, in milliseconds: 1,000 hours.
const MAX_MS: f64 = 3.6e9;
/// Ratio by which a percentile may exceed the maximum, because a histogram rounds it.
const ROUNDED: f64 = 1.05;

/// The part of the findings that can be imitated.
#[derive(Debug, Deserialize)]
struct FindingsFile {
    keys: u64,
    violations: u64,
    guarantees: BTreeMap<Guarantee, Counts>,
    lag: LagFile,
    list_lag: LagFile,
}

#[derive(Debug, Default, Deserialize)]
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
    fn is_possible(&self) -> bool {
        let [p50, p99, max] = [self.p50_ms, self.p99_ms, self.max_ms];
        let is_ordered = p50 <= p99 && p99 <= ROUNDED * max && (0.0..=MAX_MS).contains(&max);
        self.late == 0 || self.late <= self.writes && p50 > 0.0 && is_ordered
    }

    /// Returns the time from a write until it is visible: lognormal with these percentiles.
    fn lag(&self) -> Lag {
        if self.late == 0 {
            return Lag::default();
        }
        Lag {
            share: self.late as f64 / self.writes as f64,
            median_ns: self.p50_ms * 1e6,
            sigma: (self.p99_ms / self.p50_ms).ln() / SCORE_P99,
            most_ns: (self.max_ms * 1e6) as u64,
        }
    }

    fn describe(&self, of: &str) -> String {
        let (share, p50, p99) = (100.0 * self.late as f64 / self.writes as f64, self.p50_ms, self.p99_ms);
        format!(
            "{of}: {share:.1}% of the writes are not visible at once, but after {p50:.1} ms (p50), {p99:.1} ms (p99)"
        )
    }
}

impl FindingsFile {
    fn of(&self, guarantee: Guarantee) -> (u64, u64) {
        self.guarantees.get(&guarantee).map_or((0, 0), |counts| (counts.checked, counts.violations))
    }

    fn violates(&self, guarantees: &[Guarantee]) -> bool {
        guarantees.iter().any(|guarantee| self.of(*guarantee).1 > 0)
    }

    /// Returns the share of the conditional writes that are lost. `None` if no write is lost, or if late reads explain
    /// the missing writes.
    fn lost(&self) -> Option<f64> {
        use Guarantee::{PutIfAbsent, PutIfUnchanged, ReadAfterConditionalPut};
        let writes = [PutIfAbsent, PutIfUnchanged];
        let is_late = self.is_late();
        let found = writes.iter().chain((!is_late).then_some(&ReadAfterConditionalPut));
        let keys = found.map(|guarantee| self.of(*guarantee).1).max().filter(|keys| *keys > 0)? as f64;
        let all = self.keys.max(1) as f64;
        let each = (writes.iter().map(|guarantee| self.of(*guarantee).0).sum::<u64>() as f64 / all).max(1.0);
        // A key is violated if one of its writes is lost. If all keys are violated, half a key counts as not violated,
        // because the share would be 1 otherwise.
        let violated = (keys / all).min(1.0 - 0.5 / all);
        Some(1.0 - (1.0 - violated).powf(1.0 / each))
    }

    /// Returns true if reads were late.
    fn is_late(&self) -> bool {
        self.violates(&[Guarantee::ReadAfterPut, Guarantee::ReadAfterDelete])
    }
}

/// Reads a file with findings.
fn read(path: &Path) -> Result<FindingsFile, TwinError> {
    let shown = || path.display().to_string();
    let text =
        read_text(path, MAX_BYTES).map_err(|source| TwinError::Unreadable { path: shown(), source })?;
    let found: Option<FindingsFile> = serde_json::from_str(&text).ok();
    let is_possible = |found: &FindingsFile| found.lag.is_possible() && found.list_lag.is_possible();
    found.filter(is_possible).ok_or_else(|| TwinError::Findings(shown()))
}

/// Returns the violations in a file with findings.
///
/// # Errors
/// [`TwinError`] if the file cannot be read, has no findings, or has violations that a twin cannot imitate.
pub fn of_file(path: &Path) -> Result<Likeness, TwinError> {
    let found = read(path)?;
    let (mut faults, mut lines) = (Spec::default(), Vec::new());
    if found.is_late() && found.lag.late > 0 {
        faults.stale = found.lag.lag();
        lines.push(found.lag.describe("reads"));
    }
    if found.violates(&[Guarantee::ListAfterPut, Guarantee::ListAfterDelete]) && found.list_lag.late > 0 {
        faults.stale_list = found.list_lag.lag();
        lines.push(found.list_lag.describe("listings"));
    }
    if let Some(lost) = found.lost() {
        faults.lost_conditional = lost;
        lines
            .push(format!("{:.2}% of the conditional writes are acknowledged, but not stored", 100.0 * lost));
    }
    if lines.is_empty() && found.violations > 0 {
        let path = path.display().to_string();
        return Err(TwinError::Inimitable { path, keys: found.violations });
    }
    if lines.is_empty() {
        lines.push("no violation of consistency was found, so there is none".into());
    }
    Ok(Likeness { model: None, faults, store: format!("the consistency in {}", path.display()), lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(guarantees: &[(Guarantee, u64, u64)], late: u64) -> FindingsFile {
        let of = |(guarantee, checked, violations): &(Guarantee, u64, u64)| {
            (*guarantee, Counts { checked: *checked, violations: *violations })
        };
        let lag = || LagFile { writes: 100, late, p50_ms: 30.0, p99_ms: 40.0, max_ms: 41.0 };
        let guarantees = guarantees.iter().map(of).collect();
        FindingsFile { keys: 100, violations: 1, guarantees, lag: lag(), list_lag: lag() }
    }

    /// Regression: lost writes were taken for late reads, because both miss a write.
    #[test]
    fn lost_writes_and_late_reads_are_distinguished() {
        use Guarantee::{PutIfAbsent, PutIfUnchanged, ReadAfterConditionalPut, ReadAfterPut};
        let writes = [(PutIfAbsent, 500, 0), (PutIfUnchanged, 500, 0)];
        let lost = found(&[writes[0], writes[1], (ReadAfterConditionalPut, 900, 40)], 3);
        // Ten writes of each key: 1 - 0.6^(1/10).
        assert!(!lost.is_late() && (lost.lost().unwrap() - 0.0498).abs() < 1e-3, "{:?}", lost.lost());
        let late =
            found(&[writes[0], writes[1], (ReadAfterConditionalPut, 900, 40), (ReadAfterPut, 900, 50)], 90);
        assert!(late.is_late() && late.lost().is_none());
        let lag = late.lag.lag();
        assert!((lag.share, lag.median_ns, lag.most_ns) == (0.9, 3e7, 41_000_000));
    }

    #[test]
    fn impossible_times_are_refused() {
        let of = |writes, late, p50_ms, p99_ms, max_ms| LagFile { writes, late, p50_ms, p99_ms, max_ms };
        assert!(of(10, 1, 30.0, 30.2, 30.0).is_possible() && of(0, 0, 0.0, 0.0, 0.0).is_possible());
        for lag in [
            of(1, 2, 1.0, 2.0, 3.0),
            of(2, 1, 1.0, -5.0, 3.0),
            of(2, 1, 1e300, 1e301, 1e302),
            of(2, 1, 9.0, 9.0, 3.0),
        ] {
            assert!(!lag.is_possible(), "{lag:?}");
        }
    }
}
