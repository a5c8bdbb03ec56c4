//! Time series of a run with one entry per second: the input of confidence intervals, comparisons and charts.

use std::collections::BTreeMap;

use super::size_range::SizeRange;
use plimsoll_recorder::sparse::{Sparse, edges_us};
use plimsoll_recorder::sum::HistogramSum;
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Role;

/// Time series of one kind of operation in one phase (and ramp step) on one store, in order of time. Seconds
/// without an operation are included, so that a store's stalls count.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// URL of the store as the user wrote it, without credentials.
    pub store: String,
    /// Name of the phase.
    pub phase: String,
    /// Role of the phase: `prepare`, `warmup` or `measure`.
    pub role: Role,
    /// Step of a ramp, from 0. `None` outside a ramp.
    pub step: Option<u32>,
    /// Kind of operation.
    pub operation: OperationKind,
    /// Sizes of the objects, if the series has only the successful operations on some. `None` for all operations.
    pub size: Option<SizeRange>,
    /// Group of keys. `None` if the experiment does not distinguish groups.
    pub key_group: Option<String>,
    /// True for an open loop.
    pub open: bool,
    /// Reason why the client was the bottleneck; every figure of the series then measures the client. `None` if
    /// it was not.
    pub client_limited: Option<String>,
    /// Seconds in order of time.
    pub seconds: Vec<Second>,
}

/// A block of a phase run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    /// Repeat, from 0.
    pub repeat: u32,
    /// Block of interleaving, from 0.
    pub number: u32,
}

/// Counts of one second.
#[derive(Debug, Clone, Default)]
pub struct Second {
    /// Seconds since the run's origin.
    pub second: u64,
    /// Block in which the operations ended.
    pub block: Block,
    /// Part of the second that lies inside the window, in seconds.
    pub time_s: f64,
    /// Successful operations that ended inside the window.
    pub completed: u64,
    /// Operations that belong to the window and ended (or were abandoned) in this second.
    pub operations: u64,
    /// Failed operations among `operations`.
    pub failed: u64,
    /// Operations without a known response time.
    pub censored: u64,
    /// Failures by class.
    pub errors: BTreeMap<String, u64>,
    /// Object bytes delivered in this second.
    pub bytes: f64,
    /// Start to end of successful operations.
    pub service: Sparse,
    /// Intended time to end of successful operations; open loops only.
    pub response: Sparse,
    /// Start to first byte of successful operations.
    pub first_byte: Sparse,
}

impl Second {
    /// Adds the counts of another row or second. Leaves `time_s` unchanged.
    pub fn absorb(&mut self, other: Second) {
        self.completed += other.completed;
        self.operations += other.operations;
        self.failed += other.failed;
        self.censored += other.censored;
        for (class, n) in other.errors {
            let sum = self.errors.entry(class).or_default();
            *sum = sum.saturating_add(n);
        }
        self.bytes += other.bytes;
        self.service.absorb(other.service);
        self.response.absorb(other.response);
        self.first_byte.absorb(other.first_byte);
    }
}

/// Kind of latency, by the instants between which it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LatencyKind {
    /// Service time: start to end.
    Service,
    /// Response time: intended time to end.
    Response,
    /// Time to first byte, from the start.
    FirstByte,
}

impl LatencyKind {
    /// Returns the name used in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            LatencyKind::Service => "service",
            LatencyKind::Response => "response",
            LatencyKind::FirstByte => "first_byte",
        }
    }

    /// Returns the latency with that name, `None` if there is none.
    pub fn from_name(name: &str) -> Option<LatencyKind> {
        [LatencyKind::Service, LatencyKind::Response, LatencyKind::FirstByte]
            .into_iter()
            .find(|c| c.name() == name)
    }
}

/// Set of operations over which a percentile is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Successful operations and, for response times, censored ones, which count as slower than any recorded value.
    Answered,
    /// All operations; failed and censored ones count as slower than any limit.
    All,
}

impl Series {
    /// Returns the primary latency: the response time of an open loop, the service time of a closed one
    /// (docs/method.md, "Time"). The operations on objects of some sizes have only service times.
    pub fn clocked(&self) -> LatencyKind {
        if self.open && self.size.is_none() { LatencyKind::Response } else { LatencyKind::Service }
    }

    /// Returns the latency whose figures have no prefix in names: that of all operations.
    pub fn named(&self) -> LatencyKind {
        if self.open { LatencyKind::Response } else { LatencyKind::Service }
    }

    /// Returns one latency of the series, by second and in total.
    pub fn latency(&self, which: LatencyKind, of: Of) -> Latency<'_> {
        let mut out = Latency::default();
        for second in &self.seconds {
            let histogram = match which {
                LatencyKind::Service => &second.service,
                LatencyKind::Response => &second.response,
                LatencyKind::FirstByte => &second.first_byte,
            };
            out.merged.add_sparse(histogram);
            let beyond = match of {
                Of::All => second.operations.saturating_sub(histogram.len()),
                Of::Answered if which == LatencyKind::Response => second.censored,
                Of::Answered => 0,
            };
            out.total += histogram.len() + beyond;
            out.beyond.push(beyond);
            out.seconds.push(histogram);
        }
        out
    }

    /// Merges the series of several kinds of operation in one phase into one; `None` if `parts` is empty.
    pub fn together(parts: &[&Series]) -> Option<Series> {
        let (first, rest) = parts.split_first()?;
        let mut out = (*first).clone();
        out.client_limited = parts.iter().find_map(|part| part.client_limited.clone());
        for part in rest {
            for second in &part.seconds {
                match out.seconds.binary_search_by_key(&second.second, |s| s.second) {
                    Ok(at) => out.seconds[at].absorb(second.clone()),
                    Err(at) => out.seconds.insert(at, second.clone()),
                }
            }
        }
        Some(out)
    }

    /// Returns one count for each second.
    pub fn counts(&self, count: impl Fn(&Second) -> f64) -> Vec<f64> {
        self.seconds.iter().map(count).collect()
    }

    /// Returns the part of each second that lies inside the window, in seconds.
    pub fn time_s(&self) -> Vec<f64> {
        self.counts(|s| s.time_s)
    }

    /// Returns the measured time in seconds.
    pub fn measured_s(&self) -> f64 {
        self.seconds.iter().map(|second| second.time_s).sum()
    }
}

/// Histograms of one latency, by second and in total.
#[derive(Debug, Clone, Default)]
pub struct Latency<'a> {
    /// Histogram of each second.
    pub seconds: Vec<&'a Sparse>,
    /// Number of operations in each second that count as slower than any recorded value.
    pub beyond: Vec<u64>,
    merged: HistogramSum,
    total: u64,
}

impl<'a> Latency<'a> {
    /// Creates a latency from one histogram per second, without operations beyond the recorded values.
    pub fn of(seconds: &'a [Sparse]) -> Latency<'a> {
        let mut out = Latency { beyond: vec![0; seconds.len()], ..Latency::default() };
        for histogram in seconds {
            out.merged.add_sparse(histogram);
            out.total += histogram.len();
        }
        out.seconds = seconds.iter().collect();
        out
    }

    /// Adds to each second operations that count as slower than any recorded value.
    #[cfg(test)]
    pub fn miss(&mut self, by_second: &[u64]) {
        self.beyond.iter_mut().zip(by_second).for_each(|(beyond, more)| *beyond += more);
        self.total += by_second.iter().sum::<u64>();
    }

    /// Returns the number of operations, those beyond the recorded values included.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// Returns true if there are no operations.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Returns the bucket that holds the operation of rank `ceil(q n)`; `None` if that operation is beyond the
    /// recorded values.
    pub fn bucket(&self, q: f64) -> Option<usize> {
        let rank = ((q * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let reached = |(_, n): &(usize, u64)| {
            seen += n;
            seen >= rank
        };
        self.merged.buckets().find(reached).map(|(bucket, _)| bucket)
    }

    /// Returns the highest non-empty bucket.
    pub fn highest(&self) -> Option<usize> {
        self.merged.buckets().last().map(|(bucket, _)| bucket)
    }

    /// Returns percentile `q` (0 to 1) in nanoseconds: the highest value of its bucket.
    pub fn quantile_ns(&self, q: f64) -> Option<f64> {
        self.bucket(q).map(|bucket| edges_us(bucket).1 as f64 * 1e3)
    }

    /// Returns two counts for each second: operations at or below a bucket, and all operations.
    pub fn counts(&self, bucket: usize) -> (Vec<f64>, Vec<f64>) {
        let below = self.seconds.iter().map(|s| s.up_to(bucket) as f64).collect();
        let all = self.seconds.iter().zip(&self.beyond).map(|(s, b)| (s.len() + b) as f64).collect();
        (below, all)
    }
}
