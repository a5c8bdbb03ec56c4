//! Object sizes of runs: the phases that measured the objects of a workload, and the size that a workload takes from
//! its runs.

use std::collections::BTreeMap;

use plimsoll_base::units::format_bytes;
use plimsoll_judge::run_dir::run::Run;
use plimsoll_judge::summary::objective::Objective;
use plimsoll_judge::summary::result::Window;
use plimsoll_judge::summary::series::Series;
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Role;

/// Returns true if two sizes differ by no more than a factor of two.
pub fn is_near(measured: u64, bytes: u64) -> bool {
    measured > 0 && bytes > 0 && (measured / 2..=measured.saturating_mul(2)).contains(&bytes)
}

/// Mean size of the objects that an operation moved in a phase.
#[derive(Debug, Default, Clone, Copy)]
struct Moved {
    operations: u64,
    bytes: u64,
}

impl Moved {
    fn mean(self) -> u64 {
        self.bytes.checked_div(self.operations).unwrap_or(0)
    }
}

fn moved<'a>(windows: impl Iterator<Item = &'a Window>) -> BTreeMap<(OperationKind, &'a str), Moved> {
    let mut out: BTreeMap<(OperationKind, &str), Moved> = BTreeMap::new();
    let counts = [OperationKind::Get, OperationKind::Put];
    for window in windows.filter(|w| w.role == Role::Measure && counts.contains(&w.operation)) {
        let moved = out.entry((window.operation, window.phase.as_str())).or_default();
        moved.operations += window.succeeded();
        moved.bytes += window.bytes;
    }
    out
}

/// The phases of a store that measured other objects than those of the workload, although other phases measured the
/// same operation with objects like those of the workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtherSizes(Vec<(OperationKind, String)>);

impl OtherSizes {
    /// Finds these phases among the windows of one store, for objects of `bytes`.
    pub fn of(windows: &[&Window], bytes: u64) -> OtherSizes {
        let moved = moved(windows.iter().copied());
        let fits =
            |kind: OperationKind| moved.iter().any(|((k, _), m)| *k == kind && is_near(m.mean(), bytes));
        let others = moved.iter().filter(|((kind, _), m)| fits(*kind) && !is_near(m.mean(), bytes));
        OtherSizes(others.map(|((kind, phase), _)| (*kind, (*phase).to_string())).collect())
    }

    /// Returns true if a window counts.
    pub fn counts_window(&self, window: &Window) -> bool {
        !self.0.iter().any(|(kind, phase)| *kind == window.operation && *phase == window.phase)
    }

    /// Returns true if a series counts for an objective. An objective that names a phase decides itself.
    pub fn counts(&self, series: &Series, objective: &Objective) -> bool {
        let of = |kind: OperationKind| objective.target.operation.is_none() || kind == series.operation;
        objective.target.phase.is_some()
            || !self.0.iter().any(|(kind, phase)| of(*kind) && *phase == series.phase)
    }
}

/// Returns the mean size of the objects that most operations of the runs moved, and the assumption about it; `None` if
/// no run read or wrote objects.
pub fn of_runs(runs: &[Run]) -> Option<(u64, String)> {
    let mut sizes: Vec<Moved> = Vec::new();
    let all = runs.iter().flat_map(|run| moved(run.result.windows.iter()).into_values());
    for moved in all.filter(|m| m.mean() > 0) {
        match sizes.iter_mut().find(|known| is_near(known.mean(), moved.mean())) {
            Some(known) => {
                known.operations += moved.operations;
                known.bytes += moved.bytes;
            }
            None => sizes.push(moved),
        }
    }
    let most = sizes.iter().max_by_key(|m| m.operations)?.mean();
    let whole = (most as f64 / 1024.0).round() as u64 * 1024;
    let bytes = if whole > 0 && whole.abs_diff(most) * 100 < most { whole } else { most };
    let few = if sizes.len() > 1 { "as in most operations of the runs" } else { "as in the runs" };
    Some((bytes, format!("objects are {}, {few} (--object-size)", format_bytes(bytes))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_judge::summary::result::Percentiles;

    fn window(phase: &str, operation: OperationKind, bytes: u64) -> Window {
        let (phase, role, operations) = (phase.to_string(), Role::Measure, 100);
        let service_ms = Percentiles { n: operations, ..Percentiles::default() };
        Window {
            phase,
            role,
            operation,
            operations,
            bytes: bytes * operations,
            service_ms,
            ..Window::default()
        }
    }

    /// Regression: the worst phase decided, even if it measured objects of another size.
    #[test]
    fn phases_with_the_size_of_the_workload_count() {
        use OperationKind::{Get, List, Put};
        let all = [
            window("small", Get, 1 << 10),
            window("large", Get, 1 << 20),
            window("large", Put, 1 << 20),
            window("large", List, 0),
        ];
        let windows: Vec<&Window> = all.iter().collect();
        let others = OtherSizes::of(&windows, 1 << 10);
        let counted: Vec<bool> = all.iter().map(|w| others.counts_window(w)).collect();
        // No other phase measured PUT.
        assert_eq!(counted, [true, false, true, true]);
        assert_eq!(OtherSizes::of(&windows, 1 << 30), OtherSizes::default(), "no phase fits");
    }
}
