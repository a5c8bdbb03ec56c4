//! A limit of requests per second, as a bucket of tokens that holds a tenth of a second.

use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_base::clock::SECOND;

/// A token bucket, stored as the time at which it will be full.
#[derive(Debug)]
pub struct TokenBucket {
    /// Time in which one token is added, in nanoseconds.
    cost_ns: u64,
    full_at_ns: AtomicU64,
}

impl TokenBucket {
    /// Creates a full bucket to which `per_s` tokens are added per second.
    pub fn new(per_s: f64) -> TokenBucket {
        TokenBucket { cost_ns: (SECOND as f64 / per_s) as u64, full_at_ns: AtomicU64::new(0) }
    }

    /// Takes a token at `now_ns`; returns false if there is none.
    pub fn take(&self, now_ns: u64) -> bool {
        let (cost, depth) = (self.cost_ns, SECOND / 10);
        let take = |full: u64| {
            let full = full.max(now_ns);
            (full - now_ns + cost <= depth.max(cost)).then_some(full + cost)
        };
        self.full_at_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}
