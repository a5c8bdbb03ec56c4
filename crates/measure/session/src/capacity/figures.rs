//! The result of a search: the capacity with its bounds, and what limits it.

use super::change::change;
use super::plateau::Plateau;
use super::rate::RateSearch;
use super::{Capacity, Stage};
use plimsoll_base::clock::SECOND;
use plimsoll_judge::summary::result::{CapacityBy, CapacityFigures, ClientLimit};

impl Capacity {
    /// Returns the measured concurrency with the highest throughput; `None` before the first one.
    fn best_plateau(&self) -> Option<&Plateau> {
        let (Stage::Plateau(last) | Stage::Hold(last) | Stage::Recheck(last, _) | Stage::Repeat(last)) =
            &self.stage
        else {
            return None;
        };
        let complete = self.exceeded.iter().chain([last]).filter(|p| p.interval().is_some());
        let per_s = |p: &&Plateau| p.mean().unwrap_or_default();
        complete.max_by(|a, b| per_s(a).total_cmp(&per_s(b))).or(Some(last))
    }

    /// Returns true if the search has its result, rather than only no more time.
    pub(super) fn is_finished(&self) -> bool {
        self.best_plateau().is_some_and(|plateau| plateau.interval().is_some()) || self.next_step().is_none()
    }

    pub(super) fn figures(&self, finished: bool) -> CapacityFigures {
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
            (Stage::Rate(search) | Stage::Reference(search, _), _) => {
                self.figures_by_rate(search, &mut figures)
            }
            (_, None) => {}
            (_, Some(plateau)) => {
                figures.held_s = Some(plateau.held_s()).filter(|held_s| *held_s > 0.0);
                figures.held_in_flight = figures.held_s.map(|_| plateau.concurrency as u64);
                match (plateau.paused_share(), &mut figures.client_limit) {
                    // The steps at the limit of the client bound the capacity from below.
                    (_, Some(limit)) => {
                        limit.per_s = plateau.interval().map_or(limit.per_s, |(low, _)| low);
                        figures.held_s = None;
                        figures.held_in_flight = None;
                    }
                    (Some(share), None) => {
                        let reason = format!("it paused {:.0}% of the time", 100.0 * share);
                        let per_s = plateau.mean().unwrap_or_default();
                        figures.client_limit = Some(ClientLimit { per_s, reason });
                    }
                    (None, None) => {
                        figures.per_s = plateau.mean();
                        (figures.low_per_s, figures.high_per_s) = plateau.interval().unzip();
                    }
                }
            }
        }
        figures.change = change(self.steps.iter().filter(|step| !step.recovery));
        figures.bytes_per_s =
            figures.per_s.map(|per_s| per_s * self.bytes_per_operation).filter(|bytes| *bytes > 0.0);
        let reaching = figures.per_s.and_then(|per_s| self.survey.reaching(per_s, 0.95));
        // A store that became faster after the survey reached its capacity only at the concurrency of the plateau.
        let measured = self.best_plateau().filter(|_| figures.per_s.is_some()).map(|p| p.concurrency);
        figures.in_flight = reaching.or(measured).map(|concurrency| concurrency as u64);
        figures
    }

    /// Adds the result of a search by rate.
    fn figures_by_rate(&self, search: &RateSearch, figures: &mut CapacityFigures) {
        let found = search.found();
        (figures.highest_met_per_s, figures.lowest_missed_per_s) = (found.holds, found.breaks);
        figures.held_s = search.held_ns().map(|ns| ns as f64 / SECOND as f64);
        if search.is_client_limited() {
            return;
        }
        figures.client_limit = None;
        figures.growing = found.breaks.is_none() && found.holds.is_some();
        figures.per_s = found.holds;
        (figures.low_per_s, figures.high_per_s) = (found.holds, found.breaks);
    }
}
