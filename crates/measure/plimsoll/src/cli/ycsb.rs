//! `plimsoll ycsb load|run|clean`: runs YCSB's core workloads from YCSB property files.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};

use super::clean::tables;
use super::command_line;
use super::exit::Exit;
use super::money::MoneyArguments;
use super::out::{fit, is_quiet, say};
use super::progress::Terminal;
use super::report::conclude;
use super::timeout::TimeoutArgument;
use plimsoll_experiment::resolve;
use plimsoll_experiment::spec::DEFAULT_SEED;
use plimsoll_experiment::ycsb::properties::{Family, Properties};
use plimsoll_experiment::ycsb::{RecordEncoding, YcsbPhase, store_of, to_spec};
use plimsoll_judge::run_dir::json;
use plimsoll_report::{terminal, ycsb};
use plimsoll_s3::credentials::{CredentialSource, Credentials};
use plimsoll_session::clean_up::clean_space;
use plimsoll_session::open;
use plimsoll_session::{Components, SessionSettings, execute};

/// Arguments of `plimsoll ycsb`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Write the records and leave them in the store
    Load(Options),
    /// Run operations on the records
    Run(Options),
    /// Delete the records
    Clean(Options),
}

/// The YCSB implementation whose built-in workloads and key hashes are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Compat {
    /// The original YCSB, in Java
    Ycsb,
    /// go-ycsb, the rewrite in Go
    GoYcsb,
}

/// Format of the stored records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EncodingArgument {
    /// Plain bytes with the total length of all fields, so that an update keeps the object's size
    Bytes,
    /// A msgpack map of fields; an update of one field loses the other fields unless writeallfields=true
    GoYcsb,
}

/// Format of the printed results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The table of `plimsoll run`
    Plimsoll,
    /// Output of go-ycsb
    GoYcsb,
    /// Output of YCSB
    Ycsb,
}

#[derive(Debug, Args)]
struct Options {
    /// Name of a YCSB database binding; the name is accepted but ignored
    #[arg(value_name = "DB", hide = true)]
    db: Option<String>,
    /// Property file or built-in workload (workloada to workloadf); may be repeated
    #[arg(short = 'P', value_name = "FILE")]
    files: Vec<String>,
    /// Property that overrides the property files; may be repeated
    #[arg(short = 'p', value_name = "NAME=VALUE")]
    properties: Vec<String>,
    /// Store: a URL or a name from plimsoll.toml [default: the store in the properties s3.bucket and s3.endpoint]
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// Number of operations in flight; sets the YCSB property threadcount
    #[arg(long, value_name = "N")]
    threads: Option<u64>,
    /// Target rate of the open loop, in operations per second; sets the YCSB property target
    #[arg(long, value_name = "N")]
    target: Option<f64>,
    /// Prefix of the record keys; sets the YCSB property table
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// YCSB implementation whose built-in workloads and key hashes are used
    #[arg(long, value_enum, default_value = "ycsb")]
    compat: Compat,
    /// Format of the stored records
    #[arg(long, value_enum, default_value = "bytes")]
    encoding: EncodingArgument,
    /// Format of the printed results
    #[arg(long, value_enum, default_value = "plimsoll")]
    format: Format,
    /// Print result.json instead of the table
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Directory in which the run directory is created
    #[arg(long, value_name = "DIR", default_value = "plimsoll-runs")]
    out: PathBuf,
    /// Seed for all random values
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    seed: u64,
    /// Location of the client, recorded with the results
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    vantage: String,
    /// Create the bucket if it does not exist (it is not deleted afterwards)
    #[arg(long)]
    create_bucket: bool,
    /// PEM file of certificate authorities to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_bundle: Option<PathBuf>,
    #[command(flatten)]
    timeout: TimeoutArgument,
    #[command(flatten)]
    money: MoneyArguments,
}

impl Options {
    fn family(&self) -> Family {
        match self.compat {
            Compat::Ycsb => Family::Ycsb,
            Compat::GoYcsb => Family::GoYcsb,
        }
    }

    fn read(&self) -> Result<Properties, Exit> {
        if self.files.is_empty() && self.properties.is_empty() {
            return Err(Exit::input(
                "-P FILE is missing; specify a property file or one of workloada to workloadf",
            ));
        }
        let mut single = self.properties.clone();
        single.extend(self.threads.map(|n| format!("threadcount={n}")));
        single.extend(self.target.map(|n| format!("target={n}")));
        single.extend(self.table.as_ref().map(|name| format!("table={name}")));
        Properties::read(&self.files, &single, self.family()).map_err(Exit::input)
    }

    fn store(&self, properties: &Properties) -> Result<String, Exit> {
        let named = self.store.clone().or_else(|| store_of(properties, self.family()));
        named.ok_or_else(|| Exit::input("--store is missing; use it, or set s3.bucket and s3.endpoint"))
    }
}

/// Returns the credentials in the properties of the S3 binding; `None` if a key is missing.
fn credentials(properties: &Properties) -> Option<CredentialSource> {
    let access = properties.get("s3.access_key").or_else(|| properties.get("s3.accessKeyId"))?;
    let secret = properties.get("s3.secret_key").or_else(|| properties.get("s3.secretKey"))?;
    Some(CredentialSource::fixed(Credentials::new(access, secret, None)))
}

/// Writes the records, runs operations on them, or deletes them.
///
/// # Errors
/// As for `plimsoll run`.
pub fn ycsb_command(arguments: &Arguments) -> Result<(), Exit> {
    match &arguments.action {
        Action::Load(options) => execute_part(YcsbPhase::Load, options),
        Action::Run(options) => execute_part(YcsbPhase::Run, options),
        Action::Clean(options) => clean(options),
    }
}

fn experiment_of(
    part: YcsbPhase,
    options: &Options,
    properties: &Properties,
) -> Result<plimsoll_experiment::Experiment, Exit> {
    let encoding = match options.encoding {
        EncodingArgument::Bytes => RecordEncoding::Bytes,
        EncodingArgument::GoYcsb => RecordEncoding::GoYcsb,
    };
    let written = to_spec(part, properties, options.family(), encoding, options.seed).map_err(Exit::input)?;
    let mut experiment = resolve::resolve(written).map_err(|problem| Exit::input(problem.message))?;
    experiment.stores = vec![options.store(properties)?];
    Ok(experiment)
}

fn execute_part(part: YcsbPhase, options: &Options) -> Result<(), Exit> {
    options.timeout.apply()?;
    let properties = options.read()?;
    let mut experiment = experiment_of(part, options, &properties)?;
    experiment.set_timeout(options.timeout.given()).map_err(Exit::input)?;
    let settings = SessionSettings {
        out: options.out.clone(),
        vantage: options.vantage.clone(),
        create_bucket: options.create_bucket,
        ca_bundle: options.ca_bundle.clone(),
        cost: options.money.settings(),
        command: command_line(),
        ..SessionSettings::default()
    };
    let components = Components {
        observer: Arc::new(Terminal::new(options.json || is_quiet())),
        credentials: credentials(&properties),
        ..Components::default()
    };
    let (run, problem) = conclude(execute(&experiment, &settings, &components)?, true);
    let text = match (options.json, options.format) {
        (true, _) => json::to_string(&run.result),
        (false, Format::GoYcsb) => ycsb::go_ycsb(&run.result, properties.redacted()),
        (false, Format::Ycsb) => ycsb::ycsb(&run.result),
        (false, Format::Plimsoll) => fit(&terminal::render(&run.result, terminal::Detail::default())),
    };
    say(&text)?;
    if options.format == Format::Plimsoll && !options.json {
        say(&format!("results: {}\n", run.path.display()))?;
    }
    problem.map_or(Ok(()), Err)
}

/// Deletes all records of the table, or, if `insertstart` is set, only the records that this
/// `load` writes.
///
/// # Errors
/// Exit code 2 for invalid input, 3 if the store cannot be used.
fn clean(options: &Options) -> Result<(), Exit> {
    options.timeout.apply()?;
    let properties = options.read()?;
    let experiment = experiment_of(YcsbPhase::Load, options, &properties)?;
    let [store] = &experiment.stores[..] else {
        return Err(Exit::input("--store is missing; specify a store"));
    };
    let opened =
        open::open_as(store, &experiment.named, options.ca_bundle.as_deref(), credentials(&properties))?;
    for (space, loaded) in tables(&experiment, opened.store.prefix()) {
        // A host that loaded only a part of the table deletes only that part.
        let part = properties.get("insertstart").is_some();
        let owned = if part { loaded } else { loaded.whole_table() };
        let cleaned = clean_space(opened.store.as_ref(), &space, &owned)?;
        let cleaned = cleaned.map_err(|f| Exit::store(format!("{}: {f}", opened.written)))?;
        say(&format!("deleted {} records under {}\n", cleaned.deleted, space.root()))?;
        if cleaned.foreign > 0 {
            say(&format!("kept {} other objects under the same prefix\n", cleaned.foreign))?;
        }
    }
    Ok(())
}
