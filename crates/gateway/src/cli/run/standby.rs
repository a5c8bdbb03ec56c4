//! A gateway that follows another one, until it can lead.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_server::handler::Refusing;
use plimsoll_server::shutdown::watch_for_end;
use plimsoll_server::{Parts, Shared};
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};

use super::phase::{Phase, restart};
use super::settings::{Arguments, access_log, catalog_settings, observers, server_settings, work_settings};
use super::{Front, Server, front, listen_for_administrators, reload_on_hangup};
use crate::ambient::utc_text;
use crate::backup::error::BackupError;
use crate::catalog::any::AnyCatalog;
use crate::catalog::embedded::Engine;
use crate::catalog::embedded::recovery::Recovery;
use crate::catalog::standby::StandbyCatalog;
use crate::cli::Exit;
use crate::cli::journaled::backup_place;
use crate::cli::opened::Opened;
use crate::cli::out::say;
use crate::config::{BackupRule, CatalogPlace, Config};
use crate::journal::follow::{FollowSettings, Follower, Following};
use crate::log::note;
use crate::metrics::{self, RequestMetrics};
use crate::object::Store;
use crate::threads;

/// Answer to requests that a standby does not execute.
const REFUSED: &str = "This gateway is a standby. Use the gateway that leads.";

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
    let backup = backup_place(place, &config, &backends)?;
    let backup = backup.ok_or_else(|| Exit::input("--follow: FILE has no [backup]"))?;
    let address = listener.local_addr().map_err(Exit::store)?;
    let (stop, shutdown) = watch::channel(false);
    watch_for_end(stop.clone(), arguments.until_stdin_closes);
    let runtime = runtime()?;
    let following = Following::new(url);
    let settings = FollowSettings { place: backup.place, limits, lease_ms, yields };
    let mut ends = shutdown.clone();
    let opened = runtime.block_on(async {
        tokio::select! {
            opened = Follower::open(root, settings, Arc::clone(&following)) => Some(opened),
            _ = ends.wait_for(|stop| *stop) => None,
        }
    });
    let Some(opened) = opened else { return Ok(()) };
    let follower = opened.map_err(|e| Exit::store(format!("{url}: {e}")))?;
    note(&format!("follows {url}; leads when no other gateway does, or after `plimsoll-gateway promote`"));
    let worker =
        Worker { following: Arc::clone(&following), every_ms: rule.every_ms, shutdown: shutdown.clone() };
    let (engine_sender, engine) = oneshot::channel();
    let thread = threads::spawn("follow", move || {
        let next = runtime.block_on(worker.run(follower, engine_sender));
        let _ = stop.send(true);
        next
    });
    let thread = thread.map_err(Exit::store)?;
    let served = engine.blocking_recv().map_or(Ok(None), |engine| {
        serve(arguments, config.clone(), listener, engine, &following, &shutdown).map(Some)
    });
    // After an error of this function, the process ends, and with it the thread.
    let admin = served?.flatten();
    let next = thread.join().unwrap_or(Next::End);
    following.wait_until_told(Duration::from_secs(2));
    admin.into_iter().for_each(Server::stop);
    match next {
        Next::Lead => Err(restart(Phase::lead(address))),
        Next::Reopen => Err(restart(Phase::follow(address, yields))),
        Next::End => Ok(()),
    }
}

fn runtime() -> Result<Runtime, Exit> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Exit::store)
}

/// The thread that follows.
struct Worker {
    following: Arc<Following>,
    every_ms: u64,
    shutdown: watch::Receiver<bool>,
}

impl Worker {
    async fn run(mut self, follower: Follower, engine: oneshot::Sender<Arc<Engine>>) -> Next {
        let mut follower = follower;
        let mut shutdown = self.shutdown.clone();
        let next = tokio::select! {
            next = self.follow(&mut follower, engine) => next,
            _ = shutdown.wait_for(|stop| *stop) => Next::End,
        };
        if next != Next::Reopen
            && let Err(error) = follower.close()
        {
            note(&format!("the copy of the catalog was not written to its end: {error}"));
        }
        next
    }

    async fn follow(&mut self, follower: &mut Follower, engine: oneshot::Sender<Arc<Engine>>) -> Next {
        let mut engine = Some(engine);
        loop {
            match follower.step().await {
                Ok(true) => {
                    let newest = self.following.state().newest_ms.map_or("nothing".into(), utc_text);
                    note(&format!("no other gateway leads; this one begins, with everything until {newest}"));
                    return Next::Lead;
                }
                Ok(false) => {}
                Err(BackupError::Gap) => {
                    note("the copy of the catalog has something else than the backup, and is made again");
                    return Next::Reopen;
                }
                Err(error) => {
                    if self.following.fail(error.to_string()) {
                        crate::log::warn(&format!("the standby does not follow: {error}"));
                    }
                }
            }
            if let Some(found) = follower.engine().cloned()
                && let Some(sender) = engine.take()
            {
                let _ = sender.send(found);
            }
            self.following.pause(follower.pause_ms(self.every_ms)).await;
        }
    }
}

/// Serves the copy, until the process follows no more.
fn serve(
    arguments: &Arguments,
    config: Config,
    listener: TcpListener,
    engine: Arc<Engine>,
    following: &Arc<Following>,
    shutdown: &watch::Receiver<bool>,
) -> Result<Option<Server>, Exit> {
    let place = &arguments.place;
    let Front { accounts, tls, scheme } = front(arguments)?;
    let catalog = StandbyCatalog::new(engine, Arc::clone(following), arguments.stale_reads);
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
    let shared = Shared::new(Parts { settings, accounts, tls, timing_log: None, observers });
    let store = Store::open(catalog, bodies, Arc::clone(&shared.memory));
    let store = Arc::new(store.map_err(|e| place.fail(&e))?);
    if let Some(address) = &arguments.metrics_listen {
        let bound = metrics::serve(address, &requests, &store, &work.survey, tariffs).map_err(|e| {
            Exit::input(format!("--metrics-listen {address}: {e}; choose another address or port"))
        })?;
        say(&format!("metrics on http://{bound}/metrics\n"))?;
    }
    reload_on_hangup(arguments, &shared, move || {
        reload_tiers(None);
        if let Some(Err(error)) = access_log.as_ref().map(|log| log.reopen()) {
            note(&format!("the access log was not opened again: {error}"));
        }
    });
    let admin = listen_for_administrators(arguments, &shared, &store, &work, recovery)?;
    let address = listener.local_addr().map_err(Exit::store)?;
    say(&format!("standby on {scheme}://{address}\n"))?;
    let served = if arguments.stale_reads {
        plimsoll_server::run(listener, &shared, &store, shutdown)
    } else {
        plimsoll_server::run_with(listener, &shared, &Arc::new(Refusing(REFUSED)), shutdown)
    };
    served.map_err(|e| Exit::store(format!("the server failed: {e}")))?;
    Ok(admin)
}
