//! Faults on demand: `--inject latency=5ms,stall=1s/10s,error=0.01`. Seeded, and decided per request in [`Injector::plan`], a
//! function of the request's number and arrival alone.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::SECOND;
use crate::rng::Stream;
use crate::units::{UnitError, parse_duration, parse_rate};

/// How long an answer is held back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Latency {
    /// Always the same.
    Constant(u64),
    /// Lognormal: median in nanoseconds and sigma of the logarithm.
    Lognormal(f64, f64),
}

/// What goes wrong, as written in `--inject`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spec {
    /// Every answer is held back.
    pub latency: Option<Latency>,
    /// Every `.1` nanoseconds, all answers stop for `.0` nanoseconds.
    pub stall: Option<(u64, u64)>,
    /// From `.1` for `.2` nanoseconds, latency is `.0` instead.
    pub slow: Option<(u64, u64, u64)>,
    /// Latency grows steadily to `.0` times what it was, over `.1` nanoseconds, and stays there.
    pub drift: Option<(f64, u64)>,
    /// Requests per second served one after another; more of them queue.
    pub capacity: Option<f64>,
    /// Requests per second; more of them are answered 503 SlowDown.
    pub rate: Option<f64>,
    /// Share answered 503 SlowDown.
    pub error: f64,
    /// Share whose connection is reset instead of answered.
    pub reset: f64,
    /// Share of answers with a body that end halfway.
    pub truncate: f64,
    /// Share of answers with a body that have one byte changed.
    pub corrupt: f64,
    /// Seed of all draws.
    pub seed: u64,
}

/// Why `--inject` was refused.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum InjectError {
    /// Not `name=value`.
    #[error("--inject '{0}' is not name=value")]
    Shape(String),
    /// No such fault.
    #[error(
        "--inject '{0}' is unknown; known are latency=5ms, latency=lognormal(5ms;0.8), stall=1s/10s, slow=100ms@20s+10s, \
         drift=2x/60s, capacity=200/s, rate=200/s, error=0.01, reset=0.01, truncate=0.01, corrupt=0.01, seed=1"
    )]
    Unknown(String),
    /// A value that does not fit.
    #[error("--inject {name}={value}: write {example}")]
    Value {
        /// Which fault.
        name: &'static str,
        /// As written.
        value: String,
        /// How to write it.
        example: &'static str,
    },
    /// A quantity that cannot be read.
    #[error("--inject: {0}")]
    Unit(#[from] UnitError),
}

impl Spec {
    /// Reads `name=value` pairs separated by commas.
    ///
    /// # Errors
    /// See [`InjectError`].
    pub fn parse(text: &str) -> Result<Spec, InjectError> {
        let mut spec = Spec::default();
        for pair in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| InjectError::Shape(pair.into()))?;
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
                "slow" => {
                    let parts = value.split_once('@').and_then(|(l, rest)| Some((l, rest.split_once('+')?)));
                    let (latency, (from, length)) =
                        parts.ok_or_else(|| wrong("slow", "slow=100ms@20s+10s"))?;
                    spec.slow =
                        Some((parse_duration(latency)?, parse_duration(from)?, parse_duration(length)?));
                }
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
                "capacity" => spec.capacity = Some(parse_rate(value)?),
                "rate" => spec.rate = Some(parse_rate(value)?),
                "error" => spec.error = share("error")?,
                "reset" => spec.reset = share("reset")?,
                "truncate" => spec.truncate = share("truncate")?,
                "corrupt" => spec.corrupt = share("corrupt")?,
                "seed" => {
                    spec.seed = value.parse().map_err(|_| wrong("seed", "a whole number, such as seed=1"))?
                }
                _ => return Err(InjectError::Unknown(pair.into())),
            }
        }
        Ok(spec)
    }
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

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// 503 SlowDown.
    SlowDown,
    /// The connection is reset.
    Reset,
    /// The body ends halfway.
    Truncate,
    /// One byte of the body is changed; the number says which, modulo its length.
    Corrupt(u64),
}

/// The decision about one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Monotonic time before which the answer does not leave.
    pub answer_at_ns: u64,
    /// What else happens.
    pub fault: Fault,
}

/// Decides, request by request.
pub struct Injector {
    spec: Spec,
    latencies: Stream,
    faults: Stream,
    count: AtomicU64,
    /// Arrival of the first request: the origin of stalls and slow stretches.
    origin_ns: AtomicU64,
    queue_ns: AtomicU64,
    tokens_ns: AtomicU64,
}

impl Injector {
    /// Begins counting at the first request.
    pub fn new(spec: Spec) -> Injector {
        Injector {
            latencies: Stream::new(spec.seed, "latency"),
            faults: Stream::new(spec.seed, "fault"),
            spec,
            count: AtomicU64::new(0),
            origin_ns: AtomicU64::new(0),
            queue_ns: AtomicU64::new(0),
            tokens_ns: AtomicU64::new(0),
        }
    }

    /// Decides about a request that arrived at `received_ns`.
    pub fn plan(&self, received_ns: u64) -> Plan {
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
            // The stall is the last part of each period, so that a run does not begin with one.
            let into = answer_at_ns.saturating_sub(origin) % every;
            if into >= every - stop {
                answer_at_ns += every - into;
            }
        }
        Plan { answer_at_ns, fault }
    }

    fn fault(&self, number: u64, received_ns: u64) -> Fault {
        let spec = &self.spec;
        if let Some(per_s) = spec.rate {
            // A token bucket of a tenth of a second, kept as the time at which it would be full.
            let (cost, depth) = ((SECOND as f64 / per_s) as u64, SECOND / 10);
            let take = |full: u64| {
                let full = full.max(received_ns);
                (full - received_ns + cost <= depth.max(cost)).then_some(full + cost)
            };
            if self.tokens_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
                return Fault::SlowDown;
            }
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
    fn latency_stall_and_slow_stretch_come_when_they_should() {
        let plan = injector("latency=5ms,stall=1s/10s,slow=100ms@20s+2s");
        let base = 7 * SECOND;
        let delay = |at: u64| plan.plan(base + at).answer_at_ns - base - at;
        assert_eq!(delay(0), 5 * MS);
        assert_eq!(delay(8_990 * MS), 5 * MS);
        assert_eq!(delay(9_000 * MS), 1_000 * MS, "the stall lasts to the end of the period");
        assert_eq!(delay(9_600 * MS), 400 * MS);
        assert_eq!(delay(20_500 * MS), 100 * MS);
        assert_eq!(delay(22_000 * MS), 5 * MS);
    }

    #[test]
    fn drift_slows_steadily_and_stays() {
        let plan = injector("latency=10ms,drift=2x/60s");
        let delay = |at: u64| plan.plan(SECOND + at).answer_at_ns - SECOND - at;
        assert_eq!([0, 30, 60, 90].map(|s| delay(s * SECOND)), [10 * MS, 15 * MS, 20 * MS, 20 * MS]);
    }

    #[test]
    fn capacity_makes_a_queue() {
        let plan = injector("capacity=100/s");
        let answers: Vec<u64> = (0..4).map(|_| plan.plan(SECOND).answer_at_ns - SECOND).collect();
        assert_eq!(answers, [10 * MS, 20 * MS, 30 * MS, 40 * MS]);
        assert_eq!(plan.plan(5 * SECOND).answer_at_ns, 5 * SECOND + 10 * MS);
    }

    #[test]
    fn a_rate_refuses_what_exceeds_it() {
        let plan = injector("rate=1000/s");
        let refused = |at: u64| (0..300).filter(|_| plan.plan(at).fault == Fault::SlowDown).count();
        assert_eq!(refused(SECOND), 200, "the bucket holds a tenth of a second");
        assert_eq!(refused(2 * SECOND), 200);
    }

    #[test]
    fn shares_are_kept_and_repeat() {
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
    fn lognormal_has_its_median() {
        let plan = injector("latency=lognormal(5ms;0.8)");
        let mut delays: Vec<u64> = (0..10_001).map(|i| plan.plan(i).answer_at_ns - i).collect();
        delays.sort_unstable();
        assert!((delays[5_000] as f64 / 5e6 - 1.0).abs() < 0.05);
    }

    #[test]
    fn mistakes_are_named() {
        let message = |text: &str| Spec::parse(text).unwrap_err().to_string();
        assert!(message("latency").contains("name=value"));
        assert!(message("jitter=1").contains("known are latency=5ms"));
        assert!(message("error=2").contains("between 0 and 1"));
        assert!(message("stall=10s/1s").contains("shorter than its period"));
        assert!(message("drift=2").contains("drift=2x/60s"));
        assert!(message("slow=1s").contains("slow=100ms@20s+10s"));
        assert!(message("latency=lognormal(5ms)").contains("SIGMA"));
    }
}
