//! `--inconclusive`: the exit code of `check` and `compare --fail-if` if a run does not tell whether an objective is
//! met or a bound is exceeded, because it is too short or the client was the bottleneck.

use clap::ValueEnum;

use super::exit::Exit;
use plimsoll_base::units::counted;
use plimsoll_judge::summary::objective_result::ObjectiveResult;

/// The treatment of an objective or bound that a run does not decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Inconclusive {
    /// Count the check as failed, because the run did not show that it passes
    Fail,
    /// Count the check as passed
    Pass,
}

impl Inconclusive {
    /// Determines the exit code of a command that judged all of `outcomes`. `noun` is the word for one
    /// outcome in messages, such as `objective`; `failure` returns the message for a number of failures.
    ///
    /// # Errors
    /// Exit code 1 if an outcome is a failure, or is undecided and counts as a failure.
    pub fn conclude(
        self,
        outcomes: impl Iterator<Item = ObjectiveResult> + Clone,
        noun: &str,
        failure: impl Fn(usize) -> String,
    ) -> Result<(), Exit> {
        let count = |outcome: ObjectiveResult| outcomes.clone().filter(|o| *o == outcome).count();
        let (failed, undecided) = (count(ObjectiveResult::Fail), count(ObjectiveResult::Inconclusive));
        if failed > 0 {
            return Err(Exit::check(failure(failed)));
        }
        if undecided > 0 && self == Inconclusive::Fail {
            return Err(Exit::check(format!(
                "the measurement does not decide {}, for the reasons above; repeat it, or add --inconclusive pass",
                counted(undecided as u64, noun)
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undecided_results_follow_the_flag() {
        use ObjectiveResult::{Fail, Inconclusive as Undecided, Pass};
        let code = |policy: Inconclusive, outcomes: &[ObjectiveResult]| {
            policy.conclude(outcomes.iter().copied(), "bound", |n| n.to_string()).err().map(|exit| exit.code)
        };
        for (outcomes, strict, lenient) in [
            (&[Pass, Pass][..], None, None),
            (&[Pass, Undecided], Some(1), None),
            (&[Fail, Undecided], Some(1), Some(1)),
            (&[], None, None),
        ] {
            assert_eq!(code(Inconclusive::Fail, outcomes), strict, "{outcomes:?}");
            assert_eq!(code(Inconclusive::Pass, outcomes), lenient, "{outcomes:?}");
        }
    }
}
