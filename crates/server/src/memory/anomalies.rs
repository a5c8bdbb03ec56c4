//! Injected violations of consistency: reads of old states and of mixed contents, and conditional writes that are
//! acknowledged but not stored.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::object::{Object, Objects};
use crate::inject::Spec;
use plimsoll_base::clock::{Timer, now_ns};
use plimsoll_base::rng::Stream;

/// Violations to inject. Without any, every operation is linearizable.
#[derive(Debug)]
pub struct Anomalies {
    /// Reads and listings return the state of this many nanoseconds ago.
    pub stale_ns: u64,
    /// Listings return the state of this many nanoseconds ago.
    pub stale_list_ns: u64,
    /// Share of overwrites, from 0 to 1, during which reads return parts of both contents.
    pub torn: f64,
    overwrites: AtomicU64,
    /// Mixed contents that reads return now, by key.
    mixed: Mutex<HashMap<String, Arc<Object>>>,
    /// Share of successful conditional writes, from 0 to 1, that are not stored.
    pub lost: f64,
    draws: Stream,
    conditional_writes: AtomicU64,
}

impl Anomalies {
    /// Returns the anomalies among the faults to inject; `None` if there are none.
    pub fn of(spec: &Spec) -> Option<Anomalies> {
        let is_stale = spec.stale_ns > 0 || spec.stale_list_ns > 0;
        (is_stale || spec.lost_conditional > 0.0 || spec.torn > 0.0).then(|| Anomalies {
            stale_ns: spec.stale_ns,
            stale_list_ns: spec.stale_list_ns.max(spec.stale_ns),
            torn: spec.torn,
            overwrites: AtomicU64::new(0),
            mixed: Mutex::default(),
            lost: spec.lost_conditional,
            draws: Stream::new(spec.seed, "lost conditional writes"),
            conditional_writes: AtomicU64::new(0),
        })
    }

    /// Returns true if the next conditional write is to be lost.
    pub fn loses_write(&self) -> bool {
        self.lost > 0.0
            && self.draws.unit(self.conditional_writes.fetch_add(1, Ordering::Relaxed)) < self.lost
    }

    /// Returns true if the next overwrite is to be torn.
    pub fn tears_write(&self) -> bool {
        // The same draws as for conditional writes, from the other end.
        self.torn > 0.0
            && self.draws.unit(u64::MAX - self.overwrites.fetch_add(1, Ordering::Relaxed)) < self.torn
    }

    /// Lets reads of `key` return `mixed` for a while.
    ///
    /// # Errors
    /// If there is no timer.
    pub async fn tear(&self, key: &str, mixed: Object) -> std::io::Result<()> {
        self.all_mixed().insert(key.to_string(), Arc::new(mixed));
        let waited = match Timer::new() {
            Ok(mut timer) => timer.until(now_ns() + TORN_NS).await,
            Err(error) => Err(error),
        };
        self.all_mixed().remove(key);
        waited
    }

    fn all_mixed(&self) -> MutexGuard<'_, HashMap<String, Arc<Object>>> {
        self.mixed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the mixed content that a read of `key` gets now; `None` if there is none.
    pub fn mixed(&self, key: &str) -> Option<Arc<Object>> {
        self.all_mixed().get(key).map(Arc::clone)
    }
}

/// Duration of a torn overwrite, in nanoseconds.
const TORN_NS: u64 = 3_000_000;

/// Object that a write or delete replaced; `None` if there was none.
type Previous = Option<Arc<Object>>;

/// Previous states of the objects of a bucket.
#[derive(Default)]
pub struct Past {
    /// Replaced objects by key, with the time of their replacement, in order of time.
    replaced: HashMap<String, VecDeque<(u64, Previous)>>,
    /// Times and keys of all replacements, in order of time.
    order: VecDeque<(u64, String)>,
}

impl Past {
    /// Records that `previous` was replaced now, and forgets the states that are older than `stale_ns`.
    pub fn record(&mut self, key: &str, previous: Previous, stale_ns: u64) {
        let now = now_ns();
        while let Some((at_ns, old)) = self.order.front().filter(|(at_ns, _)| at_ns + stale_ns < now) {
            let (at_ns, old) = (*at_ns, old.clone());
            if let Some(queue) = self.replaced.get_mut(&old) {
                queue.retain(|(replaced_ns, _)| *replaced_ns > at_ns);
                if queue.is_empty() {
                    self.replaced.remove(&old);
                }
            }
            self.order.pop_front();
        }
        self.replaced.entry(key.to_string()).or_default().push_back((now, previous));
        self.order.push_back((now, key.to_string()));
    }

    /// Returns the object that `key` had `stale_ns` ago; `current` if it was not replaced since.
    pub fn object(&self, key: &str, current: Previous, stale_ns: u64) -> Previous {
        let then = now_ns().saturating_sub(stale_ns);
        let replaced = self.replaced.get(key).into_iter().flatten();
        let first = replaced.filter(|(at_ns, _)| *at_ns > then).map(|(_, previous)| previous.clone()).next();
        first.unwrap_or(current)
    }

    /// Returns the objects of the bucket as they were `stale_ns` ago.
    pub fn objects(&self, current: &Objects, stale_ns: u64) -> Objects {
        let mut objects = current.clone();
        for key in self.replaced.keys() {
            match self.object(key, current.get(key).cloned(), stale_ns) {
                Some(object) => objects.insert(key.clone(), object),
                None => objects.remove(key),
            };
        }
        objects
    }
}
