//! The clocks of Plimsoll. No other module reads a clock directly.
//!
//! Instants and durations are whole nanoseconds of `CLOCK_MONOTONIC` ([`now_ns`]). All processes of a machine share
//! this clock, so the timing log of the embedded server and the measurements of the client are comparable. Workers
//! wait on a timerfd ([`Timer`]), because the timer of the runtime has a resolution of one millisecond and would add
//! up to that to every open-loop latency.

pub mod wall;

use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;

use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// Number of nanoseconds in one second.
pub const SECOND: u64 = 1_000_000_000;
/// Number of nanoseconds in one millisecond.
pub const MILLISECOND: u64 = 1_000_000;

fn nanos(id: ClockId) -> u64 {
    let t = clock_gettime(id);
    t.tv_sec as u64 * SECOND + t.tv_nsec as u64
}

/// Returns the monotonic time, in nanoseconds since an arbitrary origin that all processes of the machine share.
#[inline]
pub fn now_ns() -> u64 {
    nanos(ClockId::Monotonic)
}

/// Returns the wall-clock time, for signatures, file names and results; never for latencies.
#[allow(clippy::disallowed_methods)]
pub fn wall_now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Returns the CPU time (user and system) that this process has used so far, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    nanos(ClockId::ProcessCPUTime)
}

/// Returns the CPU time (user and system) that the calling thread has used so far, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    nanos(ClockId::ThreadCPUTime)
}

/// Blocks the calling thread until the monotonic clock reads at least `at_ns`.
pub fn sleep_until(at_ns: u64) {
    while now_ns() < at_ns {
        let at = Timespec { tv_sec: (at_ns / SECOND) as i64, tv_nsec: (at_ns % SECOND) as i64 };
        // A signal ends the sleep early; the loop then continues it.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &at);
    }
}

/// Lets the kernel delay the sleeps of the calling thread by up to `slack_ns` nanoseconds, at least 1, to combine
/// wake-ups. The default is 50 us.
pub fn set_sleep_slack(slack_ns: u64) {
    // If the kernel refuses, the default remains.
    let _ = set_current_timer_slack(NonZeroU64::new(slack_ns.max(1)));
}

/// A one-shot timer with nanosecond resolution. It must be used inside a runtime with I/O enabled.
pub struct Timer {
    fd: AsyncFd<OwnedFd>,
}

impl Timer {
    /// Creates an unarmed timer.
    ///
    /// # Errors
    /// If the process has run out of file descriptors.
    #[allow(unsafe_code)]
    pub fn new() -> io::Result<Timer> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // SAFETY: an `OwnedFd` always names the one open descriptor that it owns, and `AsyncFd` owns the `OwnedFd`.
        Ok(Timer { fd: unsafe { AsyncFd::register(fd) }? })
    }

    /// Waits until the monotonic clock reads at least `at_ns`. Returns immediately if it already does.
    ///
    /// # Errors
    /// If the kernel cannot arm the timer.
    pub async fn until(&mut self, at_ns: u64) -> io::Result<()> {
        while now_ns() < at_ns {
            let at = Timespec { tv_sec: (at_ns / SECOND) as i64, tv_nsec: (at_ns % SECOND) as i64 };
            let spec = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
            timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &spec)?;
            // Arming the timer again also clears its expirations, so that they need not be read.
            self.fd.readable().await?.clear_ready();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_never_returns_early() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let mut timer = Timer::new().unwrap();
            for step in [0, 1_000, 250_000, 2_000_000] {
                let at = now_ns() + step;
                timer.until(at).await.unwrap();
                assert!(now_ns() >= at);
            }
            timer.until(0).await.unwrap();
        });
    }

    #[test]
    fn cpu_time_grows_with_work() {
        let before = (thread_cpu_ns(), process_cpu_ns());
        let mut x = 1u64;
        while thread_cpu_ns() == before.0 {
            x = x.wrapping_mul(3);
        }
        assert!(process_cpu_ns() > before.1 && x != 0);
    }
}
