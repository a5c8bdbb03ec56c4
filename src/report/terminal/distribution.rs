//! The distribution of one row's latencies as bars, on a logarithmic axis.

use crate::summary::merge::latencies;
use crate::summary::result::Window;
use crate::units::{format_count, format_ms};

const WIDTH: usize = 40;
/// Edges of the bars: 1, 1.5, 2, 3, 5, 7 and their tenfolds, in microseconds.
const STEPS: [u64; 6] = [10, 15, 20, 30, 50, 70];

/// Smallest, mean, largest, and one bar per occupied interval between them.
pub fn render(window: &Window) -> String {
    let (what, name, shown) = match &window.response_ms {
        Some(response) => ("response", "response", response),
        None => ("service", "service", &window.service_ms),
    };
    let all = latencies(window, name, Some(shown));
    let Some(histogram) = all.histogram() else { return String::new() };
    let edges: Vec<u64> =
        (0..9u32).flat_map(|e| STEPS.map(|s| s * 10u64.pow(e) / 10)).filter(|e| *e > 0).collect();
    let mut bars: Vec<(u64, u64, u64)> =
        edges.windows(2).map(|w| (w[0], w[1], histogram.count_between(w[0], w[1] - 1))).collect();
    if let Some(last) = bars.last_mut() {
        last.2 += histogram.count_between(last.1, u64::MAX);
    }
    let first = bars.iter().position(|b| b.2 > 0).unwrap_or(0);
    let last = bars.iter().rposition(|b| b.2 > 0).unwrap_or(0);
    let most = bars.iter().map(|b| b.2).max().unwrap_or(1).max(1);
    let ms = |ns: Option<u64>| ns.map_or("-".into(), |ns| format_ms(ns as f64 / 1e6));
    let mut out = format!(
        "\n{} {} {what}: min {}, mean {}, max {} ms of {}\n",
        window.phase,
        window.operation,
        ms(all.min_ns()),
        all.mean_ns().map_or("-".into(), |ns| format_ms(ns / 1e6)),
        ms(all.max_ns()),
        format_count(all.len())
    );
    for (from, to, count) in &bars[first..=last] {
        let width = (*count as f64 / most as f64 * WIDTH as f64).ceil() as usize;
        let bar = "#".repeat(width);
        out.push_str(&format!(
            "{:>9} .. {:<9} {bar:WIDTH$} {:>10}\n",
            format_ms(*from as f64 / 1e3),
            format_ms(*to as f64 / 1e3),
            format_count(*count)
        ));
    }
    out
}
