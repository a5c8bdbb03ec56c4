//! Processes the collector's data during a run: updates the run directory, ends ramps at their plateau, and
//! notifies the observer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::abort::AbortRules;
use super::budget::Budget;
use super::live::Live;
use super::observer::RunObserver;
use super::rendezvous::Rendezvous;
use super::settings::Components;
use plimsoll_base::clock::now_ns;
use plimsoll_base::machine::peak_rss_bytes;
use plimsoll_engine::driver::{Control, Job, RampId};
use plimsoll_judge::run_dir::directory::RunDirectory;
use plimsoll_judge::run_dir::intervals::IntervalKey;
use plimsoll_judge::summary::background::{places, sums};
use plimsoll_judge::summary::caches::caches;
use plimsoll_judge::summary::limits::Means;
use plimsoll_judge::summary::merge::overall;
use plimsoll_judge::summary::ramp::{RampEnd, of_windows};
use plimsoll_judge::summary::result::{RunResult, Window};
use plimsoll_judge::summary::sweeps::sweeps;
use plimsoll_judge::summary::window::{Setting, settled, windows};
use plimsoll_recorder::collector::{Listener, SecondRow, WindowState};
use plimsoll_recorder::log::LogRecord;
use plimsoll_recorder::store_facts::Description;
use plimsoll_workload::schedule::Role;
use plimsoll_workload::schedule::plan::{EndedRamp, RampStep};
use plimsoll_workload::schedule::plateau::plateau;

/// Collects the results of one pass during the run.
pub struct Reporter<'a> {
    job: &'a Job,
    control: &'a Control,
    directory: &'a mut RunDirectory,
    observer: &'a dyn RunObserver,
    means: Means,
    epoch_unix_s: f64,
    described: Vec<Description>,
    /// Windows of finished phase runs, by phase run.
    closed: BTreeMap<usize, Vec<Window>>,
    /// CPU time of finished measured phase runs, in seconds.
    cpu_closed_s: f64,
    /// Throughput and used share of the network link of ramp steps whose figures are final, by phase run.
    settled: BTreeMap<usize, (f64, Option<f64>)>,
    ends: BTreeMap<RampId, EndedRamp>,
    written_at_ns: u64,
    write_took_ns: u64,
    /// Metrics of the Prometheus endpoint; `None` without one.
    live: Option<Live>,
    /// Conditions that end the run early; `None` without any.
    abort: Option<Arc<AbortRules>>,
    /// Coordinator of a fleet, which ends ramps; `None` to end them here.
    rendezvous: Option<Arc<dyn Rendezvous>>,
    /// Steps that were reported to the coordinator.
    reported: BTreeSet<usize>,
    /// Cost of the run; `None` if it is not computed.
    pub budget: Option<Arc<Budget>>,
    /// Result of the earlier passes.
    earlier: RunResult,
    /// The result so far.
    pub result: RunResult,
}

impl<'a> Reporter<'a> {
    /// Creates a reporter that adds one pass to `result`.
    pub fn new(
        job: &'a Job,
        control: &'a Control,
        directory: &'a mut RunDirectory,
        components: &'a Components,
        means: Means,
        mut result: RunResult,
    ) -> Reporter<'a> {
        let described: Vec<Description> = job.sites.iter().map(|s| s.store.describe()).collect();
        result.run.stores = described.iter().map(|d| d.url.clone()).collect();
        let wall_s = plimsoll_base::clock::wall_now().as_nanosecond() as f64 / 1e9;
        Reporter {
            job,
            control,
            directory,
            observer: components.observer.as_ref(),
            means,
            epoch_unix_s: wall_s - now_ns() as f64 / 1e9,
            described,
            closed: BTreeMap::new(),
            cpu_closed_s: 0.0,
            settled: BTreeMap::new(),
            ends: BTreeMap::new(),
            written_at_ns: 0,
            write_took_ns: 0,
            live: components.live.clone(),
            abort: components.abort.clone(),
            budget: None,
            rendezvous: components.rendezvous.clone(),
            reported: BTreeSet::new(),
            earlier: result.clone(),
            result,
        }
    }

    fn windows(&self, index: usize, state: &WindowState) -> Vec<Window> {
        let phase_run = &self.job.phase_runs[index];
        if !phase_run.recorded {
            return Vec::new();
        }
        let setting = Setting {
            store: &self.described[phase_run.store],
            means: self.means,
            connections: self.job.shard.share(phase_run.phase.load.slots()),
            epoch_unix_s: self.epoch_unix_s,
            now_ns: now_ns(),
        };
        windows(phase_run, state, setting)
    }

    /// Returns true unless the phase run is a ramp step after the end of its ramp, such as one that was cut short.
    fn counts(&self, index: usize) -> bool {
        let phase_run = &self.job.phase_runs[index];
        let end = self.ends.get(&phase_run.ramp_id()).filter(|_| phase_run.may_end_early());
        end.is_none_or(|end| phase_run.step.is_none_or(|step| (step as usize) < end.steps))
    }

    /// Ends the current ramp if its settled steps have reached a plateau.
    fn judge_ramp(&mut self, states: &[WindowState]) {
        let Some(current) = states.iter().rposition(|w| w.edges.is_some()) else { return };
        let phase_run = &self.job.phase_runs[current];
        let ramp = phase_run.ramp_id();
        if !phase_run.may_end_early() || self.ends.contains_key(&ramp) {
            return;
        }
        let steps: Vec<usize> = (0..=current)
            .filter(|i| {
                let s = &self.job.phase_runs[*i];
                s.recorded && s.step.is_some() && s.ramp_id() == ramp
            })
            .collect();
        let mut throughputs = Vec::new();
        let mut link = None;
        for (step, index) in steps.iter().enumerate() {
            if !self.settled.contains_key(index) && settled(&states[*index]) {
                let (carried, share) = self.carried(*index, &states[*index]);
                self.settled.insert(*index, (carried, share));
            }
            let Some((throughput, share)) = self.settled.get(index).copied() else { break };
            throughputs.push(throughput);
            link = share;
            if let Some(rendezvous) = &self.rendezvous
                && self.reported.insert(*index)
            {
                rendezvous.step(RampStep { ramp, step, throughput, link });
            }
        }
        if let Some(rendezvous) = &self.rendezvous {
            if let Some(end) = rendezvous.ramp_end(ramp) {
                self.ends.insert(ramp, end);
                self.control.end_ramp(ramp);
            }
            return;
        }
        for steps in 1..=throughputs.len() {
            let share = link.filter(|_| steps == throughputs.len());
            if let Some(reason) = plateau(&throughputs[..steps], share) {
                self.ends.insert(ramp, EndedRamp { steps, reason });
                self.control.end_ramp(ramp);
                return;
            }
        }
    }

    /// Returns the throughput of a step over all operations and the share of the network link that it used. The
    /// throughput is in bytes per second, or in operations per second if the step transferred no bytes.
    fn carried(&self, index: usize, state: &WindowState) -> (f64, Option<f64>) {
        let windows = self.windows(index, state);
        let bytes: f64 = windows.iter().map(|w| w.throughput_bytes_per_s).sum();
        let operations: f64 = windows.iter().map(|w| w.achieved_per_s).sum();
        (if bytes > 0.0 { bytes } else { operations }, state.usage.link.as_ref().map(|(_, share)| *share))
    }

    fn gather(&mut self, states: &[WindowState]) {
        let mut all = self.earlier.windows.clone();
        let mut cpu_s = self.cpu_closed_s + self.earlier.client.cpu_seconds;
        for (index, state) in states.iter().enumerate() {
            if !self.counts(index) {
                continue;
            }
            match self.closed.get(&index) {
                Some(windows) => all.extend(windows.iter().cloned()),
                None => {
                    all.extend(self.windows(index, state));
                    cpu_s += self.cpu_s(index, state);
                }
            }
        }
        let measured: u64 = all.iter().filter(|w| w.role == Role::Measure).map(|w| w.operations).sum();
        let client = &mut self.result.client;
        client.cpu_seconds = cpu_s;
        client.cpu_us_per_operation = if measured > 0 { cpu_s * 1e6 / measured as f64 } else { 0.0 };
        client.peak_rss_bytes = peak_rss_bytes();
        let merged = overall(&all);
        self.result.sweeps = sweeps(&merged);
        self.result.caches = caches(&merged);
        let ramped: Vec<Window> = all.iter().filter(|w| self.is_ramp(w)).cloned().collect();
        self.result.ramps = of_windows(&ramped, |window| self.why_ended(window));
        self.result.windows = all;
        let calls = self.job.sites.iter().zip(&self.described);
        self.result.cost = self.budget.as_ref().map(|budget| budget.figures()).unwrap_or_default();
        self.result.background_requests =
            calls.clone().flat_map(|(s, d)| sums(&d.url, &s.store.background_requests())).collect();
        self.result.places = calls.flat_map(|(s, d)| places(&d.url, s.store.relayed())).collect();
    }

    fn cpu_s(&self, index: usize, state: &WindowState) -> f64 {
        let phase_run = &self.job.phase_runs[index];
        let counts = phase_run.recorded && phase_run.phase.role == Role::Measure;
        if counts { state.usage.process_cpu_ns as f64 / 1e9 } else { 0.0 }
    }

    /// Returns true if a window belongs to a phase with a ramp.
    fn is_ramp(&self, window: &Window) -> bool {
        self.job.phase_runs.iter().any(|s| s.phase.ramp.is_some() && s.phase.name == window.phase)
    }

    /// Returns the reason why the ramp of a window ended.
    fn why_ended(&self, window: &Window) -> RampEnd {
        let same = |ramp: &RampId| {
            let RampId { store, phase: number, repeat } = *ramp;
            let phase = self.job.phase_runs.iter().find(|s| s.number == number).map(|s| &s.phase.name);
            repeat == window.repeat
                && self.described[store].url == window.store
                && phase == Some(&window.phase)
        };
        let end = self.ends.iter().find(|(ramp, _)| same(ramp));
        end.map_or(RampEnd::NoPlateau, |(_, end)| RampEnd::Plateau(end.reason))
    }

    fn write(&mut self) {
        let began = now_ns();
        self.directory.result(&self.result);
        self.written_at_ns = now_ns();
        self.write_took_ns = self.written_at_ns - began;
    }
}

fn place_of<'a>(job: &'a Job, described: &'a [Description], index: usize) -> IntervalKey<'a> {
    let phase_run = &job.phase_runs[index];
    IntervalKey {
        store: &described[phase_run.store].url,
        phase: &phase_run.phase.name,
        role: phase_run.phase.role,
        repeat: phase_run.repeat,
        block: phase_run.block,
        step: phase_run.step,
    }
}

impl Listener for Reporter<'_> {
    fn second(&mut self, row: &SecondRow<'_>) {
        let phase_run = &self.job.phase_runs[row.phase];
        if phase_run.recorded {
            self.observer.second(row);
            let place = place_of(self.job, &self.described, row.phase);
            self.directory.second(place, row);
            if let Some(live) = &self.live {
                live.second(place, row);
            }
            if let Some(abort) = &self.abort {
                abort.second(place.phase, place.role, row, self.control);
            }
        }
    }

    fn snapshot(&mut self, states: &[WindowState]) {
        self.judge_ramp(states);
        if let Some(budget) = &self.budget {
            budget.watch();
            if let Some(rendezvous) = &self.rendezvous {
                budget.share(rendezvous.as_ref());
            }
            let cost = budget.figures();
            self.live.iter().for_each(|live| live.cost(&cost));
            self.observer.cost(&cost);
        }
        self.observer.progress(states, &self.job.phase_runs);
        self.directory.flush();
        // Writing many windows takes long, so writes are spaced to use at most about 3% of the time.
        if now_ns() - self.written_at_ns >= 30 * self.write_took_ns {
            self.gather(states);
            self.write();
        }
    }

    fn closed(&mut self, index: usize, state: &WindowState) -> bool {
        // A prepare phase keeps its counts, because the driver checks them for failures.
        if self.job.phase_runs[index].phase.role == Role::Prepare || state.edges.is_none() {
            return false;
        }
        if self.job.phase_runs[index].step.is_some() && settled(state) {
            let carried = self.carried(index, state);
            self.settled.entry(index).or_insert(carried);
        }
        self.cpu_closed_s += self.cpu_s(index, state);
        let windows = self.windows(index, state);
        if self.counts(index) {
            self.observer.windows(&windows);
        }
        self.closed.insert(index, windows);
        true
    }

    fn logged(&mut self, operations: &[LogRecord]) {
        for operation in operations.iter().filter(|o| self.job.phase_runs[o.phase_run].recorded) {
            let place = place_of(self.job, &self.described, operation.phase_run);
            self.directory.operation(place, operation);
        }
    }

    fn finished(&mut self, states: &[WindowState]) {
        self.judge_ramp(states);
        self.directory.flush();
        self.gather(states);
    }

    fn failure(&mut self, class: &str, message: &str) {
        self.observer.failure(class, message);
    }
}
