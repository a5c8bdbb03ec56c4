//! Latency distribution of one row, drawn as bars on a logarithmic axis.

use hdrhistogram::Histogram;

use crate::text::percentile::cell;
use plimsoll_base::units::{format_count, format_ms};
use plimsoll_judge::summary::latencies::of_histogram;
use plimsoll_judge::summary::result::Window;

const WIDTH: usize = 40;
/// Edges of the bars in tenths of a microsecond, to be multiplied by powers of ten: 1, 1.5, 2, 3, 5 and 7 us,
/// 10 us and so on.
const STEPS: [u64; 6] = [10, 15, 20, 30, 50, 70];

/// Lower edge, upper edge (exclusive), both in microseconds, and count.
type Bar = (u64, u64, u64);

fn nice_edges() -> Vec<u64> {
    (0..9u32).flat_map(|e| STEPS.map(|s| s * 10u64.pow(e) / 10)).filter(|e| *e > 0).collect()
}

/// Returns the edges of ten equal bars over the middle 99.8% of the values, and of one bar on either side for
/// the rest.
fn narrow_edges(histogram: &Histogram<u64>) -> Vec<u64> {
    let (low, high) = (histogram.value_at_quantile(0.001), histogram.value_at_quantile(0.999));
    let step = ((high - low) / 10).max(1);
    let mut edges = vec![histogram.min().min(low)];
    edges.extend((1..=10).map(|k| low + k * step));
    edges.push((histogram.max() + 1).max(high + 1));
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// Counts the values in each bar. A bucket of the histogram counts entirely in the bar that contains its lowest value.
fn counted(histogram: &Histogram<u64>, edges: &[u64]) -> Vec<Bar> {
    let mut bars: Vec<Bar> = edges.windows(2).map(|w| (w[0], w[1], 0)).collect();
    for bucket in histogram.iter_recorded() {
        let value = histogram.lowest_equivalent(bucket.value_iterated_to());
        let at = bars.partition_point(|bar| bar.1 <= value).min(bars.len() - 1);
        bars[at].2 += bucket.count_at_value();
    }
    bars
}

/// Renders minimum, mean and maximum, and the bars between the first and the last non-empty one.
pub fn render(window: &Window) -> String {
    let (name, shown) = match &window.response_ms {
        Some(response) => ("response", response),
        None => ("service", &window.service_ms),
    };
    let all = of_histogram(window, name, Some(shown));
    let Some(histogram) = all.histogram() else { return String::new() };
    let mut bars = counted(histogram, &nice_edges());
    let share = |bar: &Bar| bar.2 as f64 / all.len() as f64;
    if bars.iter().filter(|bar| share(bar) > 0.02).count() < 3 {
        bars = counted(histogram, &narrow_edges(histogram));
    }
    let first = bars.iter().position(|b| b.2 > 0).unwrap_or(0);
    let last = bars.iter().rposition(|b| b.2 > 0).unwrap_or(0);
    let most = bars.iter().map(|b| b.2).max().unwrap_or(1).max(1);
    let mut out = format!(
        "\n{} {} {name} time: min {}, mean {}, max {} ms; {} operations\n",
        window.phase,
        window.operation,
        cell(shown, "min"),
        cell(shown, "mean"),
        cell(shown, "max"),
        format_count(all.len())
    );
    if window.censored > 0 && window.response_ms.is_some() {
        out.push_str(&format!(
            "  (excludes {} operations that were not answered in time)\n",
            format_count(window.censored)
        ));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_in_exactly_one_bar() {
        for values in
            [vec![5000; 400], (1..4000).collect::<Vec<u64>>(), (5000..5200).chain([90_000]).collect()]
        {
            let mut histogram = plimsoll_recorder::histogram::with_room(100_000);
            values.iter().for_each(|v| histogram.saturating_record(*v));
            for edges in [nice_edges(), narrow_edges(&histogram)] {
                let total: u64 = counted(&histogram, &edges).iter().map(|b| b.2).sum();
                assert_eq!(total, values.len() as u64);
            }
        }
    }
}
