//! Runs an experiment on several hosts without a cluster: `--shard I/N --start-at TIME`.
//!
//! Each host executes every N-th operation of the same experiment with one N-th of every limit. It prepares its part of
//! the objects immediately, and starts to measure at TIME by its own clock. Shards detect each other only by the marker
//! object that each writes after its preparation; no shard waits for a missing marker.

use std::sync::{Arc, Mutex, PoisonError};

use super::error::RunError;
use super::observer::RunObserver;
use super::rendezvous::{Rendezvous, Sharding};
use super::runtime::block_on;
use super::settings::Components;
use plimsoll_base::clock::{MILLISECOND, SECOND, Timer, now_ns, wall_now};
use plimsoll_base::rng::{hash_name, mix};
use plimsoll_engine::driver::background::Background;
use plimsoll_engine::driver::clean::shard_markers;
use plimsoll_engine::driver::{Control, Shard, Site};
use plimsoll_engine::store::ownership::RunId;
use plimsoll_engine::store::{Body, Request};
use plimsoll_experiment::Experiment;
use plimsoll_experiment::to_toml::to_toml;
use plimsoll_judge::run_dir::environment::Environment;
use plimsoll_judge::summary::result::{RunResult, ShardInfo};
use plimsoll_workload::Dataset;
use plimsoll_workload::schedule::Role;
use plimsoll_workload::schedule::plan::Order;
use plimsoll_workload::schedule::ramp::Stop;

/// Maximum number of shards, whose markers fit on one page of a listing.
const MAX_SHARDS: u64 = 1_000;

/// Parses `I/N`, where I counts from 1.
///
/// # Errors
/// A message for the user if the text is not of this form or is out of range.
pub fn parse_shard(text: &str) -> Result<Shard, String> {
    let wrong =
        || format!("--shard {text} is not valid; use I/N with 1 <= I <= N <= {MAX_SHARDS}, such as 1/4");
    let (index, of) = text.split_once('/').ok_or_else(wrong)?;
    let (index, of): (u64, u64) = (index.parse().map_err(|_| wrong())?, of.parse().map_err(|_| wrong())?);
    if index == 0 || index > of || of > MAX_SHARDS {
        return Err(wrong());
    }
    Ok(Shard { index: index - 1, of })
}

/// Parses the value of `--start-at`: RFC 3339, Unix seconds, or a time from now such as `+30s`.
///
/// # Errors
/// A message for the user if the text has none of these forms.
pub fn parse_start(text: &str) -> Result<jiff::Timestamp, String> {
    let wrong = || {
        format!(
            "--start-at {text}: use the same time for all shards, such as 2026-11-21T12:00:00Z or \
             1795262400 (Unix seconds), or use a delay for this host only, such as +30s"
        )
    };
    if let Some(wait) = text.strip_prefix('+') {
        let ns = plimsoll_base::units::parse_duration(wait).map_err(|_| wrong())?;
        return wall_now().checked_add(jiff::SignedDuration::from_nanos(ns as i64)).map_err(|_| wrong());
    }
    if let Ok(seconds) = text.parse::<f64>() {
        return jiff::Timestamp::from_nanosecond((seconds * 1e9) as i128).map_err(|_| wrong());
    }
    text.parse().map_err(|_| wrong())
}

/// Checks that an experiment can be split into shards. `coordinated` is true if the shards are those of a fleet.
///
/// # Errors
/// [`RunError::Input`] with the reason if it cannot.
pub fn check(experiment: &Experiment, shard: Shard, coordinated: bool) -> Result<(), RunError> {
    for phase in &experiment.phases {
        let connections = phase.load.slots() as u64;
        if connections < shard.of {
            return Err(RunError::input(format!(
                "--shard: phase '{}' has {connections} operations in flight for {} shards; \
                 set at least one operation per shard",
                phase.name, shard.of
            )));
        }
        if !coordinated && phase.ramp.is_some_and(|ramp| ramp.stop != Stop::Never) {
            return Err(RunError::input(format!(
                "--shard: phase '{}' ends at its plateau, which a single shard cannot detect; \
                 use plimsoll fleet run, or set stop = \"never\" and a value for to",
                phase.name
            )));
        }
    }
    if experiment.stores.len() > 1 && experiment.order == Order::Sequential {
        return Err(RunError::input(
            "--shard: several stores must be interleaved; set order = \"interleaved\"",
        ));
    }
    if experiment.stores.iter().any(|s| s == "embedded:" || s == "memory:") {
        return Err(RunError::input(
            "--shard: shards cannot share an embedded: or memory: store; start a server with `plimsoll serve`",
        ));
    }
    Ok(())
}

impl Sharding {
    /// Returns the id that all shards of this run share, derived from start time, experiment and number of shards.
    pub fn group(&self, experiment: &Experiment) -> RunId {
        RunId::at(self.start_at, mix(hash_name(&to_toml(experiment)) ^ self.shard.of))
    }

    /// Returns the run id of this shard.
    pub fn run_id(&self, group: &str) -> String {
        format!("{group}.{}of{}", self.shard.index + 1, self.shard.of)
    }
}

/// Returns a wall-clock time on the monotonic clock, in nanoseconds.
fn monotonic_ns(at: jiff::Timestamp) -> u64 {
    let ahead = at.as_nanosecond() - wall_now().as_nanosecond();
    (i128::from(now_ns()) + ahead).max(0) as u64
}

/// Announces to the other shards that this one has prepared, and counts the prepared shards at the start.
#[derive(Clone)]
pub struct Prepared {
    sharding: Sharding,
    markers: Option<Dataset>,
    sites: Vec<Site>,
    control: Arc<Control>,
    rendezvous: Option<Arc<dyn Rendezvous>>,
    seen: Arc<Mutex<Option<u64>>>,
    /// Start on this host's clock, and this host's clock minus the reference clock in seconds, if known.
    start: Arc<Mutex<(jiff::Timestamp, Option<f64>)>>,
    observer: Arc<dyn RunObserver>,
}

impl Prepared {
    /// Creates the announcement of a shard. An experiment that prepares nothing needs no markers.
    pub fn new(
        sharding: &Sharding,
        experiment: &Experiment,
        sites: &[Site],
        control: &Arc<Control>,
        components: &Components,
    ) -> Prepared {
        Prepared {
            sharding: sharding.clone(),
            markers: experiment.prepares().then(|| shard_markers(experiment.seed, sharding.shard.of)),
            sites: sites.to_vec(),
            control: Arc::clone(control),
            seen: Arc::default(),
            start: Arc::new(Mutex::new((sharding.start_at, sharding.host_offset_s))),
            rendezvous: components.rendezvous.clone(),
            observer: Arc::clone(&components.observer),
        }
    }

    /// Writes this shard's marker, waits until just before the start, and counts the markers of all shards. Returns the
    /// start on the monotonic clock, in nanoseconds.
    pub fn announce(&self) -> u64 {
        let Some(markers) = &self.markers else {
            let _ = block_on(self.wait_for_start());
            return self.start_ns();
        };
        let seen = block_on(async {
            let mut least = self.sharding.shard.of;
            for site in &self.sites {
                let mut key = String::new();
                markers.key_into(&mut key, site.space.root(), self.sharding.shard.index);
                let body = Body::Whole(Vec::new().into());
                let put = Request::Put { key: &key, body };
                if Background::new(site.store.as_ref()).send_until_answered(put).await.is_err() {
                    least = 0;
                }
            }
            self.wait_for_start().await;
            for site in &self.sites {
                let prefix = markers.prefix(site.space.root());
                let list = Request::List { prefix: &prefix, start_after: "", token: "", max_keys: 1000 };
                let found = Background::new(site.store.as_ref()).send_until_answered(list).await;
                let there = found.ok().and_then(|r| r.listing).map_or(0, |l| l.objects.len() as u64);
                least = least.min(there);
            }
            least
        });
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen.ok();
        self.start_ns()
    }

    fn start(&self) -> (jiff::Timestamp, Option<f64>) {
        *self.start.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the start on the monotonic clock, in nanoseconds.
    fn start_ns(&self) -> u64 {
        monotonic_ns(self.start().0)
    }

    /// Waits until 300 ms before the start, or until the run is stopped.
    async fn wait_for_start(&self) {
        if let Some(rendezvous) = &self.rendezvous {
            let (at, offset_s) = rendezvous.start(&self.control).unwrap_or((wall_now(), 0.0));
            *self.start.lock().unwrap_or_else(PoisonError::into_inner) = (at, Some(offset_s));
        }
        let until = self.start_ns().saturating_sub(300 * MILLISECOND);
        let Ok(mut timer) = Timer::new() else { return };
        if until > now_ns() + SECOND {
            self.observer.note(&format!(
                "prepared; waiting until {} ({} s)",
                self.start().0,
                (until - now_ns()) / SECOND
            ));
        }
        while now_ns() < until && self.control.stopped_at().is_none() {
            let _ = timer.until(until.min(now_ns() + 100 * MILLISECOND)).await;
        }
    }

    /// Returns the entry of this shard in the result.
    pub fn info(&self, id: &str, result: &RunResult, environment: &Environment) -> ShardInfo {
        let (start_at, host_offset_s) = self.start();
        // A fleet's start is a time of this host's clock; the result has that of the reference clock.
        let offset_s = self.rendezvous.as_ref().and(host_offset_s).unwrap_or(0.0);
        let start = start_at.as_nanosecond() as f64 / 1e9 - offset_s;
        let first = result.windows.iter().find(|w| w.role != Role::Prepare).map(|w| w.start_unix_s);
        ShardInfo {
            shard: self.sharding.shard.index + 1,
            of: self.sharding.shard.of,
            run: id.to_string(),
            start_at_unix_s: start,
            start_late_s: first.map(|at| at - start),
            clock_offset_s: environment.stores.iter().find_map(|s| s.clock_offset_s).map(|s| s as f64),
            host_offset_s,
            prepared: *self.seen.lock().unwrap_or_else(PoisonError::into_inner),
            // Cleared at the end of a complete run.
            partial: true,
        }
    }

    /// Waits before clean-up, because shards that lag slightly behind may still be reading the objects: until a fleet's
    /// coordinator reports the end of all shards, else for 2 s. Synchronized clocks differ by less.
    ///
    /// Returns true if this shard must delete the objects of all shards.
    pub fn wait_for_the_others(&self) -> bool {
        if let Some(rendezvous) = &self.rendezvous {
            return rendezvous.wait_for_the_others(&self.control);
        }
        if self.markers.is_some() && self.control.stopped_at().is_none() {
            let until = now_ns() + 2 * SECOND;
            let _ = block_on(async {
                if let Ok(mut timer) = Timer::new() {
                    let _ = timer.until(until).await;
                }
            });
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_and_start_times_are_parsed() {
        assert_eq!(parse_shard("1/1"), Ok(Shard { index: 0, of: 1 }));
        assert_eq!(parse_shard("3/8"), Ok(Shard { index: 2, of: 8 }));
        for bad in ["", "3", "0/3", "4/3", "a/b", "1/0", "1/2/3"] {
            assert!(parse_shard(bad).unwrap_err().contains("I/N"), "{bad}");
        }
        let at = parse_start("2026-11-21T12:00:00Z").unwrap();
        assert_eq!(parse_start("1795262400").unwrap(), at);
        assert!(parse_start("+1h").unwrap() > wall_now());
        for bad in ["", "noon", "+5", "2026-13-01T00:00:00Z"] {
            assert!(parse_start(bad).unwrap_err().contains("--start-at"), "{bad}");
        }
    }

    #[test]
    fn the_shares_of_all_shards_add_up_to_the_total() {
        for (connections, of) in [(100, 8), (8, 8), (9, 2), (1024, 3)] {
            let total: usize = (0..of).map(|index| Shard { index, of }.share(connections)).sum();
            assert_eq!(total, connections);
        }
    }
}
