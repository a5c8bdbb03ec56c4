//! Intended times of an open loop: evenly spaced, or a Poisson process. Both are functions of the seed alone.

use crate::clock::SECOND;
use crate::rng::Stream;

/// How intended times are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// One operation every `1 / rate` seconds.
    Constant,
    /// Exponentially distributed gaps of mean `1 / rate` seconds.
    Poisson,
}

impl Arrival {
    /// Name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Arrival::Constant => "constant",
            Arrival::Poisson => "poisson",
        }
    }

    /// The arrival of that name.
    pub fn from_name(name: &str) -> Option<Arrival> {
        [Arrival::Constant, Arrival::Poisson].into_iter().find(|a| a.name() == name)
    }
}

/// The intended times of a phase, in order: an iterator over nanoseconds since the phase's start.
///
/// Every worker walks the whole sequence and takes its share of it, so the times do not depend on how many
/// workers there are.
#[derive(Debug, Clone)]
pub struct Arrivals {
    arrival: Arrival,
    gap_ns: f64,
    gaps: Stream,
    first: u64,
    number: u64,
    at_ns: f64,
}

impl Arrivals {
    /// Intended times of phase `phase` at `rate_per_s`, from operation `first` on; times count from the phase run that begins with it.
    pub fn new(arrival: Arrival, rate_per_s: f64, seed: u64, phase: &str, first: u64) -> Arrivals {
        let gaps = Stream::new(seed, &format!("arrivals/{phase}"));
        Arrivals { arrival, gap_ns: SECOND as f64 / rate_per_s, gaps, first, number: first, at_ns: 0.0 }
    }
}

impl Iterator for Arrivals {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let at = match self.arrival {
            // Multiplied, not added up, so that a long run does not drift.
            Arrival::Constant => (self.number - self.first) as f64 * self.gap_ns,
            Arrival::Poisson => {
                self.at_ns += self.gaps.exponential(self.number) * self.gap_ns;
                self.at_ns
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
    fn the_seed_decides() {
        let times = |seed| Arrivals::new(Arrival::Poisson, 10.0, seed, "p", 0).take(10).collect::<Vec<_>>();
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
    }
}
