//! The time and the random numbers of this process. Simulations replace them.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;

use crate::liveness;

/// Returns the wall clock time.
pub fn wall_now() -> Timestamp {
    #[cfg(any(test, feature = "simulation"))]
    if let Some(now) = crate::simulated::now() {
        return now;
    }
    plimsoll_base::clock::wall_now()
}

/// Returns the Unix time in milliseconds.
pub fn now_ms() -> u64 {
    wall_now().as_millisecond() as u64
}

/// Returns a Unix time in milliseconds as text, such as `2026-01-02T03:04:05.678Z`.
pub fn utc_text(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| "an unknown time".into(), |time| format!("{time:.3}"))
}

/// Shared Unix time minus the monotonic time of this machine, in milliseconds; the minimum before the first reading.
static SHARED_OFFSET_MS: AtomicI64 = AtomicI64::new(i64::MIN);

fn monotonic_ms() -> i64 {
    (plimsoll_base::clock::now_ns() / 1_000_000).cast_signed()
}

/// Records the Unix time in milliseconds of the clock that all gateways share.
pub fn set_shared_ms(shared_ms: u64) {
    #[cfg(any(test, feature = "simulation"))]
    if crate::simulated::now().is_some() {
        return;
    }
    // The difference to the monotonic clock is stored: a step of the wall clock between two readings has no effect.
    SHARED_OFFSET_MS.store(shared_ms.cast_signed() - monotonic_ms(), Ordering::Relaxed);
}

/// Returns the Unix time in milliseconds of the clock that all gateways share. A wrong clock of this machine has no
/// effect on it. Without a shared clock, this is the clock of this machine.
pub fn shared_now_ms() -> u64 {
    #[cfg(any(test, feature = "simulation"))]
    if crate::simulated::now().is_some() {
        return crate::simulated::now_ms();
    }
    match SHARED_OFFSET_MS.load(Ordering::Relaxed) {
        i64::MIN => now_ms(),
        offset_ms => (monotonic_ms() + offset_ms).max(0).cast_unsigned(),
    }
}

/// Returns the milliseconds since the start of the machine, also while it sleeps. A change of the clock has no effect
/// on it.
pub fn steady_ms() -> u64 {
    #[cfg(any(test, feature = "simulation"))]
    if let Some(ms) = crate::simulated::steady_ms() {
        return ms;
    }
    // Boottime, because a lease must also end while the machine sleeps: another process may lead when it wakes up.
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    (time.tv_sec.max(0) as u64) * 1000 + (time.tv_nsec.max(0) as u64) / 1_000_000
}

/// Returns a number that differs between calls, processes and machines.
pub fn entropy() -> u64 {
    #[cfg(any(test, feature = "simulation"))]
    if let Some(number) = crate::simulated::entropy() {
        return number;
    }
    plimsoll_base::rng::entropy()
}

/// Waits for a future, at most for a time; `None` if it takes longer. Without a clock to wait for, as in simulations,
/// it waits until the future is ready.
pub async fn in_time<T>(time: Duration, future: impl Future<Output = T>) -> Option<T> {
    #[cfg(any(test, feature = "simulation"))]
    if crate::simulated::now().is_some() {
        return Some(future.await);
    }
    // Outside a runtime, `timeout` would panic: commands and threads wait with `block_on`.
    match tokio::runtime::Handle::try_current() {
        Ok(_) => tokio::time::timeout(time, future).await.ok(),
        Err(_) => Some(future.await),
    }
}

/// Waits. The error of up to a millisecond does not matter here. A loop of the background work is in time until the end
/// of the pause.
pub async fn pause(ms: u64) {
    liveness::hang_in_tests().await;
    // Reported before the wait: a pause that is longer than the limit of a stall must not look like one.
    liveness::rest_until(plimsoll_base::clock::now_ns().saturating_add(ms.saturating_mul(1_000_000)));
    #[allow(clippy::disallowed_methods)]
    tokio::time::sleep(Duration::from_millis(ms)).await;
    liveness::at("its next step");
}
