//! Merged view of a running fleet: rates and latencies of the last seconds, by node and in total.

use std::collections::{BTreeMap, VecDeque};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::message::Second;
use plimsoll_base::clock::SECOND;
use plimsoll_recorder::histogram::Latencies;

/// Length of the view in nanoseconds.
const VIEW_NS: u64 = 5 * SECOND;

/// Counts of one node in one second.
struct Arrived {
    at_ns: u64,
    completed: u64,
    bytes: f64,
    service: Latencies,
}

/// Seconds that nodes have reported.
#[derive(Default)]
pub struct Live {
    nodes: BTreeMap<u64, VecDeque<Arrived>>,
    phase: String,
    completed: u64,
    failed: u64,
}

/// Rates and latencies of one node or of all.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figures {
    /// Successful operations per second.
    pub per_s: f64,
    /// Object bytes per second.
    pub bytes_per_s: f64,
    /// Median service time in milliseconds; `None` without operations.
    pub p50_ms: Option<f64>,
    /// 99th percentile of the service time in milliseconds; `None` without operations.
    pub p99_ms: Option<f64>,
}

/// Rate of a node, as a share of the median of all nodes, below which it is slow.
const SLOW: f64 = 0.8;

/// Returns the figures of several nodes together.
fn figures<'a>(nodes: impl Iterator<Item = &'a VecDeque<Arrived>>) -> Figures {
    let (mut per_s, mut bytes_per_s, mut service) = (0.0, 0.0, Latencies::default());
    for seconds in nodes {
        let (Some(first), Some(last)) = (seconds.front(), seconds.back()) else { continue };
        // The counts arrive at the end of their second.
        let span_s = (last.at_ns - first.at_ns) as f64 / SECOND as f64 + 1.0;
        per_s += seconds.iter().map(|second| second.completed).sum::<u64>() as f64 / span_s;
        bytes_per_s += seconds.iter().map(|second| second.bytes).sum::<f64>() / span_s;
        seconds.iter().for_each(|second| service.merge(&second.service));
    }
    let ms = |q| service.quantile_ns(q).map(|ns| ns as f64 / 1e6);
    Figures { per_s, bytes_per_s, p50_ms: ms(0.5), p99_ms: ms(0.99) }
}

impl Live {
    /// Adds the counts of one second of a node, which arrived at `now_ns` on the monotonic clock. A new phase replaces
    /// the seconds of the previous one.
    pub fn add(&mut self, node: u64, second: &Second, now_ns: u64) {
        if self.phase != second.phase {
            self.phase.clone_from(&second.phase);
            self.nodes.clear();
        }
        let bytes = STANDARD.decode(&second.service).unwrap_or_default();
        let service = Latencies::from_bytes(&bytes).unwrap_or_default();
        let Second { completed, failed, bytes, .. } = *second;
        let seconds = self.nodes.entry(node).or_default();
        seconds.push_back(Arrived { at_ns: now_ns, completed, bytes, service });
        self.completed += completed;
        self.failed += failed;
        for seconds in self.nodes.values_mut() {
            while seconds.front().is_some_and(|second| second.at_ns + VIEW_NS < now_ns) {
                seconds.pop_front();
            }
        }
    }

    /// Returns the name of the current phase; empty before the first second.
    pub fn phase(&self) -> &str {
        &self.phase
    }

    /// Returns the numbers of successful and failed operations so far.
    pub fn counts(&self) -> (u64, u64) {
        (self.completed, self.failed)
    }

    /// Returns the figures of all nodes together.
    pub fn total(&self) -> Figures {
        figures(self.nodes.values())
    }

    /// Returns the figures of each node.
    pub fn by_node(&self) -> BTreeMap<u64, Figures> {
        self.nodes.iter().map(|(node, seconds)| (*node, figures(std::iter::once(seconds)))).collect()
    }

    /// Returns the nodes whose rate is well below the median of all nodes.
    pub fn slow(&self) -> Vec<u64> {
        let nodes = self.by_node();
        let mut rates: Vec<f64> = nodes.values().map(|figures| figures.per_s).collect();
        rates.sort_by(f64::total_cmp);
        let Some(median) = rates.get(rates.len() / 2) else { return Vec::new() };
        nodes.iter().filter(|(_, figures)| figures.per_s < SLOW * median).map(|(node, _)| *node).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(phase: &str, completed: u64, ms: u64) -> Second {
        let mut service = Latencies::default();
        (0..completed).for_each(|_| service.record(ms * 1_000_000));
        Second {
            phase: phase.into(),
            completed,
            service: STANDARD.encode(service.to_bytes()),
            ..Second::default()
        }
    }

    #[test]
    fn nodes_are_added_up_and_slow_ones_are_found() {
        let mut live = Live::default();
        for s in 0..10 {
            for node in 0..4 {
                let completed = if node == 3 { 10 } else { 100 };
                live.add(node, &second("get", completed, 1 + node), SECOND * s + node);
            }
        }
        let total = live.total();
        assert!((total.per_s - 310.0).abs() < 1.0, "{total:?}");
        assert_eq!(live.slow(), [3]);
        assert!((live.by_node()[&2].p50_ms.unwrap() - 3.0).abs() < 0.1);
        assert_eq!(live.counts(), (3_100, 0));
        live.add(0, &second("put", 5, 1), 11 * SECOND);
        assert_eq!((live.phase(), live.by_node().len()), ("put", 1));
    }
}
