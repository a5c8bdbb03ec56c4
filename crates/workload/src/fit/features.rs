//! Properties of a trace, or of the operations that a phase would execute.

use std::collections::BTreeMap;

use crate::OperationKind;
use crate::schedule::Phase;
use crate::schedule::arrival::Arrivals;
use crate::trace::Trace;

/// Lengths of the windows for which the number of operations is counted, in seconds.
pub const WINDOWS_S: [u64; 3] = [1, 10, 60];
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
    /// Median length of a range read, in bytes; 0 if there are none.
    pub median_range: u64,
    /// True if range reads have several lengths.
    pub ranges_differ: bool,
    /// Seconds between the starts of successive operations.
    pub gaps: Vec<f64>,
    /// Variance of the number of operations in a window, divided by its mean, for each of [`WINDOWS_S`]; `None` with
    /// fewer than 20 windows.
    pub dispersion: [Option<f64>; 3],
}

/// Collects operations one after the other.
#[derive(Default)]
struct Collector {
    features: Features,
    /// Size and number of reads of each object that is read.
    read: BTreeMap<u64, (u64, u64)>,
    written: std::collections::BTreeSet<u64>,
    ranges: Vec<u64>,
    times: Vec<u64>,
}

impl Collector {
    fn add(&mut self, at_ns: u64, kind: OperationKind, object: u64, size: u64, length: u64) {
        *self.features.counts.entry(kind).or_insert(0) += 1;
        self.times.push(at_ns);
        match kind {
            OperationKind::Put => {
                self.features.written_sizes.push(size as f64);
                self.written.insert(object);
            }
            OperationKind::Get | OperationKind::GetRange | OperationKind::Head => {
                let (known, reads) = self.read.entry(object).or_insert((0, 0));
                (*known, *reads) = (size, *reads + 1);
                if kind == OperationKind::Get {
                    self.features.read_bytes += size as f64;
                    self.features.whole_reads += 1.0;
                }
                if kind == OperationKind::GetRange {
                    self.ranges.push(length);
                }
            }
            _ => {}
        }
    }

    fn finish(mut self) -> Features {
        let features = &mut self.features;
        features.read_sizes = self.read.values().map(|(size, _)| *size as f64).collect();
        features.read_counts = self.read.values().map(|(_, reads)| *reads as f64).collect();
        features.gaps = self.times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e9).collect();
        for list in [
            &mut features.read_sizes,
            &mut features.read_counts,
            &mut features.written_sizes,
            &mut features.gaps,
        ] {
            list.sort_by(f64::total_cmp);
        }
        features.written = self.written.len() as u64;
        self.ranges.sort_unstable();
        features.median_range = self.ranges.get(self.ranges.len() / 2).copied().unwrap_or(0);
        features.ranges_differ = self.ranges.first() != self.ranges.last();
        features.dispersion = WINDOWS_S.map(|seconds| dispersion(&self.times, seconds));
        self.features
    }
}

/// Returns the variance of the number of operations in windows of a length, divided by its mean.
fn dispersion(times: &[u64], seconds: u64) -> Option<f64> {
    let window = seconds * 1_000_000_000;
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
