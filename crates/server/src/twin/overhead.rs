//! The time that a client on this host measures beyond a delay that the server adds. It depends on the delay: a
//! processor that slept for longer takes longer to wake up.

/// Overheads of some times, in ascending order of the times.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overhead(Vec<(f64, f64)>);

impl Overhead {
    /// Creates the overhead from pairs of a measured time and the overhead in it, both in nanoseconds.
    pub fn new(mut points: Vec<(f64, f64)>) -> Overhead {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Overhead(points)
    }

    /// Returns the overhead in a measured time, in nanoseconds. The overhead is linear between the known times and
    /// constant outside them.
    pub fn in_time(&self, ns: f64) -> f64 {
        let after = self.0.partition_point(|(time, _)| *time <= ns);
        match (after.checked_sub(1).map(|before| self.0[before]), self.0.get(after)) {
            (Some((from, low)), Some((to, high))) => low + (high - low) * (ns - from) / (to - from),
            (Some((_, overhead)), None) => overhead,
            (None, Some((_, overhead))) => *overhead,
            (None, None) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overhead_is_linear_between_the_measured_times() {
        let overhead = Overhead::new(vec![(1_050.0, 50.0), (20.0, 20.0)]);
        assert_eq!([5.0, 20.0, 535.0, 9_999.0].map(|ns| overhead.in_time(ns)), [20.0, 20.0, 35.0, 50.0]);
        assert_eq!(Overhead::default().in_time(7.0), 0.0);
    }
}
