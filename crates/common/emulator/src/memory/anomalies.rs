//! Injected violations of consistency: reads of old states and of mixed contents, and conditional writes that are
//! acknowledged but not stored.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::object::{Object, Objects};
use crate::inject::{Lag, Spec};
use plimsoll_base::clock::{Timer, now_ns};
use plimsoll_base::rng::Stream;

/// Violations to inject. Without any, every operation is linearizable.
#[derive(Debug)]
pub struct Anomalies {
    /// Time after which reads and listings return a write or delete.
    stale: Lag,
    /// Time after which listings return a write or delete, if it is longer.
    stale_list: Lag,
    lags: Stream,
    changes: AtomicU64,
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
        let is_stale = spec.stale.share > 0.0 || spec.stale_list.share > 0.0;
        (is_stale || spec.lost_conditional > 0.0 || spec.torn > 0.0).then(|| Anomalies {
            stale: spec.stale,
            stale_list: spec.stale_list,
            lags: Stream::new(spec.seed, "visibility"),
            changes: AtomicU64::new(0),
            torn: spec.torn,
            overwrites: AtomicU64::new(0),
            mixed: Mutex::default(),
            lost: spec.lost_conditional,
            draws: Stream::new(spec.seed, "lost conditional writes"),
            conditional_writes: AtomicU64::new(0),
        })
    }

    /// Returns true if reads or listings may return old states.
    pub fn is_stale(&self) -> bool {
        self.stale.share > 0.0 || self.stale_list.share > 0.0
    }

    /// Records in the past of a bucket that an object is replaced now, and when this becomes visible.
    pub fn replaced(&self, past: &mut Past, key: &str, previous: Previous) {
        let number = self.changes.fetch_add(1, Ordering::Relaxed);
        let reads = self.stale.draw(self.lags, 2 * number);
        let listings = reads.max(self.stale_list.draw(self.lags, 2 * number + 1));
        let now = now_ns();
        let visible_ns = [reads, listings].map(|lag_ns| now.saturating_add(lag_ns));
        past.forget(now.saturating_sub(self.stale.most_ns.max(self.stale_list.most_ns)));
        past.record(key, Replaced { at_ns: now, visible_ns, previous });
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

/// The change of an object.
struct Replaced {
    /// Time of the change, in nanoseconds on the monotonic clock.
    at_ns: u64,
    /// Times from which reads and listings return it, by [`View`].
    visible_ns: [u64; 2],
    previous: Previous,
}

/// Requests that may return an old state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Reads of objects.
    Reads,
    /// Listings of keys.
    Listings,
}

/// Previous states of the objects of a bucket.
#[derive(Default)]
pub struct Past {
    /// Changes by key, in order of time.
    replaced: HashMap<String, VecDeque<Replaced>>,
    /// Times and keys of all replacements, in order of time.
    order: VecDeque<(u64, String)>,
}

impl Past {
    /// Forgets the changes until `until_ns`.
    fn forget(&mut self, until_ns: u64) {
        while let Some((at_ns, key)) = self.order.pop_front_if(|(at_ns, _)| *at_ns < until_ns) {
            if let Some(queue) = self.replaced.get_mut(&key) {
                queue.retain(|replaced| replaced.at_ns > at_ns);
                if queue.is_empty() {
                    self.replaced.remove(&key);
                }
            }
        }
    }

    fn record(&mut self, key: &str, replaced: Replaced) {
        self.order.push_back((replaced.at_ns, key.to_string()));
        self.replaced.entry(key.to_string()).or_default().push_back(replaced);
    }

    /// Returns the object of `key` after the last visible change. `current` is the object after the last change.
    pub fn object(&self, key: &str, current: Previous, view: View) -> Previous {
        let now = now_ns();
        let changes = self.replaced.get(key).into_iter().flatten().rev();
        let hidden = changes.take_while(|replaced| replaced.visible_ns[view as usize] > now);
        hidden.last().map_or(current, |replaced| replaced.previous.clone())
    }

    /// Returns the objects that the bucket seems to have in listings.
    pub fn objects(&self, current: &Objects) -> Objects {
        let mut objects = current.clone();
        for key in self.replaced.keys() {
            match self.object(key, current.get(key).cloned(), View::Listings) {
                Some(object) => objects.insert(key.clone(), object),
                None => objects.remove(key),
            };
        }
        objects
    }
}
