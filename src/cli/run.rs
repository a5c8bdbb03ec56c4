//! `plimsoll run`: an experiment or a short form.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use prometheus_client::registry::Registry;

use super::exit::Exit;
use super::knee::KneeArguments;
use super::money::MoneyArguments;
use super::out::{note, say};
use super::progress::Terminal;
use super::report::conclude;
use super::timeout;
use super::{command_line, dry_run};
use crate::clock::wall_now;
use crate::driver::Shard;
use crate::experiment::short::{FORMS, Short};
use crate::experiment::spec::DEFAULT_SEED;
use crate::experiment::{BUILT_IN, Experiment, load, resolve};
use crate::metrics::listen;
use crate::report::terminal;
use crate::run_dir::json;
use crate::session::budget::{Planned, preview};
use crate::session::knee::{KneeSearch, find_knee};
use crate::session::live::Live;
use crate::session::open;
use crate::session::shard::{Sharding, parse_shard, parse_start};
use crate::session::{Components, Settings, execute};
use crate::units::format_rate;

/// Arguments of `plimsoll run`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A built-in experiment (`plimsoll list experiments`), a file, a run directory, or get, put, mixed, head, list, delete, knee
    experiment: String,
    /// Store to measure: a URL or a name from plimsoll.toml; NAME=URL gives a name of the experiment another store; may be repeated
    #[arg(long, value_name = "STORE")]
    store: Vec<String>,
    /// Where run directories go
    #[arg(long, value_name = "DIR", default_value = "plimsoll-runs")]
    out: PathBuf,
    /// Seed of everything random [default: the experiment's, or 42]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// From where it is measured, for the record: a region, a rack, a city
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    vantage: String,
    /// Print result.json instead of the table
    #[arg(long)]
    json: bool,
    /// Leave the objects in the store; `plimsoll clean RUN` removes them later
    #[arg(long)]
    keep: bool,
    /// Create the bucket when it is missing (it is never deleted)
    #[arg(long)]
    create_bucket: bool,
    /// PEM file of certificate authorities to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_bundle: Option<PathBuf>,
    /// Worker threads [default: by load and cores]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Change a value of the experiment: seed=7, phase.get.duration=60s; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Show the resolved plan with operations, bytes and time, and touch nothing
    #[arg(long, conflicts_with = "json")]
    dry_run: bool,
    /// Log every operation to operations.arrows
    #[arg(long, value_name = "WHAT")]
    record: Option<Record>,
    /// Carry out one part of several: 1/4 is the first of four hosts; `plimsoll merge` puts their runs together
    #[arg(long, value_name = "I/N", requires = "start_at", value_parser = parse_shard)]
    shard: Option<Shard>,
    /// When all shards begin to measure: 2026-11-21T12:00:00Z, Unix seconds, or +30s
    #[arg(long, value_name = "TIME", requires = "shard", value_parser = parse_start)]
    start_at: Option<jiff::Timestamp>,
    /// This host's clock minus the reference clock, for the record, such as 0.012 or -0.003 (seconds)
    #[arg(long, value_name = "SECONDS", requires = "shard", allow_hyphen_values = true)]
    clock_offset: Option<f64>,
    /// Answer Prometheus on this address while the run goes on, at /metrics; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<String>,
    #[command(flatten)]
    money: MoneyArguments,
    #[command(flatten)]
    short: ShortArguments,
    #[command(flatten)]
    knee: KneeArguments,
}

/// What is logged beside histograms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Record {
    /// Every operation
    Operations,
}

/// Options of the short forms; an experiment file says these itself.
#[derive(Debug, Args)]
#[command(next_help_heading = "Short forms")]
struct ShortArguments {
    /// Size of an object [default: 1KiB]
    #[arg(long)]
    size: Option<String>,
    /// Number of objects [default: 1000]
    #[arg(long, value_name = "N")]
    objects: Option<u64>,
    /// Closed loop: operations in flight [default: 16]
    #[arg(long, value_name = "N", conflicts_with = "rate")]
    concurrency: Option<u64>,
    /// Open loop: operations intended per time, such as 500/s
    #[arg(long)]
    rate: Option<String>,
    /// Open loop: constant or poisson [default: constant]
    #[arg(long)]
    arrival: Option<String>,
    /// Open loop: most operations in flight [default: 1024]
    #[arg(long, value_name = "N")]
    in_flight: Option<u64>,
    /// Length of the measurement [default: 30s, unless --operations is given]
    #[arg(long)]
    duration: Option<String>,
    /// End after so many operations
    #[arg(long, value_name = "N")]
    operations: Option<u64>,
    /// Length of the warm-up [default: 2s]
    #[arg(long)]
    warmup: Option<String>,
    /// on compares what is read byte for byte, off by length; readback also reads back what is put [default: on]
    #[arg(long)]
    verify: Option<String>,
    /// Deadline of one operation and of every other request; also of an experiment's phases [default: 60s]
    #[arg(long)]
    timeout: Option<String>,
    /// Further attempts after throttling, server errors and broken connections [default: 0]
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// Read the objects that this file names, one key a line, instead of writing some first
    #[arg(long, value_name = "FILE")]
    keys: Option<String>,
    /// Upload objects larger than this in parts of this size
    #[arg(long, value_name = "SIZE")]
    part_size: Option<String>,
    /// Parts of one object on their way at once [default: 1]
    #[arg(long, value_name = "N", requires = "part_size")]
    parts_in_flight: Option<u64>,
    /// Checksum that uploads bear: auto, md5, crc32, crc32c, crc64nvme, sha1, sha256 [default: the store's checksum=]
    #[arg(long, value_name = "NAME")]
    checksum: Option<String>,
    /// Upload this file instead of made-up content
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    file: Option<String>,
    /// Pause after each operation of a closed loop
    #[arg(long, value_name = "TIME", conflicts_with = "rate")]
    cooldown: Option<String>,
}

impl ShortArguments {
    /// The first option that was given, by its flag.
    fn given(&self) -> Option<&'static str> {
        let given = [
            ("--size", self.size.is_some()),
            ("--objects", self.objects.is_some()),
            ("--concurrency", self.concurrency.is_some()),
            ("--rate", self.rate.is_some()),
            ("--duration", self.duration.is_some()),
            ("--operations", self.operations.is_some()),
            ("--warmup", self.warmup.is_some()),
            ("--verify", self.verify.is_some()),
            ("--retries", self.retries.is_some()),
            ("--keys", self.keys.is_some()),
            ("--part-size", self.part_size.is_some()),
            ("--parts-in-flight", self.parts_in_flight.is_some()),
            ("--checksum", self.checksum.is_some()),
            ("--file", self.file.is_some()),
            ("--cooldown", self.cooldown.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }
}

/// The experiment of a search: the short form at the first rate.
fn of_knee(arguments: &Arguments, search: Option<&KneeSearch>) -> Result<(String, Option<String>), Exit> {
    let short = &arguments.short;
    let Some(search) = search else {
        return match arguments.knee.given() {
            Some(flag) => Err(Exit::input(format!("{flag} belongs to `plimsoll run knee`"))),
            None => Ok((arguments.experiment.clone(), short.rate.clone())),
        };
    };
    let given = [
        ("--concurrency", short.concurrency.is_some(), "an open loop has --in-flight"),
        ("--rate", short.rate.is_some(), "it begins with --from"),
        ("--duration", short.duration.is_some(), "its steps have --step"),
        ("--operations", short.operations.is_some(), "its steps have --step"),
        ("--warmup", short.warmup.is_some(), "every step has one of its own"),
        ("--shard", arguments.shard.is_some(), "run it on one host"),
    ];
    if let Some((flag, _, instead)) = given.into_iter().find(|(_, given, _)| *given) {
        return Err(Exit::input(format!("{flag} does not go with a knee; {instead}")));
    }
    Ok((search.form.clone(), Some(format_rate(search.limits.from))))
}

fn resolve_experiment(arguments: &Arguments, search: Option<&KneeSearch>) -> Result<Experiment, Exit> {
    let short = &arguments.short;
    let (form, rate) = of_knee(arguments, search)?;
    let mut experiment: Experiment = if FORMS.contains(&form.as_str()) {
        let written = Short {
            form,
            size: short.size.clone().unwrap_or_else(|| "1KiB".into()),
            objects: short.objects.unwrap_or(1000),
            concurrency: short.concurrency,
            rate,
            arrival: short.arrival.clone(),
            in_flight: short.in_flight,
            duration: short.duration.clone(),
            operations: short.operations,
            warmup: Some(short.warmup.clone().unwrap_or_else(|| "2s".into())),
            verify: short.verify.clone(),
            timeout: short.timeout.clone(),
            retries: short.retries,
            keys: short.keys.clone(),
            read_only: !arguments.store.is_empty() && arguments.store.iter().all(|s| open::is_read_only(s)),
            part_size: short.part_size.clone(),
            parts_in_flight: short.parts_in_flight,
            checksum: short.checksum.clone(),
            file: short.file.clone(),
            cooldown: short.cooldown.clone(),
            seed: arguments.seed.unwrap_or(DEFAULT_SEED),
        };
        if let Some(set) = arguments.set.first() {
            return Err(Exit::input(format!(
                "--set {set} changes experiment files; short forms have their own flags (--help)"
            )));
        }
        resolve::resolve(written.to_written()).map_err(|problem| Exit::input(as_flag(&problem.message)))?
    } else {
        if let Some(flag) = short.given() {
            return Err(Exit::input(format!(
                "{flag} belongs to the short forms ({}); an experiment says this in its file",
                FORMS.join(", ")
            )));
        }
        let mut sets = arguments.set.clone();
        sets.extend(arguments.seed.map(|seed| format!("seed={seed}")));
        let directory = Path::new(&arguments.experiment);
        let built_in = BUILT_IN.iter().any(|(name, _)| *name == arguments.experiment);
        let file = match directory.is_dir() && !built_in {
            true => directory.join("experiment.toml").display().to_string(),
            false => arguments.experiment.clone(),
        };
        let mut experiment = load(&file, &sets).map_err(Exit::input)?;
        experiment.set_timeout(short.timeout.as_deref()).map_err(Exit::input)?;
        experiment
    };
    name_stores(&mut experiment, &arguments.store)?;
    if experiment.stores.is_empty() && !arguments.dry_run {
        return Err(Exit::input(
            "--store is missing; name one, such as --store 's3://bucket/prefix?endpoint=http://127.0.0.1:9000', \
             or --store embedded: to try it on this machine",
        ));
    }
    Ok(experiment)
}

/// Gives an experiment the stores of `--store`: plain ones replace its own, `NAME=URL` gives one of its names another store.
fn name_stores(experiment: &mut Experiment, given: &[String]) -> Result<(), Exit> {
    let mut plain = Vec::new();
    for store in given {
        let Some((name, url)) = open::mapping(store) else {
            plain.push(store.clone());
            continue;
        };
        let Some(place) = experiment.stores.iter_mut().find(|s| *s == name) else {
            let known = experiment.stores.join(", ");
            return Err(Exit::input(format!(
                "--store {store}: the experiment has no store '{name}'; its stores are {known}"
            )));
        };
        *place = url.to_string();
    }
    if !plain.is_empty() {
        if plain.len() < given.len() {
            return Err(Exit::input(
                "--store NAME=URL changes a store of the experiment, a plain --store replaces them all; give one kind",
            ));
        }
        experiment.stores = plain;
    }
    Ok(())
}

/// A message about a field of the file, in terms of the flag that set it.
fn as_flag(message: &str) -> String {
    let message = message.split_once("': ").map_or(message, |(_, rest)| rest);
    let mut text = message.replace("rate = \"500/s\"", "--rate 500/s");
    for (field, flag) in [
        ("objects.size", "--size"),
        ("objects.count", "--objects"),
        ("in_flight", "--in-flight"),
        ("stop_after", "--operations"),
    ] {
        text = text.replace(field, flag);
    }
    for flag in ["concurrency", "rate", "arrival", "duration", "verify", "timeout"] {
        if text.starts_with(flag) {
            text = format!("--{text}");
        }
    }
    text
}

/// Figures of the run that are answered on `address`.
fn live(address: &str) -> Result<Live, Exit> {
    let live = Live::default();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(live.clone()));
    let bound = listen(address, Arc::new(registry));
    let bound = bound.map_err(|e| {
        Exit::input(format!("--metrics-listen {address}: {e}; choose another address or port"))
    })?;
    note(format_args!("metrics on http://{bound}/metrics"));
    Ok(live)
}

/// Most worker threads: far more than any machine has cores for.
const MOST_WORKERS: usize = 1024;

/// Runs the experiment and prints its result.
///
/// # Errors
/// See [`execute`].
pub fn run(arguments: &Arguments) -> Result<(), Exit> {
    let search = (arguments.experiment == "knee").then(|| arguments.knee.search()).transpose()?;
    timeout::apply(arguments.short.timeout.as_deref())?;
    let experiment = resolve_experiment(arguments, search.as_ref())?;
    if arguments.workers.is_some_and(|n| !(1..=MOST_WORKERS).contains(&n)) {
        return Err(Exit::input(format!(
            "--workers must be between 1 and {MOST_WORKERS}; omit it for one per core"
        )));
    }
    if arguments.dry_run {
        let mut text = dry_run::render(&experiment);
        let planned = Planned::of(&experiment, arguments.shard.unwrap_or_default().of);
        let cost = preview(&arguments.money.settings(), &experiment.store_urls(), planned)?;
        text.extend(cost.iter().map(|line| format!("{line}\n")));
        say(&text)?;
        return Ok(());
    }
    if let Some(start_at) = arguments.start_at.filter(|at| *at < wall_now()) {
        return Err(Exit::input(format!(
            "--start-at {start_at} has passed; give all shards a time far enough ahead to prepare their objects"
        )));
    }
    let sharding = arguments.shard.zip(arguments.start_at).map(|(shard, start_at)| Sharding {
        shard,
        start_at,
        host_offset_s: arguments.clock_offset,
    });
    let settings = Settings {
        record_operations: arguments.record.is_some(),
        sharding,
        cost: arguments.money.settings(),
        out: arguments.out.clone(),
        vantage: arguments.vantage.clone(),
        keep: arguments.keep,
        create_bucket: arguments.create_bucket,
        ca_bundle: arguments.ca_bundle.clone(),
        workers: arguments.workers,
        command: command_line(),
    };
    let components = Components {
        observer: Arc::new(Terminal::new(arguments.json)),
        live: arguments.metrics_listen.as_deref().map(live).transpose()?,
        credentials: None,
    };
    let summary = match search {
        Some(search) => find_knee(&experiment, &settings, &components, search)?,
        None => execute(&experiment, &settings, &components)?,
    };
    let (run, problem) = conclude(summary);
    let text = if arguments.json {
        json::to_string(&run.result)
    } else {
        format!(
            "{}results: {}\n",
            terminal::render(&run.result, terminal::Detail::default()),
            run.path.display()
        )
    };
    let printed = say(&text);
    problem.map_or(printed, Err)
}
