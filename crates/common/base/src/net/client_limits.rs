//! Limits on the duration of a request and on the size of its response.
//!
//! The deadline is global, because credential chains reach the network through a library that has no way to pass
//! settings. The command line sets it once, from `--timeout`. Measured operations use the deadline of their phase
//! instead.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Deadline of a request if `--timeout` is not given.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum duration of a TCP or TLS handshake, long enough for three SYN retransmissions on Linux.
const MAX_CONNECT: Duration = Duration::from_secs(10);

/// Maximum size, in bytes, of a response that is not an object. A listing of 1,000 keys of 1,024 characters, all
/// escaped, has 6 MB.
pub const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// Maximum size of the response of a credential service, in bytes.
pub const MAX_CREDENTIAL_BYTES: usize = 256 << 10;

static TIMEOUT_NS: AtomicU64 = AtomicU64::new(DEFAULT_TIMEOUT.as_nanos() as u64);

/// Sets the global deadline.
pub fn set_timeout(timeout: Duration) {
    TIMEOUT_NS.store(timeout.as_nanos() as u64, Ordering::Relaxed);
}

/// Returns the deadline of a request outside measured phases, including its retries.
pub fn timeout() -> Duration {
    Duration::from_nanos(TIMEOUT_NS.load(Ordering::Relaxed))
}

/// Returns the deadline of a TCP or TLS handshake: the global one, at most 10 seconds.
pub fn connect_timeout() -> Duration {
    timeout().min(MAX_CONNECT)
}
