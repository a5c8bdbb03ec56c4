//! Compares two groups of runs, with the run as the unit.

use super::check_primary;
use crate::cli::exit::Exit;
use plimsoll_base::units::short_names;
use plimsoll_judge::run_dir::comparable;
use plimsoll_judge::run_dir::run::Run;
use plimsoll_judge::summary::figure_selector::FigureSelector;
use plimsoll_judge::summary::primary_figure::{Choice, GroupPair};
use plimsoll_judge::summary::series::Series;
use plimsoll_report::comparison::{Comparison, Subject, group_failures, group_rows};
use plimsoll_workload::schedule::Role;

/// Returns the only store that the runs of a group measured.
///
/// # Errors
/// Exit code 2 if a run measured several stores or none, or if the runs measured different ones.
fn store_of(group: &[Run]) -> Result<String, Exit> {
    let mut store: Option<String> = None;
    for run in group {
        let path = run.path.display();
        let [own] = run.measured()[..] else {
            return Err(Exit::input(format!(
                "{path}: the run measured {} stores; compare groups of runs of one store each",
                run.measured().len()
            )));
        };
        match &store {
            Some(known) if known != own => {
                return Err(Exit::input(format!(
                    "{path}: the run measured {own}, but the first run of its group measured {known}; use one store \
                     per group"
                )));
            }
            _ => store = Some(own.to_string()),
        }
    }
    store.ok_or_else(|| Exit::input("a group has no run; give at least one run before and after --"))
}

/// Checks that all runs are comparable with the first one.
///
/// # Errors
/// Exit code 2 with the first difference.
fn check_comparable<'a>(first: &Run, others: impl Iterator<Item = &'a Run>) -> Result<(), Exit> {
    for other in others {
        let difference = comparable::difference(&first.experiment_table(), &other.experiment_table());
        if let Some(difference) = difference {
            return Err(Exit::input(format!(
                "{} and {} are not comparable: {difference}; compare runs with the same operations, objects and load",
                first.path.display(),
                other.path.display()
            )));
        }
    }
    Ok(())
}

fn measured(run: &Run) -> impl Iterator<Item = &Series> {
    run.all_series().filter(|s| s.role == Role::Measure)
}

/// Returns the series of the group that have the phase, step and operation of `model`, one per run.
fn matching_series<'a>(group: &'a [Run], model: &Series) -> Vec<&'a Series> {
    let key = |s: &Series| (s.phase.clone(), s.step, s.operation, s.size);
    let same = |s: &&Series| key(s) == key(model);
    group.iter().filter_map(|run| measured(run).find(same)).collect()
}

/// Compares two groups of runs.
///
/// # Errors
/// Exit code 2 if the runs are not comparable, or if a group did not measure `primary`.
pub fn compare_groups(
    base: &[Run],
    other: &[Run],
    primary: Option<&FigureSelector>,
    also: &[FigureSelector],
) -> Result<Comparison, Exit> {
    let stores = [store_of(base)?, store_of(other)?];
    let (Some(first), Some(last)) = (base.first(), other.first()) else {
        return Err(Exit::input("a group has no run; give at least one run before and after --"));
    };
    check_comparable(first, base.iter().skip(1).chain(other))?;
    let pairs: Vec<GroupPair<'_>> = measured(first)
        .map(|model| GroupPair { base: matching_series(base, model), other: matching_series(other, model) })
        .filter(|pair| !pair.other.is_empty())
        .collect();
    if pairs.is_empty() {
        return Err(Exit::input(
            "the groups have no measured phase in common; compare runs of the same experiment",
        ));
    }
    let rows = group_rows(&pairs, Choice { primary, also });
    check_primary(primary, &rows)?;
    let first_s = |side: &[&Series]| side.first().map_or(0.0, |series| series.measured_s());
    let short = short_names(&[&stores[0], &stores[1]]);
    let distinct = stores[0] != stores[1];
    let subject = |group: &[Run], i: usize| {
        let ids: Vec<&str> = group.iter().map(|run| run.result.run.id.as_str()).collect();
        let name =
            if distinct { short[i].clone() } else { ["the base group", "the other group"][i].to_string() };
        Subject { run: ids.join(", "), store: stores[i].clone(), name }
    };
    Ok(Comparison {
        base: subject(base, 0),
        other: subject(other, 1),
        runs: (base.len(), other.len()),
        measured_s: (first_s(&pairs[0].base), first_s(&pairs[0].other)),
        clients: comparable::clients(first, last),
        loads: Vec::new(),
        failures: group_failures(&pairs),
        rows,
    })
}
