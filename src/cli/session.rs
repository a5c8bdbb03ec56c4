//! One run from resolved experiment to finished directory: opens stores, lays out the plan, drives it, cleans up.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::budget::{Budget, MoneyArguments, Planned};
use super::exit::{self, Exit, block_on};
use super::fit::fit;
use super::out::note;
use super::preflight::{find_objects, preflight};
use super::progress::Progress;
use super::report::of_run;
use super::reporter::Reporter;
use super::shard::{self, Sharding};
use super::stores::Opened;
use super::{signals, stores};
use crate::clock::{now_ns, wall_now};
use crate::driver::background::Background;
use crate::driver::clean::{Owned, clean};
use crate::driver::{Control, DriverError, Job, Shard, Site, run, workers_for};
use crate::experiment::Experiment;
use crate::experiment::to_toml::to_toml;
use crate::machine::{Machine, peak_rss_bytes, usable_cores};
use crate::report::live::Live;
use crate::run_dir::directory::{Environment, RunDirectory, StoreFacts};
use crate::run_dir::json::{to_string, write_whole};
use crate::run_dir::seconds::series;
use crate::s3::credentials::CredentialSource;
use crate::schedule::plan::{PhaseRun, plan};
use crate::store::Store;
use crate::store::ownership::{KeySpace, RunId};
use crate::store::url::web::redacted as redacted_url;
use crate::summary::estimates::judged;
use crate::summary::limits::Means;
use crate::summary::result::{ClientInfo, RunInfo, RunResult, SCHEMA, Window};
use crate::summary::series::Clocked;
use crate::text::redacted;
use crate::workload::payload::Block;

/// Settings of a run beside the experiment.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where run directories go.
    pub out: PathBuf,
    /// From where it is measured.
    pub vantage: String,
    /// Leaves the objects in the store.
    pub keep: bool,
    /// Creates a missing bucket.
    pub create_bucket: bool,
    /// Certificate authorities to trust instead of the system's.
    pub ca_bundle: Option<PathBuf>,
    /// Worker threads, when not chosen automatically.
    pub workers: Option<usize>,
    /// No live line.
    pub quiet: bool,
    /// Logs every operation.
    pub record_operations: bool,
    /// What Prometheus is told of the run.
    pub live: Option<Live>,
    /// The part of the experiment that this process carries out.
    pub sharding: Option<Sharding>,
    /// What it may cost, and how that is known.
    pub money: MoneyArguments,
    /// Credentials of all stores, where they come from elsewhere than the standard chain.
    pub credentials: Option<CredentialSource>,
}

/// What a run came to.
pub struct RunSummary {
    /// The result, as in `result.json`.
    pub result: RunResult,
    /// The run directory.
    pub path: PathBuf,
    /// How it ended, when not well.
    pub problem: Option<Exit>,
}

/// The identity of a new run that creates nothing in a store.
pub fn run_id() -> String {
    RunId::fresh().to_string()
}

/// Opens the stores of an experiment, each of them once.
fn open_all(experiment: &Experiment, settings: &Settings) -> Result<Vec<Opened>, Exit> {
    let stores = &experiment.stores;
    let mut seen = std::collections::HashSet::new();
    if let Some(twice) = stores.iter().find(|store| !seen.insert(*store)) {
        return Err(Exit::input(format!("--store {twice} is given twice; name each store once")));
    }
    let open = |store: &String| {
        let (named, credentials) = (&experiment.named, settings.credentials.clone());
        stores::open_as(store, named, settings.ca_bundle.as_deref(), credentials)
    };
    stores.iter().map(open).collect()
}

/// What a run does round by round, with the same objects and in the same directory. Without a word of its own it has one round: the
/// plan.
pub trait Passes {
    /// The phase runs of the first round, given those of the plan.
    fn first(&mut self, plan: Vec<PhaseRun>) -> Vec<PhaseRun> {
        plan
    }

    /// The phase runs of the next round, given the result so far; `None` ends the run.
    fn next(&mut self, result: &mut RunResult) -> Option<Vec<PhaseRun>> {
        let _ = result;
        None
    }
}

/// The plan, once.
struct Once;

impl Passes for Once {}

/// Runs an experiment.
///
/// # Errors
/// When nothing could be measured: bad settings (2) or an unusable store (3). Trouble later is in [`RunSummary::problem`], and
/// what was measured is kept.
pub fn execute(asked: &Experiment, settings: &Settings) -> Result<RunSummary, Exit> {
    execute_passes(asked, settings, &mut Once)
}

/// Everything that is known before the first operation.
struct Ready {
    experiment: Experiment,
    opened: Vec<Opened>,
    notes: Vec<String>,
    id: String,
    spaces: Vec<KeySpace>,
    environment: Environment,
    phase_runs: Vec<PhaseRun>,
    budget: Arc<Budget>,
}

/// Opens the stores and lays out the first round.
fn ready(asked: &Experiment, settings: &Settings, passes: &mut dyn Passes) -> Result<Ready, Exit> {
    let mut experiment = asked.clone();
    let sharding = settings.sharding.as_ref();
    if let Some(sharding) = sharding {
        shard::check(&experiment, sharding.shard)?;
    }
    let mut opened = open_all(&experiment, settings)?;
    // From here on stores have the names that may be redacted_url.
    experiment.stores = opened.iter().map(|o| o.written.clone()).collect();
    // And the run directory knows them by their URLs, so that it runs again elsewhere.
    experiment.named = opened.iter().filter_map(|o| Some((o.written.clone(), o.named.clone()?))).collect();
    let notes = fit(&mut experiment, &opened)?;
    notes.iter().for_each(|text| note(format_args!("note: {text}")));
    let group = sharding.map_or_else(RunId::fresh, |s| s.group(&experiment));
    let id = sharding.map_or_else(|| group.to_string(), |s| s.run_id(group.as_str()));
    let mut environment = environment(settings, &id);
    let planned = Planned::of(&experiment, settings.shard().of);
    let budget = Budget::of(&settings.money, planned, &mut opened, &environment.machine)?;
    if !settings.quiet {
        budget.announce().iter().for_each(note);
    }
    let mut spaces = Vec::new();
    for store in &opened {
        let space = KeySpace::of_run(store.store.prefix(), &group);
        let facts = preflight(store, &space, settings.create_bucket)?;
        environment.stores.push(facts);
        spaces.push(space);
    }
    let phase_runs = passes.first(stints_of(&experiment, &opened)?);
    budget.check(&phase_runs)?;
    let shard = settings.shard();
    environment.workers =
        settings.workers.unwrap_or_else(|| workers_for(&phase_runs, usable_cores() as usize, shard));
    Ok(Ready { experiment, opened, notes, id, spaces, environment, phase_runs, budget: Arc::new(budget) })
}

impl Settings {
    /// The part of the experiment that is ours.
    fn shard(&self) -> Shard {
        self.sharding.as_ref().map(|s| s.shard).unwrap_or_default()
    }

    /// A problem with the directory for results.
    fn out_error(&self, error: &std::io::Error) -> Exit {
        let out = self.out.display();
        let way = if exit::is_full(error) { "free some space or choose" } else { "choose" };
        Exit::input(format!("--out {out}: {error}; {way} another directory"))
    }
}

/// What the passes brought.
struct Driven {
    job: Arc<Job>,
    result: RunResult,
    problem: Option<Exit>,
}

/// Carries the passes out, one after another, until there is none or something is wrong.
fn drive(
    ready: &mut Ready,
    settings: &Settings,
    passes: &mut dyn Passes,
    directory: &mut RunDirectory,
    progress: &Progress,
    control: &Arc<Control>,
) -> Driven {
    let (experiment, environment, sharding) =
        (&ready.experiment, &mut ready.environment, settings.sharding.as_ref());
    let spaces = ready.spaces.iter().cloned();
    let sites: Vec<Site> = ready
        .opened
        .iter()
        .zip(spaces)
        .map(|(o, space)| Site { store: Arc::clone(&o.store), space })
        .collect();
    let prepared = sharding.map(|s| shard::Prepared::new(s, experiment, &sites, control));
    let workers = environment.workers;
    let job_of = |phase_runs: Vec<PhaseRun>| {
        let announce =
            prepared.clone().map(|p| Box::new(move || p.announce()) as Box<dyn Fn() + Send + Sync>);
        Arc::new(Job {
            sites: sites.clone(),
            phase_runs: phase_runs.into(),
            workers,
            block: Block::new(experiment.seed),
            tag: false,
            log: settings.record_operations,
            shard: settings.shard(),
            start_at_ns: sharding.map(Sharding::start_ns),
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
        let mut reporter = Reporter::new(&job, control, directory, progress, means, result);
        reporter.live.clone_from(&settings.live);
        reporter.budget = Some(Arc::clone(&ready.budget));
        let outcome = run(&job, origin_ns, control, &mut reporter);
        result = reporter.result;
        problem = outcome.err().map(|e| driver_exit(&e));
        if problem.is_some() || control.stopped_at().is_some() {
            break;
        }
        match passes.next(&mut result) {
            Some(phase_runs) => job = job_of(phase_runs),
            None => break,
        }
    }
    if let Some(prepared) = &prepared {
        result.run.shards = vec![prepared.info(&ready.id, &result, environment)];
        prepared.wait_for_the_others();
    }
    Driven { job, result, problem }
}

/// Runs an experiment round by round.
///
/// # Errors
/// As [`execute`].
pub fn execute_passes(
    asked: &Experiment,
    settings: &Settings,
    passes: &mut dyn Passes,
) -> Result<RunSummary, Exit> {
    let mut ready = ready(asked, settings, passes)?;
    let out_error = |e: std::io::Error| settings.out_error(&e);
    let (id, experiment) = (&ready.id, to_toml(&ready.experiment));
    let created = RunDirectory::create(&settings.out, id, &experiment, settings.record_operations);
    let mut directory = created.map_err(out_error)?;
    directory.environment(&ready.environment).map_err(out_error)?;
    let path = directory.path().to_path_buf();
    let control = Arc::new(Control::default());
    ready.budget.arm(&control);
    signals::listen(
        Arc::clone(&control),
        ready.opened.iter().filter_map(|o| o.credentials.clone()).collect(),
    );
    let progress =
        Progress::new(&ready.experiment.stores, &ready.phase_runs, settings.quiet, Arc::clone(&control));
    let driven = drive(&mut ready, settings, passes, &mut directory, &progress, &control);
    let Driven { job, mut result, mut problem } = driven;
    let interrupted = control.stopped_at().is_some();
    let partial = problem.is_some() || interrupted;
    ready.budget.lift();
    // Other shards may still read what an interrupted one prepared.
    let others_read = interrupted && settings.shard().of > 1;
    let mut left_behind = false;
    if !settings.keep && !others_read {
        let patience = if interrupted { INTERRUPTED_PATIENCE } else { Duration::MAX };
        let cleaned = clean_up(&ready.experiment, &job, &mut ready.environment, &progress, &path, patience);
        left_behind = cleaned.is_some();
        problem = problem.or(cleaned);
    }
    progress.end();
    // Also during the clean-up.
    let interrupted = control.stopped_at().is_some();
    if interrupted {
        let ended = ready.budget.ended();
        let exit =
            ended.unwrap_or_else(|| Exit::interrupted("interrupted; results are kept and marked partial"));
        let later = format!(
            "; when the other shards are done, `plimsoll clean {}` removes its objects",
            path.display()
        );
        problem = Some(if others_read { exit.with(&later) } else { exit });
    }
    problem = problem.map(|exit| exit.with_left_behind(left_behind, &path));
    result.cost = ready.budget.figures();
    conclude(&mut result, partial, &mut directory);
    let cleaned = directory.environment(&ready.environment).and_then(|()| directory.finish());
    let judged = add_confidence_intervals(&path, &mut result);
    let kept = |what: String| Exit::results_kept(&what, &path);
    let written = cleaned.and(judged).err().map(|e| kept(e.to_string()));
    let problem = problem.or(written).or_else(|| judge(&result));
    // A run that ended badly has its report as well, if there is anything to report.
    let reported = of_run(&path).err().map(|exit| kept(exit.message));
    Ok(RunSummary { result, path, problem: problem.or(reported) })
}

/// Writes the result of a run that is over, all but what is judged of it.
fn conclude(result: &mut RunResult, partial: bool, directory: &mut RunDirectory) {
    result.run.partial = partial;
    result.run.shards.iter_mut().for_each(|shard| shard.partial = partial);
    result.client.peak_rss_bytes = peak_rss_bytes();
    directory.result(result);
}

/// Adds to a finished run what its figures lie between, from its own interval log.
///
/// # Errors
/// When the log cannot be read back, or the result not written.
pub fn add_confidence_intervals(path: &Path, result: &mut RunResult) -> std::io::Result<()> {
    let wanted = [Clocked::Service, Clocked::Response];
    result.confidence = judged(&series(path, result, &wanted)?);
    write_whole(&path.join("result.json"), &to_string(result))
}

/// The command line as it may be kept: without secrets.
pub fn command_line() -> Vec<String> {
    super::arguments().map(|word| redacted(&redacted_url(&word)).into_owned()).collect()
}

/// Facts that are known before run `id`.
pub fn environment(settings: &Settings, id: &str) -> Environment {
    Environment {
        version: env!("CARGO_PKG_VERSION").into(),
        run: id.to_string(),
        command: command_line(),
        vantage: settings.vantage.clone(),
        pid: std::process::id(),
        machine: Machine::read(),
        shard: settings.sharding.as_ref().map(|s| (s.shard.index, s.shard.of)),
        ..Environment::default()
    }
}

/// A result without figures.
pub fn blank(settings: &Settings, id: &str, experiment: &str, seed: u64) -> RunResult {
    RunResult {
        schema: SCHEMA,
        run: RunInfo {
            id: id.to_string(),
            experiment: experiment.to_string(),
            seed,
            started_at: wall_now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            version: env!("CARGO_PKG_VERSION").into(),
            partial: true,
            ..RunInfo::default()
        },
        client: ClientInfo { vantage: settings.vantage.clone(), ..ClientInfo::default() },
        ..RunResult::default()
    }
}

/// The plan, with what was found of existing datasets in each store.
fn stints_of(experiment: &Experiment, opened: &[Opened]) -> Result<Vec<PhaseRun>, Exit> {
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

/// Problems that only the figures show.
fn judge(result: &RunResult) -> Option<Exit> {
    if let Some(error) = result.windows.iter().find_map(|w| w.instrument_error.as_ref()) {
        return Some(Exit::check(error));
    }
    let measured: Vec<&Window> = result.windows.iter().filter(|w| w.role == "measure").collect();
    if !measured.is_empty() && measured.iter().all(|w| w.service_ms.n == 0) {
        let class =
            measured.iter().flat_map(|w| w.errors.keys()).next().map_or("no operation", String::as_str);
        return Some(Exit::store(format!("not one measured operation succeeded ({class})")));
    }
    let corrupt: u64 = measured.iter().filter_map(|w| w.errors.get("corrupt")).sum();
    (corrupt > 0).then(|| {
        Exit::check(format!(
            "{corrupt} operations brought content that is not what was written (`corrupt` among the errors)"
        ))
    })
}

/// Deadline of each request of a clean-up after Ctrl-C.
const INTERRUPTED_PATIENCE: Duration = Duration::from_secs(10);

/// Deletes what the run wrote; returns the first problem.
fn clean_up(
    experiment: &Experiment,
    job: &Job,
    environment: &mut Environment,
    progress: &Progress,
    run: &Path,
    patience: Duration,
) -> Option<Exit> {
    let mut problem = None;
    progress.say("cleaning up");
    let owned = Owned::by(&experiment.phases, job.shard);
    let written = job.sites.iter().zip(&mut environment.stores);
    for (site, facts) in written.filter(|(site, _)| site.store.capabilities().writes) {
        let say = |n| progress.say(&format!("cleaning up: {n} objects"));
        let store = site.store.as_ref();
        let work = async {
            let mut background = Background::new(store).at_most(patience);
            clean(store, &mut background, &site.space, &owned, say).await
        };
        match block_on(work) {
            Ok(Ok(_)) => facts.uncleaned = false,
            // A bucket that went away in the meantime took the objects with it.
            Ok(Err(failure)) if failure.is_missing_container() => facts.uncleaned = false,
            Ok(Err(failure)) => {
                let text = format!(
                    "{}: clean-up failed ({failure}); try `plimsoll clean {}`",
                    facts.url,
                    run.display()
                );
                problem = problem.or(Some(Exit::store(text)));
            }
            Err(exit) => problem = problem.or(Some(exit)),
        }
    }
    problem
}

fn driver_exit(error: &DriverError) -> Exit {
    match error {
        DriverError::Prepare { .. } => Exit::store(error),
        DriverError::System(_) => Exit::input(error),
        DriverError::Panic => Exit { code: 101, message: error.to_string() },
    }
}

/// The store of a finished run, by its place in the environment, opened again.
///
/// # Errors
/// As [`stores::open`].
pub fn reopen(
    facts: &StoreFacts,
    named: &stores::Named,
    ca_bundle: Option<&Path>,
) -> Result<Arc<dyn Store>, Exit> {
    Ok(stores::open_as(&facts.url, named, ca_bundle, None)?.store)
}
