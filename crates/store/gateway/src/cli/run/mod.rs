//! `plimsoll-gateway run`: serves a data directory.

mod phase;
pub mod restart;
pub mod settings;
mod standby;

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, PoisonError};

use plimsoll_base::net::tls::server_config;
use plimsoll_server::accounts::Accounts;
use plimsoll_server::shutdown::{on_hangup, watch_for_end};
use plimsoll_server::{Parts, ServerConfig, ServerState};
use tokio::sync::watch;

use self::phase::{Phase, restart, restart_with};
use self::restart::{Next, Restart, with_file};
pub use self::settings::Arguments;
use self::settings::{
    access_log, accounts, backup_settings, catalog_settings, check_own_files, check_rest, listen, observers,
    retain_ms, server_settings, work_settings,
};
use super::Exit;
use super::admin::server::Server;
use super::console;
use super::journaled::end_with_lease;
use super::opened::Opened;
use super::out::say;
use super::ownership::{self, Older};
use super::place::StoreArguments;
use super::preflight;
use super::target::Target;
use crate::certificate;
use crate::metrics::{self, RequestMetrics};
use plimsoll_backup::running::Running;
use plimsoll_backup::service::BackupThreads;
use plimsoll_backup::ship::BegunShipper;
use plimsoll_bodies::tier::check;
use plimsoll_catalog::Catalog;
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::blocking::block_on;
use plimsoll_catalog::embedded::catalog::CatalogSettings;
use plimsoll_catalog::embedded::recovery::Recovery;
use plimsoll_catalog::ending;
use plimsoll_catalog::lease::Over;
use plimsoll_catalog::liveness;
use plimsoll_catalog::log::note;
use plimsoll_catalog::threads;
use plimsoll_maintenance::background::{self, Background};
use plimsoll_objects::Store;
use plimsoll_objects::reads::Reads;
use plimsoll_server::credentials;

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
fn reload_on_hangup(
    arguments: &Arguments,
    shared: &Arc<ServerState>,
    reload_others: impl Fn() + Send + 'static,
) {
    let (file, key) = (arguments.tls_cert.clone(), arguments.tls_key.clone());
    let (credentials, shared) = (arguments.credentials.clone(), Arc::clone(shared));
    on_hangup(move || {
        reload_others();
        if let (Some(file), Some(key)) = (&file, &key) {
            match server_config(file, key) {
                Ok(config) => {
                    shared.set_tls(config);
                    certificate::examine(file);
                }
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

/// Returns the treatment of a catalog that is older than its tiers.
fn older(arguments: &Arguments) -> Older {
    // A standby serves what it has.
    let accepts = arguments.restored || arguments.follow.is_some();
    if accepts { Older::Accepted } else { Older::Refused }
}

/// Returns true if the catalog is older than its tiers, and is served nevertheless.
fn is_older(arguments: &Arguments, opened: &Opened) -> Result<bool, Exit> {
    let found = ownership::check(&arguments.place, opened, older(arguments), !arguments.restored)?;
    if let Some(error) = &found {
        note(&format!("moves and deletes nothing: {error}"));
    }
    Ok(found.is_some())
}

/// Accounts and certificate for all connections.
struct Front {
    accounts: Accounts,
    tls: Option<Arc<ServerConfig>>,
    scheme: &'static str,
}

/// Reads the accounts and the certificate.
fn front(arguments: &Arguments) -> Result<Front, Exit> {
    let accounts = accounts(arguments)?;
    let tls = arguments.tls_cert.as_deref().zip(arguments.tls_key.as_deref());
    let tls =
        tls.map(|(certificate, key)| server_config(certificate, key)).transpose().map_err(Exit::input)?;
    if let Some(file) = arguments.tls_cert.as_deref().filter(|_| tls.is_some()) {
        certificate::examine(file);
    }
    let scheme = if tls.is_some() { "https" } else { "http" };
    Ok(Front { accounts, tls, scheme })
}

/// Begins the session of this process. Reads continue on a full disk, and the session begins when there is space.
///
/// # Errors
/// Exit code 3 if the database fails.
fn begin_session(place: &StoreArguments, store: &Store<AnyCatalog>) -> Result<(), Exit> {
    match plimsoll_catalog::blocking::block_on(store.begin_session()) {
        Err(error) if store.catalog.is_shared() => return Err(place.fail(&error)),
        Err(error) => note(&format!("{}: {error}", place.name())),
        Ok(_) => {}
    }
    Ok(())
}

/// Listens for administrators: serves the console, if there is one, and listens in the directory of the catalog, but
/// not if the catalog is in a database, which their commands can use beside this process.
///
/// # Errors
/// Exit code 2 if the address of the console cannot be used.
fn listen_for_administrators(
    arguments: &Arguments,
    shared: &Arc<ServerState>,
    store: &Arc<Store<AnyCatalog>>,
    running: &Running,
    work: &background::BackgroundSettings,
    recovery: Recovery,
    restart: Option<Restart>,
) -> Result<Administration, Exit> {
    let place = &arguments.place;
    let directory = place.directory()?;
    let target = Arc::new(Target {
        name: place.name(),
        file: place.file().map(Path::to_path_buf),
        place: place.words(),
        directory: directory.clone(),
        store: Arc::clone(store),
        backup: Arc::clone(running),
        rules: work.rules.clone(),
        survey: Arc::clone(&work.survey),
        recovery,
        is_served: true,
        restart,
    });
    if let Some(address) = &arguments.admin_listen {
        let file = place.file().map(Path::to_path_buf);
        let bound = console::start(address, Arc::clone(&target), file, shared).map_err(|e| {
            Exit::input(format!("--admin-listen {address}: {e}; choose another address or port"))
        })?;
        let scheme = if arguments.tls_cert.is_some() { "https" } else { "http" };
        say(&format!("console on {scheme}://{bound}/\n"))?;
    }
    let server = directory.and_then(|directory| {
        let started = Server::start(&directory, Arc::clone(&target));
        let failed = |error: &std::io::Error| {
            note(&format!("commands cannot reach this gateway: {}: {error}", directory.display()));
        };
        started.inspect_err(failed).ok()
    });
    Ok(Administration { target, server })
}

/// The store as commands see it, and what listens for them.
struct Administration {
    target: Arc<Target>,
    server: Option<Server>,
}

/// Opens the store, and reports a new one: its directory may be a wrong one.
fn open(arguments: &Arguments, settings: CatalogSettings) -> Result<Opened, Exit> {
    let place = &arguments.place;
    let older = older(arguments);
    check_rest(arguments)?;
    preflight::check(place, older, !arguments.restored)?;
    check_own_files(arguments)?;
    let is_new = place.directory()?.is_some_and(|directory| !directory.exists());
    let opened =
        if arguments.restored { place.open_without_backup(settings)? } else { place.open(settings)? };
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
    let phase = Phase::of(arguments)?;
    liveness::start().map_err(Exit::store)?;
    let listener = listen(phase.address.as_deref().unwrap_or(&arguments.listen))?;
    let address = listener.local_addr().map_err(Exit::store)?;
    if arguments.phase.is_some() {
        phase::name_process();
    }
    let Some(url) = &arguments.follow else { return Ok(serve(arguments, listener).map(|_| ())?) };
    // Until there is something to read again: without a handler, the signal ends the process.
    on_hangup(|| {});
    if !phase.leads {
        return standby::follow(arguments, url, listener, phase.yields);
    }
    match serve(arguments, listener) {
        // Another gateway leads, or may: this one follows it.
        Ok(Some(_)) => Err(restart(Phase::follow(address, true))),
        Ok(None) => Ok(()),
        Err(Failed::Start(exit)) => {
            note(&format!("this gateway cannot lead: {}; it follows again", exit.message));
            Err(restart(Phase::follow(address, true)))
        }
        Err(Failed::Later(exit)) => Err(exit),
    }
}

/// Reason why a gateway does not serve.
enum Failed {
    /// It could not open its store.
    Start(Exit),
    /// It has failed later.
    Later(Exit),
}

impl From<Exit> for Failed {
    fn from(exit: Exit) -> Failed {
        Failed::Later(exit)
    }
}

impl From<Failed> for Exit {
    fn from(failed: Failed) -> Exit {
        match failed {
            Failed::Start(exit) | Failed::Later(exit) => exit,
        }
    }
}

/// Leads and serves until SIGINT or SIGTERM, or until another gateway leads. Returns the reason in the second case, if
/// this process follows then.
fn serve(arguments: &Arguments, listener: TcpListener) -> Result<Option<Over>, Failed> {
    let place = &arguments.place;
    let Front { accounts, tls, scheme } = front(arguments)?;
    let catalog_settings = catalog_settings(arguments)?;
    let retain_ms = retain_ms(arguments)?;
    let address = listener.local_addr().map_err(Exit::store)?;
    let opened = open(arguments, catalog_settings).map_err(Failed::Start)?;
    let is_older = is_older(arguments, &opened)?;
    let reload_tiers = opened.reload_tiers();
    let Opened { catalog, mut bodies, rules, reads_file, scrub, recovery, backup, shipper, .. } = opened;
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
    let shared = ServerState::new(Parts { settings, accounts, tls, timing_log: None, observers });
    let reads = bodies.reads.clone();
    let store = Store::open(Arc::clone(&catalog), bodies, Arc::clone(&shared.memory));
    let store = Arc::new(store.map_err(|e| place.fail(&e))?);
    if arguments.accept_clock {
        store.witnesses.accept();
    }
    let backup_place = backup.as_ref().map(|settings| settings.place.tier.clone());
    let reload_others = move || {
        reload_tiers(backup_place.as_ref());
        if let Some(Err(error)) = access_log.as_ref().map(|log| log.reopen()) {
            note(&format!("the access log was not opened again: {error}"));
        }
    };
    reload_on_hangup(arguments, &shared, reload_others);
    let (stop, shutdown) = watch::channel(false);
    let signalled = end_with_signal(arguments, &catalog, stop.clone()).map_err(Exit::store)?;
    // Who sees on its pages that this gateway is ready may send a signal, which would kill it before this.
    let running = Running::default();
    if let Some(address) = &arguments.metrics_listen {
        let bound =
            metrics::serve(address, &requests, &store, &running, &work.survey, tariffs).map_err(|e| {
                Exit::input(format!("--metrics-listen {address}: {e}; choose another address or port"))
            })?;
        say(&format!("metrics on http://{bound}/metrics\n"))?;
    }
    begin_session(place, &store)?;
    if !arguments.restored {
        check::start(store.blobs.tiers().clone());
    }
    let again = Some(Restart::new(stop));
    let admin = listen_for_administrators(arguments, &shared, &store, &running, &work, recovery, again)?;
    let background = Background::start(Arc::clone(&store), work).map_err(Exit::store)?;
    let take_shipper = || shipper.lock().unwrap_or_else(PoisonError::into_inner).take();
    let start = |settings| BackupThreads::start(&store, &running, settings, take_shipper());
    let backup = backup.map(start).transpose().map_err(Exit::store)?.flatten();
    say(&format!("listening on {scheme}://{address}\n"))?;
    let served = plimsoll_server::run(listener, &shared, &store, &shutdown);
    end_work(admin.server, background, backup, &shipper);
    save_reads(reads.as_deref(), reads_file.as_deref());
    served.map_err(|e| Exit::store(format!("the server failed: {e}")))?;
    ending::step("the catalog");
    let over = end(arguments, &catalog)?;
    // Who ends the process does not want it to start again, or to follow.
    let next = admin.target.restart.as_ref().and_then(Restart::next);
    match next.filter(|_| !*signalled.borrow()) {
        Some(next) => Err(start_again(place, address, next).into()),
        None => Ok(over.filter(|_| !*signalled.borrow())),
    }
}

/// Ends everything that uses the catalog.
fn end_work(
    admin: Option<Server>,
    background: Background,
    backup: Option<BackupThreads>,
    shipper: &BegunShipper,
) {
    ending::step("commands of administrators");
    admin.into_iter().for_each(Server::stop);
    ending::step("work in the background");
    background.stop();
    ending::step("the place of the backup");
    if let Some(backup) = backup {
        // What the end of the catalog writes is shipped, too.
        *shipper.lock().unwrap_or_else(PoisonError::into_inner) = backup.stop();
    }
}

/// Replaces this process by one with the same or with other settings. Returns only if this is not possible.
fn start_again(place: &StoreArguments, address: SocketAddr, next: Next) -> Exit {
    let phase = Phase::lead(address);
    match (place.file(), next) {
        (Some(old), Next::File(new)) => restart_with(phase, |words| with_file(words, old, &new)),
        _ => restart(phase),
    }
}

/// Lets the server end with SIGINT, SIGTERM and the lease. Returns whether a signal has arrived.
fn end_with_signal(
    arguments: &Arguments,
    catalog: &AnyCatalog,
    stop: watch::Sender<bool>,
) -> std::io::Result<watch::Receiver<bool>> {
    end_with_lease(catalog, stop.clone())?;
    let (signal, signalled) = watch::channel(false);
    watch_for_end(signal, arguments.until_stdin_closes);
    let mut ended = signalled.clone();
    threads::spawn("end", move || {
        let _ = block_on(ended.wait_for(|signalled| *signalled));
        if let Err(error) = ending::begin() {
            note(&format!("the end of this process has no deadline: {error}"));
        }
        let _ = stop.send(true);
    })?;
    Ok(signalled)
}

/// Closes the catalog. Returns the reason why this process does not lead any more, if it follows then.
fn end(arguments: &Arguments, catalog: &AnyCatalog) -> Result<Option<Over>, Exit> {
    let closed = catalog.close().map_err(|e| arguments.place.fail(&e));
    let lease = catalog.lease();
    // Its disk has writes that nobody else has: it must not follow the next one.
    let is_incomplete = lease.is_some_and(|lease| lease.incomplete().is_some());
    let follows = arguments.follow.is_some() && !is_incomplete;
    let over = lease.and_then(|lease| lease.over()).filter(|_| follows);
    match (over, closed) {
        (Some(over), Err(exit)) => {
            note(&exit.message);
            Ok(Some(over))
        }
        (over, closed) => closed.map(|()| over),
    }
}
