//! Live figures of a run for Prometheus: the recorder's sums, updated every second, under names that include
//! their units.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::exemplar::Exemplar;

use crate::metrics::LATENCY_EDGES_S;
use crate::recorder::collector::SecondRow;
use crate::recorder::histogram::Latencies;
use crate::run_dir::intervals::Place;
use crate::summary::result::CostFigures;

type Labels = Vec<(&'static str, String)>;

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
    service: Buckets,
    response: Buckets,
}

/// A classic histogram with one count per bucket, not cumulative.
#[derive(Debug, Default)]
struct Buckets {
    counts: [u64; LATENCY_EDGES_S.len() + 1],
    sum_s: f64,
}

impl Buckets {
    fn add(&mut self, latencies: &Latencies) {
        let Some(histogram) = latencies.histogram() else { return };
        for value in histogram.iter_recorded() {
            let s = value.value_iterated_to() as f64 / 1e6;
            self.counts[LATENCY_EDGES_S.partition_point(|edge| *edge < s)] += value.count_at_value();
        }
        self.sum_s += latencies.mean_ns().unwrap_or(0.0) * latencies.len() as f64 / 1e9;
    }

    fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Cost so far of each store in US dollars, with labels for the store and the price list.
type Costs = Vec<(Labels, f64)>;

/// Live figures, shared with the metrics endpoint.
#[derive(Debug, Clone, Default)]
pub struct Live(Arc<Mutex<BTreeMap<Key, Sums>>>, Arc<Mutex<Costs>>);

impl Live {
    fn sums(&self) -> MutexGuard<'_, BTreeMap<Key, Sums>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        *self.1.lock().unwrap_or_else(PoisonError::into_inner) = figures.iter().map(cost).collect();
    }

    /// Adds the counts of one second.
    pub fn second(&self, place: Place<'_>, row: &SecondRow<'_>) {
        let key = (
            place.store.to_string(),
            place.phase.to_string(),
            place.role.name().to_string(),
            row.kind.name().to_string(),
        );
        let (mut all, tally) = (self.sums(), row.tally);
        let sums = all.entry(key).or_default();
        sums.completed += tally.completed;
        sums.bytes += tally.bytes;
        sums.censored += tally.censored;
        tally.errors.iter().for_each(|(class, n)| *sums.errors.entry(class.clone()).or_default() += n);
        sums.service.add(&tally.service);
        sums.response.add(&tally.response);
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

impl Collector for Live {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let all = self.sums();
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
        for (labels, dollars) in self.1.lock().unwrap_or_else(PoisonError::into_inner).iter() {
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
    buckets: fn(&Sums) -> &Buckets,
) -> Result<(), std::fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (key, sums) in all.iter().filter(|(_, sums)| buckets(sums).count() > 0) {
        let found = buckets(sums);
        let edges = LATENCY_EDGES_S.into_iter().chain([f64::MAX]);
        let pairs: Vec<(f64, u64)> = edges.zip(found.counts).collect();
        let none: Option<&std::collections::HashMap<usize, Exemplar<Labels, f64>>> = None;
        metric.encode_family(&labels(key))?.encode_histogram(found.sum_s, found.count(), &pairs, none)?;
    }
    Ok(())
}
