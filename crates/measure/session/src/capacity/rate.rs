//! Search for the highest rate that meets the objectives: tries rates, lets the store recover after each that it
//! misses, and confirms the result with one long step.

use plimsoll_base::clock::SECOND;
use plimsoll_workload::schedule::knee::{KneeBounds, KneeLimits, Search};

/// Share of the throughput of the first light load at which a store has recovered.
const RECOVERED: f64 = 0.7;
/// Number of light loads after which a store is taken for recovered if the last ones were alike.
const ALIKE: usize = 3;
/// Largest relative difference of light loads that are alike.
const SPREAD: f64 = 0.1;
/// Maximum number of light loads after a miss.
const MAX_LIGHT: usize = 20;
/// Maximum length of the confirmation in nanoseconds.
const MAX_CONFIRM_NS: u64 = 60 * SECOND;
/// Relative distance of the bounds at which a search ends whose upper bound is the limit of the client.
const CLIENT_TOLERANCE: f64 = 1.1;
/// Share of the throughput of an overloaded store that is tried next.
const BELOW: f64 = 0.95;
/// Largest factor by which the rate falls at once.
const MAX_DOWN: f64 = 16.0;
/// Share of the time of a search that the confirmation takes.
const CONFIRM_SHARE: u64 = 6;

/// Next step of a search by rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RateStep {
    /// One operation in flight, until the store is no longer busy with what it was sent before.
    Light,
    /// A rate to try.
    Try(f64),
    /// The highest rate that met the objectives, for the length of a confirmation.
    Confirm(f64),
}

/// A search by rate in progress.
pub struct RateSearch {
    search: Search,
    /// Throughput of one operation in flight on a store that is not busy; `None` before the first one.
    light_per_s: Option<f64>,
    /// Throughputs of the light loads since the last miss; `None` if the store has recovered.
    recovery: Option<Vec<f64>>,
    /// Rate and length in nanoseconds of the confirmation that met the objectives.
    confirmed: Option<(f64, u64)>,
    /// Lowest rate at which the client was the bottleneck.
    client_per_s: Option<f64>,
    /// Throughput during the last rate that was missed.
    missed_at_per_s: Option<f64>,
}

/// Returns the length of a confirmation in a search of this length, in nanoseconds, if a step takes `step_ns`.
pub fn confirmation_ns(within_ns: u64, step_ns: u64) -> u64 {
    (within_ns / CONFIRM_SHARE).min(MAX_CONFIRM_NS).max(step_ns)
}

impl RateSearch {
    /// Creates a search. `light_per_s` is the throughput of one operation in flight, if it is known.
    pub fn new(limits: KneeLimits, light_per_s: Option<f64>) -> RateSearch {
        RateSearch {
            search: Search::new(limits),
            light_per_s,
            // After a survey, the store may still be busy.
            recovery: Some(Vec::new()),
            confirmed: None,
            client_per_s: None,
            missed_at_per_s: None,
        }
    }

    /// Returns the next step; `None` if the search is over. `is_late` is true if the time left suffices only for the
    /// confirmation.
    pub fn next(&self, is_late: bool) -> Option<RateStep> {
        if self.recovery.is_some() {
            return Some(RateStep::Light);
        }
        let found = self.found();
        let unconfirmed = found.holds.filter(|rate| self.confirmed.is_none_or(|(of, _)| of != *rate));
        let is_close = |high: f64| found.holds.is_some_and(|low| high <= low * CLIENT_TOLERANCE);
        let is_enough = self.is_client_limited() && found.breaks.is_some_and(is_close);
        match self.search.next().filter(|_| !is_enough) {
            Some(rate) if !(is_late && unconfirmed.is_some()) => Some(RateStep::Try(self.guess(rate))),
            _ => unconfirmed.map(RateStep::Confirm),
        }
    }

    /// Returns the next rate to try in place of `rate`: until a rate is met, an overloaded store shows by its
    /// throughput that its capacity is far lower.
    fn guess(&self, rate: f64) -> f64 {
        let KneeBounds { holds, breaks } = self.found();
        match (breaks.filter(|breaks| holds.is_none() && rate < *breaks), self.missed_at_per_s) {
            (Some(breaks), Some(achieved)) => rate.min(BELOW * achieved).max(breaks / MAX_DOWN),
            _ => rate,
        }
    }

    /// Records a light load.
    pub fn note_light(&mut self, per_s: f64) {
        let Some(recovery) = &mut self.recovery else { return };
        recovery.push(per_s);
        let Some(before) = self.light_per_s else {
            self.light_per_s = Some(per_s);
            self.recovery = None;
            return;
        };
        let last = &recovery[recovery.len().saturating_sub(ALIKE)..];
        let (low, high) =
            last.iter().fold((f64::INFINITY, 0.0f64), |(low, high), x| (low.min(*x), high.max(*x)));
        let is_settled = last.len() == ALIKE && low > 0.0 && high <= low * (1.0 + SPREAD);
        if per_s >= RECOVERED * before {
            self.recovery = None;
        } else if is_settled || recovery.len() >= MAX_LIGHT {
            // The store is slower than it was, also without the load that it missed.
            self.light_per_s = Some(per_s);
            self.recovery = None;
        }
    }

    /// Records a try of a rate with its throughput.
    pub fn note(&mut self, rate: f64, met: bool, achieved_per_s: f64) {
        self.search.note(rate, met);
        if !met {
            self.missed_at_per_s = Some(achieved_per_s);
        }
        self.recovery = (!met).then(Vec::new);
    }

    /// Returns true while the store recovers from a rate that it has missed.
    pub fn is_recovering(&self) -> bool {
        self.recovery.is_some()
    }

    /// Returns true if the client was the bottleneck at some rate.
    pub fn has_client_limit(&self) -> bool {
        self.client_per_s.is_some()
    }

    /// Records that the client cannot send a rate. The search goes on below it.
    pub fn note_client_limit(&mut self, rate: f64) {
        self.client_per_s = Some(self.client_per_s.map_or(rate, |known| known.min(rate)));
        // It is certain after the tries that found the client to be the limit.
        (0..2).for_each(|_| self.search.note(rate, false));
        self.recovery = Some(Vec::new());
    }

    /// Records a confirmation of a length in nanoseconds.
    pub fn note_confirmation(&mut self, rate: f64, length_ns: u64, met: bool) {
        if met {
            self.confirmed = Some((rate, length_ns));
            return;
        }
        (0..3).for_each(|_| self.search.note(rate, false));
        self.recovery = Some(Vec::new());
    }

    /// Returns the bounds so far.
    pub fn found(&self) -> KneeBounds {
        self.search.found()
    }

    /// Returns the length in nanoseconds for which the highest rate was held; `None` without a confirmation.
    pub fn held_ns(&self) -> Option<u64> {
        let holds = self.found().holds;
        self.confirmed.filter(|(rate, _)| Some(*rate) == holds).map(|(_, length_ns)| length_ns)
    }

    /// Returns true if the client, and not the store, is the limit above the highest rate that met the objectives.
    pub fn is_client_limited(&self) -> bool {
        let breaks = self.found().breaks;
        self.client_per_s.is_some_and(|limit| breaks.is_none_or(|breaks| breaks >= limit * (1.0 - 1e-9)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: KneeLimits = KneeLimits { from: 100.0, to: 1e6, tolerance: 0.02, growth: 2.0 };

    /// A store that serves a rate and, beyond it, builds up a backlog that makes everything fail until it is gone.
    struct Backlog {
        per_s: f64,
        backlog: f64,
    }

    impl Backlog {
        fn execute(&mut self, step: RateStep, search: &mut RateSearch) {
            match step {
                RateStep::Light => {
                    let is_busy = self.backlog > 0.0;
                    self.backlog = (self.backlog - self.per_s).max(0.0);
                    search.note_light(if is_busy { 1.0 } else { 50.0 });
                }
                RateStep::Try(rate) => {
                    let met = self.backlog <= 0.0 && rate <= self.per_s;
                    self.backlog += ((rate - self.per_s) * 5.0).clamp(0.0, 3.0 * self.per_s);
                    search.note(rate, met, rate);
                }
                RateStep::Confirm(rate) => {
                    search.note_confirmation(rate, 60 * SECOND, self.backlog <= 0.0 && rate <= self.per_s);
                }
            }
        }
    }

    /// Regression test: the backlog of the search's own overload was measured as the store.
    #[test]
    fn a_store_recovers_before_the_next_rate_is_tried() {
        let mut store = Backlog { per_s: 700.0, backlog: 0.0 };
        let mut search = RateSearch::new(LIMITS, None);
        while let Some(step) = search.next(false) {
            store.execute(step, &mut search);
        }
        let found = search.found();
        let (low, high) = (found.holds.unwrap(), found.breaks.unwrap());
        assert!(low <= 700.0 && high > 700.0 && high / low < 1.021, "{low}..{high}");
        assert_eq!(search.held_ns(), Some(60 * SECOND));
    }

    #[test]
    fn a_store_that_stays_slower_does_not_delay_the_search() {
        let mut search = RateSearch::new(LIMITS, Some(50.0));
        let lights = (0..).take_while(|_| {
            search.next(false) == Some(RateStep::Light) && {
                search.note_light(10.0);
                true
            }
        });
        assert_eq!(lights.count(), ALIKE);
        search.note(100.0, false, 100.0);
        search.note_light(10.0);
        assert_eq!(search.next(false), Some(RateStep::Try(50.0)), "10/s is the new light load");
    }

    #[test]
    fn an_overloaded_store_shows_how_far_the_rate_must_fall() {
        let mut search = RateSearch::new(KneeLimits { from: 1323.0, ..LIMITS }, Some(50.0));
        search.note_light(50.0);
        search.note(1323.0, false, 150.0);
        search.note_light(50.0);
        assert_eq!(search.next(false), Some(RateStep::Try(142.5)));
        search.note(142.5, true, 142.5);
        let Some(RateStep::Try(rate)) = search.next(false) else { panic!() };
        assert!((142.5..1323.0).contains(&rate), "{rate}");
    }

    #[test]
    fn a_confirmation_that_fails_continues_below_it() {
        let mut search = RateSearch::new(LIMITS, Some(50.0));
        search.note_light(50.0);
        search.note(100.0, true, 100.0);
        assert_eq!(search.next(true), Some(RateStep::Confirm(100.0)));
        search.note_confirmation(100.0, SECOND, false);
        search.note_light(50.0);
        assert_eq!((search.found().holds, search.next(true)), (None, Some(RateStep::Try(50.0))));
    }

    #[test]
    fn below_the_limit_of_the_client_the_limit_may_be_that_of_the_store() {
        let mut search = RateSearch::new(LIMITS, Some(50.0));
        search.note_light(50.0);
        search.note_client_limit(100.0);
        search.note_light(50.0);
        assert_eq!(search.next(false), Some(RateStep::Try(50.0)));
        search.note(50.0, true, 50.0);
        assert!(search.is_client_limited());
        search.note(71.0, false, 71.0);
        assert!(!search.is_client_limited());
    }
}
