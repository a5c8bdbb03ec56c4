//! Properties of a trace, or of the operations that a phase would execute.

use std::collections::BTreeMap;

use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Phase;
use plimsoll_workload::schedule::arrival::Arrivals;
use plimsoll_workload::trace::Trace;

/// Lengths of the windows for which the number of operations is counted, in milliseconds.
pub const WINDOWS_MS: [u64; 4] = [100, 1_000, 10_000, 60_000];
/// Number of preceding reads among which a read of the same object counts as repeated.
pub const RECENT: usize = 100;
/// Smallest number of windows from which a variance is computed.
const MIN_WINDOWS: u64 = 20;

/// Properties of operations. The lists ascend.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Features {
    /// Number of operations of each kind.
    pub counts: BTreeMap<OperationKind, u64>,
    /// Sizes of the objects that are read at least once, in bytes.
    pub read_sizes: Vec<f64>,
    /// Number of reads of each of these objects.
    pub read_counts: Vec<f64>,
    /// Sizes of the puts, in bytes.
    pub written_sizes: Vec<f64>,
    /// Number of objects that are written.
    pub written: u64,
    /// Bytes of all whole reads.
    pub read_bytes: f64,
    /// Number of whole reads.
    pub whole_reads: f64,
    /// Lengths of the range reads, in bytes.
    pub range_lengths: Vec<f64>,
    /// Seconds between the starts of successive operations.
    pub gaps: Vec<f64>,
    /// Variance of the number of operations in a window, divided by its mean, for each of [`WINDOWS_MS`]; `None` with
    /// fewer than 20 windows.
    pub dispersion: [Option<f64>; 4],
    /// Rank correlation (Spearman) between the size of a read object and the number of its reads; `None` if either is
    /// the same for all objects.
    pub size_and_reads: Option<f64>,
    /// Share of the reads whose object is among the [`RECENT`] preceding reads.
    pub repeated_reads: f64,
    /// Start times of the operations in nanoseconds, ascending.
    pub times: Vec<u64>,
}

/// Collects operations one after the other.
#[derive(Default)]
struct Collector {
    features: Features,
    /// Size and number of reads of each object that is read.
    read: BTreeMap<u64, (u64, u64)>,
    written: std::collections::BTreeSet<u64>,
    /// Number of the last read of each object, and the number of repeated reads.
    last_read: BTreeMap<u64, usize>,
    reads: usize,
    repeated: usize,
}

impl Collector {
    fn add(&mut self, at_ns: u64, kind: OperationKind, object: u64, size: u64, length: u64) {
        *self.features.counts.entry(kind).or_insert(0) += 1;
        self.features.times.push(at_ns);
        match kind {
            OperationKind::Put => {
                self.features.written_sizes.push(size as f64);
                self.written.insert(object);
            }
            OperationKind::Get | OperationKind::GetRange | OperationKind::Head => {
                let (known, reads) = self.read.entry(object).or_insert((0, 0));
                (*known, *reads) = (size, *reads + 1);
                let before = self.last_read.insert(object, self.reads);
                self.repeated += usize::from(before.is_some_and(|at| self.reads - at <= RECENT));
                self.reads += 1;
                if kind == OperationKind::Get {
                    self.features.read_bytes += size as f64;
                    self.features.whole_reads += 1.0;
                }
                if kind == OperationKind::GetRange {
                    self.features.range_lengths.push(length as f64);
                }
            }
            _ => {}
        }
    }

    fn finish(mut self) -> Features {
        let features = &mut self.features;
        let by_object: Vec<(f64, f64)> =
            self.read.values().map(|(size, reads)| (*size as f64, *reads as f64)).collect();
        features.size_and_reads = rank_correlation(&by_object);
        features.repeated_reads = self.repeated as f64 / self.reads.max(1) as f64;
        features.read_sizes = self.read.values().map(|(size, _)| *size as f64).collect();
        features.read_counts = self.read.values().map(|(_, reads)| *reads as f64).collect();
        features.gaps = features.times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e9).collect();
        for list in [
            &mut features.read_sizes,
            &mut features.read_counts,
            &mut features.written_sizes,
            &mut features.range_lengths,
            &mut features.gaps,
        ] {
            list.sort_by(f64::total_cmp);
        }
        features.written = self.written.len() as u64;
        features.dispersion = WINDOWS_MS.map(|ms| dispersion(&features.times, ms * 1_000_000));
        self.features
    }
}

/// Returns the rank correlation of pairs (C. Spearman, "The proof and measurement of association between two things",
/// 1904), in which equal values have their mean rank; `None` if one side is constant.
pub fn rank_correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let ranks = |of: fn(&(f64, f64)) -> f64| {
        let mut order: Vec<usize> = (0..pairs.len()).collect();
        order.sort_by(|a, b| of(&pairs[*a]).total_cmp(&of(&pairs[*b])));
        let mut ranks = vec![0.0; pairs.len()];
        let mut first = 0;
        for same in order.chunk_by(|a, b| of(&pairs[*a]) == of(&pairs[*b])) {
            let mean = first as f64 + (same.len() - 1) as f64 / 2.0;
            same.iter().for_each(|index| ranks[*index] = mean);
            first += same.len();
        }
        ranks
    };
    let (x, y) = (ranks(|pair| pair.0), ranks(|pair| pair.1));
    let mean = (pairs.len() as f64 - 1.0) / 2.0;
    let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    let scale = (sum(&x, &x) * sum(&y, &y)).sqrt();
    (scale > 0.0).then(|| sum(&x, &y) / scale)
}

/// Returns the variance of the number of operations in windows of a length in nanoseconds, divided by its mean.
fn dispersion(times: &[u64], window: u64) -> Option<f64> {
    let windows = times.last()? / window;
    if windows < MIN_WINDOWS {
        return None;
    }
    let mut counts = vec![0.0; windows as usize];
    for time in times {
        if let Some(count) = counts.get_mut((time / window) as usize) {
            *count += 1.0;
        }
    }
    let mean = counts.iter().sum::<f64>() / windows as f64;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (windows - 1) as f64;
    Some(variance / mean)
}

impl Features {
    /// Returns the mean length of a range read, in bytes; `None` if there are none. A median would not keep the bytes.
    pub fn mean_range(&self) -> Option<u64> {
        let count = self.range_lengths.len();
        (count > 0).then(|| (self.range_lengths.iter().sum::<f64>() / count as f64).round().max(1.0) as u64)
    }

    /// Returns the properties of a trace.
    pub fn of_trace(trace: &Trace) -> Features {
        let mut collector = Collector::default();
        for request in trace.requests() {
            let (object, version) = (u64::from(request.object), u64::from(request.version));
            collector.add(request.at_ns, request.kind, object, trace.size(object, version), request.length);
        }
        collector.finish()
    }

    /// Returns the properties of the operations of an open loop.
    pub fn of_phase(phase: &Phase) -> Features {
        let mut collector = Collector::default();
        let mut sequence = phase.workload.sequence();
        let length = phase.limit.duration_ns.unwrap_or(0);
        let arrivals = Arrivals::of(phase, 0).into_iter().flatten().take_while(|at| *at < length);
        for (number, at_ns) in arrivals.enumerate() {
            let operation = sequence.at(number as u64);
            let dataset = phase.workload.dataset(operation.target);
            let size = dataset.size_of(operation.index, operation.version);
            collector.add(at_ns, operation.kind, operation.index, size, operation.length);
        }
        collector.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_correlation_matches_its_definition() {
        let of = |pairs: &[(f64, f64)]| rank_correlation(pairs);
        assert_eq!(of(&[(1.0, 10.0), (2.0, 20.0), (9.0, 90.0)]), Some(1.0));
        assert_eq!(of(&[(1.0, 3.0), (2.0, 2.0), (9.0, 1.0)]), Some(-1.0));
        // Ranks 0, 1, 2, 3 against 0, 1.5, 1.5, 3: 4.5 / sqrt(5 * 4.5).
        let tied = of(&[(1.0, 1.0), (2.0, 5.0), (3.0, 5.0), (4.0, 9.0)]).unwrap();
        assert!((tied - 4.5 / 22.5f64.sqrt()).abs() < 1e-12, "{tied}");
        assert_eq!((of(&[]), of(&[(1.0, 2.0), (1.0, 3.0)])), (None, None));
    }
}
