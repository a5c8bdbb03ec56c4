//! Estimates of figures: the names of the metrics, their values and their confidence intervals.

use super::confidence::{IntervalEstimate, LongRun, Ratio, Share, long_run, quantile, rate, share};
use super::percentiles::{PERCENTILES, samples_needed};
use super::result::ConfidenceInterval;
use super::series::{Latency, LatencyKind, Of, Series};
use super::unit::Unit;
use plimsoll_workload::schedule::Role;

/// A metric that can be estimated, compared and bounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Metric {
    /// Percentile of a latency in nanoseconds, given as a quantile (0 to 1).
    Percentile(LatencyKind, f64),
    /// Successful operations per second.
    Rate,
    /// Object bytes delivered per second.
    Throughput,
    /// Share of operations that failed or were censored.
    Errors,
}

impl Metric {
    /// Returns true if smaller values are better.
    pub fn less_is_better(self) -> bool {
        matches!(self, Metric::Percentile(..) | Metric::Errors)
    }

    /// Returns the name used in files and on the command line: `p99`, `service.p99`, `rate`. The latency
    /// `counts` is the default and is omitted from the name.
    pub fn name(self, counts: LatencyKind) -> String {
        match self {
            Metric::Percentile(clocked, q) if clocked == counts => percentile_name(q),
            Metric::Percentile(clocked, q) => format!("{}.{}", clocked.name(), percentile_name(q)),
            Metric::Rate => "rate".into(),
            Metric::Throughput => "throughput".into(),
            Metric::Errors => "errors".into(),
        }
    }

    /// Returns the metric with that name; `None` if it is unknown or the percentile is not between 0 and 100.
    pub fn from_name(name: &str, counts: LatencyKind) -> Option<Metric> {
        let (clocked, name) =
            match name.split_once('.').and_then(|(c, rest)| Some((LatencyKind::from_name(c)?, rest))) {
                Some((clocked, rest)) => (clocked, rest),
                None => (counts, name),
            };
        match name {
            "rate" => Some(Metric::Rate),
            "throughput" => Some(Metric::Throughput),
            "errors" => Some(Metric::Errors),
            _ => {
                let percent: f64 = name.strip_prefix('p')?.parse().ok()?;
                (percent > 0.0 && percent < 100.0).then_some(Metric::Percentile(clocked, percent / 100.0))
            }
        }
    }
}

/// Returns the name of percentile `q` (0 to 1): `p50`, `p99.9`.
fn percentile_name(q: f64) -> String {
    let known = PERCENTILES.iter().find(|(_, shown)| *shown == q).map(|(name, _)| (*name).to_string());
    // Rounded to four decimals of a percent.
    known.unwrap_or_else(|| format!("p{}", (q * 1e6).round() / 1e4))
}

impl Metric {
    /// Returns the unit used in files, and the factor that converts an estimate to it.
    pub fn unit(self) -> (Unit, f64) {
        match self {
            Metric::Percentile(..) => (Unit::Milliseconds, 1e-6),
            Metric::Rate => (Unit::PerSecond, 1.0),
            Metric::Throughput => (Unit::BytesPerSecond, 1.0),
            Metric::Errors => (Unit::Share, 1.0),
        }
    }
}

/// Value of a metric with its confidence interval. Latencies are in nanoseconds, throughput in bytes per
/// second, errors a share (0 to 1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Metric that is estimated.
    pub metric: Metric,
    /// Measured value; `None` if there are too few operations or censored operations make it uncertain.
    pub value: Option<f64>,
    /// Confidence interval of the value.
    pub confidence: IntervalEstimate,
}

/// Estimator of the metrics of one series. It caches the latencies, which several metrics share.
#[derive(Debug)]
pub struct Estimator<'a> {
    /// Series to estimate.
    pub series: &'a Series,
    answered: Vec<(LatencyKind, Latency<'a>, LongRun)>,
}

/// Returns the long-run variance of a latency's median.
fn long_run_of_median(latency: &Latency<'_>) -> LongRun {
    let Some(bucket) = latency.bucket(0.5) else { return long_run(&[]) };
    let (below, all) = latency.counts(bucket);
    long_run(&Ratio { above: &below, below: &all }.residuals())
}

/// Number of events that a run without any excludes at the 95% level (the rule of three).
const RARE_EVENTS: f64 = 3.0;

/// Duration of the stalls in an open loop that an interval must not miss, in seconds.
const STALL_S: f64 = 1.0;

/// Returns the time whose operations a stall makes slow, in seconds. In an open loop, that is every operation of the
/// stall. In a closed loop, only the operations in flight: as many as start in one median service time.
fn stall_s(open: bool, latency: &Latency<'_>) -> f64 {
    if open { STALL_S } else { (latency.quantile_ns(0.5).unwrap_or(0.0) / 1e9).min(STALL_S) }
}

/// Returns the length of a run, in seconds, that percentile `q` (0 to 1) needs so that stalls of `stall_s` are not
/// missed; `None` if a run of `time_s` is long enough.
///
/// A run without any stall shows, at the 95% level, only that there are fewer than three in its length (J. Hanley and
/// A. Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA 249, 1983). If these could hold more than
/// `1 - q` of the operations, the percentile is not known.
fn stalls_unseen(stall_s: f64, q: f64, time_s: f64) -> Option<f64> {
    let needed_s = RARE_EVENTS * stall_s / (1.0 - q);
    (time_s < needed_s).then(|| needed_s.ceil())
}

impl<'a> Estimator<'a> {
    /// Creates an estimator of one series.
    pub fn new(series: &'a Series) -> Estimator<'a> {
        Estimator { series, answered: Vec::new() }
    }

    /// Returns one latency of the answered operations, and the long-run variance of its median.
    pub fn latency(&mut self, which: LatencyKind) -> (&Latency<'a>, LongRun) {
        let at = self.answered.iter().position(|(c, _, _)| *c == which).unwrap_or_else(|| {
            let latency = self.series.latency(which, Of::Answered);
            let of_median = long_run_of_median(&latency);
            self.answered.push((which, latency, of_median));
            self.answered.len() - 1
        });
        let (_, latency, of_median) = &self.answered[at];
        (latency, *of_median)
    }

    /// Estimates one metric.
    pub fn estimate(&mut self, metric: Metric) -> Estimate {
        let series = self.series;
        let has_failed = self.has_failed();
        match metric {
            Metric::Percentile(clocked, q) => {
                let (latency, of_median) = self.latency(clocked);
                let enough = latency.len() >= samples_needed(q);
                let time: f64 = series.time_s().iter().sum();
                let stall_s = stall_s(series.open, latency);
                let confidence = if has_failed && latency.highest().is_none() {
                    IntervalEstimate::NoneSucceeded
                } else if let Some(seconds) = stalls_unseen(stall_s, q, time).filter(|_| enough) {
                    IntervalEstimate::TooShort { seconds }
                } else if enough {
                    // The upper end allows for one stall that the run has missed.
                    quantile(latency, q, of_median.structured, stall_s / time)
                } else {
                    let seconds = time * samples_needed(q) as f64 / latency.len().max(1) as f64;
                    IntervalEstimate::TooShort { seconds: seconds.max(16.0).ceil() }
                };
                Estimate { metric, value: latency.quantile_ns(q).filter(|_| enough), confidence }
            }
            Metric::Rate => self.of_rate(metric, |s| s.completed as f64),
            Metric::Throughput => self.of_rate(metric, |s| s.bytes),
            Metric::Errors => {
                let Share { value, confidence, .. } = self.errors();
                Estimate { metric, value: Some(value).filter(|v| v.is_finite()), confidence }
            }
        }
    }

    /// Returns the length of a run, in seconds, that a percentile needs so that stalls are not missed; `None` for other
    /// metrics, and if the run is long enough.
    pub fn stalls_unseen(&mut self, metric: Metric) -> Option<f64> {
        let Metric::Percentile(clocked, q) = metric else { return None };
        let (open, time_s) = (self.series.open, self.series.time_s().iter().sum());
        let (latency, _) = self.latency(clocked);
        stalls_unseen(stall_s(open, latency), q, time_s)
    }

    fn of_rate(&self, metric: Metric, count: impl Fn(&super::series::Second) -> f64) -> Estimate {
        let (counted, time_s) = (self.series.counts(count), self.series.time_s());
        let time: f64 = time_s.iter().sum();
        let sum = counted.iter().sum::<f64>();
        let confidence = match sum == 0.0 && self.has_failed() {
            true => IntervalEstimate::NoneSucceeded,
            false => rate(&counted, &time_s),
        };
        Estimate { metric, value: (time > 0.0).then(|| sum / time), confidence }
    }

    /// Returns true if operations failed or were given up.
    fn has_failed(&self) -> bool {
        self.series.seconds.iter().any(|second| second.failed + second.censored > 0)
    }

    /// Returns the share of operations that succeeded within `limit_us` microseconds. Failed and censored
    /// operations are misses.
    pub fn within(&mut self, which: LatencyKind, limit_us: u64) -> Share {
        let all = self.series.latency(which, Of::All);
        share(&all, Some(limit_us), long_run_of_median(&all).inflation.max(1.0))
    }

    /// Returns the share of operations that failed or were censored. Latencies do not contribute.
    pub fn errors(&self) -> Share {
        share(&self.series.latency(self.series.clocked(), Of::All), None, 0.0)
    }
}

/// Returns the metrics that are reported for a series by default.
pub fn metrics(series: &Series) -> Vec<Metric> {
    let counts = series.clocked();
    let mut out: Vec<Metric> = PERCENTILES.iter().map(|(_, q)| Metric::Percentile(counts, *q)).collect();
    if series.open {
        out.extend([0.5, 0.99].map(|q| Metric::Percentile(LatencyKind::Service, q)));
    }
    out.push(Metric::Rate);
    if series.seconds.iter().any(|s| s.bytes > 0.0) {
        out.push(Metric::Throughput);
    }
    out.push(Metric::Errors);
    out
}

/// Returns the figures of all measured phases, for `result.json`.
pub fn confidence_intervals(series: &[Series]) -> Vec<ConfidenceInterval> {
    let of_series = |series: &Series| {
        let mut estimator = Estimator::new(series);
        let estimates: Vec<Estimate> = metrics(series).into_iter().map(|m| estimator.estimate(m)).collect();
        estimates.into_iter().map(|estimate| entry(series, &estimate)).collect::<Vec<_>>()
    };
    series.iter().filter(|s| s.role == Role::Measure).flat_map(of_series).collect()
}

fn entry(series: &Series, estimate: &Estimate) -> ConfidenceInterval {
    let (unit, scale) = estimate.metric.unit();
    // Nine digits keep the resolution of the histogram and avoid rounding noise of doubles.
    let round = |x: f64| format!("{:.8e}", x * scale).parse().unwrap_or(x * scale);
    let ends = estimate.confidence.ends().filter(|_| estimate.value.is_some());
    let measured_s: f64 = series.time_s().iter().sum();
    ConfidenceInterval {
        store: series.store.clone(),
        phase: series.phase.clone(),
        step: series.step,
        operation: series.operation,
        metric: estimate.metric.name(series.clocked()),
        unit: unit.name().to_string(),
        value: estimate.value.map(round),
        low: ends.map(|(low, _)| round(low)),
        high: ends.map(|(_, high)| round(high)),
        duration_needed_s: estimate.confidence.duration_needed_s(),
        measured_s,
        rare_event_s: measured_s / RARE_EVENTS,
        slow_structure: matches!(estimate.confidence, IntervalEstimate::SlowStructure { .. }),
        client_limited: series.client_limited.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_metrics_round_trip() {
        for name in
            ["p50", "p99", "p99.9", "p97.5", "service.p99", "first_byte.p50", "rate", "throughput", "errors"]
        {
            let metric = Metric::from_name(name, LatencyKind::Response).unwrap();
            assert_eq!(metric.name(LatencyKind::Response), name);
        }
        assert_eq!(
            Metric::from_name("response.p99", LatencyKind::Response).unwrap().name(LatencyKind::Response),
            "p99"
        );
        for name in ["p100", "p0", "p", "px", "mean", "service", "", "p-1"] {
            assert_eq!(Metric::from_name(name, LatencyKind::Service), None, "{name}");
        }
    }
}
