//! Times and failures by kind of operation, size and load, from the windows of runs.

use std::collections::BTreeMap;

use super::failures::{FailureCounts, failures};
use super::{course, kind_of};
use plimsoll_base::rng::normal_cdf;
use plimsoll_emulator::twin::curve::Curve;
use plimsoll_emulator::twin::model::{Point, RateLimit, SizePoint};
use plimsoll_judge::summary::latencies::of_histogram;
use plimsoll_judge::summary::result::Window;
use plimsoll_judge::summary::series::Series;
use plimsoll_recorder::histogram::Latencies;
use plimsoll_server::request_kind::RequestKind;
use plimsoll_workload::schedule::Role;

/// Ratio of two sizes up to which they are one size.
const SAME_SIZE: f64 = 1.25;
/// Ratio of two loads up to which they are one load.
const SAME_LOAD: f64 = 1.15;

/// Times and failures of one window, or of windows with the same size and load.
#[derive(Default)]
struct Raw<'a> {
    bytes: f64,
    in_flight: f64,
    service: Latencies,
    first: Latencies,
    failed: Latencies,
    counts: FailureCounts,
    /// Series of the interval log with these operations.
    series: Vec<&'a Series>,
}

impl<'a> Raw<'a> {
    /// Adds the operations of another window. The load becomes the mean of both.
    fn merge(&mut self, other: &Raw<'a>) {
        let [own, added] = [&self.counts, &other.counts].map(|counts| counts.operations.max(1) as f64);
        self.in_flight = (self.in_flight * own + other.in_flight * added) / (own + added);
        for series in &other.series {
            if self.series.iter().all(|known| !std::ptr::eq(*known, *series)) {
                self.series.push(series);
            }
        }
        self.service.merge(&other.service);
        self.first.merge(&other.first);
        self.failed.merge(&other.failed);
        self.counts.merge(&other.counts);
    }

    fn point(&self, limit: Option<&RateLimit>, has_connection_limit: bool) -> Point {
        Point {
            in_flight: self.in_flight,
            total: curve(&self.service),
            first: (self.first.len() == self.service.len()).then(|| curve(&self.first)),
            failed: (!self.failed.is_empty()).then(|| curve(&self.failed)),
            failures: failures(&self.counts, limit, has_connection_limit),
            course: course::of_series(&self.series),
        }
    }
}

fn curve(latencies: &Latencies) -> Curve {
    Curve::new(|score| latencies.quantile_ns(normal_cdf(score)).unwrap_or(0) as f64)
}

/// Returns the operations in flight of all windows that lasted at the same time as `window`.
fn in_flight(window: &Window, all: &[&Window]) -> f64 {
    let is_same = |other: &&&Window| {
        other.phase == window.phase
            && other.repeat == window.repeat
            && other.block == window.block
            && other.step == window.step
            && other.sweep == window.sweep
            && other.start_unix_s == window.start_unix_s
    };
    all.iter().filter(is_same).map(|other| other.in_flight_mean).sum()
}

/// Returns the times and failures of a window: of each class of sizes, or of the mean size.
fn raw<'a>(window: &Window, all: &[&Window], series: &[&'a Series]) -> Vec<Raw<'a>> {
    let of = |name: &str| of_histogram(window, name, None);
    let ended = (window.achieved_per_s * window.window_s).max(1.0);
    let is_same = |series: &&&Series| {
        series.phase == window.phase && series.step == window.step && series.operation == window.operation
    };
    let same: Vec<&Series> = series.iter().filter(is_same).copied().collect();
    let whole = || Raw {
        bytes: window.bytes as f64 / ended,
        in_flight: in_flight(window, all),
        service: of_histogram(window, "service", Some(&window.service_ms)),
        first: of("first_byte"),
        failed: of("failed"),
        counts: FailureCounts::of(window),
        series: same.clone(),
    };
    if window.size_classes.is_empty() {
        return vec![whole()];
    }
    let classes = window.size_classes.iter().filter(|class| class.service_ms.n > 0);
    let class = |class: &plimsoll_judge::summary::result::SizeClassFigures| {
        let (from, to) = (class.from_bytes.max(1) as f64, class.to_bytes.unwrap_or(class.from_bytes) as f64);
        Raw {
            bytes: (from * to.max(from)).sqrt(),
            service: of_histogram(window, &class.histogram(), Some(&class.service_ms)),
            first: Latencies::default(),
            ..whole()
        }
    };
    classes.map(class).collect()
}

/// Joins neighbours whose values differ at most by a ratio.
fn clusters<'a>(mut all: Vec<Raw<'a>>, ratio: f64, of: fn(&Raw<'_>) -> f64) -> Vec<Vec<Raw<'a>>> {
    all.sort_by(|a, b| of(a).total_cmp(&of(b)));
    let mut out: Vec<Vec<Raw<'a>>> = Vec::new();
    for one in all {
        match out.last_mut().filter(|last| of(&one) <= ratio * of(&last[0]).max(1e-9)) {
            Some(last) => last.push(one),
            None => out.push(vec![one]),
        }
    }
    out
}

fn sizes(all: Vec<Raw<'_>>, limit: Option<&RateLimit>, has_connection_limit: bool) -> Vec<SizePoint> {
    let size = |same: Vec<Raw<'_>>| {
        let bytes = same.iter().map(|raw| raw.bytes).sum::<f64>() / same.len() as f64;
        let load = |same: Vec<Raw<'_>>| {
            let mut raws = same.into_iter();
            let mut sum = raws.next().unwrap_or_default();
            raws.for_each(|raw| sum.merge(&raw));
            sum.point(limit, has_connection_limit)
        };
        let loads = clusters(same, SAME_LOAD, |raw| raw.in_flight).into_iter().map(load).collect();
        SizePoint { bytes: bytes.round() as u64, loads }
    };
    clusters(all, SAME_SIZE, |raw| raw.bytes.max(1.0)).into_iter().map(size).collect()
}

/// Returns the sizes and loads of each kind of operation in the measured windows. A kind that was not measured has the
/// sizes and loads of the preparation. A limit of connections explains the broken ones.
pub fn of_windows(
    all: &[&Window],
    series: &[&Series],
    limits: &[RateLimit],
    has_connection_limit: bool,
) -> BTreeMap<RequestKind, Vec<SizePoint>> {
    let mut kinds: BTreeMap<RequestKind, Vec<Raw<'_>>> = BTreeMap::new();
    for role in [Role::Measure, Role::Prepare] {
        let mut found: BTreeMap<RequestKind, Vec<Raw<'_>>> = BTreeMap::new();
        for window in all.iter().filter(|window| window.role == role && window.service_ms.n > 0) {
            if let Some(kind) = kind_of(window) {
                found.entry(kind).or_default().extend(raw(window, all, series));
            }
        }
        for (kind, raws) in found {
            kinds.entry(kind).or_insert(raws);
        }
    }
    let of = |(kind, raws)| {
        let limit = limits.iter().find(|limit| limit.kinds.contains(&kind));
        (kind, sizes(raws, limit, has_connection_limit))
    };
    kinds.into_iter().map(of).collect()
}
