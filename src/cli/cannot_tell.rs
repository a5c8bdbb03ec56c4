//! `--cannot-tell`: the exit code of objectives that the figures cannot decide, for `check` and `compare --fail-if`.

use clap::ValueEnum;

use super::exit::Exit;
use crate::summary::objective::ObjectiveResult;

/// The meaning of an objective that cannot be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CannotTell {
    /// A failure: the run did not show that the objective holds
    Fail,
    /// Passed
    Pass,
}

impl CannotTell {
    /// Decides the exit code of a command that checked all of `outcomes`. `what` names one of them, such as `objective`; `failure`
    /// is the message for a number of failed ones.
    ///
    /// # Errors
    /// 1 when one failed, or cannot be told and counts as a failure.
    pub fn conclude(
        self,
        outcomes: impl Iterator<Item = ObjectiveResult> + Clone,
        what: &str,
        failure: impl Fn(usize) -> String,
    ) -> Result<(), Exit> {
        let count = |outcome: ObjectiveResult| outcomes.clone().filter(|o| *o == outcome).count();
        let (failed, open) = (count(ObjectiveResult::Fail), count(ObjectiveResult::CannotTell));
        if failed > 0 {
            return Err(Exit::check(failure(failed)));
        }
        if open > 0 && self == CannotTell::Fail {
            let plural = if open == 1 { "" } else { "s" };
            return Err(Exit::check(format!(
                "{open} {what}{plural} cannot be told to be met; measure longer, or add --cannot-tell pass"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_and_fail_if_treat_cannot_tell_alike() {
        use ObjectiveResult::{CannotTell as Open, Fail, Pass};
        let code = |policy: CannotTell, outcomes: &[ObjectiveResult]| {
            policy.conclude(outcomes.iter().copied(), "bound", |n| n.to_string()).err().map(|exit| exit.code)
        };
        for (outcomes, strict, lenient) in [
            (&[Pass, Pass][..], None, None),
            (&[Pass, Open], Some(1), None),
            (&[Fail, Open], Some(1), Some(1)),
            (&[], None, None),
        ] {
            assert_eq!(code(CannotTell::Fail, outcomes), strict, "{outcomes:?}");
            assert_eq!(code(CannotTell::Pass, outcomes), lenient, "{outcomes:?}");
        }
    }
}
