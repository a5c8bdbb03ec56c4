//! Recorded requests, which a replay repeats: their times, operations and objects.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Operation, OperationKind, Target};
use crate::scan::Scan;
use plimsoll_base::rng::Stream;

/// Logs of requests, and how to read them; or Parquet files, and who scans them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Logs {
    /// Files and directories with files.
    pub files: Vec<PathBuf>,
    /// Name of the format; `None` to detect it.
    pub format: Option<String>,
    /// Names of columns of a table that differ from the standard ones: the standard name and the other one.
    pub columns: Vec<(String, String)>,
    /// Scan of the files; `None` if they are logs.
    pub scan: Option<Scan>,
}

/// A trace that a phase repeats.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// Logs of the trace.
    pub logs: Logs,
    /// Factor by which the requests are faster than recorded.
    pub speed: f64,
    /// True if the phase repeats the requests; false if it writes the objects that existed before the first one.
    pub repeats: bool,
    /// Trace at this speed.
    pub trace: Arc<Trace>,
    /// Remarks about what the logs lack.
    pub notes: Vec<String>,
}

/// A recorded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// Time of the request, in nanoseconds since the first one.
    pub at_ns: u64,
    /// Kind of the operation.
    pub kind: OperationKind,
    /// Number of the object; 0 for a listing.
    pub object: u32,
    /// Version that a put writes or a read expects, counted from 0 for each object.
    pub version: u32,
    /// Number of bytes that a range read requests; 0 for other operations.
    pub length: u64,
    /// First byte of a range read; `None` if it is unknown.
    pub start: Option<u64>,
}

/// Recorded requests in order of time. Objects are numbered from 0; those that existed before the first request have
/// the lowest numbers.
#[derive(Clone, PartialEq, Eq)]
pub struct Trace {
    requests: Vec<Recorded>,
    /// Number of objects that existed before the first request.
    existing: u64,
    /// Index into `sizes` of the first version of each object, and the number of sizes.
    first: Vec<usize>,
    /// Sizes of all versions of all objects, in bytes.
    sizes: Vec<u64>,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({} requests, {} objects)", self.requests.len(), self.objects())
    }
}

impl Trace {
    /// Creates a trace. `sizes` has the sizes of the versions of each object, in bytes. The requests must be in order
    /// of time and name versions of these objects.
    pub fn new(requests: Vec<Recorded>, existing: u64, sizes: impl IntoIterator<Item = Vec<u64>>) -> Trace {
        let (mut first, mut all) = (vec![0], Vec::new());
        for versions in sizes {
            all.extend(versions);
            first.push(all.len());
        }
        Trace { requests, existing, first, sizes: all }
    }

    /// Returns the requests, in order of time.
    pub fn requests(&self) -> &[Recorded] {
        &self.requests
    }

    /// Returns the number of objects.
    pub fn objects(&self) -> u64 {
        self.first.len() as u64 - 1
    }

    /// Returns the number of objects that existed before the first request.
    pub fn existing(&self) -> u64 {
        self.existing
    }

    /// Returns the sizes of the versions of an object, in bytes; none for an unknown object.
    pub fn versions(&self, object: u64) -> &[u64] {
        let object = object as usize;
        match self.first.get(object..object + 2) {
            Some(&[start, end]) => &self.sizes[start..end],
            _ => &[],
        }
    }

    /// Returns the size of a version of an object in bytes, or [`UNKNOWN_SIZE`].
    pub fn size(&self, object: u64, version: u64) -> u64 {
        self.versions(object).get(version as usize).copied().unwrap_or(UNKNOWN_SIZE)
    }

    /// Returns the smallest and the largest size in bytes.
    pub fn size_range(&self) -> (u64, u64) {
        let (min, max) = (self.sizes.iter().min(), self.sizes.iter().max());
        (min.copied().unwrap_or(0), max.copied().unwrap_or(0))
    }

    /// Returns the mean size of all versions in bytes.
    pub fn mean_size(&self) -> f64 {
        self.sizes.iter().map(|size| *size as f64).sum::<f64>() / self.sizes.len().max(1) as f64
    }

    /// Returns the time of the last request, in nanoseconds since the first one.
    pub fn length_ns(&self) -> u64 {
        self.requests.last().map_or(0, |request| request.at_ns)
    }

    /// Returns the mean rate in requests per second.
    pub fn rate_per_s(&self) -> f64 {
        let gaps = self.requests.len().saturating_sub(1).max(1) as f64;
        gaps * 1e9 / self.length_ns().max(1) as f64
    }

    /// Returns the trace at another speed: times are divided by it.
    #[must_use]
    pub fn at_speed(mut self, speed: f64) -> Trace {
        for request in &mut self.requests {
            request.at_ns = (request.at_ns as f64 / speed).round() as u64;
        }
        self
    }

    /// Returns whether the requests can be repeated from the beginning: none of them changes an object.
    pub fn only_reads(&self) -> bool {
        self.requests.iter().all(|request| request.kind.reads() && !request.kind.rewrites())
    }

    /// Returns operation number `i` of a replay, which begins again after the last request. `starts` selects the first
    /// bytes of range reads of which the log has none. The content of an object with several versions is unknown to its
    /// readers, because a write may overtake them.
    pub fn operation(&self, i: u64, starts: Stream) -> Operation {
        let Recorded { kind, object, version, length, start, .. } =
            self.requests[i as usize % self.requests.len()];
        let index = u64::from(object);
        let versions = self.versions(index);
        let is_read = matches!(kind, OperationKind::Get | OperationKind::GetRange | OperationKind::Head);
        let version = if is_read && versions.len() > 1 { UNKNOWN_VERSION } else { u64::from(version) };
        let least = versions.iter().min().copied().unwrap_or(0);
        let length = length.min(least);
        let range_start = match kind {
            OperationKind::GetRange => {
                start.unwrap_or_else(|| starts.below(i, least - length + 1)).min(least - length)
            }
            _ => 0,
        };
        Operation { kind, target: Target::Read, index, version, range_start, length }
    }
}

/// Version of a content that is not known.
pub const UNKNOWN_VERSION: u64 = u64::MAX;

/// Value that stands for an unknown object size.
pub const UNKNOWN_SIZE: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn request(at_ns: u64, kind: OperationKind, object: u32, version: u32, length: u64) -> Recorded {
        Recorded { at_ns, kind, object, version, length, start: None }
    }

    fn trace() -> Trace {
        let requests = vec![
            request(0, OperationKind::Get, 0, 0, 0),
            request(1_000, OperationKind::GetRange, 0, 0, 30),
            request(3_000, OperationKind::Put, 1, 0, 0),
            request(4_000, OperationKind::Put, 1, 1, 0),
            request(5_000, OperationKind::Get, 1, 1, 0),
        ];
        Trace::new(requests, 1, [vec![100], vec![7, 9]])
    }

    #[test]
    fn operations_have_the_versions_and_ranges_of_the_requests() {
        let trace = trace();
        let at = |i| trace.operation(i, Stream::new(1, "ranges"));
        assert_eq!((at(0).index, at(0).version, at(0).length), (0, 0, 0));
        assert!((at(1).length, at(1).range_start <= 70) == (30, true));
        let recorded = Recorded { start: Some(60), ..request(0, OperationKind::GetRange, 0, 0, 30) };
        let of = |start| Trace::new(vec![Recorded { start, ..recorded }], 1, [vec![100]]);
        let starts =
            [Some(60), Some(90)].map(|start| of(start).operation(0, Stream::new(1, "ranges")).range_start);
        assert_eq!(starts, [60, 70], "the recorded one, within the object");
        assert_eq!((at(3).index, at(3).version), (1, 1));
        assert_eq!(at(4).version, UNKNOWN_VERSION);
        assert_eq!(
            (trace.size(1, 1), trace.size(1, UNKNOWN_VERSION), trace.size(2, 0)),
            (9, UNKNOWN_SIZE, UNKNOWN_SIZE)
        );
        assert_eq!((trace.objects(), trace.size_range()), (2, (7, 100)));
    }

    #[test]
    fn a_higher_speed_shortens_the_gaps() {
        let fast = trace().at_speed(2.0);
        assert_eq!(
            fast.requests().iter().map(|r| r.at_ns).collect::<Vec<_>>(),
            [0, 500, 1_500, 2_000, 2_500]
        );
        assert_eq!((fast.length_ns(), fast.rate_per_s()), (2_500, 4.0 * 1e9 / 2_500.0));
    }
}
