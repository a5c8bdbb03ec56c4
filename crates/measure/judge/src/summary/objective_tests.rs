//! Tests of objectives and their judgement.

use super::*;
use crate::summary::series::Second;
use plimsoll_recorder::sparse::bucket_of;

/// Regression test: a search for the knee accepted every rate of a store that had stopped answering.
#[test]
fn a_store_that_answered_nothing_breaks_its_objective() {
    let objective = Objective::parse("get.p99 < 10ms").unwrap();
    let silent = Window { loop_: LoopKind::Open, censored: 500, ..Window::default() };
    assert!(objective.broken_by(&silent).is_some());
    assert!(objective.broken_by(&Window::default()).is_none(), "no operation was due");
}

#[test]
fn objectives_parse_in_all_their_forms() {
    let parsed = |text: &str| Objective::parse(text).unwrap();
    let slo = parsed("get.p99 < 10ms");
    assert_eq!(
        (slo.target.operation.as_deref(), slo.target.metric.as_str(), slo.bound),
        (Some("get"), "p99", 1e7)
    );
    assert_eq!(parsed("ramp.get.service.p99.9<=250us").target.phase.as_deref(), Some("ramp"));
    assert_eq!(parsed("errors < 0.1%").bound, 0.001);
    assert_eq!(parsed("throughput > 5 Gbit/s").bound, 625e6);
    assert_eq!(parsed("put.rate > 500/s").bound, 500.0);
    let of_size = parsed("read.get[64KiB].p99 < 10ms").target;
    assert_eq!((of_size.operation.as_deref(), of_size.size), (Some("get"), Some(65_536)));
    assert_eq!((of_size.phase.as_deref(), of_size.metric.as_str()), (Some("read"), "p99"));
    assert_eq!(parsed("get[1.5 MiB].service.p99 < 1s").target.size, Some(3 << 19));
    assert_eq!(ChangeBound::parse("get.p99 > +5%").unwrap().bound, 1.05);
    assert_eq!(ChangeBound::parse("get.rate < -10%").unwrap().bound, 0.9);
}

#[test]
fn invalid_bounds_are_refused_with_a_reason() {
    for (text, reason) in [
        ("get.p99 10ms", "neither < nor >"),
        ("get.p99 <", "no value"),
        ("get[64KiB.p99 < 1ms", "no ] after its size"),
        ("get[many].p99 < 1ms", "many"),
        ("[64KiB].p99 < 1ms", "a size and no operation"),
        ("get[64KiB].errors < 1%", "not measured by size"),
        ("get[64KiB].first_byte.p99 < 1ms", "not measured by size"),
        ("get.p99 < 10", "unit"),
        ("get.p99 > 10ms", "better when small"),
        ("throughput < 5 Gbit/s", "better when large"),
        ("get.p999x < 1ms", "no metric"),
        ("a.b.get.p99 < 1ms", "too many parts"),
        ("errors < 0.1", "not a share"),
        ("errors < 150%", "not a share"),
        ("throughput > 5", "throughput"),
        ("get.p99 < 0s", "a figure below 0"),
        ("errors <= 0%", "a figure below 0"),
    ] {
        let message = Objective::parse(text).unwrap_err().to_string();
        assert!(message.contains(reason), "{text}: {message}");
    }
    assert!(
        ChangeBound::parse("get.p99 > 5")
            .unwrap_err()
            .to_string()
            .contains("> change, such as get.p99 > +5%")
    );
}

#[test]
fn a_change_fails_only_when_the_interval_excludes_the_bound() {
    let bound = ChangeBound::parse("get.p99 > +5%").unwrap();
    assert_eq!(bound.met(Some((1.2, 1.1, 1.3))), ObjectiveResult::Fail);
    assert_eq!(bound.met(Some((1.1, 1.04, 1.2))), ObjectiveResult::Inconclusive);
    assert_eq!(bound.met(Some((1.0, 0.97, 1.03))), ObjectiveResult::Pass);
    assert_eq!(bound.met(None), ObjectiveResult::Inconclusive);
}

/// Returns a series with one second per element of `failed`. Each second has `per_s` operations, of which
/// that many failed and the others took 1 ms.
fn series(failed: &[u64], per_s: u64) -> Series {
    let second = |(number, failed): (usize, &u64)| Second {
        second: number as u64,
        time_s: 1.0,
        operations: per_s,
        completed: per_s - failed,
        failed: *failed,
        service: [(bucket_of(1000) as u16, (per_s - failed) as u32)]
            .into_iter()
            .filter(|(_, n)| *n > 0)
            .collect(),
        ..Second::default()
    };
    let seconds = failed.iter().enumerate().map(second).collect();
    Series { operation: plimsoll_workload::OperationKind::Get, seconds, ..Series::default() }
}

fn outcome(text: &str, failed: &[u64], per_s: u64) -> ObjectiveResult {
    Objective::parse(text).unwrap().judge(&series(failed, per_s)).outcome
}

#[test]
fn a_store_that_fails_three_quarters_of_its_operations_fails_an_objective_on_errors() {
    // The store broke after a quarter of the run, so the seconds are far from independent.
    let broken: Vec<u64> = (0..60).map(|s| if s < 15 { 10 } else { 1000 }).collect();
    for bound in ["errors < 1%", "get.errors < 5%", "get.p99 < 10s", "get.p90 < 10s"] {
        assert_eq!(outcome(bound, &broken, 1000), ObjectiveResult::Fail, "{bound}");
    }
    let half: Vec<u64> = (0..60).map(|s| if s % 7 < 5 { 950 } else { 300 }).collect();
    assert_eq!(outcome("errors < 1%", &half, 1000), ObjectiveResult::Fail);
}

#[test]
fn millions_of_operations_none_in_time_fail_an_objective_on_latency() {
    for seconds in [1, 5, 60] {
        let good = vec![0; seconds];
        for bound in ["get.p99 < 100us", "get.p50 < 100us"] {
            assert_eq!(outcome(bound, &good, 600_000), ObjectiveResult::Fail, "{bound}, {seconds} s");
        }
    }
}

#[test]
fn degenerate_runs_are_decided_if_the_result_is_certain() {
    assert_eq!(outcome("errors < 1%", &[5000], 5000), ObjectiveResult::Fail, "one second, all failed");
    assert_eq!(outcome("errors < 50%", &[5000; 60], 5000), ObjectiveResult::Fail, "no variance at all");
    assert_eq!(outcome("rate > 10/s", &[50; 60], 50), ObjectiveResult::Fail, "nothing was answered");
    assert_eq!(outcome("errors < 1%", &[0; 60], 50_000), ObjectiveResult::Pass);
    assert_eq!(outcome("get.p99 < 10ms", &[0; 60], 50_000), ObjectiveResult::Pass);
    // A few good seconds prove nothing.
    for bound in ["errors < 1%", "get.p99 < 10ms"] {
        assert_eq!(outcome(bound, &[0; 5], 1000), ObjectiveResult::Inconclusive, "{bound}");
    }
}

#[test]
fn three_operations_decide_nothing() {
    for bound in ["errors < 1%", "get.p99 < 100us", "get.p50 < 1s", "rate > 1000/s"] {
        for failed in [0, 3] {
            assert_eq!(outcome(bound, &[failed], 3), ObjectiveResult::Inconclusive, "{bound}, {failed}");
        }
    }
}

#[test]
fn the_finding_reports_a_limited_client() {
    let limited = Series { client_limited: Some("cpu: 97%".into()), ..series(&[0; 60], 1000) };
    let found = Objective::parse("get.p99 < 10ms").unwrap().judge(&limited);
    assert_eq!(found.client_limited.as_deref(), Some("cpu: 97%"));
}

/// Regression test: a client that stalled for half a second made a store fail, whose service times met the objective.
#[test]
fn a_miss_that_the_client_has_caused_is_undecided() {
    let late = |response_us: u64, service_us: u64, reason: &str| {
        let mut series = Series { open: true, client_limited: Some(reason.into()), ..series(&[0; 60], 1000) };
        for second in &mut series.seconds {
            let latencies =
                |us: u64| [(bucket_of(us) as u16, second.operations as u32)].into_iter().collect();
            (second.response, second.service) = (latencies(response_us), latencies(service_us));
        }
        Objective::parse("get.p99 < 200ms").unwrap().judge(&series).outcome
    };
    let (lag, cpu) = ("start lag: p99 500.0 ms", "cpu: 97% of a core by the busiest of 2 workers");
    assert_eq!(late(626_000, 129_000, lag), ObjectiveResult::Inconclusive);
    assert_eq!(late(626_000, 500_000, lag), ObjectiveResult::Fail, "the store misses it, too");
    assert_eq!(late(626_000, 500_000, cpu), ObjectiveResult::Inconclusive);
    assert_eq!(late(100_000, 90_000, cpu), ObjectiveResult::Pass);
    let rate = |reason: &str| {
        let series = Series { client_limited: Some(reason.into()), ..series(&[0; 60], 1000) };
        Objective::parse("rate > 5000/s").unwrap().judge(&series).outcome
    };
    assert_eq!((rate(cpu), rate(lag)), (ObjectiveResult::Inconclusive, ObjectiveResult::Fail));
    let refused = Series { client_limited: Some(cpu.into()), ..series(&[500; 60], 1000) };
    let found = Objective::parse("errors < 1%").unwrap().judge(&refused);
    assert_eq!(found.outcome, ObjectiveResult::Fail, "a busy client makes no store refuse requests");
}

/// Regression test: a p99 passed in a run of 24 s whose report called the same p99 unknown, and a stall of 1.5 s a
/// minute refuted it.
#[test]
fn a_pass_that_may_have_missed_stalls_is_about_its_seconds() {
    let of = |seconds: usize, open: bool, slo: &str| {
        let mut series = Series { open, ..series(&vec![0; seconds], 1000) };
        for second in &mut series.seconds {
            second.service = [(bucket_of(5_000) as u16, 1000)].into_iter().collect();
            second.response = second.service.clone();
        }
        let found = Objective::parse(slo).unwrap().judge(&series);
        assert_eq!(found.outcome, ObjectiveResult::Pass, "{slo} {found:?}");
        found.unseen_stalls.map(|stalls| (stalls.measured_s, stalls.needed_s))
    };
    assert_eq!(of(24, true, "get.p99 < 200ms"), Some((24.0, 300.0)));
    assert_eq!(of(24, true, "get.p50 < 200ms"), None);
    assert_eq!(
        of(24, false, "get.p99 < 200ms"),
        None,
        "a closed loop stalls with only one operation in flight"
    );
    assert_eq!(of(301, true, "get.p99 < 200ms"), None);
    assert_eq!(of(24, true, "errors < 5%"), None);
}

#[test]
fn an_undecided_objective_says_how_long_to_measure() {
    // The share of failures is 0%, 0.77% and 1.2%, and changes from second to second.
    for (bound, pattern) in [
        ("errors < 0.1%", [0; 6]),
        ("errors < 1%", [12, 0, 1, 9, 0, 1]),
        ("errors < 1%", [16, 1, 8, 2, 6, 3]),
    ] {
        let measured = |seconds: usize| {
            let failed: Vec<u64> = (0..seconds).map(|second| pattern[second % 6]).collect();
            Objective::parse(bound).unwrap().judge(&series(&failed, 500))
        };
        let short = measured(12);
        assert_eq!(short.outcome, ObjectiveResult::Inconclusive, "{short:?}");
        let needed = short.duration_needed_s.unwrap();
        assert!((13.0..600.0).contains(&needed), "{short:?}");
        assert_ne!(measured(needed as usize).outcome, ObjectiveResult::Inconclusive, "{needed} s are enough");
    }
    let close =
        Objective::parse("errors < 1%").unwrap().judge(&series(&[4, 5, 6, 5, 4, 6, 5, 5, 4, 6, 4, 6], 500));
    assert_eq!((close.outcome, close.duration_needed_s), (ObjectiveResult::Inconclusive, None), "{close:?}");
    assert!(close.detail.contains("too close to the objective"), "{close:?}");
}
