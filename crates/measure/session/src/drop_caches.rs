//! Runs in which a command drops the store's caches after the objects are written and before they are read.

use std::io;
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::error::RunError;
use super::observer::RunObserver;
use super::{Components, Passes, RunSummary, SessionSettings, execute_passes};
use plimsoll_experiment::Experiment;
use plimsoll_judge::summary::result::RunResult;
use plimsoll_judge::summary::series::Series;
use plimsoll_workload::schedule::Role;
use plimsoll_workload::schedule::plan::PhaseRun;

/// Passes of a run: the prepare phases, then the command and all other phases.
struct Dropping<'a> {
    command: &'a str,
    observer: Arc<dyn RunObserver>,
    /// Phase runs after the command; empty once they have been returned.
    rest: Vec<PhaseRun>,
    /// Error of the command; `None` if it succeeded.
    error: Option<RunError>,
}

impl Passes for Dropping<'_> {
    fn first(&mut self, plan: Vec<PhaseRun>) -> Vec<PhaseRun> {
        let (prepare, rest) = plan.into_iter().partition(|p| p.phase.role == Role::Prepare);
        self.rest = rest;
        prepare
    }

    fn next(
        &mut self,
        result: &mut RunResult,
        _series: &dyn Fn(&RunResult) -> io::Result<Vec<Series>>,
    ) -> Option<Vec<PhaseRun>> {
        if self.rest.is_empty() {
            return None;
        }
        self.observer.announce(&format!("drop caches: {}", self.command));
        match execute_command(self.command) {
            Ok(()) => Some(std::mem::take(&mut self.rest)),
            Err(error) => {
                result.run.degraded = Some(format!("nothing was read: {error}"));
                self.error = Some(error);
                None
            }
        }
    }
}

/// Runs the command in a shell and waits for its end.
fn execute_command(command: &str) -> Result<(), RunError> {
    let refused = |problem: String| RunError::input(format!("--drop-caches '{command}': {problem}"));
    // Its output must not get between the lines of the result.
    let status = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(io::stderr())
        .status()
        .map_err(|error| refused(error.to_string()))?;
    match status.success() {
        true => Ok(()),
        false => Err(refused(format!("{status}; the command must succeed"))),
    }
}

/// Runs an experiment, and `command` between its prepare phases and the others.
///
/// # Errors
/// As [`super::execute`]; [`RunError::Input`] if the command fails and nothing has been written before. If it fails
/// later, the error is in [`RunSummary::problem`].
pub fn execute_dropping(
    experiment: &Experiment,
    settings: &SessionSettings,
    components: &Components,
    command: &str,
) -> Result<RunSummary, RunError> {
    if !experiment.prepares() {
        execute_command(command)?;
        return super::execute(experiment, settings, components);
    }
    let observer = Arc::clone(&components.observer);
    let mut passes = Dropping { command, observer, rest: Vec::new(), error: None };
    let mut summary = execute_passes(experiment, settings, components, &mut passes)?;
    // Ctrl-C also ends the command, and is the reason that the user knows.
    if !matches!(summary.problem, Some(RunError::Interrupted(_))) {
        summary.problem = passes.error.or(summary.problem);
    }
    Ok(summary)
}
