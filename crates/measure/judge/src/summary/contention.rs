//! Fairness among the writers of one object.

use super::arrangement::Arrangement;
use super::result::Window;
use plimsoll_recorder::tally::Tally;
use plimsoll_workload::schedule::Phase;

/// Returns the number of successful compare-and-swaps of each writer, in ascending order; empty for other operations.
/// Writers without success count as 0.
pub fn commits(phase: &Phase, tally: &Tally) -> Vec<u64> {
    if tally.commits.is_empty() {
        return Vec::new();
    }
    let mut commits: Vec<u64> = tally.commits.values().copied().collect();
    if !phase.load.is_open() {
        commits.resize(commits.len().max(phase.load.slots()), 0);
    }
    commits.sort_unstable();
    commits
}

/// Merges the counts of several windows: those of parallel windows belong to different writers. In consecutive windows,
/// the writer with the fewest commits of one is taken for that of the other, so the merged counts are an upper bound of
/// unfairness.
pub fn merged(windows: &[&Window], how: Arrangement) -> Vec<u64> {
    let all = windows.iter().map(|window| &window.commits_by_writer);
    if how == Arrangement::Parallel {
        let mut commits: Vec<u64> = all.flatten().copied().collect();
        commits.sort_unstable();
        return commits;
    }
    let mut sums = vec![0; all.clone().map(Vec::len).max().unwrap_or(0)];
    for commits in all {
        for (sum, n) in sums.iter_mut().rev().zip(commits.iter().rev()) {
            *sum += n;
        }
    }
    sums
}

/// Returns Jain's fairness index of the writers: `(sum x)^2 / (n sum x^2)`, which is 1 if all have the same number of
/// commits and 1/n if one has all (Jain, Chiu and Hawe, "A quantitative measure of fairness", DEC TR-301, 1984). `None`
/// without commits.
pub fn fairness(commits: &[u64]) -> Option<f64> {
    let (sum, squares) = commits.iter().fold((0.0, 0.0), |(sum, squares), n| {
        let n = *n as f64;
        (sum + n, squares + n * n)
    });
    (sum > 0.0).then(|| sum * sum / (commits.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_1_for_equal_writers_and_one_nth_for_a_single_winner() {
        assert_eq!(fairness(&[7, 7, 7]), Some(1.0));
        assert_eq!(fairness(&[0, 0, 0, 9]), Some(0.25));
        assert_eq!(fairness(&[1, 3]), Some(0.8));
        assert_eq!(fairness(&[]), None);
    }

    #[test]
    fn parallel_windows_have_different_writers_and_consecutive_ones_the_same() {
        let window = |commits: &[u64]| Window { commits_by_writer: commits.to_vec(), ..Window::default() };
        let (one, two) = (window(&[1, 5]), window(&[2, 3]));
        assert_eq!(merged(&[&one, &two], Arrangement::Parallel), [1, 2, 3, 5]);
        assert_eq!(merged(&[&one, &two], Arrangement::Consecutive), [3, 8]);
    }
}
