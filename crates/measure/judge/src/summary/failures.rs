//! Failures of two sides of a comparison. Latencies and rates are those of successful operations, and say nothing about
//! the failed ones.

use serde::Serialize;

use super::series::{LatencyKind, Of, Series};

/// Difference of two shares of failures, in standard errors, above which it is not chance (probability 0.0027).
const BEYOND_CHANCE: f64 = 3.0;

/// Share of failures that is stated even if both sides have it.
const STATED: f64 = 0.01;

/// Failures of one side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Failures {
    /// Operations that failed, or were given up.
    pub failed: u64,
    /// All operations, the failed ones included.
    pub operations: u64,
    /// Variance of the failures per second as a multiple of that of independent failures, at least 1: failures that
    /// come together say less than as many that do not.
    #[serde(skip)]
    pub dispersion: f64,
}

impl Failures {
    /// Counts the failures in all series of one side.
    pub fn of<'a>(side: impl IntoIterator<Item = &'a Series>) -> Failures {
        let (mut failed, mut operations) = (Vec::new(), Vec::new());
        for series in side {
            let which = if series.open { LatencyKind::Response } else { LatencyKind::Service };
            let latency = series.latency(which, Of::All);
            for (succeeded, beyond) in latency.seconds.iter().zip(&latency.beyond) {
                failed.push(*beyond as f64);
                operations.push((succeeded.len() + beyond) as f64);
            }
        }
        let (sum, all): (f64, f64) = (failed.iter().sum(), operations.iter().sum());
        let share = sum / all.max(1.0);
        let squares: f64 = failed.iter().zip(&operations).map(|(f, n)| (f - share * n).powi(2)).sum();
        let independent = all * share * (1.0 - share);
        let dispersion = if independent > 0.0 { (squares / independent).max(1.0) } else { 1.0 };
        Failures { failed: sum as u64, operations: all as u64, dispersion }
    }

    /// Returns the share of failures, from 0 to 1.
    pub fn share(&self) -> f64 {
        self.failed as f64 / self.operations.max(1) as f64
    }

    /// Returns true if this side failed a larger share than the other one, beyond chance.
    pub fn exceed(&self, other: &Failures) -> bool {
        let (a, b) = (self.operations as f64, other.operations as f64);
        if a == 0.0 || b == 0.0 {
            return false;
        }
        let together = (self.failed + other.failed) as f64 / (a + b);
        let dispersion = self.dispersion.max(other.dispersion).max(1.0);
        let variance = dispersion * together * (1.0 - together) * (1.0 / a + 1.0 / b);
        let difference = self.share() - other.share();
        difference > 0.0 && (variance == 0.0 || difference > BEYOND_CHANCE * variance.sqrt())
    }

    /// Returns the share in words: `40%`, `0.02%`, or `all`.
    fn words(&self) -> String {
        match (self.failed, self.operations - self.failed, 100.0 * self.share()) {
            (0, ..) => "0%".into(),
            (_, 0, _) => "all".into(),
            (_, _, percent) if percent >= 99.5 => format!("{percent:.2}%"),
            (_, _, percent) if percent >= 9.95 => format!("{percent:.0}%"),
            (_, _, percent) if percent >= 0.095 => format!("{percent:.1}%"),
            (_, _, percent) => format!("{percent:.2}%"),
        }
    }
}

/// Failures of one kind of operation on both sides of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailurePair {
    /// Phase and kind of operation, such as `get` or `read get`.
    pub place: String,
    /// Failures of the base.
    pub base: Failures,
    /// Failures of the other side.
    pub other: Failures,
}

impl FailurePair {
    /// Returns true if the failures of both sides differ beyond chance.
    pub fn differs(&self) -> bool {
        self.base.exceed(&self.other) || self.other.exceed(&self.base)
    }

    /// Returns true if one side has no successful operation, so that its speed is not known.
    pub fn is_total(&self) -> bool {
        [self.base, self.other].iter().any(|side| side.operations > 0 && side.failed == side.operations)
    }

    /// Describes failures that differ beyond chance, or that are many on both sides, such as `b failed 40% of its get
    /// operations (a: 0%)`; `None` for other failures. `names` has the names of the base and of the other side.
    pub fn describe(&self, names: [&str; 2]) -> Option<String> {
        let [first, second] = names;
        let (base, other) = (self.base.words(), self.other.words());
        let (worse, share, better, least) = match self.base.exceed(&self.other) {
            true => (first, base, second, other),
            false if self.differs() => (second, other, first, base),
            false if self.base.share().max(self.other.share()) >= STATED => (first, base, second, other),
            false => return None,
        };
        Some(format!("{worse} failed {share} of its {} operations ({better}: {least})", self.place))
    }
}

/// Returns a verdict about speed after the failures of both sides, if they differ beyond chance or are many. `main` is
/// the place of the verdict; if nothing succeeded there on one side, the failures alone are the answer.
pub fn before(verdict: String, main: &str, pairs: &[FailurePair], names: [&str; 2]) -> String {
    let stated = pairs.iter().filter_map(|pair| pair.describe(names)).collect();
    let is_total = pairs.iter().any(|pair| pair.place == main && pair.is_total());
    after_failures(stated, is_total, verdict)
}

/// Returns a verdict about speed after descriptions of failures. With `is_total`, nothing succeeded on one side, and
/// the verdict is left out.
pub(super) fn after_failures(mut stated: Vec<String>, is_total: bool, verdict: String) -> String {
    if stated.is_empty() {
        return verdict;
    }
    if stated.len() > MOST_STATED {
        let more = stated.len() - MOST_STATED;
        stated.truncate(MOST_STATED);
        stated.push(format!("{more} more with failures"));
    }
    let stated = stated.join("; ");
    if is_total { stated } else { format!("{stated}; for the others, {verdict}") }
}

/// Maximum number of operations whose failures are in a first line.
const MOST_STATED: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::series::Second;
    use plimsoll_base::rng::Stream;
    use plimsoll_recorder::sparse::bucket_of;

    /// Returns 20 seconds of 100 operations with these numbers of failures.
    fn side(failed: impl Fn(u64) -> u64) -> Failures {
        let second = |s: u64| Second {
            second: s,
            time_s: 1.0,
            operations: 100,
            failed: failed(s),
            service: [(bucket_of(1000) as u16, (100 - failed(s)) as u32)].into_iter().collect(),
            ..Second::default()
        };
        Failures::of([&Series { seconds: (0..20).map(second).collect(), ..Series::default() }])
    }

    fn draws(share: f64, seed: u64) -> Failures {
        let draws = Stream::new(seed, "failures");
        side(|s| (0..100).filter(|i| draws.unit(s * 100 + i) < share).count() as u64)
    }

    #[test]
    fn equal_shares_do_not_differ_and_others_do() {
        let differ = |a: Failures, b: Failures| a.exceed(&b) || b.exceed(&a);
        let wrong = (0..300).filter(|seed| differ(draws(0.05, 2 * seed), draws(0.05, 2 * seed + 1))).count();
        assert!(wrong <= 4, "{wrong} of 300");
        assert!((0..50).all(|seed| draws(0.1, 2 * seed).exceed(&draws(0.02, 2 * seed + 1))));
        assert!(side(|_| 100).exceed(&side(|_| 0)) && side(|_| 0) != side(|_| 100));
        assert!(!side(|_| 0).exceed(&side(|_| 0)) && !side(|_| 100).exceed(&side(|_| 100)));
        // Ten failures in one second are one event.
        assert!(!side(|s| 10 * u64::from(s == 7)).exceed(&side(|_| 0)));
        assert!(side(|s| u64::from(s < 12)).exceed(&side(|_| 0)));
    }

    #[test]
    fn failures_come_before_the_verdict() {
        let pair = |base, other| FailurePair { place: "get".into(), base, other };
        let said = |base, other| before("b is faster".into(), "get", &[pair(base, other)], ["a", "b"]);
        let failed = said(side(|_| 0), side(|_| 40));
        assert_eq!(failed, "b failed 40% of its get operations (a: 0%); for the others, b is faster");
        assert_eq!(said(side(|_| 100), side(|_| 5)), "a failed all of its get operations (b: 5.0%)");
        let both = said(side(|_| 50), side(|_| 50));
        assert_eq!(both, "a failed 50% of its get operations (b: 50%); for the others, b is faster");
        assert_eq!(said(side(|s| u64::from(s == 3)), side(|_| 0)), "b is faster");
    }
}
