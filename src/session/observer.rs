//! The seam between a run and whoever watches it: a terminal, a test, another program.

use std::sync::Arc;

use crate::driver::Control;
use crate::recorder::collector::{SecondRow, WindowState};
use crate::schedule::plan::PhaseRun;
use crate::summary::result::{KneeStep, Window};

/// Facts of a run that is about to begin.
pub struct RunStart<'a> {
    /// Redacted URLs of the stores, in order.
    pub stores: &'a [String],
    /// The phase runs of the first pass.
    pub phase_runs: &'a [PhaseRun],
    /// The handle that stops the run.
    pub control: &'a Arc<Control>,
}

/// Receives the progress of a run. Every method returns quickly: the collector thread calls most of them.
pub trait RunObserver: Send + Sync {
    /// Receives a line that the user should read.
    fn note(&self, line: &str) {
        let _ = line;
    }

    /// Receives a line of the cost estimate, before the first request.
    fn estimate(&self, line: &str) {
        let _ = line;
    }

    /// Receives a finished step of a knee search.
    fn knee_step(&self, step: &KneeStep) {
        let _ = step;
    }

    /// The run directory exists and the first operation is next.
    fn started(&self, run: &RunStart<'_>) {
        let _ = run;
    }

    /// Receives the counts of one second of a recorded phase run.
    fn second(&self, row: &SecondRow<'_>) {
        let _ = row;
    }

    /// Receives the state of all phase runs, about once a second.
    fn progress(&self, states: &[WindowState], phase_runs: &[PhaseRun]) {
        let _ = (states, phase_runs);
    }

    /// Receives a failed operation's error class and message.
    fn failure(&self, class: &str, message: &str) {
        let _ = (class, message);
    }

    /// Receives the windows of a phase run that has ended.
    fn windows(&self, windows: &[Window]) {
        let _ = windows;
    }

    /// Receives what the run does between phases, such as cleaning up.
    fn activity(&self, text: &str) {
        let _ = text;
    }

    /// The run has ended; only its results are left to be written.
    fn ended(&self) {}
}

/// An observer that does nothing.
pub struct Silent;

impl RunObserver for Silent {}
