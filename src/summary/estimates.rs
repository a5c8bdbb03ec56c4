//! The figures that are judged: what each is called, what it comes to, and between what it lies.

use super::confidence::{Confidence, Ratio, Share, memory, quantile, rate, share};
use super::latency::{SHOWN, needed};
use super::result::Judged;
use super::series::{Clocked, Latency, Of, Series};

/// What a figure is of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Metric {
    /// A percentile (0 to 1) of a latency, in nanoseconds.
    Percentile(Clocked, f64),
    /// Operations answered well, per second.
    Rate,
    /// Object bytes delivered, per second.
    Throughput,
    /// Share of operations that failed or were not answered in time.
    Errors,
}

impl Metric {
    /// Whether less of it is better.
    pub fn less_is_better(self) -> bool {
        matches!(self, Metric::Percentile(..) | Metric::Errors)
    }

    /// Name in files and on the command line: `p99`, `service.p99`, `rate`. The latency that counts in `series` goes without its name.
    pub fn name(self, counts: Clocked) -> String {
        match self {
            Metric::Percentile(clocked, q) if clocked == counts => percentile_name(q),
            Metric::Percentile(clocked, q) => format!("{}.{}", clocked.name(), percentile_name(q)),
            Metric::Rate => "rate".into(),
            Metric::Throughput => "throughput".into(),
            Metric::Errors => "errors".into(),
        }
    }

    /// The metric of that name. `None` for `p100` and beyond, and for what there is not.
    pub fn from_name(name: &str, counts: Clocked) -> Option<Metric> {
        let (clocked, name) =
            match name.split_once('.').and_then(|(c, rest)| Some((Clocked::from_name(c)?, rest))) {
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

/// `p50`, `p99.9`.
fn percentile_name(q: f64) -> String {
    let known = SHOWN.iter().find(|(_, shown)| *shown == q).map(|(name, _)| (*name).to_string());
    // Percent with what rounding leaves of it.
    known.unwrap_or_else(|| format!("p{}", (q * 1e6).round() / 1e4))
}

impl Metric {
    /// The unit in files, and what a value is multiplied by to have it.
    pub fn unit(self) -> (&'static str, f64) {
        match self {
            Metric::Percentile(..) => ("ms", 1e-6),
            Metric::Rate => ("per_s", 1.0),
            Metric::Throughput => ("bytes_per_s", 1.0),
            Metric::Errors => ("share", 1.0),
        }
    }
}

/// A figure and what is known of its truth. Latencies in nanoseconds, throughput in bytes per second, errors as a share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// What it is.
    pub metric: Metric,
    /// What it comes to; `None` where too few operations carry it or it lies among censored ones.
    pub value: Option<f64>,
    /// Between what it lies.
    pub confidence: Confidence,
}

/// A series made ready to be estimated, so that several metrics share the work.
#[derive(Debug)]
pub struct Estimator<'a> {
    /// The series.
    pub series: &'a Series,
    answered: Vec<(Clocked, Latency<'a>, f64)>,
}

/// How long the median of a latency remembers, in seconds.
fn median_memory(latency: &Latency<'_>) -> f64 {
    let Some(bucket) = latency.bucket(0.5) else { return 1.0 };
    let (below, all) = latency.counts(bucket);
    memory(&Ratio { above: &below, below: &all }.residuals())
}

impl<'a> Estimator<'a> {
    /// An estimator of one series.
    pub fn new(series: &'a Series) -> Estimator<'a> {
        Estimator { series, answered: Vec::new() }
    }

    /// One latency of the answered operations, and how long its median remembers.
    pub fn latency(&mut self, which: Clocked) -> (&Latency<'a>, f64) {
        let at = self.answered.iter().position(|(c, _, _)| *c == which).unwrap_or_else(|| {
            let latency = self.series.latency(which, Of::Answered);
            let memory = median_memory(&latency);
            self.answered.push((which, latency, memory));
            self.answered.len() - 1
        });
        let (_, latency, memory) = &self.answered[at];
        (latency, *memory)
    }

    /// Estimates one metric.
    pub fn estimate(&mut self, metric: Metric) -> Estimate {
        let series = self.series;
        match metric {
            Metric::Percentile(clocked, q) => {
                let (latency, memory) = self.latency(clocked);
                let enough = latency.len() >= needed(q);
                let confidence = if enough {
                    quantile(latency, q, memory)
                } else {
                    let time: f64 = series.time_s().iter().sum();
                    let seconds = time * needed(q) as f64 / latency.len().max(1) as f64;
                    Confidence::Needs { seconds: seconds.max(16.0).ceil() }
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

    fn of_rate(&self, metric: Metric, count: impl Fn(&super::series::Second) -> f64) -> Estimate {
        let (counted, time_s) = (self.series.counts(count), self.series.time_s());
        let time: f64 = time_s.iter().sum();
        let value = (time > 0.0).then(|| counted.iter().sum::<f64>() / time);
        Estimate { metric, value, confidence: rate(&counted, &time_s) }
    }

    /// Returns the share of operations answered well within a limit; failed and censored ones are misses.
    pub fn within(&mut self, which: Clocked, limit_us: u64) -> Share {
        let all = self.series.latency(which, Of::All);
        share(&all, Some(limit_us), median_memory(&all))
    }

    /// Returns the share of operations that failed or were not answered in time. Latencies have no part in it, so their memory has none.
    pub fn errors(&self) -> Share {
        share(&self.series.latency(self.series.clocked(), Of::All), None, 1.0)
    }
}

/// The metrics that are told of a series without being asked.
pub fn metrics(series: &Series) -> Vec<Metric> {
    let counts = series.clocked();
    let mut out: Vec<Metric> = SHOWN.iter().map(|(_, q)| Metric::Percentile(counts, *q)).collect();
    if series.open {
        out.extend([0.5, 0.99].map(|q| Metric::Percentile(Clocked::Service, q)));
    }
    out.push(Metric::Rate);
    if series.seconds.iter().any(|s| s.bytes > 0.0) {
        out.push(Metric::Throughput);
    }
    out.push(Metric::Errors);
    out
}

/// Every figure of the measured phases, for `result.json`.
pub fn judged(series: &[Series]) -> Vec<Judged> {
    let of_series = |series: &Series| {
        let mut estimator = Estimator::new(series);
        let estimates: Vec<Estimate> = metrics(series).into_iter().map(|m| estimator.estimate(m)).collect();
        estimates.into_iter().map(|estimate| written(series, &estimate)).collect::<Vec<_>>()
    };
    series.iter().filter(|s| s.role == "measure").flat_map(of_series).collect()
}

fn written(series: &Series, estimate: &Estimate) -> Judged {
    let (unit, scale) = estimate.metric.unit();
    // What a histogram resolves and a double prints: nine digits.
    let round = |x: f64| format!("{:.8e}", x * scale).parse().unwrap_or(x * scale);
    let ends = estimate.confidence.ends().filter(|_| estimate.value.is_some());
    Judged {
        store: series.store.clone(),
        phase: series.phase.clone(),
        step: series.step,
        operation: series.operation.clone(),
        metric: estimate.metric.name(series.clocked()),
        unit: unit.into(),
        value: estimate.value.map(round),
        low: ends.map(|(low, _)| round(low)),
        high: ends.map(|(_, high)| round(high)),
        needs_s: estimate.confidence.needs_s(),
        client_limited: series.client_limited.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_the_names_that_people_write() {
        for name in
            ["p50", "p99", "p99.9", "p97.5", "service.p99", "first_byte.p50", "rate", "throughput", "errors"]
        {
            let metric = Metric::from_name(name, Clocked::Response).unwrap();
            assert_eq!(metric.name(Clocked::Response), name);
        }
        assert_eq!(
            Metric::from_name("response.p99", Clocked::Response).unwrap().name(Clocked::Response),
            "p99"
        );
        for name in ["p100", "p0", "p", "px", "mean", "service", "", "p-1"] {
            assert_eq!(Metric::from_name(name, Clocked::Service), None, "{name}");
        }
    }
}
