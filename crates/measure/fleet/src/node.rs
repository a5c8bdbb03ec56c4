//! A node: receives the job on standard input, executes its shard, and reports on standard output.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::consistency::{self, ConsistencyJob};
use super::message::{Command, FromNode, Hello, Job, Reached, Report, Second, read_line};
use plimsoll_base::clock::{SECOND, now_ns, wall_now};
use plimsoll_base::machine::{Machine, open_files};
use plimsoll_base::net::client_limits::set_timeout;
use plimsoll_base::rng::entropy;
use plimsoll_engine::driver::{Control, Shard};
use plimsoll_experiment::resolve;
use plimsoll_judge::run_dir::environment::StoreFacts;
use plimsoll_recorder::collector::SecondRow;
use plimsoll_recorder::latency::Latency;
use plimsoll_s3::credentials::{CredentialSource, Credentials};
use plimsoll_session::budget::CostSettings;
use plimsoll_session::observer::{RunObserver, RunStart};
use plimsoll_session::rendezvous::{BudgetChange, Rendezvous, Sharding};
use plimsoll_session::{Components, RunError, RunSummary, SessionSettings, execute};
use plimsoll_workload::schedule::plan::{EndedRamp, PhaseRun, RampId, RampStep};

/// Output of a node, one message per line.
struct Output {
    node: u64,
    stream: Mutex<Box<dyn Write + Send>>,
}

impl Output {
    /// Sends a message. A failure is ignored: if the coordinator is gone, the end of the input stops the run.
    fn send(&self, report: Report) {
        let Ok(mut line) = serde_json::to_string(&FromNode { node: self.node, report }) else { return };
        line.push('\n');
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = stream.write_all(line.as_bytes()).and_then(|()| stream.flush());
    }
}

/// Time after a stop within which the other nodes should have stopped too, in nanoseconds.
const STOP_GRACE_NS: u64 = 10 * SECOND;

/// Decision of the coordinator during the run.
enum Decision {
    Start { at_unix_ns: i64, offset_ns: i64 },
    CleanUp { for_all: bool },
}

/// Stops the run, also if it has not started yet.
#[derive(Default)]
struct Stop {
    /// True if the run must stop, and the control of the run once it has started.
    state: Mutex<(bool, Option<Arc<Control>>)>,
}

impl Stop {
    fn started(&self, control: &Arc<Control>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0 {
            control.stop();
        }
        state.1 = Some(Arc::clone(control));
    }

    fn stop(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = true;
        if let Some(control) = &state.1 {
            control.stop();
        }
    }
}

/// The node's side of the conversation.
struct Link {
    output: Arc<Output>,
    decisions: Mutex<Receiver<Decision>>,
    control: Arc<Stop>,
    phases: Mutex<Vec<String>>,
    shared: Arc<Mutex<Shared>>,
}

/// Decisions of the coordinator about ramps and the cost limit.
#[derive(Default)]
struct Shared {
    ramps: BTreeMap<RampId, EndedRamp>,
    budget: BudgetChange,
}

impl Link {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next decision, until `grace_ns` after the run was stopped, or until the coordinator is gone.
    fn decision(&self, control: &Control, grace_ns: u64) -> Option<Decision> {
        let decisions = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = || control.stopped_at().is_none_or(|at_ns| now_ns() < at_ns + grace_ns);
        loop {
            match decisions.recv_timeout(Duration::from_millis(50)) {
                Ok(decision) => return Some(decision),
                Err(RecvTimeoutError::Timeout) if waits() => {}
                Err(_) => return None,
            }
        }
    }
}

impl Rendezvous for Link {
    fn start(&self, control: &Control) -> Option<(jiff::Timestamp, f64)> {
        self.output.send(Report::Prepared);
        match self.decision(control, 0)? {
            Decision::Start { at_unix_ns, offset_ns } => {
                let at = jiff::Timestamp::from_nanosecond(i128::from(at_unix_ns + offset_ns)).ok()?;
                Some((at, offset_ns as f64 / 1e9))
            }
            Decision::CleanUp { .. } => None,
        }
    }

    fn wait_for_the_others(&self, control: &Control) -> bool {
        self.output.send(Report::Measured);
        while let Some(decision) = self.decision(control, STOP_GRACE_NS) {
            if let Decision::CleanUp { for_all } = decision {
                return for_all;
            }
        }
        false
    }

    fn step(&self, step: RampStep) {
        self.output.send(Report::Step(step));
    }

    fn ramp_end(&self, ramp: RampId) -> Option<EndedRamp> {
        self.shared().ramps.get(&ramp).copied()
    }

    fn needs_budget(&self) {
        self.output.send(Report::NeedsBudget);
    }

    fn budget(&self) -> BudgetChange {
        std::mem::take(&mut self.shared().budget)
    }

    fn give_budget(&self, pico_usd: u64) {
        if pico_usd > 0 {
            self.output.send(Report::Budget(pico_usd));
        }
    }
}

impl RunObserver for Link {
    fn note(&self, line: &str) {
        self.output.send(Report::Note(line.into()));
    }

    fn started(&self, run: &RunStart<'_>) {
        self.control.started(run.control);
        let names = run.phase_runs.iter().map(|p: &PhaseRun| p.phase.name.clone()).collect();
        *self.phases.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }

    fn reached(&self, stores: &[StoreFacts]) {
        let facts = stores.iter().map(|store| Reached {
            store: store.url.clone(),
            addresses: store.addresses.clone(),
            rtt_ms: store.rtt_ms,
            clock_offset_s: store.clock_offset_s,
        });
        self.output.send(Report::Reached(facts.collect()));
    }

    fn second(&self, row: &SecondRow<'_>) {
        let phases = self.phases.lock().unwrap_or_else(PoisonError::into_inner);
        let second = Second {
            phase: phases.get(row.phase).cloned().unwrap_or_default(),
            operation: row.kind.name().into(),
            completed: row.tally.completed,
            failed: row.tally.failures(),
            bytes: row.tally.bytes,
            service: STANDARD.encode(row.tally.latencies[Latency::Service].to_bytes()),
        };
        self.output.send(Report::Second(second));
    }

    fn failure(&self, class: &str, message: &str) {
        self.output.send(Report::Note(format!("{class}: {message}")));
    }
}

/// Executes the shard that the messages on `input` describe, and reports to `output`. Returns the exit code.
///
/// # Errors
/// If the input ends before the job, or contains none.
pub fn serve(
    shard: Shard,
    mut input: impl BufRead + Send + 'static,
    output: Box<dyn Write + Send>,
) -> io::Result<i32> {
    let output = Arc::new(Output { node: shard.index, stream: Mutex::new(output) });
    let hello = Hello {
        version: env!("CARGO_PKG_VERSION").into(),
        machine: Machine::read(),
        pid: std::process::id(),
        open_files: open_files(),
    };
    output.send(Report::Hello(Box::new(hello)));
    let invalid = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text.to_string());
    let first = read_line(&mut input)?.ok_or_else(|| invalid("standard input ended before the job"))?;
    let Ok(Command::Job(job)) = serde_json::from_str(&first) else {
        return Err(invalid("the first line is not a job; `plimsoll fleet run` starts this command"));
    };
    let (decide, decisions) = channel();
    let control = Arc::new(Stop::default());
    let (listener, stopped) = (Arc::clone(&output), Arc::clone(&control));
    let shared = Arc::new(Mutex::new(Shared::default()));
    let shared_input = Arc::clone(&shared);
    std::thread::Builder::new().name("fleet-input".into()).spawn(move || {
        let decide = |decision| drop(decide.send(decision));
        while let Ok(Some(line)) = read_line(&mut input) {
            match serde_json::from_str(&line) {
                Ok(Command::Ping(number)) => {
                    listener.send(Report::Pong(number, wall_now().as_nanosecond() as i64));
                }
                Ok(Command::Start { at_unix_ns, offsets_ns }) => {
                    let offset_ns = offsets_ns.get(&listener.node).copied().unwrap_or(0);
                    decide(Decision::Start { at_unix_ns, offset_ns });
                }
                Ok(Command::CleanUp { for_all }) => {
                    decide(Decision::CleanUp { for_all: for_all == Some(listener.node) });
                }
                Ok(Command::Stop) => stopped.stop(),
                Ok(command) => decisions_of(&shared_input, listener.node, command),
                Err(_) => {}
            }
        }
        // The coordinator is gone.
        stopped.stop();
    })?;
    let link = Arc::new(Link {
        output: Arc::clone(&output),
        decisions: Mutex::new(decisions),
        control,
        phases: Mutex::default(),
        shared,
    });
    Ok(run(&job, shard, &link))
}

/// Records a decision about ramps or the cost limit for node `node`.
fn decisions_of(shared: &Mutex<Shared>, node: u64, command: Command) {
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    match command {
        Command::EndRamp { ramp, end } => drop(shared.ramps.insert(ramp, end)),
        Command::ReturnBudget { except } if except != node => shared.budget.asked = true,
        Command::GrantBudget { node: to, pico_usd } if to == node => {
            shared.budget.granted = shared.budget.granted.saturating_add(pico_usd);
        }
        _ => {}
    }
}

/// Executes the shard, sends its run directory, and returns the exit code.
fn run(job: &Job, shard: Shard, link: &Arc<Link>) -> i32 {
    if let Some(check) = &job.consistency {
        let done = check_consistency(job, check, shard, link);
        let (code, message) = done.err().map_or((0, String::new()), |e| (e.exit_code(), e.to_string()));
        link.output.send(Report::Ended { run: String::new(), code, message });
        return code;
    }
    let root = std::env::temp_dir().join(format!("plimsoll-fleet-{:016x}", entropy()));
    let done = execute_shard(job, shard, link, &root);
    let (path, problem) = match done {
        Ok(summary) => (Some(summary.run.path), summary.problem),
        Err(error) => (None, Some(error)),
    };
    let sent = path.as_deref().map_or(Ok(()), |path| send_files(path, &link.output));
    let (code, message) = match (&problem, sent) {
        (Some(error), _) => (error.exit_code(), error.to_string()),
        (None, Err(e)) => (4, format!("the results cannot be read: {e}")),
        (None, Ok(())) => (0, String::new()),
    };
    // A failed clean-up needs the run directory on this node.
    let left = path.as_deref().is_some_and(|path| code != 0 && path.join("environment.json").exists());
    if !left {
        let _ = std::fs::remove_dir_all(&root);
    }
    let name =
        path.as_deref().and_then(Path::file_name).map_or(String::new(), |n| n.to_string_lossy().into_owned());
    link.output.send(Report::Ended { run: name, code, message });
    code
}

/// Checks that the coordinator has the same version, and applies the settings of the job to this process.
fn prepare(job: &Job, shard: Shard) -> Result<(), RunError> {
    if job.version != env!("CARGO_PKG_VERSION") {
        return Err(RunError::input(format!(
            "this node has Plimsoll {}, and the coordinator {}; install the same version",
            env!("CARGO_PKG_VERSION"),
            job.version
        )));
    }
    if job.of != shard.of {
        return Err(RunError::input(format!(
            "the job has {} nodes, but this is one of {}",
            job.of, shard.of
        )));
    }
    if let Some(ns) = job.timeout_ns {
        set_timeout(Duration::from_nanos(ns));
    }
    Ok(())
}

/// Returns the credentials of the job; `None` if the node has its own.
fn credentials(job: &Job) -> Option<CredentialSource> {
    let keys = job.credentials.as_ref()?;
    let credentials = Credentials::new(&keys.access_key, &keys.secret_key, keys.token.as_deref());
    credentials.hide();
    Some(CredentialSource::fixed(credentials))
}

/// Executes this node's clients of a check of consistency.
fn check_consistency(
    job: &Job,
    check: &ConsistencyJob,
    shard: Shard,
    link: &Arc<Link>,
) -> Result<(), RunError> {
    prepare(job, shard)?;
    let control = Arc::new(Control::default());
    link.control.started(&control);
    let start = || link.start(&control).map(|(at, _)| at);
    let send = |events| link.output.send(Report::Events(events));
    consistency::execute(check, shard, job.ca_bundle.as_deref(), credentials(job), start, &control, send)?;
    link.wait_for_the_others(&control);
    Ok(())
}

fn execute_shard(job: &Job, shard: Shard, link: &Arc<Link>, root: &Path) -> Result<RunSummary, RunError> {
    prepare(job, shard)?;
    let experiment =
        resolve::parse("the experiment of the fleet", &job.experiment, &[]).map_err(RunError::input)?;
    let created =
        jiff::Timestamp::from_nanosecond(i128::from(job.created_unix_ns)).map_err(RunError::input)?;
    let settings = SessionSettings {
        out: root.to_path_buf(),
        vantage: job.vantage.clone(),
        keep: job.keep,
        create_bucket: job.create_bucket,
        ca_bundle: job.ca_bundle.clone(),
        workers: job.workers,
        record_operations: job.record_operations,
        sharding: Some(Sharding { shard, start_at: created, host_offset_s: None }),
        cost: CostSettings {
            max_cost: job.max_cost.clone(),
            prices: price_files(job, root).map_err(RunError::store)?,
            in_region: job.in_region,
        },
        command: job.command.clone(),
        ..SessionSettings::default()
    };
    let credentials = credentials(job);
    let (observer, rendezvous): (Arc<dyn RunObserver>, Arc<dyn Rendezvous>) = (link.clone(), link.clone());
    let components =
        Components { observer, rendezvous: Some(rendezvous), credentials, ..Components::default() };
    execute(&experiment, &settings, &components)
}

/// Writes the price books of the job to files, and returns their paths.
fn price_files(job: &Job, root: &Path) -> io::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(root)?;
    let write = |(index, text): (usize, &String)| {
        let path = root.join(format!("prices-{index}.toml"));
        std::fs::write(&path, text).map(|()| path)
    };
    job.prices.iter().enumerate().map(write).collect()
}

/// Bytes of a file in one message.
const PIECE: usize = 48 * 1024;

fn send_files(path: &Path, output: &Output) -> io::Result<()> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            files.insert(entry.file_name().to_string_lossy().into_owned(), entry.path());
        }
    }
    for (name, path) in files {
        let mut file = std::fs::File::open(path)?;
        loop {
            let mut piece = Vec::with_capacity(PIECE);
            (&mut file).take(PIECE as u64).read_to_end(&mut piece)?;
            if piece.is_empty() {
                break;
            }
            output.send(Report::File { name: name.clone(), data: STANDARD.encode(&piece) });
        }
    }
    Ok(())
}
