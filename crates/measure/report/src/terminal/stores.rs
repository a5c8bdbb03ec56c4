//! Comparison of the stores of one run: rates, latencies and their ratios, paired by block if the stores were
//! interleaved.

use plimsoll_base::units::{format_ms, format_per_s, short_names};
use plimsoll_document::{Table, terminal};
use plimsoll_judge::summary::arrangement::Arrangement;
use plimsoll_judge::summary::merge::merge;
use plimsoll_judge::summary::result::{RunResult, Window};
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Role;

/// Phase, step and operation that are compared.
type PlaceInRun<'a> = (&'a str, Option<u32>, OperationKind);

fn place(window: &Window) -> PlaceInRun<'_> {
    (&window.phase, window.step, window.operation)
}

/// Returns the geometric mean, the minimum and the maximum of a figure's ratios between windows of the same
/// repeat and block.
fn paired(
    first: &[&Window],
    other: &[&Window],
    figure: impl Fn(&Window) -> Option<f64>,
) -> Option<(f64, f64, f64)> {
    let mut logs = Vec::new();
    for a in first {
        let b = other.iter().find(|b| (b.repeat, b.block) == (a.repeat, a.block));
        let values = b.and_then(|b| Some((figure(a)?, figure(b)?))).filter(|(x, y)| *x > 0.0 && *y > 0.0);
        logs.extend(values.map(|(x, y)| (y / x).ln()));
    }
    let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
    let (low, high) =
        logs.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(*x), h.max(*x)));
    (!logs.is_empty()).then(|| (mean, low.exp(), high.exp()))
}

/// Renders the comparison of all stores with the first one of the experiment; empty if there is only one store.
pub fn render(result: &RunResult) -> String {
    let measured: Vec<&Window> = result.windows.iter().filter(|w| w.role == Role::Measure).collect();
    let mut stores = result.stores();
    stores.retain(|store| measured.iter().any(|w| w.store == *store));
    let mut places: Vec<PlaceInRun<'_>> = Vec::new();
    for window in &measured {
        if !places.contains(&place(window)) {
            places.push(place(window));
        }
    }
    if stores.len() < 2 {
        return String::new();
    }
    let names = short_names(&stores);
    let columns =
        ["phase", "operation", "store", "per second#", "mean#", "p50#", "p99#", "rate ratio#", "mean ratio#"];
    let mut table = Table::new("", &columns);
    for at in places {
        let of = |store: &str| -> Vec<&Window> {
            measured.iter().copied().filter(|w| place(w) == at && w.store == store).collect()
        };
        let first = of(stores[0]);
        for (store, name) in stores.iter().zip(&names) {
            let own = of(store);
            let Some(all) = merge(&own, Arrangement::Consecutive) else { continue };
            let shown = all.response_ms.as_ref().unwrap_or(&all.service_ms);
            let ms = |name: &str| shown.get(name).map_or("-".into(), format_ms);
            let ratio = |figure: fn(&Window) -> Option<f64>| match paired(&first, &own, figure) {
                Some((mean, low, high)) if own.len() > 1 => format!("{mean:.3} [{low:.2}..{high:.2}]"),
                Some((mean, _, _)) => format!("{mean:.3}"),
                None => "-".into(),
            };
            table.row([
                all.label(),
                at.2.to_string(),
                name.clone(),
                format_per_s(all.achieved_per_s),
                ms("mean"),
                ms("p50"),
                ms("p99"),
                ratio(|w| Some(w.achieved_per_s)),
                ratio(|w| w.response_ms.as_ref().unwrap_or(&w.service_ms).mean),
            ]);
        }
    }
    format!(
        "\nside by side\n\n{}\nratios to the first --store: geometric mean over blocks and repeats [lowest..highest]; `plimsoll compare RUN` prints confidence intervals and a verdict\n",
        terminal::plain(&table)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_judge::summary::result::RunInfo;

    #[test]
    fn ratios_are_paired_by_block() {
        let window = |store: &str, block, rate| Window {
            store: store.into(),
            phase: "get".into(),
            role: Role::Measure,
            operation: plimsoll_workload::OperationKind::Get,
            block,
            achieved_per_s: rate,
            window_s: 1.0,
            ..Window::default()
        };
        // Both stores slow down in the same way; the second is always half as fast.
        let all: Vec<Window> = [(0, 100.0), (1, 50.0), (2, 10.0)]
            .into_iter()
            .flat_map(|(block, rate)| [window("a", block, rate), window("b", block, rate / 2.0)])
            .collect();
        let result = |windows: &[Window], stores: &[&str]| {
            let stores = stores.iter().map(ToString::to_string).collect();
            let run = RunInfo { stores, ..RunInfo::default() };
            RunResult { run, windows: windows.to_vec(), ..RunResult::default() }
        };
        let text = render(&result(&all, &[]));
        assert!(text.contains("0.500 [0.50..0.50]") && text.contains("1.000 [1.00..1.00]"), "{text}");
        assert!(render(&result(&all[..1], &[])).is_empty());
        // The first store of the experiment is the base, even though the other ran first.
        let text = render(&result(&all, &["b", "a"]));
        assert!(text.contains("2.000 [2.00..2.00]") && !text.contains("0.500"), "{text}");
    }
}
