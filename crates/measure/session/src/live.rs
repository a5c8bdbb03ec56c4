//! Live figures of a run for Prometheus and for collectors: the recorder's sums, updated every second, under names that
//! include their units.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::exemplar::Exemplar;

use plimsoll_base::clock::wall_now;
use plimsoll_base::metrics::LATENCY_EDGES_S;
use plimsoll_base::metrics::push::{Collector, Pusher};
use plimsoll_base::metrics::sample::{Histogram, Labels, Sample, Series};
use plimsoll_judge::run_dir::intervals::IntervalKey;
use plimsoll_judge::summary::result::CostFigures;
use plimsoll_recorder::collector::SecondRow;
use plimsoll_recorder::histogram::Latencies;
use plimsoll_recorder::latency::Latency;

/// Key of the sums: store, phase, role and operation.
type Key = (String, String, String, String);

/// Name, help text, and the function that computes the value from the sums.
type MetricRow<T> = (&'static str, &'static str, fn(&Sums) -> T);

/// Counts so far of one store, phase and operation.
#[derive(Debug, Default)]
struct Sums {
    completed: u64,
    bytes: f64,
    censored: u64,
    errors: BTreeMap<String, u64>,
    service: Histogram,
    response: Histogram,
}

/// Adds latencies to a histogram.
fn add(histogram: &mut Histogram, latencies: &Latencies) {
    let Some(recorded) = latencies.histogram() else { return };
    histogram.counts.resize(LATENCY_EDGES_S.len() + 1, 0);
    for value in recorded.iter_recorded() {
        let s = value.value_iterated_to() as f64 / 1e6;
        histogram.counts[LATENCY_EDGES_S.partition_point(|edge| *edge < s)] += value.count_at_value();
    }
    histogram.sum_s += latencies.mean_ns().unwrap_or(0.0) * latencies.len() as f64 / 1e9;
}

/// Cost so far of each store in US dollars, with labels for the store and the price list.
type Costs = Vec<(Labels, f64)>;

/// Live figures, shared with the metrics endpoint.
#[derive(Debug, Clone, Default)]
pub struct Live {
    figures: Figures,
    /// Connections to collectors, which end with the last clone.
    pushers: Arc<Mutex<Vec<Pusher>>>,
}

/// Figures, shared with the threads that send them.
#[derive(Debug, Clone, Default)]
struct Figures {
    sums: Arc<Mutex<BTreeMap<Key, Sums>>>,
    costs: Arc<Mutex<Costs>>,
}

impl Figures {
    fn sums(&self) -> MutexGuard<'_, BTreeMap<Key, Sums>> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn costs(&self) -> MutexGuard<'_, Costs> {
        self.costs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the figures of a run that began at `start_unix_ns`.
    fn sample(&self, start_unix_ns: u64) -> Sample {
        let series = |(key, sums): (&Key, &Sums)| Series {
            labels: labels(key),
            operations: sums.completed,
            object_bytes: sums.bytes,
            unanswered: sums.censored,
            failed: sums.errors.iter().map(|(class, n)| (class.clone(), *n)).collect(),
            service: sums.service.clone(),
            response: sums.response.clone(),
        };
        let series = self.sums().iter().map(series).collect();
        Sample { start_unix_ns, at_unix_ns: unix_ns(), series, cost_usd: self.costs().clone() }
    }
}

fn unix_ns() -> u64 {
    u64::try_from(wall_now().as_nanosecond()).unwrap_or(0)
}

impl Live {
    /// Sends the figures to a collector every ten seconds and at the end of the run. `report` receives errors.
    ///
    /// # Errors
    /// If the thread that sends them cannot be started.
    pub fn push_to(
        &self,
        collector: Collector,
        report: impl Fn(&str) + Send + 'static,
    ) -> std::io::Result<()> {
        let (figures, start) = (self.figures.clone(), unix_ns());
        let pusher = Pusher::start(collector, move || figures.sample(start), report)?;
        self.pushers.lock().unwrap_or_else(PoisonError::into_inner).push(pusher);
        Ok(())
    }

    /// Updates the cost of the run so far.
    pub fn cost(&self, figures: &[CostFigures]) {
        let cost = |f: &CostFigures| {
            let labels = vec![
                ("store", f.store.clone()),
                ("provider", f.bill.provider.clone()),
                ("emulated", f.emulated.to_string()),
            ];
            (labels, f.bill.total_usd.pico() as f64 / 1e12)
        };
        *self.figures.costs() = figures.iter().map(cost).collect();
    }

    /// Adds the counts of one second.
    pub fn second(&self, place: IntervalKey<'_>, row: &SecondRow<'_>) {
        let key = (
            place.store.to_string(),
            place.phase.to_string(),
            place.role.name().to_string(),
            row.kind.name().to_string(),
        );
        let (mut all, tally) = (self.figures.sums(), row.tally);
        let sums = all.entry(key).or_default();
        sums.completed += tally.completed;
        sums.bytes += tally.bytes;
        sums.censored += tally.censored;
        tally.errors.iter().for_each(|(class, n)| *sums.errors.entry(class.clone()).or_default() += n);
        add(&mut sums.service, &tally.latencies[Latency::Service]);
        add(&mut sums.response, &tally.latencies[Latency::Response]);
    }
}

fn labels((store, phase, role, operation): &Key) -> Labels {
    vec![
        ("store", store.clone()),
        ("phase", phase.clone()),
        ("role", role.clone()),
        ("operation", operation.clone()),
    ]
}

impl prometheus_client::collector::Collector for Live {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let all = self.figures.sums();
        let counters: [MetricRow<f64>; 3] = [
            ("plimsoll_operations", "Successful operations", |s| s.completed as f64),
            ("plimsoll_object_bytes", "Object bytes delivered", |s| s.bytes),
            ("plimsoll_unanswered_operations", "Operations that were not answered in time", |s| {
                s.censored as f64
            }),
        ];
        for (name, help, value) in counters {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (key, sums) in all.iter() {
                let counter = ConstCounter::new(value(sums));
                counter.encode(metric.encode_family(&labels(key))?)?;
            }
        }
        let help = "Cost of the run so far in US dollars, at list prices";
        let mut metric = encoder.encode_descriptor("plimsoll_cost_usd", help, None, MetricType::Counter)?;
        for (labels, dollars) in self.figures.costs().iter() {
            ConstCounter::new(*dollars).encode(metric.encode_family(labels)?)?;
        }
        let help = "Operations that failed, by class";
        let mut metric =
            encoder.encode_descriptor("plimsoll_failed_operations", help, None, MetricType::Counter)?;
        for (key, sums) in all.iter() {
            for (class, n) in &sums.errors {
                let mut labels = labels(key);
                labels.push(("class", class.clone()));
                ConstCounter::new(*n).encode(metric.encode_family(&labels)?)?;
            }
        }
        histogram(
            &mut encoder,
            "plimsoll_service_seconds",
            "Service time of successful operations, from start to end",
            &all,
            |s| &s.service,
        )?;
        let help = "Response time of successful operations, from intended time to end; open loops only";
        histogram(&mut encoder, "plimsoll_response_seconds", help, &all, |s| &s.response)
    }
}

fn histogram(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    all: &BTreeMap<Key, Sums>,
    buckets: fn(&Sums) -> &Histogram,
) -> Result<(), std::fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (key, sums) in all.iter().filter(|(_, sums)| buckets(sums).count() > 0) {
        let found = buckets(sums);
        let edges = LATENCY_EDGES_S.into_iter().chain([f64::MAX]);
        let pairs: Vec<(f64, u64)> = edges.zip(found.counts.iter().copied()).collect();
        let none: Option<&std::collections::HashMap<usize, Exemplar<Labels, f64>>> = None;
        metric.encode_family(&labels(key))?.encode_histogram(found.sum_s, found.count(), &pairs, none)?;
    }
    Ok(())
}
