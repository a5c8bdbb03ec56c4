//! The twin of a measured store: `plimsoll serve --like RUN` answers as late, and fails as often, as the store did.
//!
//! [`model`] has the measured figures, [`curve`] a distribution of times, [`course`] the order of slow and fast
//! stretches, and [`load`] the operations in flight. A twin draws one normal score for each request, which is the
//! position of its time in the distribution of its kind, size and load. The scores of a stretch are spread as they were
//! in the measured one, so that slow stretches follow each other as they did.

pub mod course;
pub mod curve;
pub mod load;
pub mod model;
pub mod overhead;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use curve::lower_and_share;
use load::Load;
use model::{Failure, Model, Point, RateLimit};
use overhead::Overhead;
use plimsoll_base::rng::Stream;
use plimsoll_server::request_kind::RequestKind;

use crate::token_bucket::TokenBucket;

/// The decision about a request when it arrives.
#[derive(Debug, Clone, PartialEq)]
pub struct Draw {
    kind: RequestKind,
    /// Position of its time in the distribution, as a standard normal score.
    score: f64,
    /// Operations in flight, averaged over the recent past.
    in_flight: f64,
    /// Failure with which it is answered; `None` if it is executed.
    pub failure: Option<Failure>,
}

/// Times of an answer after the arrival of its request, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Time at which the response begins.
    pub first_ns: u64,
    /// Time at which it ends.
    pub last_ns: u64,
}

/// The twin of a measured store.
pub struct Twin {
    model: Model,
    /// Part of the time of an answer that the twin's own host takes.
    overhead: Overhead,
    scores: Stream,
    failures: Stream,
    count: AtomicU64,
    /// Arrival of the first request, in nanoseconds; 0 before it.
    origin_ns: AtomicU64,
    load: Arc<Load>,
    buckets: Vec<(RateLimit, TokenBucket)>,
}

/// A request in flight; counts it until it is dropped.
pub struct InFlight(Arc<Load>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Twin {
    /// Creates a twin. It takes the overhead out of all times: the service time that a client measures beyond a delay
    /// that this server adds, and its spread.
    pub fn new(mut model: Model, overhead: Overhead, seed: u64) -> Twin {
        overhead.narrow(&mut model);
        let bucket = |limit: &RateLimit| (limit.clone(), TokenBucket::new(limit.per_s));
        Twin {
            buckets: model.limits.iter().map(bucket).collect(),
            model,
            overhead,
            scores: Stream::new(seed, "twin score"),
            failures: Stream::new(seed, "twin failure"),
            count: AtomicU64::new(0),
            origin_ns: AtomicU64::new(0),
            load: Arc::default(),
        }
    }

    /// Decides at `now_ns` about a request that arrived at `received_ns`, whose body has `sent` bytes. The second value
    /// counts the request until it is dropped.
    pub fn begin(&self, kind: RequestKind, sent: u64, received_ns: u64, now_ns: u64) -> (Draw, InFlight) {
        let in_flight = self.load.begin(received_ns, now_ns);
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let point = self.point(kind, sent, in_flight, number);
        let origin = self.origin_ns.compare_exchange(0, received_ns, Ordering::Relaxed, Ordering::Relaxed);
        let passed_ns = received_ns.saturating_sub(origin.err().unwrap_or(received_ns));
        let score = point.and_then(|point| point.course.score(passed_ns, self.scores.unit(number)));
        let score = score.unwrap_or_else(|| self.scores.normal(number));
        let failure = self.refusal(kind, received_ns).or_else(|| self.failure(point?, number));
        (Draw { kind, score, in_flight, failure }, InFlight(Arc::clone(&self.load)))
    }

    /// Returns the answer to a request above the limit of its kind; `None` below it.
    fn refusal(&self, kind: RequestKind, now_ns: u64) -> Option<Failure> {
        let is_above =
            |(limit, bucket): &&(RateLimit, TokenBucket)| limit.kinds.contains(&kind) && !bucket.take(now_ns);
        self.buckets.iter().find(is_above).map(|(limit, _)| limit.failure.clone())
    }

    /// Returns the measured load of a request: one of the two neighbours of the current load, the nearer one more
    /// often.
    fn point(&self, kind: RequestKind, sent: u64, in_flight: f64, number: u64) -> Option<&Point> {
        let sizes = self.model.of(kind)?;
        let (at, _) = lower_and_share(sizes, |size| size.bytes as f64, sent as f64);
        let (lower, share) = sizes[at].place(in_flight);
        let is_upper = share > 0.0 && self.failures.unit(2 * number + 1) < share;
        Some(&sizes[at].loads[lower + usize::from(is_upper)])
    }

    fn failure(&self, point: &Point, number: u64) -> Option<Failure> {
        let mut draw = self.failures.unit(2 * number);
        point.failures.iter().find_map(|(failure, share)| {
            draw -= share;
            (draw < 0.0).then(|| failure.clone())
        })
    }

    /// Returns the times of the answer to a request whose object or part has `bytes` bytes.
    pub fn times(&self, draw: &Draw, bytes: u64) -> Times {
        let Some(sizes) = self.model.of(draw.kind) else { return Times { first_ns: 0, last_ns: 0 } };
        let (lower, share) = lower_and_share(sizes, |size| size.bytes as f64, bytes as f64);
        let of = |at: usize| {
            let loads = &sizes[at].loads;
            let (lower, share) = sizes[at].place(draw.in_flight);
            let [first, last] = logs(&loads[lower], draw);
            if share == 0.0 {
                return [first, last];
            }
            let upper = logs(&loads[lower + 1], draw);
            [between(first, upper[0], share), between(last, upper[1], share)]
        };
        let mut logs = of(lower);
        if share > 0.0 {
            let upper = of(lower + 1);
            logs = [between(logs[0], upper[0], share), between(logs[1], upper[1], share)];
        }
        let [first_ns, last_ns] = logs.map(|log| {
            let ns = log.exp();
            (ns - self.overhead.in_time(ns)).max(0.0).round() as u64
        });
        Times { first_ns: first_ns.min(last_ns), last_ns }
    }
}

/// Returns the logarithms of the times to the first and the last byte of an answer at one load.
fn logs(point: &Point, draw: &Draw) -> [f64; 2] {
    if draw.failure.is_some() {
        let failed = point.failed.as_ref().unwrap_or(&point.total).log_at(draw.score);
        return [failed, failed];
    }
    let total = point.total.log_at(draw.score);
    [point.first.as_ref().map_or(total, |first| first.log_at(draw.score)), total]
}

fn between(lower: f64, upper: f64, share: f64) -> f64 {
    lower + (upper - lower) * share
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
