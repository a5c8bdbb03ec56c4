//! Curves over time: the seconds of a run, reduced to the number of points that a screen can show.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use plimsoll_judge::summary::percentiles::samples_needed;
use plimsoll_judge::summary::series::{Block, LatencyKind, Second, Series};
use plimsoll_recorder::sparse::{Sparse, edges_us};
use plimsoll_recorder::sum::HistogramSum;
use plimsoll_workload::schedule::Role;

/// Maximum number of points of all curves of a kind together, so that a browser draws them without delay.
const ALL_POINTS: usize = 10_000;

/// Maximum number of points of a curve; more would exceed the pixels of a screen.
const MAX_POINTS: usize = 600;

/// Maximum number of cells of all heatmaps together.
const HEAT_CELLS: usize = 60_000;

/// Number of rows of a latency heatmap per factor of ten.
const ROWS_PER_DECADE: f64 = 8.0;

/// Interval of a phase on the time axis of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Band {
    /// Name of the phase, with the step of a ramp.
    pub name: String,
    /// Role of the phase.
    pub role: Role,
    /// Number of the store in the report.
    pub store: usize,
    /// First second, since the run's origin.
    pub from_s: u64,
    /// Second after the last one, since the run's origin.
    pub to_s: u64,
}

/// Curves of one kind of operation on one store over the time of a run. Points without a measurement are null.
#[derive(Debug, Clone, Default, Serialize)]
pub struct OperationCurves {
    /// Number of the subject in the report.
    pub subject: usize,
    /// Kind of operation.
    pub operation: String,
    /// Latency that the percentiles are of: `service` or `response`.
    pub clocked: &'static str,
    /// Length of the interval that a point represents, in seconds.
    pub bin_s: u64,
    /// Time of each point, in seconds since the run's origin.
    pub at_s: Vec<u64>,
    /// Successful operations per second.
    pub per_s: Vec<Option<f64>>,
    /// Object megabytes per second (decimal).
    pub mb_per_s: Vec<Option<f64>>,
    /// 50th percentile in milliseconds; null with too few operations, as for the other percentiles.
    pub p50: Vec<Option<f64>>,
    /// 90th percentile in milliseconds.
    pub p90: Vec<Option<f64>>,
    /// 99th percentile in milliseconds.
    pub p99: Vec<Option<f64>>,
    /// 99.9th percentile in milliseconds.
    pub p99_9: Vec<Option<f64>>,
    /// Failed operations of each point, by class.
    pub errors: BTreeMap<String, Vec<u64>>,
    /// Heatmap of the latencies.
    pub heat: Heatmap,
}

/// Heatmap of latencies over time.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Heatmap {
    /// Length of the interval that a column represents, in seconds.
    pub bin_s: u64,
    /// Time of each column, in seconds since the run's origin.
    pub at_s: Vec<u64>,
    /// Lower edges of the rows in milliseconds, followed by the upper edge of the last row.
    pub edges_ms: Vec<f64>,
    /// Non-empty cells: column, row, operations.
    pub cells: Vec<(u32, u32, u64)>,
}

/// Rounds to four significant digits, which is enough for a chart and keeps the page small.
fn short(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return 0.0;
    }
    let unit = 10f64.powi(3 - x.abs().log10().floor() as i32);
    (x * unit).round() / unit
}

/// Returns percentile `q` of merged counts in milliseconds; `None` if there are too few.
fn percentile(merged: &HistogramSum, total: u64, q: f64) -> Option<f64> {
    if total < samples_needed(q) {
        return None;
    }
    let rank = (q * total as f64).ceil() as u64;
    let mut seen = 0;
    let (bucket, _) = merged.buckets().find(|(_, n)| {
        seen += n;
        seen >= rank
    })?;
    Some(short(edges_us(bucket).1 as f64 / 1e3))
}

/// Sets `merged` to the sum of the latencies of these seconds.
fn merge(merged: &mut HistogramSum, seconds: &[&Second], clocked: LatencyKind) {
    merged.clear();
    seconds.iter().for_each(|second| merged.add_sparse(histogram(second, clocked)));
}

fn histogram(second: &Second, clocked: LatencyKind) -> &Sparse {
    if clocked == LatencyKind::Response { &second.response } else { &second.service }
}

/// Returns the bands of a run in order of time: consecutive seconds of one phase on one store.
pub fn bands(series: &[Series], subject: impl Fn(&Series) -> usize) -> Vec<Band> {
    let mut out: Vec<Band> = Vec::new();
    for s in series {
        let name = s.step.map_or_else(|| s.phase.clone(), |step| format!("{}_{}", s.phase, step + 1));
        let store = subject(s);
        let mut blocks: BTreeMap<Block, (u64, u64)> = BTreeMap::new();
        for second in &s.seconds {
            let edges = blocks.entry(second.block).or_insert((second.second, second.second + 1));
            *edges = (edges.0.min(second.second), edges.1.max(second.second + 1));
        }
        for (from_s, to_s) in blocks.into_values() {
            if !out.iter().any(|b| b.name == name && b.store == store && b.from_s == from_s) {
                out.push(Band { name: name.clone(), role: s.role, store, from_s, to_s });
            }
        }
    }
    out.sort_by_key(|b| b.from_s);
    out
}

/// Returns the curves of the series `parts`, which must be of one subject and operation. The limit on all
/// points is divided among `of` lines.
pub fn line(parts: &[&Series], subject: usize, of: usize) -> OperationCurves {
    let first = parts[0];
    let clocked = first.clocked();
    let mut seconds: Vec<&Second> = parts.iter().flat_map(|s| &s.seconds).collect();
    seconds.sort_by_key(|s| s.second);
    let span = seconds.last().map_or(1, |s| s.second + 1) - seconds.first().map_or(0, |s| s.second);
    let points = (ALL_POINTS / of.max(1)).clamp(100, MAX_POINTS);
    let bin_s = span.div_ceil(points as u64).max(1);
    let mut out = OperationCurves {
        subject,
        operation: first.operation.to_string(),
        clocked: clocked.name(),
        bin_s,
        heat: heat(&seconds, clocked, span, HEAT_CELLS / of.max(1)),
        ..OperationCurves::default()
    };
    let classes: BTreeSet<&String> = seconds.iter().flat_map(|s| s.errors.keys()).collect();
    let mut merged = HistogramSum::default();
    let moves = seconds.iter().any(|s| s.bytes > 0.0);
    for group in seconds.chunk_by(|a, b| a.second / bin_s == b.second / bin_s) {
        let at = group[0].second / bin_s * bin_s;
        // A null point makes a gap in time visible as a gap in the line.
        if out.at_s.last().is_some_and(|last| at > last + bin_s) {
            out.at_s.push(at - bin_s);
            [&mut out.per_s, &mut out.mb_per_s, &mut out.p50, &mut out.p90, &mut out.p99, &mut out.p99_9]
                .into_iter()
                .for_each(|curve| curve.push(None));
            out.errors.values_mut().for_each(|counts| counts.push(0));
        }
        out.at_s.push(at);
        let time: f64 = group.iter().map(|s| s.time_s).sum();
        let rate = |x: f64| (time > 0.0).then(|| short(x / time));
        out.per_s.push(rate(group.iter().map(|s| s.completed as f64).sum()));
        out.mb_per_s.push(rate(group.iter().map(|s| s.bytes).sum::<f64>() / 1e6).filter(|_| moves));
        merge(&mut merged, group, clocked);
        let total = merged.buckets().map(|(_, n)| n).sum();
        for (curve, q) in
            [(&mut out.p50, 0.5), (&mut out.p90, 0.9), (&mut out.p99, 0.99), (&mut out.p99_9, 0.999)]
        {
            curve.push(percentile(&merged, total, q));
        }
        for class in &classes {
            let n = group.iter().filter_map(|s| s.errors.get(*class)).sum();
            out.errors.entry((*class).clone()).or_default().push(n);
        }
    }
    out
}

/// Returns the heatmap row of a latency in microseconds; row 0 starts at 1 us.
fn row(us: f64) -> u32 {
    (us.max(1.0).log10() * ROWS_PER_DECADE).floor() as u32
}

fn heat(seconds: &[&Second], clocked: LatencyKind, span: u64, cells: usize) -> Heatmap {
    let ends = seconds.iter().filter_map(|s| histogram(s, clocked).ends());
    let Some((low, high)) = ends.reduce(|(a, b), (c, d)| (a.min(c), b.max(d))) else {
        return Heatmap::default();
    };
    let row_of = |bucket: usize| row(edges_us(bucket).1 as f64);
    let (lowest, highest) = (row_of(low.into()), row_of(high.into()));
    let mut merged = HistogramSum::default();
    let rows = u64::from(highest - lowest + 1);
    let columns = (cells as u64 / rows).clamp(40, 240);
    let bin_s = span.div_ceil(columns).max(1);
    let mut out = Heatmap { bin_s, ..Heatmap::default() };
    let edge = |row: u32| short(10f64.powf(f64::from(row) / ROWS_PER_DECADE) / 1e3);
    out.edges_ms = (lowest..=highest + 1).map(edge).collect();
    for group in seconds.chunk_by(|a, b| a.second / bin_s == b.second / bin_s) {
        let column = out.at_s.len() as u32;
        out.at_s.push(group[0].second / bin_s * bin_s);
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        merge(&mut merged, group, clocked);
        merged.buckets().for_each(|(bucket, n)| *counts.entry(row_of(bucket) - lowest).or_default() += n);
        out.cells.extend(counts.into_iter().map(|(row, n)| (column, row, n)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_recorder::sparse::bucket_of;

    fn series(seconds: std::ops::Range<u64>, us: u64) -> Series {
        let second = |second| Second {
            second,
            time_s: 1.0,
            completed: 100,
            operations: 100,
            service: [(bucket_of(us) as u16, 100)].into_iter().collect(),
            ..Second::default()
        };
        Series {
            operation: plimsoll_workload::OperationKind::Get,
            seconds: seconds.map(second).collect(),
            ..Series::default()
        }
    }

    #[test]
    fn an_hour_is_reduced_and_keeps_its_rate() {
        let long = series(10..3610, 2_000);
        let line = line(&[&long], 0, 1);
        assert!(line.at_s.len() <= 601 && line.bin_s == 6);
        assert!(line.per_s.iter().all(|r| *r == Some(100.0)));
        assert!(line.p50.iter().all(|p| p.is_some_and(|p| (p - 2.0).abs() < 0.01)));
        assert_eq!(
            line.heat.cells.iter().map(|c| c.2).sum::<u64>(),
            360_000,
            "every operation is in the heatmap"
        );
    }

    #[test]
    fn a_pause_between_phases_is_a_gap_in_the_line() {
        let (a, b) = (series(0..5, 1_000), series(20..25, 1_000));
        let line = line(&[&a, &b], 0, 1);
        assert_eq!(line.per_s.iter().filter(|r| r.is_none()).count(), 1);
        assert_eq!(line.at_s.len(), 11);
    }
}
