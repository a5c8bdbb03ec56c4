//! Compares measured percentiles with true ones, with and without the operations that overlap a pause.

use super::ScenarioRow;
use super::true_values::quantile_ms;
use plimsoll_judge::summary::percentiles::{PERCENTILES, samples_needed};
use plimsoll_judge::summary::result::Percentiles;

/// Smallest allowed error of p50 and p99, in milliseconds.
const ALLOWED_MS: f64 = 0.1;
/// Smallest allowed error of p99.9, in milliseconds.
const ALLOWED_TAIL_MS: f64 = 0.3;

/// One latency of a scenario.
pub struct Measurement<'a> {
    /// Name of the scenario.
    pub scenario: &'a str,
    /// Name of the latency, such as `service`.
    pub latency: &'a str,
    /// Percentiles that Plimsoll reports.
    pub reported: &'a Percentiles,
    /// True values of all operations, in nanoseconds.
    pub true_ns: Vec<u64>,
    /// True and measured values of the single operations that overlap no pause, in nanoseconds.
    pub without_pauses_ns: Vec<(u64, u64)>,
    /// Allowed error as a share of the true value (0 to 1).
    pub allowed_share: f64,
}

impl Measurement<'_> {
    /// Returns one row each for p50, p99 and p99.9; percentiles with too few operations are left out.
    pub fn rows(mut self) -> Vec<ScenarioRow> {
        let shown = PERCENTILES.iter().filter(|(name, _)| matches!(*name, "p50" | "p99" | "p99.9"));
        shown.filter_map(|(name, q)| self.row(name, *q)).collect()
    }

    fn row(&mut self, percentile: &str, q: f64) -> Option<ScenarioRow> {
        let floor_ms = if percentile == "p99.9" { ALLOWED_TAIL_MS } else { ALLOWED_MS };
        let allowed = |true_ms: f64| f64::max(self.allowed_share * true_ms, floor_ms);
        let enough = |n: usize| n as u64 >= samples_needed(q);
        let true_ms = quantile_ms(&mut self.true_ns, q).filter(|_| enough(self.true_ns.len()))?;
        let known = self.reported.get(percentile);
        let lower = self.reported.lower_bounds.get(percentile).copied();
        let measured_ms = known.or(lower).unwrap_or(f64::NAN);
        // A bound is correct if the true value is not below it.
        let error_ms =
            if known.is_none() { f64::max(measured_ms - true_ms, 0.0) } else { measured_ms - true_ms };
        let quantile = |of: fn(&(u64, u64)) -> u64| {
            quantile_ms(&mut self.without_pauses_ns.iter().map(of).collect::<Vec<u64>>(), q)
        };
        let without = (known.is_some() && enough(self.without_pauses_ns.len()))
            .then(|| Some((quantile(|pair| pair.0)?, quantile(|pair| pair.1)?)))
            .flatten();
        Some(ScenarioRow {
            name: self.scenario.into(),
            metric: format!("{} {percentile}", self.latency),
            true_ms,
            measured_ms,
            error_ms,
            allowed_ms: allowed(true_ms),
            bound: known.is_none(),
            error_without_pauses_ms: without.map(|(actual, measured)| measured - actual),
            within: error_ms.abs() <= allowed(true_ms),
            within_without_pauses: without
                .is_some_and(|(actual, measured)| (measured - actual).abs() <= allowed(actual)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_only_pauses_cause_is_within_the_limits_without_them() {
        // A pause delays the measurement of 30 of 2,000 operations by 50 ms.
        let pairs: Vec<(u64, u64)> = (0..2_000).map(|i| (5_000_000 + i, 5_000_000 + i)).collect();
        let reported = Percentiles { p50: Some(5.001), p99: Some(55.0), ..Percentiles::default() };
        let rows = Measurement {
            scenario: "s",
            latency: "service",
            reported: &reported,
            true_ns: pairs.iter().map(|p| p.0).collect(),
            without_pauses_ns: pairs[30..].to_vec(),
            allowed_share: 0.01,
        }
        .rows();
        let judged: Vec<_> =
            rows.iter().map(|r| (r.metric.as_str(), r.within, r.within_without_pauses)).collect();
        assert_eq!(judged, [("service p50", true, true), ("service p99", false, true)]);
        assert_eq!(rows[1].error_without_pauses_ms, Some(0.0));
    }
}
