//! Comparison of the same operation on differently named keys, with a verdict from the repeats.

use plimsoll_base::units::{format_ms, format_per_s};
use plimsoll_document::{Table, terminal};
use plimsoll_judge::summary::arrangement::Arrangement;
use plimsoll_judge::summary::merge::merge;
use plimsoll_judge::summary::result::Window;
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Role;

/// Name of the group that has the default keys.
const ONE: &str = "one prefix";

/// Minimum number of repeats for a verdict. The probability that five repeats of one group are all above or all
/// below five of another by chance is 2 in 252.
const REPEATS: usize = 5;

/// Windows of one operation on one group of keys.
struct Group<'a> {
    name: &'a str,
    windows: Vec<&'a Window>,
}

impl Group<'_> {
    /// Returns the rate of each repeat, with its blocks merged.
    fn rates(&self) -> Vec<f64> {
        let mut repeats: Vec<u32> = self.windows.iter().map(|w| w.repeat).collect();
        repeats.sort_unstable();
        repeats.dedup();
        let of = |repeat: u32| -> Vec<&Window> {
            self.windows.iter().copied().filter(|w| w.repeat == repeat).collect()
        };
        repeats
            .into_iter()
            .filter_map(|r| merge(&of(r), Arrangement::Consecutive))
            .map(|w| w.achieved_per_s)
            .collect()
    }

    /// Returns the lowest and the highest rate of the repeats.
    fn range(&self) -> (f64, f64) {
        let rates = self.rates();
        (rates.iter().copied().fold(f64::INFINITY, f64::min), rates.iter().copied().fold(0.0, f64::max))
    }
}

/// Renders a comparison for each operation that was measured on several groups of keys; empty if there is none.
pub fn render(windows: &[Window]) -> String {
    let measured = || windows.iter().filter(|w| w.role == Role::Measure && w.step.is_none());
    if measured().all(|w| w.key_group.is_none()) {
        return String::new();
    }
    let mut operations: Vec<OperationKind> = measured().map(|w| w.operation).collect();
    operations.sort_unstable();
    operations.dedup();
    let mut table = Table::new("", &["operation", "keys", "per second#", "vs first#", "p50#", "p99#"]);
    let mut verdicts = Vec::new();
    for operation in operations {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for window in measured().filter(|w| w.operation == operation) {
            let name = window.key_group.as_deref().unwrap_or(ONE);
            match groups.iter_mut().find(|g| g.name == name) {
                Some(group) => group.windows.push(window),
                None => groups.push(Group { name, windows: vec![window] }),
            }
        }
        if groups.len() > 1 {
            verdicts.push(compare(operation, &groups, &mut table));
        }
    }
    if verdicts.is_empty() {
        return String::new();
    }
    format!("\n{}\n{}", terminal::plain(&table), verdicts.concat())
}

/// Adds the rows of an operation to the table. Returns the verdict.
fn compare(operation: OperationKind, groups: &[Group<'_>], table: &mut Table) -> String {
    let base = groups[0].range();
    let mut differing = Vec::new();
    let repeats = groups.iter().map(|g| g.rates().len()).min().unwrap_or(0);
    let base_rate = merge(&groups[0].windows, Arrangement::Consecutive).map_or(0.0, |w| w.achieved_per_s);
    for group in groups {
        let Some(all) = merge(&group.windows, Arrangement::Consecutive) else { continue };
        let ratio = all.achieved_per_s / base_rate.max(f64::MIN_POSITIVE);
        let (low, high) = group.range();
        let ms = |name: &str| all.service_ms.get(name).map_or("-".into(), format_ms);
        table.row([
            operation.to_string(),
            group.name.to_string(),
            format!("{} [{}..{}]", format_per_s(all.achieved_per_s), format_per_s(low), format_per_s(high)),
            format!("{ratio:.3}x"),
            ms("p50"),
            ms("p99"),
        ]);
        if low > base.1 || high < base.0 {
            let word = if ratio > 1.0 { "faster" } else { "slower" };
            let percent = (ratio - 1.0).abs() * 100.0;
            differing.push(format!("{} {percent:.1}% {word} than {}", group.name, groups[0].name));
        }
    }
    match (repeats, differing.is_empty()) {
        (0..REPEATS, _) => {
            format!(
                "{operation}: no verdict with fewer than {REPEATS} repeats; use --set repeats={REPEATS}\n"
            )
        }
        (_, true) => {
            format!("{operation}: no difference shown; the ranges of the {repeats} repeats overlap\n")
        }
        (_, false) => format!(
            "{operation}: {}; the ranges of the {repeats} repeats do not overlap\n",
            differing.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(rates: &[(&str, [f64; 5])]) -> Vec<Window> {
        let window = |keys: &str, (repeat, rate): (usize, f64)| Window {
            role: Role::Measure,
            operation: plimsoll_workload::OperationKind::Get,
            key_group: (keys != ONE).then(|| keys.to_string()),
            repeat: repeat as u32,
            achieved_per_s: rate,
            window_s: 10.0,
            ..Window::default()
        };
        rates
            .iter()
            .flat_map(|(keys, rates)| rates.iter().copied().enumerate().map(|r| window(keys, r)))
            .collect()
    }

    #[test]
    fn a_verdict_needs_repeats_that_agree() {
        let first = (ONE, [100.0, 105.0, 110.0, 115.0, 120.0]);
        let overlap = render(&windows(&[first, ("random prefixes", [115.0, 120.0, 125.0, 128.0, 130.0])]));
        assert!(overlap.contains("get: no difference shown") && overlap.contains("1.124x"), "{overlap}");
        let disjoint = render(&windows(&[first, ("random prefixes", [200.0, 220.0, 220.0, 230.0, 230.0])]));
        assert!(disjoint.contains("random prefixes 100.0% faster than one prefix"), "{disjoint}");
        assert!(render(&windows(&[(ONE, [1.0; 5])])).is_empty(), "nothing to compare");
    }

    /// Regression test: blocks of one repeat counted as repeats, which produced verdicts by chance.
    #[test]
    fn blocks_are_not_repeats() {
        let mut all = windows(&[(ONE, [100.0; 5]), ("random prefixes", [200.0; 5])]);
        for (i, window) in all.iter_mut().enumerate() {
            (window.repeat, window.block) = (0, i as u32 % 5);
        }
        assert!(render(&all).contains("no verdict"), "{}", render(&all));
    }
}
