//! `plimsoll fleet`: runs an experiment on several nodes.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};

use super::command_line;
use super::exit::Exit;
use super::merge::merge_shards;
use super::money::MoneyArguments;
use super::out::{fit, note, progress, say};
use super::run_options::name_stores;
use super::signals;
use super::timeout;
use plimsoll_base::clock::{SECOND, wall_now};
use plimsoll_base::net::client_limits;
use plimsoll_base::rng::entropy;
use plimsoll_base::units::{format_count, format_ms, format_throughput, parse_duration};
use plimsoll_document::Table;
use plimsoll_engine::driver::{Control, Shard};
use plimsoll_experiment::to_toml::to_toml;
use plimsoll_experiment::{Experiment, load};
use plimsoll_fleet::coordinator::{Collected, FleetError, FleetObserver, run};
use plimsoll_fleet::launcher::kubernetes::Manifest;
use plimsoll_fleet::launcher::{LaunchError, Launcher, parse};
use plimsoll_fleet::live::{Figures, Live};
use plimsoll_fleet::message::{ForwardedCredentials, Job};
use plimsoll_fleet::node;
use plimsoll_judge::run_dir::json;
use plimsoll_judge::run_dir::run::Run;
use plimsoll_report::terminal;
use plimsoll_session::open::add_tables;
use plimsoll_session::shard::{check, parse_shard};

/// Arguments of `plimsoll fleet`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Run an experiment on several nodes and merge their results
    Run(Box<RunArguments>),
    /// Print the manifest of a Kubernetes Job whose pods `--on k8s:NAME` uses
    Manifest(ManifestArguments),
    /// Execute one shard; `plimsoll fleet run` starts this command on the nodes
    #[command(hide = true)]
    Node(NodeArguments),
}

#[derive(Debug, Args)]
struct RunArguments {
    /// Built-in experiment (`plimsoll list experiments`), experiment file, or run directory
    experiment: String,
    /// Engine that starts the nodes: ssh:FILE (one host per line), slurm (inside an allocation), ray or
    /// ray://HOST:PORT, k8s:JOB (the name of a Job), local:N (processes on this machine)
    #[arg(long, value_name = "ENGINE")]
    on: String,
    #[command(flatten)]
    nodes: NodesArguments,
    /// Store to measure: a URL or a name from plimsoll.toml; NAME=URL gives it a name in the results, or replaces the
    /// store NAME of the experiment; may be repeated
    #[arg(long, value_name = "STORE")]
    store: Vec<String>,
    /// Override a value of the experiment: seed=7, phase.get.duration=60s; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Deadline of each operation and of every other request [default: 60s]
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// Directory in which the run directories are created
    #[arg(long, value_name = "DIR", default_value = "plimsoll-runs")]
    out: PathBuf,
    /// Location of the nodes, recorded with the results
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    vantage: String,
    /// Print result.json instead of the tables
    #[arg(long)]
    json: bool,
    /// Keep the objects in the store
    #[arg(long)]
    keep: bool,
    /// Create the bucket if it does not exist (it is not deleted afterwards)
    #[arg(long)]
    create_bucket: bool,
    /// PEM file of certificate authorities to trust instead of the system's, on the nodes
    #[arg(long, value_name = "FILE")]
    ca_bundle: Option<PathBuf>,
    /// Number of worker threads of each node [default: derived from load and cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,
    /// Log every operation on the nodes
    #[arg(long)]
    record_operations: bool,
    #[command(flatten)]
    money: MoneyArguments,
}

/// Nodes of an engine.
#[derive(Debug, Args)]
pub(super) struct NodesArguments {
    /// Number of nodes [default: all that the engine lists; required for Ray]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    nodes: Option<u64>,
    /// Path of Plimsoll on the nodes [default: plimsoll for ssh, this program for slurm and local]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Send the AWS credentials of this environment to the nodes [default: each node uses its own]
    #[arg(long)]
    forward_credentials: bool,
    /// Time within which all nodes must start
    #[arg(long, value_name = "TIME", default_value = "2m")]
    launch_timeout: String,
}

impl NodesArguments {
    /// Returns the launcher of the engine `on`.
    ///
    /// # Errors
    /// Exit code 2 or 3 if the engine cannot be used.
    pub fn launcher(&self, on: &str) -> Result<Box<dyn Launcher>, Exit> {
        let program = match &self.program {
            Some(program) => program.clone(),
            None if on.starts_with("ssh:") => "plimsoll".into(),
            None => std::env::current_exe().map_err(Exit::store)?,
        };
        Ok(parse(on, self.nodes, &program)?)
    }

    /// Returns the time within which all nodes must start, in nanoseconds.
    ///
    /// # Errors
    /// Exit code 2 if it is invalid.
    pub fn launch_timeout_ns(&self) -> Result<u64, Exit> {
        parse_duration(&self.launch_timeout).map_err(|e| Exit::input(format!("--launch-timeout: {e}")))
    }

    /// Returns the AWS credentials to send to the nodes; `None` if each node has its own.
    ///
    /// # Errors
    /// Exit code 2 if the environment has none.
    pub fn credentials(&self) -> Result<Option<ForwardedCredentials>, Exit> {
        self.forward_credentials.then(credentials_to_forward).transpose()
    }
}

#[derive(Debug, Args)]
struct ManifestArguments {
    /// Number of pods; each runs on its own node
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    nodes: u64,
    /// Container image with Plimsoll in its PATH
    #[arg(long, value_name = "IMAGE")]
    image: String,
    /// Name of the Job
    #[arg(long, value_name = "NAME", default_value = "plimsoll")]
    name: String,
    /// Secret whose entries become environment variables of the pods, such as AWS_ACCESS_KEY_ID
    #[arg(long, value_name = "NAME")]
    secret: Option<String>,
    /// Service account of the pods
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,
    /// CPU of each pod, as a Kubernetes quantity
    #[arg(long, value_name = "QUANTITY", default_value = "2")]
    cpu: String,
    /// Memory of each pod, as a Kubernetes quantity
    #[arg(long, value_name = "QUANTITY", default_value = "2Gi")]
    memory: String,
}

#[derive(Debug, Args)]
struct NodeArguments {
    /// Number of the node and number of nodes: 1/8
    #[arg(long, value_name = "I/N", value_parser = parse_shard)]
    shard: Option<Shard>,
    /// Number of nodes, if JOB_COMPLETION_INDEX has the number of this node, from 0
    #[arg(long, value_name = "N", conflicts_with = "shard")]
    of: Option<u64>,
}

impl From<LaunchError> for Exit {
    fn from(error: LaunchError) -> Exit {
        match error {
            LaunchError::Engine { .. } => Exit::store(error),
            _ => Exit::input(error),
        }
    }
}

impl From<FleetError> for Exit {
    fn from(error: FleetError) -> Exit {
        match error {
            FleetError::Out { .. } => Exit::input(error),
            _ => Exit::store(error),
        }
    }
}

/// Runs a fleet, prints a manifest, or executes a shard.
///
/// # Errors
/// Exit code 2 for invalid input, 3 if the fleet or a store cannot be used, and otherwise as `plimsoll run`.
pub fn fleet(arguments: &Arguments) -> Result<(), Exit> {
    match &arguments.action {
        Action::Run(arguments) => run_fleet(arguments),
        Action::Manifest(arguments) => manifest(arguments),
        Action::Node(arguments) => execute_node(arguments),
    }
}

fn manifest(arguments: &ManifestArguments) -> Result<(), Exit> {
    let manifest = Manifest {
        name: arguments.name.clone(),
        nodes: arguments.nodes,
        image: arguments.image.clone(),
        secret: arguments.secret.clone(),
        service_account: arguments.service_account.clone(),
        resources: (arguments.cpu.clone(), arguments.memory.clone()),
    };
    say(&(serde_json::to_string_pretty(&manifest.to_json()).map_err(Exit::defect)? + "\n"))
}

fn execute_node(arguments: &NodeArguments) -> Result<(), Exit> {
    let indexed = || {
        let index: u64 = std::env::var("JOB_COMPLETION_INDEX").ok()?.parse().ok()?;
        arguments.of.filter(|of| index < *of).map(|of| Shard { index, of })
    };
    let shard = arguments.shard.or_else(indexed).ok_or_else(|| {
        Exit::input("--shard is missing; `plimsoll fleet run` starts this command on the nodes")
    })?;
    let input = std::io::BufReader::new(std::io::stdin());
    let code = node::serve(shard, input, Box::new(std::io::stdout())).map_err(Exit::input)?;
    // The coordinator has received the message of a failure.
    if code == 0 { Ok(()) } else { Err(Exit { code, message: String::new() }) }
}

/// Returns the AWS credentials in the environment.
fn credentials_to_forward() -> Result<ForwardedCredentials, Exit> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    match (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
        (Some(access_key), Some(secret_key)) => {
            Ok(ForwardedCredentials { access_key, secret_key, token: variable("AWS_SESSION_TOKEN") })
        }
        _ => Err(Exit::input(
            "--forward-credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or omit the flag if the nodes \
             have credentials",
        )),
    }
}

fn load_experiment(arguments: &RunArguments) -> Result<Experiment, Exit> {
    let directory = Path::new(&arguments.experiment);
    let file = if directory.is_dir() { directory.join("experiment.toml") } else { directory.to_path_buf() };
    let mut experiment = load(&file.to_string_lossy(), &arguments.set).map_err(Exit::input)?;
    name_stores(&mut experiment, &arguments.store)?;
    if experiment.stores.is_empty() {
        return Err(Exit::input("--store is missing; specify a store that all nodes can reach"));
    }
    add_tables(&mut experiment)?;
    experiment.set_timeout(arguments.timeout.as_deref()).map_err(Exit::input)?;
    Ok(experiment)
}

fn job(arguments: &RunArguments, experiment: &Experiment, of: u64) -> Result<Job, Exit> {
    let cost = arguments.money.settings();
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path).map_err(|e| Exit::input(format!("--prices {}: {e}", path.display())))
    };
    Ok(Job {
        version: env!("CARGO_PKG_VERSION").into(),
        experiment: to_toml(experiment),
        of,
        created_unix_ns: wall_now().as_nanosecond() as i64,
        keep: arguments.keep,
        create_bucket: arguments.create_bucket,
        record_operations: arguments.record_operations,
        workers: arguments.workers.map(|n| n as usize),
        vantage: arguments.vantage.clone(),
        ca_bundle: arguments.ca_bundle.clone(),
        timeout_ns: arguments.timeout.as_deref().map(|_| client_limits::timeout().as_nanos() as u64),
        max_cost: cost.max_cost,
        prices: cost.prices.iter().map(read).collect::<Result<_, _>>()?,
        in_region: cost.in_region,
        command: command_line(),
        credentials: arguments.nodes.credentials()?,
        consistency: None,
    })
}

/// Progress of a fleet on standard error: one line at the beginning of each phase, and every five seconds.
#[derive(Default)]
struct Lines {
    /// Phase of the last line, and the number of calls since.
    shown: RefCell<(String, u32)>,
}

impl FleetObserver for Lines {
    fn note(&self, line: &str) {
        note(line);
    }

    fn progress(&self, live: &Live) {
        let mut shown = self.shown.borrow_mut();
        shown.1 += 1;
        if live.phase().is_empty() || (shown.0 == live.phase() && shown.1 < 5) {
            return;
        }
        *shown = (live.phase().to_string(), 0);
        let total = live.total();
        let slow: Vec<String> = live.slow().iter().map(|node| (node + 1).to_string()).collect();
        let slow = if slow.is_empty() { String::new() } else { format!("; slow: node {}", slow.join(", ")) };
        progress(format_args!(
            "{}: {}/s, {}, p50 {} ms, p99 {} ms, {} failed{slow}",
            live.phase(),
            format_count(total.per_s.round() as u64),
            format_throughput(total.bytes_per_s),
            total.p50_ms.map_or("-".into(), format_ms),
            total.p99_ms.map_or("-".into(), format_ms),
            format_count(live.counts().1)
        ));
    }
}

fn run_fleet(arguments: &RunArguments) -> Result<(), Exit> {
    let timeout_ns = arguments.nodes.launch_timeout_ns()?;
    timeout::apply(arguments.timeout.as_deref())?;
    let experiment = load_experiment(arguments)?;
    let launcher = arguments.nodes.launcher(&arguments.on)?;
    let of = launcher.nodes().len() as u64;
    check(&experiment, Shard { index: 0, of }, true)?;
    let job = job(arguments, &experiment, of)?;
    let control = Arc::new(Control::default());
    signals::listen(Arc::clone(&control));
    let nodes = arguments.out.join(format!(
        "fleet-{}-{:08x}",
        wall_now().strftime("%Y%m%dT%H%M%S"),
        entropy() as u32
    ));
    let ran = run(launcher.as_ref(), &job, &nodes, timeout_ns, &Lines::default(), &control);
    let collected = match ran {
        Ok(collected) if !collected.runs.is_empty() => collected,
        failed => {
            // Fails, as intended, if a node has sent a run directory.
            let _ = std::fs::remove_dir(&nodes);
            failed?;
            return Err(Exit::store("no node has sent a result"));
        }
    };
    let runs: Vec<PathBuf> = collected.runs.values().cloned().collect();
    let merged = merge_shards(&runs, &arguments.out)?;
    let text = if arguments.json {
        json::to_string(&merged.result)
    } else {
        let rendered = terminal::render(&merged.result, terminal::Detail::default());
        let nodes = nodes_table(launcher.nodes(), &collected);
        fit(&format!("{rendered}\n{nodes}results: {}\n", merged.path.display()))
    };
    say(&text)?;
    verdict(launcher.nodes(), &collected, &merged)
}

/// Returns the error with which the command ends: that of the first node without a result, else of the first that
/// failed.
fn verdict(names: &[String], collected: &Collected, merged: &Run) -> Result<(), Exit> {
    let name = |node: u64| format!("node {} ({})", node + 1, names[node as usize]);
    if let Some((node, end)) = collected.ends.iter().find(|(_, end)| end.code.is_none()) {
        let degraded = merged.result.run.degraded.as_deref().unwrap_or("its share of the load is missing");
        return Err(Exit::check(format!("{} was lost ({}): {degraded}", name(*node), end.message)));
    }
    match collected.ends.iter().find(|(_, end)| end.code != Some(0)) {
        Some((node, end)) => {
            Err(Exit { code: end.code.unwrap_or(1), message: format!("{}: {}", name(*node), end.message) })
        }
        None => Ok(()),
    }
}

fn nodes_table(names: &[String], collected: &Collected) -> String {
    let columns = ["node", "name", "cores#", "RTT ms#", "clock ms#", "per second#", "p50#", "p99#", "#"];
    let mut table = Table::new("", &columns);
    let (figures, slow) = (collected.live.by_node(), collected.live.slow());
    let of_number = |ms: Option<f64>| ms.map_or("-".into(), format_ms);
    for (node, name) in (0..).zip(names) {
        let facts = collected.facts.get(&node).cloned().unwrap_or_default();
        let Figures { per_s, p50_ms, p99_ms, .. } = figures.get(&node).copied().unwrap_or_default();
        let rtt = facts.reached.iter().filter_map(|store| store.rtt_ms).reduce(f64::max);
        let clock = facts.offset.map_or("-".into(), |o| {
            format!("{:+.2} +-{:.2}", o.offset_ns as f64 / 1e6, o.error_ns as f64 / 1e6)
        });
        let lost = collected.ends.get(&node).is_none_or(|end| end.code.is_none());
        table.row([
            (node + 1).to_string(),
            name.clone(),
            format!("{}", facts.hello.machine.usable_cores),
            of_number(rtt),
            clock,
            format_count(per_s.round() as u64),
            of_number(p50_ms),
            of_number(p99_ms),
            if lost {
                "lost"
            } else if slow.contains(&node) {
                "slow"
            } else {
                ""
            }
            .to_string(),
        ]);
    }
    let launch = collected.launch_ns.map_or(String::new(), |ns| {
        format!(", started together {:.1} s after the first process", ns as f64 / SECOND as f64)
    });
    format!("nodes (last seconds of the last phase{launch})\n{}", plimsoll_document::terminal::plain(&table))
}
