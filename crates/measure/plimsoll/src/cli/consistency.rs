//! `plimsoll run consistency`: checks under load whether a store is linearizable.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use clap::Args;

use super::exit::Exit;
use super::fleet::NodesArguments;
use super::out::{self, fit, note, say};
use super::record::RunRecord;
use super::timeout;
use plimsoll_base::clock::{MILLISECOND, SECOND, now_ns, wall_now};
use plimsoll_base::net::client_limits;
use plimsoll_base::units::{format_count, format_ms, parse_duration, parse_size};
use plimsoll_consistency::blame::Suspects;
use plimsoll_consistency::clients::{Event, MAX_CLIENTS, MIN_SIZE};
use plimsoll_consistency::findings::{Findings, LagSummary, Violation};
use plimsoll_consistency::guarantee::Guarantee;
use plimsoll_consistency::run::{receive, run};
use plimsoll_document::{Table, terminal};
use plimsoll_engine::driver::Control;
use plimsoll_engine::store::Store;
use plimsoll_engine::store::ownership::{KeySpace, RunId};
use plimsoll_experiment::spec::{DEFAULT_SEED, NamedStore};
use plimsoll_fleet::consistency::ConsistencyJob;
use plimsoll_fleet::coordinator::{self, FleetObserver};
use plimsoll_fleet::launcher::Launcher;
use plimsoll_fleet::live::Live;
use plimsoll_fleet::message::Job;
use plimsoll_session::lifecycle::{reach, require_writes};
use plimsoll_session::open;

/// Arguments of `plimsoll run consistency`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Store to check: a URL or a name from plimsoll.toml
    #[arg(long, value_name = "STORE")]
    store: String,
    /// Length of the check
    #[arg(long, value_name = "TIME", default_value = "30s")]
    duration: String,
    /// Number of keys in use at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=999))]
    keys: u32,
    /// Number of clients that share each key, each with one request in flight
    #[arg(long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_CLIENTS)))]
    clients: u32,
    /// Time after which the clients of a key move on to a new one; stale reads are found up to this age
    #[arg(long, value_name = "TIME", default_value = "1s")]
    turn: String,
    /// Size of each object
    #[arg(long, default_value = "64B")]
    size: String,
    /// Send no writes with conditions, for a store that does not claim to support them under contention
    #[arg(long)]
    no_conditions: bool,
    /// Seed of the random requests
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    seed: u64,
    /// Number of threads of the clients [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,
    /// Deadline of each request [default: 60s]
    #[arg(long)]
    timeout: Option<String>,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Create the bucket if it does not exist (it is not deleted afterwards)
    #[arg(long)]
    create_bucket: bool,
    /// PEM file of certificate authorities to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_bundle: Option<PathBuf>,
    /// Engine that starts clients on several nodes: ssh:FILE, slurm, ray://HOST:PORT, k8s:JOB, local:N
    #[arg(long, value_name = "ENGINE")]
    on: Option<String>,
    #[command(flatten)]
    nodes: NodesArguments,
    /// Directory for the list of created objects; the list is deleted after a successful clean-up
    #[arg(long, value_name = "DIR", default_value = "plimsoll-runs")]
    out: PathBuf,
}

impl Arguments {
    /// Returns the check in the key space of run `id`.
    fn job(&self, id: &RunId, named: Option<NamedStore>, conditions: bool) -> Result<ConsistencyJob, Exit> {
        let time = |flag: &str, text: &str, least: u64, hint: &str| {
            let ns = parse_duration(text).map_err(|e| Exit::input(format!("{flag}: {e}")))?;
            Some(ns)
                .filter(|ns| *ns >= least)
                .ok_or_else(|| Exit::input(format!("{flag} {text}: too short; use at least {hint}")))
        };
        let duration_ns = time("--duration", &self.duration, MILLISECOND, "1ms")?;
        let size = parse_size(&self.size).map_err(|e| Exit::input(format!("--size: {e}")))?;
        if !(MIN_SIZE as u64..=1 << 20).contains(&size) {
            return Err(Exit::input(format!(
                "--size {}: the size must be between {MIN_SIZE}B and 1MiB",
                self.size
            )));
        }
        Ok(ConsistencyJob {
            store: self.store.clone(),
            named,
            run: id.to_string(),
            counts: (self.keys, self.clients, self.workers),
            lengths_ns: (duration_ns, time("--turn", &self.turn, 10 * MILLISECOND, "10ms")?),
            size: size as usize,
            seed: self.seed,
            conditions,
        })
    }
}

/// Checks a store and prints the findings.
///
/// # Errors
/// Exit code 1 if a history has no valid order, 2 for invalid input, 3 if the store cannot be used.
pub fn consistency(arguments: &Arguments) -> Result<(), Exit> {
    timeout::apply(arguments.timeout.as_deref())?;
    let opened = open::open(&arguments.store, arguments.ca_bundle.as_deref())?;
    let store = &opened.store;
    require_writes(std::slice::from_ref(&opened))?;
    let conditions = store.capabilities().conditions && !arguments.no_conditions;
    let id = RunId::generate();
    let check = arguments.job(&id, opened.named.clone(), conditions)?;
    let launcher = arguments.on.as_deref().map(|on| arguments.nodes.launcher(on)).transpose()?;
    let space = KeySpace::of_run(store.prefix(), &id);
    let reached = reach(std::slice::from_ref(&opened), &id, arguments.create_bucket)?;
    let record = RunRecord::create(&arguments.out, &id, reached)?;
    let mut noted_s = 0;
    let began_ns = now_ns();
    let progress = |findings: &Findings| {
        let elapsed_s = (now_ns() - began_ns) / SECOND;
        if elapsed_s >= noted_s + 10 {
            noted_s = elapsed_s;
            out::progress(format_args!(
                "{elapsed_s} s: {} operations, {} keys checked, {} with violations",
                format_count(findings.operations),
                format_count(findings.keys),
                format_count(findings.violations)
            ));
        }
    };
    let control = Arc::clone(record.control());
    let ran = match launcher {
        Some(launcher) => on_nodes(arguments, launcher.as_ref(), check, &space, &control, progress),
        None => here(&check, store, &space, &control, progress),
    };
    let finished = record.finish();
    let findings = ran?;
    if arguments.json {
        say(&(serde_json::to_string_pretty(&findings).map_err(Exit::store)? + "\n"))?;
    } else {
        say(&fit(&text(&opened.written, &findings, conditions)))?;
    }
    finished.and_then(|()| verdict(&findings))
}

/// Runs all clients in this process.
fn here(
    check: &ConsistencyJob,
    store: &Arc<dyn Store>,
    space: &KeySpace,
    control: &Arc<Control>,
    progress: impl FnMut(&Findings),
) -> Result<Findings, Exit> {
    let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let threads = check.counts.2.unwrap_or_else(cores);
    run(check.plan(now_ns()), store, space, threads, control, progress).map_err(Exit::store)
}

/// Passes the answers of clients on nodes to the checker in this process.
struct Answers(Sender<Event>);

impl FleetObserver for Answers {
    fn note(&self, line: &str) {
        note(line);
    }

    fn progress(&self, _: &Live) {}

    fn events(&self, events: Vec<Event>) {
        for event in events {
            let _ = self.0.send(event);
        }
    }
}

/// Runs the clients on the nodes of an engine.
fn on_nodes(
    arguments: &Arguments,
    launcher: &dyn Launcher,
    check: ConsistencyJob,
    space: &KeySpace,
    control: &Arc<Control>,
    mut progress: impl FnMut(&Findings) + Send,
) -> Result<Findings, Exit> {
    let plan = check.plan(0);
    let job = Job {
        version: env!("CARGO_PKG_VERSION").into(),
        of: launcher.nodes().len() as u64,
        created_unix_ns: wall_now().as_nanosecond() as i64,
        ca_bundle: arguments.ca_bundle.clone(),
        timeout_ns: arguments.timeout.as_deref().map(|_| client_limits::timeout().as_nanos() as u64),
        credentials: arguments.nodes.credentials()?,
        consistency: Some(check),
        ..Job::default()
    };
    let launch_timeout_ns = arguments.nodes.launch_timeout_ns()?;
    // The nodes of a check send no files.
    let files = arguments.out.join(format!("fleet-{}", job.created_unix_ns));
    let (events, answers) = channel();
    let (findings, ran) = std::thread::scope(|scope| {
        let plan = &plan;
        let checker = scope.spawn(move || receive(plan, space, &answers, control, &mut progress));
        let ran = coordinator::run(launcher, &job, &files, launch_timeout_ns, &Answers(events), control);
        (checker.join(), ran)
    });
    let _ = std::fs::remove_dir(&files);
    let ends = ran?.ends;
    let findings = findings.map_err(|_| Exit::defect("the checker panicked"))?;
    match ends.iter().find(|(_, end)| end.code != Some(0)) {
        // A violation is proven by the operations that are known.
        Some((node, end)) if findings.violations == 0 && control.stopped_at().is_none() => {
            let reason = &end.message;
            Err(Exit::store(format!(
                "node {}: {reason}; histories without its clients are incomplete",
                node + 1
            )))
        }
        _ => Ok(findings),
    }
}

/// Returns the error with which the command ends: a violation, or a store that answered no request.
fn verdict(findings: &Findings) -> Result<(), Exit> {
    if findings.violations > 0 {
        let keys = format_count(findings.violations);
        return Err(Exit::check(format!(
            "not linearizable: the histories of {keys} keys have no valid order"
        )));
    }
    match &findings.first_failure {
        Some(message) if findings.operations == 0 => {
            Err(Exit::store(format!("no request succeeded: {message}")))
        }
        _ => Ok(()),
    }
}

/// Describes the findings for the terminal: the verdict first.
fn text(store: &str, findings: &Findings, conditions: bool) -> String {
    let mut out = format!("{store}\n");
    let keys = format_count(findings.keys);
    out += &match findings.violations {
        0 => format!("linearizable: the histories of {keys} keys have a valid order{}\n", power(findings)),
        n => format!(
            "NOT linearizable: {} of {keys} keys have no valid order; violated: {}\n",
            format_count(n),
            names(&findings.blamed)
        ),
    };
    out += &format!(
        "{} operations, {} without an answer, {} failed without effect\n",
        format_count(findings.operations),
        format_count(findings.unknown),
        format_count(findings.errors.values().sum())
    );
    for (reason, count) in &findings.unanswered {
        out += &format!("  without an answer: {reason}: {}\n", format_count(*count));
    }
    for (class, count) in &findings.errors {
        out += &format!("  failed: {class}: {}\n", format_count(*count));
    }
    if findings.shared_tags > 0 {
        out += &format!(
            "! {} entity tags stood for two different contents: a write with If-Match cannot tell them apart\n",
            format_count(findings.shared_tags)
        );
    }
    if findings.undecided > 0 {
        out += &format!(
            "undecided: {} keys, because too many operations overlap; use fewer --clients\n",
            findings.undecided
        );
    }
    if !conditions {
        out += "writes with conditions are not checked\n";
    }
    let either = Guarantee::ALL.iter().any(|g| findings.guarantees.get(g).is_some_and(|c| c.possible > 0));
    let columns = ["guarantee", "checked#", "keys with violations#", "keys with this or another violation#"];
    let mut counts = Table::new("", &columns[..if either { 4 } else { 3 }]);
    for guarantee in Guarantee::ALL {
        if let Some(found) = findings.guarantees.get(&guarantee) {
            let numbers = [found.checked, found.violations, found.possible].map(format_count);
            let cells = std::iter::once(guarantee.name().to_string()).chain(numbers);
            counts.row(cells.take(counts.columns.len()).collect::<Vec<_>>());
        }
    }
    out += &format!("\n{}\n", terminal::plain(&counts));
    out += &lag("reads", &findings.lag);
    out += &lag("listings", &findings.list_lag);
    for violation in &findings.shortest {
        out += &history(violation);
    }
    out
}

/// Describes the rarest loss of writes that a check without a violation would have found.
fn power(findings: &Findings) -> String {
    // The rule of three: without an event in n cases, fewer than 3 in n happen, at the 95% level (J. Hanley and
    // A. Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA 249, 1983).
    match findings.verified_writes / 3 {
        0 => "; too few writes were read back to find lost ones".into(),
        one_in => {
            format!("; the loss of one in {} writes would have been found, with 95%", format_count(one_in))
        }
    }
}

/// Names sets of guarantees: `A and B`, or `either A or B` if each set alone is an explanation.
fn names<'a>(sets: impl IntoIterator<Item = &'a Suspects>) -> String {
    let together =
        |set: &Suspects| set.iter().map(|guarantee| guarantee.name()).collect::<Vec<_>>().join(" and ");
    let sets: Vec<String> = sets.into_iter().map(together).collect();
    if sets.len() > 1 { format!("either {}", sets.join(" or ")) } else { sets.join("") }
}

/// Describes the visibility lag of writes in reads or listings.
fn lag(of: &str, lag: &LagSummary) -> String {
    let writes = format_count(lag.writes);
    match lag.late {
        0 => format!("visibility lag in {of}: none; no later one missed one of {writes} writes\n"),
        late => format!(
            "visibility lag in {of}: {} of {writes} writes were missing from a later one; lag of these: p50 {} ms, \
             p99 {} ms, max {} ms\n",
            format_count(late),
            format_ms(lag.p50_ms),
            format_ms(lag.p99_ms),
            format_ms(lag.max_ms)
        ),
    }
}

/// Describes the shortest violating history.
fn history(violation: &Violation) -> String {
    let mut table = Table::new("", &["client", "start", "end", "request", "answer"]);
    for line in &violation.operations {
        table.row([
            line.client.to_string(),
            format!("{:.3} ms", line.start_ms),
            line.end_ms.map_or("-".into(), |end| format!("{end:.3} ms")),
            line.request.clone(),
            line.answer.clone(),
        ]);
    }
    let (guarantee, key) = (names(&violation.explanations), &violation.key);
    let cause = violation.cause.map_or(String::new(), |cause| format!("cause: {cause}\n"));
    let table = terminal::plain(&table);
    format!("\n{guarantee}: no order explains these answers (key {key})\n{cause}{table}")
}
