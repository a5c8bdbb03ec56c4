//! `plimsoll-gateway run`: serves a data directory.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use plimsoll_base::clock::SECOND;
use plimsoll_base::machine::usable_memory_bytes;
use plimsoll_base::net::tls::server_config;
use plimsoll_base::units::{parse_duration, parse_size};
use plimsoll_s3::credentials::Credentials;
use plimsoll_server::accounts::Accounts;
use plimsoll_server::observer::RequestObserver;
use plimsoll_server::shutdown::{listen_on, on_hangup, watch_for_end};
use plimsoll_server::{Parts, ServerSettings, Shared};
use tokio::sync::watch;

use super::Exit;
use super::admin::server::Server;
use super::command::Target;
use super::console;
use super::journaled::{BackupPlace, end_with_lease};
use super::opened::Opened;
use super::out::say;
use super::ownership::{self, Older};
use super::place::StoreArguments;
use crate::background::{self, Background};
use crate::backup::service::{BackupSettings, BackupThreads};
use crate::catalog::Catalog;
use crate::catalog::any::AnyCatalog;
use crate::catalog::committer::Durability;
use crate::catalog::embedded::catalog::CatalogSettings;
use crate::catalog::embedded::recovery::Recovery;
use crate::config::BackupRule;
use crate::credentials;
use crate::log::note;
use crate::metrics::{self, RequestMetrics};
use crate::mover::condition::parse_time_ms;
use crate::mover::rules::Rules;
use crate::object::Store;
use crate::object::reads::Reads;
use crate::request_log::{Proxies, RequestLog};
use crate::scrub::ScrubRule;
use crate::tier::check;

/// Arguments of `plimsoll-gateway run`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    place: StoreArguments,
    /// Address and port to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9000")]
    listen: String,
    /// TOML file with several access keys and their rights, readable by its owner only, or by root and its group;
    /// replaces --access-key; reloaded on SIGHUP
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,
    /// Access key of the only account. AWS_ACCESS_KEY_ID has no effect on it: that is the key of tiers
    #[arg(long, value_name = "KEY", env = "PLIMSOLL_ACCESS_KEY", hide_env_values = true)]
    access_key: Option<String>,
    /// Secret key; prefer the environment variable, because process lists show arguments
    #[arg(long, value_name = "KEY", env = "PLIMSOLL_SECRET_KEY", hide_env_values = true)]
    secret_key: Option<String>,
    /// PEM file with the certificate chain; enables TLS together with --tls-key; reloaded on SIGHUP
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the certificate's private key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Time at which acknowledged writes are durable: sync (before the acknowledgement) or interval=TIME (at most this
    /// long after it)
    #[arg(long, value_name = "MODE", default_value = "sync")]
    durability: String,
    /// Free space below which writes fail with status 507; reads and deletes continue
    #[arg(long, value_name = "SIZE", default_value = "128 MiB")]
    reserve: String,
    /// Maximum rate of compaction per second
    #[arg(long, value_name = "SIZE", default_value = "64 MiB")]
    compaction_rate: String,
    /// Region that the server reports; it accepts signatures for any region
    #[arg(long, default_value = "us-east-1")]
    region: String,
    /// Number of threads that serve connections [default: one per core; four with a catalog in PostgreSQL]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Serve Prometheus metrics on this address at /metrics, and /healthz and /readyz; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<String>,
    /// Serve the console on this address, a page for browsers; port 0 selects a free port. Everybody who reaches the
    /// address can read it, and administrators can change objects; it has TLS if --tls-cert is given
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<String>,
    /// Append one JSON object per request to this file; SIGHUP opens it again
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Networks of proxies, such as 10.0.0.0/8,::1, whose X-Forwarded-For names the client in the access log
    #[arg(long, value_name = "NETWORKS", requires = "access_log")]
    trusted_proxies: Option<String>,
    /// Exit when standard input closes, for use as a child process
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
    /// Length of a day of lifecycle rules, for tests
    #[arg(long, value_name = "TIME", default_value = "24h", hide = true)]
    lifecycle_day: String,
    /// Time for which deleted and replaced objects are kept, so that `undelete` can bring them back; with FILE, the
    /// setting retain.deleted [default: 7d]
    #[arg(long, value_name = "TIME")]
    retain: Option<String>,
    /// Serve, but move nothing and delete nothing from the tiers
    #[arg(long)]
    no_deletes: bool,
    /// Serve a catalog that is older than its tiers, make no backup, and move and delete nothing until `reconcile` has
    /// run
    #[arg(long)]
    restored: bool,
    /// Accept the time of this machine although the catalog was last used long ago, or in the future
    #[arg(long)]
    accept_clock: bool,
    /// Time between two searches for blobs to move
    #[arg(long, value_name = "TIME", default_value = "60s")]
    move_every: String,
}

fn size(flag: &str, text: &str) -> Result<u64, Exit> {
    parse_size(text).map_err(|e| Exit::input(format!("{flag}: {e}")))
}

fn durability(text: &str) -> Result<Durability, Exit> {
    let wrong =
        || Exit::input(format!("--durability {text}: use sync or interval=TIME, such as interval=50ms"));
    match text.split_once('=') {
        None if text == "sync" => Ok(Durability::Sync),
        Some(("interval", time)) => {
            let ns = parse_duration(time).map_err(|e| Exit::input(format!("--durability: {e}")))?;
            let allowed = (1..=60 * SECOND).contains(&ns);
            if allowed { Ok(Durability::Interval(Duration::from_nanos(ns))) } else { Err(wrong()) }
        }
        _ => Err(wrong()),
    }
}

fn key(given: Option<&String>, variable: &str, flag: &str) -> Result<String, Exit> {
    let name = flag.trim_start_matches('-').replace('-', " ");
    // The flag ends the message: the redaction of secrets removes the word after it.
    given.cloned().filter(|key| !key.is_empty()).ok_or_else(|| {
        Exit::input(format!("no {name}: use --credentials FILE, set {variable}, or use {flag}"))
    })
}

fn accounts(arguments: &Arguments) -> Result<Accounts, Exit> {
    if let Some(path) = &arguments.credentials {
        return credentials::load(path).map_err(Exit::input);
    }
    let access = key(arguments.access_key.as_ref(), "PLIMSOLL_ACCESS_KEY", "--access-key")?;
    let secret = key(arguments.secret_key.as_ref(), "PLIMSOLL_SECRET_KEY", "--secret-key")?;
    let credentials = Credentials::new(&access, &secret, None);
    credentials.hide();
    Ok(Accounts::single(credentials))
}

/// Reports what the start found.
fn report(recovery: &Recovery) {
    if let Some(reason) = &recovery.rebuilt {
        note(&format!("the index was built again from the log: {reason}"));
    }
    for repaired in &recovery.repaired {
        note(&format!("repaired: {repaired}"));
    }
    if recovery.dropped_bytes > 0 {
        let bytes = recovery.dropped_bytes;
        note(&format!("dropped {bytes} bytes at the end of the log that were never acknowledged"));
    }
    for damage in &recovery.damage {
        note(&format!("damaged: {} at offset {}: {}", damage.file, damage.offset, damage.problem));
    }
    if !recovery.damage.is_empty() {
        note("affected objects answer with status 500; run `plimsoll-gateway scrub` to list them");
    }
}

/// Reloads certificates and accounts at SIGHUP, and calls `reload_others`.
fn reload_on_hangup(arguments: &Arguments, shared: &Arc<Shared>, reload_others: impl Fn() + Send + 'static) {
    let (certificate, key) = (arguments.tls_cert.clone(), arguments.tls_key.clone());
    let (credentials, shared) = (arguments.credentials.clone(), Arc::clone(shared));
    on_hangup(move || {
        reload_others();
        if let (Some(certificate), Some(key)) = (&certificate, &key) {
            match server_config(certificate, key) {
                Ok(config) => shared.set_tls(config),
                Err(error) => note(&format!("the certificate was not reloaded: {error}")),
            }
        }
        if let Some(path) = &credentials {
            match credentials::load(path) {
                Ok(accounts) => shared.set_accounts(accounts),
                Err(error) => note(&format!("the accounts were not reloaded: {error}")),
            }
        }
        note("SIGHUP: the reload of accounts, certificate, keys of tiers and access log has ended");
    });
}

/// Returns the settings of the catalog.
fn catalog_settings(arguments: &Arguments) -> Result<CatalogSettings, Exit> {
    let has_journal = arguments.place.config()?.backup.is_some_and(|rule| rule.lease_ms.is_some());
    if has_journal && arguments.durability != "sync" {
        return Err(Exit::input("--durability: FILE has backup.durability = \"tier\", which decides"));
    }
    if has_journal && arguments.restored {
        return Err(Exit::input(
            "--restored: with backup.durability = \"tier\", a start continues the newest state; serve an older one \
             with another backup.to",
        ));
    }
    let mut settings = CatalogSettings {
        durability: durability(&arguments.durability)?,
        compaction_bytes_per_s: size("--compaction-rate", &arguments.compaction_rate)?.max(1),
        ..CatalogSettings::default()
    };
    settings.limits.reserve_bytes = size("--reserve", &arguments.reserve)?;
    Ok(settings)
}

/// Returns the settings of the server. Threads wait for the answers of a database, so it needs more of them. A request
/// reads one tier, or writes several.
fn server_settings(arguments: &Arguments, has_database: bool, write_tiers: usize) -> ServerSettings {
    const THREADS_PER_CORE: usize = 4;
    let default = ServerSettings::default();
    let threads = default.threads * if has_database { THREADS_PER_CORE } else { 1 };
    ServerSettings {
        region: arguments.region.clone(),
        memory_limit: usable_memory_bytes().map_or(u64::MAX, |bytes| bytes / 4),
        descriptors_per_connection: 1 + write_tiers.max(1),
        threads: arguments.threads.map_or(threads, usize::from).max(1),
        ..default
    }
}

/// Opens the access log, if there is one.
fn access_log(arguments: &Arguments) -> Result<Option<Arc<RequestLog>>, Exit> {
    let Some(path) = &arguments.access_log else { return Ok(None) };
    let proxies = arguments.trusted_proxies.as_ref().map(|text| Proxies::parse(text)).transpose();
    let proxies = proxies.map_err(|e| Exit::input(format!("--trusted-proxies: {e}")))?.unwrap_or_default();
    let log = RequestLog::open(path, proxies);
    let log = log.map_err(|e| Exit::input(format!("--access-log {}: {e}", path.display())))?;
    Ok(Some(Arc::new(log)))
}

/// Returns the observers of requests.
fn observers(
    arguments: &Arguments,
    log: Option<&Arc<RequestLog>>,
    metrics: &Arc<RequestMetrics>,
) -> Vec<Arc<dyn RequestObserver>> {
    let mut observers: Vec<Arc<dyn RequestObserver>> = Vec::new();
    if let Some(log) = log {
        observers.push(Arc::clone(log) as Arc<dyn RequestObserver>);
    }
    if arguments.metrics_listen.is_some() {
        observers.push(Arc::clone(metrics) as Arc<dyn RequestObserver>);
    }
    observers
}

/// Returns the time for which garbage is kept; `None` if the settings have it.
fn retain_ms(arguments: &Arguments) -> Result<Option<u64>, Exit> {
    let Some(text) = &arguments.retain else { return Ok(None) };
    if arguments.place.has_file() {
        return Err(Exit::input("--retain: the setting retain.deleted of FILE has this time"));
    }
    let ms = parse_time_ms(text).map_err(|e| Exit::input(format!("--retain: {e}")))?;
    Ok(Some(ms))
}

/// Returns the settings of the work in the background.
fn work_settings(
    arguments: &Arguments,
    rules: Rules,
    reads_file: Option<PathBuf>,
    scrub: Option<ScrubRule>,
) -> Result<background::BackgroundSettings, Exit> {
    let ms = |flag: &str, text: &str| {
        let ns = parse_duration(text).map_err(|e| Exit::input(format!("{flag}: {e}")))?;
        Ok::<u64, Exit>((ns / 1_000_000).max(1))
    };
    let day_ms = ms("--lifecycle-day", &arguments.lifecycle_day)?;
    Ok(background::BackgroundSettings {
        day_ms,
        rules: Rules { day_ms, ..rules },
        move_every_ms: ms("--move-every", &arguments.move_every)?,
        reads_file,
        is_idle: arguments.no_deletes,
        survey: Arc::default(),
        always_visits: arguments.metrics_listen.is_some() || arguments.admin_listen.is_some(),
        scrub,
    })
}

/// Returns true if the catalog is older than its tiers, and is served nevertheless.
fn is_older(arguments: &Arguments, opened: &Opened) -> Result<bool, Exit> {
    let older = if arguments.restored { Older::Accepted } else { Older::Refused };
    let found = ownership::check(&arguments.place, opened, older)?;
    if let Some(error) = &found {
        note(&format!("moves and deletes nothing: {error}"));
    }
    Ok(found.is_some())
}

/// Returns the settings of the backup.
fn backup_settings(place: BackupPlace, rule: &BackupRule) -> BackupSettings {
    BackupSettings {
        place: place.place,
        tariff: place.tariff,
        url: rule.place.url.clone(),
        every_ms: rule.every_ms,
        keep_ms: rule.keep_ms,
        bytes_per_s: rule.bytes_per_s,
        verify_every_ms: rule.verify_every_ms,
    }
}

/// Listens on an address.
///
/// # Errors
/// Exit code 2 if it is malformed, 3 if it cannot be used.
fn listen(address: &str) -> Result<TcpListener, Exit> {
    listen_on(address).map_err(|e| match e.kind() {
        std::io::ErrorKind::InvalidInput => {
            Exit::input(format!("--listen {address}: {e}; write HOST:PORT, such as 127.0.0.1:9000"))
        }
        _ => Exit::store(format!("--listen {address}: {e}; choose another address or port")),
    })
}

/// Begins the session of this process. Reads continue on a full disk, and the session begins when there is space.
///
/// # Errors
/// Exit code 3 if the database fails.
fn begin_session(place: &StoreArguments, store: &Store<AnyCatalog>) -> Result<(), Exit> {
    match crate::blocking::block_on(store.begin_session()) {
        Err(error) if store.catalog.is_shared() => return Err(place.fail(&error)),
        Err(error) => note(&format!("{}: {error}", place.name())),
        Ok(_) => {}
    }
    Ok(())
}

/// Listens for administrators: serves the console, if there is one, and listens in the directory of the catalog. `None`
/// if the catalog is in a database, which their commands can use beside this process.
///
/// # Errors
/// Exit code 2 if the address of the console cannot be used.
fn listen_for_administrators(
    arguments: &Arguments,
    shared: &Arc<Shared>,
    store: &Arc<Store<AnyCatalog>>,
    work: &background::BackgroundSettings,
    recovery: Recovery,
) -> Result<Option<Server>, Exit> {
    let place = &arguments.place;
    let directory = place.directory()?;
    let target = Arc::new(Target {
        name: place.name(),
        has_file: place.has_file(),
        place: place.words(),
        directory: directory.clone(),
        store: Arc::clone(store),
        rules: work.rules.clone(),
        survey: Arc::clone(&work.survey),
        recovery,
        is_served: true,
    });
    if let Some(address) = &arguments.admin_listen {
        let file = place.file().map(Path::to_path_buf);
        let bound = console::start(address, Arc::clone(&target), file, shared).map_err(|e| {
            Exit::input(format!("--admin-listen {address}: {e}; choose another address or port"))
        })?;
        let scheme = if arguments.tls_cert.is_some() { "https" } else { "http" };
        say(&format!("console on {scheme}://{bound}/\n"))?;
    }
    let Some(directory) = directory else { return Ok(None) };
    match Server::start(&directory, target) {
        Ok(server) => Ok(Some(server)),
        Err(error) => {
            note(&format!("commands cannot reach this gateway: {}: {error}", directory.display()));
            Ok(None)
        }
    }
}

/// Opens the store, and reports a new one: its directory may be a wrong one.
fn open(place: &StoreArguments, settings: CatalogSettings) -> Result<Opened, Exit> {
    let is_new = place.directory()?.is_some_and(|directory| !directory.exists());
    let opened = place.open(settings)?;
    if is_new {
        note(&format!("{}: this is a new store without objects", place.name()));
    }
    Ok(opened)
}

/// Writes the counts of reads to their file.
fn save_reads(reads: Option<&Reads>, path: Option<&Path>) {
    if let (Some(reads), Some(path)) = (reads, path)
        && let Err(error) = reads.save(path)
    {
        note(&format!("{}: {error}; the counts of reads are lost", path.display()));
    }
}

/// Serves until SIGINT or SIGTERM.
///
/// # Errors
/// Exit code 2 for invalid settings, 3 if the data directory or the address cannot be used.
pub fn run(arguments: &Arguments) -> Result<(), Exit> {
    let place = &arguments.place;
    let accounts = accounts(arguments)?;
    let tls = arguments.tls_cert.as_deref().zip(arguments.tls_key.as_deref());
    let tls =
        tls.map(|(certificate, key)| server_config(certificate, key)).transpose().map_err(Exit::input)?;
    let catalog_settings = catalog_settings(arguments)?;
    let retain_ms = retain_ms(arguments)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let listener = listen(&arguments.listen)?;
    let address = listener.local_addr().map_err(Exit::store)?;
    let opened = open(place, catalog_settings)?;
    let is_older = is_older(arguments, &opened)?;
    let reload_tiers = opened.reload_tiers();
    let Opened { catalog, mut bodies, rules, reads_file, scrub, recovery, backup, .. } = opened;
    let backup = opened.backup_place.zip(backup).map(|(place, rule)| backup_settings(place, &rule));
    if let Some(retain_ms) = retain_ms {
        bodies.retain_ms = retain_ms;
    }
    report(&recovery);
    place.config()?.small_bodies_that_stay().into_iter().for_each(|text| note(&text));
    let tariffs = rules.tariffs.clone();
    let mut work = work_settings(arguments, rules, reads_file.clone(), scrub)?;
    work.is_idle |= is_older;
    let requests = Arc::new(RequestMetrics::default());
    let access_log = access_log(arguments)?;
    let observers = observers(arguments, access_log.as_ref(), &requests);
    let settings = server_settings(arguments, catalog.is_shared(), bodies.write.tiers.len());
    let shared = Shared::new(Parts { settings, accounts, tls, timing_log: None, observers });
    let reads = bodies.reads.clone();
    let store = Store::open(Arc::clone(&catalog), bodies, Arc::clone(&shared.memory));
    let store = Arc::new(store.map_err(|e| place.fail(&e))?);
    if arguments.accept_clock {
        store.witnesses.accept();
    }
    if let Some(address) = &arguments.metrics_listen {
        let bound = metrics::serve(address, &requests, &store, &work.survey, tariffs).map_err(|e| {
            Exit::input(format!("--metrics-listen {address}: {e}; choose another address or port"))
        })?;
        say(&format!("metrics on http://{bound}/metrics\n"))?;
    }
    let backup_place = backup.as_ref().map(|settings| settings.place.tier.clone());
    let reload_others = move || {
        reload_tiers(backup_place.as_ref());
        if let Some(Err(error)) = access_log.as_ref().map(|log| log.reopen()) {
            note(&format!("the access log was not opened again: {error}"));
        }
    };
    reload_on_hangup(arguments, &shared, reload_others);
    begin_session(place, &store)?;
    check::start(store.blobs.tiers().clone());
    let admin = listen_for_administrators(arguments, &shared, &store, &work, recovery)?;
    let background = Background::start(Arc::clone(&store), work).map_err(Exit::store)?;
    // A look at an older state must not end the backup of the gateway that has the newest one.
    let backup = backup.filter(|_| !arguments.restored);
    let shipper = opened.shipper;
    let backup = backup.map(|settings| BackupThreads::start(&store, settings, shipper)).transpose();
    let backup = backup.map_err(Exit::store)?.flatten();
    let (stop, shutdown) = watch::channel(false);
    end_with_lease(&catalog, stop.clone()).map_err(Exit::store)?;
    watch_for_end(stop, arguments.until_stdin_closes);
    say(&format!("listening on {scheme}://{address}\n"))?;
    let served = plimsoll_server::run(listener, &shared, &store, &shutdown);
    admin.into_iter().for_each(Server::stop);
    background.stop();
    if let Some(backup) = backup {
        backup.stop();
    }
    save_reads(reads.as_deref(), reads_file.as_deref());
    let closed = catalog.close();
    served.map_err(|e| Exit::store(format!("the server failed: {e}")))?;
    closed.map_err(|e| place.fail(&e))
}
