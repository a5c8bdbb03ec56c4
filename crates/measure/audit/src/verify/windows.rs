//! Comparison of the windows of a result with the schedule: role, loop and operations in flight of each phase, and the
//! length of the window, from which all rates follow.

use plimsoll_workload::schedule::Role;
use plimsoll_workload::schedule::plan::PhaseRun;

use super::schedule::{PhaseOnStore, Position, position};
use plimsoll_judge::run_dir::merge::LogTotal;
use plimsoll_judge::summary::result::{LoopKind, RunResult, Window};

/// Largest difference between the length of a window and the length in the experiment, in seconds: the rounding of
/// nanoseconds to a decimal number.
const ROUNDING_S: f64 = 1e-6;

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
            Some(run) => contradiction(window, run, totals),
        };
        out.extend(problem.map(|problem| format!("windows[{number}], phase '{}': {problem}", window.phase)));
    }
    out
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
        (Some(ns), None) => {
            let planned = ns as f64 / 1e9;
            ((stated - planned).abs() > ROUNDING_S)
                .then(|| format!("it lasts {stated} s, and {planned} s in the experiment"))
        }
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
