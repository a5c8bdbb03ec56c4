//! The progress of a run on standard error. On a terminal, one live line shows the phase, progress, rate,
//! throughput, percentiles of the last seconds, errors by class, and the time left. Failures appear above it
//! as they occur, and `q` stops the run. Without a terminal, each phase prints one plain line. With `--json`,
//! only notes are printed.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::out::note;
use super::signals;
use plimsoll_base::clock::{SECOND, now_ns};
use plimsoll_base::text::outgoing;
use plimsoll_base::units::{
    format_count, format_ms, format_per_s, format_throughput, short_names, show_duration,
};
use plimsoll_engine::driver::Control;
use plimsoll_judge::summary::result::{CapacityStep, Window};
use plimsoll_live::screen::keys::KeyInput;
use plimsoll_recorder::collector::{SecondRow, WindowState};
use plimsoll_recorder::histogram::Latencies;
use plimsoll_recorder::latency::Latency;
use plimsoll_report::text::capacity::{load, verdict};
use plimsoll_session::observer::{RunObserver, RunStart};
use plimsoll_workload::schedule::Role;
use plimsoll_workload::schedule::plan::PhaseRun;

/// Length of the window for the percentiles and rates of the live line, in seconds.
const LAST_SECONDS: u64 = 5;

/// Counts of one second of the current phase run.
#[derive(Default)]
struct Second {
    second: u64,
    service: Latencies,
    completed: u64,
    bytes: f64,
}

#[derive(Default)]
struct Live {
    phase_run: usize,
    last: VecDeque<Second>,
    errors: BTreeMap<String, u64>,
    announced: Option<usize>,
    /// First second of the phase run. It is incomplete, because the phase run started within it.
    first: u64,
    /// Error classes, phases and warnings that have been reported. The steps of a search and the blocks of a comparison
    /// repeat them.
    reported: HashSet<String>,
}

/// The display of a run's progress.
struct Progress {
    bar: Option<ProgressBar>,
    plain: bool,
    urls: Vec<String>,
    /// Short names of the stores.
    stores: Vec<String>,
    live: Mutex<Live>,
    total_ns: u64,
    _keys: Option<KeyInput>,
}

impl Progress {
    /// Returns a display with a live line if standard error is a terminal, else with plain lines. Prints
    /// nothing if `quiet`.
    fn new(stores: &[String], phase_runs: &[PhaseRun], quiet: bool, control: Arc<Control>) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        let total_ns: u64 = phase_runs.iter().filter_map(|s| s.phase.limit.duration_ns).sum();
        let bar = (terminal && !quiet).then(|| {
            let bar = ProgressBar::with_draw_target(Some(total_ns / 1_000_000), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("[{bar:10}] {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar.set_message("starting");
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        let keys =
            bar.as_ref().and_then(|_| KeyInput::listen(control, || note("\nstopping; results are kept")));
        let names = short_names(&stores.iter().map(String::as_str).collect::<Vec<_>>());
        let plain = !terminal && !quiet;
        let live = Mutex::default();
        Progress { bar, plain, urls: stores.to_vec(), stores: names, live, total_ns, _keys: keys }
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the counts of one second of a phase run.
    fn second(&self, row: &SecondRow<'_>) {
        let mut live = self.live();
        if live.phase_run != row.phase {
            let reported = std::mem::take(&mut live.reported);
            *live = Live {
                phase_run: row.phase,
                announced: live.announced,
                first: row.second,
                reported,
                ..Live::default()
            };
        }
        if live.last.back().is_none_or(|last| last.second != row.second) {
            live.last.push_back(Second { second: row.second, ..Second::default() });
            while live.last.len() as u64 > LAST_SECONDS {
                live.last.pop_front();
            }
        }
        if let Some(last) = live.last.back_mut() {
            last.service.merge(&row.tally.latencies[Latency::Service]);
            last.completed += row.tally.completed;
            last.bytes += row.tally.bytes;
        }
        for (class, n) in &row.tally.errors {
            *live.errors.entry(class.clone()).or_default() += n;
        }
    }

    /// Updates the live line, or prints a plain line if a new phase has started.
    fn show(&self, states: &[WindowState], phase_runs: &[PhaseRun]) {
        let Some(current) = states.iter().rposition(|w| w.edges.is_some()) else { return };
        let phase_run = &phase_runs[current];
        let name = phase_run.label(&self.stores);
        if self.plain && self.live().announced != Some(current) {
            self.live().announced = Some(current);
            if phase_run.recorded && self.is_new(name.clone()) {
                let limit = phase_run
                    .phase
                    .limit
                    .duration_ns
                    .map_or(String::new(), |d| format!(", {}", show_duration(d)));
                let role = phase_run.phase.role.name();
                let role = if phase_run.phase.name == role { String::new() } else { format!("{role}: ") };
                note(format_args!("{role}{name}{limit}"));
            }
        }
        let Some(bar) = &self.bar else { return };
        let started = states[current].edges.map_or(0, |e| e.start_ns);
        let duration = |s: &PhaseRun| s.phase.limit.duration_ns.unwrap_or(0);
        let before: u64 = phase_runs[..current].iter().map(duration).sum();
        let here = now_ns().saturating_sub(started).min(duration(phase_run));
        let left = self.total_ns.saturating_sub(before + here) / SECOND;
        bar.set_position((before + here) / 1_000_000);
        // A narrow terminal cuts the end.
        let text = format!("{name}, {left} s left (q stops): {}", self.figures(current));
        bar.set_message(outgoing(&text).into_owned());
    }

    fn figures(&self, current: usize) -> String {
        let live = self.live();
        if live.phase_run != current || live.last.is_empty() {
            return "starting".into();
        }
        let mut service = Latencies::default();
        live.last.iter().for_each(|s| service.merge(&s.service));
        // Leaves out the incomplete first second, unless it is the only one.
        let whole = || live.last.iter().filter(|s| s.second != live.first || live.last.len() == 1);
        let seconds = whole().count() as f64;
        let completed: u64 = whole().map(|s| s.completed).sum();
        let bytes: f64 = whole().map(|s| s.bytes).sum();
        let quantile = |q| service.quantile_ns(q).map_or("-".into(), |ns| format_ms(ns as f64 / 1e6));
        let errors: Vec<String> =
            live.errors.iter().map(|(c, n)| format!("{c} x {}", format_count(*n))).collect();
        let errors =
            if errors.is_empty() { String::new() } else { format!(", FAILED {}", errors.join(", ")) };
        format!(
            "{:.0}/s, {}, p50 {} p99 {} ms{errors}",
            completed as f64 / seconds,
            format_throughput(bytes / seconds),
            quantile(0.5),
            quantile(0.99)
        )
    }

    /// Prints a line above the live line, or as a plain line.
    fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(outgoing(text)),
            None if self.plain => note(text),
            None => {}
        }
    }

    /// Returns the phase and operation of a window, with its store if there are several.
    fn place(&self, window: &Window) -> String {
        let at = self.urls.iter().position(|url| *url == window.store);
        match at.filter(|_| self.stores.len() > 1) {
            Some(at) => format!("{} on {}", window.place(), self.stores[at]),
            None => window.place(),
        }
    }

    /// Returns true at the first call with a key.
    fn is_new(&self, key: String) -> bool {
        self.live().reported.insert(key)
    }

    /// Prints a failure if it is the first of its class.
    fn failure(&self, class: &str, message: &str) {
        if self.is_new(format!("failed {class}")) {
            self.note(&format!("! {class}: {message}"));
        }
    }

    /// Prints a warning for the first measured window that was client-limited, and for each that was saturated.
    fn warnings(&self, windows: &[Window]) {
        for window in windows {
            let measured = window.client_limited.as_ref().filter(|_| window.role == Role::Measure);
            if let Some(reason) = measured.filter(|_| self.is_new("limited".into())) {
                let place = self.place(window);
                self.note(&format!(
                    "! {place}: limited by this client ({reason}); the report has all such rows"
                ));
            }
            let key = format!("saturated {} {} {}", window.phase, window.operation, window.store);
            if window.saturated && self.is_new(key) {
                self.note(&format!("! {}: saturated", self.place(window)));
            }
        }
    }

    /// Shows an activity outside the phases, such as cleaning up.
    fn activity(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(outgoing(text).into_owned());
        }
    }

    /// Removes the live line.
    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// An observer that shows a run on standard error, and stops it on Ctrl-C or `q`.
#[derive(Default)]
pub struct Terminal {
    /// True if only notes are printed.
    quiet: bool,
    progress: OnceLock<Progress>,
}

impl Terminal {
    /// Returns an observer that prints only notes if `quiet`.
    pub fn new(quiet: bool) -> Terminal {
        Terminal { quiet, progress: OnceLock::new() }
    }
}

impl RunObserver for Terminal {
    fn note(&self, line: &str) {
        note(line);
    }

    fn announce(&self, line: &str) {
        if !self.quiet {
            note(line);
        }
    }

    fn capacity_step(&self, step: &CapacityStep) {
        if !self.quiet {
            let text =
                format!("{:>14}  {:>9}/s  {}", load(step), format_per_s(step.achieved_per_s), verdict(step));
            note(text.trim_end());
        }
    }

    fn started(&self, run: &RunStart<'_>) {
        signals::listen(Arc::clone(run.control));
        let progress = Progress::new(run.stores, run.phase_runs, self.quiet, Arc::clone(run.control));
        let _ = self.progress.set(progress);
    }

    fn second(&self, row: &SecondRow<'_>) {
        self.progress.get().inspect(|p| p.second(row));
    }

    fn progress(&self, states: &[WindowState], phase_runs: &[PhaseRun]) {
        self.progress.get().inspect(|p| p.show(states, phase_runs));
    }

    fn failure(&self, class: &str, message: &str) {
        self.progress.get().inspect(|p| p.failure(class, message));
    }

    fn windows(&self, windows: &[Window]) {
        self.progress.get().inspect(|p| p.warnings(windows));
    }

    fn activity(&self, text: &str) {
        self.progress.get().inspect(|p| p.activity(text));
    }

    fn ended(&self) {
        self.progress.get().inspect(|p| p.end());
    }
}
