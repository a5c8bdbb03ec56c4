//! The rule that ends a ramp at its plateau: throughput no longer grows, falls, or fills the network link.

use serde::{Deserialize, Serialize};

/// Reason why a ramp has reached its plateau.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plateau {
    /// The last two steps each gained less than [`MIN_GAIN`].
    NoGain,
    /// The last step fell below the best one by more than [`MAX_DROP`].
    Drop,
    /// The network link is fuller than [`LINK_FULL`].
    Link,
}

impl Plateau {
    /// Returns a description of the reason, for reports.
    pub fn describe(self) -> String {
        let percent = |share: f64| format!("{:.0}%", 100.0 * share);
        match self {
            Plateau::NoGain => format!("the last two steps each gained less than {}", percent(MIN_GAIN)),
            Plateau::Drop => format!("the last step fell more than {} below the best", percent(MAX_DROP)),
            Plateau::Link => format!("the network link was more than {} full", percent(LINK_FULL)),
        }
    }
}

/// Least gain of a step, as a share of the step before it.
pub const MIN_GAIN: f64 = 0.05;
/// Largest loss of the last step, as a share of the best step.
pub const MAX_DROP: f64 = 0.10;
/// Share of the network link above which the link, not the store, ends the ramp.
pub const LINK_FULL: f64 = 0.95;

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
    fn reasons_state_the_limits_of_the_rule() {
        assert_eq!(Plateau::NoGain.describe(), "the last two steps each gained less than 5%");
        assert_eq!(Plateau::Drop.describe(), "the last step fell more than 10% below the best");
        assert_eq!(Plateau::Link.describe(), "the network link was more than 95% full");
    }
}
