//! Runs an experiment: opens its stores, executes its plan, cleans up, and writes a run directory.
//!
//! The command line and `examples/library_run.rs` of the crate `plimsoll` call this crate. [`SessionSettings`] are
//! plain data; [`Components`] are live objects. `driver` executes the plan, `run_dir` stores the results, and `cost`
//! prices them. This crate prints nothing. Uses `engine` and `judge`; `live`, `conformance`, `clients`, `fleet` and
//! `plimsoll` use it.

pub mod abort;
pub mod budget;
pub mod capacity;
pub mod clean_up;
pub mod compatibility;
pub mod drop_caches;
pub mod embedded;
pub mod error;
pub mod lifecycle;
pub mod live;
pub mod objectives;
pub mod observer;
pub mod one_phase;
pub mod open;
pub mod preflight;
pub mod relays;
pub mod rendezvous;
pub mod renewal;
pub mod reporter;
pub mod runtime;
mod settings;
pub mod shard;
pub mod until;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use self::budget::{Budget, Planned};
use self::compatibility::check_compatibility;
pub use self::error::RunError;
use self::lifecycle::{Reached, begin, delete_written, end, open_stores, reach};
use self::observer::RunStart;
use self::open::Opened;
use self::preflight::find_objects;
use self::reporter::Reporter;
pub use self::settings::{Components, SessionSettings};
use plimsoll_base::clock::{now_ns, wall_now};
use plimsoll_base::machine::{Machine, usable_cores};
use plimsoll_base::version;
use plimsoll_engine::driver::clean::CleanupScope;
use plimsoll_engine::driver::{Control, DriverError, Job, Shard, Site, run, workers_for};
use plimsoll_engine::store::ownership::RunId;
use plimsoll_experiment::Experiment;
use plimsoll_experiment::to_toml::to_toml;
use plimsoll_judge::run_dir::directory::RunDirectory;
use plimsoll_judge::run_dir::environment::Environment;
use plimsoll_judge::run_dir::run::Run;
use plimsoll_judge::run_dir::seconds::series_since;
use plimsoll_judge::run_dir::sums;
use plimsoll_judge::summary::limits::Means;
use plimsoll_judge::summary::result::{ClientInfo, RunInfo, RunResult, SCHEMA, Window};
use plimsoll_judge::summary::series::{LatencyKind, Series};
use plimsoll_judge::summary::working_set;
use plimsoll_recorder::ErrorClass;
use plimsoll_workload::payload::Block;
use plimsoll_workload::schedule::Role;
use plimsoll_workload::schedule::plan::{PhaseRun, plan};

/// A run that has ended.
pub struct RunSummary {
    /// The run directory and its contents.
    pub run: Run,
    /// Reason why the run failed; `None` if it succeeded.
    pub problem: Option<RunError>,
}

/// The passes of a run. Each pass executes phase runs on the same objects and writes to the same run directory.
///
/// By default there is one pass, which executes the plan.
pub trait Passes {
    /// Returns the phase runs of the first pass, given those of the plan.
    fn first(&mut self, plan: Vec<PhaseRun>) -> Vec<PhaseRun> {
        plan
    }

    /// Returns the phase runs of the next pass, given the result so far; `None` ends the run. `series` reads the
    /// interval log of the windows of a result.
    fn next(
        &mut self,
        result: &mut RunResult,
        series: &dyn Fn(&RunResult) -> io::Result<Vec<Series>>,
    ) -> Option<Vec<PhaseRun>> {
        let _ = (result, series);
        None
    }
}

/// One pass that executes the plan.
struct OnePass;

impl Passes for OnePass {}

/// Runs an experiment.
///
/// # Errors
/// [`RunError::Input`] and [`RunError::Store`] if nothing could be measured. A later error is in
/// [`RunSummary::problem`]; the results up to the error are kept.
pub fn execute(
    experiment: &Experiment,
    settings: &SessionSettings,
    components: &Components,
) -> Result<RunSummary, RunError> {
    execute_passes(experiment, settings, components, &mut OnePass)
}

/// A run that is ready for its first operation.
struct Ready {
    experiment: Experiment,
    opened: Vec<Opened>,
    notes: Vec<String>,
    id: String,
    sites: Vec<Site>,
    environment: Environment,
    phase_runs: Vec<PhaseRun>,
    budget: Arc<Budget>,
}

/// Opens and checks the stores, and plans the first pass.
fn ready(
    requested: &Experiment,
    settings: &SessionSettings,
    components: &Components,
    passes: &mut dyn Passes,
) -> Result<Ready, RunError> {
    let mut experiment = requested.clone();
    objectives::check(&experiment, &settings.objectives)?;
    let sharding = settings.sharding.as_ref();
    if let Some(sharding) = sharding {
        shard::check(&experiment, sharding.shard, components.rendezvous.is_some())?;
    }
    let (named, ca_bundle) = (&experiment.named, settings.ca_bundle.as_deref());
    let mut opened = open_stores(&experiment.stores, named, ca_bundle, components.credentials.as_ref())?;
    // From here on, the experiment contains redacted URLs only.
    experiment.stores = opened.iter().map(|o| o.written.clone()).collect();
    // The run directory records the URLs of named stores, so that `plimsoll run RUN` works on other machines.
    experiment.named = opened.iter().filter_map(|o| Some((o.written.clone(), o.named.clone()?))).collect();
    let mut notes = check_compatibility(&mut experiment, &opened)?;
    notes.iter().for_each(|text| components.observer.note(&format!("note: {text}")));
    let group = sharding.map_or_else(RunId::generate, |s| s.group(&experiment));
    let id = sharding.map_or_else(|| group.to_string(), |s| s.run_id(group.as_str()));
    let mut environment = environment(settings, &id);
    let planned = Planned::of(&experiment, settings.shard().of);
    let budget = Budget::of(&settings.cost, planned, &opened, &environment.machine)?;
    budget.wrap(&mut opened);
    budget.announce().iter().for_each(|line| components.observer.announce(line));
    let Reached { sites, facts } = reach(&opened, &group, settings.create_bucket)?;
    environment.stores = facts;
    components.observer.reached(&environment.stores);
    notes.extend(working_set::note(&experiment.phases, &environment));
    let phase_runs = passes.first(phase_runs_of(&experiment, &opened)?);
    budget.check(&phase_runs)?;
    let shard = settings.shard();
    environment.workers =
        settings.workers.unwrap_or_else(|| workers_for(&phase_runs, usable_cores() as usize, shard));
    Ok(Ready { experiment, opened, notes, id, sites, environment, phase_runs, budget: Arc::new(budget) })
}

/// Result of all passes, and the first error.
struct Driven {
    result: RunResult,
    problem: Option<RunError>,
    /// Shard whose objects this process deletes.
    owned: Shard,
}

/// Executes the passes one after another until there are no more or one fails.
fn drive(
    ready: &mut Ready,
    settings: &SessionSettings,
    components: &Components,
    passes: &mut dyn Passes,
    directory: &mut RunDirectory,
    control: &Arc<Control>,
) -> Driven {
    let (experiment, environment, sharding) =
        (&ready.experiment, &mut ready.environment, settings.sharding.as_ref());
    let sites = &ready.sites;
    let prepared = sharding.map(|s| shard::Prepared::new(s, experiment, sites, control, components));
    let workers = environment.workers;
    let job_of = |phase_runs: Vec<PhaseRun>| {
        let announce =
            prepared.clone().map(|p| Box::new(move || p.announce()) as Box<dyn Fn() -> u64 + Send + Sync>);
        Arc::new(Job {
            sites: sites.clone(),
            phase_runs: phase_runs.into(),
            workers,
            block: Block::new(experiment.seed),
            tag: false,
            log: settings.record_operations,
            shard: settings.shard(),
            prepared: announce,
        })
    };
    let mut job = job_of(std::mem::take(&mut ready.phase_runs));
    let means = Means { usable_cores: usable_cores(), workers };
    let origin_ns = now_ns();
    environment.origin_unix_s = wall_now().as_nanosecond() as f64 / 1e9;
    let mut result = blank(settings, &ready.id, &experiment.name, experiment.seed);
    result.client.workers = workers;
    result.run.notes.clone_from(&ready.notes);
    let mut problem;
    loop {
        if let Some(prepared) = &prepared {
            result.run.shards = vec![prepared.info(&ready.id, &result, environment)];
        }
        let mut reporter = Reporter::new(&job, control, directory, components, means, result);
        reporter.budget = Some(Arc::clone(&ready.budget));
        let driven = run(&job, origin_ns, control, &mut reporter);
        result = reporter.result;
        problem = driven.err().map(|e| of_driver(&e));
        if problem.is_some() || control.stopped_at().is_some() {
            break;
        }
        let clocks = [LatencyKind::Service, LatencyKind::Response];
        let origin_s = environment.origin_unix_s;
        let series = |result: &RunResult| series_since(directory.path(), origin_s, result, &clocks);
        match passes.next(&mut result, &series) {
            Some(phase_runs) => job = job_of(phase_runs),
            None => break,
        }
    }
    let mut owned = settings.shard();
    if let Some(prepared) = &prepared {
        result.run.shards = vec![prepared.info(&ready.id, &result, environment)];
        if let Some(rendezvous) = &components.rendezvous {
            ready.budget.give_rest(rendezvous.as_ref());
        }
        if prepared.wait_for_the_others() {
            owned = Shard::default();
        }
    }
    Driven { result, problem, owned }
}

/// Runs an experiment pass by pass.
///
/// # Errors
/// As [`execute`].
pub fn execute_passes(
    experiment: &Experiment,
    settings: &SessionSettings,
    components: &Components,
    passes: &mut dyn Passes,
) -> Result<RunSummary, RunError> {
    let mut ready = ready(experiment, settings, components, passes)?;
    let (recorded, observer) = (to_toml(&ready.experiment), &components.observer);
    let mut directory = begin(settings, &recorded, &ready.environment, &ready.opened, observer)?;
    let control = Arc::new(Control::default());
    ready.budget.arm(&control);
    let (stores, phase_runs) = (&ready.experiment.stores, &ready.phase_runs);
    components.observer.started(&RunStart { stores, phase_runs, control: &control });
    let driven = drive(&mut ready, settings, components, passes, &mut directory, &control);
    Ok(conclude(ready, driven, directory, settings, components, &control))
}

/// Cleans up, writes the results and returns them.
fn conclude(
    mut ready: Ready,
    driven: Driven,
    directory: RunDirectory,
    settings: &SessionSettings,
    components: &Components,
    control: &Control,
) -> RunSummary {
    let Driven { mut result, mut problem, owned } = driven;
    let observer = &components.observer;
    let path = directory.path().to_path_buf();
    let interrupted = control.stopped_at().is_some();
    let partial = problem.is_some() || interrupted;
    ready.budget.lift();
    // Other shards may still read the objects that an interrupted shard prepared.
    let others_read = interrupted && settings.shard().of > 1 && components.rendezvous.is_none();
    let mut left_behind = false;
    if !settings.keep && !others_read {
        let owned = CleanupScope::of_phases(&ready.experiment.phases, owned);
        let facts = &mut ready.environment.stores;
        let failed = delete_written(&ready.sites, &owned, facts, observer.as_ref(), &path, control);
        left_behind = failed.is_some();
        problem = problem.or(failed);
    }
    observer.ended();
    // The user may also interrupt the clean-up.
    if control.stopped_at().is_some() {
        let aborted = components.abort.as_ref().and_then(|rules| rules.ended());
        problem = Some(aborted.unwrap_or_else(|| interruption(&ready.budget, others_read, &path)));
    }
    if left_behind {
        problem = problem.map(|error| error.with_left_behind(&path));
    }
    result.run.partial = partial;
    result.run.shards.iter_mut().for_each(|shard| shard.partial = partial);
    result.cost = ready.budget.figures();
    let (run, problem) = end(directory, result, ready.environment, problem);
    let problem =
        problem.or_else(|| judge(&run.result)).or_else(|| objectives::problem(&run.result.objectives));
    RunSummary { run, problem }
}

/// Returns the error of a run that was stopped: by its cost limit or by the user.
fn interruption(budget: &Budget, others_read: bool, path: &Path) -> RunError {
    let interrupted = || RunError::interrupted("interrupted; results are kept and marked partial");
    let error = budget.ended().unwrap_or_else(interrupted);
    if !others_read {
        return error;
    }
    error.with(&format!(
        "; when the other shards have finished, `plimsoll clean {}` removes its objects",
        path.display()
    ))
}

/// Returns the environment of run `id`, as far as it is known before the run.
pub fn environment(settings: &SessionSettings, id: &str) -> Environment {
    Environment {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: version::COMMIT.map(str::to_string),
        program_sha256: sums::of_this_program(),
        run: id.to_string(),
        command: settings.command.clone(),
        vantage: settings.vantage.clone(),
        pid: std::process::id(),
        machine: Machine::read(),
        shard: settings.sharding.as_ref().map(|s| (s.shard.index, s.shard.of)),
        ..Environment::default()
    }
}

/// Returns an empty result, which is marked partial.
pub fn blank(settings: &SessionSettings, id: &str, experiment: &str, seed: u64) -> RunResult {
    RunResult {
        schema: SCHEMA,
        run: RunInfo {
            id: id.to_string(),
            experiment: experiment.to_string(),
            seed,
            started_at: wall_now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            version: env!("CARGO_PKG_VERSION").into(),
            partial: true,
            labels: settings.labels.clone(),
            ..RunInfo::default()
        },
        client: ClientInfo { vantage: settings.vantage.clone(), ..ClientInfo::default() },
        ..RunResult::default()
    }
}

/// Returns the plan, with the objects of existing datasets that each store contains.
fn phase_runs_of(experiment: &Experiment, opened: &[Opened]) -> Result<Vec<PhaseRun>, RunError> {
    let mut phase_runs = plan(&experiment.phases, experiment.layout(), opened.len());
    let mut found = HashMap::new();
    for phase_run in &mut phase_runs {
        let prefix = opened[phase_run.store].store.prefix();
        let workload = &mut phase_run.phase.workload;
        for dataset in workload.read.iter_mut().chain([&mut workload.written]).filter(|d| d.at.is_some()) {
            *dataset = dataset.below(prefix);
        }
        let Some(read) = &mut phase_run.phase.workload.read else { continue };
        let Some(existing) = &mut read.existing else { continue };
        let place = (phase_run.store, existing.location.clone(), read.count);
        let objects = match found.get(&place) {
            Some(objects) => Arc::clone(objects),
            None => {
                let objects = find_objects(&opened[phase_run.store], existing, read.count)?;
                found.insert(place, Arc::clone(&objects));
                objects
            }
        };
        read.count = objects.len();
        existing.found = Some(objects);
    }
    Ok(phase_runs)
}

/// Returns the error of a run whose figures show a problem: an instrument error, no success, or corrupt data.
fn judge(result: &RunResult) -> Option<RunError> {
    if let Some(error) = result.windows.iter().find_map(|w| w.instrument_error.as_ref()) {
        return Some(RunError::check(error));
    }
    let measured: Vec<&Window> = result.windows.iter().filter(|w| w.role == Role::Measure).collect();
    if !measured.is_empty() && measured.iter().all(|w| w.service_ms.n == 0) {
        let class =
            measured.iter().flat_map(|w| w.errors.keys()).next().map_or("no operation", String::as_str);
        return Some(RunError::store(format!("no measured operation succeeded ({class})")));
    }
    let corrupt = ErrorClass::Corrupt.to_string();
    let corrupt: u64 = measured.iter().filter_map(|w| w.errors.get(&corrupt)).sum();
    (corrupt > 0).then(|| {
        RunError::check(format!("{corrupt} operations returned corrupt data (error class `corrupt`)"))
    })
}

fn of_driver(error: &DriverError) -> RunError {
    match error {
        DriverError::Prepare { .. } => RunError::store(error),
        DriverError::System(_) => RunError::input(error),
        DriverError::Panic => RunError::defect(error),
    }
}
