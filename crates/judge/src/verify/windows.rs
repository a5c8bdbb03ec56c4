//! Comparison of the windows of a result with the schedule: role, loop and operations in flight of each phase, and the
//! length of the window, from which all rates follow.

use plimsoll_workload::schedule::plan::PhaseRun;

use super::schedule::{PhaseOnStore, position};
use crate::run_dir::merge::LogTotal;
use crate::summary::result::{LoopKind, Window};

/// Largest difference of a length from that of the experiment in seconds: rounding of nanoseconds to a decimal number.
const ROUNDING_S: f64 = 1e-6;

/// Returns the contradictions between windows and schedule, in words.
pub(super) fn check(windows: &[Window], phases: &[PhaseOnStore], totals: &[LogTotal]) -> Vec<String> {
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
        (Some(ns), _) => (stated > ns as f64 / 1e9 + ROUNDING_S)
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
