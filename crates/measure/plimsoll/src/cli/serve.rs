//! `plimsoll serve`: runs the embedded server in the foreground.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use super::exit::Exit;
use super::out::{progress, say};
use super::runs::find;
use plimsoll_base::clock::SECOND;
use plimsoll_base::machine::usable_memory_bytes;
use plimsoll_base::metrics::listen;
use plimsoll_base::net::tls::server_config;
use plimsoll_base::units::{parse_duration, parse_size};
use plimsoll_calibration::twin::{of_references, overhead, profile};
use plimsoll_emulator::inject::Spec;
use plimsoll_emulator::memory::serve::serve as serve_memory;
use plimsoll_emulator::twin::Twin;
use plimsoll_s3::credentials::Credentials;
use plimsoll_server::accounts::Accounts;
use plimsoll_server::connections::Timeouts;
use plimsoll_server::credentials;
use plimsoll_server::metrics::ServerMetrics;
use plimsoll_server::observer::RequestObserver;
use plimsoll_server::shutdown::{listen_on, watch_for_end};
use plimsoll_server::timing_log::TimingLog;
use plimsoll_server::{Parts, ServerSettings, ServerState};

/// Arguments of `plimsoll serve`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Address and port to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9000")]
    listen: String,
    /// Access key [default: AWS_ACCESS_KEY_ID]
    #[arg(long, value_name = "KEY", env = "PLIMSOLL_ACCESS_KEY", hide_env_values = true)]
    access_key: Option<String>,
    /// Secret key; prefer the environment variable, because process lists show arguments [default:
    /// AWS_SECRET_ACCESS_KEY]
    #[arg(long, value_name = "KEY", env = "PLIMSOLL_SECRET_KEY", hide_env_values = true)]
    secret_key: Option<String>,
    /// TOML file with several access keys and their rights, readable by its owner only; replaces --access-key
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,
    /// PEM file with the certificate chain; enables TLS together with --tls-key
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the certificate's private key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Region that the server reports; it accepts signatures for any region
    #[arg(long, default_value = "us-east-1")]
    region: String,
    /// Number of threads that serve connections [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Maximum number of connections; at the limit, a new connection replaces the one idle for the longest time
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    max_connections: usize,
    /// Close a connection that has been idle for this long
    #[arg(long, value_name = "TIME", default_value = "60s")]
    idle_timeout: String,
    /// Close a connection if a request head is still incomplete this long after its first byte
    #[arg(long, value_name = "TIME", default_value = "15s")]
    head_timeout: String,
    /// Close a connection that sends no byte of a request body, or reads no byte of a response, for this long
    #[arg(long, value_name = "TIME", default_value = "30s")]
    body_timeout: String,
    /// Maximum memory for objects, uploads and request bodies; writes above this limit fail with 503 SlowDown
    /// [default: half of the memory of the machine or control group]
    #[arg(long, value_name = "SIZE")]
    memory_limit: Option<String>,
    /// Faults to inject, separated by commas: latency=5ms, latency=lognormal(5ms;0.8), stall=1s/10s,
    /// slow=100ms@20s+10s, drift=2x/60s, capacity=200/s, rate=200/s, connections=100 (further ones are reset),
    /// error=0.01, reset=0.01, truncate=0.01, corrupt=0.01, stale=50ms (reads and listings return old states),
    /// stale-list=50ms (only listings), lost-conditional=0.01 (conditional writes that are acknowledged but not
    /// stored), torn-overwrite=0.1 (reads during overwrites return parts of both contents), wrong-range=0.01 (ranges
    /// begin one byte late), lowercase-headers=1 (ETag in lower case), cache=64MiB/5ms (reads that miss this cache take
    /// 5 ms longer), seed=1
    #[arg(long, value_name = "FAULTS")]
    inject: Option<String>,
    /// Answer as late, and fail as often, as the store that this run measured: a directory, an id or `latest`; may be
    /// repeated, for runs at other loads. Or as a store with published times, s3-standard or s3-express; or as
    /// inconsistently as in the output of `plimsoll run consistency --json`, a file *.json
    #[arg(long, value_name = "RUN|PROFILE|FINDINGS")]
    like: Vec<PathBuf>,
    /// With --like: the store to imitate, if the runs measured several
    #[arg(long, value_name = "STORE", requires = "like")]
    like_store: Option<String>,
    /// Write the arrival and completion times of each request to this file, as CSV
    #[arg(long, value_name = "FILE")]
    timings: Option<PathBuf>,
    /// Serve Prometheus metrics on this address at /metrics; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<String>,
    /// Lifetime of a session of a directory bucket (base--zone--x-s3)
    #[arg(long, value_name = "TIME", default_value = "5m")]
    session_life: String,
    /// Length of a day of lifecycle rules, for tests of expiration
    #[arg(long, value_name = "TIME", default_value = "24h")]
    lifecycle_day: String,
    /// Exit when standard input closes, for use as a child process
    #[arg(long)]
    until_stdin_closes: bool,
}

fn key(given: Option<&String>, variable: &str, flag: &str) -> Result<String, Exit> {
    let found = given.cloned().or_else(|| std::env::var(variable).ok()).filter(|k| !k.is_empty());
    let name = flag.trim_start_matches('-').replace('-', " ");
    // The flag ends the message: the redaction of secrets removes the word after it.
    found.ok_or_else(|| Exit::input(format!("no {name}: set {variable}, or use {flag}")))
}

fn timeouts(arguments: &Arguments) -> Result<Timeouts, Exit> {
    let read = |flag: &str, text: &str| {
        let time = parse_duration(text).map_err(|e| Exit::input(format!("{flag}: {e}")))?;
        Some(time)
            .filter(|time| *time >= SECOND)
            .ok_or_else(|| Exit::input(format!("{flag} {text}: the timeout is too short; use at least 1s")))
    };
    Ok(Timeouts {
        idle_ns: read("--idle-timeout", &arguments.idle_timeout)?,
        head_ns: read("--head-timeout", &arguments.head_timeout)?,
        body_ns: read("--body-timeout", &arguments.body_timeout)?,
    })
}

/// Returns the memory limit in bytes: the given one, or half of the memory that the process may use.
///
/// # Errors
/// Exit code 2 if the size is invalid.
pub fn memory_limit(given: Option<&str>) -> Result<u64, Exit> {
    match given {
        Some(text) => parse_size(text).map_err(|e| Exit::input(format!("--memory-limit: {e}"))),
        None => Ok(usable_memory_bytes().map_or(u64::MAX, |bytes| bytes / 2)),
    }
}

/// Serves until SIGINT or SIGTERM, or, with `--until-stdin-closes`, until standard input closes.
///
/// # Errors
/// Exit code 2 for invalid settings, 3 if the address cannot be used.
pub fn serve(arguments: &Arguments) -> Result<(), Exit> {
    let accounts = accounts(arguments)?;
    let tls = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => Some(server_config(certificate, key).map_err(Exit::input)?),
        _ => None,
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let spec = arguments.inject.as_deref().map(Spec::parse).transpose().map_err(Exit::input)?;
    let (twin, spec) = twin(arguments, spec)?;
    let timing_log = arguments.timings.as_ref().map(|path| {
        TimingLog::create(path).map_err(|e| Exit::input(format!("--timings {}: {e}", path.display())))
    });
    let life =
        parse_duration(&arguments.session_life).map_err(|e| Exit::input(format!("--session-life: {e}")))?;
    if !(SECOND..=300 * SECOND).contains(&life) {
        return Err(Exit::input("--session-life must be between 1s and 5m"));
    }
    let day =
        parse_duration(&arguments.lifecycle_day).map_err(|e| Exit::input(format!("--lifecycle-day: {e}")))?;
    if day < SECOND {
        return Err(Exit::input("--lifecycle-day must be at least 1s"));
    }
    let day = Duration::from_nanos(day);
    let mut settings = ServerSettings {
        session_life_s: (life / SECOND) as u32,
        region: arguments.region.clone(),
        max_connections: arguments.max_connections,
        timeouts: timeouts(arguments)?,
        memory_limit: memory_limit(arguments.memory_limit.as_deref())?,
        ..ServerSettings::default()
    };
    settings.threads = arguments.threads.unwrap_or(settings.threads);
    let listener = listen_on(&arguments.listen).map_err(|e| {
        Exit::store(format!("--listen {}: {e}; choose another address or port", arguments.listen))
    })?;
    let address = listener.local_addr().map_err(Exit::store)?;
    let (stop, shutdown) = watch::channel(false);
    // Before the line that tells others that they may send a signal.
    watch_for_end(stop, arguments.until_stdin_closes);
    say(&format!("listening on {scheme}://{address}\n"))?;
    let metrics = arguments.metrics_listen.as_deref().map(metrics).transpose()?;
    let parts = Parts {
        settings,
        accounts,
        tls,
        timing_log: timing_log.transpose()?,
        observers: metrics.into_iter().map(|metrics| Arc::new(metrics) as Arc<dyn RequestObserver>).collect(),
    };
    let shared = ServerState::new(parts);
    serve_memory(listener, &shared, spec, twin, day, &shutdown)
        .map_err(|e| Exit::store(format!("the server failed: {e}")))
}

/// Returns the accounts of the server.
///
/// # Errors
/// Exit code 2 if no key is given, or the file of --credentials cannot be used.
fn accounts(arguments: &Arguments) -> Result<Accounts, Exit> {
    if let Some(file) = &arguments.credentials {
        return credentials::load(file).map_err(Exit::input);
    }
    let access = key(arguments.access_key.as_ref(), "AWS_ACCESS_KEY_ID", "--access-key")?;
    let secret = key(arguments.secret_key.as_ref(), "AWS_SECRET_ACCESS_KEY", "--secret-key")?;
    let credentials = Credentials::new(&access, &secret, None);
    credentials.hide();
    Ok(Accounts::single(credentials))
}

/// Returns the twin that `--like` describes, and the faults to inject: those of `--inject`, and of the twin.
///
/// # Errors
/// Exit code 2 if no twin can be made, 3 if the own overhead cannot be measured.
fn twin(arguments: &Arguments, spec: Option<Spec>) -> Result<(Option<Twin>, Option<Spec>), Exit> {
    let runs = |references: &[PathBuf]| {
        find(references).map_err(|error| {
            let names = profile::names().join(" and ");
            Exit { message: format!("--like {}; profiles are {names}", error.message), ..error }
        })
    };
    let mut made = None;
    let mut faults = spec.clone().unwrap_or_default();
    for likeness in of_references(&arguments.like, arguments.like_store.as_deref(), runs)? {
        let clash = spec.as_ref().and_then(|spec| spec.clash(&likeness.faults, likeness.model.is_some()));
        if let Some(name) = clash {
            let store = likeness.store;
            return Err(Exit::input(format!("--inject {name}: {store} has its own; remove it, or --like")));
        }
        progress(format_args!("a twin of {}", likeness.store));
        likeness.lines.iter().for_each(|line| progress(format_args!("  {line}")));
        faults = faults.with(likeness.faults);
        if let Some(model) = likeness.model {
            let own = overhead::measure()?;
            let [short, long] = [0.0, 1e9].map(|ns| own.in_time(ns) / 1e6);
            let (least, most) = (short.min(long), short.max(long));
            progress(format_args!("  {least:.3} to {most:.3} ms of this host are subtracted from all times"));
            made = Some(Twin::new(model, own, faults.seed));
        }
    }
    let is_faulty = spec.is_some() || faults != Spec::default();
    Ok((made, is_faulty.then_some(faults)))
}

/// Starts a Prometheus endpoint on `address`, and returns the counters that it serves.
///
/// # Errors
/// Exit code 2 if the address cannot be used.
fn metrics(address: &str) -> Result<ServerMetrics, Exit> {
    let mut registry = Registry::default();
    let metrics = ServerMetrics::new(&mut registry);
    let bound = listen(address, Arc::new(registry), None);
    let bound = bound.map_err(|e| {
        Exit::input(format!("--metrics-listen {address}: {e}; choose another address or port"))
    })?;
    say(&format!("metrics on http://{bound}/metrics\n"))?;
    Ok(metrics)
}
