//! Conditions that end a run early: `--abort-if 'errors > 5%'`.

use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::error::RunError;
use plimsoll_engine::driver::Control;
use plimsoll_judge::summary::estimates::Metric;
use plimsoll_judge::summary::objective::{Objective, ObjectiveError};
use plimsoll_judge::summary::percentiles::samples_needed;
use plimsoll_judge::summary::series::LatencyKind;
use plimsoll_recorder::collector::SecondRow;
use plimsoll_recorder::histogram::Latencies;
use plimsoll_recorder::latency::Latency;
use plimsoll_workload::schedule::Role;

/// Number of seconds over which a condition is evaluated.
const WINDOW_S: u64 = 10;
/// Minimum number of operations for a share of errors.
const MIN_OPERATIONS: u64 = 20;

/// A condition that ends a run if it holds for the last ten seconds of a measured phase.
#[derive(Debug, Clone)]
pub struct AbortCondition {
    /// Opposite of the condition: the objective that the run must meet to go on. Its text is the condition as written.
    objective: Objective,
    metric: Metric,
}

impl AbortCondition {
    /// Parses a condition such as `errors > 5%`, `get.p99 > 2s` or `rate < 100/s`.
    ///
    /// # Errors
    /// Describes the expected syntax.
    pub fn parse(text: &str) -> Result<AbortCondition, ObjectiveError> {
        let objective = Objective::parse_condition(text)?;
        let metric = Metric::from_name(&objective.target.metric, LatencyKind::Service)
            .filter(|metric| !matches!(metric, Metric::Percentile(LatencyKind::FirstByte, _)));
        match metric {
            Some(metric) => Ok(AbortCondition { objective, metric }),
            None => {
                Err(ObjectiveError::of_condition(text, "use errors, a percentile, rate or throughput".into()))
            }
        }
    }
}

/// Counts of one second.
#[derive(Debug, Default)]
struct Second {
    second: u64,
    completed: u64,
    failed: u64,
    bytes: f64,
    latencies: Latencies,
}

/// Last seconds of one phase run, for one condition.
#[derive(Debug, Default)]
struct Recent {
    phase_run: usize,
    /// First second of the phase run.
    first: u64,
    seconds: VecDeque<Second>,
}

/// Conditions of a run, and the one that has ended it.
#[derive(Debug)]
pub struct AbortRules {
    conditions: Vec<AbortCondition>,
    recent: Mutex<Vec<Recent>>,
    ended: OnceLock<String>,
}

impl AbortRules {
    /// Creates rules that have not ended a run.
    pub fn new(conditions: Vec<AbortCondition>) -> AbortRules {
        let recent = conditions.iter().map(|_| Recent::default()).collect();
        AbortRules { conditions, recent: Mutex::new(recent), ended: OnceLock::new() }
    }

    /// Adds the counts of one second of a phase, and stops the run if a condition holds.
    pub fn second(&self, phase: &str, role: Role, row: &SecondRow<'_>, control: &Control) {
        if role != Role::Measure {
            return;
        }
        let mut all = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        for (condition, recent) in self.conditions.iter().zip(all.iter_mut()) {
            let target = &condition.objective.target;
            let about = target.phase.as_deref().is_none_or(|name| name == phase)
                && target.operation.as_deref().is_none_or(|name| name == row.kind.name());
            if !about {
                continue;
            }
            if let Some(reason) = recent.add(row).then(|| recent.broken(condition)).flatten() {
                let _ = self.ended.set(reason);
                control.stop();
            }
        }
    }

    /// Returns the error of a run that a condition has ended; `None` if none has.
    pub fn ended(&self) -> Option<RunError> {
        self.ended.get().map(|reason| RunError::check(reason.clone()))
    }
}

impl Recent {
    /// Adds a second; returns true if it is the first row of a second after ten complete ones.
    fn add(&mut self, row: &SecondRow<'_>) -> bool {
        if self.phase_run != row.phase || self.seconds.is_empty() {
            *self = Recent { phase_run: row.phase, first: row.second, ..Recent::default() };
        }
        let begins = self.seconds.back().is_none_or(|last| last.second != row.second);
        if begins {
            self.seconds.push_back(Second { second: row.second, ..Second::default() });
            self.seconds.retain(|s| s.second + WINDOW_S >= row.second);
        }
        if let Some(last) = self.seconds.back_mut() {
            last.completed += row.tally.completed;
            last.failed += row.tally.errors.values().sum::<u64>() + row.tally.censored;
            last.bytes += row.tally.bytes;
            last.latencies.merge(&row.tally.latencies[Latency::Service]);
        }
        // The first second of a phase run is incomplete.
        begins && row.second > self.first + WINDOW_S
    }

    /// Returns the reason to end the run, from the complete seconds.
    fn broken(&self, condition: &AbortCondition) -> Option<String> {
        let current = self.seconds.back().map_or(0, |last| last.second);
        let complete = || self.seconds.iter().filter(move |s| s.second < current);
        let completed: u64 = complete().map(|s| s.completed).sum();
        let failed: u64 = complete().map(|s| s.failed).sum();
        let bound = condition.objective.bound;
        let (broken, value) = match condition.metric {
            Metric::Errors => {
                let share = failed as f64 / (completed + failed).max(1) as f64;
                (completed + failed >= MIN_OPERATIONS && share > bound, format!("{:.2}%", 100.0 * share))
            }
            Metric::Percentile(_, q) => {
                let mut latencies = Latencies::default();
                complete().for_each(|s| latencies.merge(&s.latencies));
                let ms = latencies.quantile_ns(q).unwrap_or(0) as f64 / 1e6;
                (latencies.len() >= samples_needed(q) && ms > bound / 1e6, format!("{ms:.1} ms"))
            }
            Metric::Rate => {
                let per_s = completed as f64 / WINDOW_S as f64;
                (per_s < bound, format!("{per_s:.1}/s"))
            }
            Metric::Throughput => {
                let per_s = complete().map(|s| s.bytes).sum::<f64>() / WINDOW_S as f64;
                (per_s < bound, format!("{:.2} MB/s", per_s / 1e6))
            }
        };
        broken.then(|| {
            format!(
                "--abort-if '{}': {value} in the last {WINDOW_S} s; results are kept and marked partial",
                condition.objective.text
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_parsed() {
        for text in ["errors > 5%", "get.p99 > 2s", "rate < 100/s", "throughput < 1MB/s"] {
            assert!(AbortCondition::parse(text).is_ok(), "{text}: {:?}", AbortCondition::parse(text));
        }
        for text in ["errors", "errors > five", "latency > 1s", ""] {
            assert!(AbortCondition::parse(text).is_err(), "{text}");
        }
    }

    /// Regression test: messages quoted the opposite of the condition, and the form of an objective.
    #[test]
    fn messages_about_invalid_conditions_quote_what_the_user_wrote() {
        let message = |text| AbortCondition::parse(text).unwrap_err().to_string();
        assert_eq!(
            message("errors > 5"),
            "'errors > 5': '5' is not a share between 0% and 100%; \
             use the form [phase.]operation.metric > value, such as errors > 5%"
        );
        assert!(message("errors < 5%").starts_with("'errors < 5%': errors is better when small; use >;"));
        assert!(message("rate > 5/s").contains("rate is better when large; use <;"));
        assert!(message("get.first_byte.p99 > 1s").contains("use errors, a percentile, rate or throughput"));
    }

    /// Regression test: `errors > 0%` ended runs without errors.
    #[test]
    fn a_figure_equal_to_the_bound_ends_no_run() {
        let condition = AbortCondition::parse("errors > 0%").unwrap();
        let second = |second, completed, failed| Second { second, completed, failed, ..Second::default() };
        let recent = |failed| Recent {
            seconds: [second(0, 100, failed), second(1, 0, 0)].into(),
            ..Recent::default()
        };
        assert_eq!(recent(0).broken(&condition), None);
        assert!(recent(1).broken(&condition).is_some_and(|reason| reason.contains("0.99% in the last 10 s")));
    }
}
