//! The injected cache of `plimsoll serve --inject cache=64MiB/5ms`: reads of objects that it does not hold take longer.

use std::sync::{Mutex, PoisonError};

use http::Method;
use lru::LruCache;

/// Size of a cache and the delay of its misses, as written in `--inject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSpec {
    /// Maximum total size of the cached objects in bytes.
    pub bytes: u64,
    /// Delay of a read that misses, in nanoseconds.
    pub miss_ns: u64,
}

/// Cache of whole objects that forgets the least recently read ones. A write or a deletion removes the object.
pub struct Cache {
    spec: CacheSpec,
    held: Mutex<Held>,
}

struct Held {
    /// Sizes of the cached objects by path.
    sizes: LruCache<String, u64>,
    /// Sum of the sizes in bytes.
    bytes: u64,
}

impl Cache {
    /// Creates an empty cache.
    pub fn new(spec: CacheSpec) -> Cache {
        Cache { spec, held: Mutex::new(Held { sizes: LruCache::unbounded(), bytes: 0 }) }
    }

    /// Updates the cache with a successful request for an object of `size` bytes. Returns the delay of its response in
    /// nanoseconds.
    pub fn access(&self, method: &Method, path: &str, size: u64) -> u64 {
        let is_object = path.trim_start_matches('/').split_once('/').is_some_and(|(_, key)| !key.is_empty());
        if !is_object {
            return 0;
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match *method {
            Method::GET if held.sizes.get(path).is_some() => 0,
            Method::GET => {
                held.add(path, size, self.spec.bytes);
                self.spec.miss_ns
            }
            Method::PUT | Method::DELETE | Method::POST => {
                held.remove(path);
                0
            }
            _ => 0,
        }
    }
}

impl Held {
    fn add(&mut self, path: &str, size: u64, most: u64) {
        if size > most {
            return;
        }
        self.sizes.put(path.to_string(), size);
        self.bytes += size;
        while self.bytes > most {
            let Some((_, size)) = self.sizes.pop_lru() else { return };
            self.bytes -= size;
        }
    }

    fn remove(&mut self, path: &str) {
        if let Some(size) = self.sizes.pop(path) {
            self.bytes -= size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_read_object_is_forgotten() {
        let cache = Cache::new(CacheSpec { bytes: 30, miss_ns: 7 });
        let read = |key: &str| cache.access(&Method::GET, &format!("/bucket/{key}"), 10);
        assert_eq!(["a", "b", "c", "a", "b", "c"].map(read), [7, 7, 7, 0, 0, 0]);
        // d replaces a, the least recently read one.
        assert_eq!(["d", "b", "c", "a"].map(read), [7, 0, 0, 7]);
        assert_eq!(cache.access(&Method::PUT, "/bucket/c", 0), 0);
        assert_eq!(["c", "c"].map(read), [7, 0]);
        let large = |key: &str| cache.access(&Method::GET, &format!("/bucket/{key}"), 31);
        assert_eq!(["large", "large"].map(large), [7, 7]);
        assert_eq!(cache.access(&Method::GET, "/bucket", 10), 0);
        assert_eq!(cache.access(&Method::HEAD, "/bucket/z", 10), 0);
    }
}
