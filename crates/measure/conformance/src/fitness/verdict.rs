//! Results of checks, and the verdict about an application.

use serde::Serialize;

use super::application::{Application, Level};
use super::check::Check;
use super::client::Exchange;

/// Outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The store does it.
    Met,
    /// The store does something else.
    Violated,
    /// The store did not answer, or the credentials do not allow it.
    Inconclusive,
    /// The check was not executed.
    NotChecked,
}

impl Outcome {
    /// Returns the name for people.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Met => "met",
            Outcome::Violated => "not met",
            Outcome::Inconclusive => "inconclusive",
            Outcome::NotChecked => "not checked",
        }
    }
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckResult {
    /// Check that was executed.
    pub check: Check,
    /// Outcome of it.
    pub outcome: Outcome,
    /// Observation, in a sentence.
    pub detail: String,
    /// Exchanges that show the violation, in the order of their starts; empty for other outcomes.
    pub exchanges: Vec<Exchange>,
    /// Number of earlier exchanges that are left out.
    pub left_out: usize,
    /// Duration of the check, in seconds.
    pub duration_s: f64,
}

impl CheckResult {
    /// Returns the result of a check that is yet to be executed.
    pub fn of(check: Check) -> CheckResult {
        CheckResult {
            check,
            outcome: Outcome::NotChecked,
            detail: String::new(),
            exchanges: Vec::new(),
            left_out: 0,
            duration_s: 0.0,
        }
    }
}

/// Verdict about a store and an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fitness {
    /// The store meets all that the application requires.
    Fit,
    /// The store violates a requirement.
    Unfit,
    /// No requirement is violated, but a check of one gave no result.
    Inconclusive,
}

impl Fitness {
    /// Returns the name for people.
    pub fn name(self) -> &'static str {
        match self {
            Fitness::Fit => "fit",
            Fitness::Unfit => "unfit",
            Fitness::Inconclusive => "inconclusive",
        }
    }
}

/// Verdict with the requirements that decide it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Name of the application.
    pub application: String,
    /// Name of it for people.
    pub title: String,
    /// Verdict about it.
    pub fitness: Fitness,
    /// Required checks, and those of them that passed.
    pub required: (usize, usize),
    /// Required checks that the store violates.
    pub violated: Vec<Check>,
    /// Required checks without a result.
    pub unknown: Vec<Check>,
    /// Recommended checks that the store violates.
    pub not_recommended: Vec<Check>,
}

/// Judges a store for an application from the results of its checks.
pub fn judge(application: &Application, results: &[CheckResult]) -> Verdict {
    let outcome = |check: Check| {
        results
            .iter()
            .find(|result| result.check == check)
            .map_or(Outcome::NotChecked, |result| result.outcome)
    };
    let select = |level: Level, wanted: &[Outcome]| -> Vec<Check> {
        let of_level = application.requirements.iter().filter(|requirement| requirement.level == level);
        of_level.map(|one| one.check).filter(|check| wanted.contains(&outcome(*check))).collect()
    };
    let violated = select(Level::Required, &[Outcome::Violated]);
    let unknown = select(Level::Required, &[Outcome::Inconclusive, Outcome::NotChecked]);
    let met = select(Level::Required, &[Outcome::Met]).len();
    Verdict {
        application: application.name.clone(),
        title: application.title.clone(),
        fitness: match (violated.is_empty(), unknown.is_empty()) {
            (false, _) => Fitness::Unfit,
            (true, false) => Fitness::Inconclusive,
            (true, true) => Fitness::Fit,
        },
        required: (met + violated.len() + unknown.len(), met),
        violated,
        unknown,
        not_recommended: select(Level::Recommended, &[Outcome::Violated]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::application::applications;
    use super::*;

    #[test]
    fn one_violation_makes_a_store_unfit_and_one_unknown_inconclusive() {
        let application = &applications(&["opentofu".into()]).unwrap()[0];
        let results = |changed: &[(Check, Outcome)]| -> Vec<CheckResult> {
            let all = application.requirements.iter().map(|requirement| CheckResult {
                outcome: Outcome::Met,
                ..CheckResult::of(requirement.check)
            });
            all.map(|result| {
                let other = changed.iter().find(|(check, _)| *check == result.check);
                CheckResult { outcome: other.map_or(result.outcome, |(_, outcome)| *outcome), ..result }
            })
            .collect()
        };
        let fitness = |changed: &[(Check, Outcome)]| judge(application, &results(changed)).fitness;
        assert_eq!(fitness(&[]), Fitness::Fit);
        assert_eq!(fitness(&[(Check::CreateOnce, Outcome::Inconclusive)]), Fitness::Inconclusive);
        let both = [(Check::CreateOnce, Outcome::Inconclusive), (Check::MissingObject, Outcome::Violated)];
        assert_eq!(fitness(&both), Fitness::Unfit);
        let recommended = judge(application, &results(&[(Check::Versioning, Outcome::Violated)]));
        assert_eq!(
            (recommended.fitness, recommended.not_recommended),
            (Fitness::Fit, vec![Check::Versioning])
        );
        assert_eq!(judge(application, &[]).fitness, Fitness::Inconclusive);
    }
}
