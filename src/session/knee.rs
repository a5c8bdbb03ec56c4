//! The search for the knee: the highest rate at which a store meets its objectives.

use std::io;
use std::sync::Arc;

use super::error::RunError;
use super::observer::RunObserver;
use super::{Components, Passes, RunSummary, Settings, execute_passes};
use crate::clock::SECOND;
use crate::experiment::Experiment;
use crate::schedule::knee::{Limits, Search};
use crate::schedule::plan::{PhaseRun, rewarm};
use crate::schedule::{Limit, Load, Phase, Role};
use crate::summary::objective::Objective;
use crate::summary::result::{ClientLimit, KneeFigures, KneeStep, RunResult, Window};
use crate::summary::series::Series;

/// Parameters of a knee search.
pub struct KneeSearch {
    /// Name of the short form whose rate is searched, such as `get`.
    pub form: String,
    /// Objectives that the store must meet.
    pub objectives: Vec<Objective>,
    /// Range and tolerance of the search.
    pub limits: Limits,
    /// Minimum length of a step, in nanoseconds.
    pub step_ns: u64,
}

/// Length of the unrecorded warm-up before each step, which opens new connections, in nanoseconds.
const REWARM_NS: u64 = 2 * SECOND;
/// Maximum length of a step, in nanoseconds, even if it has too few operations to judge the objectives.
pub const MAX_STEP_NS: u64 = 300 * SECOND;

/// State of a search.
struct Knee {
    objectives: Vec<Objective>,
    search: Search,
    step_ns: u64,
    /// Phase run from which every step is derived; `None` before the first pass.
    model: Option<PhaseRun>,
    steps: Vec<KneeStep>,
    /// True if the client was the limit in the last step, whose rate is tried again.
    limited_once: bool,
    /// Rate at which the client was the limit twice, which ended the search.
    client_limit: Option<ClientLimit>,
    observer: Arc<dyn RunObserver>,
}

impl Knee {
    /// Returns the phase runs of a step: a warm-up, and the step itself, which is long enough to judge the objectives.
    fn step(&self, rate_per_s: f64) -> Vec<PhaseRun> {
        let Some(model) = &self.model else { return Vec::new() };
        let mut phase_run = model.clone();
        let Phase { load, limit, .. } = &mut phase_run.phase;
        if let Load::Open { rate_per_s: rate, .. } = load {
            *rate = rate_per_s;
        }
        let needed = self.objectives.iter().map(Objective::operations_needed).max().unwrap_or(0);
        // Until the search knows both bounds, a third of the operations is enough.
        let found = self.search.found();
        let needed = if found.holds.is_none() || found.breaks.is_none() { needed / 3 } else { needed };
        let needed_ns = (needed as f64 / rate_per_s * SECOND as f64) as u64;
        *limit = Limit { duration_ns: Some(self.step_ns.max(needed_ns).min(MAX_STEP_NS)), operations: None };
        phase_run.step = Some(self.steps.len() as u32);
        vec![rewarm(&phase_run, REWARM_NS), phase_run]
    }

    /// Judges the last step by its windows and records the result.
    fn judge(&mut self, windows: &[Window]) {
        let step = self.steps.len() as u32;
        let own: Vec<&Window> =
            windows.iter().filter(|w| w.role == Role::Measure && w.step == Some(step)).collect();
        let Some(offered) = own.iter().filter_map(|w| w.offered_per_s).reduce(|a, b| a + b) else { return };
        let Some(rate) = self.search.next() else { return };
        let about = |o: &&Objective, w: &Window| {
            o.target.operation.as_ref().is_none_or(|name| *name == w.operation.name())
        };
        let broken = own
            .iter()
            .find_map(|w| self.objectives.iter().filter(|o| about(o, w)).find_map(|o| o.broken_by(w)));
        let saturated = own.iter().any(|w| w.saturated).then(|| "the rate was not achieved".to_string());
        let broke = broken.or(saturated);
        let achieved_per_s = own.iter().map(|w| w.achieved_per_s).sum();
        let client_limited = own.iter().find_map(|w| w.client_limited.clone());
        let done = KneeStep {
            step,
            offered_per_s: offered,
            achieved_per_s,
            met: broke.is_none(),
            missed: broke,
            client_limited,
        };
        self.observer.knee_step(&done);
        self.note(rate, done);
    }

    /// Records a step. A step that failed while the client was the limit shows nothing about the store: its rate is
    /// tried once more, and if the client is the limit again, the search ends.
    fn note(&mut self, rate: f64, step: KneeStep) {
        match &step.client_limited {
            Some(reason) if !step.met && self.limited_once => {
                let limit = ClientLimit { per_s: step.achieved_per_s, reason: reason.clone() };
                self.client_limit = Some(limit);
            }
            Some(_) if !step.met => self.limited_once = true,
            _ => {
                self.limited_once = false;
                self.search.note(rate, step.met);
            }
        }
        self.steps.push(step);
    }

    /// Returns the next rate to try; `None` when the search is over.
    fn next_rate(&self) -> Option<f64> {
        if self.client_limit.is_some() { None } else { self.search.next() }
    }

    fn figures(&self, finished: bool) -> KneeFigures {
        let found = self.search.found();
        KneeFigures {
            objectives: self.objectives.iter().map(|o| o.text.clone()).collect(),
            highest_met_per_s: found.holds,
            lowest_missed_per_s: found.breaks,
            finished,
            client_limit: self.client_limit.clone(),
            steps: self.steps.clone(),
        }
    }
}

impl Passes for Knee {
    fn first(&mut self, plan: Vec<PhaseRun>) -> Vec<PhaseRun> {
        let (mut prepare, measured): (Vec<PhaseRun>, Vec<PhaseRun>) =
            plan.into_iter().partition(|s| s.phase.role == Role::Prepare);
        self.model = measured.into_iter().rfind(|s| s.phase.role == Role::Measure);
        prepare.extend(self.search.next().map(|rate| self.step(rate)).unwrap_or_default());
        prepare
    }

    fn next(
        &mut self,
        result: &mut RunResult,
        _: &dyn Fn(&RunResult) -> io::Result<Vec<Series>>,
    ) -> Option<Vec<PhaseRun>> {
        self.judge(&result.windows);
        let next = self.next_rate();
        result.knee = Some(self.figures(next.is_none()));
        next.map(|rate| self.step(rate))
    }
}

/// Searches for the knee of one store.
///
/// # Errors
/// As [`execute_passes`], and [`RunError::Input`] if there is not exactly one store.
pub fn find_knee(
    experiment: &Experiment,
    settings: &Settings,
    components: &Components,
    search: KneeSearch,
) -> Result<RunSummary, RunError> {
    let KneeSearch { objectives, limits, step_ns, .. } = search;
    if experiment.stores.len() != 1 {
        return Err(RunError::input("--store: a knee search measures exactly one store; specify one store"));
    }
    let mut knee = Knee {
        objectives,
        search: Search::new(limits),
        step_ns,
        model: None,
        steps: Vec::new(),
        limited_once: false,
        client_limit: None,
        observer: Arc::clone(&components.observer),
    };
    execute_passes(experiment, settings, components, &mut knee)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::observer::Silent;

    /// Searches with a client and a store that are limited to `client` and `store` operations per second.
    fn search(client: f64, store: f64) -> Knee {
        let mut knee = Knee {
            objectives: Vec::new(),
            search: Search::new(Limits { from: 100.0, to: 1e6, tolerance: 0.02 }),
            step_ns: SECOND,
            model: None,
            steps: Vec::new(),
            limited_once: false,
            client_limit: None,
            observer: Arc::new(Silent),
        };
        while let Some(rate) = knee.next_rate() {
            let limited = rate > client;
            let held = rate <= store && !limited;
            let step = KneeStep {
                step: knee.steps.len() as u32,
                offered_per_s: rate,
                achieved_per_s: rate.min(client),
                met: held,
                missed: (!held).then(|| "the rate was not achieved".into()),
                client_limited: limited.then(|| "cpu: 99% of a core".into()),
            };
            knee.note(rate, step);
        }
        knee
    }

    #[test]
    fn a_client_limit_ends_the_search_without_bisection() {
        let knee = search(1000.0, 1e9);
        let figures = knee.figures(true);
        assert_eq!((figures.highest_met_per_s, figures.lowest_missed_per_s), (Some(800.0), None));
        assert_eq!(figures.client_limit.as_ref().map(|limit| limit.per_s), Some(1000.0));
        assert_eq!(figures.steps.len(), 4 + 2, "doubled to 1600/s, which was tried twice");
        assert_eq!(
            figures.client_limit.as_ref().map(|limit| limit.reason.as_str()),
            Some("cpu: 99% of a core")
        );
    }

    #[test]
    fn a_store_that_is_slower_than_the_client_has_a_knee() {
        let figures = search(10_000.0, 1000.0).figures(true);
        let (low, high) = (figures.highest_met_per_s.unwrap(), figures.lowest_missed_per_s.unwrap());
        assert!(low <= 1000.0 && high > 1000.0 && figures.client_limit.is_none(), "{low}..{high}");
    }

    #[test]
    fn a_client_that_was_busy_once_does_not_end_the_search() {
        let mut knee = search(1e9, 1e9);
        knee.search = Search::new(Limits { from: 100.0, to: 1e6, tolerance: 0.02 });
        let step = |held: bool, limited: bool| KneeStep {
            met: held,
            client_limited: limited.then(|| "start lag".into()),
            ..KneeStep::default()
        };
        knee.note(100.0, step(false, true));
        assert_eq!(knee.next_rate(), Some(100.0), "tried again");
        knee.note(100.0, step(true, false));
        assert_eq!(knee.next_rate(), Some(200.0));
        knee.note(200.0, step(false, true));
        assert_eq!((knee.next_rate(), knee.client_limit.clone()), (Some(200.0), None));
    }
}
