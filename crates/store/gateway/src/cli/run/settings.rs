//! Arguments of `plimsoll-gateway run`, and the settings that follow from them.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use plimsoll_base::clock::SECOND;
use plimsoll_base::machine::usable_memory_bytes;
use plimsoll_base::units::{parse_duration, parse_size};
use plimsoll_s3::credentials::Credentials;
use plimsoll_server::ServerSettings;
use plimsoll_server::accounts::Accounts;
use plimsoll_server::observer::RequestObserver;
use plimsoll_server::request_log::{Proxies, RequestLog};
use plimsoll_server::shutdown::listen_on;

use crate::cli::Exit;
use crate::cli::backup_place::BackupPlace;
use crate::cli::place::StoreArguments;
use crate::config::BackupRule;
use crate::metrics::RequestMetrics;
use plimsoll_backup::service::BackupSettings;
use plimsoll_catalog::committer::Durability;
use plimsoll_catalog::disk::real::create_directory;
use plimsoll_catalog::embedded::catalog::CatalogSettings;
use plimsoll_maintenance::background;
use plimsoll_maintenance::mover::condition::parse_time_ms;
use plimsoll_maintenance::mover::rules::Rules;
use plimsoll_maintenance::scrub::ScrubRule;
use plimsoll_server::credentials;

/// Arguments of `plimsoll-gateway run`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub place: StoreArguments,
    /// Address and port to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9000")]
    pub listen: String,
    /// TOML file with several access keys and their rights, readable by its owner only, or by root and its group;
    /// replaces --access-key; reloaded on SIGHUP
    #[arg(long, value_name = "FILE")]
    pub credentials: Option<PathBuf>,
    /// Access key of the only account. AWS_ACCESS_KEY_ID has no effect on it: that is the key of tiers
    #[arg(long, value_name = "KEY", env = "PLIMSOLL_ACCESS_KEY", hide_env_values = true)]
    pub access_key: Option<String>,
    /// Secret key; prefer the environment variable, because process lists show arguments
    #[arg(long, value_name = "KEY", env = "PLIMSOLL_SECRET_KEY", hide_env_values = true)]
    pub secret_key: Option<String>,
    /// PEM file with the certificate chain; enables TLS together with --tls-key; reloaded on SIGHUP
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// PEM file with the certificate's private key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Time at which acknowledged writes are durable: sync (before the acknowledgement) or interval=TIME (at most this
    /// long after it)
    #[arg(long, value_name = "MODE", default_value = "sync")]
    pub durability: String,
    /// Free space below which writes fail with status 507; reads and deletes continue
    #[arg(long, value_name = "SIZE", default_value = "128 MiB")]
    pub reserve: String,
    /// Maximum rate of compaction per second
    #[arg(long, value_name = "SIZE", default_value = "64 MiB")]
    pub compaction_rate: String,
    /// Region that the server reports; it accepts signatures for any region
    #[arg(long, default_value = "us-east-1")]
    pub region: String,
    /// Number of threads that serve connections [default: one per core; four with a catalog in PostgreSQL]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Serve Prometheus metrics on this address at /metrics, and /healthz and /readyz; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_listen: Option<String>,
    /// Serve the console on this address, a page for browsers; port 0 selects a free port. Everybody who reaches the
    /// address can read it, and administrators can change objects; it has TLS if --tls-cert is given
    #[arg(long, value_name = "ADDRESS")]
    pub admin_listen: Option<String>,
    /// Append one JSON object per request to this file; SIGHUP opens it again
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
    /// Networks of proxies, such as 10.0.0.0/8,::1, whose X-Forwarded-For names the client in the access log
    #[arg(long, value_name = "NETWORKS", requires = "access_log")]
    pub trusted_proxies: Option<String>,
    /// Exit when standard input closes, for use as a child process
    #[arg(long, hide = true)]
    pub until_stdin_closes: bool,
    /// Length of a day of lifecycle rules, for tests
    #[arg(long, value_name = "TIME", default_value = "24h", hide = true)]
    pub lifecycle_day: String,
    /// Time for which deleted and replaced objects are kept, so that `undelete` can bring them back; with FILE, the
    /// setting retain.deleted [default: 7d]
    #[arg(long, value_name = "TIME")]
    pub retain: Option<String>,
    /// Serve, but move nothing and delete nothing from the tiers
    #[arg(long)]
    pub no_deletes: bool,
    /// Serve a catalog that is older than its tiers, make no backup, and move and delete nothing until `reconcile` has
    /// run
    #[arg(long)]
    pub restored: bool,
    /// Accept the time of this machine although the catalog was last used long ago, or in the future
    #[arg(long)]
    pub accept_clock: bool,
    /// Time between two searches for blobs to move
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub move_every: String,
    /// Follow the gateway whose backup is at this URL, which is backup.to of FILE, and lead when it does not any more,
    /// or after `promote`; needs backup.lease, or backup.durability = "tier"
    #[arg(long, value_name = "URL", conflicts_with_all = ["restored", "data"])]
    pub follow: Option<String>,
    /// Let clients read from the copy while another gateway leads: they may see an older state
    #[arg(long, requires = "follow")]
    pub stale_reads: bool,
    /// Phase of a process that has started itself again
    #[arg(long, hide = true)]
    pub phase: Option<String>,
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

pub fn accounts(arguments: &Arguments) -> Result<Accounts, Exit> {
    if let Some(path) = &arguments.credentials {
        return credentials::load(path).map_err(Exit::input);
    }
    let access = key(arguments.access_key.as_ref(), "PLIMSOLL_ACCESS_KEY", "--access-key")?;
    let secret = key(arguments.secret_key.as_ref(), "PLIMSOLL_SECRET_KEY", "--secret-key")?;
    let credentials = Credentials::new(&access, &secret, None);
    credentials.hide();
    Ok(Accounts::single(credentials))
}

/// Returns the settings of the catalog.
pub fn catalog_settings(arguments: &Arguments) -> Result<CatalogSettings, Exit> {
    let backup = arguments.place.config()?.backup;
    let has_journal = backup.as_ref().is_some_and(|rule| rule.lease_ms.is_some());
    if backup.is_some_and(|rule| rule.is_durable) && arguments.durability != "sync" {
        return Err(Exit::input("--durability: FILE has backup.durability = \"tier\", which decides"));
    }
    if has_journal && arguments.restored {
        return Err(Exit::input(
            "--restored: with backup.durability = \"tier\" or backup.lease, a start continues the newest state; serve an \
             older one with another backup.to",
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
pub fn server_settings(arguments: &Arguments, has_database: bool, write_tiers: usize) -> ServerSettings {
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
pub fn access_log(arguments: &Arguments) -> Result<Option<Arc<RequestLog>>, Exit> {
    let Some(path) = &arguments.access_log else { return Ok(None) };
    let proxies = arguments.trusted_proxies.as_ref().map(|text| Proxies::parse(text)).transpose();
    let proxies = proxies.map_err(|e| Exit::input(format!("--trusted-proxies: {e}")))?.unwrap_or_default();
    let log = RequestLog::open(path, proxies);
    let log = log.map_err(|e| Exit::input(format!("--access-log {}: {e}", path.display())))?;
    Ok(Some(Arc::new(log)))
}

/// Returns the observers of requests.
pub fn observers(
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
pub fn retain_ms(arguments: &Arguments) -> Result<Option<u64>, Exit> {
    let Some(text) = &arguments.retain else { return Ok(None) };
    if arguments.place.has_file() {
        return Err(Exit::input("--retain: the setting retain.deleted of FILE has this time"));
    }
    let ms = parse_time_ms(text).map_err(|e| Exit::input(format!("--retain: {e}")))?;
    Ok(Some(ms))
}

/// Times of the work in the background, in milliseconds.
struct Times {
    day_ms: u64,
    move_every_ms: u64,
}

fn times(arguments: &Arguments) -> Result<Times, Exit> {
    let ms = |flag: &str, text: &str| {
        let ns = parse_duration(text).map_err(|e| Exit::input(format!("{flag}: {e}")))?;
        Ok::<u64, Exit>((ns / 1_000_000).max(1))
    };
    let day_ms = ms("--lifecycle-day", &arguments.lifecycle_day)?;
    Ok(Times { day_ms, move_every_ms: ms("--move-every", &arguments.move_every)? })
}

/// Checks what a start would only use after the store is open: a start that is refused must not have ended the backup
/// of another gateway.
///
/// # Errors
/// Exit code 2 for invalid settings, and for addresses that cannot be used.
pub fn check_rest(arguments: &Arguments) -> Result<(), Exit> {
    times(arguments)?;
    retain_ms(arguments)?;
    catalog_settings(arguments)?;
    arguments.place.check_rules()?;
    let addresses =
        [("--metrics-listen", &arguments.metrics_listen), ("--admin-listen", &arguments.admin_listen)];
    for (flag, address) in addresses {
        let Some(address) = address else { continue };
        TcpListener::bind(address)
            .map_err(|e| Exit::input(format!("{flag} {address}: {e}; choose another address or port")))?;
    }
    Ok(())
}

/// Checks the files that only this gateway uses: the access log, and the directory of the cache. A start that failed
/// with them later would already have ended the work of another gateway of the same place.
pub fn check_own_files(arguments: &Arguments) -> Result<(), Exit> {
    access_log(arguments)?;
    let config = arguments.place.config()?;
    if let Some((directory, _)) = &config.cache.disk {
        let checked = create_directory(directory).and_then(|()| probe(directory));
        let name = arguments.place.name();
        checked.map_err(|e| Exit::store(format!("{name}: cache: {}: {e}", directory.display())))?;
    }
    Ok(())
}

/// Writes a file to a directory and removes it.
fn probe(directory: &Path) -> std::io::Result<()> {
    let path = directory.join(format!(".plimsoll-probe-{}", std::process::id()));
    let written = std::fs::write(&path, [0; 4096]).and_then(|()| File::open(&path)?.sync_all());
    let removed = std::fs::remove_file(&path);
    written.and(removed)
}

/// Returns the settings of the work in the background.
pub fn work_settings(
    arguments: &Arguments,
    rules: Rules,
    reads_file: Option<PathBuf>,
    scrub: Option<ScrubRule>,
) -> Result<background::BackgroundSettings, Exit> {
    let Times { day_ms, move_every_ms } = times(arguments)?;
    Ok(background::BackgroundSettings {
        day_ms,
        rules: Rules { day_ms, ..rules },
        move_every_ms,
        reads_file,
        // A look at a state must not take the work over from the gateway that has the newest one.
        is_idle: arguments.no_deletes || arguments.restored,
        survey: Arc::default(),
        always_visits: arguments.metrics_listen.is_some() || arguments.admin_listen.is_some(),
        scrub,
    })
}

/// Returns the settings of the backup.
pub fn backup_settings(place: BackupPlace, rule: &BackupRule) -> BackupSettings {
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
pub fn listen(address: &str) -> Result<TcpListener, Exit> {
    listen_on(address).map_err(|e| match e.kind() {
        std::io::ErrorKind::InvalidInput => {
            Exit::input(format!("--listen {address}: {e}; write HOST:PORT, such as 127.0.0.1:9000"))
        }
        _ => Exit::store(format!("--listen {address}: {e}; choose another address or port")),
    })
}
