//! Fault injection: `--inject latency=5ms,stall=1s/10s,error=0.01`. [`Injector::plan`] decides the faults of each
//! request from the seed, the request's number and the arrival times so far.

use std::sync::atomic::{AtomicU64, Ordering};

use http::Method;
use plimsoll_base::clock::SECOND;
use plimsoll_base::rng::Stream;
use plimsoll_base::units::{UnitError, parse_duration, parse_rate, parse_size};

use crate::miss::{Cache, CacheSpec};
use crate::token_bucket::TokenBucket;

/// Injected delay of a response.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Latency {
    /// Constant delay in nanoseconds.
    Constant(u64),
    /// Lognormal delay: its median in nanoseconds and the standard deviation of its logarithm.
    Lognormal(f64, f64),
}

/// Time from a write until it is visible.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Lag {
    /// Share of the writes that are not visible at once, from 0 to 1.
    pub share: f64,
    /// Median time of these, in nanoseconds.
    pub median_ns: f64,
    /// Standard deviation of the logarithm of the time; 0 for a constant time.
    pub sigma: f64,
    /// Longest time, in nanoseconds.
    pub most_ns: u64,
}

impl Lag {
    /// Returns a lag that all writes have.
    pub fn constant(ns: u64) -> Lag {
        Lag { share: f64::from(u8::from(ns > 0)), median_ns: ns as f64, sigma: 0.0, most_ns: ns }
    }

    /// Returns the time of write `number` in nanoseconds; 0 if it is visible at once.
    pub fn draw(&self, draws: Stream, number: u64) -> u64 {
        if self.share == 0.0 || draws.unit(u64::MAX - number) >= self.share {
            return 0;
        }
        ((self.median_ns * (self.sigma * draws.normal(number)).exp()) as u64).min(self.most_ns)
    }
}

/// Faults to inject, as written in `--inject`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spec {
    /// Delay of every response.
    pub latency: Option<Latency>,
    /// Stall: no response is sent during the last `.0` nanoseconds of every period of `.1` nanoseconds.
    pub stall: Option<(u64, u64)>,
    /// Slow period: starts `.1` ns after the first request, lasts `.2` ns, and sets the delay to `.0` ns.
    pub slow: Option<(u64, u64, u64)>,
    /// Drift: the delay changes linearly to `.0` times its value over `.1` nanoseconds and stays there.
    pub drift: Option<(f64, u64)>,
    /// Requests per second that the server handles one after another; excess requests queue.
    pub capacity: Option<f64>,
    /// Requests per second that the server accepts; excess requests get 503 SlowDown.
    pub rate: Option<f64>,
    /// Share of requests, from 0 to 1, that get 503 SlowDown.
    pub error: f64,
    /// Share of requests to which the server responds with a connection reset.
    pub reset: f64,
    /// Share of requests whose response body, if any, ends halfway.
    pub truncate: f64,
    /// Share of requests whose response body, if any, has one byte changed.
    pub corrupt: f64,
    /// Maximum number of connections; the requests of further ones get a connection reset.
    pub connections: Option<u32>,
    /// Time after which reads and listings return a write or delete.
    pub stale: Lag,
    /// Time after which listings return a write or delete, if it is longer.
    pub stale_list: Lag,
    /// Share of conditional writes that are acknowledged but not stored.
    pub lost_conditional: f64,
    /// Share of overwrites during which reads return parts of both contents for a few milliseconds.
    pub torn: f64,
    /// Share of reads of a range that return the bytes from the next position on.
    pub wrong_range: f64,
    /// Share of responses whose header `ETag` is in lower case.
    pub lowercase_headers: f64,
    /// Cache of the server: reads of objects that it does not hold take longer.
    pub cache: Option<CacheSpec>,
    /// Seed of all random draws.
    pub seed: u64,
}

/// Error in the value of `--inject`.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum InjectError {
    /// An item that is not of the form `name=value`.
    #[error("--inject '{0}': not of the form name=value; write, for example, latency=5ms")]
    Shape(String),
    /// A fault is given more than once.
    #[error("--inject: '{0}' is given twice; use it once")]
    Repeated(String),
    /// The name of the fault is unknown.
    #[error(
        "--inject '{0}': unknown fault; use latency=5ms, latency=lognormal(5ms;0.8), stall=1s/10s, \
         slow=100ms@20s+10s, drift=2x/60s, capacity=200/s, rate=200/s, connections=100, error=0.01, reset=0.01, truncate=0.01, \
         corrupt=0.01, stale=50ms, stale-list=50ms, lost-conditional=0.01, torn-overwrite=0.1, wrong-range=0.01, \
         lowercase-headers=1, cache=64MiB/5ms or seed=1"
    )]
    Unknown(String),
    /// The value of a fault is invalid.
    #[error("--inject {name}={value}: invalid value; write {example}")]
    Value {
        /// Name of the fault.
        name: &'static str,
        /// Value as the user wrote it.
        value: String,
        /// Description or example of a valid value.
        example: &'static str,
    },
    /// A duration or a rate is malformed.
    #[error("--inject: {0}")]
    Unit(#[from] UnitError),
}

impl Spec {
    /// Returns the name of a fault that this specification and another one have. `has_times` is true if the other
    /// specification is that of a twin with measured times, to which no delay can be added.
    pub fn clash(&self, other: &Spec, has_times: bool) -> Option<&'static str> {
        let is_late = |spec: &Spec| spec.stale.share > 0.0 || spec.stale_list.share > 0.0;
        let both = [
            ("latency", self.latency.is_some() && has_times),
            ("slow", self.slow.is_some() && has_times),
            ("drift", self.drift.is_some() && has_times),
            ("capacity", self.capacity.is_some() && has_times),
            ("connections", self.connections.is_some() && other.connections.is_some()),
            ("stale", is_late(self) && is_late(other)),
            ("lost-conditional", self.lost_conditional > 0.0 && other.lost_conditional > 0.0),
        ];
        both.into_iter().find(|(_, is_both)| *is_both).map(|(name, _)| name)
    }

    /// Adds the limit of connections and the violations of consistency of another specification, which have no
    /// [`Spec::clash`] with those of this one.
    #[must_use]
    pub fn with(self, other: Spec) -> Spec {
        let lag = |own: Lag, other: Lag| if own.share > 0.0 { own } else { other };
        Spec {
            connections: self.connections.or(other.connections),
            stale: lag(self.stale, other.stale),
            stale_list: lag(self.stale_list, other.stale_list),
            lost_conditional: self.lost_conditional.max(other.lost_conditional),
            ..self
        }
    }

    /// Parses `name=value` pairs separated by commas.
    ///
    /// # Errors
    /// Returns an [`InjectError`] for an unknown name or an invalid value.
    pub fn parse(text: &str) -> Result<Spec, InjectError> {
        let mut spec = Spec::default();
        let mut names = Vec::new();
        if text.trim().is_empty() {
            return Err(InjectError::Shape(String::new()));
        }
        for pair in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| InjectError::Shape(pair.into()))?;
            if names.contains(&name) {
                return Err(InjectError::Repeated(name.into()));
            }
            names.push(name);
            let wrong = |name, example| InjectError::Value { name, value: value.into(), example };
            let share = |name| match value.parse::<f64>() {
                Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
                _ => Err(wrong(name, "a share between 0 and 1, such as 0.01")),
            };
            match name.trim() {
                "latency" => spec.latency = Some(parse_latency(value)?),
                "stall" => {
                    let (stop, every) =
                        value.split_once('/').ok_or_else(|| wrong("stall", "stall=1s/10s"))?;
                    let (stop, every) = (parse_duration(stop)?, parse_duration(every)?);
                    if stop >= every {
                        return Err(wrong("stall", "a stall shorter than its period, such as stall=1s/10s"));
                    }
                    spec.stall = Some((stop, every));
                }
                "slow" => spec.slow = Some(parse_slow(value)?),
                "drift" => {
                    let parts = value.split_once('/').and_then(|(f, t)| Some((f.strip_suffix('x')?, t)));
                    let (factor, time) = parts.ok_or_else(|| wrong("drift", "drift=2x/60s"))?;
                    let factor: f64 = factor.parse().map_err(|_| wrong("drift", "drift=2x/60s"))?;
                    let time = parse_duration(time)?;
                    if !(0.0..=1000.0).contains(&factor) || time == 0 {
                        return Err(wrong("drift", "a factor and a time above 0, such as drift=2x/60s"));
                    }
                    spec.drift = Some((factor, time));
                }
                "cache" => {
                    let (size, miss) =
                        value.split_once('/').ok_or_else(|| wrong("cache", "cache=64MiB/5ms"))?;
                    spec.cache = Some(CacheSpec { bytes: parse_size(size)?, miss_ns: parse_duration(miss)? });
                }
                "capacity" => spec.capacity = Some(parse_rate(value)?),
                "rate" => spec.rate = Some(parse_rate(value)?),
                "error" => spec.error = share("error")?,
                "reset" => spec.reset = share("reset")?,
                "truncate" => spec.truncate = share("truncate")?,
                "corrupt" => spec.corrupt = share("corrupt")?,
                "connections" => {
                    let most = value.parse().ok().filter(|most| *most > 0);
                    spec.connections = Some(most.ok_or_else(|| wrong("connections", "a number above 0"))?);
                }
                "stale" => spec.stale = Lag::constant(parse_duration(value)?),
                "stale-list" => spec.stale_list = Lag::constant(parse_duration(value)?),
                "torn-overwrite" => spec.torn = share("torn-overwrite")?,
                "wrong-range" => spec.wrong_range = share("wrong-range")?,
                "lowercase-headers" => spec.lowercase_headers = share("lowercase-headers")?,
                "lost-conditional" => spec.lost_conditional = share("lost-conditional")?,
                "seed" => {
                    spec.seed = value.parse().map_err(|_| wrong("seed", "a whole number, such as seed=1"))?
                }
                _ => return Err(InjectError::Unknown(pair.into())),
            }
        }
        Ok(spec)
    }
}

/// Parses a slow period: its delay, start and length in nanoseconds.
fn parse_slow(value: &str) -> Result<(u64, u64, u64), InjectError> {
    let parts = value.split_once('@').and_then(|(latency, rest)| Some((latency, rest.split_once('+')?)));
    let wrong = || InjectError::Value { name: "slow", value: value.into(), example: "slow=100ms@20s+10s" };
    let (latency, (from, length)) = parts.ok_or_else(wrong)?;
    Ok((parse_duration(latency)?, parse_duration(from)?, parse_duration(length)?))
}

fn parse_latency(value: &str) -> Result<Latency, InjectError> {
    let Some(inner) = value.strip_prefix("lognormal(").and_then(|v| v.strip_suffix(')')) else {
        return Ok(Latency::Constant(parse_duration(value)?));
    };
    let wrong = || InjectError::Value {
        name: "latency",
        value: value.into(),
        example: "latency=lognormal(MEDIAN;SIGMA), such as latency=lognormal(5ms;0.8)",
    };
    let (median, sigma) = inner.split_once(';').ok_or_else(wrong)?;
    let sigma: f64 = sigma.trim().parse().ok().filter(|s| (0.0..=5.0).contains(s)).ok_or_else(wrong)?;
    Ok(Latency::Lognormal(parse_duration(median)? as f64, sigma))
}

/// Fault injected into one request in addition to its delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The response is sent unchanged.
    None,
    /// The response is 503 SlowDown.
    SlowDown,
    /// The server resets the connection instead of responding.
    Reset,
    /// The body of the response ends halfway.
    Truncate,
    /// One byte of the response body is changed: the one at this offset modulo the length.
    Corrupt(u64),
    /// The body of a range begins one byte late.
    WrongRange,
    /// The names of the response's headers are in lower case.
    LowercaseHeaders,
}

/// Injected delay and fault of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InjectedFault {
    /// Earliest monotonic time in nanoseconds at which the response may be sent.
    pub answer_at_ns: u64,
    /// Fault to inject into the response.
    pub fault: Fault,
}

/// Injector that decides the delay and the fault of each request.
pub struct Injector {
    spec: Spec,
    latencies: Stream,
    faults: Stream,
    count: AtomicU64,
    /// Arrival time of the first request, from which stalls, slow periods and drift are timed; 0 before it.
    origin_ns: AtomicU64,
    queue_ns: AtomicU64,
    bucket: Option<TokenBucket>,
    cache: Option<Cache>,
}

impl Injector {
    /// Creates an injector whose periods start at the first request.
    pub fn new(spec: Spec) -> Injector {
        Injector {
            latencies: Stream::new(spec.seed, "latency"),
            faults: Stream::new(spec.seed, "fault"),
            cache: spec.cache.map(Cache::new),
            bucket: spec.rate.map(TokenBucket::new),
            spec,
            count: AtomicU64::new(0),
            origin_ns: AtomicU64::new(0),
            queue_ns: AtomicU64::new(0),
        }
    }

    /// Decides the delay and the fault of a request that arrived at `received_ns`.
    pub fn plan(&self, received_ns: u64) -> InjectedFault {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let origin =
            match self.origin_ns.compare_exchange(0, received_ns, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => received_ns,
                Err(origin) => origin,
            };
        let since = received_ns.saturating_sub(origin);
        let fault = self.fault(number, received_ns);
        let latency = match (self.spec.slow, self.spec.latency) {
            (Some((latency, from, length)), _) if (from..from + length).contains(&since) => latency,
            (_, Some(Latency::Constant(latency))) => latency,
            (_, Some(Latency::Lognormal(median, sigma))) => {
                (median * (sigma * self.latencies.normal(number)).exp()).min(3.6e12) as u64
            }
            _ => 0,
        };
        let factor = self
            .spec
            .drift
            .map_or(1.0, |(factor, time)| 1.0 + (factor - 1.0) * (since as f64 / time as f64).min(1.0));
        let mut answer_at_ns = received_ns + (latency as f64 * factor) as u64;
        if let Some(per_s) = self.spec.capacity {
            let service = (SECOND as f64 / per_s) as u64;
            let next = |queue: u64| Some(queue.max(received_ns) + service);
            let before = self.queue_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(0);
            answer_at_ns = answer_at_ns.max(before.max(received_ns) + service);
        }
        if let Some((stop, every)) = self.spec.stall {
            // The stall is the last part of each period, so that a run does not start with one.
            let into = answer_at_ns.saturating_sub(origin) % every;
            if into >= every - stop {
                answer_at_ns += every - into;
            }
        }
        InjectedFault { answer_at_ns, fault }
    }

    /// Returns the delay of the response to a successful request for an object of `size` bytes, in nanoseconds, which
    /// the server's cache adds.
    pub fn miss_ns(&self, method: &Method, path: &str, size: u64) -> u64 {
        self.cache.as_ref().map_or(0, |cache| cache.access(method, path, size))
    }

    fn fault(&self, number: u64, received_ns: u64) -> Fault {
        let spec = &self.spec;
        if self.bucket.as_ref().is_some_and(|bucket| !bucket.take(received_ns)) {
            return Fault::SlowDown;
        }
        let draw = self.faults.unit(2 * number);
        let mut edge = spec.error;
        if draw < edge {
            return Fault::SlowDown;
        }
        for (share, fault) in [
            (spec.reset, Fault::Reset),
            (spec.truncate, Fault::Truncate),
            (spec.corrupt, Fault::Corrupt(self.faults.at(2 * number + 1))),
            (spec.wrong_range, Fault::WrongRange),
            (spec.lowercase_headers, Fault::LowercaseHeaders),
        ] {
            edge += share;
            if draw < edge {
                return fault;
            }
        }
        Fault::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn injector(text: &str) -> Injector {
        Injector::new(Spec::parse(text).unwrap())
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn latency_stalls_and_slow_periods_are_timed_correctly() {
        let plan = injector("latency=5ms,stall=1s/10s,slow=100ms@20s+2s");
        let base = 7 * SECOND;
        let delay = |at: u64| plan.plan(base + at).answer_at_ns - base - at;
        assert_eq!(delay(0), 5 * MS);
        assert_eq!(delay(8_990 * MS), 5 * MS);
        assert_eq!(delay(9_000 * MS), 1_000 * MS, "the stall lasts until the end of the period");
        assert_eq!(delay(9_600 * MS), 400 * MS);
        assert_eq!(delay(20_500 * MS), 100 * MS);
        assert_eq!(delay(22_000 * MS), 5 * MS);
    }

    #[test]
    fn drift_raises_the_delay_linearly_and_then_keeps_it() {
        let plan = injector("latency=10ms,drift=2x/60s");
        let delay = |at: u64| plan.plan(SECOND + at).answer_at_ns - SECOND - at;
        assert_eq!([0, 30, 60, 90].map(|s| delay(s * SECOND)), [10 * MS, 15 * MS, 20 * MS, 20 * MS]);
    }

    #[test]
    fn requests_above_the_capacity_queue() {
        let plan = injector("capacity=100/s");
        let answers: Vec<u64> = (0..4).map(|_| plan.plan(SECOND).answer_at_ns - SECOND).collect();
        assert_eq!(answers, [10 * MS, 20 * MS, 30 * MS, 40 * MS]);
        assert_eq!(plan.plan(5 * SECOND).answer_at_ns, 5 * SECOND + 10 * MS);
    }

    #[test]
    fn requests_above_the_rate_get_slow_down() {
        let plan = injector("rate=1000/s");
        let refused = |at: u64| (0..300).filter(|_| plan.plan(at).fault == Fault::SlowDown).count();
        assert_eq!(refused(SECOND), 200, "the bucket holds a tenth of a second");
        assert_eq!(refused(2 * SECOND), 200);
    }

    #[test]
    fn faults_match_their_shares_and_repeat_with_the_seed() {
        let faults = |seed: u64| -> Vec<Fault> {
            let plan = injector(&format!("error=0.1,reset=0.1,truncate=0.1,corrupt=0.1,seed={seed}"));
            (0..10_000).map(|i| plan.plan(i).fault).collect()
        };
        let first = faults(1);
        assert_eq!(first, faults(1));
        assert_ne!(first, faults(2));
        for kind in [Fault::SlowDown, Fault::Reset, Fault::Truncate] {
            let n = first.iter().filter(|f| **f == kind).count();
            assert!((850..1150).contains(&n), "{kind:?} {n}");
        }
    }

    #[test]
    fn lognormal_latency_has_the_given_median() {
        let plan = injector("latency=lognormal(5ms;0.8)");
        let mut delays: Vec<u64> = (0..10_001).map(|i| plan.plan(i).answer_at_ns - i).collect();
        delays.sort_unstable();
        assert!((delays[5_000] as f64 / 5e6 - 1.0).abs() < 0.05);
    }

    #[test]
    fn errors_name_the_mistake() {
        let message = |text: &str| Spec::parse(text).unwrap_err().to_string();
        assert!(message("latency").contains("name=value"));
        assert!(message("jitter=1").contains("use latency=5ms"));
        assert!(message("error=2").contains("between 0 and 1"));
        assert!(message("error=0.1,error=0.2").contains("given twice"));
        assert!(message("stall=10s/1s").contains("shorter than its period"));
        assert!(message("drift=2").contains("drift=2x/60s"));
        assert!(message("cache=64MiB").contains("cache=64MiB/5ms"));
        assert!(message("slow=1s").contains("slow=100ms@20s+10s"));
        assert!(message("latency=lognormal(5ms)").contains("SIGMA"));
    }
}
