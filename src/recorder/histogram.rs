//! Latency histograms: 3 significant digits, whole microseconds, 1 us to 1 h (law of measurement, 4).

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use super::sparse::unpack;

/// Longest latency that is told apart from longer ones: one hour, in microseconds.
pub const LONGEST_US: u64 = 3_600_000_000;

/// An empty histogram of the one shape that all share.
pub fn empty() -> Histogram<u64> {
    // The bounds are constants that the crate accepts; a fresh default would only differ in range.
    Histogram::new_with_bounds(1, LONGEST_US, 3)
        .unwrap_or_else(|_| unreachable!("1 us to 1 h with 3 digits is a valid shape"))
}

/// Nanoseconds as recorded: whole microseconds, rounded to nearest, between 1 and an hour.
#[inline]
pub fn micros(ns: u64) -> u64 {
    ((ns + 500) / 1_000).clamp(1, LONGEST_US)
}

/// A histogram that takes memory only once something is recorded, and keeps its extremes exactly.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    histogram: Option<Box<Histogram<u64>>>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Latencies {
    /// Records one latency.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        let histogram = self.histogram.get_or_insert_with(|| Box::new(empty()));
        histogram.saturating_record(micros(ns));
        self.min_ns = if histogram.len() == 1 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns += u128::from(ns);
    }

    /// Adds another, exactly.
    pub fn merge(&mut self, other: &Latencies) {
        let Some(theirs) = &other.histogram else { return };
        self.min_ns = if self.is_empty() { other.min_ns } else { self.min_ns.min(other.min_ns) };
        let mine = self.histogram.get_or_insert_with(|| Box::new(empty()));
        // All histograms have the one shape of `empty`, so adding cannot fail.
        let added = mine.add(theirs.as_ref());
        debug_assert!(added.is_ok());
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum_ns;
    }

    /// Replaces what was read from buckets by what is known exactly, in milliseconds; `None` leaves it as it is.
    pub fn sharpen(&mut self, min_ms: Option<f64>, max_ms: Option<f64>, mean_ms: Option<f64>) {
        let ns = |ms: f64| (ms * 1e6).round() as u64;
        if let Some(min) = min_ms {
            self.min_ns = ns(min);
        }
        if let Some(max) = max_ms {
            self.max_ns = ns(max);
        }
        if let Some(mean) = mean_ms {
            self.sum_ns = (mean * 1e6 * self.len() as f64).round() as u128;
        }
    }

    /// Number of values.
    pub fn len(&self) -> u64 {
        self.histogram.as_ref().map_or(0, |h| h.len())
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Mean in nanoseconds, exact; `None` when empty.
    pub fn mean_ns(&self) -> Option<f64> {
        let n = self.len();
        (n > 0).then(|| self.sum_ns as f64 / n as f64)
    }

    /// Smallest value in nanoseconds, exact.
    pub fn min_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.min_ns)
    }

    /// Largest value in nanoseconds, exact.
    pub fn max_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max_ns)
    }

    /// The histogram, when something was recorded.
    pub fn histogram(&self) -> Option<&Histogram<u64>> {
        self.histogram.as_deref()
    }

    /// The value of rank `ceil(q * n)`: the highest value equivalent to its bucket, in nanoseconds, and never more than the
    /// exact maximum.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        let histogram = self.histogram.as_ref().filter(|h| !h.is_empty())?;
        Some((histogram.value_at_quantile(q) * 1_000).min(self.max_ns))
    }

    /// Upper edge in microseconds of the bucket that holds the value of rank `ceil(q * n)`.
    pub fn bucket_us(&self, q: f64) -> Option<u64> {
        self.histogram.as_ref().filter(|h| !h.is_empty()).map(|h| h.value_at_quantile(q))
    }

    /// HdrHistogram V2, compressed; empty when nothing was recorded.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(histogram) = &self.histogram {
            // Writing to memory fails only for shapes that the format cannot hold.
            let _ = V2DeflateSerializer::new().serialize(histogram, &mut out);
        }
        out
    }

    /// Reads what [`Latencies::to_bytes`] wrote. Extremes and mean then have the resolution of the buckets.
    pub fn from_bytes(bytes: &[u8]) -> Option<Latencies> {
        if bytes.is_empty() {
            return Some(Latencies::default());
        }
        let mut plain = Vec::new();
        unpack(bytes, &mut plain)?;
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut plain.as_slice()).ok()?;
        let mut histogram = empty();
        histogram.add(&read).ok()?;
        let sum_ns = (histogram.mean() * histogram.len() as f64 * 1_000.0) as u128;
        let (min_ns, max_ns) = (histogram.min() * 1_000, histogram.max() * 1_000);
        Some(Latencies { histogram: Some(Box::new(histogram)), sum_ns, min_ns, max_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;
    use proptest::prelude::*;

    #[test]
    fn rounding_is_to_the_nearest_microsecond() {
        assert_eq!(
            [micros(0), micros(499), micros(1_499), micros(1_500), micros(u64::MAX / 2)],
            [1, 1, 1, 2, LONGEST_US]
        );
    }

    #[test]
    fn extremes_and_mean_are_exact() {
        let mut latencies = Latencies::default();
        [1_234_567, 89, 5_000_001].into_iter().for_each(|ns| latencies.record(ns));
        assert_eq!((latencies.min_ns(), latencies.max_ns()), (Some(89), Some(5_000_001)));
        assert_eq!(latencies.mean_ns(), Some(6_234_657.0 / 3.0));
        assert_eq!(Latencies::default().quantile_ns(0.5), None);
    }

    #[test]
    fn bytes_keep_every_bucket() {
        let mut latencies = Latencies::default();
        let stream = Stream::new(3, "h");
        (0..10_000).for_each(|i| latencies.record((stream.exponential(i) * 5e6) as u64));
        let back = Latencies::from_bytes(&latencies.to_bytes()).unwrap();
        assert_eq!(back.histogram(), latencies.histogram());
        assert!(Latencies::from_bytes(b"garbage").is_none());
    }

    proptest! {
        /// Merged histograms are the histogram of all values, and quantiles are within one bucket of the sorted truth.
        #[test]
        fn merging_loses_nothing(values in prop::collection::vec(1u64..20_000_000_000, 1..400), cut in 0usize..400) {
            let cut = cut.min(values.len());
            let fill = |values: &[u64]| {
                let mut out = Latencies::default();
                values.iter().for_each(|v| out.record(*v));
                out
            };
            let mut merged = fill(&values[..cut]);
            merged.merge(&fill(&values[cut..]));
            let whole = fill(&values);
            prop_assert_eq!(merged.histogram(), whole.histogram());
            prop_assert_eq!((merged.min_ns(), merged.max_ns(), merged.mean_ns()), (whole.min_ns(), whole.max_ns(), whole.mean_ns()));
            let mut sorted = values.clone();
            sorted.sort_unstable();
            for q in [0.5, 0.9, 0.99] {
                let truth = sorted[((q * sorted.len() as f64).ceil() as usize).max(1) - 1];
                let shown = merged.quantile_ns(q).unwrap();
                let error = (shown as f64 - truth as f64).abs();
                prop_assert!(error <= truth as f64 * 0.001 + 1_000.0, "q {} truth {} shown {}", q, truth, shown);
            }
        }
    }
}
