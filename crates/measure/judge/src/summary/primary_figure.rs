//! Figures of a comparison: which are compared, which of them is the primary figure, and the bound of each verdict.

use super::comparison::{MetricComparison, compare, metrics};
use super::estimates::{Estimator, Metric};
use super::figure_selector::FigureSelector;
use super::groups::compare_groups;
use super::holm::holm;
use super::series::Series;
use super::student::LEVEL;

/// A compared figure.
pub struct Figure<'a> {
    /// Series of the base side; the first one if the side has several runs.
    pub base: &'a Series,
    /// Series of the other side; the first one if the side has several runs.
    pub other: &'a Series,
    /// Comparison of the figure.
    pub compared: MetricComparison,
    /// True for the primary figure.
    pub primary: bool,
    /// True if the user chose the primary figure, and this is it.
    pub declared: bool,
    /// Probability that a difference must not exceed to be shown.
    pub bound: f64,
}

/// Figures that a user has chosen.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// Primary figure; p50 of the first operation if there is none.
    pub primary: Option<&'a FigureSelector>,
    /// Figures to compare in addition to the default ones.
    pub also: &'a [FigureSelector],
}

/// Two series of the same phase and operation.
pub struct SeriesPair<'a> {
    /// Series of the base side.
    pub base: &'a Series,
    /// Series of the other side.
    pub other: &'a Series,
}

/// Series of one phase and operation in the runs of both groups.
pub struct GroupPair<'a> {
    /// Series of the base runs.
    pub base: Vec<&'a Series>,
    /// Series of the other runs.
    pub other: Vec<&'a Series>,
}

/// Compares all figures of pairs of series. `paired` is true if both were measured in interleaved blocks of one run.
pub fn figures<'a>(pairs: &[SeriesPair<'a>], choice: Choice<'_>, paired: bool) -> Vec<Figure<'a>> {
    let mut found = Vec::new();
    for SeriesPair { base, other } in pairs {
        let (mut a, mut b) = (Estimator::new(base), Estimator::new(other));
        add(&mut found, SeriesPair { base, other }, choice, |metric| compare(&mut a, &mut b, metric, paired));
    }
    with_bounds(found)
}

/// Compares all figures of two groups of runs.
pub fn group_figures<'a>(pairs: &[GroupPair<'a>], choice: Choice<'_>) -> Vec<Figure<'a>> {
    let mut found = Vec::new();
    for pair in pairs {
        if let (Some(base), Some(other)) = (pair.base.first(), pair.other.first()) {
            let first = SeriesPair { base, other };
            add(&mut found, first, choice, |metric| compare_groups(&pair.base, &pair.other, metric));
        }
    }
    with_bounds(found)
}

/// Adds the figures of one pair of series, which `compare` compares.
fn add<'a>(
    found: &mut Vec<Figure<'a>>,
    pair: SeriesPair<'a>,
    choice: Choice<'_>,
    mut compare: impl FnMut(Metric) -> MetricComparison,
) {
    let SeriesPair { base, other } = pair;
    let Choice { primary, also } = choice;
    let counts = base.clocked();
    let mut all = metrics(base, other);
    for target in primary.into_iter().chain(also).filter(|t| t.matches(base)) {
        all.extend(Metric::from_name(&target.metric, counts).filter(|m| !all.contains(m)));
    }
    for metric in all {
        let first = found.iter().all(|figure| !figure.primary);
        let name = metric.name(base.named());
        let chosen = first
            && primary.map_or(name == "p50", |t| {
                t.matches(base) && Metric::from_name(&t.metric, counts) == Some(metric)
            });
        let declared = chosen && primary.is_some();
        found.push(Figure { base, other, compared: compare(metric), primary: chosen, declared, bound: 0.0 });
    }
}

/// Sets the bounds: the primary figure is tested alone, and the others together.
fn with_bounds(mut figures: Vec<Figure<'_>>) -> Vec<Figure<'_>> {
    let tested = |figure: &Figure<'_>| figure.compared.probability.filter(|_| !figure.primary);
    let bounds = holm(&figures.iter().map(tested).collect::<Vec<_>>());
    for (figure, bound) in figures.iter_mut().zip(bounds) {
        figure.bound = if figure.primary { 1.0 - LEVEL } else { bound };
    }
    figures
}
