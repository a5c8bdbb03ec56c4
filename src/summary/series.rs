//! A run second by second: what confidence, comparison and charts are made of.

use std::collections::BTreeMap;

use crate::recorder::sparse::{BUCKETS, Sparse, edges_us};

/// One kind of operation in one phase (and step of it) on one store, in the order of its seconds. Seconds without an operation are
/// in it too: a store that answers nothing for a while is not left out.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// The store as written.
    pub store: String,
    /// Name of the phase.
    pub phase: String,
    /// Role of the phase.
    pub role: String,
    /// Step of a ramp, from 0.
    pub step: Option<u32>,
    /// Kind of operation.
    pub operation: String,
    /// Group of keys, where the experiment tells groups apart.
    pub key_group: Option<String>,
    /// Whether it is an open loop.
    pub open: bool,
    /// What limited the client in its windows; every figure of the series then measures the client.
    pub client_limited: Option<String>,
    /// The seconds.
    pub seconds: Vec<Second>,
}

/// One second.
#[derive(Debug, Clone, Default)]
pub struct Second {
    /// Seconds since the run's origin.
    pub second: u64,
    /// Repeat and block.
    pub block: (u32, u32),
    /// How much of the second lies in the window.
    pub time_s: f64,
    /// Operations answered well inside the window.
    pub completed: u64,
    /// Operations that belong to the window and ended (or were given up) in this second.
    pub operations: u64,
    /// Of those, failed.
    pub failed: u64,
    /// Operations without a known response time.
    pub censored: u64,
    /// Failures by class.
    pub errors: BTreeMap<String, u64>,
    /// Object bytes delivered.
    pub bytes: f64,
    /// Start to end of successes.
    pub service: Sparse,
    /// Intended time to end of successes; open loops only.
    pub response: Sparse,
    /// Start to first byte of successes.
    pub first_byte: Sparse,
}

impl Second {
    /// Adds what was counted in another row or second; its time stays as it is.
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

/// Which latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clocked {
    /// Start to end.
    Service,
    /// Intended time to end.
    Response,
    /// Start to first byte.
    FirstByte,
}

impl Clocked {
    /// Name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Clocked::Service => "service",
            Clocked::Response => "response",
            Clocked::FirstByte => "first_byte",
        }
    }

    /// The latency of that name.
    pub fn from_name(name: &str) -> Option<Clocked> {
        [Clocked::Service, Clocked::Response, Clocked::FirstByte].into_iter().find(|c| c.name() == name)
    }
}

/// What a percentile is taken of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Successes, and whatever is only known to have taken longer than it was waited for.
    Answered,
    /// Every operation; failed and censored ones count as slower than any limit.
    All,
}

impl Series {
    /// The latency that counts: from the intended time in open loops, from the start in closed ones (law of measurement, 1).
    pub fn clocked(&self) -> Clocked {
        if self.open { Clocked::Response } else { Clocked::Service }
    }

    /// One latency, second by second.
    pub fn latency(&self, which: Clocked, of: Of) -> Latency<'_> {
        let mut out = Latency { merged: vec![0; BUCKETS], ..Latency::default() };
        for second in &self.seconds {
            let histogram = match which {
                Clocked::Service => &second.service,
                Clocked::Response => &second.response,
                Clocked::FirstByte => &second.first_byte,
            };
            histogram.iter().for_each(|(b, n)| out.merged[usize::from(b)] += u64::from(n));
            let beyond = match of {
                Of::All => second.operations.saturating_sub(histogram.len()),
                Of::Answered if which == Clocked::Response => second.censored,
                Of::Answered => 0,
            };
            out.total += histogram.len() + beyond;
            out.beyond.push(beyond);
            out.seconds.push(histogram);
        }
        out
    }

    /// Several kinds of operation of one phase as one.
    pub fn together(parts: &[&Series]) -> Option<Series> {
        let (first, rest) = parts.split_first()?;
        let mut out = (*first).clone();
        out.operation = "all".into();
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

    /// A count by second.
    pub fn counts(&self, count: impl Fn(&Second) -> f64) -> Vec<f64> {
        self.seconds.iter().map(count).collect()
    }

    /// The part of each second that lies in the window.
    pub fn time_s(&self) -> Vec<f64> {
        self.counts(|s| s.time_s)
    }
}

/// One latency, second by second and in all.
#[derive(Debug, Clone, Default)]
pub struct Latency<'a> {
    /// By second.
    pub seconds: Vec<&'a Sparse>,
    /// By second: operations slower than anything recorded.
    pub beyond: Vec<u64>,
    merged: Vec<u64>,
    total: u64,
}

impl<'a> Latency<'a> {
    /// The seconds `histograms`, nothing beyond them.
    pub fn of(seconds: &'a [Sparse]) -> Latency<'a> {
        let mut out =
            Latency { merged: vec![0; BUCKETS], beyond: vec![0; seconds.len()], ..Latency::default() };
        for histogram in seconds {
            histogram.iter().for_each(|(b, n)| out.merged[usize::from(b)] += u64::from(n));
            out.total += histogram.len();
        }
        out.seconds = seconds.iter().collect();
        out
    }

    /// Adds operations by second that are slower than anything recorded.
    #[cfg(test)]
    pub fn miss(&mut self, by_second: &[u64]) {
        self.beyond.iter_mut().zip(by_second).for_each(|(beyond, more)| *beyond += more);
        self.total += by_second.iter().sum::<u64>();
    }

    /// Number of operations.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The bucket that holds the operation of rank `ceil(q n)`; `None` when that lies beyond what was recorded.
    pub fn bucket(&self, q: f64) -> Option<usize> {
        let rank = ((q * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        self.merged.iter().position(|n| {
            seen += n;
            seen >= rank
        })
    }

    /// The highest bucket that holds something.
    pub fn highest(&self) -> Option<usize> {
        self.merged.iter().rposition(|n| *n > 0)
    }

    /// Percentile `q` in nanoseconds: the bucket's highest equivalent value.
    pub fn quantile_ns(&self, q: f64) -> Option<f64> {
        self.bucket(q).map(|bucket| edges_us(bucket).1 as f64 * 1e3)
    }

    /// Counts by second of what lies at or below a bucket, and of everything.
    pub fn counts(&self, bucket: usize) -> (Vec<f64>, Vec<f64>) {
        let below = self.seconds.iter().map(|s| s.up_to(bucket) as f64).collect();
        let all = self.seconds.iter().zip(&self.beyond).map(|(s, b)| (s.len() + b) as f64).collect();
        (below, all)
    }
}
