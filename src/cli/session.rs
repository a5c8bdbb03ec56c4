//! One run from resolved experiment to finished directory: opens stores, drives phases, writes as it goes, cleans up.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::exit::Exit;
use super::progress::Progress;
use super::stores::Opened;
use super::{signals, stores};
use crate::clock::{now_ns, wall_now};
use crate::driver::clean::{clean, root};
use crate::driver::{Control, DriverError, Job, run, workers_for};
use crate::experiment::Experiment;
use crate::experiment::resolve::to_toml;
use crate::machine::{Machine, peak_rss_bytes, usable_cores};
use crate::recorder::collector::{Listener, SecondRow, WindowState};
use crate::report::directory::{Environment, RunDirectory, StoreFacts};
use crate::report::intervals::Place;
use crate::rng::mix;
use crate::schedule::Phase;
use crate::store::{Failure, Ignore, Request, Store};
use crate::summary::limits::Means;
use crate::summary::result::{ClientInfo, RunInfo, RunResult, SCHEMA, Window};
use crate::summary::window::windows;
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
}

/// What a run came to.
pub struct Outcome {
    /// The result, as in `result.json`.
    pub result: RunResult,
    /// The run directory.
    pub path: PathBuf,
    /// How it ended, when not well.
    pub problem: Option<Exit>,
}

/// A fresh run id: time and a few digits, sortable and fit for a key.
pub fn run_id() -> String {
    let now = wall_now();
    let salt = mix(now.as_nanosecond() as u64 ^ u64::from(std::process::id()) << 32) as u16;
    format!("{}-{salt:04x}", now.strftime("%Y%m%dT%H%M%S"))
}

fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Exit::store)?;
    Ok(runtime.block_on(future))
}

/// Runs an experiment.
///
/// # Errors
/// When nothing could be measured: bad settings (2) or an unusable store (3). Trouble later is in [`Outcome::problem`], and
/// what was measured is kept.
pub fn execute(experiment: &Experiment, settings: &Settings) -> Result<Outcome, Exit> {
    let mut opened = Vec::new();
    for store in &experiment.stores {
        opened.push(stores::open(store, settings.ca_bundle.as_deref())?);
    }
    let id = run_id();
    let workers =
        settings.workers.unwrap_or_else(|| workers_for(&experiment.phases, usable_cores() as usize));
    let mut environment = Environment {
        version: env!("CARGO_PKG_VERSION").into(),
        command: std::env::args().collect(),
        vantage: settings.vantage.clone(),
        pid: std::process::id(),
        machine: Machine::read(),
        workers,
        stores: Vec::new(),
    };
    for store in &opened {
        environment.stores.push(preflight(store, &id, settings.create_bucket)?);
    }
    let out_error = |e: std::io::Error| {
        Exit::input(format!(
            "--out {}: {e}; free some space or choose another directory",
            settings.out.display()
        ))
    };
    let mut directory = RunDirectory::create(&settings.out, &id, &to_toml(experiment)).map_err(out_error)?;
    directory.environment(&environment).map_err(out_error)?;
    let control = Arc::new(Control::default());
    signals::listen(Arc::clone(&control), opened.iter().filter_map(|o| o.credentials.clone()).collect());
    let mut state = State {
        result: RunResult {
            schema: SCHEMA,
            run: RunInfo {
                id,
                experiment: experiment.name.clone(),
                seed: experiment.seed,
                started_at: wall_now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                version: env!("CARGO_PKG_VERSION").into(),
                partial: true,
            },
            client: ClientInfo { vantage: settings.vantage.clone(), workers, ..ClientInfo::default() },
            windows: Vec::new(),
        },
        directory: &mut directory,
        means: Means { usable_cores: usable_cores(), workers },
        operations: 0,
    };
    let problem = all_stores(experiment, settings, &opened, &mut environment, &mut state, &control);
    state.result.run.partial = problem.is_some();
    let result = state.finish();
    let path = directory.path().to_path_buf();
    let cleaned = directory.environment(&environment).and_then(|()| directory.finish());
    let problem = problem.or_else(|| cleaned.err().map(out_error)).or_else(|| judge(&result));
    Ok(Outcome { result, path, problem })
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
    None
}

/// Runs every store in turn; what has been measured is in `state` whatever happens.
fn all_stores(
    experiment: &Experiment,
    settings: &Settings,
    opened: &[Opened],
    environment: &mut Environment,
    state: &mut State<'_>,
    control: &Arc<Control>,
) -> Option<Exit> {
    let phases: Arc<[Phase]> = experiment.phases.clone().into();
    let block = Block::new(experiment.seed);
    let origin_ns = now_ns();
    let mut problem = None;
    for (index, store) in opened.iter().enumerate() {
        let root = environment.stores[index].root.clone();
        let job = Arc::new(Job {
            store: Arc::clone(&store.store),
            phases: Arc::clone(&phases),
            root: root.clone(),
            workers: environment.workers,
            block: block.clone(),
            tag: false,
        });
        let progress = Progress::new(&store.written, &phases, settings.quiet);
        let first = state.result.windows.len();
        let cpu_before_s = state.result.client.cpu_seconds;
        let mut reporter = Reporter { state, job: &job, progress: &progress, first, cpu_before_s };
        let outcome = run(&job, origin_ns, control, &mut reporter);
        problem = problem.or(outcome.err().map(|e| driver_exit(&e)));
        if !settings.keep {
            progress.say("cleaning up");
            match block_on(clean(store.store.as_ref(), &root, |n| {
                progress.say(&format!("cleaning up: {n} objects"))
            })) {
                Ok(Ok(_)) => environment.stores[index].uncleaned = false,
                // A bucket that went away in the meantime took the objects with it.
                Ok(Err(failure)) if failure.is_code("NoSuchBucket") => {
                    environment.stores[index].uncleaned = false
                }
                Ok(Err(failure)) => {
                    let run = state.directory.path().display();
                    let text =
                        format!("{}: clean-up failed ({failure}); try `plimsoll clean {run}`", store.written);
                    problem = problem.or(Some(Exit::store(text)));
                }
                Err(exit) => problem = problem.or(Some(exit)),
            }
        }
        progress.end();
        if control.stopped_at().is_some() {
            return Some(Exit::interrupted("interrupted; results are kept and marked partial"));
        }
        if problem.is_some() {
            break;
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

/// Asks the store whether it may be used, and notes what it looks like from here.
fn preflight(opened: &Opened, id: &str, create_bucket: bool) -> Result<StoreFacts, Exit> {
    let store = opened.store.as_ref();
    let root = root(store.prefix(), id);
    let unusable = |failure: &Failure| {
        let hint = hint(failure);
        Exit::store(format!("{}: {failure}{}{hint}", opened.written, if hint.is_empty() { "" } else { "; " }))
    };
    let facts = block_on(async {
        let mut lane = store.lane(0);
        let list = Request::List { prefix: &root, start_after: "", token: "", max_keys: 1 };
        let mut listed = lane.execute(list.clone(), &mut Ignore).await;
        if let Err(failure) = &listed
            && failure.is_code("NoSuchBucket")
            && (opened.own_bucket || create_bucket)
        {
            lane.execute(Request::CreateBucket, &mut Ignore).await.map_err(|f| unusable(&f))?;
            listed = lane.execute(list, &mut Ignore).await.map(|mut second| {
                // The connection was made by the first request, whose times are the ones that count.
                second.timings.connect_ns = failure.timings.connect_ns;
                second.timings.tls_ns = failure.timings.tls_ns;
                second
            });
        }
        listed.map_err(|f| unusable(&f))
    })??;
    let description = store.describe();
    let ms = |ns: u64| (ns > 0).then_some(ns as f64 / 1e6);
    Ok(StoreFacts {
        url: opened.written.clone(),
        provider: description.provider,
        endpoint: description.endpoint,
        addresses: description.addresses,
        signing: description.signing,
        root,
        rtt_ms: ms(facts.timings.connect_ns),
        tls_ms: ms(facts.timings.tls_ns),
        clock_offset_s: facts.store_clock_s.map(|s| s - wall_now().as_second()),
        uncleaned: true,
    })
}

/// What usually helps.
fn hint(failure: &Failure) -> &'static str {
    use crate::store::ErrorClass;
    match &failure.class {
        ErrorClass::Connect => "is the server running, and are endpoint= and port right?",
        ErrorClass::Tls => {
            "is the certificate trusted? name its authority with --ca-bundle, or use http:// if the server speaks no TLS"
        }
        ErrorClass::Reset => {
            "does the server speak HTTP at this port? TLS servers need https:// in endpoint="
        }
        ErrorClass::Answered(_) if failure.is_code("NoSuchBucket") => {
            "create the bucket, or let --create-bucket do it"
        }
        ErrorClass::Answered(_) if failure.is_code("InvalidAccessKeyId") => {
            "check AWS_ACCESS_KEY_ID, or the profile in use"
        }
        ErrorClass::Answered(_) if failure.is_code("SignatureDoesNotMatch") => {
            "check AWS_SECRET_ACCESS_KEY and region="
        }
        ErrorClass::Answered(_) if failure.is_code("AccessDenied") => {
            "the credentials need s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject here"
        }
        ErrorClass::Answered(_) if failure.is_code("RequestTimeTooSkewed") => "set this machine's clock",
        ErrorClass::Answered(_) if failure.status() == Some(301) => {
            "the bucket is in another region; set region="
        }
        _ => "",
    }
}

/// What grows while the run goes on.
struct State<'a> {
    result: RunResult,
    directory: &'a mut RunDirectory,
    means: Means,
    operations: u64,
}

impl State<'_> {
    fn finish(mut self) -> RunResult {
        self.write();
        self.result
    }

    fn write(&mut self) {
        let client = &mut self.result.client;
        client.peak_rss_bytes = peak_rss_bytes();
        client.cpu_us_per_operation =
            if self.operations > 0 { client.cpu_seconds * 1e6 / self.operations as f64 } else { 0.0 };
        self.directory.result(&self.result);
    }
}

/// Hears the collector of one store and keeps the directory up to date.
struct Reporter<'a, 'b> {
    state: &'a mut State<'b>,
    job: &'a Job,
    progress: &'a Progress,
    /// Windows of earlier stores.
    first: usize,
    /// CPU seconds of earlier stores' measured windows.
    cpu_before_s: f64,
}

impl Listener for Reporter<'_, '_> {
    fn second(&mut self, row: &SecondRow<'_>) {
        let phase = &self.job.phases[row.phase];
        let store = self.job.store.describe().url;
        let place = Place { store: &store, phase: &phase.name, role: phase.role.name() };
        self.state.directory.second(place, row);
    }

    fn snapshot(&mut self, sums: &[WindowState]) {
        self.progress.show(sums);
        self.state.directory.flush();
        let described = self.job.store.describe();
        let fresh = windows(&self.job.phases, sums, &described, self.state.means, now_ns());
        self.state.result.windows.truncate(self.first);
        self.state.result.windows.extend(fresh);
        let measured = |w: &&Window| w.role == "measure";
        self.state.operations = self.state.result.windows.iter().filter(measured).map(|w| w.operations).sum();
        let cpu_here_s: f64 = self
            .job
            .phases
            .iter()
            .zip(sums)
            .filter(|(p, _)| p.role == crate::schedule::Role::Measure)
            .map(|(_, s)| s.usage.process_cpu_ns as f64 / 1e9)
            .sum();
        self.state.result.client.cpu_seconds = self.cpu_before_s + cpu_here_s;
        self.state.write();
    }

    fn failure(&mut self, _: &str, _: &str) {}
}

/// The store of a finished run, by its place in the environment, opened again.
///
/// # Errors
/// As [`stores::open`].
pub fn reopen(facts: &StoreFacts, ca_bundle: Option<&Path>) -> Result<Arc<dyn Store>, Exit> {
    Ok(stores::open(&facts.url, ca_bundle)?.store)
}
