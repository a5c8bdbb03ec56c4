//! State of a tier as its requests find it, and the time that a read waits for it if another place has the same bytes.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_base::clock::{SECOND, now_ns};

/// Number of failures in a row after which a tier is left out.
const FAILURES: u32 = 3;
/// Time in nanoseconds for which a tier is left out before one read tries it again.
const REST_NS: u64 = 5 * SECOND;
/// Bounds of the time in microseconds that a read waits.
const PATIENCE_US: (u64, u64) = (200_000, 2_000_000);
/// Time in microseconds that a read waits before the first answer is known.
const FIRST_US: u64 = 500_000;

/// State of a tier as its reads find it.
#[derive(Debug, Default)]
pub struct Health {
    /// Failures since the last success.
    failures: AtomicU32,
    /// Monotonic time of the last failure.
    failed_ns: AtomicU64,
    /// Monotonic time until which the tier is left out.
    rests_until_ns: AtomicU64,
    /// Smoothed time to an answer, and its smoothed deviation, in microseconds; 0 before the first answer. The
    /// estimators and their weights are those of the retransmission timer of TCP (RFC 6298).
    mean_us: AtomicU64,
    deviation_us: AtomicU64,
}

impl Health {
    /// Returns the time that a read waits for an answer before it asks another place: four deviations above the mean.
    pub fn patience(&self) -> Duration {
        let (mean, deviation) =
            (self.mean_us.load(Ordering::Relaxed), self.deviation_us.load(Ordering::Relaxed));
        let us = if mean == 0 { FIRST_US } else { mean + 4 * deviation };
        Duration::from_micros(us.clamp(PATIENCE_US.0, PATIENCE_US.1))
    }

    /// Returns true if the tier is left out now. From time to time, it returns false for one caller, who tries it.
    pub fn rests(&self) -> bool {
        self.rests_at(now_ns())
    }

    fn rests_at(&self, now_ns: u64) -> bool {
        if self.failures.load(Ordering::Relaxed) < FAILURES {
            return false;
        }
        let until_ns = self.rests_until_ns.load(Ordering::Relaxed);
        let next_ns = now_ns + REST_NS;
        let is_due = now_ns >= until_ns;
        let takes_turn = is_due
            && self
                .rests_until_ns
                .compare_exchange(until_ns, next_ns, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        !takes_turn
    }

    /// Returns true if the last requests have failed, not longer than a minute ago: nothing may have asked since.
    pub fn has_just_failed(&self) -> bool {
        self.has_failed() && now_ns() - self.failed_ns.load(Ordering::Relaxed) < 60 * SECOND
    }

    /// Returns true if the last requests have failed.
    pub fn has_failed(&self) -> bool {
        self.failures.load(Ordering::Relaxed) >= FAILURES
    }

    /// Records an answer to a write.
    pub fn recover(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    /// Records an answer, and the time to it.
    pub fn succeed(&self, time: Duration) {
        self.failures.store(0, Ordering::Relaxed);
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).clamp(1, 1 << 32);
        let (mean, deviation) =
            (self.mean_us.load(Ordering::Relaxed), self.deviation_us.load(Ordering::Relaxed));
        let (mean, deviation) = match mean {
            0 => (us, us / 2),
            mean => ((7 * mean + us) / 8, (3 * deviation + mean.abs_diff(us)) / 4),
        };
        self.mean_us.store(mean.max(1), Ordering::Relaxed);
        self.deviation_us.store(deviation, Ordering::Relaxed);
    }

    /// Records that the tier has not answered in time, or has failed.
    pub fn fail(&self) {
        self.fail_at(now_ns());
    }

    fn fail_at(&self, now_ns: u64) {
        self.failed_ns.store(now_ns, Ordering::Relaxed);
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= FAILURES {
            self.rests_until_ns.store(now_ns + REST_NS, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_that_fails_is_left_out_and_tried_by_one_read_at_a_time() {
        let health = Health::default();
        for _ in 0..FAILURES {
            assert!(!health.rests_at(1));
            health.fail_at(1);
        }
        assert!(health.rests_at(2) && health.has_failed());
        assert!(!health.rests_at(1 + REST_NS), "one read tries it");
        assert!(health.rests_at(2 + REST_NS), "the others do not");
        health.succeed(Duration::from_millis(3));
        assert!(!health.rests_at(3 + REST_NS) && !health.has_failed());
    }

    #[test]
    fn reads_wait_longer_for_slow_and_for_uneven_tiers() {
        let patience = |times: &[u64]| {
            let health = Health::default();
            times.iter().cycle().take(100).for_each(|ms| health.succeed(Duration::from_millis(*ms)));
            health.patience().as_millis()
        };
        assert_eq!(Health::default().patience().as_millis(), 500);
        assert_eq!(patience(&[5]), 200, "at least 200 ms");
        assert!((400..450).contains(&patience(&[400])));
        assert!((700..1200).contains(&patience(&[100, 500])));
        assert_eq!(patience(&[10_000]), 2000, "at most two seconds");
    }
}
