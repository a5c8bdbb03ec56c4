//! The search for the capacity of a store, by concurrency or by rate.
//!
//! A survey doubles the concurrency of a closed loop until the throughput stops growing. By concurrency, the search
//! then measures the best concurrency again until the throughput is precise. By rate, it searches near the throughput
//! of the survey for the highest rate that meets the objectives. Both end in a given time.

mod plateau;
mod step;

use std::io;
use std::sync::Arc;

use super::error::RunError;
use super::observer::RunObserver;
use super::{Components, Passes, RunSummary, SessionSettings, execute_passes};
use plateau::Plateau;
use plimsoll_base::clock::{SECOND, now_ns};
use plimsoll_base::machine::usable_cores;
use plimsoll_base::units::format_duration;
use plimsoll_judge::summary::objective::Objective;
use plimsoll_judge::summary::result::{
    CapacityBy, CapacityFigures, CapacityStep, ClientLimit, RunResult, Window,
};
use plimsoll_judge::summary::series::Series;
use plimsoll_workload::experiment::Experiment;
use plimsoll_workload::schedule::arrival::Arrival;
use plimsoll_workload::schedule::knee::{KneeLimits, Search};
use plimsoll_workload::schedule::plan::{PhaseRun, rewarm};
use plimsoll_workload::schedule::survey::{Next, Survey};
use plimsoll_workload::schedule::{Limit, Load, Role};
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

/// Current activity of a search.
enum Stage {
    Survey,
    Plateau(Plateau),
    Rate(Search),
}

/// State of a search.
struct Capacity {
    search: CapacitySearch,
    /// Phase run from which every step is derived; `None` before the first pass.
    model: Option<PhaseRun>,
    began_ns: u64,
    survey: Survey,
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
            (CapacityBy::Rate, Some(from)) => Stage::Rate(Search::new(limits(from))),
            _ => Stage::Survey,
        };
        Capacity {
            survey: Survey::new(search.in_flight.0, search.in_flight.1),
            search,
            model: None,
            began_ns: now_ns(),
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

    /// Returns the load of the next step with its length and the length of its warm-up; `None` if the search is over.
    fn next_step(&self) -> Option<(Load, u64, u64)> {
        let closed = |concurrency| Load::Closed { concurrency };
        if self.over {
            return None;
        }
        match &self.stage {
            Stage::Survey => match self.survey.next() {
                Next::Try(concurrency) => {
                    Some((closed(concurrency), (self.step_ns() / 2).max(SECOND), SECOND / 2))
                }
                Next::Plateau(_) | Next::Growing(_) => None,
            },
            Stage::Plateau(plateau) => Some((closed(plateau.concurrency), self.step_ns(), SECOND / 2)),
            Stage::Rate(search) => {
                let rate_per_s = search.next()?;
                let (arrival, in_flight) = self.open_loop();
                let load = Load::Open { rate_per_s, arrival, in_flight };
                Some((load, self.rate_step_ns(search, rate_per_s), 2 * SECOND))
            }
        }
    }

    /// Returns the arrival process and the maximum number of operations in flight of an open loop.
    fn open_loop(&self) -> (Arrival, usize) {
        match self.model.as_ref().map(|model| model.phase.load) {
            Some(Load::Open { arrival, in_flight, .. }) => (arrival, in_flight),
            _ => (Arrival::Constant, self.search.in_flight.1),
        }
    }

    /// Returns the length of a step at a rate, which is long enough to judge the objectives.
    fn rate_step_ns(&self, search: &Search, rate_per_s: f64) -> u64 {
        let needed = self.search.objectives.iter().map(Objective::operations_needed).max().unwrap_or(0);
        // Until the search knows both bounds, a third of the operations is enough.
        let found = search.found();
        let needed = if found.holds.is_none() || found.breaks.is_none() { needed / 3 } else { needed };
        let needed_ns = (needed as f64 / rate_per_s * SECOND as f64) as u64;
        self.step_ns().max(needed_ns).min(MAX_STEP_NS)
    }

    /// Returns the phase runs of the next step: a warm-up and the step; `None` if the search or its time is over.
    fn phase_runs(&self) -> Option<Vec<PhaseRun>> {
        let (load, length_ns, warm_ns) = self.next_step()?;
        let left_ns = (self.began_ns + self.search.within_ns).saturating_sub(now_ns());
        if !self.steps.is_empty() && length_ns + warm_ns > left_ns {
            return None;
        }
        let mut phase_run = self.model.clone()?;
        phase_run.phase.load = load;
        phase_run.phase.limit = Limit { duration_ns: Some(length_ns), operations: None };
        phase_run.step = Some(self.steps.len() as u32);
        Some(vec![rewarm(&phase_run, warm_ns), phase_run])
    }

    /// Judges the last step by its windows, records it, and advances the search.
    fn finish_step(&mut self, windows: &[Window]) {
        let number = self.steps.len() as u32;
        let own: Vec<&Window> =
            windows.iter().filter(|w| w.role == Role::Measure && w.step == Some(number)).collect();
        let Some((load, ..)) = self.next_step().filter(|_| !own.is_empty()) else { return };
        let step = judge(&own, number, load, &self.search.objectives);
        self.observer.capacity_step(&step);
        self.bytes_per_operation = bytes_per_operation(&own).unwrap_or(self.bytes_per_operation);
        self.note(load, step);
    }

    /// Records a step and advances the search.
    fn note(&mut self, load: Load, step: CapacityStep) {
        let (per_s, paused_share) = (step.achieved_per_s, step.paused_share);
        let disturbed = paused_share > DISTURBED_SHARE;
        let limited = step.client_limited.clone();
        let met = step.met;
        self.steps.push(step);
        match (&mut self.stage, load) {
            (Stage::Survey, Load::Closed { concurrency }) => {
                self.survey.note(concurrency, per_s, disturbed || limited.is_some());
                self.end_survey(limited);
            }
            (Stage::Plateau(plateau), Load::Closed { .. }) => {
                if let Some(outlier) = plateau.note(per_s, paused_share, self.survey.best_per_s()) {
                    self.survey.revise(plateau.concurrency, outlier);
                    self.stage = Stage::Survey;
                    self.end_survey(None);
                } else if plateau.is_precise() {
                    self.end_plateau();
                }
            }
            (Stage::Rate(search), Load::Open { rate_per_s, .. }) => {
                let unsure = !met && (disturbed || limited.is_some());
                if unsure && self.disturbed_tries + 1 < MAX_TRIES {
                    self.disturbed_tries += 1;
                } else if let (true, Some(reason)) = (unsure, limited) {
                    self.client_limit = Some(ClientLimit { per_s, reason });
                    self.over = true;
                } else {
                    self.disturbed_tries = 0;
                    search.note(rate_per_s, met);
                }
            }
            _ => {}
        }
    }

    /// Ends the survey if it has found its plateau. `limited` is the resource that limited the client in the last step.
    fn end_survey(&mut self, limited: Option<String>) {
        let (concurrency, growing) = match self.survey.next() {
            Next::Try(_) => return,
            Next::Plateau(concurrency) => (concurrency, false),
            Next::Growing(concurrency) => (concurrency, true),
        };
        let per_s = self.survey.best_per_s();
        self.growing = growing;
        match self.search.by {
            // A client that is the limit at the end of the survey has hidden the limit of the store.
            CapacityBy::Concurrency if limited.is_some() => {
                self.client_limit = limited.map(|reason| ClientLimit { per_s, reason });
                self.over = true;
            }
            _ if per_s <= 0.0 => self.over = true,
            CapacityBy::Concurrency => self.stage = Stage::Plateau(Plateau::new(concurrency)),
            CapacityBy::Rate => {
                let (to, tolerance) = (self.search.to_per_s, self.search.tolerance);
                let from = (per_s * START_SHARE).min(to);
                self.stage = Stage::Rate(Search::new(KneeLimits { from, to, tolerance, growth: NEAR }));
            }
        }
    }

    /// Ends the measurement of a concurrency. The search ends, unless the survey found a higher throughput at another
    /// concurrency, which is then measured too.
    fn end_plateau(&mut self) {
        let Stage::Plateau(plateau) = &mut self.stage else { return };
        let measured = self.exceeded.iter().chain([&*plateau]).map(|p| p.concurrency).collect::<Vec<_>>();
        match self.survey.best_except(&measured).filter(|(_, per_s)| plateau.is_below(*per_s)) {
            Some((concurrency, _)) => {
                self.exceeded.push(std::mem::replace(plateau, Plateau::new(concurrency)));
            }
            None => self.over = true,
        }
    }

    /// Returns the measured concurrency with the highest throughput; `None` before the first one.
    fn best_plateau(&self) -> Option<&Plateau> {
        let Stage::Plateau(last) = &self.stage else { return None };
        let complete = self.exceeded.iter().chain([last]).filter(|p| p.interval().is_some());
        let per_s = |p: &&Plateau| p.mean().unwrap_or_default();
        complete.max_by(|a, b| per_s(a).total_cmp(&per_s(b))).or(Some(last))
    }

    /// Returns true if the search has its result, rather than only no more time.
    fn is_finished(&self) -> bool {
        self.best_plateau().is_some_and(|plateau| plateau.interval().is_some()) || self.next_step().is_none()
    }

    fn figures(&self, finished: bool) -> CapacityFigures {
        let mut figures = CapacityFigures {
            by: self.search.by,
            objectives: self.search.objectives.iter().map(|o| o.text.clone()).collect(),
            growing: self.growing && self.search.by == CapacityBy::Concurrency,
            finished,
            client_limit: self.client_limit.clone(),
            steps: self.steps.clone(),
            ..CapacityFigures::default()
        };
        match (&self.stage, self.best_plateau()) {
            (Stage::Rate(search), _) => {
                let found = search.found();
                (figures.highest_met_per_s, figures.lowest_missed_per_s) = (found.holds, found.breaks);
                if self.client_limit.is_none() {
                    figures.growing = found.breaks.is_none() && found.holds.is_some();
                    figures.per_s = found.holds;
                    (figures.low_per_s, figures.high_per_s) = (found.holds, found.breaks);
                }
            }
            (_, None) => {}
            (_, Some(plateau)) => match plateau.paused_share() {
                Some(share) => {
                    let reason = format!("it paused {:.0}% of the time", 100.0 * share);
                    figures.client_limit =
                        Some(ClientLimit { per_s: plateau.mean().unwrap_or_default(), reason });
                }
                None => {
                    figures.per_s = plateau.mean();
                    (figures.low_per_s, figures.high_per_s) = plateau.interval().unzip();
                }
            },
        }
        figures.bytes_per_s =
            figures.per_s.map(|per_s| per_s * self.bytes_per_operation).filter(|bytes| *bytes > 0.0);
        let reaching = figures.per_s.and_then(|per_s| self.survey.reaching(per_s, 0.95));
        // A store that became faster after the survey reached its capacity only at the concurrency of the plateau.
        let measured = self.best_plateau().filter(|_| figures.per_s.is_some()).map(|p| p.concurrency);
        figures.in_flight = reaching.or(measured).map(|concurrency| concurrency as u64);
        figures
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
    components.observer.estimate(&format!("searching for the capacity for at most {within}"));
    // The number of workers must suit the later steps, not the first one.
    let workers = settings.workers.unwrap_or_else(|| usable_cores() as usize);
    let settings = SessionSettings { workers: Some(workers), ..settings.clone() };
    let mut capacity = Capacity::new(search, Arc::clone(&components.observer));
    execute_passes(experiment, &settings, components, &mut capacity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::observer::Silent;

    fn search(by: CapacityBy, from_per_s: Option<f64>) -> CapacitySearch {
        CapacitySearch {
            form: "get".into(),
            by,
            objectives: Vec::new(),
            from_per_s,
            to_per_s: 1e6,
            in_flight: (1, 1024),
            tolerance: 0.02,
            step_ns: Some(SECOND),
            within_ns: 3600 * SECOND,
        }
    }

    /// Searches with a client and a store that are limited to `client` and `store` operations per second, and 10 ms per
    /// operation.
    fn found(search: CapacitySearch, client: f64, store: f64) -> CapacityFigures {
        let mut capacity = Capacity::new(search, Arc::new(Silent));
        while let Some((load, ..)) = capacity.next_step() {
            let offered = match load {
                Load::Closed { concurrency } => concurrency as f64 * 100.0,
                Load::Open { rate_per_s, .. } => rate_per_s,
            };
            let achieved = offered.min(client).min(store);
            let limited = offered > client && client < store;
            let met = offered <= achieved;
            let step = CapacityStep {
                step: capacity.steps.len() as u32,
                offered_per_s: load.is_open().then_some(offered),
                achieved_per_s: achieved,
                met,
                missed: (!met).then(|| "the rate was not achieved".into()),
                client_limited: limited.then(|| "cpu: 99% of a core".into()),
                ..CapacityStep::default()
            };
            capacity.note(load, step);
        }
        capacity.figures(true)
    }

    /// Regression test: a search that ran out of time was reported as finished.
    #[test]
    fn a_search_is_finished_only_with_a_result() {
        let mut capacity = Capacity::new(search(CapacityBy::Rate, Some(100.0)), Arc::new(Silent));
        assert!(!capacity.figures(capacity.is_finished()).finished);
        capacity.over = true;
        assert!(capacity.figures(capacity.is_finished()).finished);
    }

    #[test]
    fn both_searches_find_a_known_capacity() {
        let by_concurrency = found(search(CapacityBy::Concurrency, None), 1e9, 1000.0);
        assert_eq!((by_concurrency.per_s, by_concurrency.in_flight), (Some(1000.0), Some(16)));
        assert_eq!((by_concurrency.low_per_s, by_concurrency.high_per_s), (Some(1000.0), Some(1000.0)));
        for from in [None, Some(100.0), Some(5000.0)] {
            let by_rate = found(search(CapacityBy::Rate, from), 1e9, 1000.0);
            let (low, high) = (by_rate.low_per_s.unwrap(), by_rate.high_per_s.unwrap());
            assert!(low <= 1000.0 && high > 1000.0 && high / low < 1.0201, "{from:?}: {low}..{high}");
            assert_eq!((by_rate.per_s, by_rate.client_limit, by_rate.growing), (Some(low), None, false));
        }
    }

    /// Regression test: a search reported the throughput at 4 in flight although 16 in flight had 20% more.
    #[test]
    fn a_concurrency_that_exceeds_the_measured_one_is_measured_too() {
        let mut capacity = Capacity::new(search(CapacityBy::Concurrency, None), Arc::new(Silent));
        let mut steps = 0;
        while let Some((load @ Load::Closed { concurrency }, ..)) = capacity.next_step() {
            // The first step at 4 in flight is an outlier.
            let outlier = concurrency == 4 && steps == 2;
            let achieved_per_s = if outlier { 1060.0 } else { 1040.0f64.min(240.0 * concurrency as f64) };
            capacity.note(load, CapacityStep { achieved_per_s, ..CapacityStep::default() });
            steps += 1;
        }
        let found = capacity.figures(true);
        assert_eq!((found.per_s, found.low_per_s), (Some(1040.0), Some(1040.0)));
        assert_eq!(steps, 5 + 3 + 3, "survey to 16, then 4 and 8 in flight");
    }

    #[test]
    fn a_client_limit_ends_a_search_without_bisection() {
        let by_rate = found(search(CapacityBy::Rate, Some(100.0)), 1000.0, 1e9);
        assert_eq!((by_rate.highest_met_per_s, by_rate.lowest_missed_per_s), (Some(800.0), None));
        assert_eq!(by_rate.client_limit.as_ref().map(|limit| limit.per_s), Some(1000.0));
        assert_eq!(
            (by_rate.per_s, by_rate.steps.len()),
            (None, 4 + 3),
            "doubled to 1600/s, which was tried 3 times"
        );
        let by_concurrency = found(search(CapacityBy::Concurrency, None), 1000.0, 1e9);
        let limit = by_concurrency.client_limit.unwrap();
        assert_eq!(
            (by_concurrency.per_s, limit.per_s, limit.reason.as_str()),
            (None, 1000.0, "cpu: 99% of a core")
        );
    }

    #[test]
    fn a_client_that_was_busy_once_does_not_end_the_search() {
        let mut capacity = Capacity::new(search(CapacityBy::Rate, Some(100.0)), Arc::new(Silent));
        let rate = |capacity: &Capacity| match capacity.next_step() {
            Some((Load::Open { rate_per_s, .. }, ..)) => Some(rate_per_s),
            _ => None,
        };
        for (met, limited, next) in [(false, true, 100.0), (true, false, 200.0), (false, true, 200.0)] {
            let (load, ..) = capacity.next_step().unwrap();
            let client_limited = limited.then(|| "start lag".into());
            capacity.note(load, CapacityStep { met, client_limited, ..CapacityStep::default() });
            assert_eq!((rate(&capacity), capacity.client_limit.is_none()), (Some(next), true));
        }
    }
}
