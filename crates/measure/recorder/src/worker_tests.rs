use super::*;
use crate::ErrorClass;
use crate::Timings;
use plimsoll_base::machine::pauses::Pause;

const GET: OperationKind = OperationKind::Get;

fn edges(cuts: &[u64]) -> Vec<Edges> {
    cuts.windows(2).map(|w| Edges { start_ns: w[0], end_ns: w[1] }).collect()
}

fn op(phase: usize, start: u64, end: u64, outcome: OperationResult<'_>) -> Completed<'_> {
    let timings = Timings {
        start_ns: start,
        end_ns: end,
        body_first_ns: start,
        body_last_ns: end,
        ..Timings::default()
    };
    Completed {
        slot: 0,
        phase,
        number: 0,
        kind: GET,
        intended_ns: None,
        ready_ns: start,
        announced_ns: start,
        timings,
        outcome,
        attempts: 1,
        retries: 0,
        cache: None,
        address: None,
    }
}

fn run(recorder: &mut WorkerRecorder, ops: &[Completed<'_>], until: u64) -> Vec<PlacedTally> {
    for op in ops {
        recorder.started(op.phase, op.kind, op.timings.start_ns);
    }
    for op in ops {
        recorder.completed(op);
    }
    recorder.take(until)
}

#[test]
fn an_operation_across_an_edge_belongs_to_the_phase_of_its_start_alone() {
    let mut recorder = WorkerRecorder::new(0, edges(&[1000, 2000, 3000]), false);
    let placed = run(&mut recorder, &[op(0, 1500, 2500, OperationResult::Done(100))], 3000);
    let [(0, GET, first), (1, GET, second)] = &placed[..] else { panic!("{placed:?}") };
    assert_eq!((first.operations, first.completed, first.begun, first.bytes), (1, 0, 1, 0.0));
    assert_eq!((second.operations, second.completed, second.begun, second.bytes), (0, 0, 0, 0.0));
    assert_eq!((first.overlap_ns, first.in_flight_ns), (500, 500));
    assert_eq!((second.overlap_ns, second.in_flight_ns), (500, 500));
    assert_eq!((first.latencies[Latency::Service].len(), second.latencies[Latency::Service].len()), (1, 0));
}

/// Returns the operations that count in each of three windows of 1000 ns under loads of `per_window` operations, of
/// which each lasts `latency` ns.
fn counted(per_window: [u64; 3], latency: u64) -> Vec<(f64, f64)> {
    let mut recorder = WorkerRecorder::new(0, edges(&[0, 1000, 2000, 3000]), false);
    let mut ops = Vec::new();
    for (phase, count) in per_window.into_iter().enumerate() {
        let starts = (0..count).map(|i| phase as u64 * 1000 + i * 1000 / count);
        ops.extend(starts.map(|start| op(phase, start, start + latency, OperationResult::Done(3))));
    }
    let mut events: Vec<(u64, bool, usize)> = Vec::new();
    for (i, op) in ops.iter().enumerate() {
        events.extend([(op.timings.start_ns, true, i), (op.timings.end_ns, false, i)]);
    }
    events.sort_unstable();
    for (at, starts, i) in events {
        if starts { recorder.started(ops[i].phase, GET, at) } else { recorder.completed(&ops[i]) }
    }
    recorder.take(9000).into_iter().map(|(.., tally)| (tally.completed as f64, tally.bytes / 3.0)).collect()
}

#[test]
fn a_steady_load_has_its_rate_whatever_its_latency_is() {
    for latency in [1, 10, 155, 400, 900] {
        for (completed, of_bytes) in counted([100; 3], latency) {
            assert_eq!(completed, of_bytes);
            assert!((98.0..=100.0).contains(&completed), "{completed} at {latency} ns");
        }
    }
}

#[test]
fn rates_do_not_count_operations_of_the_phase_before() {
    // 200 operations are in flight at the end of the first phase; the second one begins 10.
    let found: Vec<u64> =
        counted([1000, 10, 10], 200).iter().map(|(completed, _)| *completed as u64).collect();
    assert_eq!((found[0].abs_diff(1000) <= 2, &found[1..]), (true, &[10, 10][..]), "{found:?}");
}

#[test]
fn the_integral_equals_the_overlaps_with_failures_included() {
    let mut recorder = WorkerRecorder::new(3, edges(&[0, 1000, 5000, 9000]), false);
    let timeout = ErrorClass::Timeout;
    let ops = [
        op(3, 10, 700, OperationResult::Done(1)),
        op(3, 20, 5100, OperationResult::Failed(&timeout)),
        op(4, 1500, 1501, OperationResult::Done(1)),
        op(4, 4000, 9500, OperationResult::Done(1)),
        op(5, 8000, 8000, OperationResult::Done(0)),
    ];
    let placed = run(&mut recorder, &ops, 10_000);
    for (phase, _, tally) in &placed {
        assert_eq!(tally.in_flight_ns, tally.overlap_ns as i128, "phase {phase}");
    }
    assert_eq!(placed.iter().map(|(.., t)| t.overlap_ns).sum::<u128>(), 690 + 5080 + 1 + 5000);
}

#[test]
fn a_body_that_arrives_with_the_head_counts() {
    let mut recorder = WorkerRecorder::new(0, edges(&[0, 1000]), false);
    let mut small = op(0, 1, 9, OperationResult::Done(100));
    small.timings.body_last_ns = small.timings.body_first_ns;
    let empty = op(0, 1, 9, OperationResult::Done(0));
    let placed = run(&mut recorder, &[small, op(0, 1, 9, OperationResult::Done(100)), empty], 1000);
    let tally = &placed[0].2;
    assert_eq!(
        (tally.operations, tally.latencies[Latency::Body].len()),
        (3, 2),
        "operations with content have one"
    );
    assert_eq!(tally.latencies[Latency::Body].min_ns(), Some(0));
}

#[test]
fn a_failure_counts_in_neither_service_time_nor_throughput() {
    let mut recorder = WorkerRecorder::new(0, edges(&[0, 1000]), false);
    let slow = ErrorClass::Response("503 SlowDown".into());
    let placed = run(&mut recorder, &[op(0, 1, 9, OperationResult::Failed(&slow))], 1000);
    let tally = &placed[0].2;
    assert_eq!(
        (
            tally.latencies[Latency::Service].len(),
            tally.latencies[Latency::Failed].len(),
            tally.bytes,
            tally.completed
        ),
        (0, 1, 0.0, 0)
    );
    assert_eq!(tally.errors["503 SlowDown"], 1);
}

#[test]
fn sizes_are_distinguished_in_phases_with_classes() {
    let classes = SizeClasses::between(&[100]).unwrap();
    let recorder = WorkerRecorder::new(0, edges(&[0, 1000, 2000]), false);
    let mut recorder = recorder.with_size_classes(vec![Some(classes), None]);
    let mut list = op(0, 1, 9, OperationResult::Done(0));
    list.kind = OperationKind::List;
    let ops = [99, 100, 5000].map(|bytes| op(0, 1, 9, OperationResult::Done(bytes)));
    let other = op(1, 1500, 1600, OperationResult::Done(5));
    let failed = op(0, 1, 9, OperationResult::Failed(&ErrorClass::Timeout));
    let placed = run(&mut recorder, &[&ops[..], &[other, failed, list]].concat(), 2000);
    let parts: Vec<Vec<(WindowPart, u64)>> = placed
        .iter()
        .map(|(.., tally)| tally.parts.iter().map(|(part, latencies)| (*part, latencies.len())).collect())
        .collect();
    assert_eq!(parts, [vec![(WindowPart::Size(0), 1), (WindowPart::Size(100), 2)], vec![], vec![]]);
}

#[test]
fn operations_are_counted_by_address() {
    let mut recorder = WorkerRecorder::new(0, edges(&[0, 1000]), false);
    let at = |address, outcome| Completed { address: Some(address), ..op(0, 1, 9, outcome) };
    let failed = OperationResult::Failed(&ErrorClass::Timeout);
    let ops =
        [at(0, OperationResult::Done(1)), at(2, OperationResult::Done(1)), at(2, failed), at(1, failed)];
    let placed = run(&mut recorder, &ops, 1000);
    let tally = &placed[0].2;
    let succeeded: Vec<_> = tally.parts.iter().map(|(part, latencies)| (*part, latencies.len())).collect();
    assert_eq!(succeeded, [(WindowPart::Address(0), 1), (WindowPart::Address(2), 1)]);
    assert_eq!(tally.failed_at.clone().into_iter().collect::<Vec<_>>(), [(1, 1), (2, 1)]);
    let mut twice = Tally::default();
    twice.merge(tally);
    twice.merge(tally);
    assert_eq!((twice.failed_at[&2], twice.parts[&WindowPart::Address(2)].len()), (2, 2));
}

#[test]
fn operations_that_overlap_a_pause_are_counted_again() {
    let pauses = Arc::new(PauseLog::of(&[Pause { core: 0, start_ns: 5_000, end_ns: 6_000_000 }]));
    let mut recorder = WorkerRecorder::new(0, edges(&[0, 9_000_000]), false).with_pauses(pauses);
    let before = op(0, 1_000, 5_000, OperationResult::Done(1));
    let during = op(0, 4_000, 8_000, OperationResult::Done(1));
    let mut late = op(0, 6_500_000, 8_000_000, OperationResult::Done(1));
    late.intended_ns = Some(5_500_000);
    let after = op(0, 6_000_000, 8_000_000, OperationResult::Done(1));
    let failed = op(0, 4_000, 8_000, OperationResult::Failed(&ErrorClass::Timeout));
    let placed = run(&mut recorder, &[before, during, late, after, failed], 9_000_000);
    let tally = &placed[0].2;
    assert_eq!(
        (
            tally.latencies[Latency::Service].len(),
            tally.latencies[Latency::PausedService].len(),
            tally.latencies[Latency::PausedResponse].len()
        ),
        (4, 2, 1)
    );
    assert_eq!(tally.latencies[Latency::PausedResponse].max_ns(), Some(2_500_000));
}

#[test]
fn an_operation_that_never_started_is_censored_at_its_wait() {
    let mut recorder = WorkerRecorder::new(0, edges(&[0, 1000]), false);
    recorder.intended(0, GET);
    recorder.never_started(0, 7, GET, 1, 5_000_001);
    let placed = recorder.take(1000);
    let tally = &placed[0].2;
    assert_eq!(
        (tally.operations, tally.censored, tally.latencies[Latency::CensoredWait].max_ns()),
        (1, 1, Some(5_000_000))
    );
}
