//! The course of a measurement: how the times of each of its stretches are spread over the distribution of all times.

/// A stretch of the measurement, at least a second.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// Length in nanoseconds; not 0.
    pub length_ns: u64,
    /// Quantile function of its times, as normal scores in the distribution of all times: points of the share of its
    /// operations and the score, both in ascending order, from share 0 to share 1. Between them, the score is linear.
    pub points: Vec<(f32, f32)>,
}

/// Stretches in order of time. After the last one, the first follows again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Course {
    stretches: Vec<Stretch>,
    /// End of each stretch in nanoseconds after the start of the first one.
    ends_ns: Vec<u64>,
}

impl Course {
    /// Creates a course of stretches. Without them, all times are equally spread.
    pub fn new(stretches: Vec<Stretch>) -> Course {
        let mut end_ns = 0;
        let end = |stretch: &Stretch| {
            end_ns += stretch.length_ns;
            end_ns
        };
        Course { ends_ns: stretches.iter().map(end).collect(), stretches }
    }

    /// Returns the normal score of the quantile `share` (0 to 1) of the stretch that lasts at `at_ns` after the start;
    /// `None` without stretches.
    pub fn score(&self, at_ns: u64, share: f64) -> Option<f64> {
        let at_ns = at_ns % self.ends_ns.last().filter(|ns| **ns > 0)?;
        let points = &self.stretches[self.ends_ns.partition_point(|end_ns| *end_ns <= at_ns)].points;
        let share = share as f32;
        let after = points.partition_point(|(known, _)| *known <= share).clamp(1, points.len() - 1);
        let [(from, low), (to, high)] = [points[after - 1], points[after]];
        let place = ((share - from) / (to - from).max(f32::MIN_POSITIVE)).clamp(0.0, 1.0);
        Some(f64::from(low + (high - low) * place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_follow_each_other_and_begin_again() {
        let stretch = |length_ns, from, to| Stretch { length_ns, points: vec![(0.0, from), (1.0, to)] };
        let course = Course::new(vec![stretch(10, -4.0, 0.0), stretch(5, 0.0, 4.0)]);
        let at = |ns, share| course.score(ns, share).unwrap();
        assert_eq!([at(0, 0.0), at(9, 0.5), at(9, 1.0)], [-4.0, -2.0, 0.0]);
        assert_eq!([at(10, 0.0), at(14, 0.75), at(15, 0.75)], [0.0, 3.0, -1.0]);
        assert_eq!(Course::default().score(3, 0.5), None);
    }

    #[test]
    fn a_share_of_no_operations_is_a_step() {
        let points = vec![(0.0, -1.0), (0.5, -0.5), (0.5, 2.0), (1.0, 2.5)];
        let course = Course::new(vec![Stretch { length_ns: 1, points }]);
        let of = |share| course.score(0, share).unwrap();
        assert_eq!([of(0.25), of(0.5), of(0.75)], [-0.75, 2.0, 2.25]);
    }
}
