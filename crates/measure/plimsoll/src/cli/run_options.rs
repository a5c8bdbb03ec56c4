//! Options of commands that run an experiment.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use clap::Args;
use prometheus_client::registry::Registry;

use super::command_line;
use super::exit::Exit;
use super::money::MoneyArguments;
use super::out::{fit, is_quiet, note, say};
use super::progress::Terminal;
use super::report::{conclude, verdicts};
use super::signals;
use plimsoll_base::clock::wall_now;
use plimsoll_base::metrics::listen;
use plimsoll_base::metrics::push::Collector;
use plimsoll_engine::driver::Shard;
use plimsoll_experiment::Experiment;
use plimsoll_judge::run_dir::json;
use plimsoll_judge::summary::objective::Objective;
use plimsoll_live::live_page::RunPage;
use plimsoll_live::screen::{Hooks, Screen};
use plimsoll_report::{dry_run, terminal};
use plimsoll_session::abort::{AbortCondition, AbortRules};
use plimsoll_session::budget::{Planned, preview};
use plimsoll_session::live::Live;
use plimsoll_session::observer::RunObserver;
use plimsoll_session::open;
use plimsoll_session::rendezvous::Sharding;
use plimsoll_session::shard::{parse_shard, parse_start};
use plimsoll_session::{Components, RunSummary, SessionSettings};

/// Options of commands that run an experiment.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// Store to measure: a URL or a name from plimsoll.toml; NAME=URL gives it a name in the results, or replaces the
    /// store NAME of the experiment; may be repeated
    #[arg(long, value_name = "STORE")]
    pub store: Vec<String>,
    /// Directory in which the run directory is created
    #[arg(long, value_name = "DIR", default_value = "plimsoll-runs")]
    out: PathBuf,
    /// Location of the client, recorded with the results: a region, a rack, a city
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    vantage: String,
    /// Label of the run, such as branch=main; may be repeated; `plimsoll history --label` selects runs by it
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_label)]
    label: Vec<(String, String)>,
    /// Objective: 'get.p99 < 10ms', 'errors < 0.1%'; the exit code is 1 if the run misses one or is too short;
    /// `plimsoll run capacity` searches for the highest rate that meets all of them; may be repeated
    #[arg(long, value_name = "OBJECTIVE", conflicts_with = "shard")]
    pub slo: Vec<String>,
    /// End the run with exit code 1 if this holds for ten seconds: 'errors > 5%', 'get.p99 > 2s'; may be repeated
    #[arg(long, value_name = "CONDITION")]
    abort_if: Vec<String>,
    /// Print result.json instead of the table
    #[arg(long)]
    pub json: bool,
    /// Show the run on the whole terminal: throughput and latency of the last minutes, failures and the client
    #[arg(long, conflicts_with = "quiet")]
    live: bool,
    /// Serve the live view on this address during the run, a page for browsers; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS")]
    live_listen: Option<String>,
    /// Do not write the HTML report; `plimsoll report RUN` writes it later
    #[arg(long)]
    no_report: bool,
    /// Keep the objects in the store; `plimsoll clean RUN` deletes them later
    #[arg(long)]
    keep: bool,
    /// Create the bucket if it does not exist (it is not deleted afterwards)
    #[arg(long)]
    create_bucket: bool,
    /// PEM file of certificate authorities to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_bundle: Option<PathBuf>,
    /// Number of worker threads [default: derived from load and cores]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Print the resolved plan with operations, bytes, time and cost, without contacting the store
    #[arg(long, conflicts_with = "json")]
    pub dry_run: bool,
    /// Records to log in addition to the histograms
    #[arg(long, value_name = "RECORDS")]
    record: Option<Record>,
    /// Run one shard of an experiment that several hosts share: 1/4 is the first of four shards; `plimsoll merge`
    /// merges the shards
    #[arg(long, value_name = "I/N", requires = "start_at", value_parser = parse_shard)]
    pub shard: Option<Shard>,
    /// Time at which all hosts start to measure: a timestamp such as 2026-11-21T12:00:00Z, or Unix seconds; for
    /// tests on one host, also a delay such as +30s
    #[arg(long, value_name = "TIME", requires = "shard", value_parser = parse_start)]
    start_at: Option<jiff::Timestamp>,
    /// This host's clock minus the reference clock, in seconds: 0.012, -0.003; `plimsoll merge` corrects for it
    #[arg(long, value_name = "SECONDS", requires = "shard", allow_hyphen_values = true)]
    clock_offset: Option<f64>,
    /// Serve Prometheus metrics on this address at /metrics during the run; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<String>,
    /// Send metrics to this collector every ten seconds: otlp+http://host:4318, or
    /// influx+http://host:8086/api/v2/write?org=ORG&bucket=BUCKET; secrets come from OTEL_EXPORTER_OTLP_HEADERS and
    /// INFLUX_TOKEN; may be repeated
    #[arg(long, value_name = "URL")]
    metrics_to: Vec<String>,
    #[command(flatten)]
    money: MoneyArguments,
}

/// Records that are logged in addition to histograms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Record {
    /// Every individual operation
    Operations,
}

/// Maximum number of worker threads, far above the number of cores of any machine.
const MAX_WORKERS: usize = 1024;

impl RunOptions {
    /// Applies `--store` to an experiment.
    ///
    /// # Errors
    /// Exit code 2 if a name is unknown, both kinds are mixed, or there is no store.
    pub fn name_stores(&self, experiment: &mut Experiment) -> Result<(), Exit> {
        name_stores(experiment, &self.store)?;
        if experiment.stores.is_empty() && !self.dry_run {
            return Err(Exit::input(
                "--store is missing; specify a store, such as --store \
                 's3://bucket/prefix?endpoint=http://127.0.0.1:9000', \
                 or use --store embedded: to try Plimsoll on this machine",
            ));
        }
        Ok(())
    }

    fn check_workers(&self) -> Result<(), Exit> {
        if self.workers.is_some_and(|n| !(1..=MAX_WORKERS).contains(&n)) {
            return Err(Exit::input(format!(
                "--workers must be between 1 and {MAX_WORKERS}; omit --workers to derive the number from load \
                 and cores"
            )));
        }
        Ok(())
    }

    /// Returns the plan that `--dry-run` prints.
    ///
    /// # Errors
    /// Exit code 2 if an option is out of range, or the cost cannot be estimated.
    pub fn preview(&self, experiment: &Experiment) -> Result<String, Exit> {
        self.check_workers()?;
        let mut text = dry_run::render(experiment);
        let planned = Planned::of(experiment, self.shard.unwrap_or_default().of);
        let cost = preview(&self.money.settings(), &experiment.store_urls(), planned)?;
        text.extend(cost.iter().map(|line| format!("{line}\n")));
        Ok(text)
    }

    /// Returns the settings of the run.
    ///
    /// # Errors
    /// Exit code 2 if an option is out of range, or the start time has passed.
    pub fn settings(&self) -> Result<SessionSettings, Exit> {
        self.check_workers()?;
        if let Some(start_at) = self.start_at.filter(|at| *at < wall_now()) {
            return Err(Exit::input(format!(
                "--start-at {start_at}: this time has passed; use a later time for all shards that leaves time \
                 to prepare objects"
            )));
        }
        let sharding = self.shard.zip(self.start_at).map(|(shard, start_at)| Sharding {
            shard,
            start_at,
            host_offset_s: self.clock_offset,
        });
        let parse = |text: &String| Objective::parse(text).map_err(|e| Exit::input(format!("--slo {e}")));
        Ok(SessionSettings {
            objectives: self.slo.iter().map(parse).collect::<Result<_, _>>()?,
            record_operations: self.record.is_some(),
            sharding,
            cost: self.money.settings(),
            out: self.out.clone(),
            vantage: self.vantage.clone(),
            keep: self.keep,
            create_bucket: self.create_bucket,
            ca_bundle: self.ca_bundle.clone(),
            labels: self.label.iter().cloned().collect(),
            workers: self.workers,
            command: command_line(),
        })
    }

    /// Returns the parts of the run that report its progress.
    ///
    /// # Errors
    /// Exit code 2 if the address of the metrics cannot be used.
    pub fn components(&self) -> Result<Components, Exit> {
        let conditions = self.abort_if.iter().map(|text| AbortCondition::parse(text));
        let conditions: Vec<AbortCondition> =
            conditions.collect::<Result<_, _>>().map_err(|e| Exit::input(format!("--abort-if {e}")))?;
        Ok(Components {
            abort: (!conditions.is_empty()).then(|| Arc::new(AbortRules::new(conditions))),
            observer: self.observer()?,
            live: live(self.metrics_listen.as_deref(), &self.metrics_to)?,
            rendezvous: None,
            credentials: None,
        })
    }

    /// Returns the observer that shows a run to the user.
    ///
    /// # Errors
    /// Exit code 2 if `--live` is given without a terminal, or the address of `--live-listen` cannot be used.
    pub fn observer(&self) -> Result<Arc<dyn RunObserver>, Exit> {
        let observer = self.terminal()?;
        let Some(address) = &self.live_listen else { return Ok(observer) };
        let page = run_page(address)?;
        Ok(Arc::new(page.observer(self.cost_limit(), observer)))
    }

    /// Returns the cost limit in words; `None` without a limit.
    fn cost_limit(&self) -> Option<String> {
        self.money.settings().max_cost.map(|limit| format!("${limit}"))
    }

    /// Returns the observer that shows a run on the terminal.
    ///
    /// # Errors
    /// Exit code 2 if `--live` is given without a terminal.
    fn terminal(&self) -> Result<Arc<dyn RunObserver>, Exit> {
        if !self.live {
            return Ok(Arc::new(Terminal::new(self.json || is_quiet())));
        }
        if !(std::io::stderr().is_terminal() && std::io::stdin().is_terminal()) {
            return Err(Exit::input("--live needs a terminal; omit --live, or use `ssh -t` on another host"));
        }
        let hooks = Hooks { print: |line| note(line), started: signals::listen };
        Ok(Arc::new(Screen::new(self.cost_limit(), hooks)))
    }

    /// Prints the result of a run, and returns the error with which the command ends.
    ///
    /// # Errors
    /// If the run has a problem, or the result cannot be printed.
    pub fn print(&self, summary: RunSummary) -> Result<(), Exit> {
        let (run, problem) = conclude(summary, !self.no_report);
        let text = if self.json {
            json::to_string(&run.result)
        } else {
            let rendered = terminal::render(&run.result, terminal::Detail::default());
            // The user asked first for the objectives.
            let text = match run.result.objectives.is_empty() {
                true => format!("{}{rendered}", verdicts(&run)),
                false => format!("{rendered}{}", verdicts(&run)),
            };
            fit(&format!("{text}results: {}\n", run.path.display()))
        };
        let printed = say(&text);
        problem.map_or(printed, Err)
    }
}

/// Parses a label.
///
/// # Errors
/// Describes the expected syntax.
fn parse_label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write NAME=VALUE, such as branch=main")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if key.is_empty() || !key.chars().all(plain) {
        return Err(format!("'{key}' is not the name of a label; use letters, digits, '-', '_' and '.'"));
    }
    Ok((key.to_string(), value.to_string()))
}

/// Applies `--store` to an experiment. `NAME=URL` replaces the store `NAME` of the experiment, or names a store of an
/// experiment without own stores. Other stores replace all of the experiment.
///
/// # Errors
/// Exit code 2 if a name is unknown or both kinds are mixed.
pub fn name_stores(experiment: &mut Experiment, given: &[String]) -> Result<(), Exit> {
    let own = experiment.stores.clone();
    let mut stores = Vec::new();
    for store in given {
        let Some((name, url)) = open::mapping(store) else {
            stores.push(store.clone());
            continue;
        };
        if own.is_empty() {
            if stores.iter().any(|other| other == name) {
                return Err(Exit::input(format!("--store {name}: two stores have this name; rename one")));
            }
            stores.push(name.to_string());
        } else if !own.iter().any(|own| own == name) {
            let known = own.join(", ");
            return Err(Exit::input(format!(
                "--store {store}: the experiment has no store '{name}'; use one of {known}"
            )));
        }
        experiment.named.insert(name.to_string(), open::defined_as(url));
    }
    if stores.is_empty() {
        return Ok(());
    }
    if !own.is_empty() && stores.len() < given.len() {
        return Err(Exit::input(
            "--store NAME=URL replaces one store of the experiment, but a plain --store replaces all \
             stores; use only one kind",
        ));
    }
    experiment.stores = stores;
    Ok(())
}

/// Returns the page of this process; starts it the first time.
///
/// # Errors
/// Exit code 2 if the address cannot be used.
fn run_page(address: &str) -> Result<&'static RunPage, Exit> {
    static PAGE: OnceLock<RunPage> = OnceLock::new();
    if let Some(page) = PAGE.get() {
        return Ok(page);
    }
    let page = RunPage::start(address)
        .map_err(|e| Exit::input(format!("--live-listen {address}: {e}; choose another address or port")))?;
    note(format_args!("live view on http://{}/", page.address));
    Ok(PAGE.get_or_init(|| page))
}

/// Starts a Prometheus endpoint on `address` and the connections to collectors. Returns the metrics that they have;
/// `None` without either.
///
/// # Errors
/// Exit code 2 if the address or a collector cannot be used.
pub fn live(address: Option<&str>, collectors: &[String]) -> Result<Option<Live>, Exit> {
    let live = Live::default();
    for text in collectors {
        let wrong = |e: String| Exit::input(format!("--metrics-to {text}: {e}"));
        let collector = Collector::parse(text, |name| std::env::var(name).ok()).map_err(wrong)?;
        let name = text.clone();
        let report = move |line: &str| note(format_args!("! --metrics-to {name}: {line}"));
        live.push_to(collector, report).map_err(|e| wrong(e.to_string()))?;
    }
    if let Some(address) = address {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(live.clone()));
        let bound = listen(address, Arc::new(registry), None);
        let bound = bound.map_err(|e| {
            Exit::input(format!("--metrics-listen {address}: {e}; choose another address or port"))
        })?;
        note(format_args!("metrics on http://{bound}/metrics"));
    }
    Ok((address.is_some() || !collectors.is_empty()).then_some(live))
}
