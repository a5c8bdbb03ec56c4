//! Judgement of all objectives of a run by its series.

use super::objective::Objective;
use super::objective_result::ObjectiveResult;
use super::result::ObjectiveFigures;
use super::series::Series;
use plimsoll_workload::schedule::Role;

/// Returns the measured series to which an objective applies. If it names no operation, all operations of a phase are
/// combined into one series.
pub fn subjects<'a>(series: impl IntoIterator<Item = &'a Series>, objective: &Objective) -> Vec<Series> {
    let measured: Vec<&Series> =
        series.into_iter().filter(|s| s.role == Role::Measure && objective.target.matches(s)).collect();
    if objective.target.operation.is_some() {
        return measured.into_iter().cloned().collect();
    }
    let mut groups: Vec<Vec<&Series>> = Vec::new();
    for series in measured {
        let same = |g: &&mut Vec<&Series>| {
            (&g[0].store, &g[0].phase, g[0].step) == (&series.store, &series.phase, series.step)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(series),
            None => groups.push(vec![series]),
        }
    }
    let one = |group: &Vec<&Series>| {
        if group.len() == 1 { Some(group[0].clone()) } else { Series::together(group) }
    };
    groups.iter().filter_map(one).collect()
}

/// Judges objectives by the series of a run. Returns one entry per objective and series that it applies to.
pub fn judge<'a>(
    series: impl IntoIterator<Item = &'a Series> + Clone,
    objectives: &[Objective],
) -> Vec<ObjectiveFigures> {
    let figures = |objective: &Objective, series: &Series| {
        let finding = objective.judge(series);
        ObjectiveFigures {
            objective: objective.text.clone(),
            store: series.store.clone(),
            phase: series.phase.clone(),
            step: series.step,
            operation: objective.target.operation.is_some().then_some(series.operation),
            size: series.size,
            outcome: finding.outcome,
            detail: finding.detail,
            duration_needed_s: finding.duration_needed_s,
            client_limited: finding.client_limited,
            unseen_stalls: finding.unseen_stalls,
        }
    };
    let of = |o| subjects(series.clone(), o).iter().map(|s| figures(o, s)).collect::<Vec<_>>();
    objectives.iter().flat_map(of).collect()
}

/// Returns the number of objectives with this result.
pub fn count(found: &[ObjectiveFigures], outcome: ObjectiveResult) -> usize {
    found.iter().filter(|figures| figures.outcome == outcome).count()
}

/// Returns the longest time that an undecided objective probably needs, in seconds; `None` if it is not known.
pub fn needed_s(found: &[ObjectiveFigures]) -> Option<f64> {
    found.iter().filter_map(|figures| figures.duration_needed_s).reduce(f64::max)
}
