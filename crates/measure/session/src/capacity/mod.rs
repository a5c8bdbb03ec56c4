//! The search for the capacity of a store, by concurrency or by rate.
//!
//! A survey doubles the concurrency of a closed loop until the throughput stops growing. By concurrency, the search
//! then measures the best concurrency again until the throughput is precise. By rate, it searches near the throughput
//! of the survey for the highest rate that meets the objectives. Both end in a given time. If a load that was measured
//! before has another result, the store has changed, and the search begins again.

mod change;
mod ends;
mod figures;
mod plateau;
mod rate;
mod step;

use std::io;
use std::sync::Arc;

use super::error::RunError;
use super::observer::RunObserver;
use super::{Components, Passes, RunSummary, SessionSettings, execute_passes};
use change::CHANGED;
use plateau::{Noted, Plateau};
use plimsoll_base::clock::{SECOND, now_ns};
use plimsoll_base::machine::usable_cores;
use plimsoll_base::units::format_duration;
use plimsoll_experiment::Experiment;
use plimsoll_judge::summary::objective::Objective;
use plimsoll_judge::summary::result::{CapacityBy, CapacityStep, ClientLimit, RunResult, Window};
use plimsoll_judge::summary::series::Series;
use plimsoll_workload::schedule::arrival::Arrival;
use plimsoll_workload::schedule::knee::KneeLimits;
use plimsoll_workload::schedule::plan::{PhaseRun, rewarm};
use plimsoll_workload::schedule::survey::{Next, Survey};
use plimsoll_workload::schedule::{Limit, Load, Role};
use rate::{RateSearch, RateStep, confirmation_ns};
use step::{DISTURBED_SHARE, bytes_per_operation, judge};

/// Parameters of a search for the capacity.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacitySearch {
    /// Name of the short form whose load is searched, such as `get`.
    pub form: String,
    /// Load to vary.
    pub by: CapacityBy,
    /// Objectives that the store must meet; none by concurrency.
    pub objectives: Vec<Objective>,
    /// First rate to try, in operations per second; `None` to start near the throughput of a survey.
    pub from_per_s: Option<f64>,
    /// Maximum rate to try, in operations per second.
    pub to_per_s: f64,
    /// Range of the concurrency: first and maximum number of operations in flight.
    pub in_flight: (usize, usize),
    /// Relative distance between the highest rate that meets the objectives and the lowest rate that does not, at which
    /// the search ends.
    pub tolerance: f64,
    /// Minimum length of a step, in nanoseconds; `None` for a thirtieth of `within_ns`.
    pub step_ns: Option<u64>,
    /// Maximum time of the search, in nanoseconds.
    pub within_ns: u64,
}

/// Maximum length of a step, in nanoseconds, even if it has too few operations to judge the objectives.
pub const MAX_STEP_NS: u64 = 300 * SECOND;
/// Factor by which the rate rises near the throughput of the survey.
const NEAR: f64 = 1.25;
/// Share of the survey's throughput at which the search by rate starts.
const START_SHARE: f64 = 0.9;
/// Maximum number of tries of a rate that was missed while the client was disturbed.
const MAX_TRIES: u32 = 3;
/// Maximum number of times that a search begins again because the store has changed.
const MAX_SURVEYS: u32 = 4;
/// Share of the survey's throughput below which the result by rate is compared with the survey again.
const FAR_BELOW: f64 = 0.8;

/// Current activity of a search.
enum Stage {
    Survey,
    Plateau(Plateau),
    /// One long step at the best concurrency.
    Hold(Plateau),
    /// One more step at the highest concurrency of the survey, after the measurement of the best one: a store that has
    /// scaled up may show it only there.
    Recheck(Plateau, usize),
    /// One more step at the first concurrency, at the end of every search by concurrency.
    Repeat(Plateau),
    Rate(RateSearch),
    /// One more step at each of these concurrencies of the survey, after a result by rate: the best one if the result
    /// is far below it, and the first one.
    Reference(RateSearch, Vec<usize>),
}

/// A step to execute.
#[derive(Debug, Clone, Copy)]
struct Planned {
    load: Load,
    length_ns: u64,
    /// Length of the warm-up before it.
    warm_ns: u64,
    purpose: Purpose,
}

/// Purpose of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Measure,
    /// It shows whether the store is still busy with an earlier step.
    Recover,
    Confirm,
}

impl Planned {
    fn closed(concurrency: usize, length_ns: u64) -> Planned {
        Planned {
            load: Load::Closed { concurrency },
            length_ns,
            warm_ns: SECOND / 2,
            purpose: Purpose::Measure,
        }
    }
}

/// State of a search.
struct Capacity {
    search: CapacitySearch,
    /// Phase run from which every step is derived; `None` before the first pass.
    model: Option<PhaseRun>,
    began_ns: u64,
    /// Step that is executed.
    planned: Option<Planned>,
    /// Time since which the store recovers from a rate that it has missed.
    missed_at_ns: Option<u64>,
    /// Length in nanoseconds of the longest recovery so far.
    recovery_ns: u64,
    survey: Survey,
    /// Number of surveys so far.
    surveys: u32,
    stage: Stage,
    /// Measured concurrencies that another one of the survey exceeded.
    exceeded: Vec<Plateau>,
    /// True if the search has ended before its time.
    over: bool,
    steps: Vec<CapacityStep>,
    /// Object bytes of a successful operation.
    bytes_per_operation: f64,
    /// Number of tries of the current rate during which the client was disturbed.
    disturbed_tries: u32,
    client_limit: Option<ClientLimit>,
    growing: bool,
    observer: Arc<dyn RunObserver>,
}

impl Capacity {
    fn new(search: CapacitySearch, observer: Arc<dyn RunObserver>) -> Capacity {
        let limits =
            |from| KneeLimits { from, to: search.to_per_s, tolerance: search.tolerance, growth: 2.0 };
        let stage = match (search.by, search.from_per_s) {
            (CapacityBy::Rate, Some(from)) => Stage::Rate(RateSearch::new(limits(from), None)),
            _ => Stage::Survey,
        };
        Capacity {
            survey: Survey::new(search.in_flight.0, search.in_flight.1),
            surveys: 1,
            search,
            model: None,
            began_ns: now_ns(),
            planned: None,
            missed_at_ns: None,
            recovery_ns: 0,
            stage,
            exceeded: Vec::new(),
            over: false,
            steps: Vec::new(),
            bytes_per_operation: 0.0,
            disturbed_tries: 0,
            client_limit: None,
            growing: false,
            observer,
        }
    }

    /// Returns the minimum length of a step, in nanoseconds.
    fn step_ns(&self) -> u64 {
        self.search.step_ns.unwrap_or(self.search.within_ns / 30).clamp(SECOND, MAX_STEP_NS)
    }

    /// Returns the next step; `None` if the search is over.
    fn next_step(&self) -> Option<Planned> {
        if self.over {
            return None;
        }
        match &self.stage {
            Stage::Survey => match self.survey.next() {
                Next::Try(concurrency) => Some(Planned::closed(concurrency, self.survey_step_ns())),
                Next::Plateau(_) | Next::Growing(_) => None,
            },
            Stage::Plateau(plateau) => Some(Planned::closed(plateau.concurrency, self.step_ns())),
            Stage::Hold(plateau) => {
                let wanted = confirmation_ns(self.search.within_ns, self.step_ns());
                let fitting = self.left_ns().saturating_sub(self.references_ns() + 3 * SECOND);
                Some(Planned::closed(plateau.concurrency, wanted.min(fitting).max(self.step_ns())))
            }
            Stage::Rate(search) => match search.next(self.is_late(search))? {
                RateStep::Light => {
                    Some(Planned { warm_ns: 0, purpose: Purpose::Recover, ..Planned::closed(1, SECOND) })
                }
                RateStep::Try(per_s) => Some(self.open(per_s, self.rate_step_ns(search, per_s))),
                RateStep::Confirm(per_s) => {
                    let wanted = confirmation_ns(self.search.within_ns, self.needed_ns(per_s));
                    let fitting = self.left_ns().saturating_sub(3 * SECOND + self.references_ns());
                    let fitting = fitting.max(self.step_ns());
                    Some(Planned { purpose: Purpose::Confirm, ..self.open(per_s, wanted.min(fitting)) })
                }
            },
            Stage::Reference(_, concurrencies) => {
                concurrencies.last().map(|concurrency| Planned::closed(*concurrency, self.survey_step_ns()))
            }
            Stage::Recheck(_, concurrency) => Some(Planned::closed(*concurrency, self.survey_step_ns())),
            Stage::Repeat(_) => Some(Planned::closed(self.search.in_flight.0, self.survey_step_ns())),
        }
    }

    /// Returns the time that the last steps of a search take, which show whether the store has changed.
    fn references_ns(&self) -> u64 {
        2 * (self.survey_step_ns() + SECOND)
    }

    fn survey_step_ns(&self) -> u64 {
        (self.step_ns() / 2).max(SECOND)
    }

    /// Returns the time that the search has left, in nanoseconds.
    fn left_ns(&self) -> u64 {
        (self.began_ns + self.search.within_ns).saturating_sub(now_ns())
    }

    /// Returns true if the time left suffices only for the confirmation of the rate that was found.
    fn is_late(&self, search: &RateSearch) -> bool {
        let Some(holds) = search.found().holds else { return false };
        let confirmation_ns = confirmation_ns(self.search.within_ns, self.needed_ns(holds));
        // The next rate may be missed, too, and the store may be slower to recover from it.
        let one_more_ns = self.rate_step_ns(search, holds) + 2 * self.recovery_ns + 10 * SECOND;
        self.left_ns() < confirmation_ns + one_more_ns + self.references_ns()
    }

    fn open(&self, rate_per_s: f64, length_ns: u64) -> Planned {
        let (arrival, in_flight) = self.open_loop();
        let load = Load::Open { rate_per_s, arrival, in_flight };
        Planned { load, length_ns, warm_ns: 2 * SECOND, purpose: Purpose::Measure }
    }

    /// Returns the arrival process and the maximum number of operations in flight of an open loop.
    fn open_loop(&self) -> (Arrival, usize) {
        match self.model.as_ref().map(|model| model.phase.load) {
            Some(Load::Open { arrival, in_flight, .. }) => (arrival, in_flight),
            _ => (Arrival::Constant, self.search.in_flight.1),
        }
    }

    /// Returns the length of a step at a rate that is long enough to judge the objectives.
    fn needed_ns(&self, rate_per_s: f64) -> u64 {
        let needed = self.search.objectives.iter().map(Objective::operations_needed).max().unwrap_or(0);
        self.step_ns().max((needed as f64 / rate_per_s * SECOND as f64) as u64).min(MAX_STEP_NS)
    }

    /// Returns the length of a try of a rate. Until the search knows both bounds, a third of the operations is enough.
    fn rate_step_ns(&self, search: &RateSearch, rate_per_s: f64) -> u64 {
        let found = search.found();
        let share = if found.holds.is_none() || found.breaks.is_none() { 3.0 } else { 1.0 };
        self.needed_ns(rate_per_s * share)
    }

    /// Returns the phase runs of the next step: a warm-up and the step; `None` if the search or its time is over.
    fn phase_runs(&mut self) -> Option<Vec<PhaseRun>> {
        let planned = self.next_step()?;
        self.planned = Some(planned);
        if !self.steps.is_empty() && planned.length_ns + planned.warm_ns > self.left_ns() {
            return None;
        }
        let mut phase_run = self.model.clone()?;
        phase_run.phase.load = planned.load;
        phase_run.phase.limit = Limit { duration_ns: Some(planned.length_ns), operations: None };
        phase_run.step = Some(self.steps.len() as u32);
        if planned.purpose == Purpose::Recover {
            // An operation that is not answered by then shows that the store is still busy.
            phase_run.phase.drain_ns = phase_run.phase.drain_ns.min(SECOND);
        }
        let warm = (planned.warm_ns > 0).then(|| rewarm(&phase_run, planned.warm_ns));
        Some(warm.into_iter().chain([phase_run]).collect())
    }

    /// Judges the last step by its windows, records it, and advances the search.
    fn finish_step(&mut self, windows: &[Window]) {
        let number = self.steps.len() as u32;
        let own: Vec<&Window> =
            windows.iter().filter(|w| w.role == Role::Measure && w.step == Some(number)).collect();
        let Some(planned) = self.planned.filter(|_| !own.is_empty()) else { return };
        let recovery = planned.purpose == Purpose::Recover;
        let step = CapacityStep { recovery, ..judge(&own, number, planned.load, &self.search.objectives) };
        self.observer.capacity_step(&step);
        self.bytes_per_operation = bytes_per_operation(&own).unwrap_or(self.bytes_per_operation);
        self.note(planned, step);
    }

    /// Records a step and advances the search.
    fn note(&mut self, planned: Planned, step: CapacityStep) {
        let (per_s, paused_share, met) = (step.achieved_per_s, step.paused_share, step.met);
        let disturbed = paused_share > DISTURBED_SHARE;
        let limited = step.client_limited.clone();
        self.steps.push(step);
        let length_s = planned.length_ns as f64 / SECOND as f64;
        match (&mut self.stage, planned.load) {
            (Stage::Survey, Load::Closed { concurrency }) => {
                self.survey.note(concurrency, per_s, disturbed || limited.is_some());
                self.end_survey(limited);
            }
            (Stage::Plateau(plateau), Load::Closed { .. }) => {
                match plateau.note(per_s, length_s, paused_share, self.survey.best_per_s()) {
                    Noted::Outlier(mean) => {
                        self.survey.revise(plateau.concurrency, mean);
                        self.stage = Stage::Survey;
                        self.end_survey(limited);
                    }
                    Noted::Changed if self.surveys < MAX_SURVEYS => self.survey_again(),
                    _ if plateau.is_precise() => self.end_plateau(),
                    _ => {}
                }
            }
            (Stage::Hold(plateau), _) => match plateau.hold(per_s, length_s, disturbed) {
                Noted::Changed if self.surveys < MAX_SURVEYS => self.survey_again(),
                _ => self.recheck(),
            },
            (Stage::Recheck(plateau, _), _) => {
                match plateau.mean().is_some_and(|mean| per_s >= CHANGED * mean) && !disturbed {
                    true if self.surveys < MAX_SURVEYS => self.survey_again(),
                    _ => self.repeat(),
                }
            }
            (Stage::Repeat(_), Load::Closed { concurrency }) => {
                self.end_repeat(concurrency, per_s, disturbed)
            }
            (Stage::Rate(search), Load::Closed { .. }) => {
                search.note_light(per_s);
                if let Some(missed_at_ns) = self.missed_at_ns.take_if(|_| !search.is_recovering()) {
                    self.recovery_ns = self.recovery_ns.max(now_ns() - missed_at_ns);
                }
            }
            (Stage::Rate(search), Load::Open { rate_per_s, .. }) => {
                let unsure = !met && (disturbed || limited.is_some());
                let is_known = limited.is_some() && search.has_client_limit();
                if unsure && !is_known && self.disturbed_tries + 1 < MAX_TRIES {
                    self.disturbed_tries += 1;
                    return;
                }
                self.disturbed_tries = 0;
                match limited.filter(|_| unsure) {
                    Some(reason) => {
                        search.note_client_limit(rate_per_s);
                        self.client_limit = Some(ClientLimit { per_s, reason });
                    }
                    None if planned.purpose == Purpose::Confirm => {
                        search.note_confirmation(rate_per_s, planned.length_ns, met);
                    }
                    None => search.note(rate_per_s, met, per_s),
                }
                self.missed_at_ns = search.is_recovering().then(now_ns);
                self.end_rate();
            }
            (Stage::Reference(_, left), Load::Closed { concurrency }) => {
                left.pop();
                if left.is_empty() {
                    self.end_repeat(concurrency, per_s, disturbed);
                }
            }
            _ => {}
        }
    }
}

impl Passes for Capacity {
    fn first(&mut self, plan: Vec<PhaseRun>) -> Vec<PhaseRun> {
        let (mut prepare, measured): (Vec<PhaseRun>, Vec<PhaseRun>) =
            plan.into_iter().partition(|s| s.phase.role == Role::Prepare);
        self.model = measured.into_iter().rfind(|s| s.phase.role == Role::Measure);
        prepare.extend(self.phase_runs().unwrap_or_default());
        prepare
    }

    fn next(
        &mut self,
        result: &mut RunResult,
        _: &dyn Fn(&RunResult) -> io::Result<Vec<Series>>,
    ) -> Option<Vec<PhaseRun>> {
        self.finish_step(&result.windows);
        let next = self.phase_runs();
        result.capacity = Some(self.figures(self.is_finished()));
        next
    }
}

/// Searches for the capacity of one store.
///
/// # Errors
/// As [`execute_passes`], and [`RunError::Input`] if there is not exactly one store.
pub fn find_capacity(
    experiment: &Experiment,
    settings: &SessionSettings,
    components: &Components,
    search: CapacitySearch,
) -> Result<RunSummary, RunError> {
    if experiment.stores.len() != 1 {
        let problem = "--store: a search for the capacity measures exactly one store; specify one store";
        return Err(RunError::input(problem));
    }
    let within = format_duration(search.within_ns);
    components.observer.announce(&format!("searching for the capacity for at most {within}"));
    // The number of workers must suit the later steps, not the first one.
    let workers = settings.workers.unwrap_or_else(|| usable_cores() as usize);
    let settings = SessionSettings { workers: Some(workers), ..settings.clone() };
    let mut capacity = Capacity::new(search, Arc::clone(&components.observer));
    execute_passes(experiment, &settings, components, &mut capacity)
}

#[cfg(test)]
mod tests;
