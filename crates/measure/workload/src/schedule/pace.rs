//! Rate of an open loop that varies over time: bursts, and quiet and busy hours.

use std::sync::Arc;

/// Rates of successive slices of time, which repeat after the last one.
#[derive(Debug, Clone, PartialEq)]
pub struct Pace {
    /// Length of a slice, in nanoseconds.
    every_ns: u64,
    /// Rate of each slice; the mean is 1.
    rates: Arc<[f64]>,
}

impl Pace {
    /// Creates a pace from the length of a slice in nanoseconds, and relative rates.
    ///
    /// # Errors
    /// A message if there are no rates, if one is negative or not finite, or if all are 0.
    pub fn new(every_ns: u64, rates: &[f64]) -> Result<Pace, String> {
        let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
        let valid = rates.iter().all(|rate| rate.is_finite() && *rate >= 0.0) && mean.is_normal();
        if every_ns == 0 || !valid {
            return Err("the slices must be longer than 0, and the rates at least 0 and not all 0".into());
        }
        Ok(Pace { every_ns, rates: rates.iter().map(|rate| rate / mean).collect() })
    }

    /// Returns the length of a slice, in nanoseconds.
    pub fn every_ns(&self) -> u64 {
        self.every_ns
    }

    /// Returns the rate of each slice. Their mean is 1.
    pub fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// Returns the time after `from_ns` at which `work_ns` has passed at the rates of the slices: a slice with rate 2
    /// passes twice its length.
    pub fn advance(&self, from_ns: f64, work_ns: f64) -> f64 {
        let every = self.every_ns as f64;
        let whole = every * self.rates.len() as f64;
        // All slices together pass their length.
        let mut at = from_ns + (work_ns / whole).floor() * whole;
        let mut left = work_ns % whole;
        let mut slice = (at / every) as u64;
        loop {
            let rate = self.rates[(slice % self.rates.len() as u64) as usize];
            let end = (slice + 1) as f64 * every;
            let possible = rate * (end - at).max(0.0);
            if possible >= left && rate > 0.0 {
                return at + left / rate;
            }
            (left, at, slice) = (left - possible, end, slice + 1);
        }
    }

    /// Returns the work that has passed by `at_ns`: the inverse of [`Pace::advance`] from 0.
    pub fn work_at(&self, at_ns: f64) -> f64 {
        let (every, count) = (self.every_ns as f64, self.rates.len());
        let slices = (at_ns / every) as usize;
        let passed: f64 = self.rates[..slices % count].iter().sum();
        let before = (slices / count * count) as f64 + passed;
        every * before + self.rates[slices % count] * (at_ns - slices as f64 * every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_at_the_rates_of_the_slices() {
        // Rates 3, 0 and 0 of slices of 10: 30 pass in the first one, none in the others.
        let pace = Pace::new(10, &[3.0, 0.0, 0.0]).unwrap();
        assert_eq!(pace.advance(0.0, 15.0), 5.0);
        assert_eq!(pace.advance(5.0, 30.0), 35.0);
        assert_eq!(pace.advance(0.0, 95.0), 95.0 - 5.0 + 5.0 / 3.0);
        assert_eq!((pace.work_at(5.0), pace.work_at(25.0), pace.work_at(35.0)), (15.0, 30.0, 45.0));
        let steady = Pace::new(10, &[7.0]).unwrap();
        assert_eq!(
            (steady.rates(), steady.advance(3.0, 40.0), steady.work_at(43.0)),
            (&[1.0][..], 43.0, 43.0)
        );
    }

    #[test]
    fn rates_without_a_positive_mean_are_refused() {
        for rates in [&[][..], &[0.0], &[-1.0, 2.0], &[f64::NAN], &[f64::INFINITY]] {
            assert!(Pace::new(10, rates).is_err(), "{rates:?}");
        }
        assert!(Pace::new(0, &[1.0]).is_err());
    }
}
