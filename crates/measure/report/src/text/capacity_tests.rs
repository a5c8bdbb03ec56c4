//! The words of searches for the capacity.

use super::*;
use plimsoll_judge::summary::result::{CapacityChange, Window};

fn say(found: &CapacityFigures) -> String {
    of_store("a", "get", found, "use a larger client")
}

fn closed(in_flight: u64, achieved_per_s: f64, met: bool) -> CapacityStep {
    CapacityStep { in_flight: Some(in_flight), achieved_per_s, met, ..CapacityStep::default() }
}

fn by_rate() -> CapacityFigures {
    CapacityFigures {
        objectives: vec!["get.p99 < 10ms".into()],
        per_s: Some(1000.0),
        highest_met_per_s: Some(1000.0),
        lowest_missed_per_s: Some(1020.0),
        held_s: Some(60.0),
        finished: true,
        ..CapacityFigures::default()
    }
}

#[test]
fn a_search_by_rate_names_both_bounds_and_for_how_long_the_lower_was_held() {
    assert_eq!(
        say(&by_rate()),
        "capacity of a: 1000 get/s meets get.p99 < 10ms, held for 60 s; 1020/s does not"
    );
    let without = CapacityFigures { objectives: Vec::new(), held_s: None, ..by_rate() };
    assert_eq!(say(&without), "capacity of a: 1000 get/s is sustained; 1020/s is not");
    let all_met = CapacityFigures { lowest_missed_per_s: None, ..by_rate() };
    assert_eq!(
        say(&all_met),
        "capacity of a: at least 1000 get/s, which meets get.p99 < 10ms, held for 60 s; no higher rate was tried: \
         raise --to"
    );
}

/// Regression test: the answer was "more in flight only adds latency" for a store whose throughput fell by half.
#[test]
fn what_is_said_of_more_in_flight_was_measured() {
    let found = |beyond: f64| CapacityFigures {
        by: CapacityBy::Concurrency,
        per_s: Some(200.0),
        low_per_s: Some(198.0),
        high_per_s: Some(202.0),
        bytes_per_s: Some(2e8),
        in_flight: Some(8),
        held_s: Some(30.0),
        finished: true,
        steps: vec![closed(8, 200.0, true), closed(64, beyond, true)],
        ..CapacityFigures::default()
    };
    let start =
        "capacity of a: 200 get/s (95%: 198-202, 200 MB/s) with 8 in flight, held for 30 s; 64 in flight";
    assert_eq!(say(&found(199.0)), format!("{start} gave no more"));
    assert_eq!(say(&found(75.0)), format!("{start} gave only 75.0/s"));
    assert_eq!(say(&found(210.0)), format!("{start} gave 210/s in a short step"));
    let change = CapacityChange { in_flight: 8, before_per_s: 1470.0, after_per_s: 200.0 };
    let changed = CapacityFigures { change: Some(change), ..found(199.0) };
    assert_eq!(
        say(&changed),
        "capacity of a: 200 get/s (95%: 198-202, 200 MB/s) with 8 in flight, held for 30 s; the store changed during \
         the search: with 8 in flight, it gave 1470 get/s at first and 200/s later"
    );
}

#[test]
fn several_stores_are_ordered_and_a_bound_is_called_one() {
    let run = |store: &str, per_s: Option<f64>, limit: Option<f64>| {
        let window = Window { store: store.into(), role: Role::Measure, ..Window::default() };
        let client_limit = limit.map(|per_s| ClientLimit { per_s, reason: "cpu".into() });
        let capacity = CapacityFigures { per_s, client_limit, ..CapacityFigures::default() };
        RunResult { windows: vec![window], capacity: Some(capacity), ..RunResult::default() }
    };
    let (slow, fast) = (run("s3://slow", Some(400.0), None), run("s3://fast", Some(720.0), None));
    assert_eq!(
        ranking(&[&slow, &fast]),
        "highest capacity first: s3://fast 720 get/s, s3://slow 400 get/s; s3://fast takes 1.80x as many as the next"
    );
    let limited = run("s3://limited", None, Some(900.0));
    assert!(ranking(&[&slow, &limited]).contains("s3://limited at least 900 get/s, s3://slow 400"));
    assert!(ranking(&[&fast, &limited]).ends_with("s3://limited takes at least 1.25x as many as the next"));
    let down = run("s3://down", None, None);
    assert_eq!(
        ranking(&[&fast, &down]),
        "highest known rate first: s3://fast 720 get/s, s3://down without a result"
    );
}

/// Regression test: the answer was the throughput of a closed loop, although the search had missed lower rates.
#[test]
fn the_answer_of_a_search_by_rate_is_a_rate_that_was_met() {
    let limit = ClientLimit { per_s: 1500.0, reason: "cpu: 99% of a core".into() };
    let steps = vec![CapacityStep {
        in_flight: Some(64),
        achieved_per_s: 19_000.0,
        met: true,
        ..CapacityStep::default()
    }];
    let limited = CapacityFigures { client_limit: Some(limit), per_s: None, steps, ..by_rate() };
    assert!(say(&limited).starts_with("a takes at least 1000 get/s within get.p99 < 10ms, held for 60 s;"));
    let only_closed = CapacityFigures { highest_met_per_s: None, lowest_missed_per_s: None, ..limited };
    let expected =
        "this client is too busy to tell whether a meets get.p99 < 10ms: it was the limit at 1500 get/s";
    assert!(say(&only_closed).starts_with(expected), "{}", say(&only_closed));
}

/// Regression test: the answer of a client that was the bottleneck had no number.
#[test]
fn a_client_that_is_the_limit_gives_a_lower_bound() {
    let limit = ClientLimit { per_s: 1500.0, reason: "cpu: 99% of a core".into() };
    let limited = CapacityFigures { client_limit: Some(limit), per_s: None, ..by_rate() };
    assert_eq!(
        say(&limited),
        "a takes at least 1000 get/s within get.p99 < 10ms, held for 60 s; above that, this client was the limit \
         (cpu: 99% of a core): use a larger client"
    );
    let without = CapacityFigures { objectives: Vec::new(), highest_met_per_s: None, ..limited.clone() };
    assert!(say(&without).starts_with("a takes at least 1500 get/s; above that, this client"));
    let none = CapacityFigures { highest_met_per_s: None, lowest_missed_per_s: None, ..limited };
    assert!(say(&none).starts_with("this client is too busy to tell whether a meets get.p99 < 10ms"));
}

/// Regression test: a closed loop of the survey became "at least 172 get/s within get.p99 < 10ms", beside lower
/// rates that missed it.
#[test]
fn a_closed_loop_is_no_rate_that_meets_an_objective() {
    let steps = vec![closed(1, 86.0, true), closed(2, 172.0, true), closed(4, 200.0, false)];
    let found = CapacityFigures {
        per_s: None,
        highest_met_per_s: None,
        lowest_missed_per_s: None,
        finished: false,
        steps,
        ..by_rate()
    };
    assert_eq!(
        say(&found),
        "the time ended before the search tried whether a meets get.p99 < 10ms at any rate: raise --within"
    );
    let closed_only = CapacityFigures { objectives: Vec::new(), ..found.clone() };
    assert_eq!(
        say(&closed_only),
        "capacity of a: at least 172 get/s, with 2 in flight; the time ended before the search found more: raise \
         --within"
    );
    let change = CapacityChange { in_flight: 4, before_per_s: 1470.0, after_per_s: 150.0 };
    let steps = vec![closed(4, 1470.0, true), closed(4, 150.0, true)];
    let changed = CapacityFigures { objectives: Vec::new(), steps, change: Some(change), ..found.clone() };
    assert!(say(&changed).starts_with("capacity of a: at least 150 get/s, with 4 in flight; "));
    let open = CapacityStep { offered_per_s: Some(900.0), achieved_per_s: 75.0, ..CapacityStep::default() };
    let from = CapacityFigures {
        objectives: Vec::new(),
        steps: vec![open],
        lowest_missed_per_s: Some(450.0),
        ..found.clone()
    };
    assert_eq!(
        say(&from),
        "capacity of a: at least 75.0 get/s, the highest throughput of a step; 450 get/s is not sustained: lower \
         --from"
    );
    let missed = |finished: bool, client_limited: Option<&str>| {
        let client_limited = client_limited.map(str::to_string);
        let open = CapacityStep {
            offered_per_s: Some(43.0),
            client_limited,
            achieved_per_s: 43.0,
            ..CapacityStep::default()
        };
        let steps = vec![closed(1, 86.0, false), open];
        say(&CapacityFigures { steps, lowest_missed_per_s: Some(43.0), finished, ..found.clone() })
    };
    let start = "a met get.p99 < 10ms at no rate that was tried; 43.0 get/s misses get.p99 < 10ms; ";
    assert_eq!(missed(true, None), format!("{start}relax the objective"));
    let ended = "the time ended before lower rates were tried: lower --from, or raise --within";
    assert_eq!(missed(false, None), format!("{start}{ended}"));
    // Regression test: the advice was to relax the objective that the store met, and the client did not.
    let limited = "this client was the limit at each of them: use a larger client";
    assert_eq!(missed(true, Some("start lag")), format!("{start}{limited}"));
}

/// Regression test: bounds that differed by a factor of two were called the capacity, with 180/s between them.
#[test]
fn bounds_that_are_far_apart_are_a_bracket_if_the_time_has_ended() {
    let found = CapacityFigures {
        per_s: Some(123.0),
        lowest_missed_per_s: Some(247.0),
        finished: false,
        held_s: None,
        ..by_rate()
    };
    assert_eq!(
        say(&found),
        "capacity of a: between 123 and 247 get/s: 123 get/s meets get.p99 < 10ms; 247/s does not; the time ended \
         before the search could tell more: raise --within"
    );
}

/// Regression test: the advice for a store that became faster during the search was to raise the concurrency.
#[test]
fn a_store_that_has_changed_did_not_grow_by_the_concurrency() {
    let change = CapacityChange { in_flight: 1, before_per_s: 40.0, after_per_s: 100.0 };
    let found = CapacityFigures {
        by: CapacityBy::Concurrency,
        per_s: Some(400.0),
        low_per_s: Some(396.0),
        high_per_s: Some(404.0),
        growing: true,
        change: Some(change),
        held_in_flight: Some(1024),
        ..CapacityFigures::default()
    };
    assert_eq!(
        say(&found),
        "capacity of a: at least 396 get/s (95%: 396-404) with 1024 in flight; measure it again when it does not \
         change; the store changed during the search: with 1 in flight, it gave 40.0 get/s at first and 100/s later"
    );
}
