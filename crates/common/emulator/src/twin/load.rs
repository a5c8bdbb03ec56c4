//! The number of requests in flight, averaged over the recent past.

use std::sync::{Mutex, PoisonError};

use plimsoll_base::clock::{MILLISECOND, now_ns};

/// Time constant of the average, in nanoseconds.
const MEMORY_NS: f64 = (200 * MILLISECOND) as f64;

#[derive(Default)]
struct State {
    in_flight: u32,
    average: f64,
    at_ns: u64,
}

impl State {
    fn advance(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.at_ns) as f64;
        let kept = (-passed / MEMORY_NS).exp();
        self.average = kept * self.average + (1.0 - kept) * f64::from(self.in_flight);
        self.at_ns = self.at_ns.max(now_ns);
    }
}

/// Counter of the requests in flight.
#[derive(Default)]
pub struct Load(Mutex<State>);

impl Load {
    /// Counts a request that arrived at `at_ns` and is handled at `now_ns`; returns the average number in flight before
    /// it.
    pub fn begin(&self, at_ns: u64, now_ns: u64) -> f64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.advance(now_ns);
        let average = state.average;
        // While it waited to be handled, it was in flight, too.
        state.average += now_ns.saturating_sub(at_ns) as f64 / MEMORY_NS;
        state.in_flight += 1;
        average
    }

    /// Ends a request.
    pub fn end(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.advance(now_ns());
        state.in_flight = state.in_flight.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_approaches_the_number_in_flight() {
        let start = now_ns();
        let load = Load::default();
        assert_eq!(load.begin(start, start), 0.0, "nothing was in flight before the first request");
        (0..7).for_each(|_| {
            load.begin(start, start);
        });
        let soon = load.begin(start + 50 * MILLISECOND, start + 50 * MILLISECOND);
        let late = start + 5_000 * MILLISECOND;
        let later = load.begin(late, late);
        assert!(soon > 1.0 && soon < 4.0 && (8.9..9.1).contains(&later), "{soon} {later}");
    }

    #[test]
    fn the_time_before_a_request_is_handled_counts() {
        let (start, load) = (now_ns(), Load::default());
        load.begin(start, start + 20 * MILLISECOND);
        let average = load.begin(start + 20 * MILLISECOND, start + 20 * MILLISECOND);
        assert!((average - 0.1).abs() < 1e-9, "{average}");
    }
}
