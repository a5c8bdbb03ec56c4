//! Order of two or more stores that one run measured in turns, with what is known about each pair of neighbours.

use super::comparison::{Verdict, compare};
use super::estimates::{Estimator, Metric};
use super::failures::{FailurePair, Failures, after_failures};
use super::sequential::{Difference, change_at, judge_difference};
use super::series::Series;
use super::student::LEVEL;
use super::verdict::{Compared, Sides, sentence};

/// Order of stores, fastest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    /// The order in a sentence, or what is known of it.
    pub sentence: String,
    /// True if each store is faster than the next, or they differ by less than the margin.
    pub decided: bool,
    /// Further time per store that an answer probably needs, in seconds; `None` if it is decided or not known.
    pub more_s: Option<f64>,
}

/// Question about the order of stores.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Figure by which the stores are ordered; a latency.
    pub metric: Metric,
    /// Name of the figure in the sentence, such as `get p50`.
    pub label: &'a str,
    /// Probability (0 to 1) that at least one pair is judged wrongly.
    pub error: f64,
    /// Difference that does not matter, as a share (0.05 is 5%).
    pub margin: f64,
    /// Measured time per store, in seconds.
    pub measured_s: f64,
}

/// A store and the one that follows it.
struct Neighbours {
    difference: Difference,
    /// Ratio of the second to the first with its interval, at the error probability of a pair.
    change: Option<(f64, f64, f64)>,
    /// Degrees of freedom of the interval.
    freedom: Option<f64>,
}

/// Orders stores, which are given with their names. A store that fails more of its operations than another, beyond
/// chance, has no place in the order: how fast it is where it answers does not make it better.
pub fn rank(stores: &[(String, &Series)], question: Question<'_>) -> Ranking {
    let failures: Vec<Failures> = stores.iter().map(|(_, series)| Failures::of([*series])).collect();
    let fails_more = |at: usize| failures.iter().any(|other| failures[at].exceed(other));
    let failing: Vec<usize> = (0..stores.len()).filter(|at| fails_more(*at)).collect();
    let Some(least) = (0..stores.len()).find(|at| !fails_more(*at)) else { return order(stores, question) };
    let place = stores[least].1.operation.name().to_string();
    let pair = |at: usize| FailurePair { place: place.clone(), base: failures[least], other: failures[at] };
    let said = |at: &usize| pair(*at).describe([&stores[least].0, &stores[*at].0]);
    if failing.is_empty() {
        let Ranking { sentence, decided, more_s } = order(stores, question);
        let other = (0..stores.len()).find(|at| *at != least);
        let is_total = other.is_some_and(|at| pair(at).is_total());
        let stated = other.and_then(|at| said(&at)).into_iter().collect();
        return Ranking { sentence: after_failures(stated, is_total, sentence), decided, more_s };
    }
    let failed: Vec<String> = failing.iter().filter_map(said).collect();
    let sound: Vec<(String, &Series)> =
        (0..stores.len()).filter(|at| !failing.contains(at)).map(|at| stores[at].clone()).collect();
    if sound.len() > 1 {
        let Ranking { sentence, decided, more_s } = order(&sound, question);
        return Ranking { sentence: format!("{}; {sentence}", failed.join("; ")), decided, more_s };
    }
    // The question is answered: no further measurement makes the failing stores better.
    let Ranking { sentence, .. } = order(stores, question);
    let is_total = failing.iter().any(|at| pair(*at).is_total());
    Ranking { sentence: after_failures(failed, is_total, sentence), decided: true, more_s: None }
}

/// Orders stores by a latency, whatever they fail.
fn order(stores: &[(String, &Series)], question: Question<'_>) -> Ranking {
    let mut order: Vec<(&str, Estimator<'_>)> =
        stores.iter().map(|(name, series)| (name.as_str(), Estimator::new(series))).collect();
    let mut values: Vec<(Option<f64>, usize)> =
        order.iter_mut().enumerate().map(|(i, (_, one))| (one.estimate(question.metric).value, i)).collect();
    if values.iter().any(|(value, _)| value.is_none()) {
        let sentence = format!("too little data for {}", question.label);
        return Ranking { sentence, decided: false, more_s: None };
    }
    values.sort_by(|a, b| a.0.unwrap_or(f64::MAX).total_cmp(&b.0.unwrap_or(f64::MAX)));
    let pairs = stores.len() * (stores.len() - 1) / 2;
    let error = question.error / pairs.max(1) as f64;
    let neighbours: Vec<Neighbours> = values
        .windows(2)
        .map(|pair| {
            let (first, second) = two_of(&mut order, pair[0].1, pair[1].1);
            let compared = compare(first, second, question.metric, true);
            let difference = judge_difference(&compared, error, question.margin);
            Neighbours { difference, change: change_at(&compared, error), freedom: compared.freedom }
        })
        .collect();
    let decided = neighbours.iter().all(|pair| pair.difference != Difference::Open);
    if decided && let [one, two] = values[..] {
        let sentence = of_two(&mut order, [one.1, two.1], &neighbours[0], question);
        return Ranking { sentence, decided, more_s: None };
    }
    let names: Vec<&str> = values.iter().map(|(_, i)| order[*i].0).collect();
    let clauses: Vec<String> = names
        .windows(2)
        .zip(&neighbours)
        .map(|(names, pair)| clause(names[0], names[1], pair, question.margin))
        .collect();
    let more_s = neighbours.iter().filter_map(|pair| more_s(pair, question)).reduce(f64::max);
    let (figure, names_in_order) =
        (format!("{} in {:.0} s per store", question.label, question.measured_s), names.join(", "));
    let order = match (decided, names.len()) {
        (true, _) => format!("fastest first at {figure}: {names_in_order}; "),
        (false, 2) => format!("{}: ", question.label),
        (false, _) => format!("fastest first at {figure} so far: {names_in_order}; "),
    };
    Ranking { sentence: format!("{order}{}", clauses.join("; ")), decided, more_s }
}

/// Returns two different estimators at once.
fn two_of<'a, 'b>(
    order: &'a mut [(&str, Estimator<'b>)],
    first: usize,
    second: usize,
) -> (&'a mut Estimator<'b>, &'a mut Estimator<'b>) {
    let (low, high) = order.split_at_mut(first.max(second));
    let (low, high) = (&mut low[first.min(second)].1, &mut high[0].1);
    if first < second { (low, high) } else { (high, low) }
}

/// Describes the decided order of two stores, with the p99 of both.
fn of_two(
    order: &mut [(&str, Estimator<'_>)],
    [first, second]: [usize; 2],
    pair: &Neighbours,
    question: Question<'_>,
) -> String {
    let (names, (one, two)) = ((order[first].0, order[second].0), two_of(order, first, second));
    let Metric::Percentile(clocked, _) = question.metric else { return String::new() };
    let tail = compare(one, two, Metric::Percentile(clocked, 0.99), true);
    let figure = |label: &str, change, verdict, duration_needed_s| Compared {
        label: label.into(),
        less_is_better: true,
        change,
        verdict,
        duration_needed_s,
    };
    let verdict = match pair.difference {
        Difference::SecondIsBetter => Verdict::Faster,
        Difference::FirstIsBetter => Verdict::Slower,
        Difference::BelowMargin => Verdict::NoDifference,
        Difference::Open => Verdict::Inconclusive,
    };
    let others = [figure("p99", tail.change, tail.verdict(1.0 - LEVEL), tail.duration_needed_s)];
    let span = format!("in {:.0} s per store", question.measured_s);
    let sides = Sides { first: names.0, second: names.1, span: &span };
    sentence(sides, &figure(question.label, pair.change, verdict, None), &others)
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// Describes what is known about two neighbours, of which the first is faster as measured.
fn clause(first: &str, second: &str, pair: &Neighbours, margin: f64) -> String {
    let Some((ratio, low, high)) = pair.change else {
        return format!("{first} and {second}: too little data for an interval");
    };
    match pair.difference {
        Difference::FirstIsBetter | Difference::SecondIsBetter => {
            format!("{first} was {ratio:.2}x faster than {second} (95%: {low:.2}-{high:.2})")
        }
        Difference::BelowMargin => {
            format!("{first} and {second} differed by less than {}", percent(margin))
        }
        Difference::Open => {
            let (most, least) = (high - 1.0, (1.0 / low - 1.0).max(0.0));
            format!(
                "no order of {first} and {second}: {first} was at most {} faster and at most {} slower",
                percent(most),
                percent(least)
            )
        }
    }
}

/// Returns the further time per store that an answer about a pair probably needs, in seconds, if the interval becomes
/// narrower with the square root of the time.
fn more_s(pair: &Neighbours, question: Question<'_>) -> Option<f64> {
    let (ratio, low, high) = pair.change.filter(|_| pair.difference == Difference::Open)?;
    let (half, distance) = ((high / low).ln() / 2.0, ratio.ln().abs());
    // Either the interval excludes equality, or it lies within the margin.
    let target = distance.max((1.0 + question.margin).ln() - distance);
    let needed_s = question.measured_s * (half / target).powi(2);
    (needed_s.is_finite() && pair.freedom.is_some()).then(|| (needed_s - question.measured_s).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::series::{Block, LatencyKind, Second};
    use plimsoll_base::rng::Stream;
    use plimsoll_recorder::sparse::bucket_of;

    fn store(mean_us: f64, seed: u64, seconds: u64) -> Series {
        let draws = Stream::new(seed, "store");
        let second = |s: u64| {
            let mut buckets = std::collections::BTreeMap::new();
            for i in 0..200 {
                let us = mean_us * (0.3 * draws.normal(s * 1000 + i)).exp();
                *buckets.entry(bucket_of(us as u64) as u16).or_insert(0) += 1;
            }
            Second {
                second: s,
                block: Block { repeat: 0, number: (s / 5) as u32 },
                time_s: 1.0,
                completed: 200,
                operations: 200,
                service: buckets.into_iter().collect(),
                ..Second::default()
            }
        };
        Series { seconds: (0..seconds).map(second).collect(), ..Series::default() }
    }

    fn ranked(means: &[f64], margin: f64) -> Ranking {
        let all: Vec<Series> = means.iter().zip(1..).map(|(us, seed)| store(*us, seed, 60)).collect();
        let stores: Vec<(String, &Series)> =
            all.iter().zip(["a", "b", "c"]).map(|(s, name)| (name.to_string(), s)).collect();
        let metric = Metric::Percentile(LatencyKind::Service, 0.5);
        rank(&stores, Question { metric, label: "get p50", error: 0.05, margin, measured_s: 60.0 })
    }

    #[test]
    fn three_stores_are_ranked() {
        let found = ranked(&[2000.0, 1000.0, 1500.0], 0.05);
        assert!(found.decided, "{found:?}");
        assert!(
            found.sentence.starts_with("fastest first at get p50 in 60 s per store: b, c, a; b was 1.5"),
            "{}",
            found.sentence
        );
        assert!(found.sentence.contains("; c was 1.3"), "{}", found.sentence);
        let equal = ranked(&[1000.0, 2000.0, 1001.0], 0.05);
        assert!(equal.decided && equal.sentence.contains("differed by less than 5.0%"), "{}", equal.sentence);
    }

    /// Regression test: a run that ended without a sure answer said nothing about what it had measured.
    #[test]
    fn an_open_order_states_the_largest_difference_of_each_side() {
        let found = ranked(&[1000.0, 1004.0], 0.0001);
        assert!(!found.decided && found.more_s.is_some_and(|s| s > 0.0), "{found:?}");
        assert!(
            found.sentence.starts_with("get p50: no order of a and b: a was at most ")
                && found.sentence.contains("% faster and at most "),
            "{}",
            found.sentence
        );
        let two = ranked(&[1000.0, 1500.0], 0.05);
        assert!(two.sentence.starts_with("a was 1.5") && two.sentence.contains("in 60 s per store"));
    }

    #[test]
    fn the_time_left_follows_from_the_width_of_the_interval() {
        let metric = Metric::Percentile(LatencyKind::Service, 0.5);
        let question = Question { metric, label: "", error: 0.05, margin: 0.05, measured_s: 60.0 };
        let open =
            |change| Neighbours { difference: Difference::Open, change: Some(change), freedom: Some(1e6) };
        // The interval reaches from 1 / 1.44 to 1.2 squared around 1.2, so it must become half as wide.
        let more = more_s(&open((1.2, 1.2 / 1.44, 1.2 * 1.44)), question).unwrap();
        assert!((more - 3.0 * 60.0).abs() < 1.0, "{more}");
        let equal = more_s(&open((1.0, 1.0 / 1.1025, 1.1025)), question).unwrap();
        assert!((equal - 180.0).abs() < 1.0, "{equal}");
    }
}
