//! Interface between a run and its observer, such as a terminal, a test or another program.

use std::sync::Arc;

use plimsoll_engine::driver::Control;
use plimsoll_judge::run_dir::environment::StoreFacts;
use plimsoll_judge::summary::result::{CapacityStep, CostFigures, Window};
use plimsoll_recorder::collector::{SecondRow, WindowState};
use plimsoll_workload::schedule::plan::PhaseRun;

/// Facts about a run that is about to start.
pub struct RunStart<'a> {
    /// Redacted URLs of the stores, in order.
    pub stores: &'a [String],
    /// Phase runs of the first pass.
    pub phase_runs: &'a [PhaseRun],
    /// Handle that stops the run.
    pub control: &'a Arc<Control>,
}

/// Receiver of the progress of a run. Every method returns quickly: the collector thread calls most of them.
pub trait RunObserver: Send + Sync {
    /// Receives a line that the user should read.
    fn note(&self, line: &str) {
        let _ = line;
    }

    /// Receives a line about the course of the run, such as the cost estimate. It may be left out.
    fn announce(&self, line: &str) {
        let _ = line;
    }

    /// Receives a finished step of a search for the capacity.
    fn capacity_step(&self, step: &CapacityStep) {
        let _ = step;
    }

    /// Receives the cost so far, one entry per store whose provider has prices, about once a second.
    fn cost(&self, figures: &[CostFigures]) {
        let _ = figures;
    }

    /// Receives the facts about the stores, which have answered.
    fn reached(&self, stores: &[StoreFacts]) {
        let _ = stores;
    }

    /// Called when the run directory exists, before the first operation.
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

    /// Receives a description of the activity between phases, such as cleaning up.
    fn activity(&self, text: &str) {
        let _ = text;
    }

    /// Called when the run has ended and only its results remain to be written.
    fn ended(&self) {}
}

/// An observer that does nothing.
pub struct Silent;

impl RunObserver for Silent {}
