//! Limits the rate of a verification.

use plimsoll_base::clock::{SECOND, now_ns};

use plimsoll_catalog::ambient::pause;

/// A rate in bytes per second.
#[derive(Debug)]
pub struct Pace {
    bytes_per_s: Option<u64>,
    began_ns: u64,
    bytes: u64,
}

impl Pace {
    /// Creates a limit; `None` for no limit.
    pub fn new(bytes_per_s: Option<u64>) -> Pace {
        Pace { bytes_per_s, began_ns: now_ns(), bytes: 0 }
    }

    /// Returns the milliseconds to wait after this many bytes and nanoseconds.
    fn due_ms(bytes_per_s: u64, bytes: u64, passed_ns: u64) -> u64 {
        let due_ns = u128::from(bytes) * u128::from(SECOND) / u128::from(bytes_per_s.max(1));
        u64::try_from(due_ns.saturating_sub(u128::from(passed_ns)) / 1_000_000).unwrap_or(u64::MAX)
    }

    /// Waits after some bytes were read. An object costs as much as its body and a few KiB.
    pub async fn wait(&mut self, bytes: u64) {
        /// Bytes that a request costs in addition.
        const OVERHEAD: u64 = 4096;
        let Some(bytes_per_s) = self.bytes_per_s else { return };
        // Without the overhead, any number of rows without a body would be read without a pause.
        self.bytes += bytes + OVERHEAD;
        // The mean since the start counts, so time that a slow tier has cost is made up for afterwards.
        let ms = Pace::due_ms(bytes_per_s, self.bytes, now_ns() - self.began_ns);
        if ms > 0 {
            pause(ms).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_makes_the_rate() {
        assert_eq!(Pace::due_ms(1000, 500, 0), 500);
        assert_eq!(Pace::due_ms(1000, 500, SECOND / 4), 250);
        assert_eq!(Pace::due_ms(1000, 500, SECOND), 0);
    }
}
