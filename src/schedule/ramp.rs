//! Ramps: loads that rise step by step, and the rule that ends them.

/// Rule that ends a ramp before its last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The ramp ends when throughput no longer grows: see [`plateau`].
    Plateau,
    /// The ramp always runs all its steps.
    Never,
}

impl Stop {
    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Stop::Plateau => "plateau",
            Stop::Never => "never",
        }
    }

    /// Returns the rule with this name; `None` if there is none.
    pub fn from_name(name: &str) -> Option<Stop> {
        [Stop::Plateau, Stop::Never].into_iter().find(|s| s.name() == name)
    }
}

/// A rising load: operations in flight in a closed loop, operations per second in an open loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ramp {
    /// Load of the first step.
    pub from: f64,
    /// Increase of the load from one step to the next.
    pub step: f64,
    /// Maximum load, which no step exceeds.
    pub to: f64,
    /// Length of a step, in nanoseconds.
    pub every_ns: u64,
    /// Rule that ends the ramp early.
    pub stop: Stop,
}

impl Ramp {
    /// Returns the number of steps.
    pub fn steps(&self) -> u32 {
        // The small term compensates for the rounding of rates such as 0.1/s in floating point.
        1 + ((self.to - self.from) / self.step + 1e-9).floor() as u32
    }

    /// Returns the load of a step, counted from 0.
    pub fn load(&self, step: u32) -> f64 {
        self.from + self.step * f64::from(step)
    }
}

/// Reason why a ramp has reached its plateau.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plateau {
    /// The last two steps each gained less than 5%.
    NoGain,
    /// The last step fell more than 10% below the best one.
    Drop,
    /// The network link is more than 95% full.
    Link,
}

impl Plateau {
    /// Returns a description of the reason, for reports.
    pub fn describe(self) -> &'static str {
        match self {
            Plateau::NoGain => "the last two steps each gained less than 5%",
            Plateau::Drop => "the last step fell more than 10% below the best",
            Plateau::Link => "the network link was more than 95% full",
        }
    }
}

const MIN_GAIN: f64 = 0.05;
const MAX_DROP: f64 = 0.10;
const LINK_FULL: f64 = 0.95;

/// Returns the reason why a ramp has reached its plateau, given the throughputs of its steps; `None` if it has not.
/// `link` is the share of the network link that the last step used, if it is known. The rule is that of R2-bench.
pub fn plateau(throughputs: &[f64], link: Option<f64>) -> Option<Plateau> {
    let (last, before) = throughputs.split_last()?;
    if link.is_some_and(|share| share > LINK_FULL) {
        return Some(Plateau::Link);
    }
    let best = before.iter().copied().fold(0.0, f64::max);
    if *last < best * (1.0 - MAX_DROP) {
        return Some(Plateau::Drop);
    }
    let small = |pair: &[f64]| pair[1] < pair[0] * (1.0 + MIN_GAIN);
    let gains = throughputs.len() >= 3 && throughputs[throughputs.len() - 3..].windows(2).all(small);
    gains.then_some(Plateau::NoGain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_ends_a_ramp() {
        assert_eq!(plateau(&[], None), None);
        assert_eq!(plateau(&[100.0, 104.0], None), None, "one small gain is not enough");
        assert_eq!(plateau(&[100.0, 104.0, 108.0], None), Some(Plateau::NoGain));
        assert_eq!(plateau(&[100.0, 104.0, 120.0], None), None);
        assert_eq!(plateau(&[100.0, 200.0, 170.0], None), Some(Plateau::Drop));
        assert_eq!(plateau(&[100.0], Some(0.96)), Some(Plateau::Link));
        // The published c5n.9xlarge ramp of R2-bench stopped at the same step as this rule.
        assert_eq!(plateau(&[3792.27, 9839.12, 9794.84], None), None);
        assert_eq!(plateau(&[3792.27, 9839.12, 9794.84, 9711.35], None), Some(Plateau::NoGain));
    }

    #[test]
    fn steps_reach_but_do_not_exceed_the_maximum() {
        let ramp = |from, step, to| Ramp { from, step, to, every_ns: 1, stop: Stop::Never };
        assert_eq!((ramp(8.0, 32.0, 104.0).steps(), ramp(8.0, 32.0, 103.0).steps()), (4, 3));
        assert_eq!((ramp(0.1, 0.1, 0.3).steps(), ramp(5.0, 1.0, 5.0).steps()), (3, 1));
        assert_eq!(ramp(8.0, 32.0, 104.0).load(3), 104.0);
    }
}
