//! Audit of measurements against the run rules: `plimsoll audit`.
//!
//! [`facts`] has what a measurement shows, whatever tool made it; `own.rs` reads it from runs of Plimsoll, `tools/`
//! from results of other tools and from published documents. [`rules`] judges it.

pub mod facts;
mod own;
pub mod rules;
#[cfg(test)]
mod tests;
pub mod tools;

use serde::Serialize;

pub use own::of_runs;

use facts::Facts;
use rules::{Outcome, RULES};

/// Outcome of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the rule.
    pub rule: &'static str,
    /// Outcome of it.
    pub outcome: Outcome,
    /// Reason for the outcome, in words.
    pub detail: String,
}

/// Outcomes of all rules for one run or file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// Name of the run or the file.
    pub subject: String,
    /// Tool that measured.
    pub tool: String,
    /// Outcomes in the order of the rules.
    pub findings: Vec<Finding>,
}

impl Audit {
    /// Returns the names of the rules with an outcome.
    pub fn rules(&self, outcome: Outcome) -> Vec<&'static str> {
        self.findings
            .iter()
            .filter(|finding| finding.outcome == outcome)
            .map(|finding| finding.rule)
            .collect()
    }

    /// Returns the answer in a sentence.
    pub fn answer(&self) -> String {
        let (violated, unknown) = (self.rules(Outcome::Violated), self.rules(Outcome::NotShown));
        let (subject, all) = (&self.subject, self.findings.len());
        let unknown_part = match unknown.len() {
            0 => String::new(),
            count => format!("does not show {count}: {}", unknown.join(", ")),
        };
        match (violated.len(), unknown.is_empty()) {
            (0, true) => format!("{subject} follows all {all} run rules"),
            (0, false) => format!("{subject} violates none of {all} run rules, but {unknown_part}"),
            (count, true) => {
                format!("{subject} violates {count} of {all} run rules: {}", violated.join(", "))
            }
            (count, false) => {
                format!(
                    "{subject} violates {count} of {all} run rules: {}; it {unknown_part}",
                    violated.join(", ")
                )
            }
        }
    }
}

/// Judges facts by all rules.
pub fn audit(facts: &Facts) -> Audit {
    let judge = |rule: &rules::AuditRule| {
        let (outcome, detail) = (rule.judge)(facts);
        Finding { rule: rule.name, outcome, detail }
    };
    Audit {
        subject: facts.subject.clone(),
        tool: facts.tool.clone(),
        findings: RULES.iter().map(judge).collect(),
    }
}
