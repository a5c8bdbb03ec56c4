//! Repeated measurement of the best concurrency, until its throughput is precise.

use super::change::differ;
use super::step::DISTURBED_SHARE;
use plimsoll_judge::summary::student::t_quantile;

/// Number of steps from which a mean has an interval.
const MIN_STEPS: usize = 3;
/// Number of steps after which the measurement ends in any case.
const MAX_STEPS: usize = 8;
/// Half-width of the interval, as a share of the mean, at which the measurement ends.
const PRECISION: f64 = 0.01;
/// Share of the survey's throughput below which the survey's step was an outlier.
const OUTLIER: f64 = 0.9;
/// Gain of another concurrency over the upper end of the interval, as a share, above which it must be measured too.
const BETTER: f64 = 0.05;
/// Maximum number of disturbed steps that are left out.
const MAX_SKIPPED_STEPS: u32 = 4;

/// Number of steps in a row that show a change of the store.
const CHANGED_STEPS: usize = 2;

/// Consequence of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Noted {
    /// It counts, or it was left out.
    Recorded,
    /// The step of the survey was an outlier; the value is the mean throughput.
    Outlier(f64),
    /// The store has another throughput than before.
    Changed,
}

/// Steps at the best concurrency of a survey.
pub struct Plateau {
    /// Number of operations in flight.
    pub concurrency: usize,
    /// Throughput of each step in operations per second.
    per_s: Vec<f64>,
    /// Length of these steps in seconds.
    held_s: f64,
    skipped_steps: u32,
    /// Shares of the time for which the client paused in the recorded steps that it disturbed.
    disturbed: Vec<f64>,
}

impl Plateau {
    /// Creates a measurement without steps.
    pub fn new(concurrency: usize) -> Plateau {
        Plateau { concurrency, per_s: Vec::new(), held_s: 0.0, skipped_steps: 0, disturbed: Vec::new() }
    }

    /// Records a step of a length in seconds, during which the client paused for a share of the time. Steps with a
    /// disturbed client are left out, up to [`MAX_SKIPPED_STEPS`] of them. `surveyed_per_s` is the throughput in the
    /// survey.
    pub fn note(&mut self, per_s: f64, length_s: f64, paused_share: f64, surveyed_per_s: f64) -> Noted {
        let disturbed = paused_share > DISTURBED_SHARE;
        if disturbed && self.skipped_steps < MAX_SKIPPED_STEPS {
            self.skipped_steps += 1;
            return Noted::Recorded;
        }
        self.disturbed.extend(disturbed.then_some(paused_share));
        self.per_s.push(per_s);
        self.held_s += length_s;
        let before = self.per_s.len().saturating_sub(CHANGED_STEPS);
        let (earlier, last) = self.per_s.split_at(before);
        let earlier = if earlier.is_empty() { &[surveyed_per_s] } else { earlier };
        if self.disturbed.is_empty() && last.len() == CHANGED_STEPS && differ(earlier, last) {
            return Noted::Changed;
        }
        match self.mean() {
            Some(mean) if self.per_s.len() == 2 && mean < OUTLIER * surveyed_per_s => Noted::Outlier(mean),
            _ => Noted::Recorded,
        }
    }

    /// Records the long step that confirms the throughput. It is not one of the samples of the interval.
    pub fn hold(&mut self, per_s: f64, length_s: f64, disturbed: bool) -> Noted {
        if !disturbed && self.mean().is_some_and(|mean| differ(&[mean], &[per_s])) {
            return Noted::Changed;
        }
        self.held_s += length_s;
        Noted::Recorded
    }

    /// Returns the length in seconds of the steps that count.
    pub fn held_s(&self) -> f64 {
        self.held_s
    }

    /// Returns the mean throughput in operations per second; `None` without a step.
    pub fn mean(&self) -> Option<f64> {
        (!self.per_s.is_empty()).then(|| self.per_s.iter().sum::<f64>() / self.per_s.len() as f64)
    }

    /// Returns the mean share of the time for which the client paused, if it disturbed at least half of the steps, so
    /// that the throughput is that of the client; otherwise `None`.
    pub fn paused_share(&self) -> Option<f64> {
        let n = self.disturbed.len();
        (n > 0 && 2 * n >= self.per_s.len()).then(|| self.disturbed.iter().sum::<f64>() / n as f64)
    }

    /// Returns the 95% confidence interval of the mean, with the steps as independent samples; `None` if there are too
    /// few.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let (n, mean) = (self.per_s.len(), self.mean()?);
        if n < MIN_STEPS {
            return None;
        }
        let variance = self.per_s.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
        let half = t_quantile((n - 1) as f64) * (variance / n as f64).sqrt();
        Some(((mean - half).max(0.0), mean + half))
    }

    /// Returns true if `per_s`, the throughput of another concurrency, is so much higher that it must be measured too.
    pub fn is_below(&self, per_s: f64) -> bool {
        self.interval().is_some_and(|(_, high)| per_s > high * (1.0 + BETTER))
    }

    /// Returns true if the interval is narrow enough, or if there are enough steps.
    pub fn is_precise(&self) -> bool {
        let half = |(low, high): (f64, f64)| (high - low) / 2.0;
        let narrow =
            self.interval().zip(self.mean()).is_some_and(|(ends, mean)| half(ends) <= PRECISION * mean);
        narrow || self.per_s.len() >= MAX_STEPS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_students_t() {
        let mut plateau = Plateau::new(8);
        for per_s in [98.0, 100.0, 102.0] {
            assert_eq!(plateau.note(per_s, 10.0, 0.0, 100.0), Noted::Recorded);
        }
        let (low, high) = plateau.interval().unwrap();
        // The quantile of t with 2 degrees of freedom is 4.303, and the standard error is 2 / sqrt(3).
        assert!(
            (low - (100.0 - 4.303 * 2.0 / 3f64.sqrt())).abs() < 0.01 && (high + low - 200.0).abs() < 1e-9
        );
        assert!(!plateau.is_precise());
        let mut steady = Plateau::new(8);
        (0..3).for_each(|_| assert_eq!(steady.note(100.0, 10.0, 0.0, 100.0), Noted::Recorded));
        assert!(steady.is_precise());
        assert_eq!(steady.held_s(), 30.0);
    }

    #[test]
    fn disturbed_steps_are_left_out_and_outliers_of_the_survey_are_found() {
        let mut plateau = Plateau::new(8);
        assert_eq!(plateau.note(10.0, 10.0, 0.2, 100.0), Noted::Recorded);
        assert_eq!(plateau.mean(), None);
        assert_eq!(plateau.note(84.0, 10.0, 0.0, 100.0), Noted::Recorded);
        assert_eq!(plateau.note(86.0, 10.0, 0.0, 100.0), Noted::Outlier(85.0));
    }

    /// Regression test: burst credits that ran out gave a mean of 1470/s and 150/s.
    #[test]
    fn two_steps_at_another_level_show_a_change() {
        let mut plateau = Plateau::new(8);
        assert_eq!(plateau.note(1500.0, 10.0, 0.0, 1470.0), Noted::Recorded);
        assert_eq!(plateau.note(1400.0, 10.0, 0.0, 1470.0), Noted::Recorded);
        assert_eq!(plateau.note(150.0, 10.0, 0.0, 1470.0), Noted::Recorded);
        assert_eq!(plateau.note(151.0, 10.0, 0.0, 1470.0), Noted::Changed);
    }

    /// Regression test: a client that was stopped for 13% of the time reported a capacity that was 13% too low.
    #[test]
    fn a_client_that_is_disturbed_in_most_steps_hides_the_capacity() {
        let mut plateau = Plateau::new(8);
        (0..MAX_SKIPPED_STEPS)
            .for_each(|_| assert_eq!(plateau.note(87.0, 10.0, 0.13, 88.0), Noted::Recorded));
        assert_eq!((plateau.mean(), plateau.paused_share()), (None, None));
        plateau.note(87.0, 10.0, 0.13, 88.0);
        assert_eq!(plateau.paused_share(), Some(0.13));
        (0..2).for_each(|_| assert_eq!(plateau.note(100.0, 10.0, 0.0, 88.0), Noted::Recorded));
        assert_eq!(plateau.paused_share(), None, "one of three steps");
    }
}
