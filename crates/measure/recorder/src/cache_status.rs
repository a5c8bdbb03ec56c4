//! The cache status of a response, as reported by caches between the client and the origin.

use std::fmt;

/// The source of a response: a cache or the origin server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheStatus {
    /// The response came from the cache.
    Hit,
    /// The response came from the cache, after the origin server confirmed that it is still valid.
    Revalidated,
    /// The response came from the origin server.
    Miss,
    /// The response came from the origin server, because it is not cacheable.
    Bypass,
}

impl CacheStatus {
    /// All statuses, in the order of declaration.
    pub const ALL: [CacheStatus; 4] =
        [CacheStatus::Hit, CacheStatus::Revalidated, CacheStatus::Miss, CacheStatus::Bypass];

    /// Returns the name used in results.
    pub fn name(self) -> &'static str {
        match self {
            CacheStatus::Hit => "hit",
            CacheStatus::Revalidated => "revalidated",
            CacheStatus::Miss => "miss",
            CacheStatus::Bypass => "bypass",
        }
    }
}

impl fmt::Display for CacheStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
