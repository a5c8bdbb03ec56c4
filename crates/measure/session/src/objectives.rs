//! Objectives of a run: checks them before the run, and ends the run with an error if one was missed.

use super::error::RunError;
use plimsoll_base::units::counted;
use plimsoll_experiment::Experiment;
use plimsoll_judge::summary::objective::Objective;
use plimsoll_judge::summary::objective_result::ObjectiveResult;
use plimsoll_judge::summary::objectives::count;
use plimsoll_judge::summary::result::ObjectiveFigures;
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::{Phase, Role};

/// Returns the kinds of operations of a phase.
fn kinds(phase: &Phase) -> impl Iterator<Item = OperationKind> {
    OperationKind::ALL.into_iter().filter(|kind| phase.workload.mix.share(*kind) > 0)
}

/// Checks that an experiment measures what the objectives are about.
///
/// # Errors
/// [`RunError::Input`] with the first objective that is about another phase or operation.
pub fn check(experiment: &Experiment, objectives: &[Objective]) -> Result<(), RunError> {
    let measured = || experiment.phases.iter().filter(|phase| phase.role == Role::Measure);
    let is_measured = |objective: &&Objective| {
        let target = &objective.target;
        measured().filter(|phase| target.phase.as_ref().is_none_or(|name| *name == phase.name)).any(|phase| {
            let operation = target.operation.as_ref();
            let has_sizes = target.size.is_none() || phase.size_classes.is_some();
            has_sizes && operation.is_none_or(|name| kinds(phase).any(|kind| kind.name() == name))
        })
    };
    let Some(other) = objectives.iter().find(|objective| !is_measured(objective)) else { return Ok(()) };
    let known = measured().flat_map(|phase| kinds(phase).map(|kind| format!("{}.{kind}", phase.name)));
    let known: Vec<String> = known.collect();
    Err(RunError::input(format!(
        "--slo '{}': the experiment does not measure this; use one of {}",
        other.text,
        known.join(", ")
    )))
}

/// Returns the error of a run that missed an objective, or did not decide one.
pub fn problem(found: &[ObjectiveFigures]) -> Option<RunError> {
    let objectives = |n: usize| counted(n as u64, "objective");
    match (count(found, ObjectiveResult::Fail), count(found, ObjectiveResult::Inconclusive)) {
        (0, 0) => None,
        (0, open) => {
            let open = objectives(open);
            Some(RunError::check(format!("the measurement does not decide {open}, for the reasons above")))
        }
        (missed, _) => Some(RunError::check(format!("{} missed", objectives(missed)))),
    }
}
