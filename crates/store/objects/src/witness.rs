//! Checks the clock of this machine if the catalog has no clock: it must agree with the clocks of the tiers, with the
//! steady clock of the machine, and with the time at which the catalog was last used.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Milliseconds by which the clock of this machine may differ.
pub const MAX_MS: u64 = 5000;

/// A reading of the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Shared time in Unix milliseconds.
    pub now_ms: u64,
    /// Milliseconds by which the clock of this machine is ahead of the shared one.
    pub ahead_ms: i64,
    /// True if the clock of this machine is right.
    pub is_right: bool,
}

impl Reading {
    /// Compares the times of this machine before and after the request with the shared time of its answer.
    pub(super) fn new(before_ms: u64, shared_ms: u64, after_ms: u64) -> Reading {
        let ahead_ms = u64::midpoint(before_ms, after_ms).cast_signed() - shared_ms.cast_signed();
        let duration_ms = after_ms.saturating_sub(before_ms);
        // A jump of the clock makes the request look long.
        let is_right = ahead_ms.unsigned_abs() <= MAX_MS + (duration_ms / 2).min(MAX_MS);
        Reading { now_ms: shared_ms, ahead_ms, is_right }
    }
}

/// Milliseconds since the last use of the catalog after which its time must be confirmed.
const GAP_MS: u64 = 86_400_000;
/// Milliseconds after which a time that nothing confirms and nothing contradicts is accepted.
const TRIAL_MS: u64 = 86_400_000;
/// Precision of the times of objects in tiers, in milliseconds.
const PRECISION_MS: u64 = 1000;

/// Witnesses of the time. The steady time is that since the start of the machine, also while it sleeps.
#[derive(Debug, Default)]
pub struct Witnesses {
    /// Unix time minus steady time in milliseconds, as the tiers or the start of this process say; 0 before it is
    /// known.
    offset_ms: AtomicI64,
    /// Precision of the offset in milliseconds.
    precision_ms: AtomicU64,
    /// Unix time in milliseconds at which the catalog was last used.
    not_before_ms: AtomicU64,
    /// Steady time in milliseconds until which the time is not accepted.
    on_trial_until_ms: AtomicU64,
    /// True if the operator vouches for the time at the start.
    is_accepted: AtomicBool,
}

impl Witnesses {
    /// Compares the clock of this machine with what is known.
    pub fn read(&self, now_ms: u64, steady_ms: u64) -> Reading {
        let own_ms = now_ms.cast_signed() - steady_ms.cast_signed();
        // The first reading is the reference until a tier answers. 0 means that there is none yet.
        let known = self.offset_ms.compare_exchange(0, own_ms.max(1), Ordering::Relaxed, Ordering::Relaxed);
        let ahead_ms = own_ms - known.err().unwrap_or(own_ms);
        let most_ms = MAX_MS + self.precision_ms.load(Ordering::Relaxed);
        // The reference begins with the process, so only the last use of the catalog shows an earlier jump back.
        let is_right = ahead_ms.unsigned_abs() <= most_ms
            && now_ms + MAX_MS >= self.not_before_ms.load(Ordering::Relaxed)
            && steady_ms >= self.on_trial_until_ms.load(Ordering::Relaxed);
        Reading { now_ms, ahead_ms, is_right }
    }

    /// Accepts the time at the start of this process, whenever the catalog was last used.
    pub fn accept(&self) {
        self.is_accepted.store(true, Ordering::Relaxed);
    }

    /// Records that the catalog was used at a time, before this process uses it. After a long time, the clock is on
    /// trial until a tier confirms it, for a day at most. With a time in the future, it is wrong until a tier confirms
    /// it, or until that time. Returns true in both cases.
    pub fn used_at(&self, used_ms: u64, now_ms: u64, steady_ms: u64) -> bool {
        if self.is_accepted.load(Ordering::Relaxed) {
            return false;
        }
        self.not_before_ms.store(used_ms, Ordering::Relaxed);
        // 0 is an unknown time, as in a new catalog.
        let is_on_trial = used_ms > 0 && now_ms > used_ms + GAP_MS;
        if is_on_trial {
            let until_ms = steady_ms + TRIAL_MS;
            // A claim is repeated until all tiers answer. The trial must not begin again each time.
            let none =
                self.on_trial_until_ms.compare_exchange(0, until_ms, Ordering::Relaxed, Ordering::Relaxed);
            return none.map_or_else(|until_ms| steady_ms < until_ms, |_| true);
        }
        now_ms + MAX_MS < used_ms
    }

    /// Records the time of a tier, `tier_ms`, at which this machine had a steady time. The request has taken
    /// `duration_ms`.
    pub fn confirm(&self, tier_ms: u64, steady_ms: u64, duration_ms: u64) {
        // At least 1, because 0 means that nothing is known.
        self.offset_ms.store((tier_ms.cast_signed() - steady_ms.cast_signed()).max(1), Ordering::Relaxed);
        // The tier may have taken its time at any moment of the request.
        self.precision_ms.store(PRECISION_MS + duration_ms, Ordering::Relaxed);
        self.on_trial_until_ms.store(0, Ordering::Relaxed);
        // A wrong clock may have used the catalog.
        self.not_before_ms.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 86_400_000;
    const NOW_MS: u64 = 1_790_000_000_000;

    #[test]
    fn a_clock_that_jumps_while_the_process_runs_is_wrong() {
        for (jump_ms, is_right) in [(0, true), (4000, true), (60_000, false), (40 * DAY_MS, false)] {
            let ahead = Witnesses::default();
            assert!(ahead.read(NOW_MS, 1000).is_right);
            assert_eq!(ahead.read(NOW_MS + 500 + jump_ms, 1500).is_right, is_right, "+{jump_ms}");
            assert!(ahead.read(NOW_MS + 9000, 10_000).is_right, "it is right again");
            assert_eq!(ahead.read(NOW_MS + 9000 - jump_ms, 10_000).is_right, is_right, "-{jump_ms}");
        }
    }

    #[test]
    fn a_tier_contradicts_a_clock_that_was_wrong_at_the_start() {
        for wrong_ms in [DAY_MS, 60_000, 40 * DAY_MS, 3650 * DAY_MS] {
            let witnesses = Witnesses::default();
            assert!(witnesses.read(NOW_MS + wrong_ms, 1000).is_right, "nothing contradicts it yet");
            witnesses.confirm(NOW_MS, 1000, 20);
            let reading = witnesses.read(NOW_MS + wrong_ms + 1, 1001);
            assert_eq!((reading.is_right, reading.ahead_ms), (false, wrong_ms.cast_signed()));
            assert!(witnesses.read(NOW_MS + 500, 1500).is_right, "the clock was set");
        }
    }

    #[test]
    fn without_a_tier_a_long_gap_is_on_trial_and_the_past_is_wrong() {
        let witnesses = Witnesses::default();
        assert!(!witnesses.used_at(NOW_MS, NOW_MS + DAY_MS / 2, 1000), "a night");
        assert!(witnesses.used_at(NOW_MS, NOW_MS + 40 * DAY_MS, 1000));
        assert!(!witnesses.read(NOW_MS + 40 * DAY_MS, 1000).is_right);
        assert!(!witnesses.read(NOW_MS + 41 * DAY_MS - 2000, DAY_MS - 1000).is_right);
        assert!(witnesses.read(NOW_MS + 41 * DAY_MS, 1000 + DAY_MS).is_right, "a day later it is accepted");
        let behind = Witnesses::default();
        assert!(behind.used_at(NOW_MS, NOW_MS - DAY_MS, 1000));
        assert!(!behind.read(NOW_MS - DAY_MS, 1000).is_right);
        let accepted = Witnesses::default();
        accepted.accept();
        assert!(!accepted.used_at(NOW_MS, NOW_MS + 40 * DAY_MS, 1000));
        assert!(accepted.read(NOW_MS + 40 * DAY_MS, 1000).is_right);
        let confirmed = Witnesses::default();
        assert!(confirmed.used_at(NOW_MS, NOW_MS + 40 * DAY_MS, 1000));
        confirmed.confirm(NOW_MS + 40 * DAY_MS, 1000, 5);
        assert!(confirmed.read(NOW_MS + 40 * DAY_MS, 1001).is_right, "a tier has confirmed it");
    }
}
