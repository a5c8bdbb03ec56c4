//! The time and the random numbers of this process. Simulations replace them.

use jiff::Timestamp;

/// Returns the wall clock time.
pub fn wall_now() -> Timestamp {
    #[cfg(test)]
    if let Some(now) = crate::simulation::time::now() {
        return now;
    }
    plimsoll_base::clock::wall_now()
}

/// Returns the Unix time in milliseconds.
pub fn now_ms() -> u64 {
    wall_now().as_millisecond() as u64
}

/// Returns a number that differs between calls, processes and machines.
pub fn entropy() -> u64 {
    #[cfg(test)]
    if let Some(number) = crate::simulation::time::entropy() {
        return number;
    }
    plimsoll_base::rng::entropy()
}
