//! Pauses between looks at a server that starts or ends.

use std::time::Duration;

use plimsoll_base::clock::{Timer, now_ns};
use plimsoll_session::runtime::block_on;

/// Waits for a duration.
pub async fn pause(duration: Duration) {
    if let Ok(mut timer) = Timer::new() {
        let _ = timer.until(now_ns() + duration.as_nanos() as u64).await;
    }
}

/// Blocks the thread for a duration. It must not execute futures.
pub fn block_for(duration: Duration) {
    let _ = block_on(pause(duration));
}

/// A limit that begins with its creation.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    end_ns: u64,
}

impl Limit {
    /// Begins a limit.
    pub fn new(duration: Duration) -> Limit {
        Limit { end_ns: now_ns() + duration.as_nanos() as u64 }
    }

    /// Returns true if the limit has passed.
    pub fn is_over(self) -> bool {
        now_ns() >= self.end_ns
    }
}
