//! The throughput-latency curve of the steps that found the capacity of a store.

use std::collections::BTreeMap;

use crate::text::capacity::load;
use crate::text::percentile::cell;
use plimsoll_base::units::{format_ms, format_per_s};
use plimsoll_document::{Table, terminal};
use plimsoll_judge::summary::result::{CapacityFigures, CapacityStep, Percentiles, Window};
use plimsoll_workload::schedule::Role;

/// Maximum length of a bar, in characters.
const BAR: f64 = 12.0;

/// Returns the order of a load: closed loops by operations in flight, then open loops by rate in thousandths.
fn order(step: &CapacityStep) -> (u64, u64) {
    let rate = step.offered_per_s.map_or(0, |per_s| (per_s * 1000.0).round() as u64);
    (if step.in_flight.is_some() { 0 } else { rate }, step.in_flight.unwrap_or(0))
}

/// Returns a percentile of one step, or its range over several steps: percentiles have no mean.
fn percentile(steps: &[&Percentiles], name: &str) -> String {
    if let [one] = steps {
        return cell(one, name);
    }
    let Some(found) = steps.iter().map(|step| step.get(name)).collect::<Option<Vec<f64>>>() else {
        return "-".into();
    };
    let (least, most) = found.iter().fold((f64::MAX, 0.0_f64), |(a, b), ms| (a.min(*ms), b.max(*ms)));
    format!("{}-{}", format_ms(least), format_ms(most))
}

/// Describes the results of the steps of one load: `meets`, `misses`, `meets 2 of 3`, and the state of the client.
fn remarks(steps: &[&CapacityStep]) -> String {
    let all = steps.len();
    let of = |found: usize, text: &str| match found {
        0 => None,
        n if n == all => Some(text.to_string()),
        n => Some(format!("{text} {n} of {all}")),
    };
    let is_open = steps.iter().any(|step| step.in_flight.is_none());
    let met = steps.iter().filter(|step| step.missed.is_none()).count();
    let judged = if !is_open { None } else { of(met, "meets").or(Some("misses".into())) };
    let limited = of(steps.iter().filter(|step| step.client_limited.is_some()).count(), "client-limited");
    let paused = of(steps.iter().filter(|step| step.paused_share > 0.05).count(), "client paused");
    [judged, limited, paused].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Returns the mean rate of the steps of one load, or its range if the store had several levels.
fn level(per_s: &[f64]) -> String {
    let (least, most) = per_s.iter().fold((f64::MAX, 0.0_f64), |(a, b), x| (a.min(*x), b.max(*x)));
    if most > 1.25 * least {
        return format!("{}-{}", format_per_s(least), format_per_s(most));
    }
    format_per_s(per_s.iter().sum::<f64>() / per_s.len().max(1) as f64)
}

/// Renders one row for each load: the mean throughput of its steps, and their percentiles.
pub fn render(found: &CapacityFigures, windows: &[Window]) -> String {
    let mut table = Table::new("", &["load#", "steps#", "achieved#", "", "p50#", "p99#", ""]);
    let mut loads: BTreeMap<(u64, u64), Vec<&CapacityStep>> = BTreeMap::new();
    for step in found.steps.iter().filter(|step| !step.recovery) {
        loads.entry(order(step)).or_default().push(step);
    }
    let mean = |steps: &[&CapacityStep]| {
        steps.iter().map(|step| step.achieved_per_s).sum::<f64>() / steps.len().max(1) as f64
    };
    let most = loads.values().map(|steps| mean(steps)).fold(1e-9, f64::max);
    for steps in loads.values() {
        let mut operations: BTreeMap<String, Vec<&Window>> = BTreeMap::new();
        for window in windows.iter().filter(|w| w.role == Role::Measure) {
            if steps.iter().any(|step| window.step == Some(step.step)) {
                operations.entry(window.operation.to_string()).or_default().push(window);
            }
        }
        let is_mixed = operations.len() > 1;
        for (operation, windows) in operations {
            let kind = if is_mixed { format!(" {operation}") } else { String::new() };
            let rates: Vec<f64> = windows.iter().map(|w| w.achieved_per_s).collect();
            let latencies: Vec<_> =
                windows.iter().map(|w| w.response_ms.as_ref().unwrap_or(&w.service_ms)).collect();
            table.row([
                load(steps[0]),
                steps.len().to_string(),
                format!("{}/s{kind}", level(&rates)),
                "#".repeat((mean(steps) / most * BAR).round() as usize),
                percentile(&latencies, "p50"),
                percentile(&latencies, "p99"),
                remarks(steps),
            ]);
        }
    }
    let note = match loads.values().any(|steps| steps.len() > 1) {
        true => "percentiles of several steps, and rates that differ by a quarter: lowest-highest\n",
        false => "",
    };
    format!("\n{}{note}", terminal::plain(&table))
}
