//! Searches on simulated stores.

use super::*;
use crate::observer::Silent;
use plimsoll_judge::summary::result::CapacityFigures;

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
    while let Some(planned) = capacity.next_step() {
        let load = planned.load;
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
        capacity.note(planned, step);
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
    while let Some(planned @ Planned { load: Load::Closed { concurrency }, .. }) = capacity.next_step() {
        // The first step at 4 in flight is an outlier.
        let outlier = concurrency == 4 && steps == 2;
        let achieved_per_s = if outlier { 1060.0 } else { 1040.0f64.min(240.0 * concurrency as f64) };
        capacity.note(planned, CapacityStep { achieved_per_s, ..CapacityStep::default() });
        steps += 1;
    }
    let found = capacity.figures(true);
    assert_eq!((found.per_s, found.low_per_s), (Some(1040.0), Some(1040.0)));
    let all = "survey to 64, 4 and 8 in flight, 8 for longer, and 64 and 1 once more";
    assert_eq!(steps, 6 + 3 + 3 + 1 + 1 + 1, "{all}");
}

#[test]
fn below_the_limit_of_the_client_the_search_goes_on() {
    let by_rate = found(search(CapacityBy::Rate, Some(100.0)), 1000.0, 1e9);
    let met = by_rate.highest_met_per_s.unwrap();
    assert!((980.0..=1000.0).contains(&met), "{met}");
    assert_eq!((by_rate.per_s, by_rate.client_limit.is_some()), (None, true));
    let by_store = found(search(CapacityBy::Rate, Some(100.0)), 1000.0, 600.0);
    assert!((588.0..=600.0).contains(&by_store.per_s.unwrap()), "{by_store:?}");
    let by_concurrency = found(search(CapacityBy::Concurrency, None), 1000.0, 1e9);
    let limit = by_concurrency.client_limit.unwrap();
    assert_eq!(
        (by_concurrency.per_s, limit.per_s, limit.reason.as_str()),
        (None, 1000.0, "cpu: 99% of a core")
    );
}

#[test]
fn a_client_that_is_limited_only_far_beyond_the_plateau_does_not_hide_it() {
    let mut capacity = Capacity::new(search(CapacityBy::Concurrency, None), Arc::new(Silent));
    while let Some(planned @ Planned { load: Load::Closed { concurrency }, .. }) = capacity.next_step() {
        let achieved_per_s = 1000.0f64.min(100.0 * concurrency as f64);
        let client_limited = (concurrency > 64).then(|| "cpu: 99% of a core".into());
        capacity.note(planned, CapacityStep { achieved_per_s, client_limited, ..CapacityStep::default() });
    }
    let found = capacity.figures(true);
    assert_eq!((found.per_s, found.client_limit), (Some(1000.0), None));
}

/// Searches on a store with a capacity that depends on the number of the step.
fn found_on(search: CapacitySearch, store: impl Fn(u32) -> f64) -> CapacityFigures {
    let mut capacity = Capacity::new(search, Arc::new(Silent));
    while let Some(planned) = capacity.next_step() {
        let offered = match planned.load {
            Load::Closed { concurrency } => concurrency as f64 * 100.0,
            Load::Open { rate_per_s, .. } => rate_per_s,
        };
        let step = capacity.steps.len() as u32;
        let in_flight = match planned.load {
            Load::Closed { concurrency } => Some(concurrency as u64),
            Load::Open { .. } => None,
        };
        let achieved_per_s = offered.min(store(step));
        let met = in_flight.is_some() || offered <= achieved_per_s;
        capacity
            .note(planned, CapacityStep { step, in_flight, achieved_per_s, met, ..CapacityStep::default() });
    }
    capacity.figures(true)
}

/// Regression test: a store with burst credits and one that scaled up were reported with a mean of both levels.
#[test]
fn a_store_that_changes_is_reported_as_it_is_at_the_end_with_its_level_before() {
    for (before, after) in [(1600.0, 150.0), (200.0, 600.0)] {
        for (by, change_at) in [(CapacityBy::Concurrency, 6), (CapacityBy::Rate, 8)] {
            let found = found_on(search(by, None), |step| if step < change_at { before } else { after });
            let per_s = found.per_s.unwrap();
            assert!((0.97 * after..=after).contains(&per_s), "{by:?} {before} to {after}: {found:?}");
            if by == CapacityBy::Concurrency || after < before {
                let change = found.change.unwrap();
                assert!(change.before_per_s > 1.2 * change.after_per_s || after > before, "{change:?}");
            }
        }
    }
}

/// Regression test: for a store whose capacity rose from 40/s to 400/s during the search, the answer was 1024
/// operations in flight, where 4 are enough.
#[test]
fn growth_in_time_is_not_growth_by_concurrency() {
    let growing = |step: u32| (40.0 * 1.3f64.powi(step as i32)).min(400.0);
    for by in [CapacityBy::Concurrency, CapacityBy::Rate] {
        let found = found_on(search(by, None), growing);
        let per_s = found.per_s.unwrap();
        assert!((390.0..=400.0).contains(&per_s), "{by:?}: {found:?}");
        assert!(found.change.is_some(), "{by:?}: {found:?}");
        if by == CapacityBy::Concurrency {
            assert_eq!((found.in_flight, found.growing), (Some(4), false), "{found:?}");
        }
    }
    let steady = found_on(search(CapacityBy::Rate, None), |_| 400.0);
    assert_eq!(
        (steady.change, steady.steps.last().unwrap().in_flight),
        (None, Some(1)),
        "the first load ends it"
    );
}

#[test]
fn a_client_that_was_busy_once_does_not_end_the_search() {
    let mut capacity = Capacity::new(search(CapacityBy::Rate, Some(100.0)), Arc::new(Silent));
    let rate = |capacity: &Capacity| match capacity.next_step().map(|planned| planned.load) {
        Some(Load::Open { rate_per_s, .. }) => Some(rate_per_s),
        _ => None,
    };
    let light = capacity.next_step().unwrap();
    capacity.note(light, CapacityStep { achieved_per_s: 50.0, ..CapacityStep::default() });
    for (met, limited, next) in [(false, true, 100.0), (true, false, 200.0), (false, true, 200.0)] {
        let planned = capacity.next_step().unwrap();
        let client_limited = limited.then(|| "start lag".into());
        capacity.note(planned, CapacityStep { met, client_limited, ..CapacityStep::default() });
        assert_eq!((rate(&capacity), capacity.client_limit.is_none()), (Some(next), true));
    }
}
