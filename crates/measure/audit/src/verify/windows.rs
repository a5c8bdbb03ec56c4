//! Comparison of the windows of a result with the schedule: role, loop and operations in flight of each phase, and the
//! length of the window, from which all rates follow.

use plimsoll_workload::schedule::plan::PhaseRun;
use plimsoll_workload::schedule::{Phase, Role, Verify};

use super::schedule::{PhaseOnStore, Position, position};
use plimsoll_judge::run_dir::merge::LogTotal;
use plimsoll_judge::summary::result::{LoopKind, OWN_WINDOWS, Percentiles, RunResult, Window};

/// Largest difference between the length of a window and the length in the experiment, in seconds: the rounding of
/// nanoseconds to a decimal number.
const ROUNDING_S: f64 = 1e-6;

/// Longest pause of a connection slot after a failure to connect, in milliseconds.
const LONGEST_PAUSE_MS: f64 = 640.0;

/// Time that the client may need between two operations of a connection slot on a busy machine, in seconds.
const SLACK_S: f64 = 0.1;

/// Maximum number of objects whose sizes are added up.
const MAX_SIZES: u64 = 1 << 24;

/// Returns the contradictions between windows and schedule, in words.
pub(super) fn check(result: &RunResult, phases: &[PhaseOnStore], totals: &[LogTotal]) -> Vec<String> {
    let windows = &result.windows;
    let mut out = Vec::new();
    let of_phase = |store: &str, name: &str| {
        phases.iter().find(|phase| phase.store == store && phase.phase.name == name)
    };
    for total in totals {
        let Some(phase) = of_phase(&total.store, &total.phase) else { continue };
        if total.role != phase.phase.role.name() {
            let role = phase.phase.role.name();
            out.push(format!(
                "phase '{}' is {} in the log, and {role} in the experiment",
                total.phase, total.role
            ));
        }
    }
    if result.run.degraded.is_none() {
        out.extend(phases.iter().flat_map(|phase| missing(phase, windows)));
    }
    out.extend(phases.iter().filter_map(|phase| wrong_size(phase, windows)));
    for (number, window) in windows.iter().enumerate() {
        let at = (window.repeat, window.block, window.step);
        let found = of_phase(&window.store, &window.phase);
        let run = found.and_then(|phase| {
            phase.phase_runs.iter().find(|(run, _)| run.recorded && position(run) == at).map(|(run, _)| run)
        });
        let problem = match run {
            None => Some("it is not in the schedule".to_string()),
            Some(run) => contradiction(window, run, totals).or_else(|| {
                let of_run = |w: &&Window| is_of_run(w, window);
                match result.schema >= OWN_WINDOWS {
                    true => wrong_length(window, &run.phase, windows.iter().filter(of_run))
                        .or_else(|| uneven(window, &run.phase)),
                    false => wrong_edges(window, &run.phase),
                }
            }),
        };
        out.extend(problem.map(|problem| format!("windows[{number}], phase '{}': {problem}", window.phase)));
    }
    out
}

/// Returns true if two windows are of one phase run.
fn is_of_run(a: &Window, b: &Window) -> bool {
    let of = |w: &Window| (w.repeat, w.block, w.step);
    (&a.store, &a.phase, of(a)) == (&b.store, &b.phase, of(b))
}

fn is_of(window: &Window, phase: &PhaseOnStore) -> bool {
    window.store == phase.store && window.phase == phase.phase.name
}

/// Returns the phase runs of a closed loop without a window: each of them starts operations.
fn missing(phase: &PhaseOnStore, windows: &[Window]) -> Vec<String> {
    let is_there =
        |at: Position| windows.iter().any(|w| is_of(w, phase) && (w.repeat, w.block, w.step) == at);
    let absent = phase.phase_runs.iter().filter(|(run, _)| {
        run.recorded && !run.may_end_early() && !run.phase.load.is_open() && !is_there(position(run))
    });
    let name = &phase.phase.name;
    let text =
        |repeat: u32| format!("phase '{name}' on {} has no window of repeat {}", phase.store, repeat + 1);
    absent.map(|(run, _)| text(run.repeat)).collect()
}

/// Returns the contradiction between the bytes that a prepare phase wrote and the sizes of its objects.
fn wrong_size(phase: &PhaseOnStore, windows: &[Window]) -> Option<String> {
    let workload = &phase.phase.workload;
    let mut own = windows.iter().filter(|window| is_of(window, phase));
    let window = own.next().filter(|window| window.role == Role::Prepare && window.errors.is_empty())?;
    if own.next().is_some() || window.operations > MAX_SIZES || workload.recording.is_some() {
        return None;
    }
    let mut sequence = workload.sequence();
    let size = |number| {
        let operation = sequence.at(number);
        workload.dataset(operation.target).size_of(operation.index, operation.version)
    };
    let bytes: u64 = (0..window.operations).map(size).fold(0, u64::saturating_add);
    // The bytes of operations are added up as parts of seconds.
    let is_same = window.bytes.abs_diff(bytes) as f64 <= 2.0 + bytes as f64 * 1e-9;
    (!is_same).then(|| {
        let (name, store) = (&phase.phase.name, &phase.store);
        format!("phase '{name}' on {store} wrote {} bytes, and its objects have {bytes}", window.bytes)
    })
}

/// Returns the contradiction between the length of a window with a time limit and the experiment.
fn wrong_edges(window: &Window, phase: &Phase) -> Option<String> {
    let (Some(ns), None) = (phase.limit.duration_ns, phase.limit.operations) else { return None };
    let (stated, planned) = (window.window_s, ns as f64 / 1e9);
    ((stated - planned).abs() > ROUNDING_S)
        .then(|| format!("it lasts {stated} s, and {planned} s in the experiment"))
}

/// Returns the contradiction between the length of a window of a closed loop with a time limit and its operations. The
/// last operation of a connection slot begins before the time is over, so the window is longer by at most the longest
/// operation in `of_run`, which are the windows of the same phase run.
fn wrong_length<'a>(
    window: &Window,
    phase: &Phase,
    of_run: impl Iterator<Item = &'a Window>,
) -> Option<String> {
    let (Some(ns), None, false) = (phase.limit.duration_ns, phase.limit.operations, phase.load.is_open())
    else {
        return None;
    };
    let mut longest_ms: f64 = 0.0;
    for window in of_run {
        let max = |percentiles: &Percentiles| percentiles.max.unwrap_or(0.0);
        // An operation that was given up has no service time.
        let given_up =
            if window.censored > 0 { (phase.drain_ns.max(phase.timeout_ns)) as f64 / 1e6 } else { 0.0 };
        // A write that is read back, and a slot that was refused, are busy after their operation.
        let after = if phase.verify == Verify::Off { 0.0 } else { max(&window.service_ms) };
        let refused = if window.errors.is_empty() { 0.0 } else { LONGEST_PAUSE_MS };
        let took = max(&window.service_ms).max(max(&window.failed_ms)).max(given_up);
        longest_ms = longest_ms.max(took + after + refused + max(&window.start_lag_ms));
    }
    let (stated, planned) = (window.window_s, ns as f64 / 1e9);
    let most = planned + phase.think_time_ns as f64 / 1e9 + longest_ms / 1e3 + SLACK_S;
    if stated < planned - ROUNDING_S {
        return Some(format!("it lasts {stated} s, and at least {planned} s in the experiment"));
    }
    (stated > most)
        .then(|| format!("it lasts {stated} s, longer than its time and its longest operation ({most:.3} s)"))
}

/// Returns the contradiction between the number of operations of a closed loop, its rate, and its throughput.
fn uneven(window: &Window, phase: &Phase) -> Option<String> {
    if phase.load.is_open() {
        return None;
    }
    let succeeded = window.succeeded() as f64;
    let counted = window.achieved_per_s * window.window_s;
    if (counted - succeeded).abs() > 0.5 {
        return Some(format!(
            "{succeeded} operations succeeded, and {} per second in {} s are {counted:.1}",
            window.achieved_per_s, window.window_s
        ));
    }
    let bytes = window.throughput_bytes_per_s * window.window_s;
    ((bytes - window.bytes as f64).abs() > 1.0 + bytes * 1e-9).then(|| {
        format!(
            "{} bytes were delivered, and {} per second in {} s are {bytes:.0}",
            window.bytes, window.throughput_bytes_per_s, window.window_s
        )
    })
}

/// Returns the first contradiction between a window and its phase run.
fn contradiction(window: &Window, run: &PhaseRun, totals: &[LogTotal]) -> Option<String> {
    let phase = &run.phase;
    if window.role != phase.role {
        return Some(format!(
            "its role is {}, and {} in the experiment",
            window.role.name(),
            phase.role.name()
        ));
    }
    if (window.loop_ == LoopKind::Open) != phase.load.is_open() {
        return Some(format!("its loop is {}, and its load {}", window.loop_.name(), phase.load.describe()));
    }
    if window.concurrency != phase.load.slots() {
        let slots = phase.load.slots();
        return Some(format!(
            "{} operations are in flight, and {slots} in the experiment",
            window.concurrency
        ));
    }
    let end_of = |from| phase.size_classes.as_ref().and_then(|classes| classes.end_of(from));
    if let Some(class) = window.size_classes.iter().find(|class| class.to_bytes != end_of(class.from_bytes)) {
        return Some(format!("the experiment has no class of sizes from {} bytes", class.from_bytes));
    }
    if run.may_end_early() {
        return None;
    }
    let stated = window.window_s;
    match (phase.limit.duration_ns, phase.limit.operations) {
        (Some(_), None) if phase.load.is_open() => wrong_edges(window, phase),
        // See `wrong_length`.
        (Some(_), None) => None,
        // The last operation may end after the time is over.
        (Some(ns), _) => (stated > (ns + phase.drain_ns) as f64 / 1e9)
            .then(|| format!("it lasts {stated} s, longer than in the experiment")),
        (None, _) => {
            // Such a window ends with its last operation, so the whole seconds between the first and the last row
            // belong to it.
            let own = totals.iter().filter(|total| {
                (&*total.store, &*total.phase) == (&*window.store, &*window.phase)
                    && (total.repeat, total.block, total.step) == position(run)
            });
            let (first, last) = own.fold((u64::MAX, 0), |(first, last), total| {
                (first.min(total.seconds.0), last.max(total.seconds.1))
            });
            let least = last.saturating_sub(first).saturating_sub(1);
            (stated < least as f64)
                .then(|| format!("it lasts {stated} s, and more than {least} s in the log"))
        }
    }
}
