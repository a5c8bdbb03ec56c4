//! Sums of serialized histograms, for readers that add millions of them: the counts go from the serialized form
//! directly into one array, without a histogram for each.

use super::histogram::{Latencies, empty};
use super::sparse::{BUCKETS, each_bucket, edges_us};

/// Sum of histograms.
#[derive(Default)]
pub struct HistogramSum {
    /// Count of each bucket; empty before the first value.
    counts: Vec<u64>,
}

impl HistogramSum {
    /// Adds the output of [`Latencies::to_bytes`]. Returns `None` if the bytes are not a histogram or have other
    /// bounds; the sum is then undefined. `scratch` is reused from call to call.
    pub fn add_bytes(&mut self, bytes: &[u8], scratch: &mut Vec<u8>) -> Option<()> {
        if bytes.is_empty() {
            return Some(());
        }
        self.counts.resize(BUCKETS, 0);
        let counts = &mut self.counts;
        each_bucket(bytes, scratch, |bucket, n| counts[bucket] = counts[bucket].saturating_add(n))
    }

    /// Adds another sum.
    pub fn add(&mut self, other: &HistogramSum) {
        if !other.counts.is_empty() {
            self.counts.resize(BUCKETS, 0);
            self.counts.iter_mut().zip(&other.counts).for_each(|(sum, n)| *sum = sum.saturating_add(*n));
        }
    }

    /// Returns the sum as latencies. Minimum, maximum and mean have the resolution of the buckets.
    pub fn latencies(&self) -> Latencies {
        let mut histogram = empty();
        for (bucket, n) in self.counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            histogram.saturating_record_n(edges_us(bucket).0.max(1), *n);
        }
        Latencies::of(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    #[test]
    fn a_sum_of_bytes_equals_the_sum_of_the_histograms() {
        let draws = Stream::new(4, "sum");
        let (mut merged, mut sum, mut scratch) = (Latencies::default(), HistogramSum::default(), Vec::new());
        for part in 0..20 {
            let mut latencies = Latencies::default();
            (0..part * 50).for_each(|i| latencies.record((draws.exponential(part * 1_000 + i) * 3e6) as u64));
            merged.merge(&latencies);
            sum.add_bytes(&latencies.to_bytes(), &mut scratch).unwrap();
        }
        let mut twice = HistogramSum::default();
        twice.add(&HistogramSum::default());
        twice.add(&sum);
        for sum in [&sum, &twice] {
            assert_eq!(sum.latencies().to_bytes(), merged.to_bytes());
            assert_eq!(sum.latencies().len(), merged.len());
        }
        assert!(HistogramSum::default().latencies().is_empty());
        assert_eq!(sum.add_bytes(b"not a histogram", &mut scratch), None);
    }
}
