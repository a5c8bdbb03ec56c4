//! Do key names matter? The same operation on differently named keys, side by side, with a verdict from the repeats.

use comfy_table::{CellAlignment, Table, presets};

use super::table::lines;
use crate::summary::merge::{How, merge};
use crate::summary::result::Window;
use crate::units::{format_ms, format_per_s};

const ONE: &str = "one prefix";

/// The windows of one operation on one group of keys, one per repeat.
struct Group<'a> {
    name: &'a str,
    windows: Vec<&'a Window>,
}

impl Group<'_> {
    /// Lowest and highest rate of the repeats.
    fn range(&self) -> (f64, f64) {
        let rates = || self.windows.iter().map(|w| w.achieved_per_s);
        (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max))
    }
}

/// One comparison per operation that was measured on several groups of keys; empty where there is none.
pub fn render(windows: &[Window]) -> String {
    let measured = || windows.iter().filter(|w| w.role == "measure" && w.step.is_none());
    if measured().all(|w| w.key_group.is_none()) {
        return String::new();
    }
    let mut operations: Vec<&str> = measured().map(|w| w.operation.as_str()).collect();
    operations.sort_unstable();
    operations.dedup();
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["operation", "keys", "per second", "against the first", "p50", "p99"]);
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
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("\n{}\n{}", lines(&table), verdicts.concat())
}

/// Adds the rows of an operation and says what they show.
fn compare(operation: &str, groups: &[Group<'_>], table: &mut Table) -> String {
    let base = groups[0].range();
    let mut differing = Vec::new();
    let repeats = groups.iter().map(|g| g.windows.len()).min().unwrap_or(0);
    let base_rate = merge(&groups[0].windows, How::Consecutive).map_or(0.0, |w| w.achieved_per_s);
    for group in groups {
        let Some(all) = merge(&group.windows, How::Consecutive) else { continue };
        let ratio = all.achieved_per_s / base_rate.max(f64::MIN_POSITIVE);
        let (low, high) = group.range();
        let ms = |name: &str| all.service_ms.get(name).map_or("-".into(), format_ms);
        table.add_row([
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
        (0..3, _) => format!("{operation}: no verdict from fewer than three repeats (repeats = 3)\n"),
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

    fn windows(rates: &[(&str, [f64; 3])]) -> Vec<Window> {
        let window = |keys: &str, rate: f64| Window {
            role: "measure".into(),
            operation: "get".into(),
            key_group: (keys != ONE).then(|| keys.to_string()),
            achieved_per_s: rate,
            window_s: 10.0,
            ..Window::default()
        };
        rates.iter().flat_map(|(keys, rates)| rates.map(|rate| window(keys, rate))).collect()
    }

    #[test]
    fn a_verdict_needs_repeats_that_agree() {
        let overlap =
            render(&windows(&[(ONE, [100.0, 110.0, 120.0]), ("random prefixes", [115.0, 125.0, 130.0])]));
        assert!(overlap.contains("get: no difference shown") && overlap.contains("1.121x"), "{overlap}");
        let apart =
            render(&windows(&[(ONE, [100.0, 110.0, 120.0]), ("random prefixes", [200.0, 230.0, 230.0])]));
        assert!(apart.contains("random prefixes 100.0% faster than one prefix"), "{apart}");
        let few = render(&windows(&[(ONE, [1.0; 3]), ("random prefixes", [1.0; 3])])[2..4]);
        assert!(few.contains("no verdict"), "{few}");
        assert!(render(&windows(&[(ONE, [1.0; 3])])).is_empty(), "nothing to compare");
    }
}
