//! `plimsoll meter`: counts the requests of any S3 client and prices them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use jiff::civil::Date;
use tokio::sync::watch;

use super::cost::form::FormArguments;
use super::cost::from_log::share;
use super::cost::log_bills::price;
use super::cost::request::PriceArguments;
use super::exit::Exit;
use super::out::{note, progress, shell};
use super::serve::memory_limit;
use plimsoll_base::files::read_text;
use plimsoll_base::units::{counted, format_bytes, format_count, parse_count, parse_volume};
use plimsoll_bills::advise::log_usage::{MonthOfLog, at_list_prices};
use plimsoll_bills::advise::metered::{MeterBound, Metered};
use plimsoll_clients::meter::child::{Address, Signals, ended};
use plimsoll_clients::meter::counter::{Counter, MeteredCounts};
use plimsoll_clients::meter::endpoint::{Backend, Endpoint};
use plimsoll_clients::meter::upstream::Upstream;
use plimsoll_clients::meter::words::without_secrets;
use plimsoll_cost::book::Prices;
use plimsoll_cost::tariff::Tariff;
use plimsoll_cost::workload::object_size;
use plimsoll_experiment::logs::usage::LogUsage;
use plimsoll_report::decisions::metered::{MeterBills, document};
use plimsoll_s3::endpoint::is_bucket_name;
use plimsoll_server::request_log::RequestLog;
use plimsoll_server::route::ApiOperation;
use plimsoll_server::shutdown::watch_for_end;
use plimsoll_session::open;

/// Arguments of `plimsoll meter`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Command to run with its arguments, after `--`. Without a command, print the settings for clients, and count
    /// until Ctrl-C
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Name of the empty bucket that the command finds in memory
    #[arg(long, value_name = "NAME", default_value = "meter", conflicts_with = "upstream")]
    bucket: String,
    /// Pass the requests on to this bucket, s3://BUCKET or a name in plimsoll.toml, instead of answering from memory
    #[arg(long, value_name = "STORE")]
    upstream: Option<String>,
    /// Run this command in a shell first, and do not count its requests
    #[arg(long, value_name = "COMMAND")]
    prepare: Option<String>,
    /// Record the requests in this new file, which replay, fit and cost from-log read
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Number of such runs a month
    #[arg(long, value_name = "N", default_value = "1")]
    runs_per_month: String,
    /// Data stored, averaged over the month [default: what the command leaves in memory]
    #[arg(long, value_name = "DATA")]
    storage: Option<String>,
    /// Share of the data read that is sent to the internet: 30% [default: all at providers without compute, none at
    /// others]
    #[arg(long, value_name = "SHARE")]
    egress: Option<String>,
    /// Mean size of an object [default: the mean size of the objects left, or of the requests]
    #[arg(long, value_name = "SIZE")]
    object_size: Option<String>,
    /// Provider: a name from `plimsoll list prices`; use NAME@REGION to select one of several regions; may be
    /// repeated [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    provider: Vec<String>,
    /// Number of parts of a key, separated by slashes, by which requests are added up
    #[arg(long, value_name = "N", default_value_t = 1)]
    prefix_depth: usize,
    /// Assume that the free allowances of the month are used up
    #[arg(long)]
    without_allowances: bool,
    /// JSON of an earlier run (--json --output FILE), for --fail-if
    #[arg(long, value_name = "FILE", requires = "fail_if")]
    baseline: Option<PathBuf>,
    /// Exit with code 1 if a figure has changed by more than this since the baseline: 'requests > +10%',
    /// 'requests.GetObject > +0%', 'read < -5%', 'cost.aws-s3 > +5%'; may be repeated
    #[arg(long, value_name = "CHANGE", requires = "baseline")]
    fail_if: Vec<String>,
    /// Address and port of the endpoint; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: String,
    /// Maximum memory for objects, or for bodies that are being passed on; writes above this limit fail with 503
    /// SlowDown [default: half of the memory of the machine or control group]
    #[arg(long, value_name = "SIZE")]
    memory_limit: Option<String>,
    #[command(flatten)]
    prices: PriceArguments,
    #[command(flatten)]
    form: FormArguments,
}

/// Values of the arguments, checked before the command starts.
struct Checked {
    runs: u64,
    stored: Option<u64>,
    egress: Option<f64>,
    object_bytes: Option<u64>,
    bounds: Vec<MeterBound>,
    baseline: Option<Metered>,
}

impl Checked {
    /// Checks that the bounds name operations and providers that exist.
    fn check_names(&self, tariffs: &[Tariff]) -> Result<(), Exit> {
        for bound in &self.bounds {
            if let Some(name) = bound.operation()
                && ApiOperation::ALL.iter().all(|operation| operation.name() != name)
            {
                return Err(Exit::input(format!(
                    "--fail-if: '{name}' is no operation of the S3 API; use one such as GetObject or ListObjectsV2"
                )));
            }
            if let Some(name) = bound.provider() {
                let priced = tariffs.iter().any(|tariff| tariff.offer == name);
                let before = self.baseline.as_ref().is_none_or(|run| run.one_run_usd.contains_key(name));
                if !priced || !before {
                    let who = if priced { "the baseline" } else { "this run" };
                    return Err(Exit::input(format!("--fail-if: {who} has no cost at '{name}'")));
                }
            }
        }
        Ok(())
    }
}

/// Reads the JSON of an earlier run.
fn baseline(path: &Path) -> Result<Metered, Exit> {
    /// Maximum size of the JSON, in bytes.
    const MAX_BYTES: u64 = 64 << 20;
    let wrong = |e: &dyn std::fmt::Display| Exit::input(format!("--baseline {}: {e}", path.display()));
    let text = read_text(path, MAX_BYTES).map_err(|e| wrong(&e))?;
    let read: Option<Metered> = serde_json::from_str(&text).ok();
    let read = read.filter(|run| run.one_run_usd.values().all(|usd| usd.pico() >= 0));
    read.ok_or_else(|| {
        wrong(&"this is not the JSON of a metered command; write it with plimsoll meter --json --output FILE")
    })
}

impl Arguments {
    fn check(&self) -> Result<Checked, Exit> {
        let wrong = |flag: &str, e: &dyn std::fmt::Display| Exit::input(format!("{flag}: {e}"));
        if self.upstream.is_none() && !is_bucket_name(&self.bucket) {
            return Err(wrong("--bucket", &format!("'{}' is not the name of a bucket", self.bucket)));
        }
        let runs = parse_count(&self.runs_per_month).map_err(|e| wrong("--runs-per-month", &e))?;
        if runs == 0 {
            return Err(wrong("--runs-per-month", &"a month needs at least one run"));
        }
        let bounds = self.fail_if.iter().map(|text| MeterBound::parse(text));
        let size = self.object_size.as_deref().map(|text| object_size("object_size", text)).transpose();
        let stored = self.storage.as_deref().map(parse_volume).transpose();
        Ok(Checked {
            runs,
            stored: stored.map_err(|e| wrong("--storage", &e))?,
            egress: self.egress.as_deref().map(share).transpose()?,
            object_bytes: size.map_err(|e| wrong("--object-size", &e.message))?,
            bounds: bounds.collect::<Result<_, _>>().map_err(|e| wrong("--fail-if", &e))?,
            baseline: self.baseline.as_deref().map(baseline).transpose()?,
        })
    }

    fn backend(&self) -> Result<Backend, Exit> {
        let limit = memory_limit(self.memory_limit.as_deref())?;
        match &self.upstream {
            Some(store) => {
                let to = Arc::new(Upstream::of(&open::open(store, None)?)?);
                Ok(Backend::Upstream { to, limit })
            }
            None => Ok(Backend::Memory { bucket: self.bucket.clone(), limit }),
        }
    }
}

/// Runs the command of `--prepare`.
fn prepare(address: &Address, command: &str, signals: &Signals) -> Result<(), Exit> {
    let shell = ["sh", "-c", command].map(String::from);
    let started = address.start(&shell).and_then(|mut child| signals.wait_for(&mut child));
    let status = started.map_err(|e| Exit::input(format!("--prepare: {e}")))?;
    match status.success() {
        true => Ok(()),
        false => Err(failed("--prepare: the command", &ended(status).1, Exit::input)),
    }
}

/// Prints how clients reach the endpoint, and waits for a signal.
fn wait_for_clients(address: &Address) -> Result<(), Exit> {
    // Before the lines that tell others that they may send a signal.
    let (stop, mut stopped) = watch::channel(false);
    watch_for_end(stop, false);
    note(format!(
        "endpoint {} with the bucket {}; settings for clients in another shell (Ctrl-C prints the report):",
        address.url(),
        address.bucket
    ));
    shell(&address.exports());
    let ended =
        plimsoll_session::runtime::block_on(async { stopped.wait_for(|stop| *stop).await.map(|_| ()) })?;
    ended.map_err(Exit::defect)
}

/// Runs the command, or waits for clients, and returns the exit status in words if the command failed.
fn run_command(
    arguments: &Arguments,
    address: &Address,
    metered: &mut Metered,
    signals: Option<&Signals>,
) -> Result<Option<String>, Exit> {
    if arguments.command.is_empty() {
        wait_for_clients(address)?;
        return Ok(None);
    }
    metered.command = without_secrets(&arguments.command);
    progress(format!(
        "endpoint {} with the bucket {}: in AWS_ENDPOINT_URL_S3, as rclone's remote meter: and in RESTIC_REPOSITORY",
        address.url(),
        address.bucket
    ));
    let mut child = address.start(&arguments.command).map_err(|e| {
        Exit::input(format!(
            "'{}' cannot be started: {e}",
            metered.command.first().map_or("", String::as_str)
        ))
    })?;
    let ended_as = match signals {
        Some(signals) => signals.wait_for(&mut child),
        None => child.wait(),
    };
    let status = ended_as.map_err(Exit::defect)?;
    let (code, words) = ended(status);
    metered.exit_status = code;
    Ok((!status.success()).then_some(words))
}

/// Returns what the bills rest on.
fn assumptions(
    month: &MonthOfLog<'_>,
    metered: &Metered,
    checked: &Checked,
    counts: &MeteredCounts,
) -> Vec<String> {
    let mut assumed = Vec::new();
    if checked.stored.is_none()
        && let Some((objects, bytes)) = metered.left.filter(|(objects, _)| *objects > 0)
    {
        assumed.push(format!(
            "{} in {} objects are stored for the month, what one run leaves (--storage)",
            format_bytes(bytes),
            format_count(objects)
        ));
    }
    if checked.object_bytes.is_none() && month.mean_object() > 0 {
        assumed.push(format!(
            "objects are {}, the mean of this run (--object-size)",
            format_bytes(month.mean_object())
        ));
    }
    let unknown: Vec<String> =
        counts.usage.unknown.iter().map(|(name, count)| format!("{} {name}", format_count(*count))).collect();
    if !unknown.is_empty() {
        assumed.push(format!("requests without a price in the books are left out: {}", unknown.join(", ")));
    }
    if counts.usage.all.unknown_bytes > 0 {
        let count = format_count(counts.usage.all.unknown_bytes);
        assumed.push(format!(
            "the bytes of {count} copies are unknown, because the store made them; they count as 0"
        ));
    }
    assumed
}

/// Returns warnings about the counts; `upstream` and `record` are the first failures of the store and of the record.
fn warnings(
    metered: &Metered,
    month: &MonthOfLog<'_>,
    upstream: Option<String>,
    record: Option<String>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(problem) = record {
        warnings.push(format!("the record of the requests (--record) is incomplete: {problem}"));
    }
    if metered.refused > 0 {
        warnings.push(format!(
            "not in the counts: {} refused because of another key, or because the endpoint does not know the operation",
            counted(metered.refused, "request")
        ));
    }
    if let Some(problem) = upstream {
        warnings.push(format!("at least one request had no response from the store: {problem}"));
    }
    if month.stored == 0 {
        warnings.push("the bills contain no storage, except minimum charges (--storage)".into());
    }
    warnings
}

/// A command that was run, and what it sent.
struct Run {
    counts: MeteredCounts,
    metered: Metered,
    /// Exit status in words, if the command failed.
    failed: Option<String>,
    /// First failure to record a request, in words.
    record_failure: Option<String>,
}

/// Starts an endpoint, runs the command, and counts its requests.
fn run_metered(arguments: &Arguments, backend: Backend, log: Option<RequestLog>) -> Result<Run, Exit> {
    let counter = Arc::new(Counter::new(arguments.prefix_depth, log));
    let endpoint = Endpoint::start(&arguments.listen, backend, Arc::clone(&counter))
        .map_err(|e| Exit::store(format!("--listen {}: {e}", arguments.listen)))?;
    let address = endpoint.address.clone();
    let signals = match arguments.command.is_empty() && arguments.prepare.is_none() {
        true => None,
        false => Some(Signals::listen().map_err(Exit::defect)?),
    };
    if let (Some(command), Some(signals)) = (&arguments.prepare, &signals) {
        prepare(&address, command, signals)?;
    }
    counter.open();
    let mut metered = Metered::default();
    let failed = run_command(arguments, &address, &mut metered, signals.as_ref())?;
    let counts = counter.counts();
    metered.left = endpoint.stored();
    endpoint.stop().map_err(|e| Exit::store(format!("the endpoint failed: {e}")))?;
    if counts.operations.is_empty() {
        let refused = match counts.refused {
            0 => "no request arrived".to_string(),
            refused => format!("{} requests arrived and all were refused", format_count(refused)),
        };
        let hint = match arguments.command.is_empty() {
            true => "",
            false => "; does the command use the endpoint and the key in its environment?",
        };
        let failed = failed.map(|words| format!("; the command ended with {words}")).unwrap_or_default();
        return Err(Exit::input(format!("{refused} at {}{hint}{failed}", address.url())));
    }
    metered.operations.clone_from(&counts.operations);
    metered.refused = counts.refused;
    let all = &counts.usage.all;
    (metered.written, metered.read, metered.copied) = (all.uploaded, all.downloaded, all.copied);
    Ok(Run { counts, metered, failed, record_failure: counter.record_failure() })
}

/// Creates the file of `--record`; `None` without the flag.
fn record(arguments: &Arguments) -> Result<Option<RequestLog>, Exit> {
    let Some(path) = &arguments.record else { return Ok(None) };
    let cannot = |e| Exit::input(format!("--record {}: {e}", path.display()));
    RequestLog::create(path).map(Some).map_err(cannot)
}

/// Removes a record without a request, so that the command can be repeated with its name.
fn discard_empty(record: &Path) {
    if std::fs::metadata(record).is_ok_and(|facts| facts.len() == 0) {
        // Nothing is lost if the empty file stays.
        let _ = std::fs::remove_file(record);
    }
}

/// Finds mistakes in the names of providers and operations, and in the output, before the command runs.
fn check_ahead(arguments: &Arguments, checked: &Checked, prices: &Prices, date: Date) -> Result<(), Exit> {
    let nothing = LogUsage::default();
    let empty = MonthOfLog {
        log: &nothing,
        factor: 1.0,
        stored: 0,
        object_bytes: None,
        egress: None,
        without_allowances: false,
    };
    let known = price(&empty, Vec::new(), &arguments.provider, &arguments.prices, prices.clone(), date)?;
    checked.check_names(&known.tariffs)?;
    arguments.form.check()
}

/// Counts the requests of a command, and prints them with their cost.
///
/// # Errors
/// Exit code 1 if the command failed or a bound is exceeded, 2 for invalid input and if no request arrived, 3 if the
/// endpoint or the store cannot be used, 130 if Ctrl-C ended the command.
pub fn meter(arguments: &Arguments) -> Result<(), Exit> {
    let checked = arguments.check()?;
    let prices = arguments.prices.read()?;
    let date = arguments.prices.date(&prices)?;
    check_ahead(arguments, &checked, &prices, date)?;
    let backend = arguments.backend()?;
    let upstream = match &backend {
        Backend::Upstream { to, .. } => Some(Arc::clone(to)),
        Backend::Memory { .. } => None,
    };
    let run = run_metered(arguments, backend, record(arguments)?);
    if let (Err(_), Some(path)) = (&run, &arguments.record) {
        discard_empty(path);
    }
    let Run { counts, mut metered, failed, record_failure } = run?;
    let all = &counts.usage.all;
    let mean = metered.left.and_then(|(objects, bytes)| bytes.checked_div(objects));
    let month = MonthOfLog {
        log: &counts.usage,
        factor: checked.runs as f64,
        stored: checked.stored.or(metered.left.map(|(_, bytes)| bytes)).unwrap_or(0),
        object_bytes: checked.object_bytes.or(mean),
        egress: checked.egress,
        without_allowances: arguments.without_allowances,
    };
    let assumed = assumptions(&month, &metered, &checked, &counts);
    let priced = price(&month, assumed, &arguments.provider, &arguments.prices, prices, date)?;
    let one = MonthOfLog { factor: 1.0, ..month.clone() };
    let cost = |tariff: &Tariff| at_list_prices(one.usage(all, tariff, 0), tariff);
    metered.one_run_usd =
        priced.tariffs.iter().filter_map(|tariff| Some((tariff.offer.clone(), cost(tariff)?))).collect();
    let judged = checked.baseline.iter().flat_map(|baseline| {
        checked.bounds.iter().map(|bound| bound.judge(baseline, &metered)).collect::<Vec<_>>()
    });
    let checks = judged.collect::<Result<_, _>>().map_err(|e| Exit::input(format!("--fail-if {e}")))?;
    let mut warned = warnings(&metered, &month, upstream.and_then(|to| to.failure()), record_failure);
    warned.extend(priced.warnings);
    let found = MeterBills {
        metered,
        runs_per_month: checked.runs,
        checks,
        warnings: warned.clone(),
        bills: priced.found,
    };
    let document = document(&found, all, &counts.kinds, &priced.shown).warned(warned);
    arguments.form.print(&document.resting_on(priced.premise), &found)?;
    verdict(&found, failed)
}

/// Returns the error for a command that failed: 130 if Ctrl-C ended it, or `otherwise`.
fn failed(what: &str, words: &str, otherwise: fn(String) -> Exit) -> Exit {
    let message = format!("{what} ended with {words}");
    // Signal 2 is Ctrl-C; shells report it as status 130.
    match words {
        "signal 2" | "exit status 130" => Exit::interrupted(message),
        _ => otherwise(message),
    }
}

/// Returns the error for a command that failed, or for bounds that are exceeded.
fn verdict(found: &MeterBills, failed: Option<String>) -> Result<(), Exit> {
    found.checks.iter().for_each(|check| {
        let word = if check.exceeded { "FAIL" } else { "pass" };
        note(format!("{word}  --fail-if '{}': {}", check.fail_if, check.change));
    });
    if let Some(words) = failed {
        return Err(self::failed("the command", &words, Exit::check));
    }
    match found.checks.iter().filter(|check| check.exceeded).count() {
        0 => Ok(()),
        exceeded => Err(Exit::check(format!("{exceeded} of {} bounds exceeded", found.checks.len()))),
    }
}
