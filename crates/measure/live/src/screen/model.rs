//! The state of a run for the live view: the last minutes second by second, failures, the client and the cost.

use std::collections::{BTreeMap, HashSet, VecDeque};

use plimsoll_base::clock::{SECOND, now_ns, process_cpu_ns};
use plimsoll_base::text::outgoing;
use plimsoll_base::units::{format_per_s, short_names};
use plimsoll_judge::summary::result::{CapacityStep, CostFigures, Window};
use plimsoll_recorder::collector::{SecondRow, WindowState};
use plimsoll_recorder::histogram::Latencies;
use plimsoll_recorder::latency::Latency;
use plimsoll_workload::schedule::Role;
use plimsoll_workload::schedule::plan::PhaseRun;

/// Number of seconds that are kept.
pub const KEPT: usize = 300;
/// Number of the last seconds over which the current figures are computed.
const CURRENT: usize = 5;
/// Maximum number of notes that are kept until the view closes.
const NOTES: usize = 200;
/// Classes of latency in the heat strip per factor of two.
pub const CLASSES_PER_OCTAVE: f64 = 2.0;
/// Number of classes of latency, from 1 us to more than an hour.
pub const CLASSES: usize = 64;

/// One second of the run.
#[derive(Debug, Default)]
pub struct Second {
    /// Seconds since the run began.
    pub second: u64,
    /// Number of successful operations.
    pub completed: u64,
    /// Number of failed operations.
    pub failed: u64,
    /// Object bytes delivered.
    pub bytes: f64,
    /// Median of the service time in milliseconds; `None` without a successful operation.
    pub p50_ms: Option<f64>,
    /// 99th percentile of the service time in milliseconds.
    pub p99_ms: Option<f64>,
    /// Successful operations by class of their service time; see [`class_of`].
    pub heat: Vec<(usize, u64)>,
    /// Service times; empty once the second is no longer among the last ones.
    service: Latencies,
}

/// State of the client in the current phase.
#[derive(Debug, Default, PartialEq)]
pub struct ClientState {
    /// Mean number of cores that the process used since the last update.
    pub cores: f64,
    /// 99th percentile of the start lag in milliseconds; open loops only.
    pub start_lag_ms: Option<f64>,
    /// Busiest network interface and its used share (0 to 1); `None` if its speed is not known.
    pub link: Option<(String, f64)>,
}

/// Figures of the last seconds.
#[derive(Debug, Default, PartialEq)]
pub struct Current {
    /// Successful operations per second.
    pub per_s: f64,
    /// Object bytes per second.
    pub bytes_per_s: f64,
    /// Service times at the median, the 99th and the 99.9th percentile, in milliseconds.
    pub percentiles_ms: [Option<f64>; 3],
}

/// The state of a run.
#[derive(Debug, Default)]
pub struct Model {
    /// Short names of the stores.
    pub stores: Vec<String>,
    /// Current phase with its role, load and store, or the activity between phases.
    pub title: String,
    /// Time that has passed of the phases with a time limit, in nanoseconds.
    pub passed_ns: u64,
    /// Sum of the time limits of all phases, in nanoseconds.
    pub total_ns: u64,
    /// The last seconds, oldest first. Seconds without an operation are absent.
    pub seconds: VecDeque<Second>,
    /// Failed operations of the run by class.
    pub errors: BTreeMap<String, u64>,
    /// Successful operations of the run.
    pub completed: u64,
    /// State of the client.
    pub client: ClientState,
    /// Cost so far in words; `None` if it is not known.
    pub spent: Option<String>,
    /// Cost limit in words; `None` without a limit.
    pub limit: Option<String>,
    /// Notes for the user, oldest first.
    pub notes: VecDeque<String>,
    /// True once the run was asked to stop.
    pub stopping: bool,
    /// Time of the last update on the monotonic clock and CPU time of the process at that time, in nanoseconds.
    measured_ns: (u64, u64),
    /// Time on the monotonic clock in nanoseconds at which the newest second arrived.
    newest_ns: u64,
    /// Classes of failures that have been reported.
    reported: HashSet<String>,
}

/// Returns the class of a latency in microseconds.
pub fn class_of(us: u64) -> usize {
    (((us.max(1) as f64).log2() * CLASSES_PER_OCTAVE) as usize).min(CLASSES - 1)
}

/// Returns the lower edge of a class in milliseconds.
pub fn edge_ms(class: usize) -> f64 {
    (class as f64 / CLASSES_PER_OCTAVE).exp2() / 1e3
}

impl Second {
    /// Computes the percentiles and classes from the service times.
    fn compute(&mut self) {
        let ms = |q| self.service.quantile_ns(q).map(|ns: u64| ns as f64 / 1e6);
        (self.p50_ms, self.p99_ms) = (ms(0.5), ms(0.99));
        let mut heat = BTreeMap::new();
        for value in self.service.histogram().into_iter().flat_map(|h| h.iter_recorded()) {
            *heat.entry(class_of(value.value_iterated_to())).or_insert(0) += value.count_at_value();
        }
        self.heat = heat.into_iter().collect();
    }
}

impl Model {
    /// Returns the model of a run that has not started. `limit` is its cost limit in words.
    pub fn new(limit: Option<String>) -> Model {
        Model { limit, ..Model::default() }
    }

    /// Begins a pass over these phase runs.
    pub fn started(&mut self, stores: &[String], phase_runs: &[PhaseRun]) {
        self.stores = short_names(&stores.iter().map(String::as_str).collect::<Vec<_>>());
        self.total_ns = phase_runs.iter().filter_map(|run| run.phase.limit.duration_ns).sum();
        self.passed_ns = 0;
        self.measured_ns = (now_ns(), process_cpu_ns());
        self.title = "starting".into();
    }

    /// Adds the counts of one second.
    pub fn second(&mut self, row: &SecondRow<'_>) {
        if self.seconds.back().is_none_or(|last| last.second != row.second) {
            self.newest_ns = now_ns();
            self.seconds.push_back(Second { second: row.second, ..Second::default() });
            if self.seconds.len() > KEPT {
                self.seconds.pop_front();
            }
            // The current figures do not need the service times of older seconds.
            if let Some(old) = self.seconds.len().checked_sub(CURRENT + 1) {
                self.seconds[old].service = Latencies::default();
            }
        }
        let Some(last) = self.seconds.back_mut() else { return };
        last.completed += row.tally.completed;
        last.bytes += row.tally.bytes;
        last.service.merge(&row.tally.latencies[Latency::Service]);
        self.completed += row.tally.completed;
        for (class, n) in &row.tally.errors {
            last.failed += n;
            *self.errors.entry(class.clone()).or_default() += n;
        }
        last.compute();
    }

    /// Updates the phase, the time that has passed, and the state of the client.
    pub fn progress(&mut self, states: &[WindowState], phase_runs: &[PhaseRun]) {
        let Some(current) = states.iter().rposition(|state| state.edges.is_some()) else { return };
        let (state, run) = (&states[current], &phase_runs[current]);
        let role = run.phase.role.name();
        self.title = match run.phase.role {
            Role::Measure => run.label(&self.stores),
            _ => format!("{role}: {}", run.label(&self.stores)),
        };
        let duration = |run: &PhaseRun| run.phase.limit.duration_ns.unwrap_or(0);
        let begun_ns = now_ns().saturating_sub(state.edges.map_or(0, |edges| edges.start_ns));
        let before: u64 = phase_runs[..current].iter().map(duration).sum();
        self.passed_ns = before + begun_ns.min(duration(run));
        self.total_ns = phase_runs.iter().map(duration).sum();
        let (before, now) = (self.measured_ns, (now_ns(), process_cpu_ns()));
        self.measured_ns = now;
        let cores = (now.1 - before.1) as f64 / (now.0 - before.0).max(1) as f64;
        let mut lag = Latencies::default();
        state.tallies.values().for_each(|tally| lag.merge(&tally.latencies[Latency::StartLag]));
        self.client = ClientState {
            cores,
            start_lag_ms: lag.quantile_ns(0.99).map(|ns| ns as f64 / 1e6),
            link: state.usage.link.clone(),
        };
    }

    /// Returns the last second of the run at a time on the monotonic clock, which had no operation if its counts have
    /// not arrived; `None` before the first one with an operation.
    pub fn last_second(&self, now_ns: u64) -> Option<u64> {
        /// Seconds after which the counts of a second have arrived.
        const DELAY: u64 = 2;
        let silent = (now_ns.saturating_sub(self.newest_ns) / SECOND).saturating_sub(DELAY);
        Some(self.seconds.back()?.second + silent)
    }

    /// Returns the figures of the last seconds at a time on the monotonic clock; `None` before the first complete
    /// second. Seconds without an operation count.
    pub fn current(&self, now_ns: u64) -> Option<Current> {
        let newest = self.last_second(now_ns)?;
        let first = self.seconds.len().saturating_sub(CURRENT);
        let recent = || self.seconds.range(first..).filter(|s| s.second + CURRENT as u64 > newest);
        let mut service = Latencies::default();
        recent().for_each(|second| service.merge(&second.service));
        let oldest = self.seconds.front()?.second;
        let seconds = (newest - oldest + 1).min(CURRENT as u64) as f64;
        Some(Current {
            per_s: recent().map(|s| s.completed).sum::<u64>() as f64 / seconds,
            bytes_per_s: recent().map(|s| s.bytes).sum::<f64>() / seconds,
            percentiles_ms: [0.5, 0.99, 0.999].map(|q| service.quantile_ns(q).map(|ns| ns as f64 / 1e6)),
        })
    }

    /// Updates the cost so far.
    pub fn cost(&mut self, figures: &[CostFigures]) {
        let dollars: f64 = figures.iter().map(|f| f.bill.total_usd.pico() as f64 / 1e12).sum();
        self.spent = (!figures.is_empty()).then(|| format!("${dollars:.4}"));
    }

    /// Adds a note.
    pub fn note(&mut self, text: &str) {
        self.notes.push_back(outgoing(text).into_owned());
        if self.notes.len() > NOTES {
            self.notes.pop_front();
        }
    }

    /// Adds a failure if it is the first of its class.
    pub fn failure(&mut self, class: &str, message: &str) {
        if self.reported.insert(class.to_string()) {
            self.note(&format!("! {class}: {message}"));
        }
    }

    /// Adds a note for each finished window that this client limited, or that was saturated.
    pub fn windows(&mut self, windows: &[Window]) {
        for window in windows {
            let name = window.place();
            if let Some(reason) = &window.client_limited {
                self.note(&format!("! {name}: limited by this client ({reason})"));
            }
            if window.saturated {
                self.note(&format!("! {name}: saturated"));
            }
        }
    }

    /// Adds a note about a finished step of a search for the capacity.
    pub fn capacity_step(&mut self, step: &CapacityStep) {
        let load = match (step.offered_per_s, step.in_flight) {
            (Some(rate), _) => format!("{}/s", format_per_s(rate)),
            (None, in_flight) => format!("{} in flight", in_flight.unwrap_or_default()),
        };
        self.note(&format!("{load}: {}/s", format_per_s(step.achieved_per_s)));
    }

    /// Shows an activity between phases.
    pub fn activity(&mut self, text: &str) {
        self.title = outgoing(text).into_owned();
    }
}
