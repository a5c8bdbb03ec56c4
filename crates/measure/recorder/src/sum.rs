//! Sums of histograms, for readers that add millions of them: the counts go from the serialized or sparse form
//! directly into one array, without a full histogram for each.

use std::ops::Range;

use super::histogram::{Latencies, with_room};
use super::sparse::{BUCKETS, Sparse, each_bucket, edges_us};

/// Sum of histograms.
#[derive(Debug, Clone, Default)]
pub struct HistogramSum {
    /// Count of each bucket; empty before the first value.
    counts: Vec<u64>,
    /// Half-open range of the buckets that may have counts.
    used: Range<usize>,
}

impl HistogramSum {
    /// Adds the output of [`Latencies::to_bytes`]. Returns `None` if the bytes are not a histogram or have other
    /// bounds; the sum is then undefined. `scratch` is reused from call to call.
    pub fn add_bytes(&mut self, bytes: &[u8], scratch: &mut Vec<u8>) -> Option<()> {
        if bytes.is_empty() {
            return Some(());
        }
        self.allocate();
        let (counts, used) = (&mut self.counts, &mut self.used);
        each_bucket(bytes, scratch, |bucket, n| {
            counts[bucket] = counts[bucket].saturating_add(n);
            *used = used.start.min(bucket)..used.end.max(bucket + 1);
        })
    }

    /// Adds a sparse histogram.
    pub fn add_sparse(&mut self, histogram: &Sparse) {
        let Some((first, last)) = histogram.ends() else { return };
        self.allocate();
        self.used = self.used.start.min(first.into())..self.used.end.max(usize::from(last) + 1);
        for (bucket, n) in histogram.iter() {
            let count = &mut self.counts[usize::from(bucket)];
            *count = count.saturating_add(u64::from(n));
        }
    }

    /// Iterates over the non-empty buckets in order: the number of the bucket and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.used.clone().map(|bucket| (bucket, self.counts[bucket])).filter(|(_, n)| *n > 0)
    }

    /// Removes all values, and keeps the memory.
    pub fn clear(&mut self) {
        if let Some(used) = self.counts.get_mut(self.used.clone()) {
            used.fill(0);
        }
        self.used = Range { start: BUCKETS, end: 0 };
    }

    /// Allocates the counts. The system hands out zeroed memory, of which only the used part is touched.
    fn allocate(&mut self) {
        if self.counts.is_empty() {
            (self.counts, self.used) = (vec![0; BUCKETS], Range { start: BUCKETS, end: 0 });
        }
    }

    /// Adds another sum.
    pub fn add(&mut self, other: &HistogramSum) {
        if other.used.is_empty() {
            return;
        }
        self.allocate();
        self.used = self.used.start.min(other.used.start)..self.used.end.max(other.used.end);
        for bucket in other.used.clone() {
            self.counts[bucket] = self.counts[bucket].saturating_add(other.counts[bucket]);
        }
    }

    /// Returns the sum as latencies. Minimum, maximum and mean have the resolution of the buckets.
    pub fn latencies(&self) -> Latencies {
        let last = self.used.clone().rev().find(|bucket| self.counts[*bucket] > 0);
        let mut histogram = with_room(last.map_or(1, |bucket| edges_us(bucket).0));
        for (bucket, n) in self.buckets() {
            histogram.saturating_record_n(edges_us(bucket).0.max(1), n);
        }
        Latencies::of(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_base::rng::Stream;

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
        let mut sparse = HistogramSum::default();
        sparse.add_sparse(&Sparse::from_bytes(&sum.latencies().to_bytes(), &mut scratch).unwrap());
        let before: Vec<(usize, u64)> = sparse.buckets().collect();
        assert_eq!(before.iter().map(|(_, n)| n).sum::<u64>(), merged.len());
        sparse.clear();
        assert_eq!(sparse.buckets().next(), None);
        before.iter().for_each(|(bucket, n)| {
            sparse.add_sparse(&[(*bucket as u16, *n as u32)].into_iter().collect());
        });
        for sum in [&sum, &twice, &sparse] {
            assert_eq!(sum.latencies().to_bytes(), merged.to_bytes());
            assert_eq!(sum.latencies().len(), merged.len());
        }
        assert!(HistogramSum::default().latencies().is_empty());
        assert_eq!(sum.add_bytes(b"not a histogram", &mut scratch), None);
    }
}
