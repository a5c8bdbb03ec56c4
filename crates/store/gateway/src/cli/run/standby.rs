//! A gateway that follows another one, until it can lead.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_server::handler::{Handler, Incoming, Method, Plain, Refusing, Request};
use plimsoll_server::response::ServerResponse;
use plimsoll_server::shutdown::watch_for_end;
use plimsoll_server::timestamps::ConnectionTimestamps;
use plimsoll_server::{Parts, ServerState};
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};

use super::phase::{Phase, restart};
use super::settings::{Arguments, access_log, catalog_settings, observers, server_settings, work_settings};
use super::{Front, Server, front, listen_for_administrators, reload_on_hangup};
use crate::cli::Exit;
use crate::cli::backup_place::backup_place;
use crate::cli::opened::Opened;
use crate::cli::out::say;
use crate::config::{BackupRule, CatalogPlace, Config};
use crate::metrics::{self, RequestMetrics};
use plimsoll_backup::error::BackupError;
use plimsoll_backup::journal::follow::{FollowSettings, Follower};
use plimsoll_backup::running::Running;
use plimsoll_bodies::tier::Tier;
use plimsoll_catalog::ambient::{pause, utc_text};
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::blocking::block_on;
use plimsoll_catalog::embedded::Engine;
use plimsoll_catalog::embedded::recovery::Recovery;
use plimsoll_catalog::ending;
use plimsoll_catalog::following::Following;
use plimsoll_catalog::following::Leader;
use plimsoll_catalog::liveness;
use plimsoll_catalog::log::note;
use plimsoll_catalog::standby::StandbyCatalog;
use plimsoll_catalog::threads;
use plimsoll_objects::{Store, keys};

/// Answer to requests that a standby does not execute.
const REFUSED: &str = "This gateway is a standby. Use the gateway that leads.";
/// Answer to requests that change something.
const NO_WRITES: &str = "This gateway is a standby, which accepts no writes. Use the gateway that leads.";

/// Reason why a process does not follow any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It can lead.
    Lead,
    /// The copy must be opened again.
    Reopen,
    /// The process ends.
    End,
}

/// Returns the directory of the catalog and the rule of the backup.
fn rule<'a>(
    arguments: &Arguments,
    config: &'a Config,
    url: &str,
) -> Result<(&'a Path, &'a BackupRule, u64), Exit> {
    let name = arguments.place.name();
    let CatalogPlace::Directory(root) = &config.catalog else {
        return Err(Exit::input(format!(
            "--follow: {name}: gateways with PostgreSQL serve at the same time"
        )));
    };
    let rule = config.backup.as_ref().filter(|rule| rule.place.url == url).ok_or_else(|| {
        Exit::input(format!(
            "--follow {url}: {name} needs [backup] with to = \"{url}\", as the gateway that leads: this one continues \
             its backup"
        ))
    })?;
    let lease_ms = rule.lease_ms.ok_or_else(|| {
        Exit::input(format!(
            "--follow: {name} needs backup.lease, as the gateway that leads: without it, a standby cannot know whether \
             another gateway still acknowledges writes"
        ))
    })?;
    Ok((root, rule, lease_ms))
}

/// Follows the gateway that leads, until this one can lead, or SIGINT or SIGTERM.
///
/// # Errors
/// Exit code 2 for invalid settings, 3 if the place, the directory or the address cannot be used.
pub fn follow(arguments: &Arguments, url: &str, listener: TcpListener, yields: bool) -> Result<(), Exit> {
    let place = &arguments.place;
    let config = place.config()?;
    let (root, rule, lease_ms) = rule(arguments, &config, url)?;
    let limits = catalog_settings(arguments)?.limits;
    let backends = place.backends(&config)?;
    let backup = backup_place(&place.name(), &config, &backends)?;
    let backup = backup.ok_or_else(|| Exit::input("--follow: FILE has no [backup]"))?;
    let address = listener.local_addr().map_err(Exit::store)?;
    let (signal, mut signalled) = watch::channel(false);
    watch_for_end(signal, arguments.until_stdin_closes);
    end_in_time(signalled.clone())?;
    let waiting = Waiting::start(arguments, listener.try_clone().map_err(Exit::store)?)?;
    let runtime = runtime()?;
    let following = Following::new(url);
    let tier = backup.place.tier.clone();
    let settings = FollowSettings { place: backup.place, limits, lease_ms, yields };
    let is_first = arguments.phase.is_none();
    let opened = runtime.block_on(async {
        tokio::select! {
            opened = open(root, &settings, &following, is_first) => Some(opened),
            _ = signalled.wait_for(|signalled| *signalled) => None,
        }
    });
    let Some(opened) = opened else { return Ok(()) };
    let follower = opened.map_err(|e| Exit::store(format!("{url}: {e}")))?;
    note(&format!("follows {url}; leads when the other gateway does not any more, or after `promote`"));
    let worker = Worker {
        following: Arc::clone(&following),
        every_ms: rule.every_ms,
        signalled: signalled.clone(),
        tiers: config.tiers.keys().cloned().collect(),
    };
    let (engine_sender, engine) = oneshot::channel();
    let (stop, shutdown) = watch::channel(false);
    let thread = threads::spawn("follow", move || {
        let next = runtime.block_on(liveness::keep("follow", worker.run(follower, engine_sender)));
        let _ = stop.send(true);
        next
    });
    let thread = thread.map_err(Exit::store)?;
    let engine = engine.blocking_recv();
    waiting.stop();
    let served = engine.map_or(Ok(None), |engine| {
        let copy = Copy { engine, following: Arc::clone(&following), tier };
        serve(arguments, config.clone(), listener, copy, &shutdown)
    });
    // After an error of this function, the process ends, and with it the thread.
    let admin = served?;
    let next = thread.join().unwrap_or(Next::End);
    following.wait_until_told(Duration::from_secs(2));
    admin.into_iter().for_each(Server::stop);
    match next {
        _ if *signalled.borrow() => Ok(()),
        Next::Lead => Err(restart(Phase::lead(address))),
        Next::Reopen => Err(restart(Phase::follow(address, yields))),
        Next::End => Ok(()),
    }
}

/// Ends the process in time after a signal, whatever hangs.
fn end_in_time(mut signalled: watch::Receiver<bool>) -> Result<(), Exit> {
    let thread = threads::spawn("end", move || {
        if block_on(signalled.wait_for(|signalled| *signalled)).is_ok()
            && let Err(error) = ending::begin()
        {
            note(&format!("the end of this process has no deadline: {error}"));
        }
    });
    thread.map(|_| ()).map_err(Exit::store)
}

/// Opens the copy, with as many attempts as it needs if the place does not answer.
async fn open(
    root: &Path,
    settings: &FollowSettings,
    following: &Arc<Following>,
    is_first: bool,
) -> Result<Follower, BackupError> {
    const PAUSE_MS: u64 = 1000;
    loop {
        match Follower::open(root, settings.clone(), Arc::clone(following)).await {
            // The first start tells its user what is wrong.
            Err(error) if is_first || !is_temporary(&error) => return Err(error),
            Err(error) => {
                if following.fail(error.to_string()) {
                    plimsoll_catalog::log::warn(&format!("the standby does not follow: {error}"));
                }
            }
            opened => return opened,
        }
        pause(PAUSE_MS).await;
    }
}

/// Returns true for an error that may end by itself.
fn is_temporary(error: &BackupError) -> bool {
    matches!(error, BackupError::Place(_) | BackupError::Silent | BackupError::Incomplete)
}

fn runtime() -> Result<Runtime, Exit> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Exit::store)
}

/// Answers that the gateway is a standby, while it has no copy.
struct Waiting {
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Waiting {
    fn start(arguments: &Arguments, listener: TcpListener) -> Result<Waiting, Exit> {
        let Front { accounts, tls, .. } = front(arguments)?;
        let settings = server_settings(arguments, false, 1);
        let shared =
            ServerState::new(Parts { settings, accounts, tls, timing_log: None, observers: Vec::new() });
        let (stop, stopped) = watch::channel(false);
        let thread = threads::spawn("wait", move || {
            let served = plimsoll_server::run_with(listener, &shared, &Arc::new(Refusing(REFUSED)), &stopped);
            if let Err(error) = served {
                note(&format!("the server failed: {error}"));
            }
        });
        Ok(Waiting { stop, thread: thread.map_err(Exit::store)? })
    }

    fn stop(self) {
        let _ = self.stop.send(true);
        let _ = self.thread.join();
    }
}

/// The thread that follows.
struct Worker {
    following: Arc<Following>,
    every_ms: u64,
    signalled: watch::Receiver<bool>,
    /// Names of the tiers, which the copy must know before it is served.
    tiers: Vec<String>,
}

impl Worker {
    async fn run(self, mut follower: Follower, engine: oneshot::Sender<Arc<Engine>>) -> Next {
        let mut signalled = self.signalled.clone();
        let next = tokio::select! {
            next = self.follow(&mut follower, engine) => next,
            _ = signalled.wait_for(|signalled| *signalled) => Next::End,
        };
        if next != Next::Reopen
            && let Err(error) = follower.close()
        {
            note(&format!("the copy of the catalog was not written to its end: {error}"));
        }
        next
    }

    async fn follow(&self, follower: &mut Follower, engine: oneshot::Sender<Arc<Engine>>) -> Next {
        let mut engine = Some(engine);
        let (mut is_unknown, mut has_noted) = (false, false);
        loop {
            match follower.step().await {
                Ok(true) => {
                    let newest = self.following.state().newest_ms.map_or("nothing".into(), utc_text);
                    note(&format!("no other gateway leads; this one begins, with everything until {newest}"));
                    return Next::Lead;
                }
                Ok(false) => {}
                Err(error) if is_temporary(&error) => {
                    if self.following.fail(error.to_string()) {
                        plimsoll_catalog::log::warn(&format!("the standby does not follow: {error}"));
                    }
                }
                Err(error) => {
                    note(&format!("the copy of the catalog is opened again: {error}"));
                    return Next::Reopen;
                }
            }
            if self.following.state().leader == Leader::Unknown && !std::mem::replace(&mut is_unknown, true) {
                note(
                    "no gateway with a lease has written to the place; start the first one without --follow",
                );
            }
            if engine.is_some()
                && let Some(found) = follower.engine().cloned()
            {
                let missing = self.unknown_tiers(&found);
                if missing.is_empty()
                    && let Some(sender) = engine.take()
                {
                    let _ = sender.send(found);
                } else if !std::mem::replace(&mut has_noted, true) {
                    let missing = missing.join(", ");
                    note(&format!(
                        "the gateway that leads has no tier {missing}; this one serves when it has"
                    ));
                }
            }
            self.following.pause(follower.pause_ms(self.every_ms)).await;
        }
    }

    /// Returns the tiers of which a copy has no numbers: the gateway that leads gives them.
    fn unknown_tiers(&self, engine: &Engine) -> Vec<&str> {
        let is_known = |name: &&String| matches!(engine.get(&keys::tier(name)), Ok(Some(_)));
        self.tiers.iter().filter(|name| !is_known(name)).map(String::as_str).collect()
    }
}

/// A copy that is served.
struct Copy {
    engine: Arc<Engine>,
    following: Arc<Following>,
    /// Place of the backup, whose keys are read again at SIGHUP.
    tier: Tier,
}

/// Executes requests that only read.
struct Reading(Plain<Store<AnyCatalog>>);

impl Handler for Reading {
    async fn handle(
        &self,
        shared: &Arc<ServerState>,
        stamps: &ConnectionTimestamps,
        request: Request<Incoming>,
    ) -> std::io::Result<ServerResponse> {
        // A write of something that the copy does not have yet could seem to succeed.
        if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
            self.0.handle(shared, stamps, request).await
        } else {
            Refusing(NO_WRITES).handle(shared, stamps, request).await
        }
    }
}

/// Serves the copy, until the process follows no more.
fn serve(
    arguments: &Arguments,
    config: Config,
    listener: TcpListener,
    copy: Copy,
    shutdown: &watch::Receiver<bool>,
) -> Result<Option<Server>, Exit> {
    let place = &arguments.place;
    let Front { accounts, tls, scheme } = front(arguments)?;
    let Copy { engine, following, tier } = copy;
    let catalog = StandbyCatalog::new(engine, following, arguments.stale_reads);
    let stores = place.backends(&config)?;
    let opened = place.open_with(AnyCatalog::Standby(catalog), Recovery::default(), config, stores)?;
    let reload_tiers = opened.reload_tiers();
    let Opened { catalog, bodies, rules, scrub, recovery, .. } = opened;
    let tariffs = rules.tariffs.clone();
    let work = work_settings(arguments, rules, None, scrub)?;
    let requests = Arc::new(RequestMetrics::default());
    let access_log = access_log(arguments)?;
    let observers = observers(arguments, access_log.as_ref(), &requests);
    let settings = server_settings(arguments, false, bodies.write.tiers.len());
    let shared = ServerState::new(Parts { settings, accounts, tls, timing_log: None, observers });
    let store = Store::open(catalog, bodies, Arc::clone(&shared.memory));
    let store = Arc::new(store.map_err(|e| place.fail(&e))?);
    if let Some(address) = &arguments.metrics_listen {
        let bound = metrics::serve(address, &requests, &store, &Running::default(), &work.survey, tariffs)
            .map_err(|e| {
                Exit::input(format!("--metrics-listen {address}: {e}; choose another address or port"))
            })?;
        say(&format!("metrics on http://{bound}/metrics\n"))?;
    }
    reload_on_hangup(arguments, &shared, move || {
        reload_tiers(Some(&tier));
        if let Some(Err(error)) = access_log.as_ref().map(|log| log.reopen()) {
            note(&format!("the access log was not opened again: {error}"));
        }
    });
    let admin =
        listen_for_administrators(arguments, &shared, &store, &Running::default(), &work, recovery, None)?;
    let address = listener.local_addr().map_err(Exit::store)?;
    say(&format!("standby on {scheme}://{address}\n"))?;
    let served = if arguments.stale_reads {
        let reading = Arc::new(Reading(Plain(Arc::clone(&store))));
        plimsoll_server::run_with(listener, &shared, &reading, shutdown)
    } else {
        plimsoll_server::run_with(listener, &shared, &Arc::new(Refusing(REFUSED)), shutdown)
    };
    served.map_err(|e| Exit::store(format!("the server failed: {e}")))?;
    Ok(admin.server)
}
