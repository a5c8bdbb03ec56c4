//! Objectives for a run (`get.p99 < 10ms`, `errors < 0.1%`, `throughput > 5 Gbit/s`) and bounds on a change
//! between two runs (`get.p99 > +5%`).

use super::confidence::{IntervalEstimate, MIN_INDEPENDENT, Share, WIDEST};
use super::estimates::{Estimate, Estimator, Metric};
use super::figure_selector::{FigureSelector, check_size};
use super::latencies::of_histogram;
use super::limits::is_only_lag;
use super::objective_result::ObjectiveResult;
use super::percentiles::samples_needed;
use super::result::{LoopKind, UnseenStalls, Window};
use super::series::{LatencyKind, Series};
use plimsoll_base::units::{parse_duration, parse_rate, parse_throughput};

/// Parse error of an objective or a bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}': {reason}; use the form [phase.]operation.metric {form}")]
pub struct ObjectiveError {
    /// Text as the user wrote it.
    pub text: String,
    /// Reason why the text is invalid.
    pub reason: String,
    /// Valid comparison sign and value, with an example.
    pub form: &'static str,
}

impl ObjectiveError {
    /// Returns the error of a condition that must not occur, such as `errors > 5%`.
    pub fn of_condition(text: &str, reason: String) -> ObjectiveError {
        ObjectiveError { text: text.into(), reason, form: CONDITION_FORM }
    }
}

const OBJECTIVE_FORM: &str = "< value, such as get.p99 < 10ms";
const CONDITION_FORM: &str = "> value, such as errors > 5%";
const CHANGE_FORM: &str = "> change, such as get.p99 > +5%";

/// An upper or lower bound on a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Objective {
    /// Text as the user wrote it.
    pub text: String,
    /// Figure that the bound applies to.
    pub target: FigureSelector,
    /// True if the figure must be below the bound, false if it must be above.
    pub below: bool,
    /// The bound in the metric's unit: nanoseconds, operations per second, bytes per second, or a share (0 to 1).
    pub bound: f64,
}

impl ObjectiveResult {
    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ObjectiveResult::Pass => "pass",
            ObjectiveResult::Fail => "fail",
            ObjectiveResult::Inconclusive => "inconclusive",
        }
    }

    /// Returns the name used in tables; a failure is in capitals.
    pub fn describe(self) -> &'static str {
        match self {
            ObjectiveResult::Pass => "pass",
            ObjectiveResult::Fail => "FAIL",
            ObjectiveResult::Inconclusive => "inconclusive",
        }
    }
}

/// Result of judging one series by an objective.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Result of the judgement.
    pub outcome: ObjectiveResult,
    /// Description of the measured value, for people.
    pub detail: String,
    /// Estimated seconds of measurement needed for a decision. `None` after a decision, and for a figure that is too
    /// close to its bound.
    pub duration_needed_s: Option<f64>,
    /// True if the measured value meets the objective, regardless of its interval. `None` if there is no value.
    pub as_measured: Option<bool>,
    /// Reason why the client was the bottleneck; the figure is then only a bound on the store's. `None` if it was not.
    pub client_limited: Option<String>,
    /// Scope of a pass, if the run is too short to show the stalls that would refute it.
    pub unseen_stalls: Option<UnseenStalls>,
}

/// Splits a bound at its comparison sign. Returns the target, true for `<`, and the text of the value; an error
/// if one is missing or the target is invalid.
fn split(text: &str) -> Result<(FigureSelector, bool, String), String> {
    let at = text.find(['<', '>']).ok_or("it contains neither < nor >")?;
    let below = text.as_bytes()[at] == b'<';
    let value = text[at + 1..].trim_start_matches('=').trim().to_string();
    if value.is_empty() {
        return Err("it contains no value".into());
    }
    Ok((FigureSelector::parse(text[..at].trim())?, below, value))
}

/// Parses the value of a metric, in nanoseconds, as a share or per second. Also returns true if smaller is better.
fn value_of(metric: Metric, value: &str) -> Result<(f64, bool), String> {
    Ok(match metric {
        Metric::Percentile(..) => (parse_duration(value).map_err(|e| e.to_string())? as f64, true),
        Metric::Errors => {
            let share = percent(value).filter(|s| (0.0..=1.0).contains(s));
            (share.ok_or_else(|| format!("'{value}' is not a share between 0% and 100%"))?, true)
        }
        Metric::Rate => (parse_rate(value).map_err(|e| e.to_string())?, false),
        Metric::Throughput => (parse_throughput(value).map_err(|e| e.to_string())?, false),
    })
}

fn percent(text: &str) -> Option<f64> {
    let number: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
    number.is_finite().then_some(number / 100.0)
}

impl Objective {
    /// Parses an objective.
    ///
    /// # Errors
    /// [`ObjectiveError`] if the target or the value is invalid, or the comparison has the wrong direction.
    pub fn parse(text: &str) -> Result<Objective, ObjectiveError> {
        let objective = Objective::parse_bound(text, false);
        let possible = objective.and_then(|objective| match objective.below && objective.bound == 0.0 {
            true => Err("no measurement can show a figure below 0; use a small value".to_string()),
            false => Ok(objective),
        });
        possible.map_err(|reason| ObjectiveError { text: text.into(), reason, form: OBJECTIVE_FORM })
    }

    /// Parses a condition that must not occur, such as `errors > 5%`. Returns the objective that is its opposite.
    ///
    /// # Errors
    /// As [`Objective::parse`].
    pub fn parse_condition(text: &str) -> Result<Objective, ObjectiveError> {
        let opposite = Objective::parse_bound(text, true).and_then(|objective| match objective.target.size {
            Some(_) => Err("a condition that ends a run is about all sizes; omit the size".to_string()),
            None => Ok(objective),
        });
        opposite.map_err(|reason| ObjectiveError::of_condition(text, reason))
    }

    /// Parses an objective, or with `is_condition` the opposite of one. Returns the reason why the text is invalid.
    fn parse_bound(text: &str, is_condition: bool) -> Result<Objective, String> {
        let (target, below, value) = split(text)?;
        let metric =
            Metric::from_name(&target.metric, LatencyKind::Service).ok_or("it contains no metric")?;
        check_size(&target, metric)?;
        let (bound, small_is_good) = value_of(metric, &value)?;
        let wants_below = small_is_good != is_condition;
        if below != wants_below {
            let (is, sign) =
                (if small_is_good { "small" } else { "large" }, if wants_below { '<' } else { '>' });
            return Err(format!("{} is better when {is}; use {sign}", target.metric));
        }
        Ok(Objective { text: text.trim().into(), target, below: small_is_good, bound })
    }

    /// Judges a series by this objective.
    pub fn judge(&self, series: &Series) -> Finding {
        let Some(metric) = Metric::from_name(&self.target.metric, series.clocked()) else {
            return undecided("unknown metric");
        };
        let operations: u64 = series.seconds.iter().map(|s| s.operations).sum();
        if operations == 0 {
            return undecided("nothing was measured");
        }
        let mut estimator = Estimator::new(series);
        let measured_s = series.measured_s();
        let percent = |x: f64| format!("{:.3}%", 100.0 * x);
        let found = match metric {
            // A percentile meets its bound if that share of all operations does. Failed and censored operations
            // are misses.
            Metric::Percentile(clocked, q) => {
                let mut within = |clocked| {
                    let share = estimator.within(clocked, (self.bound / 1e3) as u64);
                    let value = percent(share.value);
                    let time = if series.size.is_some() && series.open { " (service time)" } else { "" };
                    let measured =
                        format!("{value} of operations within the limit, {} needed{time}", percent(q));
                    decide(Measured::of(share, measured_s), q, |x| x >= q, &measured, percent)
                };
                let found = within(clocked);
                // Start lag of the client is part of the response time, and not of the service time.
                let is_lag = series.client_limited.as_deref().is_some_and(is_only_lag);
                let mut is_own = || is_lag && within(LatencyKind::Service).outcome == ObjectiveResult::Fail;
                match found.outcome == ObjectiveResult::Fail && !is_own() {
                    true => excused(found, series),
                    false => found,
                }
            }
            Metric::Errors => {
                let share = estimator.errors();
                let (bound, text) = (self.bound, percent(share.value));
                decide(Measured::of(share, measured_s), bound, |x| x < bound, &text, percent)
            }
            Metric::Rate | Metric::Throughput => {
                let Estimate { value, confidence, .. } = estimator.estimate(metric);
                let Some(value) = value else { return undecided("nothing was measured") };
                let show = |x: f64| match metric {
                    Metric::Throughput => plimsoll_base::units::format_throughput(x),
                    _ => format!("{}/s", plimsoll_base::units::format_per_s(x)),
                };
                // No interval is wider than this, so a bound outside it is decided without an interval.
                let widest = (value / WIDEST, value * WIDEST);
                let bounds = confidence.ends().or((operations as f64 >= MIN_INDEPENDENT).then_some(widest));
                let bound = self.bound;
                let measured = Measured { value, confidence, bounds, measured_s };
                let found = decide(measured, bound, |x| x > bound, &show(value), show);
                // A client that starts late achieves its rate nevertheless.
                let is_slow = series.client_limited.as_deref().is_some_and(|reason| !is_only_lag(reason));
                if is_slow { excused(found, series) } else { found }
            }
        };
        let passed = found.outcome == ObjectiveResult::Pass;
        let unseen_stalls = if passed { self.unseen_stalls(&mut estimator, metric) } else { None };
        Finding { client_limited: series.client_limited.clone(), unseen_stalls, ..found }
    }

    /// Returns the scope of a pass if its percentile has no interval because stalls may have been missed, or if the
    /// interval, which allows for one missed stall, reaches beyond the objective.
    fn unseen_stalls(&self, estimator: &mut Estimator<'_>, metric: Metric) -> Option<UnseenStalls> {
        let Metric::Percentile(..) = metric else { return None };
        let measured_s = estimator.series.measured_s();
        let beyond = |(_, high): &(f64, f64)| *high > self.bound;
        let reaches = estimator.estimate(metric).confidence.ends().filter(beyond).map(|_| 2.0 * measured_s);
        let needed_s = estimator.stalls_unseen(metric).or(reaches)?;
        Some(UnseenStalls { measured_s, needed_s })
    }

    /// Describes the measured value if one window misses the objective; `None` if the window meets it. Uses the
    /// counts alone, without an interval. Failed and censored operations are misses.
    pub fn broken_by(&self, window: &Window) -> Option<String> {
        let counts =
            if window.loop_ == LoopKind::Open { LatencyKind::Response } else { LatencyKind::Service };
        let (all, target) = (window.operations as f64, &self.target);
        let failed: u64 = window.errors.values().sum();
        match Metric::from_name(&self.target.metric, counts)? {
            Metric::Percentile(clocked, q) => {
                let class = window.size_classes.iter().find(|class| target.is_about(Some(class.range())));
                let (name, all) = match (target.size, class) {
                    (None, _) => (clocked.name().to_string(), all),
                    (Some(_), Some(class)) => (class.histogram(), class.service_ms.n as f64),
                    (Some(_), None) => return Some(format!("no operation of the size of {}", self.text)),
                };
                let latencies = of_histogram(window, &name, None);
                let limit_us = (self.bound / 1e3) as u64;
                let Some(recorded) = latencies.histogram() else {
                    let missed = all > 0.0 || window.censored > 0;
                    return missed.then(|| format!("no operation within the limit of {}", self.text));
                };
                let within = recorded.iter_recorded().take_while(|v| v.value_iterated_to() <= limit_us);
                let share = within.map(|v| v.count_at_value()).sum::<u64>() as f64 / all;
                let percent = percent_text(share);
                (share < q).then(|| format!("{percent} of operations within the limit of {}", self.text))
            }
            Metric::Errors => {
                let share = (failed + window.censored) as f64 / all;
                (share >= self.bound).then(|| format!("{} of operations failed", percent_text(share)))
            }
            Metric::Rate => {
                (window.achieved_per_s <= self.bound).then(|| format!("{:.1}/s", window.achieved_per_s))
            }
            Metric::Throughput => (window.throughput_bytes_per_s <= self.bound)
                .then(|| plimsoll_base::units::format_throughput(window.throughput_bytes_per_s)),
        }
    }

    /// Returns the number of operations that a window needs to be conclusive. For a percentile, this is three
    /// times the number needed to report it.
    pub fn operations_needed(&self) -> u64 {
        match Metric::from_name(&self.target.metric, LatencyKind::Response) {
            Some(Metric::Percentile(_, q)) => 3 * samples_needed(q),
            Some(Metric::Errors) => (10.0 / self.bound.max(1e-6)) as u64,
            _ => 100,
        }
    }
}

/// Returns a finding that is undecided instead of a failure if the client was the bottleneck, and not the store.
fn excused(found: Finding, series: &Series) -> Finding {
    match series.client_limited.is_some() && found.outcome == ObjectiveResult::Fail {
        true => Finding { outcome: ObjectiveResult::Inconclusive, ..found },
        false => found,
    }
}

fn percent_text(share: f64) -> String {
    format!("{:.2}%", 100.0 * share)
}

fn undecided(why: &str) -> Finding {
    Finding {
        outcome: ObjectiveResult::Inconclusive,
        detail: why.into(),
        duration_needed_s: None,
        as_measured: None,
        client_limited: None,
        unseen_stalls: None,
    }
}

/// A value, its interval for display, the bounds that decide (see [`Share`]), and the measured time in seconds.
struct Measured {
    value: f64,
    confidence: IntervalEstimate,
    bounds: Option<(f64, f64)>,
    measured_s: f64,
}

/// Factor by which a probable time is rounded up.
const GENEROUS: f64 = 1.25;
/// Maximum factor between the measured time and the time that an objective probably needs. Beyond it, the figure is too
/// close to the objective.
const MAX_LONGER: f64 = 100.0;

impl Measured {
    fn of(share: Share, measured_s: f64) -> Measured {
        Measured { value: share.value, confidence: share.confidence, bounds: share.bounds, measured_s }
    }

    /// Returns the seconds of measurement after which the bounds would probably exclude `limit`, if their distance from
    /// the value shrinks with the square root of the time; `None` if that takes too long.
    fn needed_s(&self, limit: f64) -> Option<f64> {
        let (low, high) = self.bounds?;
        let half = if limit > self.value { high - self.value } else { self.value - low };
        let longer = GENEROUS * (half / (limit - self.value)).powi(2);
        (longer <= MAX_LONGER).then(|| (self.measured_s * longer).ceil())
    }
}

/// Decides by the bounds: a pass if both meet the objective, a fail if neither does. `limit` is the bound, and
/// `holds` returns true for values that meet it.
fn decide(
    measured: Measured,
    limit: f64,
    holds: impl Fn(f64) -> bool,
    text: &str,
    show: impl Fn(f64) -> String,
) -> Finding {
    let outcome = match measured.bounds.map(|(low, high)| (holds(low), holds(high))) {
        Some((true, true)) => ObjectiveResult::Pass,
        Some((false, false)) => ObjectiveResult::Fail,
        _ => ObjectiveResult::Inconclusive,
    };
    let open = outcome == ObjectiveResult::Inconclusive;
    let (detail, duration_needed_s) = match measured.confidence {
        IntervalEstimate::Interval { low, high, .. } => {
            let needed_s = if open { measured.needed_s(limit) } else { None };
            let remark = match needed_s {
                Some(seconds) => format!(", about {seconds:.0} s needed"),
                None if open => ", too close to the objective".to_string(),
                None => String::new(),
            };
            (format!("{text} [{}..{}]{remark}", show(low), show(high)), needed_s)
        }
        IntervalEstimate::TooShort { seconds } | IntervalEstimate::SlowStructure { seconds } if open => {
            (format!("{text}; too few independent seconds, about {seconds:.0} s needed"), Some(seconds))
        }
        IntervalEstimate::TooShort { .. } | IntervalEstimate::SlowStructure { .. } => {
            (format!("{text}; decided without an interval because the bound is far off"), None)
        }
        IntervalEstimate::NoneSucceeded => (format!("{text}; no operation succeeded"), None),
    };
    let as_measured = Some(holds(measured.value));
    Finding { outcome, detail, duration_needed_s, as_measured, client_limited: None, unseen_stalls: None }
}

/// A bound on a change: `get.p99 > +5%`.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeBound {
    /// Text as the user wrote it.
    pub text: String,
    /// Figure that the bound applies to.
    pub target: FigureSelector,
    /// True if a change below the bound fails, false if a change above it does.
    pub below: bool,
    /// The bound as a ratio of the two figures; for errors, as the difference of the shares.
    pub bound: f64,
}

impl ChangeBound {
    /// Parses a bound on a change.
    ///
    /// # Errors
    /// [`ObjectiveError`] if the target is invalid or the value is not a percentage.
    pub fn parse(text: &str) -> Result<ChangeBound, ObjectiveError> {
        let fail = |reason: String| ObjectiveError { text: text.into(), reason, form: CHANGE_FORM };
        let (target, below, value) = split(text).map_err(fail)?;
        let share = percent(&value)
            .ok_or_else(|| fail(format!("'{value}' is not a relative change, such as +5% or -10%")))?;
        let difference = target.metric == "errors";
        Ok(ChangeBound {
            text: text.trim().into(),
            target,
            below,
            bound: if difference { share } else { 1.0 + share },
        })
    }

    /// Judges a change, given as `(ratio, low, high)`: fails if the whole interval is beyond the bound, passes
    /// if none of it is.
    pub fn met(&self, change: Option<(f64, f64, f64)>) -> ObjectiveResult {
        let Some((_, low, high)) = change else { return ObjectiveResult::Inconclusive };
        let beyond = |x: f64| if self.below { x < self.bound } else { x > self.bound };
        match (beyond(low), beyond(high)) {
            (true, true) => ObjectiveResult::Fail,
            (false, false) => ObjectiveResult::Pass,
            _ => ObjectiveResult::Inconclusive,
        }
    }
}

#[cfg(test)]
#[path = "objective_tests.rs"]
mod tests;
