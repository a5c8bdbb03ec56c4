//! Conversion of wall-clock times, such as the kernel's timestamps of packets, to the monotonic clock.
//!
//! Both clocks of Linux run at the same rate: corrections of the frequency apply to both. Their difference changes
//! only if somebody sets the wall clock (a step). [`sample`] measures the difference and reports steps; the threads
//! that detect pauses call it every millisecond, so that a step invalidates the timestamps of one millisecond at
//! most.

use std::sync::atomic::{AtomicI64, Ordering};

use rustix::time::ClockId;

use super::nanos;

/// Wall-clock time minus monotonic time, in nanoseconds; [`UNKNOWN`] before the first sample.
static OFFSET_NS: AtomicI64 = AtomicI64::new(UNKNOWN);

const UNKNOWN: i64 = i64::MIN;

/// Smallest change of the offset that counts as a step, in nanoseconds. It exceeds the error of an undisturbed
/// sample.
const MIN_STEP_NS: i64 = 2_000;

/// Longest time between the two monotonic readings of a good sample, in nanoseconds.
const GOOD_WIDTH_NS: u64 = 500;

/// Change of the wall clock by somebody who set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockStep {
    /// Time of its detection, in nanoseconds on the monotonic clock.
    pub at_ns: u64,
    /// New minus old wall-clock time, in nanoseconds.
    pub by_ns: i64,
}

/// Measures the offset once. Returns it with the time between the monotonic readings around it, which is twice the
/// largest possible error, and the time of the measurement; all in nanoseconds.
fn measure() -> (i64, u64, u64) {
    let before = nanos(ClockId::Monotonic);
    let wall = nanos(ClockId::Realtime);
    let after = nanos(ClockId::Monotonic);
    (wall as i64 - before.midpoint(after) as i64, after - before, after)
}

/// Measures the offset between the clocks and stores it. Returns the step of the wall clock since the last sample;
/// `None` if it was not set.
pub fn sample() -> Option<ClockStep> {
    let mut best = measure();
    let known = OFFSET_NS.load(Ordering::Relaxed);
    let differs = |(offset, width, _): &(i64, u64, u64)| {
        known != UNKNOWN && (offset - known).abs() > MIN_STEP_NS.max(*width as i64)
    };
    // A sample during which the thread was descheduled is too wide. Only a first sample, or one that seems to show a
    // step, must be narrow.
    for _ in 0..20 {
        if best.1 <= GOOD_WIDTH_NS || (known != UNKNOWN && !differs(&best)) {
            break;
        }
        let next = measure();
        if next.1 < best.1 {
            best = next;
        }
    }
    if known == UNKNOWN || differs(&best) {
        OFFSET_NS.store(best.0, Ordering::Relaxed);
        if known != UNKNOWN {
            return Some(ClockStep { at_ns: best.2, by_ns: best.0 - known });
        }
    }
    None
}

/// Converts a wall-clock time to the monotonic clock; both in nanoseconds. The error is below 1 us unless the wall
/// clock was set since the last sample.
#[inline]
pub fn to_monotonic(wall_ns: u64) -> u64 {
    let mut offset = OFFSET_NS.load(Ordering::Relaxed);
    if offset == UNKNOWN {
        sample();
        offset = OFFSET_NS.load(Ordering::Relaxed);
    }
    wall_ns.wrapping_add_signed(offset.wrapping_neg())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_time_converts_to_the_monotonic_time_of_the_same_instant() {
        let narrow = (0..100).map(|_| measure()).min_by_key(|m| m.1).unwrap();
        let wall = (narrow.2 as i64 + narrow.0) as u64;
        let error = to_monotonic(wall).abs_diff(narrow.2);
        assert!(error < 100_000 + narrow.1, "{error} ns");
    }

    #[test]
    fn samples_of_a_steady_clock_show_no_step() {
        sample();
        assert!((0..10_000).all(|_| sample().is_none()));
    }
}
