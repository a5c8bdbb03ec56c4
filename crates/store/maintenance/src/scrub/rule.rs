//! The rule of the verification in the background.

use super::progress::Progress;

/// Rule of the verification in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScrubRule {
    /// Time between the starts of two verifications, in milliseconds.
    pub every_ms: u64,
    /// Maximum rate in bytes per second.
    pub bytes_per_s: u64,
}

impl ScrubRule {
    /// Returns the milliseconds until the next verification begins or continues; 0 if it is due.
    pub fn due_in_ms(&self, progress: &Progress, now_ms: u64) -> u64 {
        match (&progress.current, &progress.last) {
            (Some(_), _) | (None, None) => 0,
            (None, Some(last)) => (last.began_ms + self.every_ms).saturating_sub(now_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scrub::progress::{Counts, Current, Finished};

    #[test]
    fn a_verification_is_due_after_its_time_and_continues_at_once() {
        let rule = ScrubRule { every_ms: 1000, bytes_per_s: 1 };
        let finished = |began_ms| Finished { began_ms, ended_ms: began_ms + 500, counts: Counts::default() };
        let progress = |current: bool, last: Option<u64>| Progress {
            current: current.then(Current::default),
            last: last.map(finished),
        };
        assert_eq!(rule.due_in_ms(&progress(false, None), 5000), 0);
        assert_eq!(rule.due_in_ms(&progress(false, Some(4500)), 5000), 500);
        assert_eq!(rule.due_in_ms(&progress(false, Some(4000)), 5000), 0);
        assert_eq!(rule.due_in_ms(&progress(true, Some(4900)), 5000), 0, "it was interrupted");
    }
}
