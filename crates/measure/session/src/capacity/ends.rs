//! Ends of the parts of a search: of the survey, of the measurement of a concurrency, and of the search by rate; and
//! the last steps, which show whether the store has changed.

use super::change::differ;
use super::plateau::Plateau;
use super::rate::RateSearch;
use super::{Capacity, FAR_BELOW, MAX_SURVEYS, NEAR, START_SHARE, Stage};
use plimsoll_judge::summary::result::{CapacityBy, ClientLimit};
use plimsoll_workload::schedule::knee::KneeLimits;
use plimsoll_workload::schedule::survey::{Next, Survey};

impl Capacity {
    /// Begins again with the store as it is now.
    pub(super) fn survey_again(&mut self) {
        self.surveys += 1;
        self.survey = Survey::new(self.search.in_flight.0, self.search.in_flight.1);
        self.exceeded.clear();
        self.stage = Stage::Survey;
    }

    /// Compares the store with the survey once more after the result by rate.
    pub(super) fn end_rate(&mut self) {
        let Stage::Rate(search) = &self.stage else { return };
        let first = self.search.in_flight.0;
        if search.next(self.is_late(search)).is_some() || self.survey.at(first).is_none() {
            return;
        }
        let far = |per_s: f64| search.found().holds.is_none_or(|holds| holds < FAR_BELOW * per_s);
        let best = self.survey.best_except(&[first]).filter(|(_, per_s)| far(*per_s));
        let concurrencies = std::iter::once(first).chain(best.map(|(concurrency, _)| concurrency)).collect();
        if let Stage::Rate(search) = std::mem::replace(&mut self.stage, Stage::Survey) {
            self.stage = Stage::Reference(search, concurrencies);
        }
    }

    /// Measures the first concurrency once more, whatever the search has found: a store that has changed with the time
    /// looks like one that takes more with every operation in flight.
    pub(super) fn repeat(&mut self) {
        let plateau = match std::mem::replace(&mut self.stage, Stage::Survey) {
            Stage::Plateau(plateau) | Stage::Hold(plateau) | Stage::Recheck(plateau, _) => plateau,
            other => {
                self.stage = other;
                return;
            }
        };
        // With one concurrency, it has just been measured.
        match plateau.concurrency == self.search.in_flight.0 {
            true => (self.stage, self.over) = (Stage::Plateau(plateau), true),
            false => self.stage = Stage::Repeat(plateau),
        }
    }

    /// Ends the search, or begins it again if the throughput of the first concurrency has changed.
    pub(super) fn end_repeat(&mut self, concurrency: usize, per_s: f64, disturbed: bool) {
        let before = self.survey.at(concurrency).filter(|_| concurrency == self.search.in_flight.0);
        let has_changed = before.is_some_and(|before| differ(&[before], &[per_s])) && !disturbed;
        // With less time, the new search would end without a result; the change is named beside that of the old one.
        let has_time = self.left_ns() > self.search.within_ns / 3;
        match has_changed && has_time && self.surveys < MAX_SURVEYS {
            true => self.survey_again(),
            false => self.over = true,
        }
    }

    /// Ends the survey if it has found its plateau. `limited` is the resource that limited the client in the last step.
    pub(super) fn end_survey(&mut self, limited: Option<String>) {
        let (concurrency, growing) = match self.survey.next() {
            Next::Try(_) => return,
            Next::Plateau(concurrency) => (concurrency, false),
            Next::Growing(concurrency) => (concurrency, true),
        };
        let per_s = self.survey.best_per_s();
        self.growing = growing;
        match self.search.by {
            // A client that is the limit at the end of the survey has hidden the limit of the store.
            CapacityBy::Concurrency => {
                self.client_limit =
                    limited.filter(|_| !self.survey.has_jumped()).map(|reason| ClientLimit { per_s, reason });
                self.over = per_s <= 0.0;
                self.stage = Stage::Plateau(Plateau::new(concurrency));
            }
            CapacityBy::Rate if per_s <= 0.0 => self.over = true,
            CapacityBy::Rate => {
                let (to, tolerance) = (self.search.to_per_s, self.search.tolerance);
                let from = (per_s * START_SHARE).min(to);
                let limits = KneeLimits { from, to, tolerance, growth: NEAR };
                let light = self.survey.at(1);
                self.stage = Stage::Rate(RateSearch::new(limits, light));
            }
        }
    }

    /// Ends the measurement of a concurrency. The search ends, unless the survey found a higher throughput at another
    /// concurrency, which is then measured too.
    pub(super) fn end_plateau(&mut self) {
        let Stage::Plateau(plateau) = &mut self.stage else { return };
        if self.client_limit.is_some() {
            self.over = true;
            return;
        }
        let measured = self.exceeded.iter().chain([&*plateau]).map(|p| p.concurrency).collect::<Vec<_>>();
        match self.survey.best_except(&measured).filter(|(_, per_s)| plateau.is_below(*per_s)) {
            Some((concurrency, _)) => {
                self.exceeded.push(std::mem::replace(plateau, Plateau::new(concurrency)));
            }
            None => {
                if let Stage::Plateau(plateau) = std::mem::replace(&mut self.stage, Stage::Survey) {
                    self.stage = Stage::Hold(plateau);
                }
            }
        }
    }

    /// Measures the highest concurrency of the survey once more, unless that concurrency was measured last.
    pub(super) fn recheck(&mut self) {
        let Stage::Hold(plateau) = std::mem::replace(&mut self.stage, Stage::Survey) else { return };
        let highest = self.survey.highest().filter(|highest| *highest > plateau.concurrency);
        match highest {
            Some(concurrency) => self.stage = Stage::Recheck(plateau, concurrency),
            None => {
                self.stage = Stage::Hold(plateau);
                self.repeat();
            }
        }
    }
}
