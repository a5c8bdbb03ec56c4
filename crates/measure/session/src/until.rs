//! Measures until a question is answered or the time is over.

use std::io;
use std::sync::Arc;

use super::error::RunError;
use super::observer::RunObserver;
use super::{Components, Passes, RunSummary, SessionSettings, execute_passes};
use plimsoll_base::clock::now_ns;
use plimsoll_base::units::{short_names, show_duration};
use plimsoll_experiment::Experiment;
use plimsoll_judge::summary::estimates::{Estimator, Metric};
use plimsoll_judge::summary::figure_selector::FigureSelector;
use plimsoll_judge::summary::ranking::{self, Ranking, rank};
use plimsoll_judge::summary::result::{RunResult, UntilFigures};
use plimsoll_judge::summary::sequential::{errors_of_looks, looks, precision};
use plimsoll_judge::summary::series::Series;
use plimsoll_workload::schedule::Role;
use plimsoll_workload::schedule::cache::CacheState;
use plimsoll_workload::schedule::plan::PhaseRun;

/// A question. The run ends as soon as the measurements answer it.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    /// Order of two or more stores: each is better than the next, or they differ by less than the margin.
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
    /// Maximum time of all passes together, in seconds, warm-ups and changes of the store included.
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
    stores: usize,
    /// Start of the first pass on the monotonic clock.
    began_ns: u64,
    looks: Vec<f64>,
    /// Error probability of each look.
    errors: Vec<f64>,
    look: usize,
    /// Further time per store that the answer probably needs, in seconds.
    more_s: Option<f64>,
    figures: UntilFigures,
    observer: Arc<dyn RunObserver>,
}

/// Answer at one look: the sentence, whether it ends the run, and the further time that is probably needed, in seconds.
struct Answer {
    sentence: String,
    ends_run: bool,
    more_s: Option<f64>,
}

impl Answer {
    fn open(sentence: String) -> Answer {
        Answer { sentence, ends_run: false, more_s: None }
    }
}

impl Answering {
    /// Orders the stores by the p50 of the first measured operation.
    fn compare(&self, series: &[Series], error: f64, margin: f64) -> Answer {
        let mut measured = series.iter().filter(|s| s.role == Role::Measure);
        let Some(first) = measured.next() else { return Answer::open("nothing was measured".into()) };
        let same = |s: &&Series| {
            (&s.phase, s.step, s.operation) == (&first.phase, first.step, first.operation)
                && s.key_group == first.key_group
        };
        let all: Vec<&Series> = std::iter::once(first).chain(measured.filter(same)).collect();
        if all.len() < self.stores {
            return Answer::open("at least one store was not measured".into());
        }
        let names = short_names(&all.iter().map(|s| s.store.as_str()).collect::<Vec<_>>());
        let stores: Vec<(String, &Series)> = names.into_iter().zip(all).collect();
        let metric = Metric::Percentile(first.clocked(), 0.5);
        let label = format!("{} p50", first.operation);
        let measured_s = self.looks[self.look];
        let Ranking { sentence, decided, more_s } =
            rank(&stores, ranking::Question { metric, label: &label, error, margin, measured_s });
        Answer { sentence, ends_run: decided, more_s }
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
            return Answer::open("too little data for an interval".into());
        };
        let sentence = format!("{} is known to within {:.1}%", target.metric, 100.0 * widest);
        Answer { sentence, ends_run: widest <= share, more_s: None }
    }

    fn judge(&mut self, series: &[Series]) -> bool {
        let measured_s = self.looks[self.look];
        let error = self.errors[self.look];
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
        self.more_s = answer.more_s;
        answer.ends_run
    }

    /// Returns true if the time of the run ends before the next look.
    fn is_over(&self) -> bool {
        let Some(next) = self.looks.get(self.look + 1) else { return true };
        let elapsed_s = now_ns().saturating_sub(self.began_ns) as f64 / 1e9;
        elapsed_s * next / self.looks[self.look] > self.until.max_s
    }

    /// Returns the phase runs up to the next look.
    fn next_pass(&mut self) -> Vec<PhaseRun> {
        let due = (self.looks[self.look] / self.repeat_s).round() as u32;
        let mut out = Vec::new();
        for repeat in self.repeats..due {
            out.extend(self.model.iter().map(|phase_run| phase_run.clone().in_repeat(repeat)));
        }
        self.repeats = due;
        out
    }
}

impl Passes for Answering {
    fn first(&mut self, plan: Vec<PhaseRun>) -> Vec<PhaseRun> {
        self.model = plan.iter().filter(|p| p.phase.role != Role::Prepare).cloned().collect();
        self.repeats = 1;
        self.began_ns = now_ns();
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
        if answered || self.is_over() {
            return None;
        }
        self.look += 1;
        let more =
            self.more_s.map_or(String::new(), |seconds| format!("; about {seconds:.0} s more per store"));
        self.observer.announce(&format!(
            "{:.0} s per store: no answer yet: {}{more}",
            self.figures.measured_s, self.figures.answer
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
    if matches!(until.question, Question::Conclusive { .. }) && experiment.stores.len() < 2 {
        return refuse("this question is about several stores; specify at least two --store");
    }
    if experiment.repeats != 1 {
        return refuse("the run repeats the measurement as often as necessary; set repeats to 1");
    }
    if measured.iter().any(|p| p.ramp.is_some()) {
        return refuse("an experiment with a ramp has no single load; remove the ramp");
    }
    if measured.iter().any(|p| p.cache == Some(CacheState::Cold)) {
        return refuse(
            "a cold phase reads no object twice, and runs out of objects; measure without --cache cold",
        );
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

/// Runs an experiment again and again on the same objects until a question is answered or the time is over.
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
    let max_s = (until.max_s / experiment.stores.len().max(1) as f64).max(repeat_s);
    let end = match &until.question {
        Question::Conclusive { margin } => {
            format!("the order of the stores is known, except differences below {:.1}%", 100.0 * margin)
        }
        Question::Precision { target, share } => {
            format!("{} is known to within {:.1}%", target.metric, 100.0 * share)
        }
    };
    let at_most = show_duration((until.max_s * 1e9) as u64);
    components.observer.announce(&format!("measuring until {end}, for at most {at_most}"));
    let figures = UntilFigures { question: until.text.clone(), max_s, ..UntilFigures::default() };
    let looks = looks(repeat_s, max_s);
    let mut answering = Answering {
        stores: experiment.stores.len(),
        began_ns: now_ns(),
        errors: errors_of_looks(&looks),
        more_s: None,
        until,
        model: Vec::new(),
        repeat_s,
        repeats: 0,
        looks,
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
