//! Percentiles of merged histograms. A percentile is reported only if it has enough samples; if censoring makes
//! it uncertain, only its lower bound is.

use std::borrow::Cow;

use super::result::Percentiles;
use plimsoll_recorder::histogram::Latencies;

/// Reported percentiles: name and quantile (0 to 1).
pub const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];

/// Returns the number of samples that percentile `q` needs, so that ten lie beyond it (docs/method.md, "Percentiles").
pub fn samples_needed(q: f64) -> u64 {
    (10.0 / (1.0 - q)).round() as u64
}

/// Converts nanoseconds to milliseconds, rounded to whole microseconds, the resolution of the histogram.
fn ms(ns: u64) -> f64 {
    ((ns + 500) / 1_000) as f64 / 1_000.0
}

/// Returns the percentiles of fully observed latencies.
pub fn percentiles(latencies: &Latencies) -> Percentiles {
    with_censored(latencies, &Latencies::default())
}

/// Returns the percentiles of latencies of which some (`censored`) are known only to exceed the time waited.
///
/// The true value of a censored latency lies between its wait and infinity. A percentile is reported if both
/// ends give the same bucket; otherwise `lower_bounds` has its lower end, which it equals or exceeds.
pub fn with_censored(observed: &Latencies, censored: &Latencies) -> Percentiles {
    let n = observed.len() + censored.len();
    let mut out = Percentiles { n, ..Percentiles::default() };
    if n == 0 {
        return out;
    }
    let mut lowest = Cow::Borrowed(observed);
    if !censored.is_empty() {
        lowest.to_mut().merge(censored);
    }
    for (name, q) in PERCENTILES {
        if n < samples_needed(q) {
            out.samples_needed.insert(name.into(), samples_needed(q));
            continue;
        }
        let Some(low) = lowest.quantile_ns(q) else { continue };
        // With the censored values at infinity, only the observed ones have a rank.
        let rank = (q * n as f64).ceil();
        let high = (rank - 0.5) / observed.len().max(1) as f64;
        let known = censored.is_empty()
            || (rank <= observed.len() as f64 && observed.bucket_us(high) == lowest.bucket_us(q));
        if known {
            set(&mut out, name, ms(low));
        } else {
            out.lower_bounds.insert(name.into(), ms(low));
        }
    }
    out.min = lowest.min_ns().map(ms);
    if censored.is_empty() {
        out.mean = observed.mean_ns().map(|ns| ns / 1e6);
        out.max = observed.max_ns().map(ms);
    } else if let Some(max) = lowest.max_ns() {
        out.lower_bounds.insert("max".into(), ms(max));
    }
    out
}

fn set(out: &mut Percentiles, name: &str, value: f64) {
    let place = match name {
        "p50" => &mut out.p50,
        "p90" => &mut out.p90,
        "p95" => &mut out.p95,
        "p99" => &mut out.p99,
        "p99.9" => &mut out.p99_9,
        _ => return,
    };
    *place = Some(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn of(values: impl IntoIterator<Item = u64>) -> Latencies {
        let mut out = Latencies::default();
        values.into_iter().for_each(|v| out.record(v));
        out
    }

    #[test]
    fn a_percentile_needs_ten_samples_beyond_it() {
        let shown = percentiles(&of((1..=999).map(|i| i * MS)));
        assert_eq!(
            (shown.p99, shown.samples_needed["p99"], shown.samples_needed["p99.9"]),
            (None, 1000, 10_000)
        );
        assert!(shown.p95.is_some());
        let shown = percentiles(&of((1..=1000).map(|i| i * MS)));
        assert!((shown.p99.unwrap() / 990.0 - 1.0).abs() < 0.001);
        assert_eq!((shown.min, shown.max, shown.mean), (Some(1.0), Some(1000.0), Some(500.5)));
    }

    #[test]
    fn a_percentile_among_censored_values_has_only_a_lower_bound() {
        // 900 operations took 1..900 ms and 100 were abandoned at 300 ms, so every rank beyond 300 is uncertain.
        let shown = with_censored(&of((1..=900).map(|i| i * MS)), &of(std::iter::repeat_n(300 * MS, 100)));
        assert_eq!(shown.n, 1000);
        assert!((shown.lower_bounds["p50"] - 400.0).abs() < 1.0, "{shown:?}");
        assert!((shown.lower_bounds["p90"] - 800.0).abs() < 1.0);
        assert!(shown.p50.is_none() && shown.p99.is_none() && shown.mean.is_none() && shown.max.is_none());
    }

    #[test]
    fn percentiles_below_all_censored_values_are_exact() {
        let shown = with_censored(&of((1..=900).map(|i| i * MS)), &of(std::iter::repeat_n(2_000 * MS, 100)));
        assert!((shown.p50.unwrap() / 500.0 - 1.0).abs() < 0.001);
        assert!((shown.p90.unwrap() / 900.0 - 1.0).abs() < 0.001, "the last observed value");
        assert!((shown.lower_bounds["p99"] / 2_000.0 - 1.0).abs() < 0.001);
    }

    #[test]
    fn without_samples_there_are_no_percentiles() {
        assert_eq!(percentiles(&Latencies::default()), Percentiles::default());
        let all_lost = with_censored(&Latencies::default(), &of(std::iter::repeat_n(MS, 100)));
        assert!(all_lost.p50.is_none() && all_lost.lower_bounds.contains_key("p50"));
    }
}
