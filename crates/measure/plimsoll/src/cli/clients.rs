//! `plimsoll run clients`: the same puts and gets by client libraries and tools, against one store, in turns.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::command_line;
use super::exit::Exit;
use super::out::{is_quiet, note, progress, say};
use super::progress::Terminal;
use super::report::conclude;
use super::timeout;
use plimsoll_base::clock::{now_ns, wall_now};
use plimsoll_base::machine::pauses::{PauseWatch, covered_ns};
use plimsoll_base::machine::usable_cores;
use plimsoll_base::units::parse_size;
use plimsoll_clients::clients::batch::{Address, BatchOperation, OperationBatch, Timed};
use plimsoll_clients::clients::library::{Library, installed};
use plimsoll_clients::clients::tool::Tool;
use plimsoll_clients::clients::{OtherClient, Turn, own, requests};
use plimsoll_clients::sync::files::{self, Ground};
use plimsoll_clients::sync::scratch;
use plimsoll_document::terminal;
use plimsoll_engine::driver::clean::CleanupScope;
use plimsoll_engine::driver::{Control, Shard};
use plimsoll_engine::store::ownership::RunId;
use plimsoll_experiment::to_toml::to_toml;
use plimsoll_judge::run_dir::directory::RunDirectory;
use plimsoll_judge::run_dir::json;
use plimsoll_judge::summary::percentiles::samples_needed;
use plimsoll_judge::summary::result::{ClientRound, RunResult};
use plimsoll_report::clients::tables;
use plimsoll_report::text::answer;
use plimsoll_session::lifecycle::{Reached, begin, delete_written, end, open_stores, reach, require_writes};
use plimsoll_session::observer::RunObserver;
use plimsoll_session::open::Named;
use plimsoll_session::{self, RunError, RunSummary, SessionSettings};

/// Libraries and tools that are used if they are installed, besides Plimsoll.
const KNOWN: [&str; 5] = ["boto3", "awscrt", "obstore", "s5cmd", "rclone"];

/// Advice after the failure of a client.
const LEAVE_OUT: &str = "; to leave this client out, name the others with --clients";

/// Arguments of `plimsoll run clients`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// S3 store against which the clients are measured
    #[arg(long, value_name = "STORE")]
    store: String,
    /// Clients besides Plimsoll, separated by commas: boto3, awscrt, obstore, s5cmd, rclone [default: all that are
    /// installed]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    clients: Vec<String>,
    /// Another client: a program that executes a job, as docs/clients.md describes; may be repeated
    #[arg(long, value_name = "NAME=COMMAND")]
    program: Vec<String>,
    /// Python interpreter with the libraries [default: python3]
    #[arg(long, value_name = "PROGRAM")]
    python: Option<String>,
    /// Number of objects that each client writes and reads in each round
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    objects: u64,
    /// Size of each object
    #[arg(long, default_value = "1KiB")]
    size: String,
    /// Number of operations in flight
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    concurrency: u16,
    /// Number of rounds; in each, every client has a turn
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Do not count requests, which needs one more round through a local endpoint
    #[arg(long)]
    no_requests: bool,
    /// Directory in which the run directory is created
    #[arg(long, value_name = "DIR", default_value = "plimsoll-runs")]
    out: PathBuf,
    /// Print result.json instead of the tables
    #[arg(long)]
    json: bool,
    /// Create the bucket if it does not exist (it is not deleted afterwards)
    #[arg(long)]
    create_bucket: bool,
    /// Deadline of every request besides the measured ones [default: 60s]
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
}

/// Returns the clients in the order of the table, and the names of known clients that are not installed.
fn find(arguments: &Arguments) -> Result<(Vec<OtherClient>, Vec<&'static str>), Exit> {
    if let Some(name) = arguments.clients.iter().find(|name| !KNOWN.contains(&name.as_str())) {
        let known = KNOWN.join(", ");
        return Err(Exit::input(format!(
            "--clients {name}: unknown client; use {known}, or --program {name}=COMMAND"
        )));
    }
    let python = arguments.python.as_deref().unwrap_or("python3");
    let (libraries, problem) = match installed(python) {
        Ok(found) => (found, String::new()),
        Err(error) if arguments.python.is_some() => {
            return Err(Exit::input(format!("--python {python}: {error}")));
        }
        Err(error) => (Vec::new(), format!("; {python}: {error}")),
    };
    let (mut clients, mut absent) = (vec![OtherClient::Plimsoll], Vec::new());
    for name in KNOWN {
        let is_named = arguments.clients.iter().any(|named| named == name);
        if !is_named && !arguments.clients.is_empty() {
            continue;
        }
        let library = libraries.iter().find(|(library, _)| library == name);
        let library = library.map(|(name, version)| Library::of_python(python, name, version));
        match library.map(OtherClient::Library).or_else(|| Tool::find(name).map(OtherClient::Tool)) {
            Some(client) => clients.push(client),
            None if is_named => {
                return Err(Exit::input(format!("--clients {name}: it is not installed{problem}")));
            }
            None => absent.push(name),
        }
    }
    for program in &arguments.program {
        match program.split_once('=').filter(|(name, command)| !name.is_empty() && !command.is_empty()) {
            Some((name, command)) if clients.iter().all(|client| client.name() != name) => {
                clients.push(OtherClient::Library(Library::of_command(name, command)));
            }
            Some((name, _)) => {
                return Err(Exit::input(format!("--program {name}=…: another client has this name")));
            }
            None => return Err(Exit::input(format!("--program {program}: write NAME=COMMAND"))),
        }
    }
    if clients.len() < 2 {
        return Err(Exit::input(format!(
            "no other client is installed{problem}; install one of {}, or name a --program",
            KNOWN.join(", ")
        )));
    }
    Ok((clients, absent))
}

impl Arguments {
    fn batch(&self) -> Result<OperationBatch, Exit> {
        let bytes = parse_size(&self.size).map_err(|e| Exit::input(format!("--size: {e}")))?;
        if !(1..=5 << 30).contains(&bytes) {
            return Err(Exit::input(format!("--size {}: must be from 1B to 5GiB", self.size)));
        }
        Ok(OperationBatch {
            operation: BatchOperation::Put,
            objects: self.objects,
            bytes,
            concurrency: usize::from(self.concurrency),
            seed: 42,
        })
    }

    fn settings(&self) -> SessionSettings {
        SessionSettings {
            out: self.out.clone(),
            create_bucket: self.create_bucket,
            command: command_line(),
            ..SessionSettings::default()
        }
    }
}

/// Returns the `q` quantile of times in milliseconds; `None` if there are too few.
fn quantile_ms(sorted_ns: &[u64], q: f64) -> Option<f64> {
    let rank = ((q * sorted_ns.len() as f64).ceil() as usize).max(1);
    let is_enough = sorted_ns.len() as u64 >= samples_needed(q);
    sorted_ns.get(rank - 1).filter(|_| is_enough).map(|ns| *ns as f64 / 1e6)
}

fn round_of(client: &OtherClient, batch: &OperationBatch, round: u32, timed: Timed) -> ClientRound {
    let mut times = timed.latencies_ns;
    times.sort_unstable();
    ClientRound {
        client: client.name().into(),
        version: client.version().into(),
        operation: batch.operation.name().into(),
        round,
        operations: batch.objects,
        bytes: batch.objects * batch.bytes,
        concurrency: batch.concurrency as u64,
        wall_s: timed.wall_ns as f64 / 1e9,
        cpu_s: timed.cpu_ns as f64 / 1e9,
        p50_ms: quantile_ms(&times, 0.5),
        p99_ms: quantile_ms(&times, 0.99),
        paused_share: 0.0,
        requests: std::collections::BTreeMap::new(),
    }
}

/// Returns the result of a client, or that the user stopped it. A failed operation of Plimsoll itself also stops its
/// turn.
fn unless_stopped<T>(
    client: &OtherClient,
    turn: &Turn<'_>,
    done: Result<T, RunError>,
) -> Result<T, RunError> {
    let is_stopped = turn.control.stopped_at().is_some();
    match done {
        Err(error) if matches!(client, OtherClient::Plimsoll) => Err(error),
        Err(error) if !is_stopped => Err(error.with(LEAVE_OUT)),
        Ok(done) if !is_stopped => Ok(done),
        _ => {
            Err(RunError::interrupted("interrupted; completed rounds are kept and the run is marked partial"))
        }
    }
}

/// Executes all rounds, and counts the requests of each client.
fn rounds(
    arguments: &Arguments,
    clients: &[OtherClient],
    batch: &OperationBatch,
    turn: &Turn<'_>,
    result: &mut RunResult,
    directory: &mut RunDirectory,
) -> Result<(), RunError> {
    let both = [BatchOperation::Put, BatchOperation::Get];
    let watch = PauseWatch::start(usable_cores().ceil() as usize);
    for round in 0..arguments.rounds {
        for place in 0..clients.len() {
            let client = &clients[(place + round as usize) % clients.len()];
            if !arguments.json {
                progress(format_args!("round {} of {}: {}", round + 1, arguments.rounds, client.name()));
            }
            for operation in both {
                let batch = OperationBatch { operation, ..*batch };
                let began_ns = now_ns();
                let timed = unless_stopped(client, turn, client.execute(&batch, turn))?;
                let ended_ns = now_ns();
                let paused_ns = covered_ns(&watch.log().within(began_ns, ended_ns), began_ns, ended_ns);
                let paused_share = paused_ns as f64 / (ended_ns - began_ns).max(1) as f64;
                result.clients.push(ClientRound { paused_share, ..round_of(client, &batch, round, timed) });
                directory.result(result);
            }
        }
    }
    // The first client of the table is the one to which the others are compared.
    let order = |name: &str| clients.iter().position(|client| client.name() == name);
    result.clients.sort_by_key(|round| (round.operation == "get", order(&round.client), round.round));
    for client in clients.iter().filter(|_| !arguments.no_requests) {
        if !arguments.json {
            progress(format_args!("counting the requests of {}", client.name()));
        }
        for operation in both {
            let counted = requests::count(client, &OperationBatch { operation, ..*batch }, turn);
            let counted = unless_stopped(client, turn, counted)?;
            let counted: std::collections::BTreeMap<String, u64> = counted.into_iter().collect();
            let same = |round: &&mut ClientRound| {
                round.client == client.name() && round.operation == operation.name()
            };
            result.clients.iter_mut().filter(same).for_each(|round| round.requests.clone_from(&counted));
        }
    }
    Ok(())
}

/// Measures the clients and prints their tables.
///
/// # Errors
/// Exit code 2 for invalid input, 3 if a request of a client fails.
pub fn clients(arguments: &Arguments) -> Result<(), Exit> {
    let batch = arguments.batch()?;
    timeout::apply(arguments.timeout.as_deref())?;
    let (clients, absent) = find(arguments)?;
    let settings = arguments.settings();
    let id = RunId::generate();
    let opened = open_stores(std::slice::from_ref(&arguments.store), &Named::new(), None, None)?;
    require_writes(&opened)?;
    let address = Address::of(&opened[0])?;
    if !absent.is_empty() {
        note(format_args!("note: not installed: {}", absent.join(", ")));
    }
    let mut environment = plimsoll_session::environment(&settings, id.as_str());
    let path = settings.out.join(id.as_str());
    let place = scratch::place(&path, id.as_str());
    let Reached { sites, facts } = reach(&opened, &id, arguments.create_bucket)?;
    environment.stores = facts;
    environment.files = Some(std::path::absolute(&place).map_err(|e| settings.out_error(&e))?);
    let recorded = own::recorded(&batch, &opened[0].written, arguments.rounds)?;
    let observer: Arc<dyn RunObserver> = Arc::new(Terminal::new(arguments.json || is_quiet()));
    let mut directory = begin(&settings, &to_toml(&recorded), &environment, &opened, &observer)?;
    let control = Arc::new(Control::default());
    super::signals::listen(Arc::clone(&control));
    let mut result = plimsoll_session::blank(&settings, id.as_str(), "clients", batch.seed);
    let origin_ns = now_ns();
    environment.origin_unix_s = wall_now().as_nanosecond() as f64 / 1e9;
    let turn = Turn {
        store: &opened[0],
        space: &sites[0].space,
        address: &address,
        files: &place,
        control: &control,
        origin_ns,
    };
    let has_tools = clients.iter().any(|client| matches!(client, OtherClient::Tool(_)));
    let written = scratch::create(&place, id.as_str()).and_then(|()| match has_tools {
        true => files::write(&ground(&batch, &place, &control)),
        false => Ok(()),
    });
    let written =
        written.map_err(|e| RunError::input(format!("{}: {e}; choose another --out", place.display())));
    let outcome =
        written.and_then(|()| rounds(arguments, &clients, &batch, &turn, &mut result, &mut directory));
    if scratch::remove(&place, id.as_str()).is_ok_and(|removed| removed) {
        environment.files = None;
    }
    let owned = CleanupScope::of_phases(&recorded.phases, Shard::default());
    let failed = delete_written(&sites, &owned, &mut environment.stores, observer.as_ref(), &path, &control);
    observer.ended();
    let problem = match (outcome.err(), failed) {
        (Some(problem), Some(_)) => Some(problem.with_left_behind(&path)),
        (problem, failed) => problem.or(failed),
    };
    result.run.partial = problem.is_some();
    let (run, problem) = end(directory, result, environment, problem);
    let (run, problem) = conclude(RunSummary { run, problem }, true);
    let text = match arguments.json {
        true => json::to_string(&run.result),
        false => {
            let answers: String = answer::of(&run.result).iter().map(|line| format!("{line}\n")).collect();
            let tables: String = tables(&run.result.clients).iter().map(terminal::table).collect();
            format!("{answers}{tables}results: {}\n", path.display())
        }
    };
    let printed = say(&text);
    problem.map_or(printed, Err)
}

/// Returns the local files that tools transfer.
fn ground(batch: &OperationBatch, place: &std::path::Path, control: &Arc<Control>) -> Ground {
    Ground {
        timeout_ns: 0,
        source: place.join("source"),
        target: place.join("target"),
        count: batch.objects,
        bytes: batch.bytes,
        part_size: u64::MAX,
        concurrency: batch.concurrency,
        seed: batch.seed,
        control: Arc::clone(control),
        origin_ns: 0,
    }
}
