//! `plimsoll run`: runs an experiment or a short form.

use std::path::Path;

use clap::{Args, Subcommand};

use super::canary;
use super::capacity::{CapacityArguments, MIN_WITHIN_NS};
use super::clients;
use super::consistency;
use super::contention;
#[cfg(target_os = "linux")]
use super::durability;
use super::exit::Exit;
use super::flags::as_flag;
use super::out::{fit, say};
use super::parquet;
use super::run_options::RunOptions;
use super::sync;
use super::timeout;
use super::until::PrecisionArguments;
use plimsoll_base::units::{format_duration, format_rate, parse_size};
use plimsoll_experiment::short::{FORMS, Short};
use plimsoll_experiment::spec::{DEFAULT_SEED, SweepSpec};
use plimsoll_experiment::sweep::parse_field;
use plimsoll_experiment::to_toml::to_toml;
use plimsoll_experiment::{BUILT_IN, Experiment, load, resolve};
use plimsoll_judge::summary::result::CapacityBy;
use plimsoll_report::text::capacity::ranking;
use plimsoll_session::capacity::{CapacitySearch, find_capacity};
use plimsoll_session::drop_caches::execute_dropping;
use plimsoll_session::open;
use plimsoll_session::relays::Relays;
use plimsoll_session::until::execute_until;
use plimsoll_session::{Components, SessionSettings, execute};

/// Rate of a short form through relays, if none is given: a load that free plans of relays allow.
const RELAY_RATE: &str = "20/s";

/// Default length of each point of a sweep.
const SWEEP_DURATION: &str = "10s";

/// Arguments of `plimsoll run`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true
)]
pub struct Arguments {
    #[command(subcommand)]
    special: Option<Special>,
    #[command(flatten)]
    experiment: ExperimentArguments,
}

/// Experiment, and the options that apply to any.
#[derive(Debug, Args)]
pub struct ExperimentArguments {
    /// Built-in experiment (`plimsoll list experiments`), experiment file, run directory, or a short form:
    /// get, put, mixed, head, list, delete, copy, capacity
    #[arg(required = true)]
    experiment: Option<String>,
    /// Seed of all random values [default: the seed of the experiment, or 42]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Override a value of the experiment or short form: seed=7, phase.get.duration=60s; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Run this command after the objects are written and before they are read: it restarts the server or drops its
    /// caches
    #[arg(long, value_name = "COMMAND", conflicts_with = "until")]
    drop_caches: Option<String>,
    #[command(flatten)]
    options: RunOptions,
    #[command(flatten)]
    short: ShortArguments,
    #[command(flatten)]
    capacity: CapacityArguments,
    #[command(flatten)]
    precision: PrecisionArguments,
}

/// Experiments with options of their own.
#[derive(Debug, Subcommand)]
enum Special {
    /// Send one operation per interval to a store, without an end: metrics, outages, and a history by day
    Canary(Box<canary::Arguments>),
    /// Measure S3 client libraries and tools against one store, in turns: rates, times, CPU time and requests
    Clients(Box<clients::Arguments>),
    /// Check under load whether a store is linearizable: reads, listings and conditional writes of shared keys
    Consistency(Box<consistency::Arguments>),
    /// Measure compare-and-swap on one object by number of writers: throughput, latency, conflicts and fairness
    Contention(Box<contention::Arguments>),
    /// Cut the power of a server on a simulated disk, and check whether it kept what it acknowledged
    #[cfg(target_os = "linux")]
    Durability(Box<durability::Arguments>),
    /// Measure the requests that DuckDB or pyarrow send to scan Parquet files
    Parquet(Box<parquet::Arguments>),
    /// Time the transfer of a directory of generated files to and from a store, by Plimsoll and by other tools
    Sync(Box<sync::Arguments>),
}

/// Options of the short forms. An experiment file contains these settings itself.
#[derive(Debug, Args)]
#[command(next_help_heading = "Short forms")]
struct ShortArguments {
    /// Size of each object [default: 1KiB]
    #[arg(long)]
    size: Option<String>,
    /// Number of objects [default: 1000]
    #[arg(long, value_name = "N")]
    objects: Option<u64>,
    /// Closed loop: number of operations in flight [default: 16]
    #[arg(long, value_name = "N", conflicts_with = "rate")]
    concurrency: Option<u64>,
    /// Open loop: intended rate of operations, such as 500/s
    #[arg(long)]
    rate: Option<String>,
    /// Open loop: arrival process, constant or poisson [default: constant]
    #[arg(long)]
    arrival: Option<String>,
    /// Open loop: maximum number of operations in flight [default: 1024]
    #[arg(long, value_name = "N")]
    in_flight: Option<u64>,
    /// Length of the measurement [default: 30s, unless --operations is given]
    #[arg(long)]
    duration: Option<String>,
    /// Number of operations after which the measurement ends
    #[arg(long, value_name = "N")]
    operations: Option<u64>,
    /// Length of the warm-up [default: 2s]
    #[arg(long)]
    warmup: Option<String>,
    /// Verification of reads: on compares every byte; off compares only the length; readback also reads back
    /// every uploaded object [default: on]
    #[arg(long)]
    verify: Option<String>,
    /// Deadline of each operation and of every other request; also applies to experiment files [default: 60s]
    #[arg(long)]
    timeout: Option<String>,
    /// Maximum number of retries after throttling, server errors and broken connections [default: 0]
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// Read the objects listed in this file, one key per line, instead of writing objects first
    #[arg(long, value_name = "FILE")]
    keys: Option<String>,
    /// Upload objects larger than this in parts of this size
    #[arg(long, value_name = "SIZE")]
    part_size: Option<String>,
    /// Number of parts of one object in flight [default: 1]
    #[arg(long, value_name = "N", requires = "part_size")]
    parts_in_flight: Option<u64>,
    /// Checksum of uploads: auto, md5, crc32, crc32c, crc64nvme, sha1, sha256 [default: the value of
    /// checksum= in the store URL]
    #[arg(long, value_name = "NAME")]
    checksum: Option<String>,
    /// Upload this file instead of generated content
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    file: Option<String>,
    /// Share of the bytes that compression can remove, such as 0.5; for stores that compress
    #[arg(long, value_name = "SHARE", conflicts_with_all = ["file", "keys"])]
    compressible: Option<f64>,
    /// Number of objects with the same content, such as 3; other contents share nothing. For stores that deduplicate
    #[arg(long, value_name = "N", conflicts_with_all = ["file", "keys"])]
    dedup: Option<f64>,
    /// Measure every combination of values: size=1KiB,1MiB concurrency=1,8,64 or rate, part_size, parts_in_flight,
    /// working_set (which shows the size of a cache); at most two fields, 10s per point unless --duration is given
    #[arg(long, value_name = "FIELD=VALUES")]
    sweep: Vec<String>,
    /// State of the store's caches: warm (a warm-up reads every object once) or cold (no object is read twice)
    #[arg(long, value_name = "STATE", conflicts_with = "sweep")]
    cache: Option<String>,
    /// Closed loop: pause after each operation
    #[arg(long, value_name = "TIME", conflicts_with = "rate")]
    think_time: Option<String>,
    /// Write each object once with `put`, and read each one once, this time after the last was written
    #[arg(long, value_name = "TIME", conflicts_with_all = ["duration", "operations", "sweep", "cache", "keys"])]
    read_after: Option<String>,
    /// Order of these reads: sequential, reversed, shuffled, or shifted, which makes each host of several read what
    /// another one wrote [default: sequential]
    #[arg(long, value_name = "ORDER", requires = "read_after")]
    read_order: Option<String>,
}

impl ExperimentArguments {
    /// Returns the name of the experiment; empty only with a subcommand, which replaces it.
    fn name(&self) -> &str {
        self.experiment.as_deref().unwrap_or_default()
    }
}

impl ShortArguments {
    /// Returns the first given flag that conflicts with an experiment file; `None` if no such flag is given.
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
            ("--compressible", self.compressible.is_some()),
            ("--dedup", self.dedup.is_some()),
            ("--think-time", self.think_time.is_some()),
            ("--cache", self.cache.is_some()),
            ("--read-after", self.read_after.is_some()),
            ("--sweep", !self.sweep.is_empty()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }
}

/// Returns the name of the experiment or short form, and its rate. For a search by rate, these are its short form and
/// first rate.
///
/// # Errors
/// Exit code 2 if a flag does not apply.
fn form_and_rate(
    arguments: &ExperimentArguments,
    search: Option<&CapacitySearch>,
    relays: &Relays,
) -> Result<(String, Option<String>), Exit> {
    let short = &arguments.short;
    let Some(search) = search else {
        return match arguments.capacity.given() {
            Some(flag) => {
                Err(Exit::input(format!("{flag}: only `plimsoll run capacity` accepts this flag; omit it")))
            }
            None => {
                let open = !relays.is_empty() && short.concurrency.is_none();
                let rate = short.rate.clone().or_else(|| open.then(|| RELAY_RATE.to_string()));
                Ok((arguments.name().to_string(), rate))
            }
        };
    };
    let given = [
        ("--concurrency", short.concurrency.is_some(), "use --by concurrency with --from and --to"),
        ("--rate", short.rate.is_some(), "use --by rate with --from and --to"),
        ("--duration", short.duration.is_some(), "use --step"),
        ("--operations", short.operations.is_some(), "use --step"),
        ("--warmup", short.warmup.is_some(), "omit it, because every step has its own warm-up"),
        ("--sweep", !short.sweep.is_empty(), "run one search per value"),
        ("--cache", short.cache.is_some(), "omit it"),
        ("--read-after", short.read_after.is_some(), "omit it"),
        ("--drop-caches", arguments.drop_caches.is_some(), "omit it"),
        ("--shard", arguments.options.shard.is_some(), "run the search on one host"),
    ];
    if let Some((flag, _, instead)) = given.into_iter().find(|(_, given, _)| *given) {
        return Err(Exit::input(format!(
            "{flag}: a search for the capacity does not support this flag; {instead}"
        )));
    }
    let first = search.from_per_s.unwrap_or(100.0);
    Ok((search.form.clone(), (search.by == CapacityBy::Rate).then(|| format_rate(first))))
}

/// Returns the default number of objects. A search for the capacity and a sweep write at most 256 MiB of each size if
/// there are more than 16 objects, because their time is limited.
fn objects_of(short: &ShortArguments, sweep: Option<&SweepSpec>, searches: bool) -> u64 {
    let swept = sweep.and_then(|sweep| sweep.size.clone()).unwrap_or_default();
    let largest = swept.iter().chain(&short.size).filter_map(|size| parse_size(size).ok()).max();
    let bytes = largest.unwrap_or(1024).max(1);
    let swept = sweep.and_then(|sweep| sweep.working_set.as_ref()).into_iter().flatten();
    if let Some(most) = swept.filter_map(|size| parse_size(size).ok()).max() {
        return (most / bytes).max(1);
    }
    if searches || sweep.is_some() { ((256 << 20) / bytes).clamp(16, 1000) } else { 1000 }
}

/// Returns the swept fields and their values; `None` without a sweep.
///
/// # Errors
/// Exit code 2 if a field or a value is not valid.
fn swept(fields: &[String]) -> Result<Option<SweepSpec>, Exit> {
    let mut sweep = SweepSpec::default();
    for field in fields {
        parse_field(field, &mut sweep).map_err(|e| Exit::input(format!("--sweep {field}: {e}")))?;
    }
    Ok((!fields.is_empty()).then_some(sweep))
}

/// Checks that flags are given only with the short form that accepts them.
fn check_form(short: &ShortArguments, form: &str) -> Result<(), Exit> {
    if short.cache.is_some() && form != "get" && FORMS.contains(&form) {
        return Err(Exit::input(format!(
            "--cache: `plimsoll run {form}` does not accept this flag; only get does"
        )));
    }
    if short.read_after.is_some() && form != "put" && FORMS.contains(&form) {
        return Err(Exit::input(format!(
            "--read-after: `plimsoll run {form}` does not accept this flag; only put does"
        )));
    }
    Ok(())
}

fn resolve_experiment(
    arguments: &ExperimentArguments,
    search: Option<&CapacitySearch>,
    relays: &Relays,
) -> Result<Experiment, Exit> {
    let short = &arguments.short;
    let (form, rate) = form_and_rate(arguments, search, relays)?;
    let sweep = swept(&short.sweep)?;
    check_form(short, &form)?;
    let mut experiment: Experiment = if FORMS.contains(&form.as_str()) {
        let written = Short {
            form,
            size: short.size.clone(),
            objects: short.objects.unwrap_or_else(|| objects_of(short, sweep.as_ref(), search.is_some())),
            concurrency: short.concurrency,
            rate,
            arrival: short.arrival.clone(),
            in_flight: short.in_flight,
            duration: short
                .duration
                .clone()
                .or_else(|| (sweep.is_some() && short.operations.is_none()).then(|| SWEEP_DURATION.into())),
            operations: short.operations,
            warmup: Some(short.warmup.clone().unwrap_or_else(|| "2s".into())),
            verify: short.verify.clone(),
            timeout: short.timeout.clone(),
            retries: short.retries,
            keys: short.keys.clone(),
            read_only: !arguments.options.store.is_empty()
                && arguments.options.store.iter().all(|s| open::is_read_only(s)),
            part_size: short.part_size.clone(),
            parts_in_flight: short.parts_in_flight,
            checksum: short.checksum.clone(),
            file: short.file.clone(),
            compressible: short.compressible,
            dedup: short.dedup,
            think_time: short.think_time.clone(),
            cache: short.cache.clone(),
            read_after: short.read_after.clone(),
            read_order: short.read_order.clone(),
            sweep,
            seed: arguments.seed.unwrap_or(DEFAULT_SEED),
        };
        let resolved =
            resolve::resolve(written.to_spec()).map_err(|problem| Exit::input(as_flag(&problem.message)))?;
        match arguments.set.as_slice() {
            [] => resolved,
            sets => resolve::parse(&resolved.name, &to_toml(&resolved), sets).map_err(Exit::input)?,
        }
    } else {
        if let Some(flag) = short.given() {
            return Err(Exit::input(format!(
                "{flag}: only the short forms ({}) accept this flag; change the experiment file or use --set",
                FORMS.join(", ")
            )));
        }
        let mut sets = arguments.set.clone();
        sets.extend(arguments.seed.map(|seed| format!("seed={seed}")));
        let directory = Path::new(arguments.name());
        let built_in = BUILT_IN.iter().any(|(name, _)| *name == arguments.name());
        let file = match directory.is_dir() && !built_in {
            true => directory.join("experiment.toml").display().to_string(),
            false => arguments.name().to_string(),
        };
        let mut experiment = load(&file, &sets).map_err(Exit::input)?;
        experiment.set_timeout(short.timeout.as_deref()).map_err(Exit::input)?;
        experiment
    };
    if arguments.options.store.is_empty() {
        relays.add_binding(&mut experiment);
    }
    arguments.options.name_stores(&mut experiment)?;
    relays.apply(&mut experiment)?;
    Ok(experiment)
}

/// Runs the experiment and prints its result.
///
/// # Errors
/// Exit code 2 if an argument is invalid; otherwise as [`execute`].
pub fn run(arguments: &Arguments) -> Result<(), Exit> {
    match &arguments.special {
        Some(Special::Canary(arguments)) => canary::canary(arguments),
        Some(Special::Clients(arguments)) => clients::clients(arguments),
        Some(Special::Consistency(arguments)) => consistency::consistency(arguments),
        Some(Special::Contention(arguments)) => contention::contention(arguments),
        #[cfg(target_os = "linux")]
        Some(Special::Durability(arguments)) => durability::durability(arguments),
        Some(Special::Parquet(arguments)) => parquet::parquet(arguments),
        Some(Special::Sync(arguments)) => sync::sync(arguments),
        None => run_through(&arguments.experiment, &Relays::default()),
    }
}

/// Searches for the capacity of several stores, one after the other, each with its share of the time and its own run.
///
/// # Errors
/// As [`find_capacity`]. After an error, no further store is measured.
fn rank(
    options: &RunOptions,
    experiment: &Experiment,
    settings: &SessionSettings,
    components: &Components,
    search: &CapacitySearch,
) -> Result<(), Exit> {
    let count = experiment.stores.len() as u64;
    let within_ns = search.within_ns / count;
    if within_ns < MIN_WITHIN_NS {
        let least = format_duration(MIN_WITHIN_NS * count);
        return Err(Exit::input(format!("--within: {count} stores need at least {least}")));
    }
    let mut summaries = Vec::new();
    for store in &experiment.stores {
        let one = Experiment { stores: vec![store.clone()], ..experiment.clone() };
        let components = Components { observer: options.observer()?, ..components.clone() };
        let search = CapacitySearch { within_ns, ..search.clone() };
        let summary = find_capacity(&one, settings, &components, search)?;
        let has_failed = summary.problem.is_some();
        summaries.push(summary);
        if has_failed {
            break;
        }
    }
    if !options.json {
        let results: Vec<_> = summaries.iter().map(|summary| &summary.run.result).collect();
        say(&fit(&format!("{}\n\n", ranking(&results))))?;
    }
    summaries.into_iter().try_for_each(|summary| options.print(summary))
}

/// Runs the experiment through relays, if there are any, and prints its result.
///
/// # Errors
/// Exit code 2 if an argument is invalid; otherwise as [`execute`].
pub fn run_through(arguments: &ExperimentArguments, relays: &Relays) -> Result<(), Exit> {
    let search = (arguments.name() == "capacity")
        .then(|| arguments.capacity.search(&arguments.options.slo))
        .transpose()?;
    timeout::apply(arguments.short.timeout.as_deref())?;
    let mut experiment = resolve_experiment(arguments, search.as_ref(), relays)?;
    arguments.precision.apply(&mut experiment)?;
    let until = arguments.precision.until()?;
    if arguments.drop_caches.as_deref().is_some_and(|command| command.trim().is_empty()) {
        return Err(Exit::input("--drop-caches: the command is empty; write one, or omit the flag"));
    }
    if arguments.drop_caches.is_some() && arguments.options.shard.is_some() {
        return Err(Exit::input(
            "--drop-caches: several hosts would drop the caches at different times; omit --shard",
        ));
    }
    if search.is_some() && until.is_some() {
        return Err(Exit::input("--until: a search for the capacity does not support this flag; omit it"));
    }
    if arguments.options.dry_run {
        let text = arguments.options.preview(&experiment)?;
        return say(&fit(&format!("{text}{}", arguments.precision.power(&experiment)?)));
    }
    let (mut settings, components) = (arguments.options.settings()?, arguments.options.components()?);
    if search.is_some() {
        // They are the objectives of each step.
        settings.objectives.clear();
    }
    let summary = match (search, until) {
        (Some(search), _) if experiment.stores.len() > 1 => {
            return rank(&arguments.options, &experiment, &settings, &components, &search);
        }
        (Some(search), _) => find_capacity(&experiment, &settings, &components, search)?,
        (None, Some(until)) => execute_until(&experiment, &settings, &components, until)?,
        (None, None) if let Some(command) = &arguments.drop_caches => {
            execute_dropping(&experiment, &settings, &components, command)?
        }
        (None, None) => execute(&experiment, &settings, &components)?,
    };
    arguments.options.print(summary)
}
