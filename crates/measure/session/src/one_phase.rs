//! Executes one phase against one store: an operation on each object, for commands that take turns with other tools.

use std::sync::Arc;

use super::error::RunError;
use plimsoll_base::clock::{SECOND, now_ns, process_cpu_ns, wall_now};
use plimsoll_base::machine::usable_cores;
use plimsoll_engine::driver::{Control, Job, Shard, Site, run, workers_for};
use plimsoll_engine::store::Store;
use plimsoll_engine::store::ownership::KeySpace;
use plimsoll_judge::run_dir::directory::RunDirectory;
use plimsoll_judge::run_dir::intervals::IntervalKey;
use plimsoll_judge::summary::limits::Means;
use plimsoll_judge::summary::result::Window;
use plimsoll_judge::summary::window::{Setting, windows};
use plimsoll_recorder::collector::{Listener, SecondRow, WindowState};
use plimsoll_workload::mix::Mix;
use plimsoll_workload::payload::Block;
use plimsoll_workload::popularity::Popularity;
use plimsoll_workload::schedule::plan::PhaseRun;
use plimsoll_workload::schedule::{Limit, Load, Phase, Role, Verify};
use plimsoll_workload::{Dataset, OperationKind, ScanLength, Workload};

/// Returns a phase that executes one kind of operation, put or get, once on each object of a dataset, without retries
/// and without comparing contents.
///
/// # Errors
/// [`RunError::Input`] if the workload is invalid.
pub fn each_once(
    name: &str,
    kind: OperationKind,
    objects: Dataset,
    concurrency: usize,
) -> Result<Phase, RunError> {
    let count = objects.count;
    let workload = Workload {
        seed: objects.seed,
        phase: name.into(),
        mix: Mix::new(&[(kind, 1)]).map_err(RunError::input)?,
        read: (kind == OperationKind::Get).then(|| objects.clone()),
        written: objects,
        spare: None,
        copies: None,
        range: 0,
        popularity: Popularity::Sequential,
        inserts: None,
        scan: ScanLength::default(),
        sink: None,
        recording: None,
        written_in: None,
    };
    Ok(Phase {
        name: name.into(),
        role: Role::Measure,
        workload,
        load: Load::Closed { concurrency },
        ramp: None,
        gaps: None,
        limit: Limit { duration_ns: None, operations: Some(count) },
        timeout_ns: 60 * SECOND,
        drain_ns: 10 * SECOND,
        retries: 0,
        verify: Verify::Off,
        think_time_ns: 0,
        read_after_ns: None,
        cache: None,
        working_set: None,
        size_classes: None,
        sweep: None,
    })
}

/// Place of a phase in the run, and the handle that stops it.
#[derive(Clone, Copy)]
pub struct Timeline<'a> {
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Seed of the contents.
    pub seed: u64,
    /// Start of second 0 of the interval log, in nanoseconds on the monotonic clock.
    pub origin_ns: u64,
    /// Handle that stops the run. The first failure uses it, too, because the figures are then invalid.
    pub control: &'a Arc<Control>,
}

/// Measurements of a phase.
#[derive(Default)]
pub struct Ran {
    /// CPU time of this process in seconds.
    pub cpu_s: f64,
    /// Window of each kind of operation.
    pub windows: Vec<Window>,
    /// Number of worker threads.
    pub workers: usize,
    /// Failures with their classes, in words.
    pub failures: Vec<String>,
}

/// Writes the counts of each second to the interval log, and stops the run at the first failure.
struct PhaseListener<'a> {
    log: Option<&'a mut RunDirectory>,
    repeat: u32,
    store: &'a str,
    phase: &'a str,
    failures: Vec<String>,
    control: &'a Control,
}

impl Listener for PhaseListener<'_> {
    fn second(&mut self, row: &SecondRow<'_>) {
        let PhaseListener { store, phase, repeat, .. } = *self;
        if let Some(log) = &mut self.log {
            let role = Role::Measure;
            log.second(IntervalKey { store, phase, role, repeat, block: 0, step: None }, row);
        }
    }

    fn snapshot(&mut self, _: &[WindowState]) {
        if let Some(log) = &mut self.log {
            log.flush();
        }
    }

    fn failure(&mut self, class: &str, message: &str) {
        self.failures.push(format!("{class}: {message}"));
        // A phase with a failed operation has no valid time, so the other operations need not finish.
        self.control.stop();
    }
}

/// Executes a phase against a store. `log` gets the counts of each second.
///
/// # Errors
/// [`RunError::Store`] if the engine cannot start.
pub fn run_phase(
    store: &Arc<dyn Store>,
    space: &KeySpace,
    phase: Phase,
    timeline: Timeline<'_>,
    log: Option<&mut RunDirectory>,
) -> Result<Ran, RunError> {
    let cpu = process_cpu_ns();
    let connections = phase.load.slots();
    let phase_run = PhaseRun {
        phase,
        store: 0,
        number: 0,
        repeat: timeline.repeat,
        block: 0,
        step: None,
        recorded: true,
    };
    let workers = workers_for(std::slice::from_ref(&phase_run), usable_cores() as usize, Shard::default());
    let job = Arc::new(Job {
        sites: vec![Site { store: Arc::clone(store), space: space.clone() }],
        phase_runs: vec![phase_run.clone()].into(),
        workers,
        block: Block::new(timeline.seed),
        tag: false,
        log: false,
        shard: Shard::default(),
        prepared: None,
    });
    let described = store.describe();
    let mut listener = PhaseListener {
        log,
        repeat: timeline.repeat,
        store: &described.url,
        phase: &phase_run.phase.name,
        failures: Vec::new(),
        control: timeline.control,
    };
    let states = run(&job, timeline.origin_ns, timeline.control, &mut listener).map_err(RunError::store)?;
    let cpu_s = (process_cpu_ns() - cpu) as f64 / 1e9;
    let failures = listener.failures;
    let setting = Setting {
        store: &described,
        means: Means { usable_cores: usable_cores(), workers },
        connections,
        epoch_unix_s: wall_now().as_nanosecond() as f64 / 1e9 - now_ns() as f64 / 1e9,
        now_ns: now_ns(),
    };
    let windows = states.iter().flat_map(|state| windows(&phase_run, state, setting)).collect();
    Ok(Ran { cpu_s, windows, workers, failures })
}
