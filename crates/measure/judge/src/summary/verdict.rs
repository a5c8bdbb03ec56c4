//! The verdict of a comparison in a sentence: "A is 1.48x faster than B at get p50 (95%: 1.41-1.56); p99: no difference
//! larger than 8%".

use super::comparison::Verdict;

/// Comparison of one figure, as the sentence needs it.
#[derive(Debug, Clone)]
pub struct Compared {
    /// Name of the figure in the sentence, such as `get p50` or `get rate`.
    pub label: String,
    /// True for latencies, false for rates and throughputs.
    pub less_is_better: bool,
    /// Ratio of the second to the first side with its interval: `(ratio, low, high)`. `None` without an interval.
    pub change: Option<(f64, f64, f64)>,
    /// Verdict on the second side.
    pub verdict: Verdict,
    /// Seconds of measurement that an interval would need; `None` if there is an interval or the need is unknown.
    pub duration_needed_s: Option<f64>,
}

impl Compared {
    /// Returns true if the second side is the faster one, and the factor by which the faster side is faster, with its
    /// interval; `None` if no difference was shown.
    fn factor(&self) -> Option<(bool, f64, f64, f64)> {
        let (change, low, high) = self.change?;
        let second = match self.verdict {
            Verdict::Faster => true,
            Verdict::Slower => false,
            Verdict::NoDifference | Verdict::Inconclusive => return None,
        };
        let (factor, low, high) = if second == self.less_is_better {
            (1.0 / change, 1.0 / high, 1.0 / low)
        } else {
            (change, low, high)
        };
        Some((second, factor, low, high))
    }

    /// Returns the largest difference that the interval contains, in percent.
    fn largest_percent(&self) -> Option<f64> {
        self.change.map(|(_, low, high)| 100.0 * (high - 1.0).max(1.0 - low).max(1.0 / low.max(1e-9) - 1.0))
    }

    /// Returns true if the figure shows neither a difference nor its bound.
    fn lacks_data(&self) -> bool {
        self.factor().is_none() && (self.verdict != Verdict::NoDifference || self.change.is_none())
    }

    /// Describes a lack of data.
    fn too_short(&self) -> String {
        match self.duration_needed_s {
            Some(seconds) => format!("too little data (needs about {seconds:.0} s of measurement)"),
            None => "too little data".into(),
        }
    }
}

fn percent(value: f64) -> String {
    if value >= 9.95 { format!("{value:.0}%") } else { format!("{value:.1}%") }
}

/// Largest bound of a difference, in percent, that counts as an answer: a larger one only means that none was shown.
const SMALL: f64 = 25.0;

/// Describes the bound of a difference that was not shown, in percent.
fn bound(largest: f64) -> String {
    if largest <= SMALL {
        format!("no difference larger than {}", percent(largest))
    } else {
        format!("no difference shown (at most {})", percent(largest))
    }
}

/// Names of the two sides of a comparison, and the time that it is about.
#[derive(Debug, Clone, Copy)]
pub struct Sides<'a> {
    /// Name of the base.
    pub first: &'a str,
    /// Name of the other side.
    pub second: &'a str,
    /// Time to which the verdict is limited, such as `in these 60 s`; empty if the variation between runs was measured.
    pub span: &'a str,
}

impl<'a> Sides<'a> {
    /// Returns the winner and the loser.
    fn ordered(self, second_is_faster: bool) -> (&'a str, &'a str) {
        if second_is_faster { (self.second, self.first) } else { (self.first, self.second) }
    }

    /// Returns the verb of a verdict: `was` if it is about a time that is over, otherwise `is`.
    fn verb(self) -> &'static str {
        if self.span.is_empty() { "is" } else { "was" }
    }
}

/// Describes how the second side compares with the first in a figure.
fn main_clause(sides: Sides<'_>, figure: &Compared) -> String {
    let Sides { first, second, span } = sides;
    let label = match span {
        "" => figure.label.clone(),
        span => format!("{} {span}", figure.label),
    };
    if let Some((second_is_faster, factor, low, high)) = figure.factor() {
        let ((winner, loser), verb) = (sides.ordered(second_is_faster), sides.verb());
        return format!(
            "{winner} {verb} {factor:.2}x faster than {loser} at {label} (95%: {low:.2}-{high:.2})"
        );
    }
    match figure.largest_percent().filter(|_| figure.verdict == Verdict::NoDifference) {
        Some(largest) => format!("{first} and {second}: {} at {label}", bound(largest)),
        None => {
            format!("{first} and {second} cannot be compared at {}: {}", figure.label, figure.too_short())
        }
    }
}

/// Describes another figure after the main clause.
fn other_clause(sides: Sides<'_>, main: &Compared, figure: &Compared) -> String {
    let label = &figure.label;
    match (figure.factor(), main.factor()) {
        (Some((faster, factor, low, high)), Some((main_faster, ..))) if faster == main_faster => {
            format!("{label}: {factor:.2}x (95%: {low:.2}-{high:.2})")
        }
        (Some((faster, factor, low, high)), _) => {
            let ((winner, _), verb) = (sides.ordered(faster), sides.verb());
            format!("{label}: {winner} {verb} {factor:.2}x faster (95%: {low:.2}-{high:.2})")
        }
        (None, _) => match figure.largest_percent().filter(|_| figure.verdict == Verdict::NoDifference) {
            Some(largest) => format!("{label}: {}", bound(largest)),
            None => format!("{label}: {}", figure.too_short()),
        },
    }
}

/// Returns the verdict on two sides from their main figure and other figures.
pub fn sentence(sides: Sides<'_>, main: &Compared, others: &[Compared]) -> String {
    // Figures that lack the same data as the main figure are named with it.
    let with_main = |figure: &&Compared| {
        main.lacks_data() && figure.lacks_data() && figure.too_short() == main.too_short()
    };
    let (same, others): (Vec<_>, Vec<_>) = others.iter().partition(with_main);
    let labels: Vec<_> = std::iter::once(main).chain(same).map(|figure| figure.label.as_str()).collect();
    let main = Compared { label: labels.join(" and "), ..main.clone() };
    let clauses = others.into_iter().map(|figure| other_clause(sides, &main, figure));
    [main_clause(sides, &main)].into_iter().chain(clauses).collect::<Vec<_>>().join("; ")
}

/// Returns in how many of several measurements of one figure each of two sides is faster.
pub fn of_points(sides: Sides<'_>, figure: &str, points: &[Compared]) -> String {
    let Sides { first, second, .. } = sides;
    let count = |wanted: Verdict| points.iter().filter(|point| point.verdict == wanted).count();
    let all = points.len();
    let (faster, slower, same, short) = (
        count(Verdict::Faster),
        count(Verdict::Slower),
        count(Verdict::NoDifference),
        count(Verdict::Inconclusive),
    );
    let wins = |winner: &str, loser: &str, n: usize| {
        format!("{winner} {} faster than {loser} at {figure} in {n} of {all} measurements", sides.verb())
    };
    let needed = points.iter().filter_map(|point| point.duration_needed_s).reduce(f64::max);
    let needed = needed.map_or(String::new(), |s| format!(" (each needs about {s:.0} s of measurement)"));
    if short == all {
        let why = format!("too little data in {all} measurements{needed}");
        return format!("{first} and {second} cannot be compared at {figure}: {why}");
    }
    let mut clauses = match (slower, faster) {
        (0, 0) => vec![format!("{first} and {second}: no winner at {figure} in {all} measurements")],
        (n, 0) => vec![wins(first, second, n)],
        (0, n) => vec![wins(second, first, n)],
        (a, b) => vec![wins(first, second, a), format!("{second} in {b}")],
    };
    if same > 0 {
        clauses.push(format!("no difference shown in {same}"));
    }
    if short > 0 {
        clauses.push(format!("too little data in {short}{needed}"));
    }
    clauses.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDES: Sides<'_> = Sides { first: "A", second: "B", span: "" };

    /// Regression test: a verdict from one run each was stated as a fact about the stores.
    #[test]
    fn a_verdict_from_single_runs_is_about_their_time() {
        let sides = Sides { span: "in these two runs of 60 s", ..SIDES };
        let p50 = latency("get p50", [1.48, 1.41, 1.56], Verdict::Slower);
        let p99 = latency("p99", [0.5, 0.4, 0.625], Verdict::Faster);
        assert_eq!(
            sentence(sides, &p50, &[p99]),
            "A was 1.48x faster than B at get p50 in these two runs of 60 s (95%: 1.41-1.56); p99: B was 2.00x faster \
             (95%: 1.60-2.50)"
        );
        let same = latency("get p50", [1.0, 0.8, 1.15], Verdict::NoDifference);
        assert_eq!(
            sentence(sides, &same, &[]),
            "A and B: no difference larger than 25% at get p50 in these two runs of 60 s"
        );
    }

    fn latency(label: &str, change: [f64; 3], verdict: Verdict) -> Compared {
        Compared {
            label: label.into(),
            less_is_better: true,
            change: Some((change[0], change[1], change[2])),
            verdict,
            duration_needed_s: None,
        }
    }

    #[test]
    fn the_winner_comes_first_with_its_factor() {
        let p50 = latency("get p50", [1.48, 1.41, 1.56], Verdict::Slower);
        let p99 = latency("p99", [1.01, 0.94, 1.08], Verdict::NoDifference);
        assert_eq!(
            sentence(SIDES, &p50, std::slice::from_ref(&p99)),
            "A is 1.48x faster than B at get p50 (95%: 1.41-1.56); p99: no difference larger than 8.0%"
        );
        let better = latency("get p50", [0.5, 0.4, 0.625], Verdict::Faster);
        let worse = latency("p99", [2.0, 1.5, 3.0], Verdict::Slower);
        assert_eq!(
            sentence(SIDES, &better, &[worse]),
            "B is 2.00x faster than A at get p50 (95%: 1.60-2.50); p99: A is 2.00x faster (95%: 1.50-3.00)"
        );
        let rate =
            Compared { less_is_better: false, ..latency("get rate", [2.0, 1.9, 2.1], Verdict::Faster) };
        assert_eq!(sentence(SIDES, &rate, &[]), "B is 2.00x faster than A at get rate (95%: 1.90-2.10)");
    }

    #[test]
    fn the_wins_of_both_sides_are_counted_over_several_measurements() {
        use Verdict::{Faster, Inconclusive, NoDifference, Slower};
        let of = |verdicts: &[Verdict]| {
            let point = |verdict: &Verdict| Compared {
                duration_needed_s: (*verdict == Inconclusive).then_some(16.0),
                ..latency("get p50", [1.0, 0.9, 1.1], *verdict)
            };
            of_points(SIDES, "get p50", &verdicts.iter().map(point).collect::<Vec<_>>())
        };
        assert_eq!(
            of(&[Slower, Slower, Inconclusive]),
            "A is faster than B at get p50 in 2 of 3 measurements; \
             too little data in 1 (each needs about 16 s of measurement)"
        );
        assert_eq!(
            of(&[Faster, Slower, NoDifference]),
            "A is faster than B at get p50 in 1 of 3 measurements; B in 1; no difference shown in 1"
        );
        assert_eq!(
            of(&[NoDifference, NoDifference]),
            "A and B: no winner at get p50 in 2 measurements; no difference shown in 2"
        );
        assert_eq!(
            of(&[Inconclusive, Inconclusive]),
            "A and B cannot be compared at get p50: \
             too little data in 2 measurements (each needs about 16 s of measurement)"
        );
    }

    #[test]
    fn missing_differences_and_data_are_stated() {
        let same = latency("get p50", [1.0, 0.8, 1.15], Verdict::NoDifference);
        let short = Compared {
            change: None,
            duration_needed_s: Some(16.0),
            ..latency("p99", [1.0, 1.0, 1.0], Verdict::Inconclusive)
        };
        assert_eq!(
            sentence(SIDES, &same, std::slice::from_ref(&short)),
            "A and B: no difference larger than 25% at get p50; p99: too little data (needs about 16 s of measurement)"
        );
        let main = Compared { label: "get p50".into(), ..short.clone() };
        assert_eq!(
            sentence(SIDES, &main, &[short]),
            "A and B cannot be compared at get p50 and p99: too little data (needs about 16 s of measurement)"
        );
    }
}
