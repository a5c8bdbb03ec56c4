//! Intended start times of an open loop: evenly spaced, or a Poisson process. The same seed gives the same times.

use crate::clock::SECOND;
use crate::rng::Stream;

/// Distribution of the intended start times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// One operation every `1 / rate` seconds.
    Constant,
    /// Exponentially distributed gaps of mean `1 / rate` seconds.
    Poisson,
}

impl Arrival {
    /// Returns the name used in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Arrival::Constant => "constant",
            Arrival::Poisson => "poisson",
        }
    }

    /// Returns the distribution with this name; `None` if there is none.
    pub fn from_name(name: &str) -> Option<Arrival> {
        [Arrival::Constant, Arrival::Poisson].into_iter().find(|a| a.name() == name)
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
}

impl Arrivals {
    /// Creates the intended times of phase `phase` at `rate_per_s` operations per second. Operation `first` is the
    /// first of the phase run, from whose start the times count.
    pub fn new(arrival: Arrival, rate_per_s: f64, seed: u64, phase: &str, first: u64) -> Arrivals {
        let gaps = Stream::new(seed, &format!("arrivals/{phase}"));
        Arrivals { arrival, gap_ns: SECOND as f64 / rate_per_s, gaps, first, number: first, at_ns: 0.0 }
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
