//! Measures until a question is answered or the time is over.

use std::io;
use std::sync::Arc;

use super::error::RunError;
use super::observer::RunObserver;
use super::{Components, Passes, RunSummary, SessionSettings, execute_passes};
use plimsoll_base::units::short_names;
use plimsoll_judge::summary::comparison::{MetricComparison, Verdict, compare};
use plimsoll_judge::summary::estimates::{Estimator, Metric};
use plimsoll_judge::summary::objective::FigureSelector;
use plimsoll_judge::summary::result::{RunResult, UntilFigures};
use plimsoll_judge::summary::sequential::{Difference, error_of_look, judge_difference, looks, precision};
use plimsoll_judge::summary::series::Series;
use plimsoll_judge::summary::student::LEVEL;
use plimsoll_judge::summary::student::t_quantile_at;
use plimsoll_judge::summary::verdict::{Compared, sentence};
use plimsoll_workload::experiment::Experiment;
use plimsoll_workload::schedule::Role;
use plimsoll_workload::schedule::plan::PhaseRun;

/// A question. The run ends as soon as the measurements answer it.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    /// Comparison of two stores: one of them is better, or they differ by less than the margin.
    Conclusive {
        /// Difference that does not matter, as a share (0.05 is 5%).
        margin: f64,
    },
    /// Value of a figure with an interval of at most this half-width.
    Precision {
        /// Figure to determine.
        target: FigureSelector,
        /// Largest half-width of the interval, as a share of the value.
        share: f64,
    },
}

/// A question with the longest time for its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Until {
    /// Text of the question as the user wrote it.
    pub text: String,
    /// Question that ends the run.
    pub question: Question,
    /// Maximum measured time per store, in seconds.
    pub max_s: f64,
}

impl Until {
    /// Parses `conclusive` or a precision such as `get.p99 +-5%`.
    ///
    /// # Errors
    /// Describes the expected syntax.
    pub fn parse(text: &str, margin: f64, max_s: f64) -> Result<Until, String> {
        let written = text.trim();
        if written == "conclusive" {
            return Ok(Until { text: written.into(), question: Question::Conclusive { margin }, max_s });
        }
        let expected =
            || format!("'{text}': use conclusive, or a figure and its precision, such as 'get.p99 +-5%'");
        let (figure, share) = written.split_once("+-").ok_or_else(expected)?;
        let percent: f64 =
            share.trim().strip_suffix('%').and_then(|p| p.parse().ok()).ok_or_else(expected)?;
        if !(percent > 0.0 && percent <= 100.0) {
            return Err(format!("'{text}': the precision must be above 0% and at most 100%"));
        }
        let target = FigureSelector::parse(figure.trim())?;
        Ok(Until {
            text: written.into(),
            question: Question::Precision { target, share: percent / 100.0 },
            max_s,
        })
    }
}

/// State of a run that measures until a question is answered.
struct Answering {
    until: Until,
    /// Phase runs of one repeat, without those that prepare objects.
    model: Vec<PhaseRun>,
    /// Measured time of one repeat of one store, in seconds.
    repeat_s: f64,
    repeats: u32,
    looks: Vec<f64>,
    look: usize,
    figures: UntilFigures,
    observer: Arc<dyn RunObserver>,
}

/// Answer at one look: the sentence, and whether it ends the run.
struct Answer {
    sentence: String,
    ends_run: bool,
}

fn change_in_words(compared: &MetricComparison, look: &str) -> String {
    match compared.change {
        Some((ratio, low, high)) => format!("{look} ratio {ratio:.3} [{low:.3}..{high:.3}]"),
        None => format!("{look}: too little data for an interval"),
    }
}

/// Returns the further time per store that an answer probably needs, in seconds, if the interval becomes narrower with
/// the square root of the time; `None` without an interval. Looks are at doubled times, so the answer may come later.
fn more_s(compared: &MetricComparison, error: f64, margin: f64, measured_s: f64) -> Option<f64> {
    let ((ratio, low, high), freedom) = compared.change.zip(compared.freedom)?;
    let wider = t_quantile_at(1.0 - error, freedom) / t_quantile_at(LEVEL, freedom);
    let (half, distance) = (wider * (high / low).ln() / 2.0, ratio.ln().abs());
    // Either the interval excludes equality, or it lies within the margin.
    let target = distance.max((1.0 + margin).ln() - distance);
    let needed_s = measured_s * (half / target).powi(2);
    needed_s.is_finite().then(|| (needed_s - measured_s).max(0.0))
}

fn in_words(compared: &MetricComparison, label: String, verdict: Verdict) -> Compared {
    Compared {
        label,
        less_is_better: true,
        change: compared.change,
        verdict,
        duration_needed_s: compared.duration_needed_s,
    }
}

impl Answering {
    /// Compares the first measured operation of both stores.
    fn compare(&self, series: &[Series], error: f64, margin: f64) -> Answer {
        let mut measured = series.iter().filter(|s| s.role == Role::Measure);
        let open = |sentence: String| Answer { sentence, ends_run: false };
        let Some(first) = measured.next() else { return open("nothing was measured".into()) };
        let same = |s: &&Series| {
            s.store != first.store
                && (&s.phase, s.step, s.operation) == (&first.phase, first.step, first.operation)
        };
        let Some(second) = measured.find(same) else { return open("only one store was measured".into()) };
        let metric = Metric::Percentile(first.clocked(), 0.5);
        let (mut one, mut two) = (Estimator::new(first), Estimator::new(second));
        let compared = compare(&mut one, &mut two, metric, true);
        let tail = compare(&mut one, &mut two, Metric::Percentile(first.clocked(), 0.99), true);
        let stores = short_names(&[&first.store, &second.store]);
        let difference = judge_difference(&compared, error, margin);
        let verdict = match difference {
            Difference::SecondIsBetter => Verdict::Faster,
            Difference::FirstIsBetter => Verdict::Slower,
            Difference::BelowMargin => Verdict::NoDifference,
            Difference::Open => Verdict::Inconclusive,
        };
        let main = in_words(&compared, format!("{} p50", first.operation), verdict);
        let others = [in_words(&tail, "p99".into(), tail.verdict(1.0 - LEVEL))];
        match difference {
            Difference::Open => {
                let more = more_s(&compared, error, margin, self.looks[self.look])
                    .map_or(String::new(), |seconds| format!("; about {seconds:.0} s more per store"));
                open(format!("no answer yet: {}{more}", change_in_words(&compared, &main.label)))
            }
            _ => Answer { sentence: sentence(&stores[0], &stores[1], &main, &others), ends_run: true },
        }
    }

    /// Checks the precision of a figure at all stores.
    fn check_precision(series: &[Series], target: &FigureSelector, share: f64, error: f64) -> Answer {
        let mut widths = Vec::new();
        for series in series.iter().filter(|s| s.role == Role::Measure && target.matches(s)) {
            let Some(metric) = Metric::from_name(&target.metric, series.clocked()) else { continue };
            widths.push(precision(&Estimator::new(series).estimate(metric), error));
        }
        let widest = widths.iter().copied().try_fold(0.0, |a: f64, b| Some(a.max(b?)));
        let Some(widest) = widest.filter(|_| !widths.is_empty()) else {
            return Answer {
                sentence: "no answer yet: too little data for an interval".into(),
                ends_run: false,
            };
        };
        let sentence = format!("{} is known to within {:.1}%", target.metric, 100.0 * widest);
        Answer { sentence, ends_run: widest <= share }
    }

    fn judge(&mut self, series: &[Series]) -> bool {
        let measured_s = self.looks[self.look];
        let previous_s = if self.look > 0 { self.looks[self.look - 1] } else { 0.0 };
        let max_s = self.looks.last().copied().unwrap_or(measured_s);
        let error = error_of_look(measured_s, previous_s, max_s);
        let answer = match &self.until.question {
            Question::Conclusive { margin } => self.compare(series, error, *margin),
            Question::Precision { target, share } => {
                Answering::check_precision(series, target, *share, error)
            }
        };
        self.figures.looks += 1;
        self.figures.measured_s = measured_s;
        self.figures.answered = answer.ends_run;
        self.figures.answer = answer.sentence;
        answer.ends_run
    }

    /// Returns the phase runs up to the next look.
    fn next_pass(&mut self) -> Vec<PhaseRun> {
        let due = (self.looks[self.look] / self.repeat_s).round() as u32;
        let mut out = Vec::new();
        for repeat in self.repeats..due {
            out.extend(self.model.iter().map(|phase_run| PhaseRun { repeat, ..phase_run.clone() }));
        }
        self.repeats = due;
        out
    }
}

impl Passes for Answering {
    fn first(&mut self, plan: Vec<PhaseRun>) -> Vec<PhaseRun> {
        self.model = plan.iter().filter(|p| p.phase.role != Role::Prepare).cloned().collect();
        self.repeats = 1;
        plan
    }

    fn next(
        &mut self,
        result: &mut RunResult,
        series: &dyn Fn(&RunResult) -> io::Result<Vec<Series>>,
    ) -> Option<Vec<PhaseRun>> {
        let answered = match series(result) {
            Ok(series) => self.judge(&series),
            Err(error) => {
                self.figures.answer = format!("the interval log cannot be read: {error}");
                true
            }
        };
        result.until = Some(self.figures.clone());
        if answered || self.look + 1 == self.looks.len() {
            return None;
        }
        self.look += 1;
        self.observer.note(&format!(
            "{:.0} s per store: {}; measuring up to {:.0} s",
            self.figures.measured_s, self.figures.answer, self.looks[self.look]
        ));
        Some(self.next_pass())
    }
}

/// Returns the measured time of one repeat of one store, in seconds.
///
/// # Errors
/// [`RunError::Input`] if the experiment cannot be repeated until a question is answered.
fn repeat_s(experiment: &Experiment, until: &Until) -> Result<f64, RunError> {
    let refuse = |problem: &str| Err(RunError::input(format!("--until {}: {problem}", until.text)));
    let measured: Vec<_> = experiment.phases.iter().filter(|p| p.role == Role::Measure).collect();
    if matches!(until.question, Question::Conclusive { .. }) && experiment.stores.len() != 2 {
        return refuse("this question is about two stores; specify two --store");
    }
    if experiment.repeats != 1 {
        return refuse("the run repeats the measurement as often as necessary; set repeats to 1");
    }
    if measured.iter().any(|p| p.ramp.is_some()) {
        return refuse("an experiment with a ramp has no single load; remove the ramp");
    }
    if measured.iter().any(|p| p.workload.only_deletes()) {
        return refuse("deletes run out of objects; measure another operation");
    }
    let Some(total) = measured.iter().map(|p| p.limit.duration_ns).sum::<Option<u64>>().filter(|ns| *ns > 0)
    else {
        return refuse("every measured phase must be limited by a duration; use --duration");
    };
    Ok(total as f64 / 1e9)
}

/// Runs an experiment again and again on the same objects until a question is answered. Looks at the results after
/// the first repeat, and whenever the measured time has doubled.
///
/// # Errors
/// As [`super::execute`]. If the question is not answered in time, [`RunSummary::problem`] is a failed check.
pub fn execute_until(
    experiment: &Experiment,
    settings: &SessionSettings,
    components: &Components,
    until: Until,
) -> Result<RunSummary, RunError> {
    let repeat_s = repeat_s(experiment, &until)?;
    let max_s = until.max_s.max(repeat_s);
    let end = match &until.question {
        Question::Conclusive { margin } => {
            format!("one store is faster or they differ by less than {:.0}%", 100.0 * margin)
        }
        Question::Precision { target, share } => {
            format!("{} is known to within {:.1}%", target.metric, 100.0 * share)
        }
    };
    components.observer.note(&format!("measuring until {end}, at most {max_s:.0} s per store"));
    let figures = UntilFigures { question: until.text.clone(), max_s, ..UntilFigures::default() };
    let mut answering = Answering {
        until,
        model: Vec::new(),
        repeat_s,
        repeats: 0,
        looks: looks(repeat_s, max_s),
        look: 0,
        figures,
        observer: Arc::clone(&components.observer),
    };
    let mut summary = execute_passes(experiment, settings, components, &mut answering)?;
    let unanswered = summary.run.result.until.as_ref().filter(|until| !until.answered);
    if let (None, Some(until)) = (&summary.problem, unanswered) {
        let message = format!(
            "--until {}: no answer after {:.0} s per store; raise --max-time",
            until.question, until.measured_s
        );
        summary.problem = Some(RunError::check(message));
    }
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_width_of_the_interval() {
        let estimate = |value: f64| plimsoll_judge::summary::estimates::Estimate {
            metric: Metric::Percentile(plimsoll_judge::summary::series::LatencyKind::Service, 0.5),
            value: Some(value),
            confidence: plimsoll_judge::summary::confidence::IntervalEstimate::Interval {
                low: value,
                high: value,
                freedom: 1e6,
            },
        };
        let compared = |change| MetricComparison {
            metric: Metric::Percentile(plimsoll_judge::summary::series::LatencyKind::Service, 0.5),
            base: estimate(1.0),
            other: estimate(1.0),
            change: Some(change),
            probability: None,
            freedom: Some(1e6),
            smallest: None,
            duration_needed_s: None,
            pairs: 0,
        };
        // The interval reaches from 1 / 1.44 to 1.2 squared around 1.2, so it must become half as wide.
        let wide = compared((1.2, 1.2 / 1.44, 1.2 * 1.44));
        let more = more_s(&wide, 0.05, 0.05, 60.0).unwrap();
        assert!((more - 3.0 * 60.0).abs() < 1.0, "{more}");
        let equal = compared((1.0, 1.0 / 1.1025, 1.1025));
        assert!((more_s(&equal, 0.05, 0.05, 60.0).unwrap() - 180.0).abs() < 1.0);
    }

    #[test]
    fn questions_are_parsed() {
        let parse = |text| Until::parse(text, 0.05, 60.0);
        assert_eq!(parse("conclusive").unwrap().question, Question::Conclusive { margin: 0.05 });
        match parse("get.p99 +-5%").unwrap().question {
            Question::Precision { target, share } => {
                assert_eq!((target.metric.as_str(), share), ("p99", 0.05));
            }
            other => panic!("{other:?}"),
        }
        for text in
            ["", "sure", "get.p99", "get.p99 +-", "get.p99 +-5", "get.p99 +-0%", "get.p99 +--1%", "+-5%"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
