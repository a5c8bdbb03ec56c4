//! The course of a measurement, from the interval log: stretches of at least a second, with the place of their times
//! among all times at the same load.

use std::collections::BTreeMap;

use plimsoll_base::rng::normal_quantile;
use plimsoll_emulator::twin::course::{Course, Stretch};
use plimsoll_emulator::twin::curve::LAST;
use plimsoll_judge::summary::series::{Second, Series};

/// Smallest number of operations of a stretch.
const FEWEST: f64 = 200.0;
/// Largest number of stretches.
const MOST: f64 = 1_000.0;

/// Numbers of values by bucket.
type Counts = BTreeMap<u16, f64>;

/// Adds the counts of a second.
fn add(counts: &mut Counts, second: &Second) {
    for (bucket, count) in second.service.iter() {
        *counts.entry(bucket).or_default() += f64::from(count);
    }
}

/// Returns the normal scores of the lower and the upper edge of each bucket.
fn edges(all: &Counts) -> BTreeMap<u16, (f64, f64)> {
    let total: f64 = all.values().sum();
    let mut below = 0.0;
    let mut edge = -LAST;
    let of = |(bucket, count): (&u16, &f64)| {
        below += count;
        let from = std::mem::replace(&mut edge, normal_quantile(below / total).clamp(-LAST, LAST));
        (*bucket, (from, edge))
    };
    all.iter().map(of).collect()
}

/// Returns the quantile function of the values of a stretch, as scores among all values.
fn points(counts: &Counts, edges: &BTreeMap<u16, (f64, f64)>) -> Vec<(f32, f32)> {
    let total: f64 = counts.values().sum();
    let mut below = 0.0;
    let of = |(bucket, count): (&u16, &f64)| {
        let from = below / total;
        below += count;
        let (low, high) = edges.get(bucket).copied().unwrap_or((-LAST, LAST));
        [(from as f32, low as f32), ((below / total) as f32, high as f32)]
    };
    counts.iter().flat_map(of).collect()
}

/// Returns the course of several series, each of one operation at one load, one after the other.
pub fn of_series(all: &[&Series]) -> Course {
    let seconds = || all.iter().flat_map(|series| &series.seconds).filter(|second| second.time_s > 0.0);
    let mut whole = Counts::new();
    seconds().for_each(|second| add(&mut whole, second));
    let edges = edges(&whole);
    let shortest_s = seconds().map(|second| second.time_s).sum::<f64>() / MOST;
    let mut stretches: Vec<(f64, Counts)> = Vec::new();
    let mut current = (0.0, Counts::new());
    for second in seconds() {
        current.0 += second.time_s;
        add(&mut current.1, second);
        if current.1.values().sum::<f64>() >= FEWEST && current.0 >= shortest_s {
            stretches.push(std::mem::take(&mut current));
        }
    }
    // The last seconds have too few operations for another stretch.
    if let Some((time_s, counts)) = stretches.last_mut() {
        *time_s += current.0;
        current.1.into_iter().for_each(|(bucket, count)| *counts.entry(bucket).or_default() += count);
    }
    let stretch = |(time_s, counts): &(f64, Counts)| Stretch {
        length_ns: ((time_s * 1e9) as u64).max(1),
        points: points(counts, &edges),
    };
    Course::new(stretches.iter().map(stretch).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_base::clock::SECOND;
    use plimsoll_base::rng::Stream;
    use plimsoll_recorder::histogram::Latencies;
    use plimsoll_recorder::sparse::Sparse;

    /// Returns seconds of `operations` lognormal times each, with these medians in ms.
    fn series(medians: &[f64], operations: u64) -> Series {
        let draws = Stream::new(3, "course");
        let second = |(number, median): (usize, &f64)| {
            let mut latencies = Latencies::default();
            for i in 0..operations {
                let score = draws.normal(number as u64 * 100_000 + i);
                latencies.record((median * 1e6 * (0.1 * score).exp()) as u64);
            }
            let service = Sparse::from_bytes(&latencies.to_bytes(), &mut Vec::new()).unwrap();
            Second { second: number as u64, time_s: 1.0, completed: operations, service, ..Second::default() }
        };
        Series { seconds: medians.iter().enumerate().map(second).collect(), ..Series::default() }
    }

    #[test]
    fn a_slow_period_is_slow_in_the_course_and_nothing_else_is() {
        let course = of_series(&[&series(&[2.0, 2.0, 2.0, 8.0, 2.0], 400)]);
        let at = |second: u64, share: f64| course.score(second * SECOND, share).unwrap();
        // A fifth of all times is above the score 0.84.
        for second in [0, 1, 2, 4, 5, 9] {
            assert!(at(second, 0.001) < -2.0 && (0.5..0.85).contains(&at(second, 0.999)), "{second}");
        }
        for second in [3, 8] {
            assert!((0.83..1.2).contains(&at(second, 0.001)) && at(second, 0.999) > 2.5, "{second}");
        }
        let mut scores: Vec<f64> = (0..5)
            .flat_map(|s| (0..1_000).map(move |i| (s, i)))
            .map(|(s, i)| at(s, f64::from(i) / 1e3))
            .collect();
        scores.sort_by(f64::total_cmp);
        for (share, expected) in [(0.1, -1.2816), (0.5, 0.0), (0.7, 0.5244), (0.9, 1.2816)] {
            let found = scores[(share * 5_000.0) as usize];
            assert!((found - expected).abs() < 0.05, "{share}: {found}");
        }
    }

    #[test]
    fn few_operations_make_long_stretches() {
        assert_eq!(of_series(&[&series(&[2.0; 30], 5)]), Course::default());
        let course = of_series(&[&series(&[2.0; 50], 9)]);
        assert!(
            course.score(0, 0.5) != course.score(30 * SECOND, 0.5)
                && course.score(0, 0.5) == course.score(50 * SECOND, 0.5)
        );
    }
}
