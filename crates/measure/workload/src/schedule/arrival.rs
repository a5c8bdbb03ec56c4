//! Intended start times of an open loop: evenly spaced, or a Poisson process. The same seed gives the same times.

use std::sync::Arc;

use super::pace::Pace;
use super::{Load, Phase};
use crate::cdf::Cdf;
use crate::scatter::Scatter;
use crate::trace::Trace;
use plimsoll_base::clock::SECOND;
use plimsoll_base::rng::Stream;

/// Distribution of the intended start times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// One operation every `1 / rate` seconds.
    Constant,
    /// Exponentially distributed gaps of mean `1 / rate` seconds.
    Poisson,
    /// Gaps with a cumulative distribution function.
    Gaps,
    /// Times of the recorded requests that the phase repeats.
    Recorded,
}

impl Arrival {
    /// Returns the name used in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Arrival::Constant => "constant",
            Arrival::Poisson => "poisson",
            Arrival::Gaps => "gaps",
            Arrival::Recorded => "recorded",
        }
    }

    /// Returns the distribution with this name; `None` if there is none.
    pub fn from_name(name: &str) -> Option<Arrival> {
        [Arrival::Constant, Arrival::Poisson].into_iter().find(|a| a.name() == name)
    }
}

/// Gaps between the intended start times of an open loop.
#[derive(Debug, Clone, PartialEq)]
pub struct Gaps {
    /// Distribution of the gaps; only their ratio to the mean matters.
    pub cdf: Cdf,
    /// Rate over time; `None` if it is constant.
    pub pace: Option<Pace>,
}

/// Gaps with what is computed from them once.
#[derive(Debug, Clone)]
struct Distribution {
    gaps: Gaps,
    mean: f64,
    /// Permutation of the gaps of all slices of a pace, and their number: all slices together have exactly the gaps of
    /// the distribution, so that the number of operations does not vary.
    turns: Option<(Scatter, u64)>,
}

impl Distribution {
    fn new(gaps: &Gaps, arrivals: &Arrivals) -> Distribution {
        let turns = gaps.pace.as_ref().map(|pace| {
            let length_ns = pace.every_ns() as f64 * pace.rates().len() as f64;
            let count = ((length_ns / arrivals.gap_ns).round() as u64).max(1);
            (Scatter::new(count, arrivals.gaps.at(0)), count)
        });
        Distribution { gaps: gaps.clone(), mean: gaps.cdf.mean(), turns }
    }
}

/// Iterator over the intended start times of a phase, in ascending order, in nanoseconds since the start of the
/// phase run.
///
/// Every worker iterates over the whole sequence and takes its share, so the times do not depend on the number of
/// workers.
#[derive(Debug, Clone)]
pub struct Arrivals {
    arrival: Arrival,
    gap_ns: f64,
    gaps: Stream,
    first: u64,
    number: u64,
    at_ns: f64,
    /// Gaps of [`Arrival::Gaps`].
    distribution: Option<Distribution>,
    trace: Option<Arc<Trace>>,
}

impl Arrivals {
    /// Creates the intended times of phase `phase` at `rate_per_s` operations per second. Operation `first` is the
    /// first of the phase run, from whose start the times count.
    pub fn new(arrival: Arrival, rate_per_s: f64, seed: u64, phase: &str, first: u64) -> Arrivals {
        let gaps = Stream::new(seed, &format!("arrivals/{phase}"));
        Arrivals {
            arrival,
            gap_ns: SECOND as f64 / rate_per_s,
            gaps,
            first,
            number: first,
            at_ns: 0.0,
            distribution: None,
            trace: None,
        }
    }

    /// Creates the intended times of a phase, as [`Arrivals::new`]; `None` for a closed loop.
    pub fn of(phase: &Phase, first: u64) -> Option<Arrivals> {
        let Load::Open { rate_per_s, arrival, .. } = phase.load else { return None };
        let arrivals = Arrivals::new(arrival, rate_per_s, phase.workload.seed, &phase.name, first);
        let trace = phase.workload.recording.as_ref().map(|recording| Arc::clone(&recording.trace));
        let distribution = phase.gaps.as_ref().map(|gaps| Distribution::new(gaps, &arrivals));
        Some(Arrivals { trace, distribution, ..arrivals })
    }
}

impl Iterator for Arrivals {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let at = match self.arrival {
            // Multiplication instead of repeated addition, so that rounding errors do not add up in a long run.
            Arrival::Constant => (self.number - self.first) as f64 * self.gap_ns,
            Arrival::Poisson => {
                self.at_ns += self.gaps.exponential(self.number) * self.gap_ns;
                self.at_ns
            }
            Arrival::Gaps => {
                let Distribution { gaps, mean, turns } = self.distribution.as_ref()?;
                let share = match turns {
                    Some((turns, count)) => (turns.at(self.number % count) as f64 + 0.5) / *count as f64,
                    None => self.gaps.unit(self.number),
                };
                let gap = gaps.cdf.at(share) / mean * self.gap_ns;
                self.at_ns = match &gaps.pace {
                    Some(pace) => pace.advance(self.at_ns, gap),
                    None => self.at_ns + gap,
                };
                self.at_ns
            }
            Arrival::Recorded => {
                let requests = self.trace.as_ref()?.requests();
                let at = requests.get(self.number as usize)?.at_ns;
                self.number += 1;
                return Some(at);
            }
        };
        self.number += 1;
        Some(at.round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_arrivals_do_not_drift() {
        let mut arrivals = Arrivals::new(Arrival::Constant, 3.0, 1, "p", 0);
        assert_eq!(arrivals.by_ref().take(4).collect::<Vec<_>>(), [0, 333_333_333, 666_666_667, SECOND]);
        assert_eq!(arrivals.nth(2_999_999 - 4), Some(999_999_666_666_667));
    }

    #[test]
    fn poisson_arrivals_have_rate_and_variance() {
        let times: Vec<u64> = Arrivals::new(Arrival::Poisson, 1_000.0, 7, "p", 0).take(100_000).collect();
        assert!(times.windows(2).all(|w| w[0] <= w[1]));
        let span_s = *times.last().unwrap() as f64 / SECOND as f64;
        assert!((span_s - 100.0).abs() < 1.0, "{span_s}");
        // Counts per 10 ms of a Poisson process have variance equal to their mean.
        let mut counts = vec![0f64; 9_900];
        times
            .iter()
            .filter_map(|t| usize::try_from(t / 10_000_000).ok())
            .filter(|c| *c < 9_900)
            .for_each(|c| counts[c] += 1.0);
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / counts.len() as f64;
        assert!((variance / mean - 1.0).abs() < 0.06, "{variance} / {mean}");
    }

    #[test]
    fn the_seed_determines_the_times() {
        let times = |seed| Arrivals::new(Arrival::Poisson, 10.0, seed, "p", 0).take(10).collect::<Vec<_>>();
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
    }
}
