//! Comparison of two sides, rendered for a terminal, as JSON and in the HTML report.

use serde::Serialize;

use plimsoll_document::{Column, Document, Table, terminal};
use plimsoll_judge::summary::comparison::Verdict;
use plimsoll_judge::summary::confidence::IntervalEstimate;
use plimsoll_judge::summary::estimates::Estimate;
use plimsoll_judge::summary::failures::{FailurePair, Failures, before};
use plimsoll_judge::summary::primary_figure::{
    Choice, Figure, GroupPair, SeriesPair, figures, group_figures,
};
use plimsoll_judge::summary::series::Series;
use plimsoll_judge::summary::size_range::SizeRange;
use plimsoll_judge::summary::unit::Unit;
use plimsoll_judge::summary::verdict::{self, Compared, Sides};

/// One side of a comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Subject {
    /// Id of the run.
    pub run: String,
    /// URL of the store as the user wrote it, without credentials.
    pub store: String,
    /// Shortest name that distinguishes this side from the other.
    pub name: String,
}

/// One figure on one side, in the row's unit.
#[derive(Debug, Clone, Serialize)]
pub struct Side {
    /// Measured value. `None` if there are too few operations.
    pub value: Option<f64>,
    /// Lower end of the 95% interval. `None` without an interval.
    pub low: Option<f64>,
    /// Upper end of the 95% interval. `None` without an interval.
    pub high: Option<f64>,
    /// Resource that limited the client; the figure is then only a bound on the store's. `None` if
    /// the client was not the bottleneck.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_limited: Option<String>,
}

/// Comparison of one figure.
#[derive(Debug, Clone, Serialize)]
pub struct ComparisonRow {
    /// Name of the phase.
    pub phase: String,
    /// Step of a ramp, from 0. `None` outside a ramp.
    pub step: Option<u32>,
    /// Kind of operation.
    pub operation: String,
    /// Sizes of the objects, if the figure is about the operations on some. `None` for all operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<SizeRange>,
    /// Name of the metric, such as `p99` or `throughput`.
    pub metric: String,
    /// Unit of the figures: `ms`, `per_s`, `bytes_per_s` or `share`.
    pub unit: Unit,
    /// True for the primary figure, which is declared before the comparison. The others are corrected for
    /// multiple comparisons.
    pub primary: bool,
    /// True for a primary figure that the user declared.
    #[serde(skip)]
    pub declared: bool,
    /// Figure of the base.
    pub base: Side,
    /// Figure of the other side.
    pub other: Side,
    /// Ratio of the other side to the base; for errors the difference of the shares. `None` without an interval.
    pub change: Option<f64>,
    /// Lower end of the 95% interval of `change`.
    pub change_low: Option<f64>,
    /// Upper end of the 95% interval of `change`.
    pub change_high: Option<f64>,
    /// Probability (p-value) of a change at least this large if there were no true difference.
    pub probability: Option<f64>,
    /// Bound that the probability must not exceed for a difference to count.
    pub bound: f64,
    /// Verdict on the other side.
    #[serde(skip)]
    pub verdict: Verdict,
    /// Verdict on the other side in words: `faster`, `slower`, `no difference shown` or `inconclusive`; for errors
    /// `fewer failures` or `more failures`.
    #[serde(rename = "verdict")]
    pub word: &'static str,
    /// Smallest relative change (for errors, difference) that a comparison of this design detects in 80% of the cases.
    pub smallest: Option<f64>,
    /// Seconds of measurement that an interval would need. `None` if there is one.
    pub duration_needed_s: Option<f64>,
    /// Number of pairs of blocks whose correlation narrowed the interval; 0 without pairing.
    pub pairs: usize,
    /// True if no operation succeeded on one side, so that no length of measurement is enough.
    #[serde(skip)]
    pub none_succeeded: bool,
}

/// Comparison of two sides.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Side that the other is compared with.
    pub base: Subject,
    /// Side that the verdicts are about.
    pub other: Subject,
    /// Differences between the clients, which also affect the verdicts.
    pub clients: Vec<String>,
    /// Differences between the loads of imported runs, which have no experiment to compare.
    pub loads: Vec<String>,
    /// Number of runs of the base and of the other side. With one run each, differences between days are not included.
    pub runs: (usize, usize),
    /// Measured seconds of the first compared phase, of the base and of the other side. For groups of runs, those of
    /// the first run of each group.
    pub measured_s: (f64, f64),
    /// Failures of each operation that failed on at least one side.
    pub failures: Vec<FailurePair>,
    /// Figures that were compared, in order.
    pub rows: Vec<ComparisonRow>,
}

/// Returns the failures of each operation that failed on at least one side.
fn failed(pairs: impl Iterator<Item = (Failures, Failures, String)>) -> Vec<FailurePair> {
    let all = pairs.map(|(base, other, place)| FailurePair { place, base, other });
    all.filter(|pair| pair.base.failed + pair.other.failed > 0).collect()
}

/// Returns the failures of pairs of series, for [`Comparison::failures`].
pub fn failures(pairs: &[SeriesPair<'_>]) -> Vec<FailurePair> {
    let whole = pairs.iter().filter(|pair| pair.base.size.is_none());
    failed(whole.map(|pair| (Failures::of([pair.base]), Failures::of([pair.other]), place_of(pair.base))))
}

/// Returns the failures of pairs of groups, for [`Comparison::failures`].
pub fn group_failures(pairs: &[GroupPair<'_>]) -> Vec<FailurePair> {
    let whole = pairs.iter().filter_map(|pair| Some((pair, pair.base.first().filter(|s| s.size.is_none())?)));
    let of = |side: &[&Series]| Failures::of(side.iter().copied());
    failed(whole.map(|(pair, first)| (of(&pair.base), of(&pair.other), place_of(first))))
}

fn place_of(series: &Series) -> String {
    place(&series.phase, series.step, series.operation.name(), series.size)
}

/// Returns phase and operation: `get`, `ramp_3 get`. Omits a phase that has the name of its operation.
fn place(phase: &str, step: Option<u32>, operation: &str, size: Option<SizeRange>) -> String {
    let phase = step.map_or_else(|| phase.to_string(), |s| format!("{phase}_{}", s + 1));
    let phase = if phase == operation { String::new() } else { format!("{phase} ") };
    let size = size.map_or_else(String::new, |size| format!(" {size}"));
    format!("{phase}{operation}{size}")
}

/// Compares groups of runs, figure by figure.
pub fn group_rows(pairs: &[GroupPair<'_>], choice: Choice<'_>) -> Vec<ComparisonRow> {
    group_figures(pairs, choice).iter().map(row).collect()
}

/// Compares pairs of series, figure by figure. `paired` is true if both were measured in interleaved blocks of one run.
pub fn rows(pairs: &[SeriesPair<'_>], choice: Choice<'_>, paired: bool) -> Vec<ComparisonRow> {
    figures(pairs, choice, paired).iter().map(row).collect()
}

fn row(figure: &Figure<'_>) -> ComparisonRow {
    let Figure { base: series, other, compared, primary, declared, bound } = figure;
    let (unit, scale) = compared.metric.unit();
    let verdict = compared.verdict(*bound);
    let none_succeeded =
        [compared.base, compared.other].iter().any(|side| side.confidence == IntervalEstimate::NoneSucceeded);
    let side = |estimate: &Estimate, series: &Series| {
        let ends = estimate.confidence.ends().filter(|_| estimate.value.is_some());
        Side {
            value: estimate.value.map(|v| v * scale),
            low: ends.map(|(low, _)| low * scale),
            high: ends.map(|(_, high)| high * scale),
            client_limited: series.client_limited.clone(),
        }
    };
    ComparisonRow {
        phase: series.phase.clone(),
        step: series.step,
        operation: series.operation.to_string(),
        size: series.size,
        metric: compared.metric.name(series.named()),
        unit,
        primary: *primary,
        declared: *declared,
        base: side(&compared.base, series),
        other: side(&compared.other, other),
        change: compared.change.map(|c| c.0),
        change_low: compared.change.map(|c| c.1),
        change_high: compared.change.map(|c| c.2),
        probability: compared.probability,
        bound: *bound,
        verdict,
        word: word(verdict, unit),
        smallest: compared.smallest,
        duration_needed_s: compared
            .duration_needed_s
            .or_else(|| compared.base.confidence.duration_needed_s())
            .filter(|seconds| *seconds > 0.0 && !none_succeeded),
        pairs: compared.pairs,
        none_succeeded,
    }
}

/// Returns the verdict for reports. More failures are not a speed.
fn word(verdict: Verdict, unit: Unit) -> &'static str {
    match (unit, verdict) {
        (Unit::Share, Verdict::Faster) => "fewer failures",
        (Unit::Share, Verdict::Slower) => "more failures",
        _ => verdict.describe(),
    }
}

impl ComparisonRow {
    /// Returns the name of the figure: `get p99`, `ramp_3 get p50`.
    pub fn label(&self) -> String {
        format!("{} {}", self.place(), self.metric)
    }

    /// Returns phase and operation: `get`, `ramp_3 get`.
    pub fn place(&self) -> String {
        place(&self.phase, self.step, &self.operation, self.size)
    }

    fn value(&self, value: f64) -> String {
        match self.unit {
            Unit::Share => format!("{:.3}%", 100.0 * value),
            unit => unit.text(value),
        }
    }

    fn compared(&self, label: String) -> Compared {
        Compared {
            label,
            less_is_better: self.unit == Unit::Milliseconds,
            change: self
                .change
                .zip(self.change_low)
                .zip(self.change_high)
                .map(|((c, low), high)| (c, low, high)),
            verdict: self.verdict,
            duration_needed_s: self.duration_needed_s,
        }
    }

    /// Returns the change with its interval: `x 1.25 [1.20..1.31]`.
    pub fn change_text(&self) -> String {
        let (Some(change), Some(low), Some(high)) = (self.change, self.change_low, self.change_high) else {
            return "-".into();
        };
        if self.unit == Unit::Share {
            return format!("{:+.3}% [{:+.3}..{:+.3}]", 100.0 * change, 100.0 * low, 100.0 * high);
        }
        format!("x {change:.3} [{low:.3}..{high:.3}]")
    }

    /// Returns the verdict for the table, with a remark if a side was limited by its client.
    fn verdict_text(&self) -> String {
        format!("{}{}", self.verdict_alone(), self.bound_text())
    }

    fn verdict_alone(&self) -> String {
        if self.none_succeeded {
            return "unknown; no operation succeeded".into();
        }
        if let Some(seconds) = self.duration_needed_s.filter(|_| self.verdict == Verdict::Inconclusive) {
            return format!("inconclusive; needs about {seconds:.0} s of measurement");
        }
        if self.verdict == Verdict::Inconclusive {
            return "inconclusive; needs more runs".into();
        }
        let lost = self.change_low.zip(self.change_high).is_some_and(|(low, high)| low > 1.0 || high < 1.0);
        let note =
            match (self.verdict == Verdict::NoDifference, lost && self.unit != Unit::Share, self.smallest) {
                (true, true, _) => " (not significant among this many figures)".into(),
                (true, false, Some(smallest)) => {
                    format!(" (a change of {:.1}% would be found in 80% of the cases)", 100.0 * smallest)
                }
                _ => String::new(),
            };
        format!("{}{note}", self.word)
    }

    /// Returns a remark that names the sides whose figure is only a bound, such as
    /// `; only a bound (base)`. The sentence of the comparison states the reason.
    pub fn bound_text(&self) -> &'static str {
        match (&self.base.client_limited, &self.other.client_limited) {
            (None, None) => "",
            (Some(_), None) => "; only a bound (base)",
            (None, Some(_)) => "; only a bound (other)",
            (Some(_), Some(_)) => "; only a bound",
        }
    }
}

/// Returns the remark that a comparison is only a bound, because the client limited the stores with these names.
pub fn bound(limited: &[&str]) -> String {
    match limited.join(" and ") {
        none if none.is_empty() => none,
        whose => format!("; only a bound, because the client, not the store, limited {whose}"),
    }
}

impl Comparison {
    /// Returns the verdict on the primary figure in a sentence, with that on p99 of the same operation, after the
    /// failures. If the figure was measured several times, such as at the points of a sweep, and none was declared, all
    /// of them count.
    pub fn sentence(&self) -> String {
        let Some(row) = self.rows.iter().find(|r| r.primary).or_else(|| self.rows.first()) else {
            return "no figure was measured on both sides".into();
        };
        let names = [self.base.name.as_str(), self.other.name.as_str()];
        before(self.verdict(row), &row.place(), &self.failures, names)
    }

    /// Returns true if the other side failed more of an operation than the base, beyond chance. Its speed is then that
    /// of the operations which it chose to answer.
    pub fn fails_more(&self, place: &str) -> bool {
        self.failures.iter().any(|pair| pair.place == place && pair.other.exceed(&pair.base))
    }

    /// Returns the verdict on a figure in a sentence, without failures.
    fn verdict(&self, row: &ComparisonRow) -> String {
        let (a, b) = (&self.base.name, &self.other.name);
        if row.unit == Unit::Share {
            return match row.change.filter(|_| matches!(row.verdict, Verdict::Faster | Verdict::Slower)) {
                Some(change) => {
                    format!(
                        "{} of {b} differ from {a} by {:+.3} percentage points",
                        row.label(),
                        100.0 * change
                    )
                }
                None => format!("no difference shown between {a} and {b} in {}", row.label()),
            };
        }
        let same =
            |r: &&ComparisonRow| (&r.operation, r.size, &r.metric) == (&row.operation, row.size, &row.metric);
        let points: Vec<&ComparisonRow> = self.rows.iter().filter(same).collect();
        if points.len() > 1 && !row.declared {
            return self.sentence_of_points(&points);
        }
        let beside = |r: &&ComparisonRow| {
            r.metric == "p99"
                && row.metric == "p50"
                && (&r.phase, r.step, &r.operation, r.size)
                    == (&row.phase, row.step, &row.operation, row.size)
        };
        let shown: Vec<&ComparisonRow> =
            std::iter::once(row).chain(self.rows.iter().filter(beside)).collect();
        let others: Vec<Compared> = shown[1..].iter().map(|r| r.compared(r.metric.clone())).collect();
        let span = self.span();
        let sides = Sides { first: a, second: b, span: &span };
        format!("{}{}", verdict::sentence(sides, &row.compared(row.label()), &others), self.bound(&shown))
    }

    /// Returns the time to which a verdict from single runs is limited; empty for groups of runs, because their verdict
    /// includes the variation between runs.
    fn span(&self) -> String {
        let time = |seconds: f64| format!("{seconds:.0} s");
        let (base, other) = (time(self.measured_s.0), time(self.measured_s.1));
        match self.runs {
            (1, 1) if self.base.run == self.other.run => format!("in these {base}"),
            (1, 1) if base == other => format!("in these two runs of {base}"),
            (1, 1) => format!("in these two runs of {base} and {other}"),
            _ => String::new(),
        }
    }

    /// Returns the remark that names the sides which the client limited in at least one of the rows with a verdict.
    fn bound(&self, rows: &[&ComparisonRow]) -> String {
        let limits = |side: fn(&ComparisonRow) -> &Side| {
            let mut judged = rows.iter().filter(|row| row.verdict != Verdict::Inconclusive);
            judged.any(|row| side(row).client_limited.is_some())
        };
        let sides = [(limits(|row| &row.base), &self.base), (limits(|row| &row.other), &self.other)];
        let limited = sides.iter().filter(|(limited, _)| *limited).map(|(_, side)| side.name.as_str());
        bound(&limited.collect::<Vec<_>>())
    }

    /// Returns in how many of several measurements of one figure, such as the points of a sweep, each side is faster.
    fn sentence_of_points(&self, points: &[&ComparisonRow]) -> String {
        let compared: Vec<Compared> = points.iter().map(|row| row.compared(row.label())).collect();
        let figure = format!("{} {}", points[0].operation, points[0].metric);
        let span = self.span();
        let sides = Sides { first: &self.base.name, second: &self.other.name, span: &span };
        verdict::of_points(sides, &figure, &compared) + &self.bound(points)
    }

    /// Returns the reservations about the verdict: different clients or loads, a limited client, or single runs.
    pub fn cautions(&self) -> Vec<String> {
        self.limits().into_iter().chain(self.differences()).collect()
    }

    /// Returns the differences between the measurements of both sides, and that single runs do not show those between
    /// days.
    pub fn differences(&self) -> Vec<String> {
        let mut out = Vec::new();
        out.extend(self.clients.iter().map(|line| format!("the clients differ: {line}")));
        out.extend(self.loads.iter().map(|line| format!("the loads differ: {line}")));
        if self.runs == (1, 1) && self.base.run != self.other.run {
            out.push("one run each: differences between days are not included".into());
        }
        out
    }

    /// Returns a line for each side and operation in which the client was the bottleneck.
    pub fn limits(&self) -> Vec<String> {
        let mut out = Vec::new();
        for row in &self.rows {
            for (side, subject) in [(&row.base, &self.base), (&row.other, &self.other)] {
                // That of all operations says the same.
                if row.size.is_some() {
                    continue;
                }
                let Some(why) = &side.client_limited else { continue };
                let place = row.place();
                let line =
                    format!("{} {place}: limited by the client, not by the store ({why})", subject.name);
                if !out.contains(&line) {
                    out.push(line);
                }
            }
        }
        out
    }

    /// Returns the comparison as a document: the sentence, the cautions and the figures.
    pub fn document(&self) -> Document {
        let (base, other) = (format!("{}#", self.base.name), format!("{}#", self.other.name));
        let verdict = format!("{} is", self.other.name);
        let mut table = Table::new("", &["figure", &base, &other, "change (95%)#", &verdict]);
        for row in &self.rows {
            let side = |side: &Side| side.value.map_or("-".into(), |value| row.value(value));
            table.row([
                row.label(),
                side(&row.base),
                side(&row.other),
                row.change_text(),
                row.verdict_text(),
            ]);
        }
        Document {
            title: format!("{} and {}", self.base.name, self.other.name),
            answer: self.sentence(),
            warnings: self.cautions(),
            tables: vec![table],
            ..Document::default()
        }
    }

    /// Renders the comparison for a terminal.
    pub fn render(&self) -> String {
        let mut out = format!("{}\n", self.sentence());
        self.cautions().iter().for_each(|line| out.push_str(&format!("! {line}\n")));
        for subject in [&self.base, &self.other] {
            out.push_str(&format!("{}: {} (run {})\n", subject.name, subject.store, subject.run));
        }
        let verdict = format!("{} is", self.other.name);
        let number = |name: &str| Column { name: name.into(), number: true };
        let text = |name: &str| Column { name: name.into(), number: false };
        let columns = vec![
            text(""),
            number(&self.base.name),
            number(&self.other.name),
            number("change [95%]"),
            text(&verdict),
        ];
        let mut table = Table { columns, ..Table::default() };
        for row in &self.rows {
            let side = |side: &Side| side.value.map_or("-".into(), |v| row.value(v));
            let primary = if row.primary { " *" } else { "" };
            table.row([
                format!("{}{primary}", row.label()),
                side(&row.base),
                side(&row.other),
                row.change_text(),
                row.verdict_text(),
            ]);
        }
        out.push_str(&format!(
            "\n{}\n* main figure; the others have to pass a stricter test, because one of many may differ by chance",
            terminal::plain(&table)
        ));
        if let Some(pairs) = self.rows.iter().map(|r| r.pairs).max().filter(|p| *p > 0) {
            out.push_str(&format!("; {pairs} pairs of interleaved blocks"));
        }
        out.push('\n');
        out
    }
}
