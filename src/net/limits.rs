//! Limits of every exchange with a peer: how long it may take, how much it may answer.
//!
//! The deadline is one figure per process, because credential chains reach the network through a library that carries no settings.
//! The command line sets it once, from `--timeout`. Measured operations have the deadline of their phase instead.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The deadline unless `--timeout` says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest time for a TCP or a TLS handshake; three SYN retransmissions of Linux fit in it.
const MOST_CONNECT: Duration = Duration::from_secs(10);

/// Most bytes of an answer that is not an object. A listing of 1,000 keys of 1,024 characters, each escaped, has 6 MB.
pub const MOST_ANSWER_BYTES: usize = 16 << 20;

/// Most bytes of the answer of a credential service.
pub const MOST_CREDENTIAL_BYTES: usize = 256 << 10;

static TIMEOUT_NS: AtomicU64 = AtomicU64::new(DEFAULT_TIMEOUT.as_nanos() as u64);

/// Sets the deadline of the process.
pub fn set_timeout(timeout: Duration) {
    TIMEOUT_NS.store(timeout.as_nanos() as u64, Ordering::Relaxed);
}

/// Deadline of an exchange that no phase measures, retries included.
pub fn timeout() -> Duration {
    Duration::from_nanos(TIMEOUT_NS.load(Ordering::Relaxed))
}

/// Deadline of a TCP or TLS handshake.
pub fn connect_timeout() -> Duration {
    timeout().min(MOST_CONNECT)
}
